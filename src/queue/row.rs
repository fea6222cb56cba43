//! `.u.asg.tab` as plain data, for the shell to make a q table of.

use super::ids::{QueueName, Symbol, UpdateIndex, Window};
use super::table::{Queue, State, Subscriber};
use core::net::IpAddr;

/// What the proofs of a subscriber's windows gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Nothing proved yet, or someone of the paper's kind, who proves nothing.
    Unknown,
    /// All closed windows are as logged.
    Yes,
    /// A window differed.
    No,
}

/// One row. The first ten columns are the paper's, in its order; times are nanoseconds from 2000.01.01 UTC.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub time_ns: i64,
    /// `None` shows as `0Ni`.
    pub handle: Option<i32>,
    pub tabs: Vec<Symbol>,
    pub syms: Vec<Vec<Symbol>>,
    pub ip: IpAddr,
    pub queue: QueueName,
    pub live_ns: Option<i64>,
    pub rolled_ns: Option<i64>,
    pub first_index: Option<UpdateIndex>,
    pub last_index: Option<UpdateIndex>,
    /// Empty for the paper's kind.
    pub node: Symbol,
    /// `waiting`, `live`, `rebuilding`, `taking`, `rolled` or `lost`; `leaving` instead for one that hands on what it holds, `away`
    /// while it is not connected but may come back.
    pub state: &'static str,
    pub memory_percent: Option<f64>,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    /// The next update that it expects.
    pub next: Option<UpdateIndex>,
    pub verified: Verified,
    pub port: Option<u16>,
    /// Closed windows that it holds and answers for.
    pub held: Vec<Window>,
    /// When it ends, whether or not it has handed on what it holds.
    pub leaving_ns: Option<i64>,
    /// Updates missing in its windows, because it refused them.
    pub refused: Option<u64>,
}

/// Names of the columns of [`Row`], in order. None is a word of q, so that a select can name each.
pub const COLUMNS: [&str; 21] = [
    "time", "handle", "tabs", "syms", "ip", "queue", "live", "rolled", "firstI", "lastI", "node", "state", "memory",
    "rows", "bytes", "nextI", "verified", "port", "held", "leaving", "refused",
];

impl Subscriber {
    /// What it is doing, as [`Row::state`] says it.
    pub fn shown_state(&self) -> &'static str {
        match (self.resume_by_ns, self.leaving) {
            (Some(_), _) => "away",
            (None, Some(_)) => "leaving",
            (None, None) => self.state.name(),
        }
    }
}

impl Queue {
    /// The table, in the order of coming.
    pub fn rows(&self) -> Vec<Row> {
        self.subscribers.iter().map(|sub| self.row(sub)).collect()
    }

    fn row(&self, sub: &Subscriber) -> Row {
        let status = self.status.get(&sub.id).cloned().unwrap_or_default();
        let open = self.lines.get(&sub.queue).map(|line| line.open);
        let (first_index, last_index) = match sub.state {
            State::Waiting => (None, None),
            State::Live => (open, None),
            State::Rebuilding { window, .. } | State::TakingOver { window, .. } => {
                (Some(window.first()), Some(window.last()))
            }
            State::Rolled | State::Lost => (sub.span.map(Window::first), sub.span.map(Window::last)),
        };
        Row {
            time_ns: sub.time_ns,
            handle: sub.handle.map(|handle| handle.0),
            tabs: sub.subscription.tabs.clone(),
            syms: sub.subscription.syms.clone(),
            ip: sub.ip,
            queue: sub.queue.clone(),
            live_ns: sub.live_ns,
            rolled_ns: sub.rolled_ns,
            first_index,
            last_index,
            node: sub.node.as_ref().map(|node| node.0.clone()).unwrap_or_default(),
            state: sub.shown_state(),
            memory_percent: status.memory_percent,
            rows: status.rows,
            bytes: status.bytes,
            next: status.next,
            verified: verified(sub),
            port: sub.port,
            held: sub.held.iter().map(|held| held.window).collect(),
            leaving_ns: sub.leaving.map(|leaving| leaving.by_ns),
            refused: status.refused,
        }
    }
}

fn verified(sub: &Subscriber) -> Verified {
    if sub.rejected > 0 || sub.held.iter().any(|held| held.verified == Some(false)) {
        Verified::No
    } else if !sub.held.is_empty() && sub.held.iter().all(|held| held.verified == Some(true)) {
        Verified::Yes
    } else {
        Verified::Unknown
    }
}
