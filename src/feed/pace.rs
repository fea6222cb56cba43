//! Schedule of updates: how many are due, and the simulated time of each.

use super::curve::{Curve, DAY_NS};

/// Schedule of updates. The time in an update depends only on its number, so that two runs with the same options send the same bytes on
/// any machine.
#[derive(Clone, Debug)]
pub enum Pace {
    /// A whole simulated day in `length_ns`: `updates` in total, distributed by the curve.
    Day { curve: Curve, updates: u64, length_ns: u64 },
    /// A constant rate, from a time of the day on.
    Rate { per_second: f64, start_ns: u64 },
}

impl Pace {
    /// Returns the number of updates due `elapsed_ns` after the start.
    pub fn due(&self, elapsed_ns: u64) -> u64 {
        match self {
            Pace::Day { updates, length_ns, .. } if elapsed_ns >= *length_ns => *updates,
            Pace::Day { curve, updates, .. } => (curve.share_by(self.clock(elapsed_ns)) * *updates as f64) as u64,
            Pace::Rate { per_second, .. } => (elapsed_ns as f64 * per_second / 1e9) as u64,
        }
    }

    /// Returns the simulated time of day `elapsed_ns` after the start, in nanoseconds.
    pub fn clock(&self, elapsed_ns: u64) -> u64 {
        match self {
            Pace::Day { length_ns, .. } => {
                let scaled = u128::from(elapsed_ns) * u128::from(DAY_NS) / u128::from((*length_ns).max(1));
                u64::try_from(scaled).unwrap_or(DAY_NS).min(DAY_NS)
            }
            Pace::Rate { start_ns, .. } => start_ns.saturating_add(elapsed_ns) % DAY_NS,
        }
    }

    /// Returns the time of day in update `index`, in nanoseconds.
    pub fn time_of(&self, index: u64) -> u64 {
        match self {
            Pace::Day { curve, updates, .. } => curve.time_of((index as f64 + 0.5) / (*updates).max(1) as f64),
            Pace::Rate { per_second, start_ns } => {
                start_ns.saturating_add((index as f64 * 1e9 / per_second) as u64) % DAY_NS
            }
        }
    }

    /// Returns the total number of updates; `None` if there is no end.
    pub fn total(&self) -> Option<u64> {
        match self {
            Pace::Day { updates, .. } => Some(*updates),
            Pace::Rate { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn day(updates: u64, length_ns: u64) -> Pace {
        Pace::Day { curve: Curve::market_day(), updates, length_ns }
    }

    #[test]
    fn a_day_ends_with_all_its_updates() {
        let pace = day(1000, 5_000_000_000);
        assert_eq!((pace.due(0), pace.due(5_000_000_000), pace.due(u64::MAX)), (0, 1000, 1000));
        assert_eq!(pace.clock(2_500_000_000), DAY_NS / 2);
    }

    #[test]
    fn an_even_rate_is_even() {
        let pace = Pace::Rate { per_second: 100.0, start_ns: DAY_NS - 1_000_000_000 };
        assert_eq!((pace.due(1_000_000_000), pace.due(2_000_000_000)), (100, 200));
        assert_eq!(pace.time_of(100), 0);
    }

    proptest! {
        #[test]
        fn times_only_grow_within_the_day(updates in 1u64..100_000, index in 0u64..100_000) {
            let pace = day(updates, 1_000_000_000);
            let index = index % updates;
            prop_assert!(pace.time_of(index) <= pace.time_of(index + 1));
            prop_assert!(pace.time_of(index) < DAY_NS);
        }

        #[test]
        fn an_update_is_not_due_before_its_time(updates in 1u64..100_000, at in 0u64..1_000_000_000) {
            let pace = day(updates, 1_000_000_000);
            let due = pace.due(at);
            prop_assert!(due == 0 || pace.time_of(due - 1) <= pace.clock(at));
        }
    }
}
