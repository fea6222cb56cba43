//! The thread that talks to the fleet: its calls may take as long as a network does.

use super::policy::ScaleAnswer;
use crate::fleet::{Capacity, Fleet, FleetError};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What a node wants of its fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The node waits in its queue.
    Ready,
    /// At least so many nodes; without a number, one more than there were when this node was asked for.
    AtLeast(Option<u32>),
    Terminate,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Scaled(ScaleAnswer),
    LeadTime { lead_ns: i64 },
    Terminated,
    TerminateRefused,
}

/// Pause between looks at the group's lead time.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Attempts to be terminated before the node gives up asking.
const TERMINATE_ATTEMPTS: u32 = 5;

/// Starts the thread. It ends when the sender of questions is dropped.
///
/// # Errors
/// No thread can be had.
pub fn start(fleet: Box<dyn Fleet>) -> std::io::Result<(Sender<Ask>, Receiver<Answer>)> {
    let (asks, asked) = channel();
    let (answers, answered) = channel();
    std::thread::Builder::new().name("fleet".into()).spawn(move || run(fleet, &asked, &answers))?;
    Ok((asks, answered))
}

fn run(mut fleet: Box<dyn Fleet>, asked: &Receiver<Ask>, answers: &Sender<Answer>) {
    let mut lead_ns = None;
    loop {
        let answer = match asked.recv_timeout(LOOK_EVERY) {
            Ok(Ask::Ready) => {
                if let Err(error) = fleet.ready() {
                    log::warn!("cannot tell the fleet that this node waits: {error}");
                }
                None
            }
            Ok(Ask::AtLeast(desired)) => Some(Answer::Scaled(at_least(fleet.as_mut(), desired))),
            Ok(Ask::Terminate) => Some(terminate(fleet.as_mut())),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // A node that is gone wants no answers.
        if answer.is_some_and(|answer| answers.send(answer).is_err()) {
            return;
        }
        let known = fleet.describe().ok().and_then(|group| group.lead_time);
        let now_ns = known.and_then(|lead| i64::try_from(lead.as_nanos()).ok());
        if let Some(now_ns) = now_ns.filter(|_| now_ns != lead_ns) {
            lead_ns = Some(now_ns);
            if answers.send(Answer::LeadTime { lead_ns: now_ns }).is_err() {
                return;
            }
        }
    }
}

fn at_least(fleet: &mut dyn Fleet, desired: Option<u32>) -> ScaleAnswer {
    let result = match desired {
        Some(desired) => fleet.at_least(desired),
        None => successor(fleet).and_then(|desired| fleet.at_least(desired)),
    };
    match result {
        Ok(Capacity::Granted { desired }) => {
            log::info!("asked the fleet for a successor: {desired} nodes desired");
            ScaleAnswer::Granted
        }
        Ok(Capacity::Refused { desired, reason }) => {
            log::warn!("the fleet stays at {desired} nodes: {reason}");
            ScaleAnswer::AtMaximum
        }
        Err(error) => {
            log::warn!("cannot ask the fleet for a successor: {error}");
            ScaleAnswer::Refused
        }
    }
}

/// This node's place among the members, and one behind it.
fn successor(fleet: &mut dyn Fleet) -> Result<u32, FleetError> {
    let group = fleet.describe()?;
    let own = &fleet.identity().instance;
    let place = group.members.iter().zip(2u32..).find(|(member, _)| member.instance == *own);
    Ok(place.map_or(group.desired.saturating_add(1), |(_, desired)| desired))
}

fn terminate(fleet: &mut dyn Fleet) -> Answer {
    let mut pause = Duration::from_millis(200);
    for attempt in 1..=TERMINATE_ATTEMPTS {
        match fleet.terminate_me() {
            Ok(()) => return Answer::Terminated,
            Err(FleetError::Refused(reason)) => {
                log::info!("the fleet keeps this node: {reason}");
                return Answer::TerminateRefused;
            }
            Err(error) if attempt == TERMINATE_ATTEMPTS => log::warn!("cannot ask to be terminated: {error}"),
            Err(error) => {
                log::warn!("cannot ask to be terminated, trying again: {error}");
                std::thread::sleep(pause);
                pause = pause.saturating_mul(2);
            }
        }
    }
    Answer::TerminateRefused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Description, Identity, Member, Stage};

    struct Group {
        identity: Identity,
        members: Vec<&'static str>,
        desired: u32,
        max: u32,
        down: bool,
    }

    impl Group {
        fn boxed(own: &str, max: u32, down: bool) -> Box<Group> {
            let identity = Identity { instance: own.to_string(), group: "g".to_string() };
            Box::new(Group { identity, members: vec!["n1", "n2", "n3"], desired: 3, max, down })
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

        fn ready(&mut self) -> Result<(), FleetError> {
            Ok(())
        }

        fn terminate_me(&mut self) -> Result<(), FleetError> {
            Err(FleetError::Refused("below the minimum".to_string()))
        }
    }

    fn next(answers: &Receiver<Answer>) -> Answer {
        loop {
            match answers.recv_timeout(Duration::from_secs(20)).expect("an answer") {
                Answer::LeadTime { .. } => {}
                other => return other,
            }
        }
    }

    #[test]
    fn a_node_without_a_position_asks_for_one_behind_its_place_in_the_group() {
        let mut group = Group::boxed("n2", 9, false);
        assert_eq!(successor(group.as_mut()).expect("described"), 3);
        let mut stranger = Group::boxed("n9", 9, false);
        assert_eq!(successor(stranger.as_mut()).expect("described"), 4);
    }

    #[test]
    fn each_answer_of_the_fleet_is_told_apart() {
        for (max, down, expected) in
            [(9, false, ScaleAnswer::Granted), (3, false, ScaleAnswer::AtMaximum), (9, true, ScaleAnswer::Refused)]
        {
            let (asks, answers) = start(Group::boxed("n3", max, down)).expect("thread");
            asks.send(Ask::AtLeast(None)).expect("running");
            assert_eq!(next(&answers), Answer::Scaled(expected));
        }
    }

    #[test]
    fn a_fleet_that_keeps_the_node_says_so() {
        let (asks, answers) = start(Group::boxed("n3", 9, false)).expect("thread");
        asks.send(Ask::Terminate).expect("running");
        assert_eq!(next(&answers), Answer::TerminateRefused);
    }

    #[test]
    fn the_lead_time_is_told_once() {
        let (asks, answers) = start(Group::boxed("n3", 9, false)).expect("thread");
        asks.send(Ask::Ready).expect("running");
        let first = answers.recv_timeout(Duration::from_secs(20)).expect("an answer");
        assert_eq!(first, Answer::LeadTime { lead_ns: 7_000_000_000 });
        asks.send(Ask::Terminate).expect("running");
        assert_eq!(answers.recv_timeout(Duration::from_secs(20)).expect("an answer"), Answer::TerminateRefused);
    }
}
