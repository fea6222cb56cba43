//! A log that has failed because its disk was full, and continues once there is room.

use super::Plant;
use crate::bug;
use crate::metrics::health::grouped;
use crate::net::Links;
use crate::tick::space::Space;
use std::time::{Duration, Instant};

/// First and longest pause before a log continues. It doubles if the disk is full again soon: a quota may be used up while the file system
/// shows room.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Part of the file system that must be free before the log continues, in per cent: with less it would fail again at once.
const ROOM_PERCENT: u64 = 1;

/// When to look whether a full disk has room again.
#[derive(Debug, Default)]
pub(super) struct Retry {
    at: Option<Instant>,
    pause: Duration,
    resumed_at: Option<Instant>,
}

impl Retry {
    pub fn at(&self) -> Option<Instant> {
        self.at
    }

    /// The disk is full.
    fn failed(&mut self, now: Instant) {
        let is_again = self.resumed_at.is_some_and(|at| now.saturating_duration_since(at) < LONGEST_PAUSE);
        let pause = if is_again { self.pause.saturating_mul(2) } else { FIRST_PAUSE };
        self.pause = pause.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.again(now);
    }

    /// It still is.
    fn again(&mut self, now: Instant) {
        self.at = now.checked_add(self.pause);
    }

    fn resumed(&mut self, now: Instant) {
        (self.at, self.resumed_at) = (None, Some(now));
    }
}

impl Plant {
    /// Whether the log has failed only because its disk was full, and continues once there is room.
    pub fn can_resume(&self) -> bool {
        self.log.can_resume()
    }

    /// After a failure of the log: arranges to continue, if that is possible.
    pub(super) fn await_room(&mut self, now: Instant) {
        match self.log.can_resume() {
            true => self.retry.failed(now),
            false => self.retry.at = None,
        }
    }

    /// Continues with a log whose disk was full, if it is time, there is room, and the log is proved to be whole.
    pub(super) fn resume_if_due(&mut self, ctl: &mut dyn Links) {
        let now = ctl.now();
        if self.retry.at.is_none_or(|at| now < at) {
            return;
        }
        self.retry.again(now);
        let has_room = |space: &Space| {
            space
                .latest()
                .is_none_or(|room| room.free_bytes.saturating_mul(100) >= room.total_bytes.saturating_mul(ROOM_PERCENT))
        };
        if !self.log.space().is_none_or(has_room) {
            return;
        }
        let (logged, published) = (self.log.tip(), self.feed.tip().index);
        if logged != published {
            bug!("the log would continue at update {logged}, and the feed at {published}");
            self.retry.at = None;
            return;
        }
        match self.log.resume() {
            Ok((updates, rows)) => {
                self.retry.resumed(now);
                self.keeper.pause(false);
                self.publishers.written(self.log.written_tip());
                self.stats.unlogged = self.stats.unlogged.wrapping_sub(updates);
                self.stats.updates = self.stats.updates.wrapping_add(updates);
                self.stats.rows = self.stats.rows.wrapping_add(rows);
                tracing::warn!(
                    "the log's file system has room again: updates are accepted from update {} on. The log was read back and \
                     synced; it has every update that was acknowledged",
                    grouped(logged)
                );
            }
            Err(_) if self.log.can_resume() => {}
            Err(error) => {
                self.retry.at = None;
                self.keeper.pause(false);
                self.publishers.failed(self.log.tip_after_failure());
                tracing::error!("{error}. Updates stay rejected: {}", error.remedy());
                // If another tickerplant has taken over, this one ends.
                self.fail(&error, ctl);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_full_again_at_once_is_left_alone_for_longer() {
        let (mut retry, mut now) = (Retry::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            retry.failed(now);
            pauses.push(retry.at().unwrap().duration_since(now).as_secs());
            now = retry.at().unwrap();
            retry.resumed(now);
            assert_eq!(retry.at(), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        now += LONGEST_PAUSE;
        retry.failed(now);
        assert_eq!(retry.at(), now.checked_add(FIRST_PAUSE));
        retry.again(now + FIRST_PAUSE);
        assert_eq!(retry.at(), now.checked_add(2 * FIRST_PAUSE));
    }
}
