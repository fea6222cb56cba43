use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn rules(min: u32, max: u32) -> Rules {
    Rules { min, max, launch_delay_ns: 0, grace_ns: 5 * SECOND, notice_ns: 30 * SECOND }
}

fn started(min: u32, max: u32) -> Group {
    let mut group = Group::new(rules(min, max));
    group.step(GroupEvent::Tick, 0);
    group
}

fn stages(group: &Group) -> Vec<(u64, Stage)> {
    group.slots().iter().map(|slot| (slot.instance.0, slot.stage())).collect()
}

#[test]
fn a_group_starts_at_its_minimum() {
    let mut group = Group::new(rules(2, 5));
    assert_eq!(group.step(GroupEvent::Tick, 0), [Action::Launch(Instance(1)), Action::Launch(Instance(2))]);
}

#[test]
fn asking_twice_launches_once() {
    let mut group = started(1, 5);
    let granted = Action::Capacity(Capacity::Granted { desired: 2 });
    assert_eq!(group.step(GroupEvent::AtLeast(2), 1), [granted.clone(), Action::Launch(Instance(2))]);
    assert_eq!(group.step(GroupEvent::AtLeast(2), 2), [granted]);
}

#[test]
fn one_that_leaves_of_its_own_accord_is_replaced_once_and_before_it_has_ended() {
    let mut group = started(1, 5);
    group.step(GroupEvent::AtLeast(2), 1);
    let actions = group.step(GroupEvent::Leaving(Instance(1)), 2);
    assert_eq!(actions, [Action::Answer(Ok(())), Action::Launch(Instance(3))]);
    assert_eq!(group.step(GroupEvent::Leaving(Instance(1)), 3), [Action::Answer(Ok(()))], "said again");
    assert_eq!(group.step(GroupEvent::AtLeast(2), 4), [Action::Capacity(Capacity::Granted { desired: 2 })]);
    assert_eq!(group.step(GroupEvent::Tick, 1_000 * SECOND), [], "it ends in its own time");
    assert_eq!(group.step(GroupEvent::Exited(Instance(1)), 1_001 * SECOND), []);
    assert_eq!(group.slots().len(), 2);
}

#[test]
fn one_that_leaves_ends_with_its_group() {
    let mut group = started(2, 5);
    group.step(GroupEvent::Leaving(Instance(1)), 1);
    assert!(group.step(GroupEvent::Shutdown, 2).contains(&Action::Stop(Instance(1))));
}

#[test]
fn asking_for_less_changes_nothing() {
    let mut group = started(3, 5);
    assert_eq!(group.step(GroupEvent::AtLeast(1), 1), [Action::Capacity(Capacity::Granted { desired: 3 })]);
}

