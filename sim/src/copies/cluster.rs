//! Three hosts, a store and the events between them.

use super::Tally;
use super::node::{Disk, Entry, Leading, Node, Process};
use super::store::{Defect, Late, Store};
use crate::rng::Rng;
use elastick::lease::{Copies, Epoch, LeaseAction, LeaseEvent, LeaseWrite, Terms, Unanswered};
use elastick::tick::follow::in_sync::{Event, InSync, Steps};
use elastick::tick::follow::replicas::Position;
use std::collections::{BTreeSet, VecDeque};

const NODES: usize = 3;
const MS: u64 = 1_000_000;
const LEASE_NS: u64 = 600 * MS;
/// Time for a follower to confirm.
const TIMEOUT_NS: i64 = 200_000_000;
/// Events that are kept for a report.
const TRACE: usize = 60;
/// Steps without faults within which updates are accepted again.
const RECOVERY: usize = 4_000;

/// All of it.
pub struct Cluster {
    draw: Rng,
    defect: Option<Defect>,
    terms: Terms,
    nodes: Vec<Node>,
    store: Store,
    /// Pairs of hosts that do not reach each other, and hosts that do not reach the store.
    cut: BTreeSet<(usize, usize)>,
    away: BTreeSet<usize>,
    now_ns: u64,
    next: u64,
    acknowledged: Vec<u64>,
    trace: VecDeque<String>,
    tally: Tally,
    is_quiet: bool,
}

impl Cluster {
    pub fn new(draw: Rng, defect: Option<Defect>) -> Cluster {
        let terms = Terms {
            lease_ns: LEASE_NS,
            heartbeat_ns: 100 * MS,
            poll_ns: 50 * MS,
            retry_ns: 25 * MS,
            holds_without_store: false,
        };
        let node = |number: usize| Node {
            disk: Disk { copy: format!("h{number}/0"), ..Disk::default() },
            process: None,
            drawn: 0,
        };
        let mut cluster = Cluster {
            draw,
            defect,
            terms,
            nodes: (0..NODES).map(node).collect(),
            store: Store::default(),
            cut: BTreeSet::new(),
            away: BTreeSet::new(),
            now_ns: 1,
            next: 0,
            acknowledged: Vec::new(),
            trace: VecDeque::new(),
            tally: Tally::default(),
            is_quiet: false,
        };
        (0..NODES).for_each(|at| cluster.start(at));
        cluster
    }

    pub fn trace(&self) -> Vec<String> {
        self.trace.iter().cloned().collect()
    }

    pub fn tally(&self) -> Tally {
        Tally { runs: 1, acknowledged: self.acknowledged.len() as u64, ..self.tally }
    }

    fn note(&mut self, event: String) {
        if self.trace.len() >= TRACE {
            self.trace.pop_front();
        }
        let ms = self.now_ns / MS;
        self.trace.push_back(format!("{ms} ms  {event}"));
    }

    fn process(&mut self, at: usize) -> Option<&mut Process> {
        self.nodes.get_mut(at)?.process.as_mut()
    }

    fn runs(&self, at: usize) -> bool {
        self.nodes.get(at).and_then(|node| node.process.as_ref()).is_some_and(|process| !process.is_paused)
    }

    fn leads(&self, at: usize) -> bool {
        self.nodes.get(at).and_then(|node| node.process.as_ref()).is_some_and(|process| process.leading.is_some())
    }

    fn reach(&self, one: usize, another: usize) -> bool {
        !self.cut.contains(&(one.min(another), one.max(another)))
    }

    /// One random event.
    pub fn event(&mut self) {
        self.tally.steps = self.tally.steps.saturating_add(1);
        let at = usize::try_from(self.draw.below(NODES as u64)).unwrap_or(0);
        let kind = self.draw.below(if self.is_quiet { 60 } else { 100 });
        match kind {
            0..14 => self.pass(),
            14..24 => self.answer(at),
            24..34 => self.publish(at),
            34..52 => self.copy(at),
            52..60 => self.look(at),
            60..62 => self.kill(at),
            62..70 => self.resume(at),
            70..74 => self.pause(at),
            74..80 => {
                let another = (at + 1) % NODES;
                let pair = (at.min(another), at.max(another));
                if !self.cut.remove(&pair) {
                    self.cut.insert(pair);
                }
            }
            80..86 => {
                if !self.away.remove(&at) {
                    self.away.insert(at);
                }
            }
            86..90 => self.apply_late(),
            90..92 => self.wipe(at),
            92..94 => self.step_down(at),
            94..96 => self.damage(at),
            _ => self.resume(at),
        }
    }

