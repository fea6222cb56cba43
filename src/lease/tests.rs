//! Steps of one process, and of two that share a store.

mod copies;

use super::*;
use std::time::Duration;

const S: u64 = 1_000_000_000;

fn terms() -> Terms {
    Terms::new(Duration::from_secs(6), Duration::from_secs(1)).unwrap()
}

fn lease(name: &str) -> Lease {
    Lease::new(name.to_string(), terms(), 0)
}

/// A store that answers at once.
#[derive(Default)]
struct Store(Option<LeaseRecord>);

impl Store {
    fn write(&mut self, me: &str, write: &LeaseWrite) -> Written {
        let lease_ns = terms().lease_ns;
        let is_paused = self.0.as_ref().is_some_and(|record| record.is_paused);
        let named = self.0.as_ref().map(|record| record.copies.clone()).unwrap_or_default();
        let own = |version: &str, epoch: Epoch, copies: &Option<Copies>| LeaseRecord {
            owner: me.to_string(),
            version: version.to_string(),
            lease_ns,
            is_released: false,
            successor: None,
            epoch,
            copies: copies.clone().unwrap_or_else(|| named.clone()),
            is_paused,
        };
        let found = self.0.clone();
        let holds = |from: &str| found.as_ref().is_some_and(|record| record.version == from);
        let is_own = found.as_ref().is_some_and(|record| record.owner == me);
        let is_released = found.as_ref().is_some_and(|record| record.is_released);
        let record = match write {
            LeaseWrite::Create { version, epoch, copies } if found.is_none() => own(version, *epoch, copies),
            LeaseWrite::Take { from, was_released, version, epoch, copies }
                if holds(from) && found.as_ref().is_some_and(|record| record.is_released == *was_released) =>
            {
                own(version, *epoch, copies)
            }
            LeaseWrite::Renew { from, version, copies } if holds(from) && is_own && !is_released => {
                own(version, found.map_or(Epoch(0), |record| record.epoch), copies)
            }
            LeaseWrite::Release { from, successor, .. } if holds(from) && is_own && !is_released => {
                let Some(record) = found else { return Written::Refused };
                LeaseRecord { is_released: true, successor: successor.clone(), ..record }
            }
            _ => return Written::Refused,
        };
        self.0 = Some(record);
        Written::Applied
    }

    /// Answers the calls of `lease` until it makes none. Returns its other actions.
    fn run(&mut self, lease: &mut Lease, event: LeaseEvent, now_ns: u64) -> Vec<LeaseAction> {
        let mut actions = lease.step(event, now_ns);
        let mut others = Vec::new();
        while let Some(action) = actions.pop() {
            match action {
                LeaseAction::Read => actions.extend(lease.step(LeaseEvent::Read(Ok(self.0.clone())), now_ns)),
                LeaseAction::Write(write) => {
                    let written = self.write(lease.name(), &write);
                    actions.extend(lease.step(LeaseEvent::Wrote(Ok(written)), now_ns));
                }
                other => others.push(other),
            }
        }
        others
    }

    /// Ticks a process at each of its deadlines, up to and including a time.
    fn run_until(&mut self, lease: &mut Lease, end_ns: u64) -> Vec<LeaseAction> {
        let mut others = Vec::new();
        while let Some(due_ns) = lease.next_deadline_ns().filter(|due_ns| *due_ns <= end_ns) {
            others.extend(self.run(lease, LeaseEvent::Tick, due_ns));
        }
        others
    }
}

/// The active process of a store, with epoch 1.
fn active(store: &mut Store, name: &str) -> Lease {
    let mut lease = lease(name);
    assert_eq!(store.run(&mut lease, LeaseEvent::Tick, 0), [LeaseAction::Lead(Epoch(1))]);
    lease
}

