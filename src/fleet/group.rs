//! Rules of a scaling group: how many instances to have, and which to launch, end and replace. Pure.
//!
//! They follow an EC2 Auto Scaling group as far as a queue of nodes needs it. The capacity stays between `min` and
//! `max`; an instance that dies is replaced, one terminated with a decrement is not. Requests are for "at least
//! n", so repeating one changes nothing. Only an operator shrinks the group; protected instances then stay. An instance in
//! service that is surplus or replaced gets a notice first; one that terminates itself, or a shutdown, needs none.

use super::{Capacity, Notice, Reason, Stage};
use std::time::Duration;

/// Number of an instance in the group; increasing, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance(pub u64);

/// Settings of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub min: u32,
    pub max: u32,
    /// Delay from a request until the process is started, to imitate a server's launch.
    pub launch_delay_ns: u64,
    /// Time from asking an instance to end until it is killed.
    pub grace_ns: u64,
    /// Time from the notice to an instance in service until it is asked to end; it may release itself earlier.
    pub notice_ns: u64,
}

/// First and longest delay before an instance that failed early is replaced; it doubles with every consecutive failure.
const BACK_OFF_FIRST_NS: u64 = 250_000_000;
const MAX_BACK_OFF_NS: u64 = 30_000_000_000;
/// An instance that ran this long did not fail early, whether or not it became ready.
const EARLY_NS: u64 = 10_000_000_000;

/// Input of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// Time has passed; see [`Group::deadline_ns`].
    Tick,
    /// Request for at least so many instances.
    AtLeast(u32),
    /// An instance is ready.
    Ready(Instance),
    /// The operator sets the desired capacity, higher or lower.
    Exactly(u32),
    /// Switches scale-in protection of an instance.
    Protect(Instance, bool),
    /// Ends an instance and lowers the desired capacity by one.
    Terminate(Instance),
    /// Replaces an instance, for example an unhealthy one.
    Replace(Instance),
    /// An instance ends on its own after handing off its windows: launch its replacement now.
    Leaving(Instance),
    /// Ending the instance loses nothing any more.
    Released(Instance),
    /// The process of an instance has ended or failed to start.
    Exited(Instance),
    /// End all instances and replace none.
    Shutdown,
}

/// Output of the group, to be carried out by the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Launch(Instance),
    /// Ask the process to end.
    Stop(Instance),
    /// Kill the process.
    Kill(Instance),
    /// Reply to [`GroupEvent::AtLeast`].
    Capacity(Capacity),
    /// Reply to the other requests: done, or why not.
    Answer(Result<(), String>),
}

/// Lifecycle of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending {
        launch_at_ns: u64,
    },
    Starting {
        since_ns: u64,
    },
    InService,
    /// The instance has its notice; it is asked to end when it releases itself or at `stop_at_ns`.
    Noticed {
        reason: Reason,
        stop_at_ns: u64,
    },
    /// The instance ends on its own.
    Leaving,
    Terminating {
        kill_at_ns: u64,
        killed: bool,
    },
}

/// One instance.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub instance: Instance,
    pub requested_ns: u64,
    pub lead_ns: Option<u64>,
    pub protected: bool,
    state: State,
}

impl Slot {
    pub fn stage(&self) -> Stage {
        match self.state {
            State::Pending { .. } => Stage::Pending,
            State::Starting { .. } => Stage::Starting,
            State::InService => Stage::InService,
            State::Noticed { .. } | State::Leaving | State::Terminating { .. } => Stage::Terminating,
        }
    }

    /// Returns the notice of an instance that is about to end.
    pub fn notice(&self, now_ns: u64) -> Option<Notice> {
        match self.state {
            State::Noticed { reason, stop_at_ns } => {
                Some(Notice { reason, left: Some(Duration::from_nanos(stop_at_ns.saturating_sub(now_ns))) })
            }
            State::Terminating { .. } => Some(Notice { reason: Reason::Terminating, left: Some(Duration::ZERO) }),
            _ => None,
        }
    }

    fn counts(&self) -> bool {
        self.stage() != Stage::Terminating
    }
}

/// A scaling group.
#[derive(Clone, Debug)]
pub struct Group {
    rules: Rules,
    desired: u32,
    slots: Vec<Slot>,
    next: u64,
    early_failures: u32,
    last_lead_ns: Option<u64>,
    shutdown: bool,
}