    /// Time passes; processes that run notice it.
    fn pass(&mut self) {
        let ns = MS.saturating_mul(self.draw.from(1, 60));
        self.now_ns = self.now_ns.saturating_add(ns);
        (0..NODES).for_each(|at| self.tick(at));
    }

    fn tick(&mut self, at: usize) {
        if !self.runs(at) {
            return;
        }
        let now_ns = self.now_ns;
        let is_due =
            self.process(at).and_then(|process| process.lease.next_deadline_ns()).is_some_and(|due| due <= now_ns);
        if is_due {
            self.step(at, LeaseEvent::Tick);
        }
        self.in_sync(at, Event::Time);
    }

    fn step(&mut self, at: usize, event: LeaseEvent) {
        let now_ns = self.now_ns;
        let Some(process) = self.process(at) else { return };
        for action in process.lease.step(event, now_ns) {
            self.act(at, action);
        }
    }

    fn act(&mut self, at: usize, action: LeaseAction) {
        let defect = self.defect;
        match action {
            LeaseAction::Read => self.process(at).into_iter().for_each(|process| process.call = Some(None)),
            LeaseAction::Write(mut write) => {
                let own = self.nodes.get(at).map(|node| node.disk.copy.clone());
                if let (LeaseWrite::Take { copies, .. }, Some(Defect::NamesBeforeOpening)) = (&mut write, defect) {
                    *copies = Some(Copies::of(own));
                }
                self.process(at).into_iter().for_each(|process| process.call = Some(Some(write.clone())));
            }
            LeaseAction::Lead(epoch) => self.lead(at, epoch),
            LeaseAction::Copies { request, .. } => {
                let leading = self.process(at).and_then(|process| process.leading.as_mut());
                leading
                    .filter(|_| defect != Some(Defect::ForgetsAtOnce))
                    .into_iter()
                    .for_each(|of| of.carried_out.push(request));
            }
            LeaseAction::StepDown(_) => {
                self.process(at).into_iter().for_each(|process| process.leading = None);
                self.step(at, LeaseEvent::Closed);
            }
            LeaseAction::Danger { .. } | LeaseAction::Safe | LeaseAction::Hold => {}
        }
    }

