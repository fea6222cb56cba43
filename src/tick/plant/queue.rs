//! Shell of the pure queue: its journal, the connections that belong to it, and the proofs of its windows. A step writes the journal and
//! returns what the tickerplant is to do for each subscriber.

mod effect;
#[cfg(test)]
mod tests;

pub(super) use effect::{At, Comparison, Effect, Proved, Stepped, What};

use super::member::Member;
use super::proofs::{ProofKey, Proofs};
use crate::env::Disk;
use crate::log::{self, Proof};
use crate::protocol::ToNode;
use crate::queue::{
    Action, Date, Handle, Kind, Note, Now, Params, Queue, QueueEvent, State, Subscriber, UpdateIndex, Window,
};
use crate::tick::journal::{Journal, JournalFile};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::field::display;

/// The queue of a tickerplant with all that belongs to it.
pub(super) struct QueueShell {
    disk: Arc<dyn Disk>,
    queue: Queue,
    journal: Journal,
    members: BTreeMap<Handle, Member>,
    proofs: Proofs,
    /// Time to send a proof, nanoseconds.
    prove_ns: i64,
    /// Number of waiting nodes as last sent to each live node.
    waiting_sent: BTreeMap<Handle, usize>,
    /// Number of updates that no node serves, as last sent to each node; a node assumes 0 before that.
    unserved_sent: BTreeMap<Handle, u64>,
}

/// A connected node that has sent nothing for so long does not answer: it reports its status every second. Nanoseconds.
const SILENT_NS: i64 = 5_000_000_000;

/// Number of instances in the width of the message field.
fn capped(instances: usize) -> u32 {
    u32::try_from(instances).unwrap_or(u32::MAX)
}

/// Logs an event of the queue.
fn log(note: &Note, is_alarm: bool) {
    let Note { text, queue, node, window, date } = note;
    let (queue, node) = (queue.as_ref().map(display), node.as_ref().map(display));
    let (window, date) = (window.as_ref().map(display), date.as_ref().map(display));
    match is_alarm {
        false => tracing::info!(queue, node, window, date, "{text}"),
        true => tracing::error!(queue, node, window, date, "{text}"),
    }
}

