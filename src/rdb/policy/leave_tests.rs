//! Leaving: actions in each phase, and how the node ends.

use super::*;
use crate::config::units::Scale;

const S: i64 = 1_000_000_000;

fn policy() -> Policy {
    Policy::new(Params::new(Scale::At(60.0), 80.0).unwrap())
}

fn live() -> Policy {
    let mut policy = policy();
    policy.step(PolicyEvent::BecameLive, 0);
    policy
}

fn step(policy: &mut Policy, event: PolicyEvent, now_ns: i64) -> Vec<Action> {
    let mut actions = policy.step(event, now_ns);
    actions.retain(|action| *action != Action::Report);
    actions
}

fn leave(why: LeaveReason) -> PolicyEvent {
    PolicyEvent::Leave { by_ns: 90 * S, why }
}

#[test]
fn a_live_node_requests_its_successor_announces_that_it_leaves_and_rolls() {
    let mut policy = live();
    assert_eq!(
        step(&mut policy, leave(LeaveReason::Interrupted), S),
        [Action::ScaleOut, Action::Announce, Action::Roll]
    );
    assert!(!policy.takes_updates());
    assert!(policy.is_leaving());
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 2 * S);
    assert_eq!(step(&mut policy, PolicyEvent::Left, 3 * S), [Action::Terminate]);
}

#[test]
fn a_terminating_node_requests_no_capacity() {
    let mut policy = live();
    assert_eq!(step(&mut policy, leave(LeaveReason::Replaced), S), [Action::Announce, Action::Roll]);
    assert_eq!(step(&mut policy, PolicyEvent::NodesMissing, 2 * S), []);
    assert_eq!(step(&mut policy, PolicyEvent::Left, 3 * S), [Action::Release]);
    assert_eq!(step(&mut policy, PolicyEvent::Released, 4 * S), [Action::End]);
}

#[test]
fn a_node_that_has_scaled_does_not_request_again() {
    let mut policy = live();
    step(&mut policy, PolicyEvent::Memory { used_bytes: 70, budget_bytes: 100 }, 0);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), S);
    assert_eq!(step(&mut policy, leave(LeaveReason::Replaced), 2 * S), [Action::Announce, Action::Roll]);
}

#[test]
fn a_rolled_node_says_that_it_leaves() {
    let mut policy = live();
    step(&mut policy, PolicyEvent::Memory { used_bytes: 90, budget_bytes: 100 }, 0);
    assert_eq!(step(&mut policy, leave(LeaveReason::Interrupted), S), [Action::Announce]);
}

#[test]
fn a_rebuilding_node_drops_its_rows_of_the_window_first() {
    let mut policy = policy();
    policy.step(PolicyEvent::BecameRebuilding, 0);
    assert_eq!(step(&mut policy, leave(LeaveReason::Replaced), S), [Action::Clear, Action::Announce]);
}

#[test]
fn a_node_whose_process_is_ended_by_hand_just_ends() {
    let mut policy = live();
    step(&mut policy, leave(LeaveReason::Requested), S);
    assert_eq!(step(&mut policy, PolicyEvent::Left, 2 * S), [Action::End]);
}

#[test]
fn an_interrupted_node_takes_itself_off_the_capacity_if_another_was_launched_for_its_windows() {
    let mut policy = live();
    step(&mut policy, leave(LeaveReason::Interrupted), S);
    assert_eq!(step(&mut policy, PolicyEvent::Left, 2 * S), [Action::Terminate]);
    assert_eq!(step(&mut policy, PolicyEvent::TerminateRefused, 3 * S), [Action::Release]);
    assert_eq!(step(&mut policy, PolicyEvent::Released, 4 * S), [Action::End]);
}

#[test]
fn an_interrupted_node_that_held_nothing_leaves_its_place_to_another() {
    let mut policy = policy();
    assert_eq!(step(&mut policy, leave(LeaveReason::Interrupted), S), [Action::Announce]);
    assert_eq!(step(&mut policy, PolicyEvent::Left, 2 * S), [Action::Release]);
}

#[test]
fn when_its_time_is_over_it_goes_and_says_so() {
    let mut policy = live();
    step(&mut policy, leave(LeaveReason::Interrupted), S);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 2 * S);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 90 * S - 1), []);
    assert_eq!(policy.next_deadline_ns(), 90 * S);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 90 * S), [Action::Abandon, Action::Release]);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 100 * S), [Action::End], "the fleet does not hear");
}

#[test]
fn a_second_request_keeps_the_earlier_deadline() {
    let mut policy = live();
    step(&mut policy, leave(LeaveReason::Requested), S);
    assert_eq!(step(&mut policy, PolicyEvent::Leave { by_ns: 200 * S, why: LeaveReason::Requested }, S), []);
    assert_eq!(policy.phase(), Phase::Leaving { by_ns: 90 * S });
    step(&mut policy, PolicyEvent::Leave { by_ns: 50 * S, why: LeaveReason::Requested }, S);
    assert_eq!(policy.phase(), Phase::Leaving { by_ns: 50 * S });
}

