//! When a tickerplant that cannot be reached is reported: at the first failure, then after 4 s, 8 s, 16 s and so on. Pure.

use std::time::{Duration, Instant};

/// The second report comes after this time, each later one after twice the time of the one before.
const SECOND: Duration = Duration::from_secs(4);

/// Failures in a row.
#[derive(Debug, Default)]
pub struct Trouble {
    since: Option<Instant>,
    /// The next report is due when the failures have gone on for so long.
    next: Duration,
}

impl Trouble {
    /// Another attempt has failed. For how long attempts have failed, if that is to be reported now.
    pub fn failed(&mut self, now: Instant) -> Option<Duration> {
        let time = now.saturating_duration_since(*self.since.get_or_insert(now));
        if time < self.next {
            return None;
        }
        self.next = time.saturating_mul(2).max(SECOND);
        Some(time)
    }

    /// An attempt has succeeded. How long those before have failed, if any has.
    pub fn over(&mut self, now: Instant) -> Option<Duration> {
        std::mem::take(self).since.map(|since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_reported_at_once_and_then_more_and_more_rarely() {
        let begin = Instant::now();
        let mut trouble = Trouble::default();
        assert_eq!(trouble.over(begin), None);
        let reported = |trouble: &mut Trouble| -> Vec<u64> {
            let at = |second| begin + Duration::from_secs(second);
            (0..120).filter_map(|second| trouble.failed(at(second)).map(|time| time.as_secs())).collect()
        };
        assert_eq!(reported(&mut trouble), [0, 4, 8, 16, 32, 64]);
        assert_eq!(trouble.over(begin + Duration::from_secs(120)), Some(Duration::from_secs(120)));
        // The next one is another.
        assert_eq!(reported(&mut trouble), [0, 4, 8, 16, 32, 64]);
    }
}