#[test]
fn a_lease_shorter_than_two_heartbeats_is_rejected() {
    let [short, heartbeat] = [1999, 1000].map(Duration::from_millis);
    assert_eq!(Terms::new(short, heartbeat), Err(TermsError::Short { lease: short, heartbeat }));
    assert_eq!(Terms::new(heartbeat, Duration::ZERO), Err(TermsError::Heartbeat(Duration::ZERO)));
    assert!(Terms::new(Duration::from_secs(2), heartbeat).is_ok());
}

#[test]
fn the_first_process_is_active_and_renews_each_heartbeat() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    assert_eq!(store.run_until(&mut a, 100 * S), []);
    assert_eq!(a.standing(), Standing::Active(Epoch(1)));
    assert_eq!(a.renewed_ns(), Some(100 * S));
    assert_eq!(store.0.unwrap().version, "a#101");
}

#[test]
fn a_passive_process_waits_for_an_owner_that_renews() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let mut b = lease("b");
    for second in 0..60 {
        store.run_until(&mut a, second * S);
        assert_eq!(store.run_until(&mut b, second * S + S / 3), []);
    }
    assert_eq!(b.standing(), Standing::Passive);
}

#[test]
fn a_lease_that_is_not_renewed_is_taken_after_its_duration_with_the_next_epoch() {
    let mut store = Store::default();
    active(&mut store, "a");
    let mut b = lease("b");
    assert_eq!(store.run_until(&mut b, 6 * S - 1), []);
    assert_eq!(store.run_until(&mut b, 6 * S), [LeaseAction::Lead(Epoch(2))]);
    assert_eq!(store.0.unwrap().owner, "b");
}

#[test]
fn an_owner_steps_down_before_others_may_take_its_lease() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    assert_eq!(a.next_deadline_ns(), Some(S));
    let renewal = a.step(LeaseEvent::Tick, S);
    assert!(matches!(&renewal[..], [LeaseAction::Write(LeaseWrite::Renew { .. })]));
    // The store does not answer: only time passes.
    assert_eq!(a.step(LeaseEvent::Tick, 3 * S), [LeaseAction::Danger { left_ns: 2 * S }]);
    assert_eq!(a.step(LeaseEvent::Tick, 5 * S - 1), []);
    assert_eq!(a.step(LeaseEvent::Tick, 5 * S), [LeaseAction::StepDown(Left::Expired)]);
    assert_eq!(a.standing(), Standing::Closing);
}

#[test]
fn an_owner_that_holds_by_the_log_goes_on_and_says_so_once() {
    let terms = Terms { holds_without_store: true, ..terms() };
    let mut a = Lease::new("a".to_string(), terms, 0);
    let mut store = Store::default();
    store.run(&mut a, LeaseEvent::Tick, 0);
    a.step(LeaseEvent::Tick, S);
    assert_eq!(a.step(LeaseEvent::Tick, 7 * S), [LeaseAction::Hold]);
    assert_eq!(a.step(LeaseEvent::Tick, 60 * S), []);
    let read = a.step(LeaseEvent::Wrote(Err(Unanswered)), 60 * S);
    assert_eq!(read, []);
    assert_eq!(store.run_until(&mut a, 61 * S), [LeaseAction::Safe]);
    assert_eq!(a.standing(), Standing::Active(Epoch(1)));
}

#[test]
fn a_renewal_whose_answer_is_lost_counts_from_before_it_was_sent() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let [LeaseAction::Write(renewal)] = &a.step(LeaseEvent::Tick, S)[..] else { panic!("no renewal") };
    assert_eq!(store.write("a", renewal), Written::Applied);
    assert_eq!(a.step(LeaseEvent::Wrote(Err(Unanswered)), 2 * S), []);
    assert_eq!(a.step(LeaseEvent::Tick, 2 * S + S / 4), [LeaseAction::Read]);
    let record = store.0.clone();
    let renewal = a.step(LeaseEvent::Read(Ok(record)), 2 * S + S / 4);
    assert!(matches!(&renewal[..], [LeaseAction::Write(LeaseWrite::Renew { from, .. })] if from == "a#2"));
    assert_eq!(a.renewed_ns(), Some(S));
}

