//! The end of a day.

use super::Plant;
use super::queue::encoded;
use crate::net::Links;
use crate::protocol::ToNode;
use crate::q::QError;
use crate::queue::{Event as QueueEvent, State, UpdateIndex};
use crate::tick::clock;
use crate::tick::core::batch::Batch;
use crate::tick::core::schema::Form;
use crate::tick::day::trust::Change;
use crate::tick::day::{Action, Event};
use crate::tick::logged_schema::{self, Adopted, Reading};
use std::sync::Arc;
use std::time::Duration;

/// Duration in days, or in hours below two days.
fn in_words(ns: i64) -> String {
    const HOUR: u64 = 3_600_000_000_000;
    match ns.unsigned_abs().saturating_add(HOUR / 2) / HOUR {
        hours @ 0..48 => format!("{hours} hours"),
        hours => format!("{} days", hours.saturating_add(12) / 24),
    }
}

impl Plant {
    /// `.u.endofday`: ends the day now.
    ///
    /// # Errors
    /// `limit` if the next day would be too far ahead of the clock; `os` if its log cannot be created.
    pub fn end_of_day(&mut self, ctl: &mut dyn Links) -> Result<(), QError> {
        let calendar = self.clock.calendar(self.day.time_ns(clock::of_day()));
        if !self.day.may_end_by_hand(calendar) {
            let reason = format!(
                "day {} is already {} days ahead of the clock: wait, or restart the tickerplant with a longer \
                 --limit-clock-jump",
                self.day.date(),
                self.day.days_ahead(calendar)
            );
            tracing::warn!(%reason, ".u.endofday rejected");
            return Err(QError::signal(format!("limit: {reason}")));
        }
        self.drive_day(Event::Manual, ctl);
        match self.log.roll_held() {
            Some(reason) => Err(QError::signal(format!("os: {reason}"))),
            None => Ok(()),
        }
    }

    /// Logs that the wall clock has jumped or is back, and rolls the day if it is due.
    pub(super) fn look_at_clock(&mut self, ctl: &mut dyn Links) {
        let now = clock::of_day();
        let changed = self.day.has_changed(now).then(|| self.clock.calendar(now.wall_ns));
        match changed.and_then(|calendar| self.day.look(now, calendar)) {
            Some(Change::Jumped(_)) => tracing::error!("{}", self.clock_trouble().unwrap_or_default()),
            Some(Change::Back) => tracing::warn!("the wall clock is right again: days end by it again again"),
            Some(Change::SetRight) => {
                tracing::warn!(date = %self.day.date(), "the wall clock, which was far from the day, has been corrected")
            }
            None => {}
        }
        if self.day.is_due(now) {
            let calendar = self.clock.calendar(self.day.time_ns(now));
            self.drive_day(Event::Clock(calendar), ctl);
        }
    }

    /// Describes what is wrong with the clock or the day, and what to do.
    pub(super) fn clock_trouble(&self) -> Option<String> {
        let now = clock::of_day();
        let calendar = self.clock.calendar(now.wall_ns);
        let (date, today) = (self.day.date(), calendar.today);
        let too_late = self.day.too_late(calendar);
        if let Some(days) = too_late.filter(|_| self.day.doubts_clock()) {
            return Some(format!(
                "the clock shows {today}, {days} days after the newest log, more than --limit-clock-start: updates \
                 go to day {date}, which does not end by the clock. If the clock is wrong, correct it; if it is \
                 right, restart the tickerplant with --today {today}"
            ));
        }
        if let Some(jump) = self.day.jump_ns(now) {
            let (by, where_to) = (in_words(jump), if jump < 0 { "back" } else { "ahead" });
            let confirm = too_late.map_or(String::new(), |_| format!(" with --today {today}"));
            return Some(format!(
                "the wall clock jumped {by} {where_to}, more than --limit-clock-jump: days end by the monotonic \
                 clock until it is corrected; if it is right now, restart the tickerplant{confirm}"
            ));
        }
        let days = self.day.stuck_ahead(self.clock.calendar(self.day.time_ns(now)))?;
        let log = self.log.path().map_or_else(String::new, |path| format!(" {}", path.display()));
        Some(format!(
            "day {} is {days} days ahead of the clock and does not end before that date: correct the clock, or \
             stop the tickerplant, move its log{log} and the files beside it away, and restart it",
            self.day.date()
        ))
    }

