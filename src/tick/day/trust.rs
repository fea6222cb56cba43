//! Decides whether the wall clock is trusted. Pure.
//!
//! A wall clock that is ten years ahead for two seconds (a bad time server, a typing error) must not end the day: the log of that day
//! would be the newest one, and no day would end for ten years. The module therefore compares the advance of the wall clock with that of
//! the steady clock since both last agreed. While they differ by more than a limit, days end by the steady clock. The wall clock is
//! followed again once it is back within the limit.
//!
//! A start trusts the wall clock: a restart is how an operator confirms a clock that was wrong before the jump. A clock far from the
//! newest log is handled by [`super::Day`]: a machine that boots in 1970 gets its time later, and a tickerplant is not stopped for years.

use crate::queue::Now;

/// Smallest limit: time servers make smaller corrections.
const MIN_JUMP_NS: i64 = 60_000_000_000;

/// Comparison of the wall clock with the steady clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    agreed: Now,
    max_jump_ns: i64,
    /// Whether the wall clock was within the limit at the last check.
    followed: bool,
}

/// Change found by a check of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The wall clock is off by that many nanoseconds and is no longer followed.
    Jumped(i64),
    /// The wall clock is followed again.
    Back,
    /// The wall clock was far behind the day, or far ahead of the newest log, at the start and has been corrected.
    SetRight,
}

impl Trust {
    /// State at a start, which trusts the wall clock. `max_jump_ns` is at least a minute.
    pub fn start(now: Now, max_jump_ns: i64) -> Trust {
        Trust { agreed: now, max_jump_ns: max_jump_ns.max(MIN_JUMP_NS), followed: true }
    }

    /// Advance of the wall clock beyond that of the steady clock.
    fn off_ns(&self, now: Now) -> i64 {
        now.wall_ns.saturating_sub(self.steady_wall_ns(now))
    }

    /// Time that the wall clock would show without jumps.
    fn steady_wall_ns(&self, now: Now) -> i64 {
        let passed = now.steady_ns.saturating_sub(self.agreed.steady_ns);
        self.agreed.wall_ns.saturating_add(passed)
    }

    /// Size of the jump while the wall clock is not followed.
    pub fn jump_ns(&self, now: Now) -> Option<i64> {
        let off = self.off_ns(now);
        (off.unsigned_abs() > self.max_jump_ns.unsigned_abs()).then_some(off)
    }

    /// Time used for the day.
    pub fn time_ns(&self, now: Now) -> i64 {
        if self.jump_ns(now).is_some() { self.steady_wall_ns(now) } else { now.wall_ns }
    }

    /// Largest accepted jump in nanoseconds, also for a day that is ahead of the calendar.
    pub fn max_jump_ns(&self) -> i64 {
        self.max_jump_ns
    }

    /// Whether the next [`Trust::check`] would report that the wall clock became wrong, or right again.
    pub fn has_changed(&self, now: Now) -> bool {
        self.followed != self.jump_ns(now).is_none()
    }

    /// Reports each change once.
    pub fn check(&mut self, now: Now) -> Option<Change> {
        let jump = self.jump_ns(now);
        match (std::mem::replace(&mut self.followed, jump.is_none()), jump) {
            (true, Some(off)) => Some(Change::Jumped(off)),
            (false, None) => Some(Change::Back),
            _ => None,
        }
    }

    /// Accepts the current wall clock as right, however far it has jumped.
    pub fn begin_anew(&mut self, now: Now) {
        *self = Trust::start(now, self.max_jump_ns);
    }

    /// After a day has ended by the clock: accepts a difference within the limit, so that small corrections do not add up over the years.
    pub fn agree(&mut self, now: Now) {
        if self.jump_ns(now).is_none() {
            self.agreed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = proto::time::DAY_NS;
    const YEARS: i64 = 3652 * DAY;

    fn trust() -> Trust {
        Trust::start(Now { wall_ns: 100 * DAY, steady_ns: 7 }, 3 * DAY)
    }

    /// Clocks that long after the start, with the wall clock off by `off`.
    fn after(passed: i64, off: i64) -> Now {
        Now { wall_ns: 100 * DAY + passed + off, steady_ns: 7 + passed }
    }

    #[test]
    fn steps_within_the_limit_are_followed() {
        let mut trust = trust();
        for off in [0, 3 * DAY, -3 * DAY, 3600 * SECOND] {
            assert_eq!(trust.check(after(DAY, off)), None);
            assert_eq!(trust.time_ns(after(DAY, off)), 101 * DAY + off);
        }
    }

    #[test]
    fn a_jump_is_not_followed_until_the_clock_is_back() {
        for off in [YEARS, -YEARS, 3 * DAY + 1] {
            let mut trust = trust();
            assert_eq!(trust.check(after(DAY, off)), Some(Change::Jumped(off)));
            assert_eq!((trust.check(after(2 * DAY, off)), trust.jump_ns(after(2 * DAY, off))), (None, Some(off)));
            assert_eq!(trust.time_ns(after(2 * DAY, off)), 102 * DAY, "the steady clock goes on");
            trust.agree(after(2 * DAY, off));
            assert_eq!(trust.jump_ns(after(2 * DAY, off)), Some(off), "the end of a day does not make it right");
            assert_eq!(trust.check(after(2 * DAY, SECOND)), Some(Change::Back));
            assert_eq!(trust.time_ns(after(2 * DAY, SECOND)), 102 * DAY + SECOND);
        }
    }

    #[test]
    fn corrections_of_many_days_do_not_add_up() {
        let mut trust = trust();
        for day in 1..10 {
            assert_eq!(trust.check(after(day * DAY, 2 * day * DAY)), None);
            trust.agree(after(day * DAY, 2 * day * DAY));
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_no_panic() {
        for first in [i64::MIN, 0, i64::MAX] {
            for second in [i64::MIN, 0, i64::MAX] {
                let now = |ns| Now { wall_ns: ns, steady_ns: ns };
                let mut trust = Trust::start(now(first), i64::MAX);
                trust.check(Now { wall_ns: second, steady_ns: first });
                trust.time_ns(now(second));
                trust.agree(now(second));
            }
        }
    }
}
