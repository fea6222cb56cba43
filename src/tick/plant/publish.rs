//! Path of an update: accept, log, publish, acknowledge.

use super::Plant;
use super::log_side::Failed;
use super::sequenced::Numbered;
use crate::audit::Who;
use crate::config::Limit;
use crate::log::LogError;
use crate::metrics;
use crate::net::{ConnId, Links, SyncRequest, message};
use crate::q::error::QError;
use crate::queue::State;
use crate::tick::core::batch::Batch;
use crate::tick::core::call::Call;
use crate::tick::core::sequenced::Sequenced;
use crate::tick::core::{self, Accepted, Reason, Refusal};
use crate::tick::feed::SlowConsumers;
use crate::tick::quarantine::Refused;
use bytes::Bytes;
use proto::View;
use std::net::Ipv4Addr;

/// Response to a publisher: `::`.
const NULL_RESPONSE: &[u8] = &[1, 2, 0, 0, 10, 0, 0, 0, 101, 0];

fn who(conn: ConnId, ctl: &dyn Links) -> Who {
    ctl.peer(conn).map(|peer| peer.who(conn)).unwrap_or_default()
}

fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

impl Plant {
    /// Accepts an update. A rejected one is counted and kept in quarantine.
    ///
    /// # Errors
    /// Why the update is rejected.
    pub fn update(&mut self, conn: ConnId, call: &Call<'_>, ctl: &mut dyn Links) -> Result<(), Refusal> {
        self.update_with(conn, call, None, ctl).map(drop)
    }

    /// As [`Plant::update`], with the number that the publisher gave it. Returns its index; `None` if it has no rows, or is a duplicate of an
    /// earlier update than the publisher's last of the day.
    ///
    /// # Errors
    /// Why the update is rejected.
    pub fn update_sequenced(
        &mut self,
        conn: ConnId,
        sequenced: &Sequenced<'_>,
        ctl: &mut dyn Links,
    ) -> Result<Option<u64>, Refusal> {
        self.update_with(conn, &sequenced.call, sequenced.number, ctl)
    }

    fn update_with(
        &mut self,
        conn: ConnId,
        call: &Call<'_>,
        number: Option<(&[u8], i64)>,
        ctl: &mut dyn Links,
    ) -> Result<Option<u64>, Refusal> {
        self.begin_iteration(ctl);
        if let Some(reason) = self.publish_refused(conn, call.table, ctl) {
            let refusal = Refusal { table: call.table.to_vec(), reason };
            self.count_refused(conn, &refusal.to_string(), ctl);
            return Err(refusal);
        }
        let accepted = self.accept(conn, call, number, ctl);
        if let Err(refusal) = &accepted {
            // The publisher has to send such an update with a number again.
            let is_sent_again = matches!(
                refusal.reason,
                Reason::Sequence { .. } | Reason::LogFailed | Reason::LeaseOver | Reason::NotReplicated
            );
            match number.is_some() && is_sent_again {
                true => drop(self.count_refused(conn, &refusal.to_string(), ctl)),
                false => self.refuse(conn, refusal, call.data, number, ctl),
            }
        }
        accepted
    }

    /// Adds an update to the batch of this iteration. A rejected one leaves no trace. Returns its index as [`Plant::update_sequenced`] does.
    ///
    /// # Errors
    /// Why the update is rejected.
    pub(super) fn accept(
        &mut self,
        conn: ConnId,
        call: &Call<'_>,
        number: Option<(&[u8], i64)>,
        ctl: &dyn Links,
    ) -> Result<Option<u64>, Refusal> {
        if let Some(reason) = self.why_closed() {
            // A later number must not be accepted before the publisher knows that this one was not.
            number.iter().for_each(|(publisher, _)| self.publishers.release(publisher));
            return Err(Refusal { table: call.table.to_vec(), reason });
        }
        let accepted = match number {
            None => self.log_plain(call)?,
            Some(number) => match self.publish_numbered(conn, call, number, ctl)? {
                Numbered::Logged(accepted) => accepted,
                Numbered::Duplicate(index) => {
                    self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
                    return Ok(index);
                }
            },
        };
        Ok(self.count_accepted(conn, call, accepted, ctl))
    }

    /// Adds an update without a number to the batch.
    ///
    /// # Errors
    /// Why the update is rejected.
    pub(super) fn log_plain(&mut self, call: &Call<'_>) -> Result<Accepted, Refusal> {
        let rules = core::Rules { limits: &self.codec, coerce: self.coerce };
        core::publish(self.schemas.tables(), call, self.time.stamp(), rules, &mut self.batch)
    }

