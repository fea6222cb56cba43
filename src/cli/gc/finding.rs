//! What is found about one node, or about a queue without nodes, and what follows.

use crate::lease::owner::Observer;
use crate::protocol::owners::OwnerRow;
use serde::Serialize;
use std::time::Instant;

/// A node that has sent nothing for so long may be gone: it sends its status every second.
const SILENT_NS: i64 = 5_000_000_000;

/// What is known.
#[derive(Debug)]
pub enum State {
    /// The tickerplant hears from it.
    Heard,
    /// It has no connection: the queue gives it up by itself after its grace period.
    Away,
    /// The tickerplant has not heard from it; its lease is to be looked at.
    Suspect,
    /// It is silent, but its lease is renewed.
    Leased,
    /// It is silent, and its lease was over at this look.
    Gone {
        seen: Instant,
        observer: Observer,
    },
    /// It is silent and has no lease: only an operator can know.
    Unleased,
    /// A queue that no node is in, and whether the operator has named it.
    Empty {
        is_named: bool,
    },
    /// An instance of a group on which no node lives; `node` of the row has its name.
    Vacant,
    /// The store did not say.
    Unknown(String),
    /// It left meanwhile, or another process has its name.
    Left,
    /// What was due is done.
    Done(Due),
    Failed(String),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Nothing,
    Evict,
    Forget,
    Replace,
}

/// A row of the tickerplant, and what is known about it.
#[derive(Debug)]
pub struct Finding {
    pub row: OwnerRow,
    pub state: State,
}

/// A finding as programs read it.
#[derive(Serialize)]
pub struct Shown {
    node: String,
    queue: String,
    owner: String,
    state: String,
    silent_s: Option<f64>,
    updates: u64,
    lease: String,
    action: String,
}

/// Whether the tickerplant has not heard from a connected node for too long.
pub fn is_silent(row: &OwnerRow) -> bool {
    row.silent_ns.is_some_and(|ns| ns >= SILENT_NS)
}

/// Open windows first, as their updates are served by nobody and more of them come; then by queue and node.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_cached_key(|of| (of.row.state != b"live", of.row.queue.clone(), of.row.node.clone()));
}

impl Finding {
    /// What a row says by itself. `forget`: queues that an operator has named.
    pub fn of(row: OwnerRow, forget: &[String]) -> Finding {
        let state = if row.node.is_empty() && row.state.is_empty() {
            State::Empty { is_named: forget.iter().any(|queue| queue.as_bytes() == row.queue) }
        } else if row.silent_ns.is_none() {
            State::Away
        } else if !is_silent(&row) {
            State::Heard
        } else if is_owner(&row.owner) {
            State::Suspect
        } else {
            State::Unleased
        };
        Finding { row, state }
    }

    pub fn node(&self) -> String {
        text(&self.row.node)
    }

    pub fn queue(&self) -> String {
        text(&self.row.queue)
    }

    pub fn process(&self) -> String {
        text(&self.row.process)
    }

    pub fn owner(&self) -> String {
        text(&self.row.owner)
    }

    pub fn due(&self) -> Due {
        match self.state {
            State::Gone { .. } => Due::Evict,
            State::Empty { is_named: true } => Due::Forget,
            State::Vacant => Due::Replace,
            _ => Due::Nothing,
        }
    }

    /// What was due is done.
    pub fn done(&mut self) {
        self.state = State::Done(self.due());
    }

    /// Whether something could not be decided or done.
    pub fn is_failure(&self) -> bool {
        matches!(self.state, State::Unknown(_) | State::Failed(_))
    }

    pub fn lease(&self) -> String {
        match &self.state {
            State::Leased => "there".to_string(),
            State::Gone { .. } | State::Done(Due::Evict) => "over".to_string(),
            State::Unknown(why) => why.clone(),
            State::Empty { .. } | State::Vacant | State::Done(_) => String::new(),
            _ if self.row.owner.is_empty() => "none".to_string(),
            _ => "not looked at".to_string(),
        }
    }

    pub fn action(&self, is_dry: bool) -> String {
        let text = match &self.state {
            State::Gone { .. } if is_dry => "would be evicted",
            State::Gone { .. } => "to be evicted",
            State::Vacant if is_dry => "no node lives on this instance: would be ended, and launched again",
            State::Vacant => "to be ended",
            State::Empty { is_named: true } if is_dry => "would be forgotten",
            State::Empty { .. } => "no node is in it; --forget QUEUE removes it",
            State::Unleased => "silent without --owner-lease: .u.asg.evict[`node;`process] if it is gone",
            State::Leased => "hangs, or its link: the lease is renewed",
            State::Away => "not connected: the queue waits for its grace period",
            State::Left => "left meanwhile",
            State::Done(Due::Evict) => "evicted",
            State::Done(Due::Forget) => "forgotten",
            State::Done(Due::Replace) => "ended: its group launches another one",
            State::Done(Due::Nothing) => "",
            State::Failed(why) => why,
            State::Unknown(_) => "the store does not say whether it is gone",
            State::Heard | State::Suspect => "",
        };
        text.to_string()
    }

    pub fn shown(&self) -> Shown {
        Shown {
            node: self.node(),
            queue: self.queue(),
            owner: self.owner(),
            state: text(&self.row.state),
            silent_s: self.row.silent_ns.map(|ns| ns as f64 / 1e9),
            updates: self.row.updates,
            lease: self.lease(),
            action: self.action(true),
        }
    }
}

/// Whether this can be an owner's name: it becomes part of paths and keys in the store.
fn is_owner(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric)
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(node: &str, silent_s: Option<i64>, owner: &str) -> OwnerRow {
        let state = if node.is_empty() { "" } else { "rolled" };
        OwnerRow {
            node: node.into(),
            queue: b"rdb".to_vec(),
            state: state.into(),
            owner: owner.into(),
            silent_ns: silent_s.map(|s| s * 1_000_000_000),
            ..OwnerRow::default()
        }
    }

    #[test]
    fn only_silent_nodes_with_a_lease_are_looked_at() {
        let of = |row| Finding::of(row, &["other".to_string()]).state;
        assert!(matches!(of(row("a", Some(4), "a1")), State::Heard));
        assert!(matches!(of(row("a", Some(5), "a1")), State::Suspect));
        assert!(matches!(of(row("a", Some(5), "")), State::Unleased));
        assert!(matches!(of(row("a", Some(5), "../a")), State::Unleased), "no path of a store");
        assert!(matches!(of(row("a", None, "a1")), State::Away));
        assert!(matches!(of(row("", None, "")), State::Empty { is_named: false }));
    }

    #[test]
    fn only_what_is_proved_or_named_is_collected() {
        let due = |state| Finding { row: row("a", Some(9), "a1"), state }.due();
        assert_eq!(due(State::Gone { seen: Instant::now(), observer: Observer::default() }), Due::Evict);
        assert_eq!(due(State::Empty { is_named: true }), Due::Forget);
        for state in [State::Empty { is_named: false }, State::Unknown(String::new()), State::Leased, State::Unleased] {
            assert_eq!(due(state), Due::Nothing);
        }
    }

    #[test]
    fn the_live_node_comes_first() {
        let mut findings: Vec<Finding> = ["b", "a"].map(|node| Finding::of(row(node, None, ""), &[])).into();
        findings.push(Finding::of(OwnerRow { state: b"live".to_vec(), ..row("c", None, "") }, &[]));
        sort(&mut findings);
        assert_eq!(findings.iter().map(Finding::node).collect::<Vec<_>>(), ["c", "a", "b"]);
    }
}
