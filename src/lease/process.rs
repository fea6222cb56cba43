//! The lease of one process: when it calls the store, becomes active and steps down.

use super::barrier::{Barrier, barrier};
use super::copies::{Copies, CopyName, OwnCopy};
use super::epoch::Epoch;
use super::event::{LeaseAction, LeaseEvent, Left, Unanswered, Written};
use super::record::{LeaseRecord, LeaseWrite, OwnerName, RecordVersion};
use super::terms::Terms;

/// Renewals without an answer that are remembered. An older one that is applied after all is known by its owner, and extends nothing.
const ATTEMPTS: usize = 4;
/// Owners that are remembered as unable to write.
const BARRED: usize = 8;

/// A call of the store under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    write: Option<LeaseWrite>,
    sent_ns: u64,
}

/// A record that a passive process waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    record: LeaseRecord,
    /// After the first read that found this version.
    since_ns: u64,
}

/// The lease as its owner has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owned {
    version: RecordVersion,
    epoch: Epoch,
    /// Before the last write that is known to be applied.
    sent_ns: u64,
    /// Renewals whose outcome is not known: their versions, and the times before them.
    attempts: Vec<(RecordVersion, u64)>,
    /// The outcome of the last write is not known: read the record before another one.
    is_unsure: bool,
    is_in_danger: bool,
    is_held: bool,
    /// Copies that the record names, as far as is known, and those that it is to name, once there is a request.
    copies: Option<Copies>,
    wanted: Option<Copies>,
    /// The request for them, until it is known to be carried out.
    request: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    Passive { seen: Option<Seen> },
    Active(Owned),
    Closing(Closing),
}

/// The log is being closed; then the lease is released, if the process still has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Closing {
    left: Left,
    owned: Option<Owned>,
    successor: Option<OwnerName>,
    /// When to stop trying to release the lease; `None` until the log is closed.
    until_ns: Option<u64>,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Passive,
    Active(Epoch),
    Closing,
}

/// The lease of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    me: OwnerName,
    terms: Terms,
    /// The own copy of the log; `None` where there is one log.
    copy: Option<OwnCopy>,
    /// The log in a common directory, once it is known.
    log: Option<CopyName>,
    /// Since when a process without a log has found no record.
    absent_since_ns: Option<u64>,
    /// Versions drawn so far; with the name, which no other process has, they are unique.
    drawn: u64,
    /// Highest epoch known from the log.
    floor: Epoch,
    call: Option<Call>,
    /// When the next call is due.
    next_ns: u64,
    /// Owners that are known to be unable to write, the newest last.
    barred: Vec<OwnerName>,
    is_paused: bool,
    /// A request to step down that came while the lease was being taken, with its successor.
    declined: Option<Option<OwnerName>>,
    role: Role,
}

impl Lease {
    /// A passive process under a name that no process has had before.
    pub fn new(me: OwnerName, terms: Terms, now_ns: u64) -> Lease {
        Lease {
            me,
            terms,
            copy: None,
            log: None,
            absent_since_ns: None,
            drawn: 0,
            floor: Epoch::default(),
            call: None,
            next_ns: now_ns,
            barred: Vec::new(),
            is_paused: false,
            declined: None,
            role: Role::Passive { seen: None },
        }
    }

    /// For a process with a log of its own, which it may continue only while the record names it.
    pub fn with_copy(self, copy: Option<OwnCopy>) -> Lease {
        Lease { copy, ..self }
    }

    pub fn name(&self) -> &str {
        &self.me
    }

    /// Why a passive process could not take the lease; `None` if it could, as far as is known.
    pub fn barrier(&self) -> Option<Barrier> {
        let is_followers = self.copy.as_ref().is_some_and(|copy| copy.is_followers);
        match self.seen() {
            Some((record, _)) => barrier((self.copy.as_ref(), self.log.as_ref()), record, &self.me),
            None => (is_followers && self.absent_since_ns.is_some()).then_some(Barrier::GoesSecond),
        }
    }