    /// Counts an update that was added to the batch. Returns its index; `None` if it has no rows.
    pub(super) fn count_accepted(
        &mut self,
        conn: ConnId,
        call: &Call<'_>,
        Accepted { update, is_coerced }: Accepted,
        ctl: &dyn Links,
    ) -> Option<u64> {
        self.stats.coerced = self.stats.coerced.wrapping_add(u64::from(is_coerced));
        if update.rows == 0 {
            return None;
        }
        self.rejections.accepted(conn);
        let index = self.batch.tip().saturating_sub(1);
        if let Some(sums) = &mut self.published {
            let sum = (update.table, update.rows as u64, call.data.len() as u64, index);
            sums.add(conn, sum, || who(conn, ctl));
        }
        Some(index)
    }

    /// As [`Plant::update`], and responds to the publisher once the update is as durable as promised.
    pub fn update_sync(&mut self, conn: ConnId, call: &Call<'_>, request: SyncRequest, ctl: &mut dyn Links) {
        match self.update(conn, call, ctl) {
            Ok(()) => self.acknowledge_later(request, Bytes::from_static(NULL_RESPONSE)),
            Err(refusal) => self.respond(request, message::error(refusal.to_string().as_bytes()), ctl),
        }
    }

    /// Sends a response once everything accepted so far is as durable as promised.
    pub fn acknowledge_later(&mut self, request: SyncRequest, answer: Bytes) {
        self.log.acknowledge_later(self.batch.tip(), request, answer);
    }

    fn refuse(&mut self, conn: ConnId, refusal: &Refusal, data: &[u8], number: Option<(&[u8], i64)>, ctl: &dyn Links) {
        match &refusal.reason {
            Reason::TooLong { .. } => metrics::refused(Limit::message_bytes),
            Reason::Malformed(error) => metrics::refused_by(error, Limit::message_bytes),
            _ => {}
        }
        let words = (refusal.reason.term().into(), refusal.to_string());
        self.refuse_with(conn, (&refusal.table, data), words, number, ctl);
    }

    /// Counts a malformed call of `.u.upd` and keeps it in quarantine.
    pub(super) fn refuse_call(&mut self, conn: ConnId, error: &QError, args: &[View<'_>], ctl: &dyn Links) {
        let table = args.first().and_then(View::text).unwrap_or_default();
        let data = args.last().map(View::raw).unwrap_or_default();
        let term = String::from_utf8_lossy(&error.name).into_owned();
        let reason = format!("{term}: {}", error.detail);
        self.refuse_with(conn, (table, data), (term, reason), None, ctl);
    }

    fn refuse_with(
        &mut self,
        conn: ConnId,
        (table, data): (&[u8], &[u8]),
        (term, reason): (String, String),
        number: Option<(&[u8], i64)>,
        ctl: &dyn Links,
    ) {
        let user = self.count_refused(conn, &reason, ctl);
        let kept = data.get(..self.quarantine.message_bytes_most()).unwrap_or(data);
        let (refused, (for_number, for_bytes)) = self.quarantine.add(Refused {
            id: 0,
            time_ns: self.time.stamp().timestamp_ns,
            handle: conn.handle(),
            address: ctl.peer(conn).map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip),
            user,
            table: table.to_vec(),
            term,
            reason,
            message: kept.to_vec(),
            message_bytes: data.len(),
            number: number.map(|(publisher, seq)| (publisher.to_vec(), seq)),
        });
        let change = self.keeper.added(refused);
        self.rejections.changed(conn, change);
        metrics::refused_times(Limit::quarantine_updates, for_number);
        metrics::refused_times(Limit::quarantine_bytes, for_bytes);
    }

    /// Counts a rejected update. An update of somebody who may not publish is only counted: in the quarantine it could push out those of
    /// publishers. Returns the user.
    fn count_refused(&mut self, conn: ConnId, reason: &str, ctl: &dyn Links) -> Vec<u8> {
        self.stats.refused = self.stats.refused.wrapping_add(1);
        self.rejections.rejected(conn, reason);
        let user = ctl.peer(conn).map(|peer| peer.user.clone()).unwrap_or_default();
        if let Some(sums) = &mut self.published {
            sums.refuse(conn, || who(conn, ctl));
        }
        if self.stats.refused.is_power_of_two() {
            // Log only the 1st, 2nd, 4th, 8th and so on: there may be many.
            let from = self.label(conn, ctl);
            tracing::warn!(%from, %reason, rejected = self.stats.refused, "update rejected");
        }
        user
    }