    fn lead(&mut self, at: usize, Epoch(epoch): Epoch) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if epoch <= node.disk.epoch {
            let stored = Epoch(node.disk.epoch);
            return self.step(at, LeaseEvent::LogEpoch(stored));
        }
        if node.disk.is_damaged {
            node.disk.is_given_up = true;
            self.note(format!("h{at} has the lease and cannot open its log"));
            self.tally.given_up = self.tally.given_up.saturating_add(1);
            self.kill(at);
            if self.is_quiet {
                self.start(at);
            }
            return;
        }
        (node.disk.epoch, node.disk.has_log, node.disk.is_followers) = (epoch, true, false);
        let in_sync = InSync::new(node.disk.copy.clone(), 1, TIMEOUT_NS);
        let leading = Leading { epoch, in_sync, carried_out: Vec::new(), waiting: Vec::new(), followers: Vec::new() };
        node.process.iter_mut().for_each(|process| process.leading = Some(leading.clone()));
        self.tally.leaders = self.tally.leaders.saturating_add(1);
        self.note(format!("h{at} leads with epoch {epoch}"));
    }

    /// The store executes the call of a process, whose answer may be lost.
    fn answer(&mut self, at: usize) {
        let (now_ns, lease_ns, defect) = (self.now_ns, self.terms.lease_ns, self.defect);
        let (is_away, fate) = (self.away.contains(&at), if self.is_quiet { 9 } else { self.draw.below(12) });
        if !self.runs(at) {
            return;
        }
        let Some(process) = self.process(at) else { return };
        let Some(call) = process.call.take() else { return };
        let me = process.lease.name().to_string();
        let since_ns = process.lease.calling_since_ns().unwrap_or(now_ns);
        let is_timed_out = now_ns.saturating_sub(since_ns) > lease_ns / 3;
        let event = match call {
            _ if is_away && !is_timed_out => {
                // No answer before its deadline.
                self.process(at).into_iter().for_each(|process| process.call = Some(call.clone()));
                return;
            }
            None if is_away => LeaseEvent::Read(Err(Unanswered)),
            None => LeaseEvent::Read(Ok(self.store.read(defect))),
            Some(_) if is_away => LeaseEvent::Wrote(Err(Unanswered)),
            Some(write) if fate == 0 => {
                self.store.late.push(Late { by: me, write });
                LeaseEvent::Wrote(Err(Unanswered))
            }
            Some(write) => {
                let written = self.store.write(&me, lease_ns, &write);
                LeaseEvent::Wrote(if fate == 1 { Err(Unanswered) } else { Ok(written) })
            }
        };
        self.step(at, event);
    }

    fn apply_late(&mut self) {
        if self.store.late.is_empty() {
            return;
        }
        let at = usize::try_from(self.draw.below(self.store.late.len() as u64)).unwrap_or(0);
        let Late { by, write } = self.store.late.remove(at);
        let written = self.store.write(&by, self.terms.lease_ns, &write);
        self.note(format!("a late write of {by}: {written:?}"));
    }

    /// An active process accepts an update.
    fn publish(&mut self, at: usize) {
        if !self.runs(at) || !self.leads(at) {
            return;
        }
        self.next = self.next.saturating_add(1);
        let number = self.next;
        let Some(Node { disk, process: Some(process), .. }) = self.nodes.get_mut(at) else { return };
        let Some(leading) = &mut process.leading else { return };
        leading.waiting.push(disk.log.len());
        disk.log.push((leading.epoch, number));
        self.in_sync(at, Event::Time);
        self.acknowledge(at);
    }

    fn position(&self, at: usize) -> Position {
        Position { date: 1, index: self.nodes.get(at).map_or(0, |node| node.disk.log.len() as u64) }
    }

    fn in_sync(&mut self, at: usize, event: Event) {
        let (tip, now_ns, defect) = (self.position(at), i64::try_from(self.now_ns).unwrap_or(i64::MAX), self.defect);
        let Some(leading) = self.process(at).and_then(|process| process.leading.as_mut()) else { return };
        let Steps { record, .. } = leading.in_sync.step(event, tip, now_ns);
        if let Some((request, copies)) = record {
            if defect == Some(Defect::ForgetsAtOnce) {
                leading.carried_out.push(request);
            }
            if defect == Some(Defect::KeepsNames) && request == 1 {
                return leading.carried_out.push(request);
            }
            self.note(format!("h{at} requests that the lease names {copies}"));
            self.step(at, LeaseEvent::Copies { request, copies });
        }
    }

    /// The event loop looks at what the lease says, and acknowledges.
    fn look(&mut self, at: usize) {
        if !self.runs(at) {
            return;
        }
        let carried_out =
            self.process(at).and_then(|process| process.leading.as_mut()).map(|of| std::mem::take(&mut of.carried_out));
        for request in carried_out.into_iter().flatten() {
            self.in_sync(at, Event::Recorded(request));
        }
        self.acknowledge(at);
    }

    fn acknowledge(&mut self, at: usize) {
        let defect = self.defect;
        let Some(Node { disk, process: Some(process), .. }) = self.nodes.get_mut(at) else { return };
        let Some(leading) = &mut process.leading else { return };
        let safe = leading.in_sync.confirmed().filter(|_| defect != Some(Defect::AcksAlone));
        let safe = safe.map_or(disk.log.len(), |safe| usize::try_from(safe.index).unwrap_or(0));
        let (now, later): (Vec<usize>, Vec<usize>) = leading.waiting.iter().partition(|index| **index < safe);
        leading.waiting = later;
        self.acknowledged.extend(now.iter().filter_map(|index| disk.log.get(*index).map(|(_, number)| *number)));
    }

    /// A passive process copies from one that leads.
    fn copy(&mut self, at: usize) {
        let leader = (at + usize::try_from(self.draw.from(1, NODES as u64 - 1)).unwrap_or(1)) % NODES;
        if !self.runs(at) || self.leads(at) || !self.runs(leader) || !self.leads(leader) {
            return;
        }
        let (Some(own), Some(theirs)) = (self.nodes.get(at), self.nodes.get(leader)) else { return };
        let (own, theirs, copy) = (own.disk.clone(), theirs.disk.clone(), own.disk.copy.clone());
        let is_joined = self
            .process(leader)
            .and_then(|process| process.leading.as_ref())
            .is_some_and(|leading| leading.followers.contains(&at));
        if !self.reach(at, leader) {
            if is_joined {
                let leading = self.process(leader).and_then(|process| process.leading.as_mut());
                leading.into_iter().for_each(|of| of.followers.retain(|follower| *follower != at));
                self.in_sync(leader, Event::Left(copy));
            }
            return;
        }
        if !is_joined {
            return self.join(at, leader, (own, theirs));
        }
        let most = 1 + usize::try_from(self.draw.below(6)).unwrap_or(0);
        let same = own.log.len();
        let more: Vec<Entry> = theirs.log.iter().skip(same).take(most).copied().collect();
        if let Some(node) = self.nodes.get_mut(at) {
            node.disk.log.extend(more);
        }
        let has = self.position(at);
        self.in_sync(leader, Event::Confirmed(copy, has));
        self.acknowledge(leader);
    }

    /// A follower connects: its log has to be a beginning of the leader's, and is cut back to one if it went on under an earlier epoch.
    fn join(&mut self, at: usize, leader: usize, (own, theirs): (Disk, Disk)) {
        let fork = own.log.iter().zip(&theirs.log).take_while(|(own, theirs)| own == theirs).count();
        if own.epoch > theirs.epoch || (fork < own.log.len() && own.epoch == theirs.epoch) {
            return;
        }
        if let Some(node) = self.nodes.get_mut(at) {
            if fork < node.disk.log.len() {
                self.tally.cut_back = self.tally.cut_back.saturating_add(1);
            }
            node.disk.log.truncate(fork);
            (node.disk.epoch, node.disk.has_log, node.disk.is_followers) = (theirs.epoch, true, true);
        }
        self.note(format!("h{at} follows h{leader} from {fork} on"));
        let leading = self.process(leader).and_then(|process| process.leading.as_mut());
        leading.into_iter().for_each(|of| of.followers.push(at));
        self.in_sync(leader, Event::Joined(own.copy.clone()));
        if self.defect == Some(Defect::NamesAtJoin) {
            let tip = self.position(leader);
            self.in_sync(leader, Event::Confirmed(own.copy, tip));
        }
    }

    /// A process that ended leaves its leader.
    fn leave_leaders(&mut self, at: usize) {
        let copy = self.nodes.get(at).map(|node| node.disk.copy.clone()).unwrap_or_default();
        for leader in 0..NODES {
            let leading = self.process(leader).and_then(|process| process.leading.as_mut());
            let Some(leading) = leading.filter(|leading| leading.followers.contains(&at)) else { continue };
            leading.followers.retain(|follower| *follower != at);
            self.in_sync(leader, Event::Left(copy.clone()));
        }
    }

    fn start(&mut self, at: usize) {
        let (terms, now_ns) = (self.terms, self.now_ns);
        if self.nodes.get(at).is_some_and(|node| node.disk.is_given_up) {
            if !self.is_quiet {
                return;
            }
            self.wipe(at);
        }
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.drawn = node.drawn.saturating_add(1);
        if !node.disk.has_log {
            node.disk.copy = format!("h{at}/{}", node.drawn);
        }
        let process = Process::start(format!("h{at}/p{}", node.drawn), &node.disk, terms, now_ns);
        let floor = Epoch(node.disk.epoch);
        node.process = Some(process);
        self.step(at, LeaseEvent::LogEpoch(floor));
        self.step(at, LeaseEvent::Tick);
    }

    fn kill(&mut self, at: usize) {
        if self.nodes.get(at).is_none_or(|node| node.process.is_none()) {
            return;
        }
        self.note(format!("h{at} is killed"));
        self.leave_leaders(at);
        self.nodes.get_mut(at).into_iter().for_each(|node| node.process = None);
    }

    fn pause(&mut self, at: usize) {
        self.process(at).into_iter().for_each(|process| process.is_paused = true);
    }

    /// A process goes on, or starts again. It may act once before it looks at the time.
    fn resume(&mut self, at: usize) {
        if self.nodes.get(at).is_some_and(|node| node.process.is_none()) {
            return self.start(at);
        }
        let was_paused = self.process(at).is_some_and(|process| std::mem::replace(&mut process.is_paused, false));
        if was_paused {
            if self.draw.one_in(2) {
                self.publish(at);
                self.look(at);
            }
            self.tick(at);
        }
    }

    /// The directory of a process that does not run is emptied.
    fn wipe(&mut self, at: usize) {
        let keeps_number = self.defect == Some(Defect::WipesUnnoticed);
        let may_go = self.may_go(at);
        let Some(node) = self.nodes.get_mut(at).filter(|node| node.process.is_none() && may_go) else { return };
        node.drawn = node.drawn.saturating_add(1);
        let copy = if keeps_number { node.disk.copy.clone() } else { format!("h{at}/{}", node.drawn) };
        node.disk = Disk { copy, ..Disk::default() };
        self.note(format!("the directory of h{at} is emptied"));
    }

    /// Whether a copy can go without the loss of an acknowledged update: another one that the record names is sound.
    fn may_go(&self, at: usize) -> bool {
        // A write on its way may name one that is gone.
        let writes = |node: &Node| node.process.as_ref().is_some_and(|process| matches!(process.call, Some(Some(_))));
        let is_settled = (self.store.late.is_empty() && !self.nodes.iter().any(writes)) || self.is_quiet;
        let record = self.store.record.as_ref();
        let is_named = |node: &Node| record.is_some_and(|record| record.copies.allow(&node.disk.copy));
        let is_sound = |(other, node): (usize, &Node)| other != at && is_named(node) && !node.disk.is_damaged;
        let is_last = self.nodes.get(at).is_some_and(is_named) && !self.nodes.iter().enumerate().any(is_sound);
        is_settled && !is_last
    }

    /// A record in the middle of a log that is not open to be written is damaged.
    fn damage(&mut self, at: usize) {
        let may_go = self.may_go(at) && !self.leads(at);
        let Some(node) = self.nodes.get_mut(at).filter(|node| may_go && !node.disk.log.is_empty()) else { return };
        node.disk.is_damaged = true;
        self.note(format!("the log of h{at} is damaged"));
    }

    /// A process ends in order, if its followers are level.
    fn step_down(&mut self, at: usize) {
        let position = self.position(at);
        let runs = self.runs(at);
        let leading = self.process(at).and_then(|process| process.leading.as_ref());
        if runs && leading.is_some_and(|leading| leading.in_sync.is_level(position)) {
            self.note(format!("h{at} gives its lease back"));
            self.acknowledge(at);
            self.step(at, LeaseEvent::StepDown { successor: None });
        }
    }

    /// Checks that each copy that may take over has everything that was acknowledged.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), String> {
        let Some(record) = &self.store.record else { return Ok(()) };
        for (at, node) in self.nodes.iter().enumerate() {
            if !record.copies.allow(&node.disk.copy) {
                continue;
            }
            let has: BTreeSet<u64> = node.disk.log.iter().map(|(_, number)| *number).collect();
            if has.len() < node.disk.log.len() {
                return Err(format!("h{at} holds an update twice"));
            }
            if let Some(lost) = self.acknowledged.iter().find(|number| !has.contains(number)) {
                return Err(format!("h{at} may take over and lacks the acknowledged update {lost}"));
            }
        }
        Ok(())
    }

    /// Ends all faults, and goes on until an update is acknowledged and two copies are named.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn recover(&mut self) -> Result<(), String> {
        self.is_quiet = true;
        self.cut.clear();
        self.away.clear();
        (0..NODES).for_each(|at| self.resume(at));
        let before = self.acknowledged.len();
        for _ in 0..RECOVERY {
            self.event();
            self.check()?;
            let named = self.store.record.as_ref().map_or(0, |record| record.copies.names().count());
            if self.acknowledged.len() > before && named == NODES {
                return Ok(());
            }
        }
        Err("no update was acknowledged, or not all copies were named, although nothing went wrong any more"
            .to_string())
    }
}
