//! The roll of the day, step by step. Pure: the shell turns the configured time and zone into a [`Calendar`], carries out one
//! action at a time and says how it went.
//!
//! ```text
//!            due, or by hand
//!  Idle ------------------------> Flush -> CreateLog -> SendEnd -> EndQueueDay -> CloseLog -> Idle (new date)
//!                                              | failed
//!                                              +-> Idle (old date), tried again
//! ```
//!
//! The new log is made before anybody is told, for two reasons. If it cannot be made (the disk is full), the old day simply goes
//! on. And its file is the mark that the day has rolled: a tickerplant that dies before it exists starts in the old day and
//! rolls again; one that dies after it starts in the new day, and nodes that come with rows of the old day drop them.
//!
//! A shell drives it like this, and takes no update before it is idle again, so that every update is in one day or the other:
//!
//! ```text
//! let mut event = Event::Clock(calendar);
//! loop {
//!     let Some(action) = day.step(event, now) else { break };
//!     event = match carry_out(action) { Ok(()) => Event::Done, Err(error) => Event::Failed };
//! }
//! ```
//!
//! kdb+tick gives up with "more than one day?" if it wakes more than a day late; here it rolls straight to today, and
//! [`Action::Flush`] tells how many days were left out. A wall clock that jumps by days is not followed: see [`trust`].

use crate::queue::{Date, Now};
use proto::time::DAY_NS;
use trust::Trust;

#[cfg(test)]
mod tests;
pub mod trust;

/// How long to wait before the new log is tried again.
pub const RETRY_NS: i64 = 5_000_000_000;

/// What the clock says, in the configured zone with the configured time of roll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// The day that an update of this moment belongs to.
    pub today: Date,
    /// When the next day begins, as [`Day::time_ns`] counts.
    pub next_roll_ns: i64,
}

/// What happens to the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed. Needed only when [`Day::is_due`].
    Clock(Calendar),
    /// Someone called `.u.endofday`.
    Manual,
    /// The action has been carried out.
    Done,
    /// It could not be.
    Failed,
}

/// What the shell has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A roll begins. Publish what batches still hold and flush the log of day `from`. `days_left_out`: days between that have
    /// no log, more than none only if the tickerplant was stopped or its clock stood.
    Flush { from: Date, to: Date, days_left_out: u32 },
    /// Make the log of this day and sync its directory; do not write to it yet.
    CreateLog { date: Date },
    /// Send `.u.end` with this date to everyone who receives the feed.
    SendEnd { date: Date },
    /// Step the queue with its `DayEnd`, the tip being the ended log's.
    EndQueueDay { new_date: Date },
    /// Sync and close the log of this day; from here on updates go to the new one, and `.u.i` starts from 0. Then step the queue
    /// with a `Tick`.
    CloseLog { date: Date },
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

/// The day of a tickerplant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    date: Date,
    to: Date,
    stage: Stage,
    next_roll_ns: i64,
    /// Set after the new log could not be made.
    retry: Option<Retry>,
    trust: Trust,
    /// The wall clock was so far behind the newest log at the start that one of the two is wrong.
    is_doubtful: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retry {
    /// By the steady clock: one that is set back would put it off.
    at_ns: i64,
    to: Date,
}

impl Day {
    /// At a start. `newest_log`: the date of the newest log found, if there is one. A log of the past is taken up as it is and is
    /// due at once, so that it ends as it should have; one of the future was begun by hand, or by a clock that was wrong, and is
    /// gone on with. `max_jump_ns`: how far the wall clock may jump and be followed.
    pub fn start(newest_log: Option<Date>, calendar: Calendar, now: Now, max_jump_ns: i64) -> Day {
        let date = newest_log.unwrap_or(calendar.today);
        let next_roll_ns = if date < calendar.today { i64::MIN } else { calendar.next_roll_ns };
        let trust = Trust::start(now, max_jump_ns);
        let mut day = Day { date, to: date, stage: Stage::Idle, next_roll_ns, retry: None, trust, is_doubtful: false };
        day.is_doubtful = day.stuck_ahead(calendar).is_some();
        day
    }

    /// The day that updates belong to; while a roll is under way, still the old one.
    pub fn date(&self) -> Date {
        self.date
    }

