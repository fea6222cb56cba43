//! The driver against calls that are answered by hand, on a clock that the test sets.

use super::driver::Driver;
use super::input::{Answer, Input, Job};
use super::set_clock::SetClock;
use super::store::StoreError;
use super::tenure::Tenure;
use crate::env::task::Task;
use crate::lease::{Copies, Epoch, Lease, LeaseEvent, LeaseRecord, LeaseWrite, Left, Terms, Written};
use crate::sys::clock::Clock;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

struct Bench {
    clock: Arc<SetClock>,
    tenure: Arc<Tenure>,
    driver: Driver,
    inputs: Sender<Input>,
    jobs: Receiver<Job>,
}

impl Bench {
    /// With a lease of 6 s, renewed every second.
    fn new(holds_without_store: bool) -> Bench {
        let terms = Terms::new(Duration::from_secs(6), Duration::from_secs(1)).unwrap();
        let terms = Terms { holds_without_store, ..terms };
        let clock = Arc::new(SetClock::default());
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let tenure = Arc::new(Tenure::new("test:".into(), "me".into(), shared));
        let ((inputs, received), (calls, jobs)) = (channel(), sync_channel(1));
        let driver = Driver::new(Lease::new("me".into(), terms, 0), terms, received, calls, Arc::clone(&tenure));
        Bench { clock, tenure, driver, inputs, jobs }
    }

    /// Lets the driver run at this time.
    fn at(&mut self, ns: u64) {
        self.clock.0.store(ns, Ordering::SeqCst);
        self.driver.work();
    }

    fn input(&mut self, input: Input) {
        self.inputs.send(input).unwrap();
        assert!(self.driver.wait());
        self.driver.work();
    }

    fn job(&self) -> Job {
        self.jobs.try_recv().expect("a call is made")
    }

    fn answer(&mut self, number: u64, answer: Answer) {
        self.input(Input::Answer(number, answer));
    }

    /// Takes the lease of a store without a record, at the present time.
    fn lead(&mut self) {
        self.driver.work();
        let read = self.job();
        self.answer(read.number, Answer::Read(Ok(None)));
        let create = self.job();
        assert!(matches!(create.write, Some(LeaseWrite::Create { .. })));
        self.answer(create.number, Answer::Wrote(Ok(Written::Applied)));
        assert_eq!(self.tenure.lead(), Some(Epoch(1)));
    }
}

fn failed() -> StoreError {
    StoreError::Failed("throttled".into())
}

#[test]
fn a_process_takes_the_lease_and_renews_it_at_each_heartbeat() {
    let mut bench = Bench::new(false);
    assert!(bench.tenure.is_over(), "nobody may write without a lease");
    bench.lead();
    assert!(!bench.tenure.is_over());
    bench.at(SECOND_NS - 1);
    assert!(bench.jobs.try_recv().is_err());
    bench.at(SECOND_NS);
    let renewal = bench.job();
    assert!(matches!(renewal.write, Some(LeaseWrite::Renew { .. })));
    bench.answer(renewal.number, Answer::Wrote(Ok(Written::Applied)));
    assert_eq!(bench.tenure.view().renewed, Some(Duration::ZERO));
    assert_eq!(bench.tenure.view().owner, "me");
}

#[test]
fn an_answer_after_the_deadline_counts_for_nothing() {
    let mut bench = Bench::new(false);
    bench.driver.work();
    let read = bench.job();
    bench.at(read.until_ns);
    assert_eq!(bench.tenure.view().failures, 1);
    bench.answer(read.number, Answer::Read(Ok(None)));
    assert!(bench.jobs.try_recv().is_err(), "the late answer starts no write");
    bench.at(read.until_ns + SECOND_NS);
    assert!(bench.job().write.is_none(), "the record is read again");
}

#[test]
fn a_call_that_hangs_holds_up_no_other() {
    let mut bench = Bench::new(false);
    bench.driver.work();
    // Nobody takes this call: the next one finds no room, and counts as unanswered at once.
    for second in 1..=3 {
        bench.at(second * 2 * SECOND_NS);
    }
    assert!(bench.tenure.view().failures >= 2);
    assert!(bench.tenure.view().trouble.is_some_and(|trouble| trouble.contains("no answer")));
}

