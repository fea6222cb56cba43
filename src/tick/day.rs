//! State machine of the day roll. Pure: the caller turns the configured time and zone into a [`Calendar`], carries out one action
//! at a time and reports its result.
//!
//! ```text
//!            due, or by hand
//!  Idle ------------------------> Flush -> RollLog -> SendEnd -> EndQueueDay -> ReleaseLogs -> Idle (new date)
//!                                              | failed
//!                                              +-> Idle (old date), tried again
//! ```
//!
//! The new log is created before any subscriber is notified, for two reasons. If it cannot be created (the disk is full), the old
//! day continues. And its file marks the roll as done: a tickerplant that crashes before the file exists restarts in the old day
//! and rolls again; one that crashes after that restarts in the new day, and nodes that join with rows of the old day drop them.
//!
//! The caller drives it like this, and accepts no update until it is idle again, so that every update belongs to exactly one day:
//!
//! ```text
//! let mut event = Event::Clock(calendar);
//! loop {
//!     let Some(action) = day.step(event, now) else { break };
//!     event = match carry_out(action) { Ok(()) => Event::Done, Err(error) => Event::Failed };
//! }
//! ```
//!
//! kdb+tick gives up with "more than one day?" if it wakes more than a day late; this state machine rolls straight to today, and
//! [`Action::Flush`] has the number of days left out. A wall clock that jumps by days is ignored: see [`trust`]. So is one that is
//! too far ahead of the newest log at a start, because the log of that day would stay the newest one until that date.

use crate::queue::{Date, Now};
use proto::time::DAY_NS;
use trust::Trust;

#[cfg(test)]
mod tests;
pub mod trust;

/// Pause before another attempt to create the new log.
pub const RETRY_NS: i64 = 5_000_000_000;

/// Day and next roll according to a clock, in the configured zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// Day of an update at this moment.
    pub today: Date,
    /// The day after it: the next date, or the next trading day.
    pub next: Date,
    /// Begin of the next day, on the clock of [`Day::time_ns`].
    pub next_roll_ns: i64,
}

impl Calendar {
    /// A day that is followed by the next date.
    pub fn daily(today: Date, next_roll_ns: i64) -> Calendar {
        Calendar { today, next: Date(today.0.saturating_add(1)), next_roll_ns }
    }
}

/// Input of the day's state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayEvent {
    /// Time has passed. Needed only if [`Day::is_due`].
    Clock(Calendar),
    /// A client called `.u.endofday`: the next date begins.
    Manual,
    /// The same with a calendar, whose next trading day is this one.
    ManualTo(Date),
    /// The action succeeded.
    Done,
    /// The action failed.
    Failed,
}

/// Next action for the caller to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A roll begins. Publish the rows held by batch mode and flush the log of day `from`. `days_left_out`: days in between without a
    /// log; not 0 only if the tickerplant was stopped or its clock stood still.
    Flush { from: Date, to: Date, days_left_out: u32 },
    /// Create the log of this day and sync its directory; do not write to it yet.
    RollLog { date: Date },
    /// Send `.u.end` with this date to all subscribers.
    SendEnd { date: Date },
    /// Step the queue with `DayEnd` at the tip of the ended log.
    EndQueueDay { new_date: Date },
    /// Sync and close the log of this day, unless the creation of the new one has done so. From here on updates go to the new log, and `.u.i`
    /// starts from 0, or after the last update of a log that existed already. Then step the queue with a `Tick`.
    ReleaseLogs { date: Date },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Flushing,
    Creating,
    Ending,
    EndingQueue,
    Closing,
}

/// State machine of the day roll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    date: Date,
    to: Date,
    stage: Stage,
    next_roll_ns: i64,
    /// Set while the creation of the new log is to be tried again.
    retry: Option<Retry>,
    trust: Trust,
    /// At the start the wall clock was so far behind the newest log that one of the two is wrong.
    is_doubtful: bool,
    /// At the start the wall clock was too far ahead of the newest log: it is ignored until it shows this time or an earlier one.
    followed_from_ns: Option<i64>,
    max_pause_days: i64,
}

/// Limits within which the wall clock is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLimits {
    /// Largest difference from the steady clock while the tickerplant runs, and largest time by which the day may be ahead of the clock.
    pub jump_ns: i64,
    /// Largest time by which the clock may be ahead of the newest log at a start.
    pub pause_ns: i64,
    /// Date confirmed by the operator: a clock that shows it at the start is right.
    pub today: Option<Date>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retry {
    /// On the steady clock: a wall clock that is set back would postpone the retry.
    at_ns: i64,
    to: Date,
}

