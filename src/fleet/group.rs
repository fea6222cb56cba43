//! The rules of a scaling group, pure: how many instances there should be, which to launch, end and replace.
//!
//! They are those of an EC2 Auto Scaling group as far as a queue of nodes needs them: capacity between `min` and `max`,
//! an instance that dies is replaced, one that is terminated with the capacity decremented is not. Requests are for "at
//! least so many", so that a repeated one changes nothing. Only an operator makes the group smaller; protected instances
//! stay then, and one in service that is taken or replaced has notice first.

use super::{Capacity, Notice, Reason, Stage};
use std::time::Duration;

/// An instance of the group; counts up and is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance(pub u64);

/// What the operator chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub min: u32,
    pub max: u32,
    /// From a request until the process is started: what a server's launch takes, or nothing.
    pub launch_delay_ns: u64,
    /// From telling an instance to end until it is killed.
    pub grace_ns: u64,
    /// From the notice that an instance in service gets until it is told to end; less if it releases itself.
    pub notice_ns: u64,
}

/// First and longest pause before an instance that failed early is replaced; it doubles with every failure in a row.
const BACK_OFF_FIRST_NS: u64 = 250_000_000;
const BACK_OFF_MOST_NS: u64 = 30_000_000_000;
/// One that ran this long did not fail early, whether or not it ever said that it was ready.
const EARLY_NS: u64 = 10_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed; see [`Group::deadline_ns`].
    Tick,
    /// Someone asks for at least so many instances.
    AtLeast(u32),
    /// An instance says that it can do its work.
    Ready(Instance),
    /// The operator wants so many instances, more or fewer.
    Exactly(u32),
    /// An instance is not to be taken when the group is made smaller, or may be.
    Protect(Instance, bool),
    /// An instance asks to go, with one off the desired capacity.
    Terminate(Instance),
    /// An instance is not well: another is to take its place.
    Replace(Instance),
    /// An instance ends by itself, once it has handed on what it holds: another is launched in its place now.
    Leaving(Instance),
    /// Nothing is lost any more if the instance ends.
    Released(Instance),
    /// An instance's process has ended, or could not be started.
    Exited(Instance),
    /// End everything and replace nothing.
    Shutdown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Launch(Instance),
    /// Ask the process to end.
    Stop(Instance),
    /// End the process.
    Kill(Instance),
    /// To whoever asked with [`Event::AtLeast`].
    Capacity(Capacity),
    /// To whoever said something of an instance, or asked for an exact number: done, or why not.
    Answer(Result<(), String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending {
        launch_at_ns: u64,
    },
    Starting {
        since_ns: u64,
    },
    InService,
    /// It has notice, and is told to end when it has released itself or its time is over.
    Noticed {
        reason: Reason,
        stop_at_ns: u64,
    },
    /// It ends by itself.
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

    /// That the instance is to end, and when.
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
    /// A group at its minimum; the first [`Event::Tick`] launches.
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

    /// From asking for the instance that was ready last until it was.
    pub fn last_lead_ns(&self) -> Option<u64> {
        self.last_lead_ns
    }

    /// All instances that have not ended, in the order in which they were asked for.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether a shutdown is over.
    pub fn is_down(&self) -> bool {
        self.shutdown && self.slots.is_empty()
    }

    /// When the next [`Event::Tick`] is due.
    pub fn deadline_ns(&self) -> Option<u64> {
        let due = |slot: &Slot| match slot.state {
            State::Pending { launch_at_ns } => Some(launch_at_ns),
            State::Noticed { stop_at_ns, .. } => Some(stop_at_ns),
            State::Terminating { kill_at_ns, killed: false } => Some(kill_at_ns),
            _ => None,
        };
        self.slots.iter().filter_map(due).min()
    }

    /// Takes one event at a time that never goes back.
    pub fn step(&mut self, event: Event, now_ns: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Tick => {}
            Event::AtLeast(desired) => actions.push(Action::Capacity(self.at_least(desired))),
            Event::Ready(instance) => actions.push(Action::Answer(self.ready(instance, now_ns))),
            Event::Exactly(desired) => actions.push(Action::Answer(self.exactly(desired))),
            Event::Protect(instance, on) => {
                actions.push(Action::Answer(self.slot(instance).map(|slot| slot.protected = on)));
            }
            Event::Terminate(instance) => {
                let answer = self.terminate(instance, now_ns, &mut actions);
                actions.push(Action::Answer(answer));
            }
            Event::Replace(instance) => {
                let answer = self.replace(instance, now_ns, &mut actions);
                actions.push(Action::Answer(answer));
            }
            Event::Leaving(instance) => {
                let answer = self.slot(instance).map(|slot| {
                    if slot.counts() {
                        slot.state = State::Leaving;
                    }
                });
                actions.push(Action::Answer(answer));
            }
            Event::Released(instance) => {
                let grace_ns = self.rules.grace_ns;
                let answer = self.slot(instance).map(|slot| {
                    if let State::Noticed { .. } = slot.state {
                        end(slot, now_ns, grace_ns, &mut actions);
                    }
                });
                actions.push(Action::Answer(answer));
            }
            Event::Exited(instance) => self.exited(instance, now_ns),
            Event::Shutdown => self.shut_down(now_ns, &mut actions),
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
        let reason = format!("{desired} instances are more than the group's maximum of {}", self.rules.max);
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
            return Err(format!(
                "{desired} instances are not between the group's minimum of {min} and maximum of {max}"
            ));
        }
        self.desired = desired;
        Ok(())
    }

    /// Ends one without a word if it serves nobody yet, and with notice if it does.
    fn replace(&mut self, instance: Instance, now_ns: u64, actions: &mut Vec<Action>) -> Result<(), String> {
        let rules = self.rules;
        let slot = self.slot(instance)?;
        if slot.counts() {
            notify(slot, Reason::Unhealthy, now_ns, &rules, actions);
            self.slots.retain(|slot| slot.state != UNBORN);
        }
        Ok(())
    }

    /// Takes unprotected instances, the newest first, while there are more than desired. Protected ones stay until they are
    /// no longer.
    fn shrink(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        let rules = self.rules;
        let counting = self.slots.iter().filter(|slot| slot.counts()).count();
        let surplus = counting.saturating_sub(self.desired as usize);
        let newest = self.slots.iter_mut().rev().filter(|slot| slot.counts() && !slot.protected);
        for slot in newest.take(surplus) {
            notify(slot, Reason::Terminating, now_ns, &rules, actions);
        }
        self.slots.retain(|slot| slot.state != UNBORN);
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
        self.slots.retain(|slot| slot.state != UNBORN);
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
        self.slots.retain(|slot| slot.state != UNBORN);
    }

    /// Asks for what is missing.
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

    fn back_off_ns(&self) -> u64 {
        match self.early_failures {
            0 => 0,
            n => BACK_OFF_FIRST_NS.saturating_mul(1 << (n - 1).min(20)).min(BACK_OFF_MOST_NS),
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

/// The state of one that ended before it was launched: there is no process to wait for.
const UNBORN: State = State::Terminating { kill_at_ns: 0, killed: true };

fn end(slot: &mut Slot, now_ns: u64, grace_ns: u64, actions: &mut Vec<Action>) {
    if slot.stage() == Stage::Pending {
        slot.state = UNBORN;
    } else {
        slot.state = State::Terminating { kill_at_ns: now_ns.saturating_add(grace_ns), killed: false };
        actions.push(Action::Stop(slot.instance));
    }
}

/// Gives notice to one in service; ends any other at once.
fn notify(slot: &mut Slot, reason: Reason, now_ns: u64, rules: &Rules, actions: &mut Vec<Action>) {
    match slot.state {
        State::InService if rules.notice_ns > 0 => {
            slot.state = State::Noticed { reason, stop_at_ns: now_ns.saturating_add(rules.notice_ns) };
        }
        _ => end(slot, now_ns, rules.grace_ns, actions),
    }
}

fn unknown(instance: Instance) -> String {
    format!("there is no instance {} in this group", instance.0)
}

#[cfg(test)]
mod tests;
