//! Shell around the pure queue: turns calls of `.u.asg` into events, and actions into messages, journal records and feed changes.

use super::Plant;
use super::subscribe::over_limit;
use crate::config::Limit;
use crate::log::{self, Proof};
use crate::metrics;
use crate::net::{ConnId, Links, Request};
use crate::points::{self, Boundary};
use crate::protocol::foreign::Replay;
use crate::protocol::{Joined, Live, Rebuild, ToNode};
use crate::q::error::QError;
use crate::queue::journal::Record;
use crate::queue::{Action, Date, Event, Handle, Kind, Note, Params, Refusal, Subscription, UpdateIndex, Window};
use crate::table::Schema;
use crate::tick::core::schema::Form;
use crate::tick::journal::{Journal, JournalFile};
use crate::tick::lane::{LaneKey, LaneSpec};
use crate::tick::subscriptions::{RequestedSymbols, Subscriptions};
use crate::tick::verify::{Answer, Done, Job, Question};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tracing::field::display;

/// A connection that belongs to a queue.
#[derive(Clone, Debug)]
pub struct Member {
    pub form: Form,
    pub subscription: Arc<Subscription>,
    /// A paper subscriber's count is in updates before this index, and in messages from it on.
    pub counted_from: u64,
    /// Its count at the last end of a day: the paper's `asg/r.q`, as printed, does not reset it.
    pub carried: u64,
    /// The day ended before this node sent its feed position: whatever it sends, the new day is fed from its start.
    pub from_start: bool,
    /// Its rows are not of this log: it must drop them all.
    pub is_foreign: bool,
}

/// Node, day and window of a proof.
type ProofKey = (Handle, Date, Window);

/// Received proofs, and windows to be proved; either may come first.
#[derive(Debug, Default)]
pub struct Proofs {
    held: BTreeMap<ProofKey, Proof>,
    pub(super) wanted: BTreeSet<ProofKey>,
}

/// Proofs kept for windows that are still open: enough for every node to send one too early.
const PROOFS_KEPT: usize = 4096;

impl Proofs {
    /// Keeps a received proof, unless too many are kept.
    pub(super) fn came(&mut self, key: ProofKey, proof: Proof) {
        if self.held.len() < PROOFS_KEPT {
            self.held.insert(key, proof);
        }
    }

    fn forget(&mut self, handle: Handle) {
        self.held.retain(|(of, ..), _| *of != handle);
        self.wanted.retain(|(of, ..)| *of != handle);
    }

    /// Drops the proof of a window that is not to be proved.
    pub(super) fn forget_unwanted(&mut self, key: &ProofKey) {
        if !self.wanted.contains(key) {
            self.held.remove(key);
        }
    }

    /// Takes the proof of a wanted window, if it has arrived.
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
    /// After a restart: starts the grace period in which nodes may reconnect.
    pub(super) fn restored(&mut self, tip: u64) {
        let actions = self.queue.step(Event::Restored, UpdateIndex(tip), self.moment());
        // No node is connected, so only journal records and log lines can result.
        for action in actions {
            match action {
                Action::Journal(record) => self.write_journal(&record),
                Action::Note(note) => log(&note, false),
                Action::Alarm(note) => log(&note, true),
                _ => {}
            }
        }
    }

    /// Steps the queue for its timers.
    pub fn queue_tick(&mut self, ctl: &mut dyn Links) {
        self.step_queue(Event::Tick, None, ctl);
    }

    /// Feeds a member of a queue from an update of this day on.
    pub(super) fn feed_from(&mut self, conn: ConnId, first: u64, ctl: &mut dyn Links) {
        let Some(member) = self.members.get(&conn) else { return };
        let key = self.key_of_member(member, compresses(conn, ctl));
        match self.feed.start_from(conn, key, first) {
            Ok(()) => self.writable(conn, ctl),
            Err(error) => {
                let error = over_limit(error);
                tracing::warn!(handle = conn.handle(), %error, "the node cannot be fed");
                ctl.close(conn, &error.detail);
            }
        }
    }

