//! Steps of the queue, whose effects the tickerplant carries out: messages, changes of the feed, and comparisons with the log.

use super::Plant;
use super::connection::{compresses, handle};
use super::member::Member;
use super::messages::{encoded, encoded_joined};
use super::queue::{At, Comparison, Effect, What};
use super::subscribe::over_limit;
use crate::config::Limit;
use crate::metrics;
use crate::net::{ConnId, Links, SyncRequest};
use crate::protocol::foreign::Replay;
use crate::protocol::{Joined, Live, Rebuild, ToNode};
use crate::q::error::QError;
use crate::queue::{Date, Handle, Queue, QueueError, QueueEvent, Subscription, UpdateIndex, Window};
use crate::tick::core::schema::Form;
use crate::tick::lane::LaneSpec;
use crate::tick::verify::{Done, Job, Question, Verdict};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

impl Plant {
    /// Returns the queues.
    pub fn queue(&self) -> &Queue {
        self.queue.core()
    }

    /// Returns the next time at which the queue has work without a message.
    pub fn queue_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline_ns().and_then(|at_ns| self.time.instant(at_ns))
    }

    /// Returns whether the queue has work without a message.
    pub(super) fn queue_is_due(&self) -> bool {
        self.queue.next_deadline_ns().is_some_and(|at_ns| at_ns <= self.time.steady_ns())
    }

    /// After a restart: starts the grace period in which nodes may reconnect.
    pub(super) fn restored(&mut self) {
        let tip = UpdateIndex(self.feed.tip().index);
        self.queue.restored(At { tip, now: self.time.now(), log: self.log.path() });
    }

    /// Steps the queue for its timers.
    pub fn queue_tick(&mut self, ctl: &mut dyn Links) {
        self.step_queue(QueueEvent::Tick, None, ctl);
        while let Some(event) = self.queue.overdue(self.time.steady_ns()) {
            self.step_queue(event, None, ctl);
        }
    }

    /// Requests nodes of a group from the fleet.
    fn request_nodes(&self, group: &[u8], desired: usize) {
        match &self.nodes {
            Some(nodes) => nodes.request(group, desired),
            None => tracing::error!(group = %group.escape_ascii(), "no fleet to request nodes from"),
        }
    }

    /// Wakes queues that sleep once an update has arrived.
    pub(super) fn wake_for_updates(&mut self, ctl: &mut dyn Links) {
        let tip = UpdateIndex(self.feed.tip().index);
        if self.queue.core().wakes_beyond().is_some_and(|at| at < tip) {
            self.queue_tick(ctl);
        }
    }

    /// Removes a closed connection from its queue.
    pub(super) fn leave_queue(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        if self.queue.disconnected(handle(conn)) {
            self.step_queue(QueueEvent::Disconnect { handle: handle(conn) }, None, ctl);
        }
    }

    /// Steps the queue and carries out what follows. Returns the error if it rejects the event.
    pub(super) fn step_queue(
        &mut self,
        event: QueueEvent,
        request: Option<SyncRequest>,
        ctl: &mut dyn Links,
    ) -> Option<QError> {
        self.settle(ctl);
        self.step_queue_at(event, UpdateIndex(self.feed.tip().index), request, ctl)
    }

    /// As [`Plant::step_queue`], with a tip other than the current one: at the end of a day.
    pub(super) fn step_queue_at(
        &mut self,
        event: QueueEvent,
        tip: UpdateIndex,
        request: Option<SyncRequest>,
        ctl: &mut dyn Links,
    ) -> Option<QError> {
        let stepped = self.queue.step(event, At { tip, now: self.time.now(), log: self.log.path() });
        for effect in stepped.effects {
            self.carry_out(effect, request, ctl);
        }
        for (group, desired) in stepped.requests {
            self.request_nodes(&group, desired);
        }
        stepped.refused.map(|reason| {
            if let QueueError::TooManySubscribers(_) = reason {
                metrics::refused(Limit::queue_subscribers);
            }
            QError::with(reason.term(), reason.to_string())
        })
    }

    pub(super) fn carry_out(&mut self, effect: Effect, request: Option<SyncRequest>, ctl: &mut dyn Links) {
        let Effect { to, what } = effect;
        if let What::Compare(comparison) = what {
            return self.compare(to, comparison, ctl);
        }
        let Some(conn) = ctl.by_handle(to.0) else { return };
        match what {
            What::Send(message) => ctl.send(conn, encoded(&message)),
            What::Join { subscription, drop } => self.joined(conn, &subscription, drop, request, ctl),
            What::Live { subscription, first, position } => self.make_live(conn, &subscription, first, position, ctl),
            What::LivePaper { subscription, first } => self.make_paper_live(conn, &subscription, first, ctl),
            What::Resume { next } => {
                self.show_subscribed(conn);
                self.feed_from(conn, next.0, ctl);
            }
            What::StopFeed => {
                self.subscriptions.remove_everywhere(conn);
                self.feed.remove(conn);
            }
            What::Rebuild { window, date, hidden } => self.send_rebuild(conn, window, date, hidden, ctl),
            What::RebuildPaper { subscription, window } => {
                self.make_readable(conn, ctl);
                self.send_replay(conn, &subscription, window.first().0, window.last().0, ctl);
            }
            What::Close => ctl.close(conn, "the node has reconnected, or was evicted"),
            What::Compare(_) => {}
        }
    }

    fn joined(
        &mut self,
        conn: ConnId,
        subscription: &Subscription,
        drop: bool,
        request: Option<SyncRequest>,
        ctl: &mut dyn Links,
    ) {
        let joined = Joined {
            epoch: self.log.epoch(),
            writer: self.log.writer_id(),
            log: self.log_path().map(Path::to_path_buf),
            date: self.queue.core().date().0,
            tip: self.feed.tip().index,
            tables: self.schemas.tables_of(subscription),
            drop,
        };
        match (request, encoded_joined(&joined)) {
            (Some(request), Ok(answer)) => ctl.reply(request, answer),
            // An async join gets no response, only the necessary messages.
            (None, _) if drop => ctl.send(conn, encoded(&ToNode::Drop)),
            (None, _) => {}
            (Some(_), Err(error)) => tracing::error!(%error, "cannot send the reply to a join"),
        }
    }

    fn make_live(
        &mut self,
        conn: ConnId,
        subscription: &Subscription,
        first: UpdateIndex,
        position: usize,
        ctl: &mut dyn Links,
    ) {
        self.show_subscribed(conn);
        self.make_readable(conn, ctl);
        let live = Live {
            first: first.0,
            tip: self.feed.tip().index,
            position: u32::try_from(position).ok(),
            log: self.log_path().map(Path::to_path_buf),
            date: self.queue.core().date().0,
            epoch: self.log.epoch().0,
            tables: self.schemas.tables_of(subscription),
            samples: self.log.samples(),
        };
        ctl.send(conn, encoded(&ToNode::Live(live)));
    }

    fn make_paper_live(&mut self, conn: ConnId, subscription: &Subscription, first: UpdateIndex, ctl: &mut dyn Links) {
        self.show_subscribed(conn);
        self.make_readable(conn, ctl);
        let tip = self.feed.tip().index;
        self.send_replay(conn, subscription, first.0, tip, ctl);
        self.queue.counts_from(handle(conn), tip);
        self.feed_from(conn, tip, ctl);
    }

    fn send_replay(&self, conn: ConnId, subscription: &Subscription, first: u64, tip: u64, ctl: &mut dyn Links) {
        let (tables, log) = (self.schemas.tables_of(subscription), self.log_path().map(Path::to_path_buf));
        ctl.send(conn, encoded(&ToNode::Replay(Replay { tables, log, first, tip })));
    }

    fn send_rebuild(&mut self, conn: ConnId, window: Window, date: Date, hidden: bool, ctl: &mut dyn Links) {
        self.make_readable(conn, ctl);
        let log = self.log_path().map(Path::to_path_buf);
        let (first, last) = (window.first().0, window.last().0);
        let rebuild = Rebuild { first, last, log, date: date.0, hidden, samples: self.log.samples() };
        ctl.send(conn, encoded(&ToNode::Rebuild(rebuild)));
    }

    /// Starts to send a queue member the updates of the current day, beginning with index `first`.
    pub(super) fn feed_from(&mut self, conn: ConnId, first: u64, ctl: &mut dyn Links) {
        let Some(Member { subscription, form, .. }) = self.queue.member(handle(conn)) else { return };
        let key = self.schemas.key(subscription, *form, compresses(conn, ctl));
        match self.feed.start_from(conn, key, first) {
            Ok(()) => self.writable(conn, ctl),
            Err(error) => {
                let error = over_limit(error);
                tracing::warn!(handle = conn.handle(), %error, "the node cannot be fed");
                ctl.close(conn, &error.detail);
            }
        }
    }

    /// Adds a live member to `.u.w`.
    fn show_subscribed(&mut self, conn: ConnId) {
        let Some(member) = self.queue.member(handle(conn)) else { return };
        for (table, requested) in self.schemas.requested(&member.subscription) {
            self.subscriptions.add(table, conn, requested);
        }
    }

    /// Makes the logged updates visible where this peer reads them.
    fn make_readable(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let local = ctl.peer(conn).is_some_and(|peer| peer.local);
        if let Err(error) = self.log.announce(!local) {
            self.fail(&error, ctl);
        }
    }

    fn compare(&mut self, of: Handle, comparison: Comparison, ctl: &mut dyn Links) {
        let Comparison { subscription, date, window, held } = comparison;
        let spec = LaneSpec::new(self.schemas.key(&subscription, Form::Indexed, false));
        self.query_log(of, date, spec, Question::Proof { window, held }, ctl);
    }

    /// Submits a question about the log of a date to the verification thread. Flushes first, because updates buffered under durability `none`
    /// are not in the file yet. A log that waits for room on a full disk shows all others, and the node does not send its proof again.
    pub(super) fn query_log(
        &mut self,
        of: Handle,
        date: Date,
        spec: Arc<LaneSpec>,
        question: Question,
        ctl: &mut dyn Links,
    ) {
        if let Err(error) = self.log.flush() {
            self.fail(&error, ctl);
            if !self.log.can_resume() {
                return;
            }
        }
        if let Some(log) = self.log.source_of(date) {
            let conn = ctl.by_handle(of.0);
            self.verification.submit(Job { handle: of, conn, date, log, spec, question, failures: 0 });
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
            Ok(Verdict::Proof { window, difference }) => {
                let ok = difference.is_none();
                match difference {
                    None => self.stats.verified = self.stats.verified.wrapping_add(1),
                    Some(difference) => {
                        self.stats.differing = self.stats.differing.wrapping_add(1);
                        let label =
                            self.queue.core().by_handle(handle).map_or_else(|| handle.to_string(), |of| of.label());
                        tracing::error!(node = %label, %window, %date, %difference, "the node's window differs from the log");
                    }
                }
                self.step_queue(QueueEvent::Proved { handle, window, date, ok }, None, ctl);
            }
            Ok(Verdict::Position(None)) => {
                tracing::warn!(%handle, "the subscriber reports more messages than it was sent; ignoring its roll");
            }
            Ok(Verdict::Position(Some(next))) => {
                self.step_queue(QueueEvent::Roll { handle, next, date }, None, ctl);
            }
            Err(error) => {
                if job.failures == 0 {
                    tracing::error!(
                        %handle, %date, %error,
                        "cannot read the log to verify the node's window. Retrying at growing intervals; put the \
                         log back where it was"
                    );
                }
                let pause = job.next_pause();
                self.verification.retry_later(self.env.clock.now(), pause, job);
            }
        }
    }
}