impl Group {
    /// A group at its minimum; launches start with the first [`GroupEvent::Tick`].
    pub fn new(rules: Rules) -> Group {
        Group {
            rules,
            desired: rules.min.min(rules.max),
            slots: Vec::new(),
            next: 1,
            early_failures: 0,
            last_lead_ns: None,
            shutdown: false,
        }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub fn desired(&self) -> u32 {
        self.desired
    }

    /// Number of instances that ended at their start, one after the other, since one was ready or stayed for longer.
    pub fn early_failures(&self) -> u32 {
        self.early_failures
    }

    /// Whether the instance's process has been asked to end.
    pub fn has_asked_to_end(&self, instance: Instance) -> bool {
        self.slots.iter().any(|slot| slot.instance == instance && matches!(slot.state, State::Terminating { .. }))
    }

    /// Lead time of the instance that became ready last.
    pub fn last_lead_ns(&self) -> Option<u64> {
        self.last_lead_ns
    }

    /// Instances that have not ended, in the order of their requests.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns whether a shutdown has finished.
    pub fn is_down(&self) -> bool {
        self.shutdown && self.slots.is_empty()
    }

    /// When the next [`GroupEvent::Tick`] is due.
    pub fn deadline_ns(&self) -> Option<u64> {
        let due = |slot: &Slot| match slot.state {
            State::Pending { launch_at_ns } => Some(launch_at_ns),
            State::Noticed { stop_at_ns, .. } => Some(stop_at_ns),
            State::Terminating { kill_at_ns, killed: false } => Some(kill_at_ns),
            _ => None,
        };
        self.slots.iter().filter_map(due).min()
    }

    /// Processes one event; `now_ns` must not decrease.
    pub fn step(&mut self, event: GroupEvent, now_ns: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            GroupEvent::Tick => {}
            GroupEvent::AtLeast(desired) => actions.push(Action::Capacity(self.at_least(desired))),
            GroupEvent::Ready(instance) => actions.push(Action::Answer(self.ready(instance, now_ns))),
            GroupEvent::Exactly(desired) => actions.push(Action::Answer(self.exactly(desired))),
            GroupEvent::Protect(instance, on) => {
                actions.push(Action::Answer(self.slot(instance).map(|slot| slot.protected = on)));
            }
            GroupEvent::Terminate(instance) => {
                let answer = self.terminate(instance, now_ns, &mut actions);
                actions.push(Action::Answer(answer));
            }
            GroupEvent::Replace(instance) => {
                let answer = self.replace(instance, now_ns, &mut actions);
                actions.push(Action::Answer(answer));
            }
            GroupEvent::Leaving(instance) => {
                let answer = self.slot(instance).map(|slot| {
                    if slot.counts() {
                        slot.state = State::Leaving;
                    }
                });
                actions.push(Action::Answer(answer));
            }
            GroupEvent::Released(instance) => {
                let grace_ns = self.rules.grace_ns;
                let answer = self.slot(instance).map(|slot| {
                    if let State::Noticed { .. } = slot.state {
                        end(slot, now_ns, grace_ns, &mut actions);
                    }
                });
                actions.push(Action::Answer(answer));
            }
            GroupEvent::Exited(instance) => self.exited(instance, now_ns),
            GroupEvent::Shutdown => self.shut_down(now_ns, &mut actions),
        }
        self.shrink(now_ns, &mut actions);
        self.fill(now_ns);
        self.on_time(now_ns, &mut actions);
        actions
    }

    fn slot(&mut self, instance: Instance) -> Result<&mut Slot, String> {
        self.slots.iter_mut().find(|slot| slot.instance == instance).ok_or_else(|| unknown(instance))
    }

    fn at_least(&mut self, desired: u32) -> Capacity {
        if self.shutdown {
            return Capacity::Refused { desired: self.desired, reason: "the group is shutting down".to_string() };
        }
        self.desired = self.desired.max(desired.min(self.rules.max));
        if desired <= self.desired {
            return Capacity::Granted { desired: self.desired };
        }
        let reason = format!("{desired} instances exceed the group's maximum of {}", self.rules.max);
        Capacity::Refused { desired: self.desired, reason }
    }

    fn ready(&mut self, instance: Instance, now_ns: u64) -> Result<(), String> {
        let slot = self.slot(instance)?;
        let mut lead = None;
        if let State::Starting { .. } = slot.state {
            let lead_ns = now_ns.saturating_sub(slot.requested_ns);
            slot.state = State::InService;
            slot.lead_ns = Some(lead_ns);
            lead = Some(lead_ns);
        }
        if lead.is_some() {
            self.last_lead_ns = lead;
            self.early_failures = 0;
        }
        Ok(())
    }

    fn exactly(&mut self, desired: u32) -> Result<(), String> {
        let Rules { min, max, .. } = self.rules;
        if self.shutdown {
            return Err("the group is shutting down".to_string());
        }
        if !(min..=max).contains(&desired) {
            return Err(format!("{desired} instances are outside the group's minimum of {min} and maximum of {max}"));
        }
        self.desired = desired;
        Ok(())
    }

    /// Ends an instance at once if it is not in service yet, otherwise after a notice.
    fn replace(&mut self, instance: Instance, now_ns: u64, actions: &mut Vec<Action>) -> Result<(), String> {
        let rules = self.rules;
        let slot = self.slot(instance)?;
        if slot.counts() {
            notify(slot, Reason::Unhealthy, now_ns, &rules, actions);
            self.slots.retain(|slot| slot.state != NEVER_LAUNCHED);
        }
        Ok(())
    }

