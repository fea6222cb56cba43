//! Rate limit for reports of an unreachable tickerplant: at the first failure, then after 4 s, 8 s, 16 s and so on. Pure.

use std::time::{Duration, Instant};

/// Delay of the second report; it doubles for each later one.
const SECOND: Duration = Duration::from_secs(4);

/// Consecutive failures.
#[derive(Debug, Default)]
pub struct Trouble {
    since: Option<Instant>,
    /// Duration of failure after which the next report is due.
    next: Duration,
}

impl Trouble {
    /// Records a failed attempt. Returns for how long attempts have failed, if a report is due.
    pub fn failed(&mut self, now: Instant) -> Option<Duration> {
        let time = now.saturating_duration_since(*self.since.get_or_insert(now));
        if time < self.next {
            return None;
        }
        self.next = time.saturating_mul(2).max(SECOND);
        Some(time)
    }

    /// Records a success. Returns for how long attempts had failed, if any had.
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
        // A new series of failures starts from the first report again.
        assert_eq!(reported(&mut trouble), [0, 4, 8, 16, 32, 64]);
    }
}