#[test]
fn a_renewal_that_was_refused_because_an_earlier_one_came_late_does_not_end_the_lease() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let [LeaseAction::Write(late)] = &a.step(LeaseEvent::Tick, S)[..] else { panic!("no renewal") };
    let late = late.clone();
    a.step(LeaseEvent::Wrote(Err(Unanswered)), 2 * S);
    assert_eq!(a.step(LeaseEvent::Tick, 2 * S + S / 4), [LeaseAction::Read]);
    assert_eq!(a.step(LeaseEvent::Read(Ok(store.0.clone())), 2 * S + S / 4), []);
    let second = write_of(&a.step(LeaseEvent::Tick, 2 * S + S / 2));
    assert_eq!(store.write("a", &late), Written::Applied);
    assert_eq!(store.write("a", &second), Written::Refused);
    assert_eq!(store.run(&mut a, LeaseEvent::Wrote(Ok(Written::Refused)), 2 * S + S / 2), []);
    assert_eq!(a.standing(), Standing::Active(Epoch(1)));
    assert_eq!(store.run_until(&mut a, 30 * S), []);
}

#[test]
fn an_owner_that_finds_another_owner_steps_down_and_takes_nothing_before_its_log_is_closed() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let mut b = lease("b");
    store.run_until(&mut b, 6 * S);
    // a was paused: its clock did not move, and the step that follows is its renewal.
    assert_eq!(store.run_until(&mut a, S), [LeaseAction::StepDown(Left::Taken)]);
    assert_eq!(a.next_deadline_ns(), None);
    assert_eq!(store.run(&mut a, LeaseEvent::Closed, 8 * S), []);
    assert_eq!(a.standing(), Standing::Passive);
    assert_eq!(store.0.unwrap().owner, "b");
}