#[test]
fn the_maximum_holds_and_the_rejection_says_so() {
    let mut group = started(1, 2);
    let actions = group.step(GroupEvent::AtLeast(4), 1);
    let [Action::Capacity(Capacity::Refused { desired: 2, reason }), Action::Launch(_)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert!(reason.contains("maximum of 2"), "{reason}");
}

#[test]
fn a_dead_instance_is_replaced_by_a_new_one() {
    let mut group = started(1, 3);
    group.step(GroupEvent::Ready(Instance(1)), SECOND);
    assert_eq!(group.step(GroupEvent::Exited(Instance(1)), 2 * SECOND), [Action::Launch(Instance(2))]);
    assert_eq!((group.desired(), group.early_failures()), (1, 0));
}

#[test]
fn failures_at_the_start_are_counted_until_an_instance_is_ready() {
    let mut group = started(1, 3);
    group.step(GroupEvent::Exited(Instance(1)), 1);
    assert_eq!(group.early_failures(), 1);
    group.step(GroupEvent::Tick, SECOND);
    group.step(GroupEvent::Exited(Instance(2)), SECOND + 1);
    assert_eq!(group.early_failures(), 2);
    group.step(GroupEvent::Tick, 3 * SECOND);
    group.step(GroupEvent::Ready(Instance(3)), 4 * SECOND);
    assert_eq!(group.early_failures(), 0);
}

#[test]
fn a_terminated_instance_is_not_replaced() {
    let mut group = started(1, 3);
    group.step(GroupEvent::AtLeast(2), 1);
    assert!(!group.has_asked_to_end(Instance(1)));
    let actions = group.step(GroupEvent::Terminate(Instance(1)), 2);
    assert!(group.has_asked_to_end(Instance(1)) && !group.has_asked_to_end(Instance(2)));
    assert_eq!(actions, [Action::Stop(Instance(1)), Action::Answer(Ok(()))]);
    assert_eq!(group.step(GroupEvent::Exited(Instance(1)), 3), []);
    assert_eq!((group.desired(), stages(&group)), (1, vec![(2, Stage::Starting)]));
}

#[test]
fn terminating_twice_takes_one_off_once() {
    let mut group = started(1, 3);
    group.step(GroupEvent::AtLeast(3), 1);
    group.step(GroupEvent::Terminate(Instance(1)), 2);
    assert_eq!(group.step(GroupEvent::Terminate(Instance(1)), 3), [Action::Answer(Ok(()))]);
    assert_eq!(group.desired(), 2);
}

#[test]
fn a_group_at_its_minimum_keeps_its_instances() {
    let mut group = started(1, 3);
    let actions = group.step(GroupEvent::Terminate(Instance(1)), 1);
    assert!(matches!(&actions[..], [Action::Answer(Err(reason))] if reason.contains("minimum of 1")), "{actions:?}");
    assert_eq!(stages(&group), [(1, Stage::Starting)]);
}

#[test]
fn an_instance_that_does_not_end_is_killed_after_its_grace() {
    let mut group = started(1, 3);
    group.step(GroupEvent::AtLeast(2), 1);
    group.step(GroupEvent::Terminate(Instance(2)), 2);
    assert_eq!(group.deadline_ns(), Some(2 + 5 * SECOND));
    assert_eq!(group.step(GroupEvent::Tick, 1 + 5 * SECOND), []);
    assert_eq!(group.step(GroupEvent::Tick, 2 + 5 * SECOND), [Action::Kill(Instance(2))]);
    assert_eq!(group.step(GroupEvent::Tick, 3 + 5 * SECOND), []);
}

#[test]
fn lead_time_runs_from_the_request_until_ready() {
    let mut group = Group::new(Rules { launch_delay_ns: SECOND, ..rules(1, 3) });
    assert_eq!(group.step(GroupEvent::Tick, 0), []);
    assert_eq!(group.deadline_ns(), Some(SECOND));
    assert_eq!(group.step(GroupEvent::Tick, SECOND), [Action::Launch(Instance(1))]);
    group.step(GroupEvent::Ready(Instance(1)), 3 * SECOND);
    group.step(GroupEvent::Ready(Instance(1)), 9 * SECOND);
    assert_eq!(group.last_lead_ns(), Some(3 * SECOND));
}

#[test]
fn one_that_fails_at_once_is_replaced_ever_more_slowly() {
    let mut group = started(1, 3);
    let mut now = 0;
    let mut waits = Vec::new();
    for n in 1..=9 {
        group.step(GroupEvent::Exited(Instance(n)), now);
        let due = group.deadline_ns().expect("a replacement is due");
        waits.push(due - now);
        now = due;
        assert_eq!(group.step(GroupEvent::Tick, now), [Action::Launch(Instance(n + 1))]);
    }
    assert!(waits.windows(2).all(|w| w[0] <= w[1]), "{waits:?}");
    assert_eq!((waits[0], waits[8]), (BACK_OFF_FIRST_NS, MAX_BACK_OFF_NS));
}

#[test]
fn a_shutdown_ends_all_and_launches_none() {
    let mut group = Group::new(Rules { launch_delay_ns: SECOND, ..rules(1, 3) });
    group.step(GroupEvent::Tick, 0);
    group.step(GroupEvent::Tick, SECOND);
    group.step(GroupEvent::AtLeast(2), SECOND);
    assert_eq!(group.step(GroupEvent::Shutdown, SECOND + 1), [Action::Stop(Instance(1))]);
    assert!(!group.is_down());
    assert_eq!(group.step(GroupEvent::Exited(Instance(1)), SECOND + 2), []);
    assert!(group.is_down());
}

fn in_service(min: u32, desired: u32) -> Group {
    let mut group = started(min, 9);
    group.step(GroupEvent::AtLeast(desired), 0);
    for n in 1..=u64::from(desired) {
        group.step(GroupEvent::Ready(Instance(n)), 0);
    }
    group
}

fn notice_of(group: &Group, n: u64, now_ns: u64) -> Option<Notice> {
    group.slots().iter().find(|slot| slot.instance == Instance(n)).and_then(|slot| slot.notice(now_ns))
}

#[test]
fn a_smaller_group_takes_the_newest_that_is_not_protected() {
    let mut group = in_service(0, 3);
    group.step(GroupEvent::Protect(Instance(3), true), 1);
    assert_eq!(group.step(GroupEvent::Exactly(1), 2), [Action::Answer(Ok(()))]);
    assert_eq!(stages(&group), [(1, Stage::Terminating), (2, Stage::Terminating), (3, Stage::InService)]);
}

#[test]
fn a_group_of_protected_instances_shrinks_when_they_no_longer_are() {
    let mut group = in_service(0, 2);
    for n in [1, 2] {
        group.step(GroupEvent::Protect(Instance(n), true), 1);
    }
    assert_eq!(group.step(GroupEvent::Exactly(0), 2), [Action::Answer(Ok(()))]);
    assert_eq!(notice_of(&group, 1, 2), None);
    group.step(GroupEvent::Protect(Instance(1), false), 3);
    let left = Some(Duration::from_secs(30));
    assert_eq!(notice_of(&group, 1, 3), Some(Notice { reason: Reason::Terminating, left }));
}

#[test]
fn a_number_outside_the_limits_is_rejected() {
    let mut group = in_service(1, 2);
    let actions = group.step(GroupEvent::Exactly(0), 1);
    assert!(matches!(&actions[..], [Action::Answer(Err(reason))] if reason.contains("minimum of 1")), "{actions:?}");
    assert_eq!(group.desired(), 2);
}

#[test]
fn one_that_is_replaced_has_notice_while_another_starts() {
    let mut group = in_service(1, 1);
    assert_eq!(
        group.step(GroupEvent::Replace(Instance(1)), SECOND),
        [Action::Answer(Ok(())), Action::Launch(Instance(2))]
    );
    assert_eq!(
        group.step(GroupEvent::Released(Instance(1)), 2 * SECOND),
        [Action::Stop(Instance(1)), Action::Answer(Ok(()))]
    );
    assert_eq!(group.desired(), 1);
}

#[test]
fn an_instance_with_notice_gets_sigterm_at_its_deadline() {
    let mut group = in_service(1, 1);
    group.step(GroupEvent::Replace(Instance(1)), 0);
    assert_eq!(group.deadline_ns(), Some(30 * SECOND));
    assert_eq!(group.step(GroupEvent::Tick, 30 * SECOND), [Action::Stop(Instance(1))]);
    assert_eq!(group.step(GroupEvent::Tick, 35 * SECOND), [Action::Kill(Instance(1))]);
}

#[test]
fn one_that_never_came_up_is_replaced_without_notice() {
    let mut group = started(1, 3);
    let actions = group.step(GroupEvent::Replace(Instance(1)), 1);
    assert_eq!(actions, [Action::Stop(Instance(1)), Action::Answer(Ok(())), Action::Launch(Instance(2))]);
}

#[derive(Clone, Debug)]
enum Operation {
    Pass(u64),
    AtLeast(u32),
    Ready(usize),
    Exactly(u32),
    Protect(usize, bool),
    Replace(usize),
    Released(usize),
    Terminate(usize),
    Exit(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (0..20 * SECOND).prop_map(Operation::Pass),
        (0u32..12).prop_map(Operation::AtLeast),
        (0usize..12).prop_map(Operation::Ready),
        (0u32..12).prop_map(Operation::Exactly),
        (0usize..12, any::<bool>()).prop_map(|(n, on)| Operation::Protect(n, on)),
        (0usize..12).prop_map(Operation::Replace),
        (0usize..12).prop_map(Operation::Released),
        (0usize..12).prop_map(Operation::Terminate),
        (0usize..12).prop_map(Operation::Exit),
    ]
}

proptest! {
    #[test]
    fn capacity_stays_between_its_limits_and_is_always_on_its_way(
        min in 0u32..3, more in 0u32..6, delay in 0..3 * SECOND, steps in prop::collection::vec(operation(), 0..200),
    ) {
        let mut group = Group::new(Rules { launch_delay_ns: delay, ..rules(min, min + more) });
        let mut running = std::collections::BTreeSet::new();
        let mut now = 0;
        for operation in steps {
            let at = |n: usize| group.slots().get(n % group.slots().len().max(1)).map_or(Instance(0), |s| s.instance);
            let event = match operation {
                Operation::Pass(ns) => { now += ns; GroupEvent::Tick }
                Operation::AtLeast(n) => GroupEvent::AtLeast(n),
                Operation::Ready(n) => GroupEvent::Ready(at(n)),
                Operation::Exactly(n) => GroupEvent::Exactly(n),
                Operation::Protect(n, on) => GroupEvent::Protect(at(n), on),
                Operation::Replace(n) => GroupEvent::Replace(at(n)),
                Operation::Released(n) => GroupEvent::Released(at(n)),
                Operation::Terminate(n) => GroupEvent::Terminate(at(n)),
                Operation::Exit(n) if running.contains(&at(n)) => GroupEvent::Exited(at(n)),
                Operation::Exit(_) => GroupEvent::Tick,
            };
            if let GroupEvent::Exited(instance) = event {
                running.remove(&instance);
            }
            for action in group.step(event, now) {
                match action {
                    Action::Launch(instance) => prop_assert!(running.insert(instance), "launched twice: {instance:?}"),
                    Action::Stop(instance) | Action::Kill(instance) => prop_assert!(running.contains(&instance)),
                    Action::Capacity(_) | Action::Answer(_) => {}
                }
            }
            let counting: Vec<&Slot> = group.slots().iter().filter(|slot| slot.counts()).collect();
            prop_assert!(counting.len() >= group.desired() as usize);
            // Only protected instances may exceed the desired capacity.
            let protected = counting.iter().filter(|slot| slot.protected).count();
            prop_assert!(counting.len() <= protected.max(group.desired() as usize));
            prop_assert!((min..=min + more).contains(&group.desired()));
            for slot in group.slots() {
                prop_assert_eq!(running.contains(&slot.instance), slot.stage() != Stage::Pending);
            }
        }
    }
}
