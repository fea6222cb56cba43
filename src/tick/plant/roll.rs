//! The end of a day.

use super::Plant;
use super::connection::handle;
use super::messages::encoded;
use crate::net::{ConnId, Links};
use crate::protocol::ToNode;
use crate::q::QError;
use crate::queue::{QueueEvent, State, UpdateIndex};
use crate::tick::core::batch::Batch;
use crate::tick::day::{Action, DayEvent};
use crate::tick::logged_schema::Reading;

impl Plant {
    /// `.u.endofday[]` or `` .u.endofday[`force] ``: ends the day now.
    ///
    /// # Errors
    /// `limit` if the next day would be too far ahead of the clock; `os` if its log cannot be created; `io` while this process hands over.
    pub fn end_of_day(&mut self, force: bool, ctl: &mut dyn Links) -> Result<(), QError> {
        if self.is_leaving() {
            return Err(QError::with("io", "this tickerplant hands over: call it on the one that takes over"));
        }
        if let Some(reason) = self.time.too_far_ahead(force) {
            tracing::warn!(%reason, ".u.endofday rejected");
            return Err(QError::signal(format!("limit: {reason}")));
        }
        self.time.reread_calendar();
        self.drive_day(self.time.ended_by_hand(), ctl);
        match self.log.roll_held() {
            Some(reason) => Err(QError::signal(format!("os: {reason}"))),
            None => Ok(()),
        }
    }

    /// Describes what is wrong with the clock or the day, and what to do.
    pub(super) fn clock_trouble(&self) -> Option<String> {
        self.time.clock_fault(self.log.path())
    }

    /// Runs the state machine of the day until it has no action left.
    pub(super) fn drive_day(&mut self, mut event: DayEvent, ctl: &mut dyn Links) {
        let _span = tracing::info_span!("end_of_day", date = %self.time.date()).entered();
        while let Some(action) = self.time.step(event) {
            event = if self.carry_out_day(action, ctl) { DayEvent::Done } else { DayEvent::Failed };
        }
    }

    fn carry_out_day(&mut self, action: Action, ctl: &mut dyn Links) -> bool {
        match action {
            Action::Flush { to, days_left_out, .. } => {
                tracing::info!(updates = self.batch.tip(), "the day ends");
                let days = self.time.days_left_out(to, days_left_out);
                if days > 0 {
                    tracing::warn!(days, next = %to, "days before the next one have no log");
                }
                self.flush_merged(ctl);
            }
            Action::RollLog { date } => {
                // Makes the old log durable and closes it before the new one is created.
                let (env, schemas, limits) = (&self.env, &self.schemas, &self.limits);
                let reading = |tip| Reading { limits: limits.codec(), chunk_bytes: super::chunk_bytes(limits), tip };
                let rolled =
                    self.log.roll((self.time.date(), date), |log| schemas.fits(env, log, reading(log.updates)));
                if let Err(failure) = rolled {
                    if let Some(error) = failure {
                        self.fail(&error, ctl);
                    }
                    return false;
                }
                self.save_sequences_of_new_day(date);
                if let Some(log) = self.log.source() {
                    self.catch_up.add(self.feed.tip().day.saturating_add(1), log);
                }
                self.acknowledge(ctl);
                self.serve_followers(ctl);
            }
            Action::SendEnd { date } => {
                let end = encoded(&ToNode::End { date: date.0 });
                let replaying: Vec<_> = self.live_but_not_fed(ctl);
                self.feed.end_day(&end, self.first_of_day(), ctl);
                for conn in replaying {
                    ctl.send(conn, end.clone());
                    // A feed position that this node is about to send may still refer to the old day.
                    self.queue.feeds_from_start(handle(conn));
                }
            }
            Action::EndQueueDay { new_date } => {
                let ended_tip = UpdateIndex(self.batch.tip());
                self.queue.day_ended(ended_tip.0);
                self.batch = Batch::new(self.first_of_day());
                self.step_queue_at(QueueEvent::DayEnd { new_date }, ended_tip, None, ctl);
            }
            Action::ReleaseLogs { .. } => {
                self.forget_old_logs();
                self.queue_tick(ctl);
            }
        }
        true
    }

    /// Index of this process's first update of the day: not 0 if the log existed before.
    fn first_of_day(&self) -> u64 {
        self.log.tip()
    }

    /// Live nodes that have not yet sent their feed position.
    fn live_but_not_fed(&self, ctl: &dyn Links) -> Vec<ConnId> {
        let live = self.queue.core().subscribers().iter().filter(|subscriber| subscriber.state == State::Live);
        let nodes = live.filter_map(|subscriber| subscriber.handle.filter(|handle| self.queue.is_node(*handle)));
        nodes.filter_map(|node| ctl.by_handle(node.0)).filter(|conn| !self.feed.is_subscribed(*conn)).collect()
    }

    /// `.u.end[date]` called by a client: sends it to all subscribers, as u.q does; the day does not roll. Nodes are left out: they would
    /// drop windows of a day that continues, and with a quiet feed no message would show them that it does.
    pub fn send_end(&mut self, date: i32, ctl: &mut dyn Links) {
        self.flush_merged(ctl);
        let end = encoded(&ToNode::End { date });
        let subscribers = self.feed.subscribers();
        let (nodes, subscribers): (Vec<_>, Vec<_>) = subscribers.partition(|conn| self.queue.is_node(handle(*conn)));
        if !nodes.is_empty() {
            tracing::warn!(
                "a client called .u.end, which does not end the day: nodes keep their rows. To end the day call \
                 .u.endofday"
            );
        }
        subscribers.into_iter().for_each(|conn| ctl.send(conn, end.clone()));
    }
}