#[test]
fn a_released_lease_is_taken_at_once_and_its_former_owner_waits() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let mut b = lease("b");
    store.run_until(&mut b, S);
    let down = store.run(&mut a, LeaseEvent::StepDown { successor: None }, S);
    assert_eq!(down, [LeaseAction::StepDown(Left::Requested)]);
    assert!(!store.0.clone().unwrap().is_released, "the log is still open");
    store.run(&mut a, LeaseEvent::Closed, S);
    assert!(store.0.clone().unwrap().is_released);
    assert_eq!(store.run_until(&mut a, 6 * S), []);
    assert_eq!(store.run_until(&mut b, S + S / 2), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn a_lease_released_for_a_successor_is_left_to_it_for_its_duration() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    store.run(&mut a, LeaseEvent::StepDown { successor: Some("c".to_string()) }, S);
    store.run(&mut a, LeaseEvent::Closed, S);
    let [mut b, mut c] = ["b", "c"].map(lease);
    assert_eq!(store.run_until(&mut b, 5 * S), []);
    assert_eq!(store.run_until(&mut c, 0), [LeaseAction::Lead(Epoch(2))]);
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    store.run(&mut a, LeaseEvent::StepDown { successor: Some("gone".to_string()) }, S);
    store.run(&mut a, LeaseEvent::Closed, S);
    let mut b = lease("b");
    assert_eq!(store.run_until(&mut b, 6 * S - 1), []);
    assert_eq!(store.run_until(&mut b, 6 * S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn a_lease_whose_owner_cannot_write_is_taken_at_once() {
    let mut store = Store::default();
    active(&mut store, "a");
    let mut b = lease("b");
    assert_eq!(store.run_until(&mut b, S), []);
    store.run(&mut b, LeaseEvent::CannotWrite("z".to_string()), S);
    assert_eq!(b.standing(), Standing::Passive, "another owner's end proves nothing");
    assert_eq!(store.run(&mut b, LeaseEvent::CannotWrite("a".to_string()), S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn an_owner_that_cannot_write_is_remembered_however_often_another_one_is_named() {
    let mut store = Store::default();
    active(&mut store, "a");
    let mut b = lease("b");
    store.run(&mut b, LeaseEvent::Pause(true), 0);
    for owner in ["a", "z", "z", "z", "z", "z", "z", "z", "z"] {
        store.run(&mut b, LeaseEvent::CannotWrite(owner.to_string()), 0);
    }
    store.run(&mut b, LeaseEvent::Pause(false), 0);
    assert_eq!(store.run_until(&mut b, S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn an_own_record_that_was_applied_late_is_taken_again_with_another_epoch() {
    let mut store = Store::default();
    let mut a = lease("a");
    assert_eq!(a.step(LeaseEvent::Tick, 0), [LeaseAction::Read]);
    let actions = a.step(LeaseEvent::Read(Ok(None)), 0);
    let [LeaseAction::Write(create)] = &actions[..] else { panic!("no write") };
    assert_eq!(store.write("a", create), Written::Applied);
    assert_eq!(a.step(LeaseEvent::Wrote(Err(Unanswered)), S), []);
    assert_eq!(store.run_until(&mut a, 2 * S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn an_acquisition_whose_answer_comes_after_the_lease_has_ended_makes_nobody_active() {
    let mut store = Store::default();
    let mut a = lease("a");
    a.step(LeaseEvent::Tick, 0);
    let actions = a.step(LeaseEvent::Read(Ok(None)), 0);
    let [LeaseAction::Write(create)] = &actions[..] else { panic!("no write") };
    store.write("a", create);
    assert_eq!(a.step(LeaseEvent::Wrote(Ok(Written::Applied)), 5 * S), [LeaseAction::Read]);
    assert_eq!(a.standing(), Standing::Passive);
}

#[test]
fn the_epoch_is_above_that_of_the_log_whatever_the_record_says() {
    let mut store = Store::default();
    let mut a = lease("a");
    store.run(&mut a, LeaseEvent::LogEpoch(Epoch(41)), 0);
    assert_eq!(a.standing(), Standing::Active(Epoch(42)));
    // Another kind of client has replaced the record, and the number with it.
    store.0.as_mut().unwrap().epoch = Epoch(0);
    store.0.as_mut().unwrap().is_released = true;
    let mut b = lease("b");
    b.step(LeaseEvent::LogEpoch(Epoch(42)), 0);
    let record = store.0.clone();
    let actions = b.step(LeaseEvent::Read(Ok(record)), 0);
    assert!(matches!(&actions[..], [LeaseAction::Write(LeaseWrite::Take { epoch: Epoch(43), .. })]));
}

#[test]
fn a_log_with_a_higher_epoch_makes_its_owner_take_the_lease_again() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    assert_eq!(store.run(&mut a, LeaseEvent::LogEpoch(Epoch(9)), S / 2), [LeaseAction::Lead(Epoch(10))]);
    assert_eq!(store.0.unwrap().epoch, Epoch(10));
}

#[test]
fn a_paused_process_takes_nothing() {
    let mut store = Store::default();
    active(&mut store, "a");
    let mut b = lease("b");
    b.step(LeaseEvent::Pause(true), 0);
    assert_eq!(store.run(&mut b, LeaseEvent::Read(Ok(store.0.clone())), 0), []);
    assert_eq!(store.run_until(&mut b, 60 * S), []);
    store.run(&mut b, LeaseEvent::Pause(false), 60 * S);
    assert_eq!(store.run_until(&mut b, 61 * S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn a_record_that_is_gone_ends_the_lease() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    store.0 = None;
    assert_eq!(store.run_until(&mut a, S), [LeaseAction::StepDown(Left::Taken)]);
}

#[test]
fn an_answer_without_a_call_changes_nothing() {
    let mut a = lease("a");
    let before = a.clone();
    assert_eq!(a.step(LeaseEvent::Wrote(Ok(Written::Applied)), 0), [LeaseAction::Read]);
    let mut b = before;
    assert_eq!(b.step(LeaseEvent::Tick, 0), [LeaseAction::Read]);
    assert_eq!(a, b);
}

/// Steps that make calls, and the write among their actions.
fn write_of(actions: &[LeaseAction]) -> LeaseWrite {
    match actions {
        [LeaseAction::Write(write)] => write.clone(),
        other => panic!("{other:?} is no write"),
    }
}

#[test]
fn a_step_down_while_the_lease_is_taken_again_leaves_it_to_the_successor() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let take = write_of(&a.step(LeaseEvent::LogEpoch(Epoch(9)), S / 2));
    store.write("a", &take);
    a.step(LeaseEvent::StepDown { successor: Some("c".to_string()) }, S / 2);
    a.step(LeaseEvent::Wrote(Err(Unanswered)), S / 2);
    assert_eq!(store.run(&mut a, LeaseEvent::Closed, S / 2), []);
    assert_eq!(store.0.as_ref().unwrap().successor.as_deref(), Some("c"));
    assert_eq!(store.run_until(&mut a, 6 * S), []);
}

#[test]
fn a_late_renewal_does_not_undo_a_release() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let late = write_of(&a.step(LeaseEvent::Tick, S));
    a.step(LeaseEvent::Wrote(Err(Unanswered)), S + S / 2);
    store.run(&mut a, LeaseEvent::StepDown { successor: None }, S + S / 2);
    store.run(&mut a, LeaseEvent::Closed, S + S / 2);
    assert!(store.0.as_ref().unwrap().is_released);
    assert_eq!(store.write("a", &late), Written::Refused);
}

#[test]
fn a_release_whose_answer_is_lost_is_looked_at_and_repeated() {
    for is_applied in [false, true] {
        let mut store = Store::default();
        let mut a = active(&mut store, "a");
        store.run(&mut a, LeaseEvent::StepDown { successor: Some("b".to_string()) }, S / 2);
        let release = write_of(&a.step(LeaseEvent::Closed, S / 2));
        if is_applied {
            store.write("a", &release);
        }
        a.step(LeaseEvent::Wrote(Err(Unanswered)), S / 2);
        store.run_until(&mut a, 2 * S);
        assert_eq!(store.0.as_ref().unwrap().successor.as_deref(), Some("b"));
        let mut b = lease("b");
        assert_eq!(store.run(&mut b, LeaseEvent::Tick, 2 * S), [LeaseAction::Lead(Epoch(2))]);
    }
}

#[test]
fn a_step_down_with_a_renewal_under_way_releases_at_its_answer() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let renewal = write_of(&a.step(LeaseEvent::Tick, S));
    a.step(LeaseEvent::StepDown { successor: None }, S);
    assert_eq!(a.step(LeaseEvent::Closed, S), []);
    let written = store.write("a", &renewal);
    assert_eq!(store.run(&mut a, LeaseEvent::Wrote(Ok(written)), S + 1), []);
    assert!(store.0.unwrap().is_released);
}

#[test]
fn a_step_down_or_a_pause_while_the_lease_is_taken_gives_it_back() {
    for event in [LeaseEvent::StepDown { successor: Some("b".to_string()) }, LeaseEvent::Pause(true)] {
        let mut store = Store::default();
        let mut a = lease("a");
        a.step(LeaseEvent::Tick, 0);
        let create = write_of(&a.step(LeaseEvent::Read(Ok(None)), 0));
        a.step(event, 1);
        let written = store.write("a", &create);
        assert_eq!(store.run(&mut a, LeaseEvent::Wrote(Ok(written)), 2), []);
        assert!(store.0.unwrap().is_released);
    }
}

#[test]
fn a_store_that_refuses_without_end_is_not_called_without_a_pause() {
    let released = |owner: &str| LeaseRecord {
        owner: owner.to_string(),
        version: String::new(),
        lease_ns: 6 * S,
        is_released: true,
        successor: None,
        epoch: Epoch(0),
        copies: Copies::default(),
        is_paused: false,
    };
    let mut passive = lease("b");
    assert_eq!(passive.step(LeaseEvent::Tick, 0), [LeaseAction::Read]);
    write_of(&passive.step(LeaseEvent::Read(Ok(Some(released("x")))), 0));
    assert_eq!(passive.step(LeaseEvent::Wrote(Ok(Written::Refused)), 0), []);
    assert_eq!(passive.next_deadline_ns(), Some(S / 4));
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    write_of(&a.step(LeaseEvent::Tick, S));
    assert_eq!(a.step(LeaseEvent::Wrote(Ok(Written::Refused)), S), [LeaseAction::Read]);
    assert_eq!(a.step(LeaseEvent::Read(Ok(store.0.clone())), S), []);
    assert_eq!(a.next_deadline_ns(), Some(S + S / 4));
}

#[test]
fn no_epoch_follows_the_highest() {
    let mut store = Store::default();
    active(&mut store, "x");
    let record = store.0.as_mut().unwrap();
    (record.is_released, record.epoch) = (true, Epoch(u64::MAX));
    let mut a = lease("a");
    assert_eq!(store.run_until(&mut a, 20 * S), []);
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let actions = store.run(&mut a, LeaseEvent::LogEpoch(Epoch(u64::MAX)), S / 2);
    assert_eq!(actions, [LeaseAction::StepDown(Left::NoEpoch)]);
}

#[test]
fn a_log_that_refuses_does_not_wait_for_a_heartbeat() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let renewal = write_of(&a.step(LeaseEvent::Tick, S));
    a.step(LeaseEvent::LogEpoch(Epoch(9)), S);
    let written = store.write("a", &renewal);
    assert_eq!(store.run(&mut a, LeaseEvent::Wrote(Ok(written)), S + 1), [LeaseAction::Lead(Epoch(10))]);
}

#[test]
fn an_owner_alone_after_an_outage_does_not_wait_for_others() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    write_of(&a.step(LeaseEvent::Tick, S));
    a.step(LeaseEvent::Tick, 5 * S);
    assert_eq!(a.step(LeaseEvent::Wrote(Err(Unanswered)), 6 * S), []);
    a.step(LeaseEvent::Closed, 7 * S);
    assert_eq!(store.run(&mut a, LeaseEvent::Read(Ok(store.0.clone())), 7 * S), [LeaseAction::Lead(Epoch(2))]);
}

#[test]
fn a_record_released_by_another_hand_ends_the_lease() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    store.0.as_mut().unwrap().is_released = true;
    assert_eq!(store.run_until(&mut a, S), [LeaseAction::StepDown(Left::Taken)]);
}

#[test]
fn a_retaken_lease_counts_from_before_it_was_sent() {
    let mut store = Store::default();
    let mut a = active(&mut store, "a");
    let take = write_of(&a.step(LeaseEvent::LogEpoch(Epoch(9)), S / 2));
    let written = store.write("a", &take);
    a.step(LeaseEvent::Wrote(Ok(written)), 2 * S);
    assert_eq!(a.renewed_ns(), Some(S / 2));
}

#[test]
fn while_take_overs_are_paused_only_the_owners_address_and_a_named_successor_take_the_lease() {
    let paused = |is_released: bool, successor: Option<&str>| {
        let mut store = Store::default();
        active(&mut store, "host:1/a");
        let record = store.0.as_mut().unwrap();
        (record.is_paused, record.is_released) = (true, is_released);
        record.successor = successor.map(String::from);
        store
    };
    let mut b = lease("other:1/b");
    assert_eq!(paused(false, None).run_until(&mut b, 20 * S), []);
    assert_eq!(b.barrier(), Some(Barrier::Paused));
    assert_eq!(paused(true, None).run_until(&mut lease("other:1/c"), 20 * S), []);
    let lead = [LeaseAction::Lead(Epoch(2))];
    assert_eq!(paused(true, None).run_until(&mut lease("host:1/d"), S), lead);
    assert_eq!(paused(true, Some("other:1/e")).run_until(&mut lease("other:1/e"), S), lead);
}