    /// Logs the updates collected so far, publishes them, then sends the responses that are due.
    pub fn settle(&mut self, ctl: &mut dyn Links) {
        if !self.batch.is_empty() {
            self.stats.turns = self.stats.turns.wrapping_add(1);
            let updates = self.batch.updates().len() as u64;
            let (counted, rows) = self.batch.counts();
            if let Err(error) = self.log.append(self.batch.bytes(), updates, (counted, rows)) {
                self.stats.unlogged = self.stats.unlogged.wrapping_add(counted);
                self.rejections.not_logged(&format!("io: {error}"));
                self.batch = Batch::new(self.feed.tip().index);
                self.accepted_since.clear();
                self.fail(&error, ctl);
                return;
            }
            self.rejections.logged();
            self.publishers.written(self.log.written_tip());
            self.stats.updates = self.stats.updates.wrapping_add(counted);
            self.stats.rows = self.stats.rows.wrapping_add(rows);
            self.merging.add(self.schemas.tables(), &self.batch);
            let batch = std::mem::take(&mut self.batch);
            let before = self.feed.demotions();
            self.batch = self.feed.publish(batch, ctl);
            self.count_demotions(before, ctl);
            self.batch.start_over();
            if self.merging.is_full() {
                self.publish_merged(ctl);
            }
        }
        self.mark_accepted();
        self.serve_followers(ctl);
        self.acknowledge(ctl);
    }

    /// Publishes the rows held by batch mode.
    pub fn flush_merged(&mut self, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.publish_merged(ctl);
        if let Err(error) = self.log.flush() {
            self.fail(&error, ctl);
        }
    }

    fn publish_merged(&mut self, ctl: &mut dyn Links) {
        if let Some(merged) = self.merging.take(self.schemas.tables()) {
            let before = self.feed.demotions();
            self.feed.publish_merged(&merged, ctl);
            self.count_demotions(before, ctl);
        }
    }

    fn count_demotions(&mut self, before: SlowConsumers, ctl: &dyn Links) {
        let now = self.feed.demotions();
        if now == before {
            return;
        }
        self.note_slow(ctl);
        metrics::refused_times(Limit::outbox_bytes, now.full.saturating_sub(before.full));
        metrics::refused_times(Limit::outboxes_bytes, now.crowded.saturating_sub(before.crowded));
        metrics::refused_times(Limit::user_outbox_bytes, now.user.saturating_sub(before.user));
    }

    /// Sends the responses whose updates are as durable as promised.
    pub fn acknowledge(&mut self, ctl: &mut dyn Links) {
        while let Some(ack) = self.log.next_ack(self.feed.tip().index) {
            self.respond(ack.request, ack.answer, ctl);
        }
    }

    /// Handles a failed log: from here on nothing is accepted or acknowledged, and every waiting publisher gets the error.
    pub(super) fn fail(&mut self, error: &LogError, ctl: &mut dyn Links) {
        self.publishers.written(self.log.written_tip());
        self.publishers.failed(self.log.tip_after_failure());
        let Some(Failed { acks, is_lost, unwritten: (updates, rows) }) = self.log.fail(error) else { return };
        self.stats.unlogged = self.stats.unlogged.wrapping_add(updates);
        self.stats.updates = self.stats.updates.wrapping_sub(updates);
        self.stats.rows = self.stats.rows.wrapping_sub(rows);
        let text = format!("io: {error}");
        for ack in acks {
            ctl.reply(ack.request, message::error(text.as_bytes()));
        }
        if is_lost {
            tracing::error!("{error}. This tickerplant exits");
            self.queue.give_up_journal();
            self.announce_end("the log belongs to another tickerplant", ctl);
            ctl.stop();
        } else {
            self.keeper.pause(self.log.can_resume());
            self.await_room(ctl.now());
            tracing::error!("{error}. All further updates are rejected; {}", self.log.remedy());
        }
    }

    /// Returns a one-line status.
    pub fn status_line(&self) -> String {
        match self.log.failure() {
            Some(failure) => format!("rejecting updates: {failure}"),
            None => self.activity(),
        }
    }

    /// Returns what it does, in a line.
    pub(super) fn activity(&self) -> String {
        let tip = self.batch.tip();
        let rows = self.queue.core().subscribers();
        let lost = rows.iter().filter(|row| row.state == State::Lost).count();
        let nodes = rows.len().saturating_sub(lost);
        let mut text =
            format!("{} today, {}", self.logged_in_words(tip), counted(nodes, "node in queues", "nodes in queues"));
        if lost > 0 {
            text.push_str(&format!(" and {lost} lost"));
        }
        let sleeping = self.queue.core().sleeping();
        if sleeping > 0 {
            let queues = counted(sleeping, "queue sleeps", "queues sleep");
            text.push_str(&format!("; {queues}: the log has the updates, and .u.asg.wake[] starts the nodes"));
        } else if tip > 0 && nodes == 0 && self.feed.subscribers().next().is_none() {
            text.push_str("; no node and no subscriber receives them, so they cannot be queried");
        }
        text
    }

    /// Returns why updates are no longer accepted; `None` if they are.
    pub fn failure(&self) -> Option<&str> {
        self.log.failure()
    }
}
