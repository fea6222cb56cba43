use super::launches::{LaunchFault, Launches};
use super::*;
use crate::fleet::{Description, Member, Stage};
use proptest::prelude::*;
use std::time::Duration;

const TIMEOUT_NS: u64 = 100;

fn unsure() -> FleetError {
    FleetError::Unsure { call: "SetDesiredCapacity", reason: "timeout".to_string() }
}

fn busy() -> FleetError {
    FleetError::Busy { call: "SetDesiredCapacity", reason: "Throttling".to_string() }
}

fn granted(desired: u32) -> Next {
    Next::Over(Capacity::Granted { desired })
}

#[test]
fn enough_is_granted_without_a_change() {
    assert_eq!(CapacityRequest::new(3).step(StepResult::Described { desired: 3, max: 9 }), granted(3));
    assert_eq!(CapacityRequest::new(3).step(StepResult::Described { desired: 7, max: 9 }), granted(7));
}

#[test]
fn too_few_instances_are_raised_to_the_desired_number() {
    let mut request = CapacityRequest::new(3);
    assert_eq!(request.step(StepResult::Described { desired: 1, max: 9 }), Next::Set(3));
    assert_eq!(request.step(StepResult::Done), granted(3));
}

#[test]
fn a_lost_answer_is_read_back_before_anything_is_repeated() {
    let mut request = CapacityRequest::new(3);
    request.step(StepResult::Described { desired: 2, max: 9 });
    assert_eq!(request.step(StepResult::Failed(unsure())), Next::Describe);
    assert_eq!(request.step(StepResult::Described { desired: 3, max: 9 }), granted(3));
}

#[test]
fn answers_that_keep_being_lost_are_left_for_later() {
    let mut request = CapacityRequest::new(3);
    for _ in 0..MAX_SETBACKS {
        request.step(StepResult::Described { desired: 2, max: 9 });
        assert_eq!(request.step(StepResult::Failed(unsure())), Next::Describe);
    }
    request.step(StepResult::Described { desired: 2, max: 9 });
    assert_eq!(request.step(StepResult::Failed(unsure())), Next::Later(unsure()));
}

#[test]
fn postponed_calls_are_left_for_later() {
    assert_eq!(CapacityRequest::new(3).step(StepResult::Failed(busy())), Next::Later(busy()));
    let mut request = CapacityRequest::new(3);
    request.step(StepResult::Described { desired: 2, max: 9 });
    assert_eq!(request.step(StepResult::Failed(busy())), Next::Later(busy()));
}

#[test]
fn a_group_at_its_maximum_rejects_and_says_so() {
    let next = CapacityRequest::new(5).step(StepResult::Described { desired: 4, max: 4 });
    assert!(matches!(next, Next::Over(Capacity::Refused { desired: 4, reason }) if reason.contains("maximum of 4")));
}

#[test]
fn a_group_below_its_maximum_grows_up_to_it_before_it_rejects() {
    let mut request = CapacityRequest::new(5);
    assert_eq!(request.step(StepResult::Described { desired: 1, max: 4 }), Next::Set(4));
    assert!(matches!(request.step(StepResult::Done), Next::Over(Capacity::Refused { desired: 4, .. })));
}

#[test]
fn limits_that_changed_in_between_are_read_again() {
    let mut request = CapacityRequest::new(5);
    request.step(StepResult::Described { desired: 1, max: 6 });
    let invalid = FleetError::Refused("New SetDesiredCapacity value 5 is above max value 3".to_string());
    assert_eq!(request.step(StepResult::Failed(invalid)), Next::Describe);
    assert_eq!(request.step(StepResult::Described { desired: 1, max: 3 }), Next::Set(3));
}

#[test]
fn a_value_that_is_rejected_again_and_again_is_rejected() {
    let mut request = CapacityRequest::new(5);
    let invalid = FleetError::Refused("no".to_string());
    for _ in 0..MAX_SETBACKS {
        request.step(StepResult::Described { desired: 1, max: 6 });
        assert_eq!(request.step(StepResult::Failed(invalid.clone())), Next::Describe);
    }
    request.step(StepResult::Described { desired: 1, max: 6 });
    let refused = Capacity::Refused { desired: 1, reason: "no".to_string() };
    assert_eq!(request.step(StepResult::Failed(invalid)), Next::Over(refused));
}

/// The group's state at the service.
#[derive(Clone, Debug)]
struct Service {
    desired: u32,
    max: u32,
    launched: u32,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Rejected without effect.
    PutOff,
    /// No effect, but the caller cannot know.
    LostBefore,
    /// Effective, but the caller cannot know.
    LostAfter,
}