impl QueueShell {
    /// Restores the queue of a day from the journal beside its log. Returns whether something was restored.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(
        disk: &Arc<dyn Disk>,
        params: Params,
        date: Date,
        log: Option<&Path>,
    ) -> io::Result<(QueueShell, bool)> {
        let prove_ns = params.prove_ns;
        let (queue, journal, is_restored) = match log {
            None => (Queue::new(params, date), Journal::None, false),
            Some(log) => {
                let (file, queue, is_restored) = JournalFile::open(&**disk, &log::queue_path(log), params, date)?;
                (queue, Journal::Open(file), is_restored)
            }
        };
        let (members, proofs) = (BTreeMap::new(), Proofs::default());
        let (waiting_sent, unserved_sent) = (BTreeMap::new(), BTreeMap::new());
        let disk = Arc::clone(disk);
        let shell = QueueShell { disk, queue, journal, members, proofs, prove_ns, waiting_sent, unserved_sent };
        Ok((shell, is_restored))
    }

    /// After a restart: starts the grace period in which nodes may reconnect. No node is connected, so nothing is to be done for one.
    pub fn restored(&mut self, at: At<'_>) {
        for action in self.queue.step(QueueEvent::Restored, at.tip, at.now) {
            self.record(action, at.log);
        }
    }

    /// Returns the pure queue.
    pub fn core(&self) -> &Queue {
        &self.queue
    }

    /// Returns when [`QueueShell::overdue`] or [`QueueEvent::Tick`] has work, on the steady clock.
    pub fn next_deadline_ns(&self) -> Option<i64> {
        [self.queue.next_deadline_ns(), self.proofs.deadline_ns()].into_iter().flatten().min()
    }

    /// Returns the next proof that was not sent in time, as an event of the queue.
    pub fn overdue(&mut self, now_ns: i64) -> Option<QueueEvent> {
        let (handle, date, window) = self.proofs.take_overdue(now_ns)?;
        Some(QueueEvent::Unproved { handle, window, date })
    }

    /// Passes an event to the queue.
    pub fn step(&mut self, event: QueueEvent, at: At<'_>) -> Stepped {
        let mut stepped = Stepped::default();
        for action in self.queue.step(event, at.tip, at.now) {
            match self.record(action, at.log) {
                Some(Action::Refused { reason, .. }) => stepped.refused = Some(reason),
                Some(Action::Request { group, desired }) => stepped.requests.push((group, desired)),
                Some(action) => stepped.effects.extend(self.effect(action, at.now)),
                None => {}
            }
        }
        stepped
    }

    /// Writes journal and log lines. Returns any other action.
    fn record(&mut self, action: Action, log: Option<&Path>) -> Option<Action> {
        match action {
            Action::Journal(record) => {
                if let Some(path) = log.map(log::queue_path) {
                    self.journal.write(&*self.disk, &path, &record, &self.queue);
                }
            }
            Action::Note(note) => self::log(&note, false),
            Action::Alarm(note) => self::log(&note, true),
            action => return Some(action),
        }
        None
    }

    fn effect(&mut self, action: Action, now: Now) -> Option<Effect> {
        let ends = |window: Window| (window.first().0, window.last().0);
        let (to, what) = match action {
            Action::Joined { handle, drop } => (handle, self.joined(handle, drop)?),
            Action::MakeLive { handle, first, .. } => (handle, self.live(handle, first)?),
            Action::Resume { handle, next } => (handle, What::Resume { next }),
            Action::StopFeed { handle } => (handle, What::StopFeed),
            Action::Rebuild { handle, window, hidden } => (handle, self.rebuild(handle, window, hidden)),
            Action::Verify { handle, window, date } => {
                let key = (handle, date, window);
                if let Some(held) = self.proofs.take_early(&key) {
                    return self.comparison(&key, held);
                }
                let is_of_today = date == self.queue.date();
                self.proofs.expect(key, is_of_today.then(|| now.steady_ns.saturating_add(self.prove_ns)));
                return None;
            }
            Action::Recheck { handle, window } => {
                let (first, last) = ends(window);
                (handle, What::Send(ToNode::Recheck { first, last }))
            }
            Action::Handed { handle, window } => {
                let (first, last) = ends(window);
                (handle, What::Send(ToNode::Handed { first, last }))
            }
            Action::Show { handle, window } => {
                let (first, last) = ends(window);
                (handle, What::Send(ToNode::Show { first, last }))
            }
            Action::Drop { handle } => (handle, What::Send(ToNode::Drop)),
            Action::Left { handle } => (handle, What::Send(ToNode::Left)),
            Action::Sleep { handle } => (handle, What::Send(ToNode::Sleep)),
            Action::EndOfDay { handle, date } => (handle, What::Send(ToNode::End { date: date.0 })),
            Action::Group { handle, desired, joined } => {
                let joined = joined.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
                (handle, What::Send(ToNode::Group { desired: capped(desired), joined }))
            }
            Action::Close { handle } => (handle, What::Close),
            Action::NeedNode { queue, missing, desired, via } => {
                tracing::info!(%queue, missing, desired, "nodes are missing; requesting more from the fleet");
                (via?, What::Send(ToNode::Need { desired: capped(desired), missing: capped(missing) }))
            }
            Action::Journal(_)
            | Action::Refused { .. }
            | Action::Request { .. }
            | Action::Note(_)
            | Action::Alarm(_) => return None,
        };
        Some(Effect { to, what })
    }

    fn joined(&self, handle: Handle, drop: bool) -> Option<What> {
        let member = self.members.get(&handle)?;
        Some(What::Join { subscription: Arc::clone(&member.subscription), drop: drop || member.is_foreign })
    }

    fn live(&self, handle: Handle, first: UpdateIndex) -> Option<What> {
        let member = self.members.get(&handle)?;
        let subscription = Arc::clone(&member.subscription);
        if !member.is_node() {
            return Some(What::LivePaper { subscription, first });
        }
        let position = self.queue.by_handle(handle).map_or(1, |of| self.queue.position(of));
        Some(What::Live { subscription, first, position })
    }

    fn rebuild(&self, handle: Handle, window: Window, hidden: bool) -> What {
        match self.queue.by_handle(handle).map(|of| of.kind()) {
            Some(Kind::Paper) => {
                let subscription = self.members.get(&handle).map(|of| Arc::clone(&of.subscription)).unwrap_or_default();
                What::RebuildPaper { subscription, window }
            }
            _ => What::Rebuild { window, date: self.queue.date(), hidden },
        }
    }

    /// Returns the comparison of a wanted proof with the log; `None` if its node has left.
    fn comparison(&self, key: &ProofKey, held: Proof) -> Option<Effect> {
        let (to, date, window) = *key;
        let subscription = Arc::clone(&self.queue.by_handle(to)?.subscription);
        Some(Effect { to, what: What::Compare(Comparison { subscription, date, window, held }) })
    }

    pub fn member(&self, handle: Handle) -> Option<&Member> {
        self.members.get(&handle)
    }

    /// Adds a subscriber that uses the paper's protocol (`.u.asg.sub`), unless its connection is in a queue already.
    pub fn subscribes(&mut self, handle: Handle, member: Member) {
        self.members.entry(handle).or_insert(member);
    }

    /// Adds a node that joins. Returns its former membership.
    pub fn joins(&mut self, handle: Handle, member: Member) -> Option<Member> {
        self.unserved_sent.remove(&handle);
        self.members.insert(handle, member)
    }

    /// A rejected join leaves an existing membership unchanged.
    pub fn join_refused(&mut self, handle: Handle, before: Option<Member>) {
        match before {
            Some(before) => self.members.insert(handle, before),
            None => self.members.remove(&handle),
        };
    }

    /// Removes a closed connection. Returns whether it was a member, of which the queue must be notified.
    pub fn disconnected(&mut self, handle: Handle) -> bool {
        self.waiting_sent.remove(&handle);
        self.unserved_sent.remove(&handle);
        let was_member = self.members.remove(&handle).is_some();
        if was_member {
            self.proofs.forget(handle);
        }
        was_member
    }

    /// Notes that a node has sent a message.
    pub fn heard(&mut self, handle: Handle, now_ns: i64) {
        if let Some(member) = self.members.get_mut(&handle) {
            member.heard_ns = now_ns;
        }
    }

    /// Returns the connected nodes that do not answer, with the time since their last message in nanoseconds; live ones first. A process
    /// that hangs keeps its connection, so that no disconnect shows it.
    pub fn silent(&self, now_ns: i64) -> Vec<(&Subscriber, i64)> {
        let silence_ns = |member: &Member| now_ns.saturating_sub(member.heard_ns);
        let silent = self.nodes().filter(|(_, member)| silence_ns(member) >= SILENT_NS);
        let mut silent: Vec<(&Subscriber, i64)> =
            silent.filter_map(|(handle, member)| Some((self.queue.by_handle(handle)?, silence_ns(member)))).collect();
        silent.sort_by_key(|(sub, _)| (sub.state != State::Live, sub.id));
        silent
    }

    /// Returns elastick's nodes among the members.
    pub fn nodes(&self) -> impl Iterator<Item = (Handle, &Member)> {
        self.members.iter().filter(|(_, member)| member.is_node()).map(|(handle, member)| (*handle, member))
    }

    /// Whether a subscriber uses the paper's protocol, and so counts messages.
    pub fn has_counting_members(&self) -> bool {
        self.members.values().any(|member| !member.is_node())
    }

    pub fn is_node(&self, handle: Handle) -> bool {
        self.members.get(&handle).is_some_and(Member::is_node)
    }

    /// A paper subscriber's count is in messages from this update on.
    pub fn counts_from(&mut self, handle: Handle, tip: u64) {
        if let Some(member) = self.members.get_mut(&handle) {
            member.counted_from = tip;
        }
    }

    /// The day ends before a live node has sent its feed position.
    pub fn feeds_from_start(&mut self, handle: Handle) {
        if let Some(member) = self.members.get_mut(&handle) {
            member.from_start = true;
        }
    }

    /// Returns where to feed a node that requests the updates from `asked` on.
    pub fn feed_position(&mut self, handle: Handle, requested: UpdateIndex) -> UpdateIndex {
        let member = self.members.get_mut(&handle);
        let ended = member.is_some_and(|member| std::mem::take(&mut member.from_start));
        if ended { UpdateIndex(0) } else { requested }
    }

    /// A day ends after so many updates.
    pub fn day_ended(&mut self, updates: u64) {
        self.members.values_mut().for_each(|member| member.day_ended(updates));
    }

    /// Keeps the proof of a window that a node is about to close before `next`.
    pub fn rolls(&mut self, handle: Handle, next: UpdateIndex, date: Date, proof: Proof) {
        let first = self.queue.by_handle(handle).and_then(|of| match of.state {
            State::Live => self.queue.live(&of.queue).map(|(_, open)| open),
            State::Rebuilding { window, .. } | State::TakingOver { window, .. } => Some(window.first()),
            _ => None,
        });
        if let Some(window) = first.and_then(|first| Window::new(first, next)) {
            self.proofs.came_early((handle, date, window), proof);
        }
    }

    /// Takes a proof of a node. Each expected one is compared once: a comparison reads the log, and a node may send proofs without end.
    pub fn proved(&mut self, handle: Handle, date: Date, window: Window, proof: Proof) -> Proved {
        let key = (handle, date, window);
        let is_of_ended_day = date < self.queue.date();
        if self.proofs.take_expected(&key) || (is_of_ended_day && self.proofs.take_expected_of(handle, date)) {
            return Proved::Wanted(self.comparison(&key, proof));
        }
        self.proofs.came_early(key, proof);
        Proved::Unknown
    }

    /// Drops the proof that came with a message, after its step: repeated by a node that joined again, when the window is already proved, or
    /// of a window that the queue has not closed there.
    pub fn drop_early_proof(&mut self) {
        self.proofs.drop_early();
    }

    /// Returns the message with the number of nodes that wait after a live node, if the number has changed.
    pub fn waiting(&mut self, handle: Handle) -> Option<ToNode> {
        let live = self.queue.by_handle(handle).filter(|of| of.state == State::Live);
        let Some(live) = live else {
            self.waiting_sent.remove(&handle);
            return None;
        };
        let waits = |of: &&Subscriber| {
            of.state == State::Waiting && of.handle.is_some() && of.leaving.is_none() && of.queue == live.queue
        };
        let waiting = self.queue.subscribers().iter().filter(waits).count();
        let has_changed = self.waiting_sent.insert(handle, waiting) != Some(waiting);
        has_changed.then_some(ToNode::Waiting { nodes: waiting as u64 })
    }

    /// Returns the message with the number of updates before `tip` that no node of a node's queue serves, if the number has changed.
    pub fn unserved(&mut self, handle: Handle, tip: UpdateIndex) -> Option<ToNode> {
        let of = self.queue.by_handle(handle).filter(|of| of.kind() == Kind::Native)?;
        let updates = self.queue.unserved(&of.queue, tip);
        let before = self.unserved_sent.insert(handle, updates).unwrap_or(0);
        (before != updates).then_some(ToNode::Unserved { updates })
    }

    /// Writes the journal no more: another tickerplant owns it.
    pub fn give_up_journal(&mut self) {
        self.journal = Journal::GivenUp;
    }

    /// Returns the state of members and proofs as text, for the state fingerprint.
    pub fn shape(&self, now_ns: i64) -> String {
        let members: Vec<_> =
            self.members.iter().map(|(handle, member)| (handle.0, member.form, member.from_start)).collect();
        format!("members {members:?} {}", self.proofs.shape(now_ns))
    }
}