impl Day {
    /// State at a start. `newest_log`: date of the newest log, if there is one. A past log is resumed and its day is due at once, so that
    /// it ends properly. A future log was begun by hand or under a wrong clock, and is continued; so is a log so far in the past that the
    /// clock is more likely wrong.
    pub fn start(newest_log: Option<Date>, calendar: Calendar, now: Now, clock_limits: ClockLimits) -> Day {
        let date = newest_log.unwrap_or(calendar.today);
        let mut day = Day {
            date,
            to: date,
            stage: Stage::Idle,
            next_roll_ns: if date < calendar.today { i64::MIN } else { calendar.next_roll_ns },
            retry: None,
            trust: Trust::start(now, clock_limits.jump_ns),
            is_doubtful: false,
            followed_from_ns: None,
            max_pause_days: (clock_limits.pause_ns / DAY_NS).max(1),
        };
        day.is_doubtful = day.stuck_ahead(calendar).is_some();
        if let Some(days) = day.too_late(calendar).filter(|_| clock_limits.today != Some(calendar.today)) {
            let too_many = days.saturating_sub(day.max_pause_days);
            day.followed_from_ns = Some(now.wall_ns.saturating_sub(too_many.saturating_mul(DAY_NS)));
            day.next_roll_ns = i64::MAX;
        }
        day
    }

    /// Day of new updates; during a roll, still the old one.
    pub fn date(&self) -> Date {
        self.date
    }

