//! The windows of an owner's lease, step by step.

use super::OwnerAction::{Acquire, Held, Late, Lost, Release, Renew};
use super::*;

const S: u64 = 1_000_000_000;
const WINDOWS: OwnerWindows = OwnerWindows { expire_ns: 15 * S, renew_ns: 3 * S, validity_ns: 3 * S, slack_ns: S };

fn held() -> OwnerLease {
    let mut lease = OwnerLease::new(WINDOWS, 100 * S);
    assert_eq!(lease.step(OwnerEvent::Tick, 100 * S), [Acquire]);
    assert_eq!(lease.step(OwnerEvent::Done, 101 * S), [Held]);
    lease
}

#[test]
fn the_life_counts_from_before_the_request_and_a_second_less() {
    let lease = held();
    assert_eq!(lease.ends_ns(), Some(114 * S));
    assert_eq!(lease.next_deadline_ns(), Some(103 * S));
}

#[test]
fn a_renewal_prolongs_the_lease_and_a_failed_one_does_not() {
    let mut lease = held();
    assert_eq!(lease.step(OwnerEvent::Tick, 103 * S), [Renew]);
    assert_eq!(lease.step(OwnerEvent::Unanswered, 105 * S), []);
    assert_eq!(lease.ends_ns(), Some(114 * S));
    let again = 105 * S + 3 * S / 4;
    assert_eq!(lease.next_deadline_ns(), Some(again));
    assert_eq!(lease.step(OwnerEvent::Tick, again), [Renew]);
    assert_eq!(lease.step(OwnerEvent::Done, again + S), []);
    assert_eq!(lease.ends_ns(), Some(again + 14 * S));
}

#[test]
fn a_lease_that_is_renewed_late_is_reported_once_and_then_lost() {
    let mut lease = held();
    assert_eq!(lease.step(OwnerEvent::Tick, 103 * S), [Renew]);
    assert_eq!(lease.step(OwnerEvent::Tick, 111 * S), [Late { left_ns: 3 * S }]);
    assert_eq!(lease.step(OwnerEvent::Tick, 112 * S), []);
    assert_eq!(lease.step(OwnerEvent::Tick, 114 * S), [Lost]);
    // The hung call comes back; its answer says nothing about now.
    assert_eq!(lease.step(OwnerEvent::Unanswered, 115 * S), []);
    assert_eq!(lease.step(OwnerEvent::Tick, 116 * S), [Acquire]);
    assert_eq!(lease.step(OwnerEvent::Done, 116 * S), [Held]);
}

#[test]
fn a_process_that_hung_past_the_end_acquires_again_and_does_not_renew() {
    let mut lease = held();
    assert_eq!(lease.step(OwnerEvent::Tick, 500 * S), [Lost, Acquire]);
}

#[test]
fn a_lease_that_the_store_has_ended_is_acquired_again() {
    let mut lease = held();
    lease.step(OwnerEvent::Tick, 103 * S);
    assert_eq!(lease.step(OwnerEvent::Gone, 104 * S), [Lost, Acquire]);
}

#[test]
fn a_process_that_leaves_gives_its_lease_back_once_and_makes_no_other_call() {
    let mut lease = held();
    assert_eq!(lease.step(OwnerEvent::Leave, 102 * S), [Release]);
    assert_eq!(lease.step(OwnerEvent::Leave, 102 * S), []);
    assert_eq!((lease.step(OwnerEvent::Tick, 200 * S), lease.next_deadline_ns()), (vec![], None));
}

#[test]
fn a_record_is_over_once_it_has_not_changed_for_its_own_life() {
    let seen = |version: &str| StoredLease::Recorded { version: version.into(), lasts_ns: 10 * S };
    let mut observer = Observer::default();
    assert_eq!(observer.look(seen("1"), 5 * S), Liveness::Unknown { until_ns: 15 * S });
    assert_eq!(observer.look(seen("1"), 14 * S), Liveness::Unknown { until_ns: 15 * S });
    assert_eq!(observer.clone().look(seen("2"), 14 * S), Liveness::Alive);
    assert_eq!(observer.look(seen("1"), 15 * S), Liveness::Gone);
    assert_eq!(Observer::default().look(StoredLease::Absent, 0), Liveness::Gone);
    assert_eq!(Observer::default().look(StoredLease::Kept, 0), Liveness::Alive);
}
