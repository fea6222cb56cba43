//! Requests for capacity.

use crate::fleet::Description;

/// A request for capacity. It is absolute ("at least five instances"), so that repeating it changes
/// nothing. The tickerplant's number may be old when it is used: a message can be held up over a day's end, after which
/// the group is smaller by all nodes that have gone. Hence the group never grows by more than the nodes that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Instances in all, as the tickerplant counts them; `None` requests one more than when this node was launched.
    pub instances: Option<u32>,
    /// Most instances by which the group may grow.
    pub more: u32,
}

impl Demand {
    /// Returns the number to request from the group as it is now.
    pub fn of(&self, group: &Description, own: &str) -> u32 {
        let place = group.members.iter().zip(2u32..).find(|(member, _)| member.instance == own);
        let after_own = place.map_or(group.desired.saturating_add(1), |(_, place)| place);
        let Some(instances) = self.instances else { return after_own };
        // A back end that does not know this instance does not know its group either.
        if place.is_none() {
            return instances;
        }
        let counting = group.members.iter().filter(|member| member.counts()).count();
        let present = group.desired.max(u32::try_from(counting).unwrap_or(u32::MAX));
        instances.min(present.saturating_add(self.more))
    }
}

/// A [`Demand`] that has not been granted yet.
pub(super) struct PendingDemand {
    demand: Demand,
    /// The number to request, once it is known. Kept for repetitions: a request whose response was lost may have been
    /// carried out, and the group it is computed from would be larger by then.
    instances: Option<u32>,
}

impl PendingDemand {
    pub fn new(demand: Demand) -> PendingDemand {
        PendingDemand { demand, instances: None }
    }

    /// A request for this number, which had been granted before.
    pub fn again(instances: u32) -> PendingDemand {
        let demand = Demand { instances: Some(instances), more: instances };
        PendingDemand { demand, instances: Some(instances) }
    }

    /// Takes over a newer request.
    pub fn renew(&mut self, demand: Demand) {
        let instances = demand.instances.or(self.demand.instances);
        if instances != self.demand.instances {
            self.instances = None;
        }
        self.demand = Demand { instances, more: demand.more };
    }

    /// Fewer instances suffice.
    pub fn at_most(&mut self, instances: u32) {
        self.demand.instances = self.demand.instances.map(|before| before.min(instances));
        self.instances = self.instances.map(|known| known.min(instances));
    }

    /// Returns the number to request; `describe` is called if it is not known yet.
    ///
    /// # Errors
    /// Those of `describe`.
    pub fn instances<E>(&mut self, own: &str, describe: impl FnOnce() -> Result<Description, E>) -> Result<u32, E> {
        if let Some(instances) = self.instances {
            return Ok(instances);
        }
        let instances = self.demand.of(&describe()?, own);
        self.instances = Some(instances);
        Ok(instances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Member, Stage};
    use std::time::Duration;

    fn group(desired: u32, members: &[(&str, Stage)]) -> Description {
        let member = |(name, stage): &(&str, Stage)| Member {
            instance: (*name).to_string(),
            stage: *stage,
            process: None,
            age: Duration::ZERO,
            lead_time: None,
            protected: false,
        };
        Description { desired, members: members.iter().map(member).collect(), ..Description::default() }
    }

    fn two() -> Description {
        group(2, &[("n1", Stage::InService), ("n2", Stage::InService)])
    }

    const fn demand(instances: u32, more: u32) -> Demand {
        Demand { instances: Some(instances), more }
    }

    #[test]
    fn the_group_grows_by_no_more_than_the_nodes_that_are_missing() {
        assert_eq!(demand(103, 1).of(&two(), "n2"), 3);
        assert_eq!(demand(103, 4).of(&two(), "n2"), 6);
        assert_eq!(demand(3, 4).of(&two(), "n2"), 3);
    }

    #[test]
    fn a_number_that_the_group_has_already_is_requested_as_it_is() {
        assert_eq!(demand(1, 1).of(&two(), "n1"), 1);
    }

    #[test]
    fn instances_beyond_the_capacity_count_as_present() {
        let protected = [("n1", Stage::InService), ("n2", Stage::InService), ("n3", Stage::Terminating)];
        assert_eq!(demand(9, 1).of(&group(1, &protected), "n1"), 3);
    }

    #[test]
    fn without_a_number_one_more_than_the_place_in_the_group_is_requested() {
        let none = Demand { instances: None, more: 1 };
        let three = group(3, &[("n1", Stage::InService), ("n2", Stage::InService), ("n3", Stage::Pending)]);
        assert_eq!((none.of(&three, "n2"), none.of(&three, "n9")), (3, 4));
    }

    #[test]
    fn a_back_end_that_does_not_know_this_instance_gets_the_number_of_the_tickerplant() {
        assert_eq!(demand(5, 1).of(&group(1, &[]), "n1"), 5);
    }

    #[test]
    fn a_repetition_is_for_the_same_number_although_the_group_has_grown() {
        let mut want = PendingDemand::new(demand(9, 1));
        assert_eq!(want.instances("n1", || Ok::<_, ()>(two())), Ok(3));
        want.renew(demand(9, 1));
        assert_eq!(want.instances("n1", || Err(())), Ok(3));
        want.renew(demand(10, 2));
        assert_eq!(want.instances("n1", || Ok::<_, ()>(two())), Ok(4));
        want.at_most(2);
        assert_eq!(want.instances("n1", || Err(())), Ok(2));
    }
}
