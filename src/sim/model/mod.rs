//! Every order of events, up to a bound: a model checker over the production processes. See `README.md` here.

mod explore;
mod heal;
mod links;
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

/// How much of everything there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Nodes of each queue; at most three in all.
    pub nodes: [u8; 2],
    pub updates: u8,
    /// Processes that are killed, nodes or the tickerplant.
    pub crashes: u8,
    /// Connections that break with both ends alive.
    pub cuts: u8,
    /// Nodes that are full.
    pub rolls: u8,
    pub day_ends: u8,
    /// Nodes whose memory others fill (a query, a client's variable, another program), for as long as they like.
    pub fills: u8,
    /// Processes that come under the name of the first node.
    pub twins: u8,
}

impl Bounds {
    /// # Errors
    /// What a model can have, where this is more.
    fn fit(&self) -> Result<(), String> {
        let [first, second] = self.nodes;
        if first == 0 || first.saturating_add(second) > NODES_MOST {
            return Err(format!(
                "{first} nodes of the first queue and {second} of the second: a model has 1 to {NODES_MOST} in all, and at \
                 least one of the first"
            ));
        }
        let counts = [
            ("updates", self.updates, MOST),
            ("crashes", self.crashes, MOST),
            ("broken connections", self.cuts, MOST),
            ("rolls", self.rolls, MOST),
            ("ends of a day", self.day_ends, DAY_ENDS_MOST),
            ("filled nodes", self.fills, MOST),
            ("processes of another's name", self.twins, MOST),
        ];
        match counts.iter().find(|(_, count, most)| count > most) {
            Some((what, count, most)) => Err(format!("{count} {what}: a model has at most {most}")),
            None => Ok(()),
        }
    }
}

/// Places for nodes: those of the bounds, one of each queue that is launched only where one is missing in the end, and the one of
/// processes under the first node's name.
pub const PLACES: usize = 6;
pub const TWIN: u8 = 5;
pub const NODES_MOST: u8 = 3;
/// The most of anything that is counted.
pub const MOST: u8 = 15;
pub const DAY_ENDS_MOST: u8 = 2;

/// What all processes of a model share.
pub struct Context {
    messages: Messages,
    logs: Arc<Logs>,
    bounds: Bounds,
}

impl Context {
    fn new(bounds: Bounds) -> Context {
        Context { messages: Messages::default(), logs: Arc::new(Logs::new()), bounds }
    }

    /// The queue of a node's place.
    fn queue_of(&self, place: u8) -> String {
        let [first, second] = self.bounds.nodes;
        let is_first = place < first || place == first.saturating_add(second) || place == TWIN;
        if is_first { "a" } else { "b" }.to_string()
    }

    /// Places of nodes that are there from the start, and those for others, in the end.
    fn places(&self) -> (u8, u8) {
        let [first, second] = self.bounds.nodes;
        let nodes = first.saturating_add(second);
        (nodes, nodes.saturating_add(if second > 0 { 2 } else { 1 }))
    }
}
