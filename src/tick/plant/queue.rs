//! The shell of the queue: calls of `.u.asg` to events, actions to messages, journal and feed.

use super::Plant;
use super::subscribe::over_limit;
use crate::config::Limit;
use crate::defect::{Defect, is_planted};
use crate::log::{self, Proof};
use crate::metrics;
use crate::net::{ConnId, Links, Request, message};
use crate::points::{self, Point};
use crate::q::error::QError;
use crate::queue::journal::Record;
use crate::queue::{Action, Date, Event, Handle, Kind, Params, Refusal, Subscription, UpdateIndex, Window};
use crate::sys::clock as time;
use crate::tick::core::schema::Form;
use crate::tick::journal::{Journal, JournalFile};
use crate::tick::lane::{LaneKey, LaneSpec};
use crate::tick::messages;
use crate::tick::subscriptions::{Subscriptions, Wanted};
use crate::tick::verify::{Answer, Done, Job, Question};
use proto::MessageKind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A connection that is in a queue.
#[derive(Clone, Debug)]
pub struct Member {
    pub form: Form,
    pub subscription: Arc<Subscription>,
    /// A paper subscriber counts messages from this update on; before it, updates.
    pub counted_from: u64,
    /// Its count at the last end of a day: the paper's `asg/r.q` as printed does not start anew.
    pub carried: u64,
    /// The day has ended before this node has said where to feed it from: whatever it says, the new day is fed from its start.
    pub from_start: bool,
    /// What it holds is not of this log: it is to forget all of it.
    pub is_foreign: bool,
}

type ProofKey = (Handle, Date, Window);

/// Proofs that came and windows that are to be proved; whichever comes first waits for the other.
#[derive(Debug, Default)]
pub struct Proofs {
    held: BTreeMap<ProofKey, Proof>,
    pub(super) wanted: BTreeSet<ProofKey>,
}

/// Proofs kept for windows that are not closed yet: enough for every node to send one too early.
const PROOFS_KEPT: usize = 4096;

impl Proofs {
    pub(super) fn came(&mut self, key: ProofKey, proof: Proof) {
        if self.held.len() < PROOFS_KEPT {
            self.held.insert(key, proof);
        }
    }

    fn forget(&mut self, handle: Handle) {
        self.held.retain(|(of, ..), _| *of != handle);
        self.wanted.retain(|(of, ..)| *of != handle);
    }

    pub(super) fn forget_unwanted(&mut self, key: &ProofKey) {
        if !self.wanted.contains(key) {
            self.held.remove(key);
        }
    }

    /// The proof of a wanted window, if it is here.
    fn take(&mut self, key: &ProofKey) -> Option<Proof> {
        if !self.wanted.contains(key) {
            return None;
        }
        let proof = self.held.remove(key)?;
        self.wanted.remove(key);
        Some(proof)
    }
}

pub(super) fn handle(conn: ConnId) -> Handle {
    Handle(conn.handle())
}

impl Plant {
    /// After a restart: nodes get time to come back.
    pub(super) fn restored(&mut self, tip: u64) {
        let actions = self.queue.step(Event::Restored, UpdateIndex(tip), self.moment());
        // Nobody is connected, so that only the journal and the log line have anything to do.
        for action in actions {
            match action {
                Action::Journal(record) => self.write_journal(&record),
                Action::Note(text) => ::log::info!("{text}"),
                Action::Alarm(text) => ::log::error!("{text}"),
                _ => {}
            }
        }
    }

    pub fn queue_tick(&mut self, ctl: &mut dyn Links) {
        self.step_queue(Event::Tick, None, ctl);
    }

    /// Feeds a member of a queue from an update of this day on.
    pub(super) fn feed_from(&mut self, conn: ConnId, first: u64, ctl: &mut dyn Links) {
        let first = first.saturating_sub(u64::from(is_planted(Defect::NoDedupOnResume)));
        let Some(member) = self.members.get(&conn) else { return };
        let key = self.key_of_member(member, compresses(conn, ctl));
        match self.feed.start_from(conn, key, first) {
            Ok(()) => self.writable(conn, ctl),
            Err(error) => {
                let error = over_limit(error);
                ::log::warn!("the node of handle {} cannot be fed: {error}", conn.handle());
                ctl.close(conn, &error.detail);
            }
        }
    }

