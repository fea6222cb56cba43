//! Fill rate of memory by the feed: an exponentially weighted average over one-second intervals.

const INTERVAL_NS: i64 = 1_000_000_000;
/// Weight of the latest interval: the average reflects nine tenths of a change after about eight intervals.
const WEIGHT: f64 = 0.25;
/// After this many idle intervals the average is 0.
const FORGOTTEN_AFTER: i64 = 64;

/// Average rate in bytes per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rate {
    /// Begin of the current interval; `None` before the first bytes.
    since_ns: Option<i64>,
    bytes: u64,
    average: Option<f64>,
}

impl Rate {
    /// Counts bytes received at `now_ns`.
    pub fn add(&mut self, bytes: u64, now_ns: i64) {
        self.since_ns.get_or_insert(now_ns);
        self.advance(now_ns);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds completed intervals to the average.
    pub fn advance(&mut self, now_ns: i64) {
        let Some(since_ns) = self.since_ns else { return };
        let over = now_ns.saturating_sub(since_ns) / INTERVAL_NS;
        if over < 1 {
            return;
        }
        let latest = self.bytes as f64;
        self.bytes = 0;
        self.since_ns = Some(since_ns.saturating_add(over.saturating_mul(INTERVAL_NS)));
        let mut average = self.average.map_or(latest, |average| average + WEIGHT * (latest - average));
        for _ in 1..over.min(FORGOTTEN_AFTER) {
            average *= 1.0 - WEIGHT;
        }
        self.average = Some(if over >= FORGOTTEN_AFTER { 0.0 } else { average });
    }

    /// Returns the average; `None` before the first interval has passed.
    pub fn per_second(&self) -> Option<f64> {
        self.average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = INTERVAL_NS;

    #[test]
    fn there_is_no_rate_before_an_interval_is_over() {
        let mut rate = Rate::default();
        rate.add(100, 5);
        rate.advance(5 + S - 1);
        assert_eq!(rate.per_second(), None);
        rate.advance(5 + S);
        assert_eq!(rate.per_second(), Some(100.0));
    }

    #[test]
    fn the_average_follows_a_change_within_seconds() {
        let mut rate = Rate::default();
        for second in 0..30 {
            rate.add(if second < 10 { 100 } else { 1_000 }, second * S);
        }
        let average = rate.per_second().unwrap();
        assert!((990.0..=1_000.0).contains(&average), "{average}");
    }

    #[test]
    fn silence_is_forgotten_bytes() {
        let mut rate = Rate::default();
        rate.add(1_000, 0);
        rate.advance(4 * S);
        assert_eq!(rate.per_second(), Some(1_000.0 * 0.75 * 0.75 * 0.75));
        rate.advance(i64::MAX);
        assert_eq!(rate.per_second(), Some(0.0));
    }

    #[test]
    fn a_clock_that_goes_back_loses_nothing() {
        let mut rate = Rate::default();
        rate.add(100, 10 * S);
        rate.add(100, 0);
        rate.advance(11 * S);
        assert_eq!(rate.per_second(), Some(200.0));
    }
}