    /// Ends surplus instances, newest first. Protected ones stay while they are protected.
    fn shrink(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        let rules = self.rules;
        let counting = self.slots.iter().filter(|slot| slot.counts()).count();
        let surplus = counting.saturating_sub(self.desired as usize);
        let newest = self.slots.iter_mut().rev().filter(|slot| slot.counts() && !slot.protected);
        for slot in newest.take(surplus) {
            notify(slot, Reason::Terminating, now_ns, &rules, actions);
        }
        self.slots.retain(|slot| slot.state != NEVER_LAUNCHED);
    }

    fn terminate(&mut self, instance: Instance, now_ns: u64, actions: &mut Vec<Action>) -> Result<(), String> {
        let Rules { min, grace_ns, .. } = self.rules;
        let at_minimum = self.desired <= min;
        let slot = self.slot(instance)?;
        if !slot.counts() {
            return Ok(());
        }
        if at_minimum {
            return Err(format!("the group is at its minimum of {min}"));
        }
        end(slot, now_ns, grace_ns, actions);
        self.desired -= 1;
        self.slots.retain(|slot| slot.state != NEVER_LAUNCHED);
        Ok(())
    }

    fn exited(&mut self, instance: Instance, now_ns: u64) {
        let Some(position) = self.slots.iter().position(|slot| slot.instance == instance) else { return };
        let slot = self.slots.remove(position);
        if let State::Starting { since_ns } = slot.state {
            let early = now_ns.saturating_sub(since_ns) < EARLY_NS;
            self.early_failures = if early { self.early_failures.saturating_add(1) } else { 0 };
        }
    }

    fn shut_down(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        self.shutdown = true;
        let grace_ns = self.rules.grace_ns;
        for slot in self.slots.iter_mut().filter(|slot| !matches!(slot.state, State::Terminating { .. })) {
            end(slot, now_ns, grace_ns, actions);
        }
        self.slots.retain(|slot| slot.state != NEVER_LAUNCHED);
    }

    /// Requests missing instances.
    fn fill(&mut self, now_ns: u64) {
        if self.shutdown {
            return;
        }
        let present = self.slots.iter().filter(|slot| slot.counts()).count();
        let missing = (self.desired as usize).saturating_sub(present);
        let wait_ns = self.rules.launch_delay_ns.saturating_add(self.back_off_ns());
        for _ in 0..missing {
            let state = State::Pending { launch_at_ns: now_ns.saturating_add(wait_ns) };
            self.slots.push(Slot {
                instance: Instance(self.next),
                requested_ns: now_ns,
                lead_ns: None,
                protected: false,
                state,
            });
            self.next += 1;
        }
    }

    /// Pause before the next launch, after instances that ended at their start.
    pub fn back_off_ns(&self) -> u64 {
        match self.early_failures {
            0 => 0,
            n => BACK_OFF_FIRST_NS.saturating_mul(1 << (n - 1).min(20)).min(MAX_BACK_OFF_NS),
        }
    }

    fn on_time(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        for slot in &mut self.slots {
            match slot.state {
                State::Pending { launch_at_ns } if launch_at_ns <= now_ns => {
                    slot.state = State::Starting { since_ns: now_ns };
                    actions.push(Action::Launch(slot.instance));
                }
                State::Noticed { stop_at_ns, .. } if stop_at_ns <= now_ns => {
                    end(slot, now_ns, self.rules.grace_ns, actions);
                }
                State::Terminating { kill_at_ns, killed: false } if kill_at_ns <= now_ns => {
                    slot.state = State::Terminating { kill_at_ns, killed: true };
                    actions.push(Action::Kill(slot.instance));
                }
                _ => {}
            }
        }
    }
}

/// State of an instance ended before its launch: there is no process to wait for.
const NEVER_LAUNCHED: State = State::Terminating { kill_at_ns: 0, killed: true };

fn end(slot: &mut Slot, now_ns: u64, grace_ns: u64, actions: &mut Vec<Action>) {
    if slot.stage() == Stage::Pending {
        slot.state = NEVER_LAUNCHED;
    } else {
        slot.state = State::Terminating { kill_at_ns: now_ns.saturating_add(grace_ns), killed: false };
        actions.push(Action::Stop(slot.instance));
    }
}

/// Gives notice to an instance in service; ends any other at once.
fn notify(slot: &mut Slot, reason: Reason, now_ns: u64, rules: &Rules, actions: &mut Vec<Action>) {
    match slot.state {
        State::InService if rules.notice_ns > 0 => {
            slot.state = State::Noticed { reason, stop_at_ns: now_ns.saturating_add(rules.notice_ns) };
        }
        _ => end(slot, now_ns, rules.grace_ns, actions),
    }
}

fn unknown(instance: Instance) -> String {
    format!("no instance {} in this group", instance.0)
}

#[cfg(test)]
mod tests;
