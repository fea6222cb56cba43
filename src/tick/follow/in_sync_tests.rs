//! Steps of one leader, and of leaders with a store, under random orders of events.

use super::*;
use crate::lease::Copies;

const TIMEOUT: i64 = 100;

fn at(index: u64) -> Position {
    Position { date: 7, index }
}

/// A leader whose record names its own copy alone.
fn leader(needed: usize) -> InSync {
    let mut leader = InSync::new("a".into(), needed, TIMEOUT);
    assert_eq!(leader.step(Event::Time, at(0), 0).record, Some((1, copies(&["a"]))));
    leader.step(Event::Recorded(1), at(0), 0);
    leader
}

fn copies(names: &[&str]) -> Copies {
    Copies::of(names.iter().map(ToString::to_string))
}

/// A leader whose record names the follower `b`, which has 5 updates.
fn with_b() -> InSync {
    let mut leader = leader(1);
    leader.step(Event::Joined("b".into()), at(5), 0);
    leader.step(Event::Confirmed("b".into(), at(5)), at(5), 1);
    leader.step(Event::Recorded(2), at(5), 2);
    leader
}

#[test]
fn a_follower_counts_once_it_has_all_and_the_record_names_it() {
    let mut leader = leader(1);
    assert_eq!((leader.is_missing(), leader.confirmed()), (true, None), "alone, nothing waits");
    assert_eq!(leader.step(Event::Joined("b".into()), at(5), 0), Steps::default());
    assert_eq!(leader.step(Event::Confirmed("b".into(), at(3)), at(5), 1), Steps::default());
    assert_eq!(leader.confirmed(), None, "it has not caught up");
    // It has the tip of its first look, but not what was acknowledged without it meanwhile.
    assert_eq!(leader.step(Event::Confirmed("b".into(), at(5)), at(8), 2), Steps::default());
    assert_eq!(leader.confirmed(), Some(at(5)), "from here on responses wait for it");
    let steps = leader.step(Event::Confirmed("b".into(), at(8)), at(9), 3);
    assert_eq!(steps, Steps { record: Some((2, copies(&["a", "b"]))), change: None });
    let steps = leader.step(Event::Recorded(2), at(9), 4);
    assert_eq!(steps, Steps { record: None, change: Some(Change::Back) });
    assert!(leader.names("b") && !leader.is_missing());
}

/// The record still names what was complete under the leader before: one of those copies may be continued without what this leader logs.
#[test]
fn nothing_is_acknowledged_before_the_first_request_is_carried_out() {
    let mut leader = InSync::new("a".into(), 0, TIMEOUT);
    assert_eq!((leader.confirmed(), leader.due_ns()), (Some(Position::default()), Some(0)));
    assert_eq!(leader.step(Event::Time, at(5), 0).record, Some((1, copies(&["a"]))));
    assert_eq!(leader.step(Event::Time, at(6), 1), Steps::default(), "once");
    assert!(!leader.is_settled() && !leader.is_level(at(6)) && leader.due_ns().is_none());
    leader.step(Event::Recorded(1), at(6), 2);
    assert_eq!((leader.confirmed(), leader.is_level(at(6))), (None, true));
}

#[test]
fn responses_wait_for_a_follower_that_is_gone_until_the_record_names_it_no_more() {
    let mut leader = with_b();
    leader.step(Event::Left("b".into()), at(6), 10);
    assert_eq!(leader.step(Event::Time, at(7), 10 + TIMEOUT), Steps::default());
    assert_eq!(leader.due_ns(), Some(11 + TIMEOUT));
    let steps = leader.step(Event::Time, at(7), 11 + TIMEOUT);
    assert_eq!(steps.record, Some((3, copies(&["a"]))));
    assert_eq!(leader.confirmed(), Some(at(5)), "it may take over as long as the store has not answered");
    let steps = leader.step(Event::Recorded(3), at(7), 12 + TIMEOUT);
    assert_eq!((steps.change, leader.confirmed()), (Some(Change::Missing), None));
}

#[test]
fn a_follower_that_is_away_while_nothing_is_logged_stays_named() {
    let mut leader = with_b();
    leader.step(Event::Left("b".into()), at(5), 10);
    assert_eq!(leader.step(Event::Time, at(5), 100 * TIMEOUT), Steps::default());
    assert!(leader.names("b") && leader.due_ns().is_none());
}

