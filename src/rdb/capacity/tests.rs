use super::*;
use crate::env::task::Task as _;
use crate::fleet::absent::NoFleet;
use crate::fleet::{Identity, Member, Notice, Stage};

/// Longer than any test.
const TIMEOUT: Duration = Duration::from_secs(3600);

struct Group {
    identity: Identity,
    members: Vec<&'static str>,
    desired: u32,
    max: u32,
    down: bool,
    protected: bool,
}

impl Group {
    fn boxed(own: &str, max: u32, down: bool) -> Box<Group> {
        let identity = Identity { instance: own.to_string(), group: "g".to_string() };
        Box::new(Group { identity, members: vec!["n1", "n2", "n3"], desired: 3, max, down, protected: false })
    }
}

impl Fleet for Group {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        let member = |name: &&str| Member {
            instance: name.to_string(),
            stage: Stage::InService,
            process: None,
            age: Duration::ZERO,
            lead_time: None,
            protected: self.protected,
        };
        let members = self.members.iter().map(member).collect();
        let lead_time = Some(Duration::from_secs(7));
        Ok(Description { desired: self.desired, lead_time, members, ..Description::default() })
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        if self.down {
            return Err(FleetError::Unreachable { address: "x".to_string(), reason: "down".to_string() });
        }
        self.desired = self.desired.max(desired.min(self.max));
        match desired <= self.max {
            true => Ok(Capacity::Granted { desired: self.desired }),
            false => Ok(Capacity::Refused { desired: self.desired, reason: "max".to_string() }),
        }
    }

    fn replace(&mut self, _: &str) -> Result<(), FleetError> {
        Ok(())
    }

    fn notice_every(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        Err(FleetError::Refused("below the minimum".to_string()))
    }
}

fn next(answers: &Receiver<FleetReply>) -> FleetReply {
    loop {
        match answers.recv_timeout(Duration::from_secs(20)).expect("an answer") {
            FleetReply::LeadTime { .. } => {}
            other => return other,
        }
    }
}

#[test]
fn a_node_without_a_position_requests_one_more_than_its_place_in_the_group() {
    let mut group = Group::boxed("n2", 9, false);
    assert_eq!(group.one_more().expect("described"), 3);
    let mut unknown = Group::boxed("n9", 9, false);
    assert_eq!(unknown.one_more().expect("described"), 4);
}

const fn at_least(instances: u32) -> FleetRequest {
    FleetRequest::AtLeast(Demand { instances: Some(instances), more: 1 })
}

#[test]
fn each_reply_of_the_fleet_is_distinguished() {
    for (max, down, expected) in [
        (9, false, ScaleAnswer::Granted),
        (3, false, ScaleAnswer::AtMaximum { instances: 3 }),
        (9, true, ScaleAnswer::Refused),
    ] {
        let Link { requests, answers, .. } =
            start(&Env::system(), Group::boxed("n3", max, down), TIMEOUT).expect("thread");
        requests.send(FleetRequest::AtLeast(Demand { instances: None, more: 1 })).expect("running");
        assert_eq!(next(&answers), FleetReply::Scaled(expected));
    }
}

#[test]
fn a_fleet_that_keeps_the_node_says_so() {
    let Link { requests, answers, .. } = start(&Env::system(), Group::boxed("n3", 9, false), TIMEOUT).expect("thread");
    requests.send(FleetRequest::Terminate).expect("running");
    assert_eq!(next(&answers), FleetReply::TerminateRefused);
}

#[test]
fn the_lead_time_is_reported_once() {
    let Link { requests, answers, .. } = start(&Env::system(), Group::boxed("n3", 9, false), TIMEOUT).expect("thread");
    requests.send(FleetRequest::Ready).expect("running");
    let first = answers.recv_timeout(Duration::from_secs(20)).expect("an answer");
    assert_eq!(first, FleetReply::LeadTime { lead_ns: 7_000_000_000 });
    requests.send(FleetRequest::Terminate).expect("running");
    assert_eq!(answers.recv_timeout(Duration::from_secs(20)).expect("an answer"), FleetReply::TerminateRefused);
}

/// A fleet that reports to the test and records its calls.
struct Reporting {
    group: Group,
    notice: Option<Notice>,
    failures_left: u32,
    calls: Sender<&'static str>,
}

impl Reporting {
    fn boxed(notice: Option<Notice>, failures_left: u32) -> (Box<Reporting>, Receiver<&'static str>) {
        let (calls, made) = channel();
        (Box::new(Reporting { group: *Group::boxed("n3", 9, false), notice, failures_left, calls }), made)
    }

    fn note(&mut self, what: &'static str) -> Result<(), FleetError> {
        let _ = self.calls.send(what);
        match self.failures_left.checked_sub(1) {
            None => Ok(()),
            Some(left) => {
                self.failures_left = left;
                Err(FleetError::Busy { call: "Test", reason: "slow down".to_string() })
            }
        }
    }
}

impl Fleet for Reporting {
    fn identity(&self) -> &Identity {
        self.group.identity()
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        self.group.describe()
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        self.note("at least")?;
        self.group.at_least(desired)
    }

    fn ready(&mut self) -> Result<(), FleetError> {
        self.note("ready")
    }

    fn protect(&mut self, on: bool) -> Result<(), FleetError> {
        self.note(if on { "protect" } else { "unprotect" })
    }

    fn notice(&mut self) -> Result<Option<Notice>, FleetError> {
        Ok(self.notice)
    }

    fn released(&mut self) -> Result<(), FleetError> {
        self.note("released")
    }

    fn replace(&mut self, instance: &str) -> Result<(), FleetError> {
        self.note(if instance == "n2" { "replace n2" } else { "replace another" })
    }