    /// Seconds by which the wall clock jumped or is too far ahead of the newest log, and days by which the day is ahead of the clock.
    pub(super) fn clock_figures(&self) -> (f64, u64) {
        let now = clock::of_day();
        let pause = self.day.too_late(self.clock.calendar(now.wall_ns)).filter(|_| self.day.doubts_clock());
        let jump = match pause {
            Some(days) => Duration::from_nanos(days.saturating_mul(proto::time::DAY_NS).unsigned_abs()),
            None => Duration::from_nanos(self.day.jump_ns(now).unwrap_or(0).unsigned_abs()),
        };
        let ahead = self.day.days_ahead(self.clock.calendar(self.day.time_ns(now)));
        (jump.as_secs_f64(), ahead.unsigned_abs())
    }

    /// Runs the state machine of the day until it has no action left.
    pub(super) fn drive_day(&mut self, mut event: Event, ctl: &mut dyn Links) {
        let _span = tracing::info_span!("end_of_day", date = %self.day.date()).entered();
        while let Some(action) = self.day.step(event, clock::of_day()) {
            event = if self.carry_out_day(action, ctl) { Event::Done } else { Event::Failed };
        }
    }

    fn carry_out_day(&mut self, action: Action, ctl: &mut dyn Links) -> bool {
        match action {
            Action::Flush { to, days_left_out, .. } => {
                tracing::info!(updates = self.batch.tip(), "the day ends");
                if days_left_out > 0 {
                    tracing::warn!(days = days_left_out, next = %to, "days before the next one have no log");
                }
                self.flush_merged(ctl);
            }
            Action::RollLog { date } => {
                // Makes the old log durable and closes it before the new one is created.
                let adopted = Adopted { tables: Arc::clone(&self.tables), changed: self.changed.clone() };
                let (limits, chunk_bytes) = (self.codec, super::size(self.limits.log_read_chunk_bytes));
                let rolled = self.log.roll((self.day.date(), date), |report| {
                    let reading = Reading { limits, chunk_bytes, tip: report.updates };
                    let found = logged_schema::adopt(&report.path, &adopted, reading);
                    let found = found.map_err(|error| error.to_string())?;
                    let same = Arc::ptr_eq(&found.tables, &adopted.tables);
                    same.then_some(()).ok_or("it has columns that .u.schema added: restart on it".to_string())
                });
                if let Err(failure) = rolled {
                    if let Some(error) = failure {
                        self.fail(&error, ctl);
                    }
                    return false;
                }
                if let Some(log) = self.log.source() {
                    self.catch_up.add(self.feed.tip().day.saturating_add(1), log);
                }
                if !self.log.has_failed() {
                    self.log.take_acks().into_iter().for_each(|ack| ctl.reply(ack.request, ack.answer));
                }
            }
            Action::SendEnd { date } => {
                let end = encoded(&ToNode::End { date: date.0 });
                let replaying: Vec<_> = self.live_but_not_fed(ctl);
                self.feed.end_day(&end, self.first_of_day(), ctl);
                for conn in replaying {
                    ctl.send(conn, end.clone());
                    // A feed position that this node is about to send may still refer to the old day.
                    if let Some(member) = self.members.get_mut(&conn) {
                        member.from_start = true;
                    }
                }
            }
            Action::EndQueueDay { new_date } => {
                let ended_tip = UpdateIndex(self.batch.tip());
                for member in self.members.values_mut() {
                    member.counted_from = 0;
                    member.carried = member.carried.saturating_add(ended_tip.0);
                }
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
    fn live_but_not_fed(&self, ctl: &dyn Links) -> Vec<crate::net::ConnId> {
        let live = self.queue.subscribers().iter().filter(|subscriber| subscriber.state == State::Live);
        let conns = live.filter_map(|subscriber| ctl.by_handle(subscriber.handle?.0));
        conns
            .filter(|conn| {
                let native = self.members.get(conn).is_some_and(|member| member.form == Form::Indexed);
                native && !self.feed.is_subscribed(*conn)
            })
            .collect()
    }

    /// `.u.end[date]` called by a client: sends it to all subscribers, as u.q does; the day does not roll. Nodes are left out: they would
    /// drop windows of a day that continues, and with a quiet feed no message would show them that it does.
    pub fn send_end(&mut self, date: i32, ctl: &mut dyn Links) {
        self.flush_merged(ctl);
        let end = encoded(&ToNode::End { date });
        let is_node =
            |conn: &crate::net::ConnId| self.members.get(conn).is_some_and(|member| member.form == Form::Indexed);
        let (nodes, subscribers): (Vec<_>, Vec<_>) = self.feed.subscribers().partition(|conn| is_node(conn));
        if !nodes.is_empty() {
            tracing::warn!(
                "a client called .u.end, which does not end the day: nodes keep their rows. To end the day call \
                 .u.endofday"
            );
        }
        subscribers.into_iter().for_each(|conn| ctl.send(conn, end.clone()));
    }
}