    /// Returns the fan-out group of a member. Never merged, because nodes count updates.
    pub(super) fn key_of_member(&self, member: &Member, compress: bool) -> LaneKey {
        let mut own = Subscriptions::new(self.tables.len());
        for (table, wanted) in self.wanted(&member.subscription) {
            own.add(table, (), wanted);
        }
        own.key((), member.form, false, compress)
    }

    /// Returns the tables of a subscription with the symbols of each.
    fn wanted(&self, subscription: &Subscription) -> Vec<(usize, RequestedSymbols)> {
        let of = |syms: &[Vec<u8>]| match syms {
            [] => RequestedSymbols::All,
            syms if syms.iter().any(Vec::is_empty) => RequestedSymbols::All,
            syms => RequestedSymbols::List(syms.to_vec()),
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

    /// Returns the tables of a subscription, in the order of `.u.t`.
    fn tables_of(&self, subscription: &Subscription) -> Vec<Schema> {
        let wanted: BTreeSet<usize> = self.wanted(subscription).into_iter().map(|(table, _)| table).collect();
        let chosen = self.sorted.iter().filter(|table| wanted.contains(table));
        chosen.filter_map(|table| Some(self.tables.get(*table)?.schema.clone())).collect()
    }

    /// Removes a closed connection from its queue.
    pub(super) fn leave_queue(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        self.waiting_told.remove(&conn);
        if self.members.remove(&conn).is_some() {
            self.proofs.forget(handle(conn));
            self.step_queue(Event::Disconnect { handle: handle(conn) }, None, ctl);
        }
    }

    /// Steps the queue and carries out its actions. Returns the error if it rejects the event.
    pub(super) fn step_queue(&mut self, event: Event, request: Option<Request>, ctl: &mut dyn Links) -> Option<QError> {
        self.settle(ctl);
        self.step_queue_at(event, UpdateIndex(self.feed.tip().index), request, ctl)
    }

    /// As [`Plant::step_queue`], with a tip other than the current one: at the end of a day.
    pub(super) fn step_queue_at(
        &mut self,
        event: Event,
        tip: UpdateIndex,
        request: Option<Request>,
        ctl: &mut dyn Links,
    ) -> Option<QError> {
        let actions = self.queue.step(event, tip, self.moment());
        let mut refused = None;
        for action in actions {
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
                let log = self.log_path().map(Path::to_path_buf);
                let (first, last) = (window.first().0, window.last().0);
                let message = match self.queue.by_handle(handle).map(|of| of.kind()) {
                    Some(Kind::Paper) => {
                        let tables =
                            self.members.get(&conn).map(|of| self.tables_of(&of.subscription)).unwrap_or_default();
                        ToNode::Replay(Replay { tables, log, first, tip: last })
                    }
                    _ => {
                        let date = self.queue.date().0;
                        ToNode::Rebuild(Rebuild { first, last, log, date, hidden, samples: self.log.samples() })
                    }
                };
                ctl.send(conn, encoded(&message));
            }
            Action::Verify { handle, window, date } => {
                let key = (handle, date, window);
                self.proofs.wanted.insert(key);
                self.check_proof(&key, ctl);
            }
            Action::Recheck { handle, window } => {
                let (first, last) = (window.first().0, window.last().0);
                ctl.send(to(handle, ctl)?, encoded(&ToNode::Recheck { first, last }));
            }
            Action::Handed { handle, window } => {
                let (first, last) = (window.first().0, window.last().0);
                ctl.send(to(handle, ctl)?, encoded(&ToNode::Handed { first, last }));
            }
            Action::Show { handle, window } => {
                let (first, last) = (window.first().0, window.last().0);
                ctl.send(to(handle, ctl)?, encoded(&ToNode::Show { first, last }));
            }
            Action::Drop { handle } => ctl.send(to(handle, ctl)?, encoded(&ToNode::Drop)),
            Action::Left { handle } => ctl.send(to(handle, ctl)?, encoded(&ToNode::Left)),
            Action::Group { handle, desired, joined } => {
                let joined = joined.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
                ctl.send(to(handle, ctl)?, encoded(&ToNode::Group { desired: capped(desired), joined }));
            }
            Action::EndOfDay { handle, date } => ctl.send(to(handle, ctl)?, encoded(&ToNode::End { date: date.0 })),
            Action::Close { handle } => ctl.close(to(handle, ctl)?, "the node has reconnected"),
            Action::NeedNode { queue, missing, desired, via } => {
                tracing::info!(%queue, missing, desired, "nodes are missing; requesting more from the fleet");
                if let Some(conn) = via.and_then(|handle| to(handle, ctl)) {
                    ctl.send(conn, encoded(&ToNode::Need { desired: capped(desired), missing: capped(missing) }));
                }
            }
            Action::Note(note) => log(&note, false),
            Action::Alarm(note) => log(&note, true),
        }
        None
    }

    fn joined(&mut self, conn: ConnId, drop: bool, request: Option<Request>, ctl: &mut dyn Links) {
        let tables = self.members.get(&conn).map(|member| self.tables_of(&member.subscription)).unwrap_or_default();
        let drop = drop || self.members.get(&conn).is_some_and(|member| member.is_foreign);
        let joined = Joined {
            epoch: self.log.epoch(),
            writer: self.log.writer_id(),
            log: self.log_path().map(Path::to_path_buf),
            date: self.queue.date().0,
            tip: self.feed.tip().index,
            tables,
            drop,
        };
        points::message(Boundary::TickSends, joined.name());
        match (request, joined.encode()) {
            (Some(request), Ok(answer)) => {
                ctl.reply(request, answer);
            }
            // An async join gets no response, only the necessary messages.
            (None, _) if drop => ctl.send(conn, encoded(&ToNode::Drop)),
            (None, _) => {}
            (Some(_), Err(error)) => tracing::error!(%error, "cannot send the reply to a join"),
        }
    }

    fn make_live(&mut self, conn: ConnId, first: UpdateIndex, ctl: &mut dyn Links) {
        let Some(member) = self.members.get(&conn).cloned() else { return };
        self.show_subscribed(conn);
        self.make_readable(conn, ctl);
        let tables = self.tables_of(&member.subscription);
        let log = self.log_path().map(Path::to_path_buf);
        let tip = self.feed.tip().index;
        match member.form {
            Form::Indexed => {
                let position = self.queue.by_handle(handle(conn)).map_or(1, |of| self.queue.position(of));
                let live = Live {
                    first: first.0,
                    tip,
                    position: u32::try_from(position).ok(),
                    log,
                    date: self.queue.date().0,
                    epoch: self.log.epoch().0,
                    tables,
                    samples: self.log.samples(),
                };
                ctl.send(conn, encoded(&ToNode::Live(live)));
            }
            Form::Table => {
                ctl.send(conn, encoded(&ToNode::Replay(Replay { tables, log, first: first.0, tip })));
                if let Some(member) = self.members.get_mut(&conn) {
                    member.counted_from = tip;
                }
                self.feed_from(conn, tip, ctl);
            }
        }
    }

    /// Adds a live member to `.u.w`.
    fn show_subscribed(&mut self, conn: ConnId) {
        let Some(member) = self.members.get(&conn) else { return };
        for (table, wanted) in self.wanted(&Arc::clone(&member.subscription)) {
            self.subscriptions.add(table, conn, wanted);
        }
    }

    /// Makes the logged updates visible where this peer reads them.
    fn make_readable(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let local = ctl.peer(conn).is_some_and(|peer| peer.local);
        if let Err(error) = self.log.announce(!local) {
            self.fail(&error, ctl);
        }
    }

    fn write_journal(&mut self, record: &Record) {
        let Some(path) = self.log.path().map(log::queue_path) else { return };
        let failed_before = matches!(self.journal, Journal::Failed);
        // A record after a missing one would restore a wrong state.
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
                    tracing::info!(path = %path.display(), "wrote the whole queue's journal again");
                }
            }
            Err(error) if !failed_before => tracing::error!(
                path = %path.display(), %error,
                "cannot write the queue's journal. Until this works again, a restart does not know this change and \
                 later ones; nodes will then report the windows that they hold"
            ),
            Err(_) => {}
        }
    }

    /// Creates a journal that starts with a snapshot of the queue: for a new day, or after a failed write.
    fn new_journal(&self, path: &Path) -> std::io::Result<JournalFile> {
        let (mut journal, ..) = JournalFile::open(path, Params::default(), self.queue.date())?;
        journal.append(&self.queue.snapshot())?;
        Ok(journal)
    }

    /// Submits the comparison of a proof with the log once both the proof and the request for it have arrived.
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

    /// Submits a question about the log of a date to the verification thread. Flushes first, because updates buffered under durability `none`
    /// are not in the file yet.
    pub(super) fn ask_log(
        &mut self,
        of: Handle,
        date: Date,
        spec: Arc<LaneSpec>,
        question: Question,
        ctl: &mut dyn Links,
    ) {
        if let Err(error) = self.log.flush() {
            return self.fail(&error, ctl);
        }
        if let Some(log) = self.log.source_of(date) {
            self.verification.submit(Job {
                handle: of,
                conn: ctl.by_handle(of.0),
                date,
                log,
                spec,
                question,
                failures: 0,
            });
        }
    }

    /// Handles the result of a verification job.
    pub(super) fn verified(&mut self, done: Done, ctl: &mut dyn Links) {
        let Done { mut job, answer } = done;
        let (handle, date) = (job.handle, job.date);
        if ctl.by_handle(handle.0) != job.conn {
            // The node has disconnected and will be asked again when it joins; its handle may belong to another connection by now.
            return;
        }
        if job.failures > 0 && answer.is_ok() {
            tracing::info!(%handle, %date, "reading the log works again");
        }
        match answer {
            Ok(Answer::Proof { window, difference }) => {
                let ok = difference.is_none();
                match difference {
                    None => self.stats.verified = self.stats.verified.wrapping_add(1),
                    Some(difference) => {
                        self.stats.differing = self.stats.differing.wrapping_add(1);
                        let label = self.queue.by_handle(handle).map_or_else(|| handle.to_string(), |of| of.label());
                        tracing::error!(node = %label, %window, %date, %difference, "the node's window differs from the log");
                    }
                }
                self.step_queue(Event::Proved { handle, window, date, ok }, None, ctl);
            }
            Ok(Answer::Position(None)) => {
                tracing::warn!(%handle, "the subscriber reports more messages than it was sent; ignoring its roll");
            }
            Ok(Answer::Position(Some(next))) => {
                self.step_queue(Event::Roll { handle, next, date }, None, ctl);
            }
            Err(error) => {
                if job.failures == 0 {
                    tracing::error!(
                        %handle, %date, %error,
                        "cannot read the log to verify the node's window. Retrying at growing intervals; put the \
                         log back where it was"
                    );
                }
                let pause = job.put_off();
                self.verification.put_off(pause, job);
            }
        }
    }
}

/// Whether kdb+ would compress messages to this peer.
pub(super) fn compresses(conn: ConnId, ctl: &dyn Links) -> bool {
    ctl.peer(conn).is_some_and(|peer| !peer.local && peer.capability > 0)
}

/// Encodes a message. Its names come from a schema or a join and are valid; if encoding fails nevertheless, this is logged and nothing is
/// sent.
pub(super) fn encoded(message: &ToNode) -> Bytes {
    points::message(Boundary::TickSends, message.name());
    message.encode().unwrap_or_else(|error| {
        tracing::error!(message = message.name(), %error, "cannot encode the message; it is not sent");
        Bytes::new()
    })
}

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
