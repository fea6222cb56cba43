//! Processes with a copy of the log each.

use super::*;

/// A process with a log of its own.
fn with_copy(name: &str, is_empty: bool) -> Lease {
    lease(name).with_copy(Some(OwnCopy { name: name.to_string(), is_empty, is_followers: false }))
}

fn copies(names: &[&str]) -> Copies {
    Copies::of(names.iter().map(ToString::to_string))
}

/// The active process `a` with a log of its own, whose record names `names` as well.
fn active_with(store: &mut Store, names: &[&str]) -> Lease {
    let mut a = with_copy("a", false);
    assert_eq!(store.run(&mut a, LeaseEvent::Tick, 0), [LeaseAction::Lead(Epoch(1))]);
    assert_eq!(store.0.as_ref().unwrap().copies, copies(&["a"]));
    let request = LeaseEvent::Copies { request: 1, copies: copies(names) };
    let named = LeaseAction::Copies { request: 1, copies: copies(names) };
    assert_eq!(store.run(&mut a, request, S / 2), [named]);
    a
}

#[test]
fn only_a_copy_that_the_record_names_is_continued() {
    let mut store = Store::default();
    active_with(&mut store, &["a", "b"]);
    let (mut b, mut c) = (with_copy("b", false), with_copy("c", false));
    assert_eq!(store.run_until(&mut c, 20 * S), []);
    assert_eq!(c.barrier(), Some(Barrier::NotNamed(copies(&["a", "b"]))));
    assert_eq!(store.run_until(&mut b, 20 * S), [LeaseAction::Lead(Epoch(2))]);
    let kept = copies(&["a", "b"]);
    assert_eq!(store.0.as_ref().unwrap().copies, kept, "another one may go on if this one cannot open its log");
}

/// An operator may have changed the names of a released record between the read and the write that takes it.
#[test]
fn the_first_request_of_an_owner_is_written_whatever_the_record_named() {
    let mut store = Store::default();
    let mut a = active_with(&mut store, &["a"]);
    store.run(&mut a, LeaseEvent::StepDown { successor: None }, S);
    store.run(&mut a, LeaseEvent::Closed, S);
    let mut b = with_copy("a", false);
    let [LeaseAction::Read] = &b.step(LeaseEvent::Tick, 2 * S)[..] else { panic!("no read") };
    let [LeaseAction::Write(take)] = &b.step(LeaseEvent::Read(Ok(store.0.clone())), 2 * S)[..] else {
        panic!("no take")
    };
    store.0.as_mut().unwrap().copies = Copies::any();
    assert_eq!(store.write("a", take), Written::Applied);
    assert_eq!(b.step(LeaseEvent::Wrote(Ok(Written::Applied)), 2 * S), [LeaseAction::Lead(Epoch(2))]);
    let request = LeaseEvent::Copies { request: 1, copies: copies(&["a"]) };
    let named = LeaseAction::Copies { request: 1, copies: copies(&["a"]) };
    assert_eq!(store.run(&mut b, request, 2 * S), [named]);
    assert_eq!(store.0.as_ref().unwrap().copies, copies(&["a"]));
}

