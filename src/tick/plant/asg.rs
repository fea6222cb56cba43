//! The functions of `.u.asg`, which subscribers of a queue call.

use super::Plant;
use super::calls::malformed;
use super::connection::{compresses, handle};
use super::member::Member;
use super::messages::encoded;
use super::queue::Proved;
use super::subscribe::over_limit;
use crate::log::{Proof, Remembered, WriterId};
use crate::net::{ConnId, Links, SyncRequest};
use crate::protocol::read::short;
use crate::protocol::{Join, Leaving, ToNode, subscription};
use crate::q::QError;
use crate::queue::{
    Date, Join as Joining, NodeName, QueueEvent, QueueName, State, Status, Subscribe, Subscription, UpdateIndex, Window,
};
use crate::tick::filter::Symbols;
use crate::tick::lane::LaneSpec;
use crate::tick::sequence_state::SequenceState;
use crate::tick::verify::Question;
use proto::View;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Heartbeat timeout: a node whose host has been silent for that long counts as away, and its grace period begins.
const MAX_SILENCE: Duration = Duration::from_secs(20);

impl Plant {
    /// The paper's `.u.asg.sub[t;s;q]`.
    ///
    /// # Errors
    /// The paper's, word for word.
    pub fn asg_sub(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let [tabs, syms, queue] = args else { return Err(QError::named("rank")) };
        let subscription = Arc::new(self.schemas.known(subscription(tabs, syms).map_err(malformed)?)?);
        let queue = queue.text().ok_or(QError::with("type", "a queue's name must be a symbol"))?;
        let queue = QueueName(short("queue", queue).map_err(malformed)?.to_vec());
        self.may_join_as_paper(conn, &queue.0, ctl)?;
        if self.sequences.as_ref().is_some_and(SequenceState::exists) {
            let text = "the log has records of publishers' sequence numbers, which a subscriber that counts messages would miscount: use \
                        elastick's own nodes";
            return Err(QError::with("nyi", text));
        }
        let ip = ctl.peer(conn).map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip);
        self.queue.subscribes(handle(conn), Member::paper(Arc::clone(&subscription)));
        let event = QueueEvent::Subscribe(Subscribe { handle: handle(conn), queue, subscription, ip });
        self.step_queue(event, None, ctl).map_or(Ok(()), Err)
    }

    /// The paper's `.u.asg.roll[h;i]`: `i` is the subscriber's count of received messages.
    ///
    /// # Errors
    /// `domain` for a handle that is in no queue; those of the queue.
    pub fn asg_roll(&mut self, of: i32, count: i64, ctl: &mut dyn Links) -> Result<(), QError> {
        self.settle(ctl);
        let conn = ctl.by_handle(of);
        let member = conn.and_then(|conn| Some((conn, self.queue.member(handle(conn))?)));
        let (conn, member) = member.ok_or_else(|| QError::with("domain", format!("handle {of} is not in a queue")))?;
        let (tip, from, date) = (self.feed.tip().index, member.counted_from, self.queue.core().date());
        let count = member.count_today(count, tip);
        let count = count.ok_or_else(|| QError::with("domain", format!("there are {tip} updates so far")))?;
        let key = self.schemas.key(&member.subscription, member.form, false);
        let everything = key.tables.iter().all(|requested| *requested == Some(Symbols::All));
        if everything || count <= from {
            let event = QueueEvent::Roll { handle: handle(conn), next: UpdateIndex(count), date };
            return self.step_queue(event, None, ctl).map_or(Ok(()), Err);
        }
        // The subscriber counts messages, and gets one only for updates with rows that it wants: the log shows which update it has
        // reached.
        let question = Question::Position { from, until: tip, messages: count.saturating_sub(from) };
        self.query_log(handle(conn), date, LaneSpec::new(key), question, ctl);
        Ok(())
    }

    /// `.u.asg.join`: the response is sent as soon as the queue has decided, before any message that follows from the decision.
    ///
    /// # Errors
    /// What the node's dictionary lacks; those of the queue.
    pub fn asg_join(
        &mut self,
        joining: Join<Subscription>,
        conn: ConnId,
        request: Option<SyncRequest>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        self.may_join(conn, &joining.node, &joining.queue, ctl)?;
        let (remembered, owner) = (joining.writer, joining.owner.clone());
        let mut join = self.joining(joining, conn, ctl)?;
        let is_foreign = self.is_foreign(remembered, &join, ctl)?;
        if is_foreign {
            (join.held, join.open) = (Vec::new(), None);
        }
        let subscription = Arc::clone(&join.subscription);
        let before = self
            .queue
            .joins(handle(conn), Member { owner, ..Member::node(subscription, is_foreign, self.steady_ns()) });
        ctl.set_keepalive(conn, MAX_SILENCE);
        let Some(refused) = self.step_queue(QueueEvent::Join(join), request, ctl) else { return Ok(()) };
        self.queue.join_refused(handle(conn), before);
        Err(refused)
    }

    /// Whether the node's rows are not of this log, judged by the log writer that the node remembers.
    ///
    /// # Errors
    /// `io` if another tickerplant writes this log by now.
    fn is_foreign(
        &mut self,
        remembered: Option<WriterId>,
        join: &Joining,
        ctl: &mut dyn Links,
    ) -> Result<bool, QError> {
        let (Some(log), Some(seen)) = (self.log.writer(), remembered) else { return Ok(false) };
        let (own, node) = (log.writer_id(), join.node.0.escape_ascii());
        let last = join.held.iter().map(|window| window.last().0).chain(join.open.map(|open| open.next.0)).max();
        let holds = last.is_some();
        match own.look_at(&seen) {
            Remembered::Other => {
                if holds {
                    tracing::warn!(
                        %node, its_log = %seen.log, this_log = %own.log, "the node holds rows of another log, which it must drop"
                    );
                }
                Ok(true)
            }
            Remembered::Later => {
                let (own, seen) = (own.epoch, seen.epoch);
                if let Err(error) = self.log.begin_anew(seen) {
                    let refused = QError::with("io", error.to_string());
                    self.fail(&error, ctl);
                    return Err(refused);
                }
                let (path, new_epoch) = (self.log.path().unwrap_or(Path::new("")), self.log.epoch().0);
                tracing::error!(
                    %node, its_epoch = %seen, this_epoch = %own, path = %path.display(), %new_epoch,
                    "the node has seen a later epoch of this log: the directory was restored to an earlier state, \
                     and later updates are lost. Nodes will drop their rows and replay this log; it continues \
                     under a new id"
                );
                Ok(true)
            }
            // Earlier writers logged these updates, and the log has lost them since.
            Remembered::Same => {
                // It may have missed epochs in between.
                let parted = log.first_after(seen.epoch);
                let is_ahead = seen.epoch < own.epoch && last.is_some_and(|last| last > parted);
                if is_ahead && join.date == Some(self.queue.core().date()) {
                    tracing::warn!(
                        %node, its_epoch = %seen.epoch, epoch = %own.epoch, parted_at = %parted,
                        "the node holds updates that are not in this log, which went on without them; it must drop its rows"
                    );
                    return Ok(true);
                }
                Ok(false)
            }
        }
    }

    fn joining(&self, of: Join<Subscription>, conn: ConnId, ctl: &dyn Links) -> Result<Joining, QError> {
        Ok(Joining {
            handle: handle(conn),
            node: NodeName(of.node),
            queue: QueueName(of.queue),
            subscription: Arc::new(self.schemas.known(of.subscription)?),
            ip: ctl.peer(conn).map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip),
            port: of.port,
            date: of.date.map(Date),
            held: of.held,
            open: of.open,
            group: of.group,
            instance: of.instance,
            process: of.process,
            leaving: of.leaving,
        })
    }

    /// `.u.asg.rolling[next;proof;date]`.
    ///
    /// # Errors
    /// Those of the queue, if the node is not live.
    pub fn asg_rolling(
        &mut self,
        next: UpdateIndex,
        proof: Proof,
        date: Option<i32>,
        conn: ConnId,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let date = date.map_or(self.queue.core().date(), Date);
        let own = handle(conn);
        self.queue.rolls(own, next, date, proof);
        let refused = self.step_queue(QueueEvent::Roll { handle: own, next, date }, None, ctl);
        self.queue.drop_early_proof();
        refused.map_or(Ok(()), Err)
    }

    /// `.u.asg.leaving[d]`.
    ///
    /// # Errors
    /// `type` without a time; those of the queue.
    pub fn asg_leaving(&mut self, leaving: &Leaving, conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        if !leaving.reason.is_empty() {
            let label =
                self.queue.core().by_handle(handle(conn)).map_or_else(|| conn.handle().to_string(), |of| of.label());
            tracing::warn!(node = %label, reason = %leaving.reason.escape_ascii(), "the node is about to terminate");
        }
        let event = QueueEvent::Leaving { handle: handle(conn), leaving: leaving.when };
        self.step_queue(event, None, ctl).map_or(Ok(()), Err)
    }

    /// `.u.asg.proved[first;last;proof;date]`.
    ///
    /// # Errors
    /// `type` for arguments of another type.
    pub fn asg_proved(
        &mut self,
        window: Option<Window>,
        proof: Proof,
        date: Option<i32>,
        conn: ConnId,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        self.is_member(conn)?;
        let date = date.map_or(self.queue.core().date(), Date);
        let Some(window) = window else { return Ok(()) };
        let own = handle(conn);
        match self.queue.proved(own, date, window, proof) {
            Proved::Wanted(comparison) => {
                comparison.into_iter().for_each(|effect| self.carry_out(effect, None, ctl));
                Ok(())
            }
            Proved::Unknown => {
                let refused = self.step_queue(QueueEvent::Rebuilt { handle: own, window, date }, None, ctl);
                self.queue.drop_early_proof();
                refused.map_or(Ok(()), Err)
            }
        }
    }

    /// `.u.asg.status[d]`.
    ///
    /// # Errors
    /// `domain` for a connection that is in no queue.
    pub fn asg_status(&mut self, status: Status, conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        self.is_member(conn)?;
        self.step_queue(QueueEvent::Status { handle: handle(conn), status }, None, ctl);
        let tip = UpdateIndex(self.feed.tip().index);
        let messages = [self.queue.waiting(handle(conn)), self.queue.unserved(handle(conn), tip)];
        messages.into_iter().flatten().for_each(|message| ctl.send(conn, encoded(&message)));
        Ok(())
    }

    pub(crate) fn is_member(&self, conn: ConnId) -> Result<(), QError> {
        let is_known = self.queue.member(handle(conn)).is_some();
        is_known.then_some(()).ok_or(QError::with("domain", "this connection is not in a queue"))
    }

    /// `.u.asg.from[next]`.
    ///
    /// # Errors
    /// `domain` for a node that is not live.
    pub fn asg_from(&mut self, requested: UpdateIndex, conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        self.settle(ctl);
        let own = self.queue.core().by_handle(handle(conn));
        if !own.is_some_and(|of| of.state == State::Live) {
            return Err(QError::with("domain", "only a live node can request the feed"));
        }
        let next = self.queue.feed_position(handle(conn), requested);
        if next.0 > self.feed.tip().index {
            return Err(QError::with("domain", format!("update {next} is beyond the tip {}", self.feed.tip().index)));
        }
        self.feed_from(conn, next.0, ctl);
        Ok(())
    }

    /// `.u.asg.stream[first;last]` of a window that the node is to rebuild. Other windows are rejected, because the node would take their
    /// updates for those of its own window.
    ///
    /// # Errors
    /// `domain` for a connection that is in no queue.
    pub fn asg_stream(
        &mut self,
        first: UpdateIndex,
        last: UpdateIndex,
        conn: ConnId,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        self.settle(ctl);
        let member =
            self.queue.member(handle(conn)).ok_or(QError::with("domain", "this connection is not in a queue"))?;
        if !self.queue.core().by_handle(handle(conn)).is_some_and(|of| of.replays(first, last)) {
            tracing::info!(handle = conn.handle(), window = %format_args!("[{first},{last})"), "not streaming the window: this node no longer rebuilds it");
            return Ok(());
        }
        let key = self.schemas.key(&member.subscription, member.form, compresses(conn, ctl));
        let done = encoded(&ToNode::Streamed { first: first.0, last: last.0 });
        self.feed.stream(conn, key, first.0, last.0, done).map_err(over_limit)?;
        self.writable(conn, ctl);
        Ok(())
    }
}