impl Service {
    fn set(&mut self, desired: u32, fault: Fault) -> StepResult {
        if matches!(fault, Fault::PutOff) {
            return StepResult::Failed(busy());
        }
        if matches!(fault, Fault::LostBefore) {
            return StepResult::Failed(unsure());
        }
        if desired > self.max {
            return StepResult::Failed(FleetError::Refused("above max".to_string()));
        }
        self.launched += desired.saturating_sub(self.desired);
        self.desired = desired;
        match fault {
            Fault::LostAfter => StepResult::Failed(unsure()),
            _ => StepResult::Done,
        }
    }

    fn describe(&self, fault: Fault) -> StepResult {
        match fault {
            Fault::None => StepResult::Described { desired: self.desired, max: self.max },
            _ => StepResult::Failed(busy()),
        }
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::None),
        1 => Just(Fault::PutOff),
        1 => Just(Fault::LostBefore),
        1 => Just(Fault::LostAfter),
    ]
}

/// A node that repeats its request until it has a result.
struct Requester {
    wanted: u32,
    request: CapacityRequest,
    next: Next,
    over: Option<Capacity>,
}

impl Requester {
    fn new(wanted: u32) -> Requester {
        Requester { wanted, request: CapacityRequest::new(wanted), next: Next::Describe, over: None }
    }