    fn describe_every(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        self.note("terminate")
    }

    fn notice_every(&self) -> Duration {
        Duration::from_millis(1)
    }
}

#[test]
fn a_notice_is_sent_once() {
    let notice = Notice { reason: Reason::SpotInterruption, left: None };
    let (fleet, made) = Reporting::boxed(Some(notice), 0);
    let Link { requests, answers, .. } = start(&Env::system(), fleet, TIMEOUT).expect("thread");
    assert_eq!(next(&answers), FleetReply::Leave { by: None, reason: Reason::SpotInterruption });
    requests.send(FleetRequest::Released).expect("running");
    assert_eq!(made.recv_timeout(Duration::from_secs(20)), Ok("released"));
    assert_eq!(next(&answers), FleetReply::Released);
    requests.send(FleetRequest::Terminate).expect("running");
    assert_eq!(next(&answers), FleetReply::Terminated, "not the notice again");
}

#[test]
fn calls_that_the_fleet_postpones_are_retried() {
    let (fleet, made) = Reporting::boxed(None, 2);
    let Link { requests, answers, counters, .. } = start(&Env::system(), fleet, TIMEOUT).expect("thread");
    requests.send(FleetRequest::Protect(true)).expect("running");
    let calls: Vec<_> = (0..3).map(|_| made.recv_timeout(Duration::from_secs(20)).expect("asked")).collect();
    assert_eq!(calls, ["protect"; 3]);
    requests.send(FleetRequest::Terminate).expect("running");
    assert_eq!(next(&answers), FleetReply::Terminated);
    assert_eq!(counters.throttled.get(), 2);
}

#[test]
fn a_protection_that_another_process_left_is_lifted() {
    let (mut fleet, made) = Reporting::boxed(None, 0);
    fleet.group.protected = true;
    let _link = start(&Env::system(), fleet, TIMEOUT).expect("thread");
    assert_eq!(made.recv_timeout(Duration::from_secs(20)), Ok("unprotect"));
}

#[test]
fn a_request_that_fails_is_rejected_to_the_node_at_once_and_granted_later() {
    let (fleet, _heard) = Reporting::boxed(None, 2);
    let Link { requests, answers, counters, .. } = start(&Env::system(), fleet, TIMEOUT).expect("thread");
    requests.send(at_least(4)).expect("running");
    assert_eq!(next(&answers), FleetReply::Scaled(ScaleAnswer::Refused));
    assert_eq!(next(&answers), FleetReply::Scaled(ScaleAnswer::Granted));
    assert_eq!((counters.requested.get(), counters.refused.get(), counters.granted.get()), (1, 1, 1));
}

#[test]
fn a_request_under_way_is_for_no_more_nodes_than_are_wanted_by_now() {
    let (fleet, _heard) = Reporting::boxed(None, 1);
    let (requests, answers, mut calls) = calls(Env::system().clock, fleet, TIMEOUT);
    requests.send(at_least(5)).expect("held");
    calls.work();
    assert_eq!(next(&answers), FleetReply::Scaled(ScaleAnswer::Refused));
    for desired in [3, 6] {
        requests.send(FleetRequest::AtMost(desired)).expect("held");
    }
    calls.work();
    let (pending, _) = calls.worker.demand.as_mut().expect("not granted yet");
    assert_eq!(pending.instances(Instant::now(), |demand| demand.instances.ok_or(())), Ok(3));
}

#[test]
fn an_instance_that_never_joins_is_replaced_once() {
    let (fleet, made) = Reporting::boxed(None, 1);
    let Link { requests, answers, counters, .. } = start(&Env::system(), fleet, Duration::ZERO).expect("thread");
    requests.send(FleetRequest::Joined(["n1", "n3"].map(String::from).to_vec())).expect("running");
    assert_eq!(next(&answers), FleetReply::Late { instance: "n2".to_string() });
    // The first attempt was throttled.
    let calls: Vec<_> = (0..2).map(|_| made.recv_timeout(Duration::from_secs(20)).expect("asked")).collect();
    assert_eq!(calls, ["replace n2"; 2]);
    requests.send(FleetRequest::Terminate).expect("running");
    assert_eq!(next(&answers), FleetReply::Terminated, "not late again");
    assert_eq!((counters.late.get(), counters.replaced.get()), (1, 1));
}

#[test]
fn without_a_fleet_no_instance_is_missing() {
    let (requests, _answers, mut calls) = calls(Env::system().clock, Box::new(NoFleet::new("n1")), Duration::ZERO);
    requests.send(FleetRequest::Joined(vec!["n1".to_string()])).expect("held");
    for _ in 0..3 {
        calls.worker.describe_at = calls.worker.clock.now();
        calls.work();
    }
    assert_eq!(calls.worker.counters.late.get(), 0);
}

#[test]
fn capacity_removed_at_the_end_of_the_day_is_not_requested_again() {
    let (mut fleet, made) = Reporting::boxed(None, 0);
    // The instances appear later.
    fleet.group.members.clear();
    let (requests, answers, mut calls) = calls(Env::system().clock, fleet, TIMEOUT);
    requests.send(at_least(4)).expect("held");
    calls.work();
    assert_eq!(made.try_recv(), Ok("at least"));
    assert_eq!(next(&answers), FleetReply::Scaled(ScaleAnswer::Granted));
    requests.send(FleetRequest::DayEnd).expect("held");
    let _ = calls.worker.described(&Description { desired: 2, ..Description::default() });
    calls.work();
    calls.work();
    assert_eq!(made.try_recv().ok(), None, "set back, and as wanted");
}