#[test]
fn an_interruption_that_becomes_a_replacement_is_notified_again() {
    let mut policy = live();
    step(&mut policy, leave(LeaveReason::Interrupted), S);
    assert_eq!(step(&mut policy, leave(LeaveReason::Replaced), 2 * S), [Action::Announce]);
    assert_eq!(step(&mut policy, leave(LeaveReason::Requested), 2 * S), []);
    assert_eq!(policy.leaves(), Some(LeaveReason::Replaced));
}

#[test]
fn the_end_of_the_day_leaves_nothing_to_hand_on() {
    let mut policy = live();
    step(&mut policy, leave(LeaveReason::Replaced), S);
    assert_eq!(step(&mut policy, PolicyEvent::DayEnd, 2 * S), [Action::Clear, Action::Release]);
}

#[test]
fn one_that_leaves_takes_no_new_role() {
    let mut policy = policy();
    step(&mut policy, leave(LeaveReason::Replaced), S);
    policy.step(PolicyEvent::BecameLive, 2 * S);
    policy.step(PolicyEvent::BecameRebuilding, 2 * S);
    assert!(!policy.takes_updates());
    assert_eq!(step(&mut policy, PolicyEvent::Dropped, 3 * S), [Action::Clear]);
    assert!(policy.is_leaving());
}

#[test]
fn one_that_is_ending_already_needs_no_more_than_to_end() {
    let mut policy = policy();
    policy.step(PolicyEvent::DayEnd, 0);
    assert_eq!(
        step(&mut policy, leave(LeaveReason::Requested), S),
        [Action::Terminate],
        "the capacity goes down with it"
    );
    assert_eq!(
        step(&mut policy, PolicyEvent::TerminateRefused, 2 * S),
        [Action::Release],
        "the group is at its minimum"
    );
    assert_eq!(step(&mut policy, leave(LeaveReason::Requested), 3 * S), [Action::End], "the second request");

    let mut policy = self::policy();
    policy.step(PolicyEvent::Sleep, 0);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), S), [Action::Terminate]);
    assert!(policy.is_ending());
    assert_eq!(step(&mut policy, leave(LeaveReason::Requested), 2 * S), [], "the signal is the fleet's own");
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 12 * S), [Action::End], "the fleet did not reply");

    let mut policy = self::policy();
    policy.step(PolicyEvent::DayEnd, 0);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), S), [Action::Terminate]);
    assert_eq!(step(&mut policy, leave(LeaveReason::Replaced), 2 * S), [Action::Release]);
}

#[test]
fn it_is_protected_while_it_holds_rows_of_the_day() {
    let mut policy = policy();
    assert_eq!(step(&mut policy, PolicyEvent::Taken { bytes: 9 }, 0), [], "symbols, not rows");
    policy.step(PolicyEvent::BecameLive, 0);
    assert_eq!(step(&mut policy, PolicyEvent::Taken { bytes: 9 }, 0), [Action::Protect(true)]);
    assert_eq!(step(&mut policy, PolicyEvent::Replayed { bytes: 9 }, 0), []);
    step(&mut policy, PolicyEvent::DayEnd, S);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), S), [Action::Protect(false)]);
    assert_eq!(step(&mut policy, PolicyEvent::Taken { bytes: 9 }, 2 * S), [Action::Protect(true)]);
}

#[test]
fn protection_ends_before_it_terminates_itself() {
    let mut policy = policy();
    policy.step(PolicyEvent::BecameRebuilding, 0);
    policy.step(PolicyEvent::Replayed { bytes: 9 }, 0);
    policy.step(PolicyEvent::RebuildDone, 0);
    step(&mut policy, PolicyEvent::DayEnd, S);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), S), [Action::Protect(false), Action::Terminate]);
}

#[test]
fn protection_ends_when_the_last_window_has_been_handed_on() {
    let mut policy = live();
    policy.step(PolicyEvent::Taken { bytes: 9 }, 0);
    step(&mut policy, leave(LeaveReason::Replaced), S);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(5), S), []);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), S), [Action::Protect(false)]);
    assert_eq!(step(&mut policy, PolicyEvent::Left, S), [Action::Release]);
}

#[test]
fn one_that_leaves_saves_the_ended_day_first_within_its_time() {
    let leaving = || {
        let mut policy = live();
        step(&mut policy, leave(LeaveReason::Requested), S);
        policy.keep_day(600 * S);
        let at_day_end = step(&mut policy, PolicyEvent::DayEnd, 2 * S);
        assert!(!at_day_end.contains(&Action::End), "{at_day_end:?}");
        assert!(!step(&mut policy, PolicyEvent::Left, 3 * S).contains(&Action::End));
        policy
    };
    assert!(step(&mut leaving(), PolicyEvent::DaySaved, 4 * S).contains(&Action::End));
    assert!(step(&mut leaving(), PolicyEvent::Tick, 90 * S).contains(&Action::End));
}
