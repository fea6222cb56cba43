//! The functions of `.u.asg`, which subscribers of a queue call.

use super::Plant;
use super::calls::malformed;
use super::queue::{Member, compresses, encoded, handle};
use super::subscribe::over_limit;
use crate::log::{Proof, Remembered, WriterId};
use crate::net::{ConnId, Links, Request};
use crate::protocol::{Join, Leaving, ToNode, subscription};
use crate::q::QError;
use crate::queue::{
    Date, Event, Join as Joining, NodeName, QueueName, State, Status, Subscribe, Subscriber, Subscription, UpdateIndex,
    Window,
};
use crate::tick::core::schema::Form;
use crate::tick::filter::Symbols;
use crate::tick::lane::LaneSpec;
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
        let subscription = Arc::new(self.known(subscription(tabs, syms).map_err(malformed)?)?);
        let queue = QueueName(queue.text().ok_or(QError::with("type", "a queue's name must be a symbol"))?.to_vec());
        let ip = ctl.peer(conn).map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip);
        let member = Member {
            form: Form::Table,
            subscription: Arc::clone(&subscription),
            counted_from: 0,
            carried: 0,
            from_start: false,
            is_foreign: false,
        };
        self.members.entry(conn).or_insert(member);
        let event = Event::Subscribe(Subscribe { handle: handle(conn), queue, subscription, ip });
        self.step_queue(event, None, ctl).map_or(Ok(()), Err)
    }

    /// Rejects a subscription to unknown tables with the paper's error text.
    fn known(&self, subscription: Subscription) -> Result<Subscription, QError> {
        let unknown: Vec<&[u8]> = subscription
            .tabs
            .iter()
            .filter(|name| !name.is_empty() && self.tables.find(name).is_none())
            .map(Vec::as_slice)
            .collect();
        if !unknown.is_empty() {
            let comma: &[u8] = if unknown.len() == 1 { b",`" } else { b"`" };
            return Err(QError::signal([comma, &unknown.join(&b'`'), b" not available"].concat()));
        }
        Ok(subscription)
    }

    /// The paper's `.u.asg.roll[h;i]`: `i` is the subscriber's count of received messages.
    ///
    /// # Errors
    /// `domain` for a handle that is in no queue; those of the queue.
    pub fn asg_roll(&mut self, of: i32, count: i64, ctl: &mut dyn Links) -> Result<(), QError> {
        self.settle(ctl);
        let conn = ctl.by_handle(of).filter(|conn| self.members.contains_key(conn));
        let conn = conn.ok_or_else(|| QError::with("domain", format!("handle {of} is not in a queue")))?;
        let Some(member) = self.members.get(&conn) else { return Ok(()) };
        let tip = self.feed.tip().index;
        let (from, date) = (member.counted_from, self.queue.date());
        let count = u64::try_from(count).ok().and_then(|count| match count.checked_sub(member.carried) {
            Some(today) if count > tip && today <= tip => Some(today),
            _ => (count <= tip).then_some(count),
        });
        let count = count.ok_or_else(|| QError::with("domain", format!("there are {tip} updates so far")))?;
        let key = self.key_of_member(member, false);
        let everything = key.tables.iter().all(|wanted| *wanted == Some(Symbols::All));
        if everything || count <= from {
            let event = Event::Roll { handle: handle(conn), next: UpdateIndex(count), date };
            return self.step_queue(event, None, ctl).map_or(Ok(()), Err);
        }
        // The subscriber counts messages, and gets one only for updates with rows that it wants: the log shows which update it has
        // reached.
        let question = Question::Position { from, until: tip, messages: count.saturating_sub(from) };
        self.ask_log(handle(conn), date, LaneSpec::new(key), question, ctl);
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
        request: Option<Request>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let remembered = joining.writer;
        let mut join = self.joining(joining, conn, ctl)?;
        let is_foreign = self.is_foreign(remembered, &join, ctl)?;
        if is_foreign {
            (join.held, join.open) = (Vec::new(), None);
        }
        let subscription = Arc::clone(&join.subscription);
        let member =
            Member { form: Form::Indexed, subscription, counted_from: 0, carried: 0, from_start: false, is_foreign };
        let before = self.members.insert(conn, member);
        ctl.set_keepalive(conn, MAX_SILENCE);
        let Some(refused) = self.step_queue(Event::Join(join), request, ctl) else { return Ok(()) };
        // A rejected join leaves an existing membership unchanged.
        match before {
            Some(before) => self.members.insert(conn, before),
            None => self.members.remove(&conn),
        };
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
                let is_ahead = seen.epoch < own.epoch && last.is_some_and(|last| last > log.began_at());
                if is_ahead && join.date == Some(self.queue.date()) {
                    tracing::warn!(
                        %node, epoch = %own.epoch, began_at = %log.began_at(),
                        "the node holds updates that the log lost before this epoch began; it must drop its rows"
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
            subscription: Arc::new(self.known(of.subscription)?),
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
        let date = date.map_or(self.queue.date(), Date);
        let own = handle(conn);
        let first = self.queue.by_handle(own).and_then(|of| match of.state {
            State::Live => self.queue.live(&of.queue).map(|(_, open)| open),
            State::Rebuilding { window, .. } | State::TakingOver { window, .. } => Some(window.first()),
            _ => None,
        });
        if let Some(window) = first.and_then(|first| Window::new(first, next)) {
            self.proofs.came((own, date, window), proof);
        }
        self.step_queue(Event::Roll { handle: own, next, date }, None, ctl).map_or(Ok(()), Err)
    }

    /// `.u.asg.leaving[d]`.
    ///
    /// # Errors
    /// `type` without a time; those of the queue.
    pub fn asg_leaving(&mut self, leaving: &Leaving, conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        if !leaving.reason.is_empty() {
            let label = self.queue.by_handle(handle(conn)).map_or_else(|| conn.handle().to_string(), |of| of.label());
            tracing::warn!(node = %label, reason = %leaving.reason.escape_ascii(), "the node is about to terminate");
        }
        let event = Event::Leaving { handle: handle(conn), leaving: leaving.when };
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
        let date = date.map_or(self.queue.date(), Date);
        let Some(window) = window else { return Ok(()) };
        let key = (handle(conn), date, window);
        self.proofs.came(key, proof);
        // After the end of a day a live node proves the window that the end of the day closed.
        if date < self.queue.date() {
            self.proofs.wanted.insert(key);
        }
        if self.proofs.wanted.contains(&key) {
            self.check_proof(&key, ctl);
            return Ok(());
        }
        let refused = self.step_queue(Event::Rebuilt { handle: handle(conn), window, date }, None, ctl);
        // Repeated by a node that joined again: the window is already proved.
        self.proofs.forget_unwanted(&key);
        refused.map_or(Ok(()), Err)
    }

    /// `.u.asg.status[d]`.
    ///
    /// # Errors
    /// `domain` for a connection that is in no queue.
    pub fn asg_status(&mut self, status: Status, conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        self.is_member(conn)?;
        self.step_queue(Event::Status { handle: handle(conn), status }, None, ctl);
        self.tell_waiting(conn, ctl);
        Ok(())
    }

    fn is_member(&self, conn: ConnId) -> Result<(), QError> {
        let is_known = self.members.contains_key(&conn);
        is_known.then_some(()).ok_or(QError::with("domain", "this connection is not in a queue"))
    }

    /// Sends a live node the number of waiting nodes in its queue, if it has changed.
    fn tell_waiting(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let live = self.queue.by_handle(handle(conn)).filter(|of| of.state == State::Live);
        let Some(live) = live else {
            self.waiting_told.remove(&conn);
            return;
        };
        let waits = |of: &&Subscriber| {
            of.state == State::Waiting && of.handle.is_some() && of.leaving.is_none() && of.queue == live.queue
        };
        let waiting = self.queue.subscribers().iter().filter(waits).count();
        if self.waiting_told.insert(conn, waiting) != Some(waiting) {
            ctl.send(conn, encoded(&ToNode::Waiting { nodes: waiting as u64 }));
        }
    }

    /// `.u.asg.from[next]`.
    ///
    /// # Errors
    /// `domain` for a node that is not live.
    pub fn asg_from(&mut self, asked: UpdateIndex, conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        self.settle(ctl);
        let own = self.queue.by_handle(handle(conn));
        if !own.is_some_and(|of| of.state == State::Live) {
            return Err(QError::with("domain", "only a live node can request the feed"));
        }
        let ended = self.members.get_mut(&conn).is_some_and(|member| std::mem::take(&mut member.from_start));
        let next = if ended { UpdateIndex(0) } else { asked };
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
        let member = self.members.get(&conn).ok_or(QError::with("domain", "this connection is not in a queue"))?;
        if !self.queue.by_handle(handle(conn)).is_some_and(|of| of.replays(first, last)) {
            tracing::info!(handle = conn.handle(), window = %format_args!("[{first},{last})"), "not streaming the window: this node no longer rebuilds it");
            return Ok(());
        }
        let key = self.key_of_member(member, compresses(conn, ctl));
        let done = encoded(&ToNode::Streamed { first: first.0, last: last.0 });
        self.feed.stream(conn, key, first.0, last.0, done).map_err(over_limit)?;
        self.writable(conn, ctl);
        Ok(())
    }
}
