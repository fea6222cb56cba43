//! What a node has asked of its fleet, and what its tickerplant reported about the nodes that are needed.

use crate::rdb::capacity::{Demand, FleetReply, FleetRequest};
use std::sync::mpsc::{Receiver, Sender};

/// How a new position in the queue changes what the node has requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// As before.
    Nothing,
    /// A node has left and taken its instance off the capacity: a pending request would be for one too many.
    Fewer(u32),
    /// A node of another queue took the instance that this one had requested: request again.
    Again,
}

/// The line to the fleet thread, and the capacity to request.
pub(super) struct Requests {
    sender: Sender<FleetRequest>,
    answers: Receiver<FleetReply>,
    /// Desired capacity to request for this node's successor.
    desired: Option<u32>,
    /// Request for nodes missing in the queue; `None` once granted.
    missing: Option<Demand>,
    /// Standbys behind this node, as reported by the tickerplant.
    standbys: Option<u64>,
    /// Updates of the queue that no connected node serves, as reported by the tickerplant.
    unserved: u64,
}

impl Requests {
    pub fn new((sender, answers): (Sender<FleetRequest>, Receiver<FleetReply>)) -> Requests {
        Requests { sender, answers, desired: None, missing: None, standbys: None, unserved: 0 }
    }

    /// The fleet thread lives as long as this one. If it died, no reply comes and the policy repeats the request.
    pub fn send(&self, request: FleetRequest) {
        let _ = self.sender.send(request);
    }

    pub fn next_answer(&self) -> Option<FleetReply> {
        self.answers.try_recv().ok()
    }

    pub fn standbys(&self) -> Option<u64> {
        self.standbys
    }

    pub fn set_standbys(&mut self, nodes: u64) {
        self.standbys = Some(nodes);
    }

    pub fn unserved(&self) -> u64 {
        self.unserved
    }

    pub fn set_unserved(&mut self, updates: u64) {
        self.unserved = updates;
    }

    /// Sets the capacity of a live node's successor from its position in the queue.
    pub fn placed(&mut self, position: Option<u32>) {
        self.desired = position.map(|position| position.saturating_add(1));
    }

    /// The node became live: what was reported before no longer holds.
    pub fn became_live(&mut self) {
        self.missing = None;
        self.standbys = None;
    }

    /// The rolled nodes end with the day; this one is first in the new day's queue, if its tickerplant counts them.
    pub fn day_ended(&mut self, is_counted: bool) {
        self.missing = None;
        self.desired = is_counted.then_some(2);
    }

    /// Nodes are missing in the queue.
    pub fn misses(&mut self, demand: Demand) {
        self.missing = Some(demand);
    }

    /// No request for missing nodes is pending.
    pub fn granted(&mut self) {
        self.missing = None;
    }

    /// Records the capacity to request for a successor; `has_scaled`: it was requested.
    pub fn set_desired(&mut self, desired: u32, has_scaled: bool) -> Changed {
        let before = self.desired.replace(desired);
        if before.is_some_and(|before| desired < before)
            && let Some(most) = self.to_request(has_scaled).instances
        {
            Changed::Fewer(most)
        } else if has_scaled && before.is_some_and(|before| desired > before) {
            Changed::Again
        } else {
            Changed::Nothing
        }
    }

    /// Returns the capacity to request: for this node's successor, if wanted, and for missing nodes.
    pub fn to_request(&self, has_scaled: bool) -> Demand {
        let successor = self.desired.filter(|_| has_scaled || self.missing.is_none());
        let more = self.missing.map_or(1, |missing| missing.more.max(1));
        Demand { instances: successor.max(self.missing.and_then(|missing| missing.instances)), more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const fn demand(instances: u32, more: u32) -> Demand {
        Demand { instances: Some(instances), more }
    }

    fn requests() -> Requests {
        Requests::new((channel().0, channel().1))
    }

    #[test]
    fn a_request_is_lowered_when_a_node_has_left_and_repeated_when_another_queue_took_the_instance() {
        let mut requests = requests();
        let changes = [3, 2, 2, 4].map(|desired| requests.set_desired(desired, true));
        assert_eq!(changes, [Changed::Nothing, Changed::Fewer(2), Changed::Nothing, Changed::Again]);
        assert_eq!(requests.set_desired(5, false), Changed::Nothing, "nothing was requested");
    }

    #[test]
    fn only_missing_nodes_are_requested_until_a_successor_is_due() {
        let mut requests = requests();
        requests.placed(Some(4));
        requests.misses(demand(3, 2));
        assert_eq!((requests.to_request(false), requests.to_request(true)), (demand(3, 2), demand(5, 2)));
        requests.granted();
        assert_eq!(requests.to_request(false), demand(5, 1));
    }

    #[test]
    fn the_first_of_a_new_days_queue_asks_for_the_second() {
        let mut requests = requests();
        requests.placed(Some(4));
        requests.misses(demand(3, 2));
        requests.day_ended(true);
        assert_eq!(requests.to_request(true), demand(2, 1));
        requests.day_ended(false);
        assert_eq!(requests.to_request(true).instances, None, "a tickerplant in q reports no positions");
    }
}