    pub fn is_rolling(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// The time that the day runs by: the wall clock, or the steady clock while that has jumped.
    pub fn time_ns(&self, now: Now) -> i64 {
        self.trust.time_ns(now)
    }

    /// By how much the wall clock has jumped, while it is not followed.
    pub fn jump_ns(&self, now: Now) -> Option<i64> {
        self.trust.jump_ns(now)
    }

    /// Whether [`Day::look`] has something to say.
    pub fn has_changed(&self, now: Now) -> bool {
        self.trust.has_changed(now)
    }

    /// Whether the wall clock has jumped, or is back; said once. The calendar is that of the wall clock.
    pub fn look(&mut self, now: Now, calendar: Calendar) -> Option<trust::Change> {
        if self.is_doubtful && self.trust.jump_ns(now).is_some() && self.stuck_ahead(calendar).is_none() {
            self.is_doubtful = false;
            self.trust.begin_anew(now);
            // What the calendar of before said of the next roll does not count.
            self.next_roll_ns = calendar.next_roll_ns;
            if self.date < calendar.today {
                self.next_roll_ns = i64::MIN;
            }
            return Some(trust::Change::SetRight);
        }
        self.trust.look(now)
    }

    /// By how many days the day is ahead of the calendar's.
    pub fn days_ahead(&self, calendar: Calendar) -> i64 {
        i64::from(self.date.0).saturating_sub(i64::from(calendar.today.0)).max(0)
    }

    /// As [`Day::days_ahead`], if that is more than the clock may jump: a clock that was wrong began the day, and none ends until then.
    pub fn stuck_ahead(&self, calendar: Calendar) -> Option<i64> {
        let days = self.days_ahead(calendar);
        (days > self.max_days_ahead()).then_some(days)
    }

    /// How many days the day may be ahead of the calendar's. One by hand is as usual, whatever the limit.
    pub fn max_days_ahead(&self) -> i64 {
        (self.trust.max_jump_ns() / DAY_NS).max(1)
    }

    /// Whether the day may be ended by hand: the next one is not further ahead of the calendar than a day may be. Code that answers
    /// each end of a day by ending the next would make logs of years to come, and no day would end until then.
    pub fn may_end_by_hand(&self, calendar: Calendar) -> bool {
        self.days_ahead(calendar) < self.max_days_ahead()
    }

    /// How long until the calendar is to be looked at again; not positive once it is due.
    pub fn left_ns(&self, now: Now) -> i64 {
        match self.retry {
            _ if self.trust.has_changed(now) => 0,
            Some(retry) => retry.at_ns.saturating_sub(now.steady_ns),
            None => self.next_roll_ns.saturating_sub(self.time_ns(now)),
        }
    }

    /// Whether [`Event::Clock`] has work to do. Cheap: asked before every update, so that one after the roll is in the new day.
    pub fn is_due(&self, now: Now) -> bool {
        self.left_ns(now) <= 0
    }

    /// Takes an event and says what to do next; `None` when there is nothing to do.
    pub fn step(&mut self, event: Event, now: Now) -> Option<Action> {
        match (self.stage, event) {
            (Stage::Idle, Event::Clock(calendar)) => self.clock(calendar, now),
            (Stage::Idle, Event::Manual) => self.begin(Date(self.date.0.checked_add(1)?)),
            (Stage::Idle, Event::Done | Event::Failed) => None,
            // A roll under way is not begun again, whatever the clock or anyone says meanwhile.
            (_, Event::Clock(_) | Event::Manual) => None,
            (Stage::Creating, Event::Failed) => {
                self.stage = Stage::Idle;
                self.retry = Some(Retry { at_ns: now.steady_ns.saturating_add(RETRY_NS), to: self.to });
                None
            }
            // Nothing but the new log can stop a roll: a flush or a sync that failed stops the log's writer by itself.
            (_, Event::Done | Event::Failed) => self.advance(),
        }
    }

    fn clock(&mut self, calendar: Calendar, now: Now) -> Option<Action> {
        self.next_roll_ns = calendar.next_roll_ns;
        let to = match self.retry {
            Some(retry) if now.steady_ns < retry.at_ns => return None,
            Some(retry) => retry.to.max(calendar.today),
            None => calendar.today,
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
            Stage::Flushing => (Stage::Creating, Action::CreateLog { date: self.to }),
            Stage::Creating => (Stage::Ending, Action::SendEnd { date: self.date }),
            Stage::Ending => (Stage::EndingQueue, Action::EndQueueDay { new_date: self.to }),
            Stage::EndingQueue => (Stage::Closing, Action::CloseLog { date: self.date }),
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
