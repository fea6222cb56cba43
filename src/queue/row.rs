//! `.u.asg.tab` as plain data, from which the shell makes a q table.

use super::ids::{QueueName, Symbol, UpdateIndex, Window};
use super::table::{Queue, State, Subscriber};
use core::net::IpAddr;

/// Result of the proofs of a subscriber's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// No proof was compared yet, or the subscriber is a paper client, which sends none.
    Unknown,
    /// All its closed windows agree with the log.
    Yes,
    /// The proof of at least one of its windows differed.
    No,
}

/// One row of `.u.asg.tab`. The first ten columns are the paper's, in its order; times are nanoseconds from 2000.01.01 UTC.
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
    /// Empty for a paper client.
    pub node: Symbol,
    /// `waiting`, `live`, `rebuilding`, `taking`, `rolled` or `lost`; instead of these `leaving` for a draining node, and `away` for a node
    /// that is disconnected but within its grace period.
    pub state: &'static str,
    pub memory_percent: Option<f64>,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    /// Index of the next update that the node expects.
    pub next: Option<UpdateIndex>,
    pub verified: Verified,
    pub port: Option<u16>,
    /// Closed windows that the node holds and serves queries on.
    pub held: Vec<Window>,
    /// When a draining node ends, whether or not its windows are handed off by then.
    pub leaving_ns: Option<i64>,
    /// Updates missing from its windows because the node rejected them.
    pub refused: Option<u64>,
}

/// Column names of [`Row`], in order. None is a reserved word of q, so that a select can name each.
pub const COLUMNS: [&str; 21] = [
    "time", "handle", "tabs", "syms", "ip", "queue", "live", "rolled", "firstI", "lastI", "node", "state", "memory",
    "rows", "bytes", "nextI", "verified", "port", "held", "leaving", "refused",
];

impl Subscriber {
    /// Returns the state shown in [`Row::state`].
    pub fn shown_state(&self) -> &'static str {
        match (self.resume_by_ns, self.leaving) {
            (Some(_), _) => "away",
            (None, Some(_)) => "leaving",
            (None, None) => self.state.name(),
        }
    }
}

impl Queue {
    /// Returns the table, in order of arrival.
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
