//! Terminates this instance and lowers the capacity by exactly one, even if the response is lost. Pure.

use crate::fleet::{Description, FleetError, Stage};

/// Next step of the termination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The instance is gone or terminating.
    Done,
    /// Terminate it and lower the capacity by one.
    Terminate,
    /// Terminate it without lowering the capacity, which is below the number of instances already.
    Surplus,
    /// An earlier call may still take effect.
    Wait,
    /// Rejected: the group is at its minimum.
    Keep(String),
}

/// Time for a call whose response was lost to show in the group.
const SETTLES_NS: u64 = 30_000_000_000;

/// Termination of one instance.
#[derive(Clone, Debug, Default)]
pub struct Termination {
    unsure_since_ns: Option<u64>,
}

impl Termination {
    /// Records a failed call.
    pub fn failed(&mut self, error: &FleetError, now_ns: u64) {
        if matches!(error, FleetError::Unsure { .. }) {
            self.unsure_since_ns = Some(now_ns);
        }
    }

    /// Returns the next step for the group as read just before.
    pub fn next(&self, own: &str, group: &Description, now_ns: u64) -> Next {
        let stage = group.members.iter().find(|member| member.instance == own).map(|member| member.stage);
        if matches!(stage, None | Some(Stage::Terminating)) {
            return Next::Done;
        }
        if self.unsure_since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) < SETTLES_NS) {
            return Next::Wait;
        }
        let counting = group.members.iter().filter(|member| member.counts()).count();
        if counting > group.desired as usize {
            return Next::Surplus;
        }
        if group.desired <= group.min {
            return Next::Keep(format!("the group {} is at its minimum of {}", group.group, group.min));
        }
        Next::Terminate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Member;
    use std::time::Duration;

    fn group(min: u32, desired: u32, stages: &[Stage]) -> Description {
        let member = |(n, stage): (usize, &Stage)| Member {
            instance: format!("i{n}"),
            stage: *stage,
            process: None,
            age: Duration::ZERO,
            lead_time: None,
            protected: false,
        };
        let members = stages.iter().enumerate().map(member).collect();
        Description { group: "g".to_string(), min, desired, max: 9, members, ..Description::default() }
    }

    const UP: Stage = Stage::InService;

    fn unsure() -> FleetError {
        FleetError::Unsure { call: "Terminate", reason: "timeout".to_string() }
    }

    #[test]
    fn one_of_several_ends() {
        assert_eq!(Termination::default().next("i0", &group(1, 2, &[UP, UP]), 0), Next::Terminate);
    }

    #[test]
    fn one_that_is_gone_or_going_needs_nothing() {
        let termination = Termination::default();
        assert_eq!(termination.next("i7", &group(1, 2, &[UP, UP]), 0), Next::Done);
        assert_eq!(termination.next("i0", &group(1, 1, &[Stage::Terminating, UP]), 0), Next::Done);
    }

    #[test]
    fn a_group_at_its_minimum_keeps_it() {
        assert!(matches!(Termination::default().next("i0", &group(1, 1, &[UP]), 0), Next::Keep(_)));
    }

    #[test]
    fn a_group_that_was_made_smaller_than_it_is_has_its_capacity_already() {
        assert_eq!(Termination::default().next("i0", &group(0, 0, &[UP]), 0), Next::Surplus);
    }

    #[test]
    fn a_lost_answer_has_time_to_show_before_the_request_is_repeated() {
        let mut termination = Termination::default();
        termination.failed(&unsure(), 5);
        let before = group(1, 3, &[UP, UP, UP]);
        assert_eq!(termination.next("i0", &before, 6), Next::Wait);
        assert_eq!(termination.next("i0", &group(1, 2, &[Stage::Terminating, UP, UP]), 7), Next::Done);
        assert_eq!(termination.next("i0", &before, 5 + SETTLES_NS), Next::Terminate);
    }

    #[test]
    fn a_request_that_was_put_off_has_had_no_effect() {
        let mut termination = Termination::default();
        termination.failed(&FleetError::Busy { call: "Terminate", reason: "slow down".to_string() }, 5);
        assert_eq!(termination.next("i0", &group(1, 2, &[UP, UP]), 6), Next::Terminate);
    }
}