#[test]
fn the_end_of_the_lease_is_seen_by_the_clock_before_the_driver_runs() {
    let mut bench = Bench::new(false);
    bench.lead();
    bench.clock.0.store(5 * SECOND_NS - 1, Ordering::SeqCst);
    assert!(!bench.tenure.is_over());
    bench.clock.0.store(5 * SECOND_NS, Ordering::SeqCst);
    assert!(bench.tenure.is_over() && !bench.tenure.has_left());
}

#[test]
fn without_renewals_the_process_warns_and_steps_down() {
    let mut bench = Bench::new(false);
    bench.lead();
    let woken = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&woken);
    bench.tenure.on_change(Arc::new(move || shared.store(true, Ordering::SeqCst)));
    bench.at(SECOND_NS);
    let renewal = bench.job();
    bench.answer(renewal.number, Answer::Wrote(Err(failed())));
    assert_eq!(bench.tenure.view().trouble.as_deref(), Some("throttled"));
    bench.at(3 * SECOND_NS);
    assert!(bench.tenure.view().danger.is_some());
    assert!(bench.tenure.view().words().unwrap().contains("ends in 2000 ms"));
    assert!(!woken.load(Ordering::SeqCst));
    bench.at(5 * SECOND_NS);
    assert!(woken.load(Ordering::SeqCst) && bench.tenure.has_left() && bench.tenure.lead().is_none());
    assert_eq!(bench.tenure.view().left, Some(Left::Expired));
}

#[test]
fn with_failsafe_the_process_goes_on_and_says_so() {
    let mut bench = Bench::new(true);
    bench.lead();
    bench.at(60 * SECOND_NS);
    assert!(!bench.tenure.is_over() && !bench.tenure.has_left());
    assert!(bench.tenure.view().is_held);
    assert!(bench.tenure.view().words().unwrap().contains("--lease-failsafe"));
}

#[test]
fn a_process_that_leaves_releases_and_settles() {
    let mut bench = Bench::new(false);
    bench.lead();
    for event in [LeaseEvent::Pause(true), LeaseEvent::StepDown { successor: None }, LeaseEvent::Closed] {
        bench.input(Input::Event(event));
    }
    assert!(!bench.tenure.settled(Duration::ZERO));
    let release = bench.job();
    assert!(matches!(release.write, Some(LeaseWrite::Release { .. })));
    bench.answer(release.number, Answer::Wrote(Ok(Written::Applied)));
    assert!(bench.tenure.settled(Duration::ZERO));
}

/// The passive process reads a record of this owner in each of these seconds, with another version each time.
fn watch(bench: &mut Bench, owner: &str, lease: Duration, seconds: RangeInclusive<u64>) {
    for number in seconds {
        bench.at(number * SECOND_NS);
        let read = bench.job();
        let record = LeaseRecord {
            owner: owner.into(),
            version: format!("v{number}"),
            lease_ns: u64::try_from(lease.as_nanos()).unwrap(),
            is_released: false,
            successor: None,
            epoch: Epoch(4),
            copies: Copies::default(),
            is_paused: false,
        };
        bench.answer(read.number, Answer::Read(Ok(Some(record))));
    }
}

#[test]
fn a_passive_process_knows_the_owner() {
    let mut bench = Bench::new(false);
    watch(&mut bench, "other", Duration::from_secs(6), 1..=1);
    let state = bench.tenure.state();
    assert_eq!((state.owner.as_str(), state.trouble.as_str()), ("other", ""));
}

#[test]
fn a_lease_that_another_program_has_made_long_is_told() {
    let mut bench = Bench::new(false);
    watch(&mut bench, "locker", Duration::from_secs(600), 1..=1);
    assert_eq!(bench.tenure.note(), "");
    watch(&mut bench, "locker", Duration::from_secs(86_400), 2..=2);
    assert!(bench.tenure.note().starts_with("the lease of locker lasts 86400 s"), "{}", bench.tenure.note());
    assert_eq!(bench.tenure.view().words(), None, "it may yet take over");
}

#[test]
fn an_owner_with_the_own_address_that_renews_is_another_process() {
    let mut bench = Bench::new(false);
    watch(&mut bench, "me/1", Duration::from_secs(6), 1..=2);
    assert_eq!(bench.tenure.view().words(), None, "one that has just ended may have left a renewal on its way");
    watch(&mut bench, "me/1", Duration::from_secs(6), 3..=4);
    assert!(bench.tenure.view().words().unwrap().starts_with("me/1 owns the lease under this process's own address"));
    watch(&mut bench, "other/1", Duration::from_secs(6), 5..=5);
    assert_eq!(bench.tenure.view().words(), None);
}
