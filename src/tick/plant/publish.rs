//! Path of an update: accept, log, publish, acknowledge.

use super::Plant;
use super::log_side::Failed;
use crate::config::Limit;
use crate::log::LogError;
use crate::metrics;
use crate::net::{ConnId, Links, SyncRequest, message};
use crate::q::error::QError;
use crate::tick::core::batch::Batch;
use crate::tick::core::call::Call;
use crate::tick::core::{self, Reason, Refusal};
use crate::tick::feed::SlowConsumers;
use crate::tick::quarantine::Refused;
use bytes::Bytes;
use proto::View;

/// Response to a publisher: `::`.
const NULL_RESPONSE: &[u8] = &[1, 2, 0, 0, 10, 0, 0, 0, 101, 0];

impl Plant {
    /// Accepts an update. A rejected one is counted and kept in quarantine.
    ///
    /// # Errors
    /// Why the update is rejected.
    pub fn update(&mut self, conn: ConnId, call: &Call<'_>, ctl: &mut dyn Links) -> Result<(), Refusal> {
        self.begin_iteration(ctl);
        if let Some(reason) = self.publish_refused(conn, call.table, ctl) {
            let refusal = Refusal { table: call.table.to_vec(), reason };
            self.count_refused(conn, &refusal.to_string(), ctl);
            return Err(refusal);
        }
        let accepted = match self.log.failure() {
            None => core::publish(self.schemas.tables(), call, self.time.stamp(), &self.codec, &mut self.batch),
            Some(_) => Err(Refusal { table: call.table.to_vec(), reason: Reason::LogFailed }),
        };
        match accepted {
            Ok(update) => {
                self.stats.updates = self.stats.updates.wrapping_add(1);
                self.stats.rows = self.stats.rows.wrapping_add(update.rows as u64);
                Ok(())
            }
            Err(refusal) => {
                self.refuse(conn, &refusal, call.data, ctl);
                Err(refusal)
            }
        }
    }

    /// As [`Plant::update`], and responds to the publisher once the update is as durable as promised.
    pub fn update_sync(&mut self, conn: ConnId, call: &Call<'_>, request: SyncRequest, ctl: &mut dyn Links) {
        match self.update(conn, call, ctl) {
            Ok(()) => self.acknowledge_later(request, Bytes::from_static(NULL_RESPONSE)),
            Err(refusal) => ctl.reply(request, message::error(&refusal.signal())),
        }
    }

    /// Sends a response once everything accepted so far is as durable as promised.
    pub fn acknowledge_later(&mut self, request: SyncRequest, answer: Bytes) {
        self.log.acknowledge_later(self.batch.tip(), request, answer);
    }

    fn refuse(&mut self, conn: ConnId, refusal: &Refusal, data: &[u8], ctl: &dyn Links) {
        match &refusal.reason {
            Reason::TooLong { .. } => metrics::refused(Limit::message_bytes),
            Reason::Malformed(error) => metrics::refused_by(error, Limit::message_bytes),
            _ => {}
        }
        self.refuse_with(conn, &refusal.table, refusal.reason.term().into(), refusal.to_string(), data, ctl);
    }

