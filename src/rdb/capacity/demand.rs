//! Requests for capacity.

use crate::fleet::{Description, Fleet, FleetError};
use std::time::{Duration, Instant};

/// Time for which repetitions request the number found before, so that a service that throttles gets no description for each of them.
const DESCRIPTION_VALID: Duration = Duration::from_secs(30);

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
    /// Returns the number to request.
    ///
    /// # Errors
    /// The fleet cannot be asked what the group has.
    pub fn of(&self, fleet: &mut dyn Fleet) -> Result<u32, FleetError> {
        match self.instances {
            Some(instances) => {
                let group = fleet.describe()?;
                Ok(self.bounded(instances, &group, &fleet.identity().instance))
            }
            None => fleet.one_more(),
        }
    }

    fn bounded(&self, instances: u32, group: &Description, own: &str) -> u32 {
        // A back end that does not know this instance does not know its group either.
        if !group.members.iter().any(|member| member.instance == own) {
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
    /// The least number found so far. A repetition never requests more: a request whose response was lost may have been
    /// carried out, and the group is larger by then. It requests less if the group has become smaller meanwhile, at a
    /// day's end.
    instances: Option<u32>,
    /// When the present request got `instances`; `None` before that.
    found_at: Option<Instant>,
}

impl PendingDemand {
    pub fn new(demand: Demand) -> PendingDemand {
        PendingDemand { demand, instances: None, found_at: None }
    }

    /// A request for this number, which had been granted before.
    pub fn again(instances: u32) -> PendingDemand {
        let demand = Demand { instances: Some(instances), more: instances };
        PendingDemand { demand, instances: Some(instances), found_at: None }
    }

    /// Takes over a newer request.
    pub fn renew(&mut self, demand: Demand) {
        let instances = demand.instances.or(self.demand.instances);
        if instances != self.demand.instances {
            self.instances = None;
        }
        let renewed = Demand { instances, more: demand.more };
        if renewed != self.demand {
            self.found_at = None;
        }
        self.demand = renewed;
    }

    /// Fewer instances suffice.
    pub fn at_most(&mut self, instances: u32) {
        self.demand.instances = self.demand.instances.map(|before| before.min(instances));
        self.instances = self.instances.map(|known| known.min(instances));
    }

    /// Returns the number to request: what `find` finds, or found a short time ago, and never more than it found before.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn instances<E>(&mut self, now: Instant, find: impl FnOnce(&Demand) -> Result<u32, E>) -> Result<u32, E> {
        let is_known = self.found_at.is_some_and(|at| now.saturating_duration_since(at) < DESCRIPTION_VALID);
        if let Some(known) = self.instances.filter(|_| is_known) {
            return Ok(known);
        }
        let found = find(&self.demand)?;
        let instances = self.instances.map_or(found, |before| before.min(found));
        (self.instances, self.found_at) = (Some(instances), Some(now));
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

    fn bounded(instances: u32, more: u32, group: &Description, own: &str) -> u32 {
        demand(instances, more).bounded(instances, group, own)
    }

    const fn demand(instances: u32, more: u32) -> Demand {
        Demand { instances: Some(instances), more }
    }

    #[test]
    fn the_group_grows_by_no_more_than_the_nodes_that_are_missing() {
        assert_eq!(bounded(103, 1, &two(), "n2"), 3);
        assert_eq!(bounded(103, 4, &two(), "n2"), 6);
        assert_eq!(bounded(3, 4, &two(), "n2"), 3);
    }

    #[test]
    fn a_number_that_the_group_has_already_is_requested_as_it_is() {
        assert_eq!(bounded(1, 1, &two(), "n1"), 1);
    }

    #[test]
    fn instances_beyond_the_capacity_count_as_present() {
        let protected = [("n1", Stage::InService), ("n2", Stage::InService), ("n3", Stage::Terminating)];
        assert_eq!(bounded(9, 1, &group(1, &protected), "n1"), 3);
    }

    #[test]
    fn a_back_end_that_does_not_know_this_instance_gets_the_number_of_the_tickerplant() {
        assert_eq!(bounded(5, 1, &group(1, &[]), "n1"), 5);
    }

    #[test]
    fn a_repetition_does_not_request_more_although_the_group_has_grown() {
        let (mut want, now) = (PendingDemand::new(demand(9, 1)), Instant::now());
        assert_eq!(want.instances(now, |_| Ok::<_, ()>(3)), Ok(3));
        want.renew(demand(9, 1));
        assert_eq!(want.instances(now + DESCRIPTION_VALID, |_| Ok::<_, ()>(4)), Ok(3));
    }

    #[test]
    fn a_repetition_requests_less_if_the_group_has_become_smaller() {
        let (mut want, now) = (PendingDemand::new(demand(9, 1)), Instant::now());
        assert_eq!(want.instances(now, |_| Ok::<_, ()>(6)), Ok(6));
        assert_eq!(want.instances(now + DESCRIPTION_VALID, |_| Err(())), Err(()));
        assert_eq!(want.instances(now + DESCRIPTION_VALID, |_| Ok::<_, ()>(2)), Ok(2));
        assert_eq!(want.instances(now + 2 * DESCRIPTION_VALID, |_| Ok::<_, ()>(6)), Ok(2));
    }

    #[test]
    fn a_repetition_soon_after_describes_nothing() {
        let (mut want, now) = (PendingDemand::new(demand(9, 1)), Instant::now());
        assert_eq!(want.instances(now, |_| Ok::<_, ()>(6)), Ok(6));
        assert_eq!(want.instances(now + DESCRIPTION_VALID / 2, |_| Err(())), Ok(6));
        want.renew(demand(9, 1));
        assert_eq!(want.instances(now + DESCRIPTION_VALID / 2, |_| Err(())), Ok(6), "the same request");
        want.renew(demand(9, 2));
        assert_eq!(want.instances(now + DESCRIPTION_VALID / 2, |_| Err(())), Err(()), "another request");
    }

    #[test]
    fn a_newer_request_and_a_lowered_one_set_the_number() {
        let (mut want, now) = (PendingDemand::new(demand(9, 1)), Instant::now());
        assert_eq!(want.instances(now, |_| Ok::<_, ()>(3)), Ok(3));
        want.renew(demand(10, 2));
        assert_eq!(want.instances(now, |demand| demand.instances.ok_or(())), Ok(10));
        want.at_most(2);
        assert_eq!(want.instances(now, |demand| demand.instances.ok_or(())), Ok(2));
    }
}
