//! Model checker over the production processes: every order of events up to a bound. See `README.md` here.

mod explore;
mod heal;
pub(super) mod links;
mod messages;
mod node;
mod parts;
#[cfg(test)]
mod planted;
mod rules;
mod state;
mod steps;
mod tick;
mod updates;

pub use explore::{Failure, Found, Outcome, check};

use messages::Messages;
use std::sync::Arc;
use updates::Logs;

/// Bounds of a search: how often each kind of event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Nodes of each queue; at most three in all.
    pub nodes: [u8; 2],
    pub updates: u8,
    /// Kills of processes, nodes or the tickerplant.
    pub crashes: u8,
    /// Connections that break while both ends live.
    pub cuts: u8,
    /// Nodes that reach their roll threshold.
    pub rolls: u8,
    pub day_ends: u8,
    /// Nodes whose memory is filled from outside (a query, a client's variable, another program), for any time.
    pub fills: u8,
    /// Processes that connect under the first node's name.
    pub twins: u8,
    /// Updates, among those above, that exceed the first node's limits, so that it cannot receive them.
    pub too_long: u8,
    /// Times at which nothing has happened for as long as lets a group sleep.
    pub idles: u8,
    /// Calls of `.u.asg.wake[]`. With any, no update wakes a queue.
    pub wakes: u8,
    /// Calls of `.u.asg.written`.
    pub written: u8,
    /// Status reports of nodes; of them depends when the live node ends after a day.
    pub reports: u8,
}

impl Bounds {
    /// Two nodes of one queue, one update, no faults.
    pub const SMALLEST: Bounds = Bounds {
        nodes: [2, 0],
        updates: 1,
        crashes: 0,
        cuts: 0,
        rolls: 0,
        day_ends: 0,
        fills: 0,
        twins: 0,
        too_long: 0,
        idles: 0,
        wakes: 0,
        written: 0,
        reports: 0,
    };
}

impl Bounds {
    /// Whether the tickerplant knows the nodes' fleet, so that queues sleep.
    fn sleeps(&self) -> bool {
        [self.idles, self.wakes, self.written, self.reports].iter().any(|count| *count > 0)
    }

    /// # Errors
    /// A bound that exceeds what a model can have, with the limit.
    fn fit(&self) -> Result<(), String> {
        let [first, second] = self.nodes;
        if first == 0 || first.saturating_add(second) > MAX_NODES {
            return Err(format!(
                "{first} nodes of the first queue and {second} of the second: a model has 1 to {MAX_NODES} in all, and at \
                 least one of the first"
            ));
        }
        let counts = [
            ("updates", self.updates, MAX),
            ("crashes", self.crashes, MAX),
            ("broken connections", self.cuts, MAX),
            ("rolls", self.rolls, MAX),
            ("ends of a day", self.day_ends, MAX_DAY_ENDS),
            ("filled nodes", self.fills, MAX),
            ("processes of another's name", self.twins, MAX),
            ("updates that are too long", self.too_long, MAX),
            ("idle times", self.idles, MAX),
            ("calls that wake queues", self.wakes, MAX),
            ("calls of a write-down process", self.written, MAX),
            ("status reports", self.reports, MAX),
        ];
        match counts.iter().find(|(_, count, most)| count > most) {
            Some((what, count, most)) => Err(format!("{count} {what}: a model has at most {most}")),
            None => Ok(()),
        }
    }
}

/// Places for nodes: those of the bounds, one spare for each of two queues (launched only if a node is missing at the end), and one for
/// processes under the first node's name.
pub const PLACES: usize = 6;
/// The place of processes under the first node's name.
pub const TWIN: u8 = 5;
/// Most initial nodes of all queues.
pub const MAX_NODES: u8 = 3;
/// Largest value of any count.
pub const MAX: u8 = 15;
/// Most ends of a day.
pub const MAX_DAY_ENDS: u8 = 2;

/// State that all processes of a model share.
pub struct Context {
    messages: Messages,
    logs: Arc<Logs>,
    bounds: Bounds,
}

impl Context {
    fn new(bounds: Bounds) -> Context {
        Context { messages: Messages::default(), logs: Arc::new(Logs::new()), bounds }
    }

    /// Returns the queue of a node's place.
    fn queue_of(&self, place: u8) -> String {
        let [first, second] = self.bounds.nodes;
        let is_first = place < first || place == first.saturating_add(second) || place == TWIN || second == 0;
        if is_first { "a" } else { "b" }.to_string()
    }

    /// Returns the number of places of initial nodes, and that with spares.
    fn places(&self) -> (u8, u8) {
        let [first, second] = self.bounds.nodes;
        let nodes = first.saturating_add(second);
        (nodes, nodes.saturating_add(2))
    }
}