#[test]
fn an_operator_may_allow_any_copy() {
    let mut store = Store::default();
    active_with(&mut store, &["a"]);
    store.0.as_mut().unwrap().copies = Copies::any();
    assert_eq!(store.run_until(&mut with_copy("c", true), 7 * S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn copies_are_named_once_an_answer_is_found_that_was_lost() {
    let mut store = Store::default();
    let mut a = active_with(&mut store, &["a", "b"]);
    let request = LeaseEvent::Copies { request: 2, copies: copies(&["a"]) };
    let [LeaseAction::Write(write)] = &a.step(request, S)[..] else { panic!("no write") };
    store.write("a", write);
    assert_eq!(a.step(LeaseEvent::Wrote(Err(Unanswered)), 2 * S), []);
    assert_eq!(a.step(LeaseEvent::Tick, 2 * S + S / 4), [LeaseAction::Read]);
    let actions = a.step(LeaseEvent::Read(Ok(store.0.clone())), 2 * S + S / 4);
    assert!(actions.contains(&LeaseAction::Copies { request: 2, copies: copies(&["a"]) }), "{actions:?}");
}

/// The write of the first request may still be on its way: only a later one that is applied excludes it.
#[test]
fn a_request_that_changes_nothing_is_confirmed_by_a_write_as_well() {
    let mut store = Store::default();
    let mut a = active_with(&mut store, &["a", "b"]);
    let first = LeaseEvent::Copies { request: 2, copies: copies(&["a"]) };
    let [LeaseAction::Write(late)] = &a.step(first, S)[..] else { panic!("no write") };
    let late = late.clone();
    let back = LeaseEvent::Copies { request: 3, copies: copies(&["a", "b"]) };
    assert_eq!(a.step(back, S), [], "the first write has no answer yet");
    assert_eq!(a.step(LeaseEvent::Wrote(Err(Unanswered)), 2 * S), []);
    assert_eq!(a.step(LeaseEvent::Tick, 2 * S + S / 4), [LeaseAction::Read]);
    assert_eq!(a.step(LeaseEvent::Read(Ok(store.0.clone())), 2 * S + S / 4), []);
    let [LeaseAction::Write(renewal)] = &a.step(LeaseEvent::Tick, 3 * S)[..] else { panic!("no renewal") };
    assert_eq!(store.write("a", renewal), Written::Applied);
    let named = LeaseAction::Copies { request: 3, copies: copies(&["a", "b"]) };
    assert_eq!(a.step(LeaseEvent::Wrote(Ok(Written::Applied)), 3 * S), [named]);
    assert_eq!(store.write("a", &late), Written::Refused);
}

#[test]
fn a_process_without_a_log_makes_the_record_after_one_lease() {
    let mut store = Store::default();
    let mut empty = with_copy("e", true);
    assert_eq!(store.run_until(&mut empty, 6 * S - 1), []);
    let mut full = with_copy("f", false);
    assert_eq!(store.run(&mut full, LeaseEvent::Tick, 6 * S - 1), [LeaseAction::Lead(Epoch(1))]);
    let mut store = Store::default();
    assert_eq!(store.run_until(&mut with_copy("e", true), 7 * S), [LeaseAction::Lead(Epoch(1))]);
}

/// Its directory may have no log yet when it is killed, and has another number then.
#[test]
fn a_process_without_a_log_that_makes_the_record_bars_nobody() {
    let mut store = Store::default();
    assert_eq!(store.run_until(&mut with_copy("e", true), 7 * S), [LeaseAction::Lead(Epoch(1))]);
    assert_eq!(store.0.as_ref().unwrap().copies, Copies::any());
    assert_eq!(store.run_until(&mut with_copy("e2", true), 14 * S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn a_lease_of_one_log_and_one_of_copies_are_not_taken_for_each_other() {
    let mut store = Store::default();
    active(&mut store, "a");
    let mut b = with_copy("b", false);
    assert_eq!(store.run_until(&mut b, 20 * S), []);
    assert_eq!(b.barrier(), Some(Barrier::NoCopies));
    let mut store = Store::default();
    active_with(&mut store, &["a"]);
    let mut b = lease("b");
    assert_eq!(store.run_until(&mut b, 20 * S), []);
    assert_eq!(b.barrier(), Some(Barrier::OfCopies));
}

#[test]
fn a_copy_under_another_address_is_said_to_be_one() {
    let mut store = Store::default();
    active_with(&mut store, &["a", "b:1/7"]);
    let mut b = with_copy("b:2/7", false);
    assert_eq!(store.run_until(&mut b, 20 * S), []);
    assert_eq!(b.barrier(), Some(Barrier::OtherAddress("b:1/7".into())));
}

#[test]
fn another_log_than_the_common_one_is_not_continued() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let log = common_log("sym", 7);
    let request = LeaseEvent::Copies { request: 1, copies: copies(&[&log]) };
    let named = LeaseAction::Copies { request: 1, copies: copies(&[&log]) };
    assert_eq!(store.run(&mut a, request, S), [named]);
    let (mut b, mut c) = (lease("b"), lease("c"));
    for (own, of) in [(None, &mut b), (Some(common_log("sym", 8)), &mut c)] {
        let known = own.clone().map(LeaseEvent::OwnLog).unwrap_or(LeaseEvent::Tick);
        assert_eq!(store.run(of, known, S), []);
        assert_eq!(store.run_until(of, 20 * S), []);
        assert_eq!(of.barrier(), Some(Barrier::OtherLog { named: copies(&[&log]), own }));
    }
    let mut with_copy = with_copy("d", false);
    assert_eq!(store.run_until(&mut with_copy, 20 * S), []);
    assert_eq!(with_copy.barrier(), Some(Barrier::NoCopies));
    assert_eq!(store.run(&mut b, LeaseEvent::OwnLog(log.clone()), 20 * S), [LeaseAction::Lead(Epoch(2))]);
    store.0.as_mut().unwrap().copies = Copies::any();
    assert_eq!(store.run_until(&mut c, 60 * S), [LeaseAction::Lead(Epoch(3))]);
}

#[test]
fn a_copy_of_a_follower_makes_no_record() {
    let copy = OwnCopy { name: "b".to_string(), is_empty: false, is_followers: true };
    let mut b = lease("b").with_copy(Some(copy));
    let mut store = Store::default();
    assert_eq!(store.run_until(&mut b, 60 * S), []);
    assert_eq!(b.barrier(), Some(Barrier::GoesSecond));
    active_with(&mut store, &["a", "b"]);
    assert_eq!(store.run_until(&mut b, 80 * S), [LeaseAction::Lead(Epoch(2))]);
}