    pub fn standing(&self) -> Standing {
        match &self.role {
            Role::Passive { .. } => Standing::Passive,
            Role::Active(owned) => Standing::Active(owned.epoch),
            Role::Closing(_) => Standing::Closing,
        }
    }

    /// The record that a passive process saw last, and the time of the first read that found it.
    pub fn seen(&self) -> Option<(&LeaseRecord, u64)> {
        match &self.role {
            Role::Passive { seen: Some(seen) } => Some((&seen.record, seen.since_ns)),
            _ => None,
        }
    }

    /// When the call was sent that has no answer yet.
    pub fn calling_since_ns(&self) -> Option<u64> {
        self.call.as_ref().map(|call| call.sent_ns)
    }

    /// When the active process sent its last successful write.
    pub fn renewed_ns(&self) -> Option<u64> {
        match &self.role {
            Role::Active(owned) => Some(owned.sent_ns),
            _ => None,
        }
    }

    /// When to step [`LeaseEvent::Tick`] if no other event comes before; `None` while it waits for the store's answer.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let call_ns = self.call.is_none().then_some(self.next_ns);
        match &self.role {
            Role::Passive { .. } => call_ns,
            Role::Active(owned) => {
                let danger_ns = owned.sent_ns.saturating_add(self.terms.danger_ns());
                let end_ns = owned.sent_ns.saturating_add(self.terms.usable_ns());
                let danger_ns = (!owned.is_in_danger).then_some(danger_ns);
                [danger_ns, (!owned.is_held).then_some(end_ns), call_ns].into_iter().flatten().min()
            }
            Role::Closing(closing) => call_ns.filter(|_| closing.until_ns.is_some()),
        }
    }

    /// Performs a step.
    pub fn step(&mut self, event: LeaseEvent, now_ns: u64) -> Vec<LeaseAction> {
        let mut actions = Vec::new();
        match event {
            LeaseEvent::Tick => {}
            LeaseEvent::Read(answer) => {
                if let Some(Call { write: None, .. }) = &self.call {
                    self.call = None;
                    self.read(answer, now_ns, &mut actions);
                }
            }
            LeaseEvent::Wrote(answer) => {
                if let Some(Call { write: Some(write), sent_ns }) = self.call.take_if(|call| call.write.is_some()) {
                    self.wrote(write, answer, sent_ns, now_ns, &mut actions);
                }
            }
            LeaseEvent::LogEpoch(epoch) => {
                self.floor = self.floor.max(epoch);
                self.hasten(now_ns);
            }
            LeaseEvent::CannotWrite(owner) => {
                // Named again, it must not push out another one.
                self.barred.retain(|known| *known != owner);
                if self.barred.len() >= BARRED {
                    self.barred.remove(0);
                }
                self.barred.push(owner);
                if matches!(self.role, Role::Passive { .. }) {
                    self.next_ns = now_ns;
                }
            }
            LeaseEvent::StepDown { successor } => match &mut self.role {
                Role::Active(_) => self.step_down(Left::Requested, successor, &mut actions),
                Role::Closing(closing) => {
                    closing.left = Left::Requested;
                    closing.successor = closing.successor.take().or(successor);
                }
                Role::Passive { .. } => {
                    self.declined = self.call.as_ref().is_some_and(|call| call.write.is_some()).then_some(successor);
                }
            },
            LeaseEvent::Closed => {
                if let Role::Closing(closing) = &mut self.role {
                    closing.until_ns = Some(now_ns.saturating_add(self.terms.lease_ns));
                    self.next_ns = now_ns;
                }
            }
            LeaseEvent::Copies { request, copies } => {
                if let Role::Active(owned) = &mut self.role {
                    (owned.wanted, owned.request) = (Some(copies), Some(request));
                    self.next_ns = now_ns;
                }
            }
            LeaseEvent::OwnLog(log) => {
                if self.log.as_ref() != Some(&log) && matches!(self.role, Role::Passive { .. }) {
                    self.next_ns = now_ns;
                }
                self.log = Some(log);
            }
            LeaseEvent::Pause(is_paused) => self.is_paused = is_paused,
        }
        self.check_end(now_ns, &mut actions);
        self.call_store(now_ns, &mut actions);
        actions
    }

    /// Warns before the end of a lease that is not renewed, and steps down at it.
    fn check_end(&mut self, now_ns: u64, actions: &mut Vec<LeaseAction>) {
        let terms = self.terms;
        let Role::Active(owned) = &mut self.role else { return };
        let age_ns = now_ns.saturating_sub(owned.sent_ns);
        if age_ns >= terms.usable_ns() {
            if !terms.holds_without_store {
                return self.step_down(Left::Expired, None, actions);
            }
            if !owned.is_held {
                (owned.is_held, owned.is_in_danger) = (true, true);
                actions.push(LeaseAction::Hold);
            }
        } else if age_ns >= terms.danger_ns() && !owned.is_in_danger {
            owned.is_in_danger = true;
            actions.push(LeaseAction::Danger { left_ns: terms.usable_ns().saturating_sub(age_ns) });
        }
    }

    fn step_down(&mut self, why: Left, successor: Option<OwnerName>, actions: &mut Vec<LeaseAction>) {
        let Role::Active(owned) = &self.role else { return };
        let owned = matches!(why, Left::Requested | Left::Expired).then(|| owned.clone());
        self.role = Role::Closing(Closing { left: why, owned, successor, until_ns: None });
        actions.push(LeaseAction::StepDown(why));
    }

    /// The log is closed, and the lease released or given up. After a request others get it first.
    fn leave(&mut self, now_ns: u64) {
        let Role::Closing(closing) = &self.role else { return };
        let pause_ns = if closing.left == Left::Requested { self.terms.lease_ns } else { 0 };
        self.role = Role::Passive { seen: None };
        self.next_ns = now_ns.saturating_add(pause_ns);
    }

    /// Makes the next call, if it is due and none is under way.
    fn call_store(&mut self, now_ns: u64, actions: &mut Vec<LeaseAction>) {
        if self.call.is_some() || now_ns < self.next_ns {
            return;
        }
        if let Role::Closing(closing) = &self.role {
            let Some(until_ns) = closing.until_ns else { return };
            if closing.owned.is_none() || now_ns >= until_ns {
                self.leave(now_ns);
                return self.call_store(now_ns, actions);
            }
        }
        let (me, drawn, floor) = (&self.me, &mut self.drawn, self.floor);
        let write = match &self.role {
            Role::Passive { .. } => None,
            Role::Active(owned) | Role::Closing(Closing { owned: Some(owned), .. }) if owned.is_unsure => None,
            // The log has reached this epoch without this process, and would refuse its records.
            Role::Active(owned) if owned.epoch <= floor => match floor.next() {
                Some(epoch) => {
                    let from = owned.version.clone();
                    Some(LeaseWrite::Take { from, was_released: false, version: draw(me, drawn), epoch, copies: None })
                }
                None => return self.step_down(Left::NoEpoch, None, actions),
            },
            Role::Active(owned) => {
                let copies = owned.wanted.clone().filter(|wanted| owned.copies.as_ref() != Some(wanted));
                Some(LeaseWrite::Renew { from: owned.version.clone(), version: draw(me, drawn), copies })
            }
            Role::Closing(Closing { owned: Some(owned), successor, .. }) => {
                Some(LeaseWrite::Release { from: owned.version.clone(), successor: successor.clone(), copies: None })
            }
            Role::Closing(_) => return,
        };
        self.send(write, now_ns, actions);
    }

    fn send(&mut self, write: Option<LeaseWrite>, now_ns: u64, actions: &mut Vec<LeaseAction>) {
        actions.push(write.clone().map_or(LeaseAction::Read, LeaseAction::Write));
        self.call = Some(Call { write, sent_ns: now_ns });
    }

    fn read(&mut self, answer: Result<Option<LeaseRecord>, Unanswered>, now_ns: u64, actions: &mut Vec<LeaseAction>) {
        let Ok(record) = answer else {
            self.next_ns = now_ns.saturating_add(self.terms.retry_ns);
            return;
        };
        let is_mine = record.as_ref().is_some_and(|record| record.owner == self.me && !record.is_released);
        let heartbeat_ns = self.terms.heartbeat_ns;
        match (&mut self.role, record) {
            (Role::Passive { .. }, record) => self.found(record, now_ns, actions),
            (Role::Active(owned), Some(record)) if is_mine => {
                let is_renewed = owned.recognise(record, now_ns, actions);
                // Unchanged: the renewal was lost or refused, and refusals without a reason must not follow one another at once.
                let after_ns = now_ns.saturating_add(self.terms.retry_ns);
                self.next_ns = if is_renewed { owned.sent_ns.saturating_add(heartbeat_ns) } else { after_ns };
                self.check_safe(now_ns, actions);
                self.hasten(now_ns);
            }
            (Role::Active(_), _) => self.step_down(Left::Taken, None, actions),
            (Role::Closing(Closing { owned: Some(owned), .. }), Some(record)) if is_mine => {
                owned.recognise(record, now_ns, &mut Vec::new());
                self.next_ns = now_ns;
            }
            (Role::Closing(closing), _) => (closing.owned, self.next_ns) = (None, now_ns),
        }
    }

    /// An active process whose log refuses its epoch does not wait for the next heartbeat.
    fn hasten(&mut self, now_ns: u64) {
        if matches!(&self.role, Role::Active(owned) if owned.epoch <= self.floor) {
            self.next_ns = now_ns;
        }
    }

    /// A passive process has read the record: waits, or takes the lease.
    fn found(&mut self, record: Option<LeaseRecord>, now_ns: u64, actions: &mut Vec<LeaseAction>) {
        self.next_ns = now_ns.saturating_add(self.terms.poll_ns);
        let may_take = !self.is_paused;
        let is_barred = record
            .as_ref()
            .is_some_and(|record| barrier((self.copy.as_ref(), self.log.as_ref()), record, &self.me).is_some());
        let Role::Passive { seen } = &mut self.role else { return };
        let Some(record) = record else {
            *seen = None;
            // A process that has a log must not follow one that has none.
            let is_in_time = match &self.copy {
                Some(copy) if copy.is_empty || copy.is_followers => {
                    let since_ns = *self.absent_since_ns.get_or_insert(now_ns);
                    !copy.is_followers && now_ns.saturating_sub(since_ns) >= self.terms.lease_ns
                }
                _ => true,
            };
            let may_create = may_take && is_in_time;
            if let Some(epoch) = self.floor.next().filter(|_| may_create) {
                let version = draw(&self.me, &mut self.drawn);
                // A directory without a log has another name at the next start, and nothing to lose.
                let name = |copy: &OwnCopy| if copy.is_empty { Copies::any() } else { Copies::of([copy.name.clone()]) };
                let copies = self.copy.as_ref().map(name);
                self.send(Some(LeaseWrite::Create { version, epoch, copies }), now_ns, actions);
            }
            return;
        };
        self.absent_since_ns = None;
        let since_ns = match seen {
            Some(seen) if seen.record.version == record.version && seen.record.is_released == record.is_released => {
                seen.since_ns
            }
            _ => now_ns,
        };
        let is_over = now_ns.saturating_sub(since_ns) >= record.lease_ns;
        let is_free = match &record.successor {
            Some(successor) if record.is_released => *successor == self.me,
            _ => record.is_released || record.owner == self.me || self.barred.contains(&record.owner),
        };
        if !is_over {
            self.next_ns = self.next_ns.min(since_ns.saturating_add(record.lease_ns));
        }
        let may_take = may_take && (is_over || is_free) && !is_barred;
        let write = record.epoch.max(self.floor).next().filter(|_| may_take).map(|epoch| LeaseWrite::Take {
            from: record.version.clone(),
            was_released: record.is_released,
            version: draw(&self.me, &mut self.drawn),
            epoch,
            // They stay complete until this process has opened its log and acknowledges something.
            copies: None,
        });
        *seen = Some(Seen { record, since_ns });
        if write.is_some() {
            self.send(write, now_ns, actions);
        }
    }

    fn wrote(
        &mut self,
        write: LeaseWrite,
        answer: Result<Written, Unanswered>,
        sent_ns: u64,
        now_ns: u64,
        actions: &mut Vec<LeaseAction>,
    ) {
        match write {
            LeaseWrite::Create { version, epoch, .. } | LeaseWrite::Take { version, epoch, .. } => {
                self.taken(version, epoch, answer, sent_ns, now_ns, actions);
            }
            LeaseWrite::Renew { version, copies, .. } => {
                self.renewed((version, copies), answer, sent_ns, now_ns, actions);
            }
            // Only operators' tools write them.
            LeaseWrite::Name { .. } | LeaseWrite::Pause(_) => {}
            LeaseWrite::Release { .. } => match (answer, &mut self.role) {
                (Ok(Written::Applied), _) => self.leave(now_ns),
                (_, Role::Closing(Closing { owned: Some(owned), .. })) => {
                    owned.is_unsure = true;
                    self.next_ns = now_ns.saturating_add(self.terms.retry_ns);
                }
                _ => {}
            },
        }
    }

    /// A write that takes the lease has an answer.
    fn taken(
        &mut self,
        version: RecordVersion,
        epoch: Epoch,
        answer: Result<Written, Unanswered>,
        sent_ns: u64,
        now_ns: u64,
        actions: &mut Vec<LeaseAction>,
    ) {
        let is_fresh = now_ns.saturating_sub(sent_ns) < self.terms.usable_ns();
        let owned_now = || Owned::new(version.clone(), epoch, sent_ns);
        let declined = if matches!(self.role, Role::Passive { .. }) { self.declined.take() } else { None };
        match (answer, &mut self.role) {
            (Ok(Written::Applied), Role::Passive { .. }) if declined.is_some() || self.is_paused => {
                let until_ns = Some(now_ns.saturating_add(self.terms.lease_ns));
                let successor = declined.flatten();
                self.role =
                    Role::Closing(Closing { left: Left::Requested, owned: Some(owned_now()), successor, until_ns });
                self.next_ns = now_ns;
            }
            // An answer that comes too late shows that the process may have been paused: the next read finds its own record, and takes the
            // lease again.
            (Ok(Written::Applied), Role::Passive { .. }) if !is_fresh => self.next_ns = now_ns,
            (Ok(Written::Applied), Role::Passive { .. }) => {
                self.role = Role::Active(owned_now());
                self.next_ns = sent_ns.saturating_add(self.terms.heartbeat_ns);
                actions.push(LeaseAction::Lead(epoch));
            }
            (Ok(Written::Applied), Role::Active(owned)) => {
                let Owned { is_in_danger, is_held, .. } = *owned;
                let (copies, wanted, request) = (owned.copies.clone(), owned.wanted.clone(), owned.request);
                *owned = Owned { is_in_danger, is_held, copies, wanted, request, ..owned_now() };
                self.next_ns = sent_ns.saturating_add(self.terms.heartbeat_ns);
                self.check_safe(now_ns, actions);
                if is_fresh || self.terms.holds_without_store {
                    actions.push(LeaseAction::Lead(epoch));
                }
                self.hasten(now_ns);
            }
            (Ok(Written::Applied), Role::Closing(closing)) => {
                closing.owned = Some(owned_now());
                self.next_ns = now_ns;
            }
            (Err(Unanswered), Role::Active(_)) => self.step_down(Left::Unclear, None, actions),
            (Ok(Written::Refused), Role::Active(owned)) => (owned.is_unsure, self.next_ns) = (true, now_ns),
            (_, Role::Closing(closing)) => {
                if let Some(owned) = &mut closing.owned {
                    owned.is_unsure = true;
                }
                self.next_ns = now_ns;
            }
            // A store that refuses for no reason to be seen must not be called at once.
            (_, Role::Passive { .. }) => self.next_ns = now_ns.saturating_add(self.terms.retry_ns),
        }
    }

    /// A renewal has an answer.
    fn renewed(
        &mut self,
        (version, copies): (RecordVersion, Option<Copies>),
        answer: Result<Written, Unanswered>,
        sent_ns: u64,
        now_ns: u64,
        actions: &mut Vec<LeaseAction>,
    ) {
        let terms = self.terms;
        let (Role::Active(owned) | Role::Closing(Closing { owned: Some(owned), .. })) = &mut self.role else { return };
        match answer {
            Ok(Written::Applied) => {
                (owned.version, owned.sent_ns, owned.is_unsure) = (version, sent_ns, false);
                owned.attempts.clear();
                owned.copies = copies.or_else(|| owned.copies.take());
                owned.confirm_copies(actions);
                let heartbeat_ns = sent_ns.saturating_add(terms.heartbeat_ns);
                self.next_ns = if owned.request.is_none() { heartbeat_ns } else { now_ns };
                self.check_safe(now_ns, actions);
            }
            // An earlier renewal may have been applied late.
            Ok(Written::Refused) => (owned.is_unsure, self.next_ns) = (true, now_ns),
            Err(Unanswered) => {
                owned.is_unsure = true;
                if owned.attempts.len() >= ATTEMPTS {
                    owned.attempts.remove(0);
                }
                owned.attempts.push((version, sent_ns));
                self.next_ns = now_ns.saturating_add(terms.retry_ns);
            }
        }
        if matches!(self.role, Role::Closing(_)) {
            self.next_ns = now_ns;
        }
        if answer == Ok(Written::Applied) {
            self.hasten(now_ns);
        }
    }

    /// Reports that the danger is over.
    fn check_safe(&mut self, now_ns: u64, actions: &mut Vec<LeaseAction>) {
        let danger_ns = self.terms.danger_ns();
        let Role::Active(owned) = &mut self.role else { return };
        if (owned.is_in_danger || owned.is_held) && now_ns.saturating_sub(owned.sent_ns) < danger_ns {
            (owned.is_in_danger, owned.is_held) = (false, false);
            actions.push(LeaseAction::Safe);
        }
    }
}