    pub(super) fn key_of_member(&self, member: &Member, compress: bool) -> LaneKey {
        let mut own = Subscriptions::new(self.tables.len());
        for (table, wanted) in self.wanted(&member.subscription) {
            own.add(table, (), wanted);
        }
        own.key((), member.form, false, compress)
    }

    /// The tables of a subscription with the symbols wanted of each.
    fn wanted(&self, subscription: &Subscription) -> Vec<(usize, Wanted)> {
        let of = |syms: &[Vec<u8>]| match syms {
            [] => Wanted::All,
            syms if syms.iter().any(Vec::is_empty) => Wanted::All,
            syms => Wanted::List(syms.to_vec()),
        };
        let pairs = subscription.tabs.iter().zip(&subscription.syms);
        pairs
            .flat_map(|(tab, syms)| {
                let tables: Vec<usize> = match tab.is_empty() {
                    true => self.sorted.clone(),
                    false => self.tables.find(tab).map(|(table, _)| table).into_iter().collect(),
                };
                tables.into_iter().map(move |table| (table, of(syms)))
            })
            .collect()
    }

    /// The tables of a subscription, in the order of `.u.t`.
    fn tables_of(&self, subscription: &Subscription) -> Vec<usize> {
        let wanted: BTreeSet<usize> = self.wanted(subscription).into_iter().map(|(table, _)| table).collect();
        self.sorted.iter().copied().filter(|table| wanted.contains(table)).collect()
    }

    pub(super) fn leave_queue(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        self.waiting_told.remove(&conn);
        if self.members.remove(&conn).is_some() && !is_planted(Defect::DisconnectNotNoticed) {
            self.proofs.forget(handle(conn));
            self.step_queue(Event::Disconnect { handle: handle(conn) }, None, ctl);
        }
    }

    /// Steps the queue and does what it says. Answers why it refused, if it did.
    pub(super) fn step_queue(&mut self, event: Event, request: Option<Request>, ctl: &mut dyn Links) -> Option<QError> {
        self.settle(ctl);
        self.step_queue_at(event, UpdateIndex(self.feed.tip().index), request, ctl)
    }

    pub(super) fn step_queue_at(
        &mut self,
        event: Event,
        tip: UpdateIndex,
        request: Option<Request>,
        ctl: &mut dyn Links,
    ) -> Option<QError> {
        let actions = self.queue.step(event, tip, self.moment());
        points::reach(Point::QueueStepped);
        let mut refused = None;
        for action in actions {
            points::reach(Point::QueueBetweenActions);
            if let Some(error) = self.act(action, request, ctl) {
                refused = Some(error);
            }
        }
        refused
    }

    fn act(&mut self, action: Action, request: Option<Request>, ctl: &mut dyn Links) -> Option<QError> {
        let to = |handle: Handle, ctl: &dyn Links| ctl.by_handle(handle.0);
        match action {
            Action::Journal(record) => self.write_journal(&record),
            Action::Refused { reason, .. } => {
                if let Refusal::TooManySubscribers(_) = reason {
                    metrics::refused(Limit::queue_subscribers);
                }
                return Some(QError::with(reason.term(), reason.to_string()));
            }
            Action::Joined { handle, drop } => self.joined(to(handle, ctl)?, drop, request, ctl),
            Action::MakeLive { handle, first, .. } => self.make_live(to(handle, ctl)?, first, ctl),
            Action::Resume { handle, next } => {
                let conn = to(handle, ctl)?;
                self.show_subscribed(conn);
                self.feed_from(conn, next.0, ctl);
            }
            Action::StopFeed { handle } => {
                let conn = to(handle, ctl)?;
                self.subscriptions.remove_everywhere(conn);
                self.feed.remove(conn);
            }
            Action::Rebuild { handle, window, hidden } => {
                let conn = to(handle, ctl)?;
                self.make_readable(conn, ctl);
                let log = self.log_handle();
                let message = match self.queue.by_handle(handle).map(|of| of.kind()) {
                    Some(Kind::Paper) => {
                        let chosen =
                            self.members.get(&conn).map(|of| self.tables_of(&of.subscription)).unwrap_or_default();
                        messages::paper_replay(&self.tables, &chosen, &log, window.first().0, window.last().0)
                    }
                    _ => messages::rebuild(self.place(&log), window, hidden),
                };
                ctl.send(conn, message);
                points::reach(Point::RebuildTold);
            }
            Action::Verify { handle, window, date } => {
                let key = (handle, date, window);
                self.proofs.wanted.insert(key);
                self.check_proof(&key, ctl);
            }
            Action::Recheck { handle, window } => ctl.send(to(handle, ctl)?, messages::recheck(window)),
            Action::Handed { handle, window } => ctl.send(to(handle, ctl)?, messages::handed(window)),
            Action::Show { handle, window } => ctl.send(to(handle, ctl)?, messages::show(window)),
            Action::Drop { handle } => ctl.send(to(handle, ctl)?, messages::drop_all()),
            Action::Left { handle } => ctl.send(to(handle, ctl)?, messages::left()),
            Action::Group { handle, desired, joined } => {
                ctl.send(to(handle, ctl)?, messages::group(desired, &joined));
            }
            Action::EndOfDay { handle, date } => ctl.send(to(handle, ctl)?, messages::end(date.0)),
            Action::Close { handle } => ctl.close(to(handle, ctl)?, "the node has come back over another connection"),
            Action::NeedNode { queue, missing, desired, via } => {
                ::log::info!("queue {queue}: {missing} more nodes are needed, {desired} in all");
                if let Some(conn) = via.and_then(|handle| to(handle, ctl)) {
                    ctl.send(conn, messages::need(desired));
                }
            }
            Action::Note(text) => ::log::info!("{text}"),
            Action::Alarm(text) => ::log::error!("{text}"),
        }
        None
    }