    pub fn is_rolling(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Time used for the day: the wall clock, or the steady clock after a jump of the wall clock.
    pub fn time_ns(&self, now: Now) -> i64 {
        self.trust.time_ns(now)
    }

    /// Size of the jump while the wall clock is not trusted.
    pub fn jump_ns(&self, now: Now) -> Option<i64> {
        self.trust.jump_ns(now)
    }

    /// Whether the next [`Day::check_clock`] would report that the wall clock became wrong, or right again.
    pub fn has_changed(&self, now: Now) -> bool {
        self.trust.has_changed(now) || self.followed_from_ns.is_some_and(|from_ns| now.wall_ns <= from_ns)
    }

    /// Reports once that the wall clock has jumped, is back, or has been corrected. The calendar is that of the wall clock.
    pub fn check_clock(&mut self, now: Now, calendar: Calendar) -> Option<trust::Change> {
        let is_behind_no_more =
            self.is_doubtful && self.trust.jump_ns(now).is_some() && self.stuck_ahead(calendar).is_none();
        if is_behind_no_more || self.followed_from_ns.is_some_and(|from_ns| now.wall_ns <= from_ns) {
            self.followed_from_ns = None;
            // A clock set back too far is as wrong as one that was too far behind at the start.
            self.is_doubtful = self.stuck_ahead(calendar).is_some();
            self.trust.begin_anew(now);
            // The next roll computed from the wrong clock is obsolete.
            self.next_roll_ns = calendar.next_roll_ns;
            if self.date < calendar.today {
                self.next_roll_ns = i64::MIN;
            }
            return Some(trust::Change::SetRight);
        }
        self.trust.check(now)
    }

    /// Number of days by which the day is ahead of the calendar. The next trading day is one ahead, whatever lies in between.
    pub fn days_ahead(&self, calendar: Calendar) -> i64 {
        if self.date > calendar.today && self.date <= calendar.next {
            return 1;
        }
        i64::from(self.date.0).saturating_sub(i64::from(calendar.today.0)).max(0)
    }

    /// As [`Day::days_ahead`], if that exceeds the allowed jump: a wrong clock began this day, and no day ends until the calendar reaches
    /// it.
    pub fn stuck_ahead(&self, calendar: Calendar) -> Option<i64> {
        let days = self.days_ahead(calendar);
        (days > self.max_days_ahead()).then_some(days)
    }

    /// Number of days by which the calendar is ahead of this day, if that exceeds the longest plausible downtime.
    pub fn too_late(&self, calendar: Calendar) -> Option<i64> {
        let days = i64::from(calendar.today.0).saturating_sub(i64::from(self.date.0));
        (days > self.max_pause_days).then_some(days)
    }

    /// Whether the wall clock is ignored since the start because it is too far ahead of the newest log.
    pub fn ignores_wall_clock(&self) -> bool {
        self.followed_from_ns.is_some()
    }

    /// Number of days by which the day may be ahead of the calendar. At least 1, so that a day can be ended by hand whatever the limit.
    pub fn max_days_ahead(&self) -> i64 {
        (self.trust.max_jump_ns() / DAY_NS).max(1)
    }

    /// Whether the day may be ended by hand: the next day is at most one ahead of the calendar, or, with `force`, as far as the clock may
    /// jump. Code that ends a day at every end of a day would create logs years ahead, and no day would end until then.
    pub fn may_end_by_hand(&self, calendar: Calendar, force: bool) -> bool {
        self.days_ahead(calendar) < if force { self.max_days_ahead() } else { 1 }
    }

    /// Nanoseconds until the calendar must be checked again; 0 or negative once it is due.
    pub fn left_ns(&self, now: Now) -> i64 {
        match self.retry {
            _ if self.has_changed(now) => 0,
            Some(retry) => retry.at_ns.saturating_sub(now.steady_ns),
            None => self.next_roll_ns.saturating_sub(self.time_ns(now)),
        }
    }

    /// Whether [`DayEvent::Clock`] has work to do. Cheap: called before every update, so that the first update after the roll is in the new
    /// day.
    pub fn is_due(&self, now: Now) -> bool {
        self.left_ns(now) <= 0
    }

    /// Processes an event and returns the next action; `None` if there is none.
    pub fn step(&mut self, event: DayEvent, now: Now) -> Option<Action> {
        match (self.stage, event) {
            (Stage::Idle, DayEvent::Clock(calendar)) => self.clock(calendar, now),
            (Stage::Idle, DayEvent::Manual) => self.begin(Date(self.date.0.checked_add(1)?)),
            (Stage::Idle, DayEvent::ManualTo(next)) => {
                if next > self.date {
                    self.begin(next)
                } else {
                    None
                }
            }
            (Stage::Idle, DayEvent::Done | DayEvent::Failed) => None,
            // A roll in progress is not started again by the clock or by hand.
            (_, DayEvent::Clock(_) | DayEvent::Manual | DayEvent::ManualTo(_)) => None,
            (Stage::Creating, DayEvent::Failed) => {
                self.stage = Stage::Idle;
                self.retry = Some(Retry { at_ns: now.steady_ns.saturating_add(RETRY_NS), to: self.to });
                None
            }
            // Only the creation of the log can stop a roll: a failed flush or sync stops the log's writer by itself.
            (_, DayEvent::Done | DayEvent::Failed) => self.advance(),
        }
    }

    fn clock(&mut self, calendar: Calendar, now: Now) -> Option<Action> {
        // While the clock is not trusted, only a failed roll by hand is tried again.
        let (today, next_roll_ns) =
            if self.ignores_wall_clock() { (self.date, i64::MAX) } else { (calendar.today, calendar.next_roll_ns) };
        self.next_roll_ns = next_roll_ns;
        let to = match self.retry {
            Some(retry) if now.steady_ns < retry.at_ns => return None,
            Some(retry) => retry.to.max(today),
            None => today,
        };
        if to <= self.date {
            return None;
        }
        self.trust.agree(now);
        self.begin(to)
    }

    fn begin(&mut self, to: Date) -> Option<Action> {
        self.retry = None;
        self.to = to;
        self.stage = Stage::Flushing;
        let days_left_out = to.0.abs_diff(self.date.0).saturating_sub(1);
        Some(Action::Flush { from: self.date, to, days_left_out })
    }

    fn advance(&mut self) -> Option<Action> {
        let (stage, action) = match self.stage {
            Stage::Idle => return None,
            Stage::Flushing => (Stage::Creating, Action::RollLog { date: self.to }),
            Stage::Creating => (Stage::Ending, Action::SendEnd { date: self.date }),
            Stage::Ending => (Stage::EndingQueue, Action::EndQueueDay { new_date: self.to }),
            Stage::EndingQueue => (Stage::Closing, Action::ReleaseLogs { date: self.date }),
            Stage::Closing => {
                self.date = self.to;
                self.stage = Stage::Idle;
                return None;
            }
        };
        self.stage = stage;
        Some(action)
    }
}