impl Owned {
    fn new(version: RecordVersion, epoch: Epoch, sent_ns: u64) -> Owned {
        Owned {
            version,
            epoch,
            sent_ns,
            attempts: Vec::new(),
            is_unsure: false,
            is_in_danger: false,
            is_held: false,
            copies: None,
            wanted: None,
            request: None,
        }
    }

    /// The record has got another version, which is known: writes that were sent before have none to apply to any more.
    fn confirm_copies(&mut self, actions: &mut Vec<LeaseAction>) {
        if self.wanted.is_none() || self.wanted != self.copies {
            return;
        }
        if let (Some(request), Some(copies)) = (self.request.take(), self.copies.clone()) {
            actions.push(LeaseAction::Copies { request, copies });
        }
    }

    /// A read has found the own record: a renewal without an answer may have been applied. Returns whether the record has changed.
    fn recognise(&mut self, record: LeaseRecord, now_ns: u64, actions: &mut Vec<LeaseAction>) -> bool {
        self.is_unsure = false;
        if record.version == self.version {
            return false;
        }
        if let Some((_, sent_ns)) = self.attempts.iter().find(|(version, _)| *version == record.version) {
            self.sent_ns = (*sent_ns).min(now_ns);
            self.attempts.clear();
        }
        self.copies = Some(record.copies);
        self.confirm_copies(actions);
        (self.version, self.epoch) = (record.version, record.epoch.max(self.epoch));
        true
    }
}

/// Draws a version that no record has had.
fn draw(me: &str, drawn: &mut u64) -> RecordVersion {
    *drawn = drawn.saturating_add(1);
    format!("{me}#{drawn}")
}