    fn joined(&mut self, conn: ConnId, drop: bool, request: Option<Request>, ctl: &mut dyn Links) {
        let chosen = self.members.get(&conn).map(|member| self.tables_of(&member.subscription)).unwrap_or_default();
        let drop = drop || self.members.get(&conn).is_some_and(|member| member.is_foreign);
        let log = self.log_handle();
        let answer = message::message(MessageKind::Response, |writer| {
            messages::put_joined(writer, &self.tables, &chosen, self.place(&log), drop);
        });
        match (request, answer) {
            (Some(request), Ok(answer)) => {
                ctl.reply(request, answer);
                points::reach(Point::JoinAnswered);
            }
            // Joined without asking for an answer: then only what has to be done is told.
            (None, _) if drop => ctl.send(conn, messages::drop_all()),
            (None, _) => {}
            (Some(_), Err(error)) => ::log::error!("the answer to a join cannot be sent: {error}"),
        }
    }

    fn make_live(&mut self, conn: ConnId, first: UpdateIndex, ctl: &mut dyn Links) {
        let Some(member) = self.members.get(&conn).cloned() else { return };
        points::reach(Point::BeforeLive);
        self.show_subscribed(conn);
        self.make_readable(conn, ctl);
        let chosen = self.tables_of(&member.subscription);
        let log = self.log_handle();
        let tip = self.feed.tip().index;
        match member.form {
            Form::Indexed => {
                let position = self.queue.by_handle(handle(conn)).map_or(1, |of| self.queue.position(of));
                ctl.send(conn, messages::live(&self.tables, &chosen, self.place(&log), first.0, position));
                points::reach(Point::LiveTold);
            }
            Form::Table => {
                ctl.send(conn, messages::paper_replay(&self.tables, &chosen, &log, first.0, tip));
                if let Some(member) = self.members.get_mut(&conn) {
                    member.counted_from = tip;
                }
                self.feed_from(conn, tip, ctl);
            }
        }
    }

    /// A live member stands in `.u.w`.
    fn show_subscribed(&mut self, conn: ConnId) {
        let Some(member) = self.members.get(&conn) else { return };
        for (table, wanted) in self.wanted(&Arc::clone(&member.subscription)) {
            self.subscriptions.add(table, conn, wanted);
        }
    }

    /// What was logged can be seen where this peer reads it.
    fn make_readable(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let local = ctl.peer(conn).is_some_and(|peer| peer.local);
        let Some(log) = &mut self.log else { return };
        if let Err(error) = log.announce(!local) {
            self.fail(&error, ctl);
        }
    }

    fn write_journal(&mut self, record: &Record) {
        let Some(path) = self.log.as_ref().map(|log| log::queue_path(log.path())) else { return };
        let failed_before = matches!(self.journal, Journal::Failed);
        // What is written behind a record that is missing would be read as another state.
        let journal = match std::mem::replace(&mut self.journal, Journal::Failed) {
            Journal::Open(mut journal) if journal.path() == path => journal.append(record).map(|()| journal),
            Journal::Open(_) | Journal::Failed => self.new_journal(&path),
            Journal::GivenUp => return self.journal = Journal::GivenUp,
            Journal::None => return self.journal = Journal::None,
        };
        match journal {
            Ok(journal) => {
                self.journal = Journal::Open(journal);
                if failed_before {
                    ::log::info!("{} is written again, with all that the queue holds", path.display());
                }
            }
            Err(error) if !failed_before => ::log::error!(
                "the queue's journal {} cannot be written: {error}. A restart will not know of this and of what follows until it can be; \
                 nodes then bring along what they hold",
                path.display()
            ),
            Err(_) => {}
        }
    }