#[test]
fn the_answer_to_an_earlier_request_changes_nothing() {
    let mut leader = with_b();
    leader.step(Event::Left("b".into()), at(6), 10);
    leader.step(Event::Time, at(6), 11 + TIMEOUT);
    // It is back before the store has answered.
    leader.step(Event::Joined("b".into()), at(6), 12 + TIMEOUT);
    let steps = leader.step(Event::Confirmed("b".into(), at(6)), at(6), 13 + TIMEOUT);
    assert_eq!(steps.record, Some((4, copies(&["a", "b"]))));
    leader.step(Event::Recorded(3), at(6), 14 + TIMEOUT);
    assert!(leader.names("b") && !leader.is_level(at(6)), "request 4 is open");
    leader.step(Event::Recorded(4), at(6), 15 + TIMEOUT);
    assert!(leader.names("b") && leader.is_level(at(6)));
}

#[test]
fn before_the_lease_is_given_back_only_complete_copies_are_named() {
    let mut leader = with_b();
    leader.step(Event::Time, at(6), 10);
    assert!(!leader.is_level(at(6)));
    assert_eq!(leader.exclude_behind(at(6)), Some((3, copies(&["a"]))));
    leader.step(Event::Recorded(3), at(6), 11);
    assert!(leader.is_level(at(6)));
}

/// A store of one record that answers late, or loses answers; the last one to write it is the leader.
#[derive(Default)]
struct Store {
    names: Vec<String>,
    /// Requests on their way, in order.
    calls: Vec<(u64, Copies)>,
    answers: Vec<u64>,
}

/// Each copy that the record names has all that was acknowledged, at any moment.
#[test]
fn no_follower_that_lacks_an_acknowledged_update_is_named() {
    let mut acknowledged_all = 0;
    for seed in 0..3_000 {
        let mut draw = fastrand::Rng::with_seed(seed);
        let needed = draw.usize(0..=2);
        let names = ["b", "c", "d"];
        let mut leader = InSync::new("a".into(), needed, TIMEOUT);
        let mut store = Store { names: vec!["a".into(), "d".into()], ..Store::default() };
        let (mut tip, mut acknowledged, mut now) = (0, 0, 0);
        let mut copied = [0u64; 3];
        let mut connected = [false; 3];
        for _ in 0..150 {
            now += draw.i64(0..60);
            let which = draw.usize(0..3);
            let name = names.get(which).unwrap().to_string();
            let (has, is_connected) = (copied.get_mut(which).unwrap(), connected.get_mut(which).unwrap());
            let steps = match draw.u8(0..9) {
                0 if *is_connected => {
                    *is_connected = false;
                    leader.step(Event::Left(name), at(tip), now)
                }
                0 | 1 => {
                    *is_connected = true;
                    leader.step(Event::Joined(name), at(tip), now)
                }
                2 => {
                    // The call reaches the table.
                    if !store.calls.is_empty() {
                        let (request, copies) = store.calls.remove(0);
                        store.names = copies.names().cloned().collect();
                        store.answers.push(request);
                    }
                    Steps::default()
                }
                3 => match store.answers.pop() {
                    Some(request) => leader.step(Event::Recorded(request), at(tip), now),
                    None => Steps::default(),
                },
                4 | 5 => {
                    tip += draw.u64(1..4);
                    leader.step(Event::Time, at(tip), now)
                }
                _ if *is_connected => {
                    *has = draw.u64(*has..=tip).max(if draw.bool() { tip } else { 0 });
                    leader.step(Event::Confirmed(name, at(*has)), at(tip), now)
                }
                _ => leader.step(Event::Time, at(tip), now),
            };
            store.calls.extend(steps.record);
            let safe = if needed == 0 { None } else { leader.confirmed() };
            acknowledged = acknowledged.max(safe.map_or(tip, |safe| safe.index.min(tip)));
            if needed > 0 {
                for (name, has) in names.iter().zip(copied) {
                    let is_named = store.names.iter().any(|of| of == name);
                    assert!(!is_named || has >= acknowledged, "seed {seed}: {name} has {has} of {acknowledged}");
                }
            }
        }
        acknowledged_all += acknowledged;
    }
    assert!(acknowledged_all > 100_000, "responses are given: {acknowledged_all}");
}