    /// Makes one call.
    fn act(&mut self, service: &mut Service, fault: Fault) {
        let result = match self.next {
            Next::Describe => service.describe(fault),
            Next::Set(desired) => {
                assert!(desired <= self.wanted);
                service.set(desired, fault)
            }
            Next::Over(_) | Next::Later(_) => return,
        };
        self.next = self.request.step(result);
        match &self.next {
            Next::Over(capacity) => self.over = Some(capacity.clone()),
            Next::Later(_) => *self = Requester { over: self.over.take(), ..Requester::new(self.wanted) },
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn one_requester_launches_the_missing_nodes_and_no_more(
        desired in 0u32..6, max in 0u32..8, wanted in 0u32..10, faults in prop::collection::vec(fault(), 0..40),
    ) {
        let desired = desired.min(max);
        let mut service = Service { desired, max, launched: 0 };
        let mut requester = Requester::new(wanted);
        let faults = faults.into_iter().chain(std::iter::repeat_n(Fault::None, 4));
        for fault in faults {
            let before = service.desired;
            requester.act(&mut service, fault);
            prop_assert!(service.desired >= before, "never lowered");
        }
        prop_assert!(requester.over.is_some());
        prop_assert_eq!(service.desired, desired.max(wanted.min(max)));
        prop_assert_eq!(service.launched, wanted.min(max).saturating_sub(desired), "not one too many");
        let is_granted = matches!(requester.over, Some(Capacity::Granted { .. }));
        prop_assert_eq!(is_granted, wanted <= service.desired);
    }

    /// Two nodes that request the same number, with calls interleaved in any order, do not add up.
    #[test]
    fn two_requests_for_the_same_are_one(
        desired in 0u32..6, wanted in 0u32..8, turns in prop::collection::vec((any::<bool>(), fault()), 0..60),
    ) {
        let mut service = Service { desired, max: 8, launched: 0 };
        let mut requesters = [Requester::new(wanted), Requester::new(wanted)];
        let rest = (0..8).map(|n| (n % 2 == 0, Fault::None));
        for (second, fault) in turns.into_iter().chain(rest) {
            requesters[usize::from(second)].act(&mut service, fault);
        }
        prop_assert_eq!(service.launched, wanted.saturating_sub(desired));
        let granted = requesters.iter().filter(|requester| matches!(requester.over, Some(Capacity::Granted { .. }))).count();
        prop_assert_eq!(granted, 2);
    }

    /// Two nodes that request different numbers: a crossing set may lower the capacity; the watch detects it and the
    /// request is repeated.
    #[test]
    fn requesters_of_different_numbers_both_get_theirs_in_the_end(
        wanted in prop::array::uniform2(1u32..8), turns in prop::collection::vec((any::<bool>(), fault()), 0..60),
    ) {
        let mut service = Service { desired: 1, max: 8, launched: 0 };
        let mut requesters = wanted.map(Requester::new);
        let mut watches = ["a", "b"].map(|own| Launches::new(own, TIMEOUT_NS));
        let rest = (0..40).map(|n| (n % 2 == 0, Fault::None));
        for (second, fault) in turns.into_iter().chain(rest) {
            let (requester, watch) = (&mut requesters[usize::from(second)], &mut watches[usize::from(second)]);
            requester.act(&mut service, fault);
            if let Some(Capacity::Granted { .. }) = requester.over.take() {
                watch.granted(requester.wanted);
            }
            // The launch takes longer than the test: no instance appears.
            let group = Description { desired: service.desired, max: 8, ..Description::default() };
            let faults = watch.check(&group, 0);
            if faults.iter().any(|fault| matches!(fault, LaunchFault::SetBack { .. })) {
                *requester = Requester::new(requester.wanted);
            }
        }
        prop_assert_eq!(service.desired, wanted[0].max(wanted[1]).max(1));
    }
}

fn group(desired: u32, members: &[(&str, Stage)]) -> Description {
    let member = |(instance, stage): &(&str, Stage)| Member {
        instance: instance.to_string(),
        stage: *stage,
        process: None,
        age: Duration::ZERO,
        lead_time: None,
        protected: false,
    };
    Description { desired, max: 9, members: members.iter().map(member).collect(), ..Description::default() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn watch(joined: &[&str]) -> Launches {
    let mut launches = Launches::new("a", TIMEOUT_NS);
    launches.joined(names(joined));
    launches
}

const UP: Stage = Stage::InService;

#[test]
fn an_instance_that_never_joins_is_late_once() {
    let mut launches = watch(&["a"]);
    let two = group(2, &[("a", UP), ("b", UP)]);
    assert_eq!(launches.check(&two, 0), []);
    assert!(launches.expects());
    assert_eq!(launches.check(&two, 99), []);
    assert_eq!(launches.check(&two, 100), [LaunchFault::Late { instance: "b".to_string(), waited_ns: 100 }]);
    assert_eq!(launches.check(&two, 300), []);
}

#[test]
fn one_that_joined_and_lost_its_connection_is_not_late() {
    let mut launches = watch(&["a", "b"]);
    let two = group(2, &[("a", UP), ("b", UP)]);
    launches.check(&two, 0);
    launches.joined(names(&["a"]));
    launches.check(&two, 1);
    assert_eq!(launches.check(&two, 500), []);
}

#[test]
fn no_launch_is_late_while_the_joined_instances_are_unknown() {
    let two = group(2, &[("a", UP), ("b", UP)]);
    for joined in [&[][..], &["x"]] {
        let mut launches = watch(joined);
        launches.check(&two, 0);
        assert_eq!(launches.check(&two, 500), []);
    }
}

#[test]
fn the_time_does_not_run_while_the_tickerplant_is_away() {
    let mut launches = watch(&["a"]);
    let two = group(2, &[("a", UP), ("b", UP)]);
    launches.check(&two, 0);
    launches.joined(names(&[]));
    launches.joined(names(&["a"]));
    assert_eq!(launches.check(&two, 150), []);
    assert_eq!(launches.check(&two, 250).len(), 1);
}

#[test]
fn instances_that_go_or_stand_by_are_not_late() {
    let mut launches = watch(&["a"]);
    let some = group(1, &[("a", UP), ("b", Stage::Terminating), ("c", Stage::Standby)]);
    launches.check(&some, 0);
    assert_eq!(launches.check(&some, 500), []);
}

#[test]
fn unfilled_capacity_is_reported_once_for_each_occurrence() {
    let mut launches = watch(&["a"]);
    let short = group(2, &[("a", UP)]);
    launches.check(&short, 0);
    assert_eq!(launches.check(&short, 25), [LaunchFault::Missing { instances: 1, desired: 2 }]);
    assert_eq!(launches.check(&short, 90), []);
    launches.joined(names(&["a", "b"]));
    assert_eq!(launches.check(&group(2, &[("a", UP), ("b", UP)]), 95), []);
    launches.check(&short, 100);
    assert_eq!(launches.check(&short, 125), [LaunchFault::Missing { instances: 1, desired: 2 }]);
}

#[test]
fn capacity_that_was_reduced_before_it_was_filled_is_reported() {
    let mut launches = watch(&["a"]);
    launches.granted(3);
    assert_eq!(launches.check(&group(2, &[("a", UP)]), 0), [LaunchFault::SetBack { desired: 2, granted: 3 }]);
}

#[test]
fn capacity_that_shrinks_after_it_was_filled_is_as_wanted() {
    let mut launches = watch(&["a", "b"]);
    launches.granted(2);
    launches.check(&group(2, &[("a", UP), ("b", UP)]), 0);
    assert_eq!(launches.check(&group(1, &[("a", UP)]), 1), []);
}

#[test]
fn capacity_removed_with_instances_is_not_requested_again() {
    let mut launches = watch(&["a", "b"]);
    launches.granted(4);
    let three = group(4, &[("a", UP), ("b", UP), ("c", UP)]);
    assert_eq!(launches.check(&three, 0), []);
    assert_eq!(launches.check(&group(2, &[("a", UP), ("b", UP), ("c", Stage::Terminating)]), 1), []);
    assert!(
        !launches.check(&group(2, &[("a", UP), ("b", UP)]), 2).iter().any(|t| matches!(t, LaunchFault::SetBack { .. }))
    );
}