    /// Counts a malformed call of `.u.upd` and keeps it in quarantine.
    pub(super) fn refuse_call(&mut self, conn: ConnId, error: &QError, args: &[View<'_>], ctl: &dyn Links) {
        let table = args.first().and_then(View::text).unwrap_or_default();
        let data = args.last().map(View::raw).unwrap_or_default();
        let term = String::from_utf8_lossy(&error.name).into_owned();
        self.refuse_with(conn, table, term, error.to_string(), data, ctl);
    }

    fn refuse_with(&mut self, conn: ConnId, table: &[u8], term: String, reason: String, data: &[u8], ctl: &dyn Links) {
        let user = self.count_refused(conn, &reason, ctl);
        let kept = data.get(..crate::tick::quarantine::MESSAGE_BYTES).unwrap_or(data);
        let (for_number, for_bytes) = self.quarantine.add(Refused {
            time_ns: self.time.stamp().timestamp_ns,
            handle: conn.handle(),
            user,
            table: table.to_vec(),
            term,
            reason,
            message: kept.to_vec(),
            message_bytes: data.len(),
        });
        metrics::refused_times(Limit::quarantine_updates, for_number);
        metrics::refused_times(Limit::quarantine_bytes, for_bytes);
    }

    /// Counts a rejected update. An update of somebody who may not publish is only counted: in the quarantine it could push out those of
    /// publishers. Returns the user.
    fn count_refused(&mut self, conn: ConnId, reason: &str, ctl: &dyn Links) -> Vec<u8> {
        self.stats.refused = self.stats.refused.wrapping_add(1);
        let user = ctl.peer(conn).map(|peer| peer.user.clone()).unwrap_or_default();
        if self.stats.refused.is_power_of_two() {
            // Log only the 1st, 2nd, 4th, 8th and so on: there may be many.
            let from = user.escape_ascii();
            tracing::warn!(%from, %reason, rejected = self.stats.refused, "update rejected");
        }
        user
    }

    /// Logs the updates collected so far, publishes them, then sends the responses that are due.
    pub fn settle(&mut self, ctl: &mut dyn Links) {
        if !self.batch.is_empty() {
            self.stats.turns = self.stats.turns.wrapping_add(1);
            let updates = self.batch.updates().len() as u64;
            if let Err(error) = self.log.append(self.batch.bytes(), updates) {
                self.stats.unlogged = self.stats.unlogged.wrapping_add(updates);
                self.batch = Batch::new(self.feed.tip().index);
                self.fail(&error, ctl);
                return;
            }
            self.merging.add(self.schemas.tables(), &self.batch);
            let batch = std::mem::take(&mut self.batch);
            let before = self.feed.demotions();
            self.batch = self.feed.publish(batch, ctl);
            self.count_demotions(before);
            self.batch.start_over();
            if self.merging.is_full() {
                self.publish_merged(ctl);
            }
        }
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
            self.count_demotions(before);
        }
    }

    fn count_demotions(&self, before: SlowConsumers) {
        let now = self.feed.demotions();
        metrics::refused_times(Limit::outbox_bytes, now.full.saturating_sub(before.full));
        metrics::refused_times(Limit::outboxes_bytes, now.crowded.saturating_sub(before.crowded));
    }

    /// Sends the responses whose updates are as durable as promised.
    pub fn acknowledge(&mut self, ctl: &mut dyn Links) {
        while let Some(ack) = self.log.next_ack(self.feed.tip().index) {
            ctl.reply(ack.request, ack.answer);
        }
    }

    /// Handles a failed log: from here on nothing is accepted or acknowledged, and every waiting publisher gets the error.
    pub(super) fn fail(&mut self, error: &LogError, ctl: &mut dyn Links) {
        let Some(Failed { acks, is_lost }) = self.log.fail(error) else { return };
        let text = format!("io: {error}");
        for ack in acks {
            ctl.reply(ack.request, message::error(text.as_bytes()));
        }
        if is_lost {
            tracing::error!("{error}. This tickerplant exits");
            self.queue.give_up_journal();
            self.say_bye("the log belongs to another tickerplant", ctl);
            ctl.stop();
        } else {
            tracing::error!("{error}. All further updates are rejected; {}", error.remedy());
        }
    }

    /// Returns a one-line status.
    pub fn status_line(&self) -> String {
        let subscribers = self.queue.core().subscribers().len();
        match self.log.failure() {
            Some(failure) => format!("rejecting updates: {failure}"),
            None => format!("{} updates today, {subscribers} nodes in queues", self.batch.tip()),
        }
    }

    /// Returns why updates are no longer accepted; `None` if they are.
    pub fn failure(&self) -> Option<&str> {
        self.log.failure()
    }
}