    /// A journal that begins with all that the queue holds: of a new day, or after it could not be written.
    fn new_journal(&self, path: &Path) -> std::io::Result<JournalFile> {
        let (mut journal, ..) = JournalFile::open(path, Params::default(), self.queue.date())?;
        journal.append(&self.queue.snapshot())?;
        Ok(journal)
    }

    pub(super) fn check_proof(&mut self, key: &ProofKey, ctl: &mut dyn Links) {
        let Some(held) = self.proofs.take(key) else { return };
        let (of, date, window) = *key;
        let Some(subscriber) = self.queue.by_handle(of) else { return };
        let member = Member {
            form: Form::Indexed,
            subscription: Arc::clone(&subscriber.subscription),
            counted_from: 0,
            carried: 0,
            from_start: false,
            is_foreign: false,
        };
        let spec = LaneSpec::new(self.key_of_member(&member, false));
        self.ask_log(of, date, spec, Question::Proof { window, held }, ctl);
    }

    pub(super) fn ask_log(
        &mut self,
        of: Handle,
        date: Date,
        spec: Arc<LaneSpec>,
        question: Question,
        ctl: &mut dyn Links,
    ) {
        if let Some(Err(error)) = self.log.as_mut().map(crate::log::LogWriter::flush) {
            return self.fail(&error, ctl);
        }
        if let Some(log) = self.source_of(date) {
            self.verify.submit(Job { handle: of, conn: ctl.by_handle(of.0), date, log, spec, question, failures: 0 });
        }
    }

    /// What the log could not be asked, it is asked once more.
    pub(super) fn ask_log_again(&mut self) {
        let now = time::now();
        for (_, job) in self.unanswered.extract_if(.., |(at, _)| *at <= now) {
            self.verify.submit(job);
        }
    }

    pub(super) fn verified(&mut self, done: Done, ctl: &mut dyn Links) {
        let Done { mut job, answer } = done;
        let (handle, date) = (job.handle, job.date);
        if ctl.by_handle(handle.0) != job.conn {
            // Whoever asked has gone, and is asked anew when it is back. The handle may be another's by now.
            return;
        }
        if job.failures > 0 && answer.is_ok() {
            ::log::info!("handle {handle}: the log of {date} can be read again");
        }
        match answer {
            Ok(Answer::Proof { window, difference }) => {
                points::reach(Point::ProofCompared);
                let ok = difference.is_none() || is_planted(Defect::ProofNotChecked);
                match difference {
                    None => self.stats.verified = self.stats.verified.wrapping_add(1),
                    Some(difference) => {
                        self.stats.differing = self.stats.differing.wrapping_add(1);
                        let label = self.queue.by_handle(handle).map_or_else(|| handle.to_string(), |of| of.label());
                        ::log::error!("{label} does not hold {window} of {date} as it was logged: {difference}");
                    }
                }
                self.step_queue(Event::Proved { handle, window, date, ok }, None, ctl);
            }
            Ok(Answer::Position(None)) => {
                ::log::warn!("handle {handle} counts more messages than it was sent; it is not rolled");
            }
            Ok(Answer::Position(Some(next))) => {
                self.step_queue(Event::Roll { handle, next, date }, None, ctl);
            }
            Err(error) => {
                if job.failures == 0 {
                    ::log::error!(
                        "handle {handle}: the log of {date} cannot be read to verify what the node holds: {error}. It is tried again, more \
                         and more rarely; put the log back where it was"
                    );
                }
                let pause = job.put_off();
                if self.unanswered.len() < PROOFS_KEPT {
                    self.unanswered.push((time::now().checked_add(pause).unwrap_or_else(time::now), job));
                }
            }
        }
    }
}

/// Whether kdb+ would compress what it sends there.
pub(super) fn compresses(conn: ConnId, ctl: &dyn Links) -> bool {
    ctl.peer(conn).is_some_and(|peer| !peer.local && peer.capability > 0)
}
