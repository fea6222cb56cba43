use super::*;
use crate::fleet::{Description, FleetError, Identity};
use crate::sys::clock::SystemClock;
use std::sync::Mutex;

/// Requests to a group, and whether it is down.
#[derive(Default)]
struct Seen {
    asked: Vec<u32>,
    is_down: bool,
}

struct Fake {
    identity: Identity,
    seen: Arc<Mutex<Seen>>,
}

impl Fleet for Fake {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        Ok(Description { lead_time: Some(Duration::from_secs(7)), ..Description::default() })
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        let mut seen = self.seen.lock().expect("unpoisoned");
        seen.asked.push(desired);
        match (seen.is_down, desired <= 3) {
            (true, _) => Err(FleetError::Unreachable { address: "x".to_string(), reason: "down".to_string() }),
            (false, true) => Ok(Capacity::Granted { desired }),
            (false, false) => Ok(Capacity::Refused { desired: 3, reason: "max".to_string() }),
        }
    }

    fn replace(&mut self, _: &str) -> Result<(), FleetError> {
        Ok(())
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        Ok(())
    }
}

struct Bench {
    calls: Calls,
    requests: Sender<Request>,
    seen: Arc<Mutex<Seen>>,
    counters: Arc<Counters>,
}

impl Bench {
    fn new() -> Bench {
        let (requests, received) = channel();
        let (seen, counters) = (Arc::<Mutex<Seen>>::default(), Arc::<Counters>::default());
        let identity = Identity { instance: String::new(), group: "g".to_string() };
        let fake: Box<dyn Fleet> = Box::new(Fake { identity, seen: Arc::clone(&seen) });
        let groups = vec![("g".to_string(), fake)];
        let mut calls = Calls::new(Arc::new(SystemClock), groups, received, Arc::clone(&counters));
        calls.work();
        Bench { calls, requests, seen, counters }
    }

    fn request(&mut self, group: &str, desired: u32) {
        self.requests.send(Request { group: group.as_bytes().to_vec(), desired }).expect("open");
        assert!(self.calls.wait());
        self.calls.work();
    }

    fn asked(&self) -> Vec<u32> {
        self.seen.lock().expect("unpoisoned").asked.clone()
    }

    /// Whether no request is pending.
    fn is_idle(&self) -> bool {
        self.calls.groups.iter().all(|group| group.pending.is_none())
    }

    fn counts(&self) -> (u64, u64) {
        (self.counters.granted.load(Ordering::Relaxed), self.counters.failed.load(Ordering::Relaxed))
    }
}

#[test]
fn the_lead_time_is_known_from_the_start() {
    assert_eq!(Bench::new().counters.lead(), Some(Duration::from_secs(7)));
}

#[test]
fn a_request_is_made_once_and_one_above_the_maximum_is_left_to_the_queue_to_repeat() {
    let mut b = Bench::new();
    b.request("g", 2);
    b.request("other", 2);
    b.request("g", 9);
    assert_eq!((b.asked(), b.counts()), (vec![2, 9], (1, 1)));
    assert!(b.is_idle());
}

#[test]
fn a_request_that_failed_is_retried_with_the_latest_number() {
    let mut b = Bench::new();
    b.seen.lock().expect("unpoisoned").is_down = true;
    b.request("g", 1);
    assert!(!b.is_idle());
    b.requests.send(Request { group: b"g".to_vec(), desired: 3 }).expect("open");
    b.seen.lock().expect("unpoisoned").is_down = false;
    while b.asked().last() != Some(&3) {
        assert!(b.calls.wait());
        b.calls.work();
    }
    assert!(b.counts().0 == 1 && b.is_idle());
}

#[test]
fn the_thread_ends_with_its_owner() {
    let Bench { mut calls, requests, .. } = Bench::new();
    drop(requests);
    assert!(!calls.wait());
}
