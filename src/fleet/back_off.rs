//! Retry pauses and call budgets. Pure: the caller passes time and random numbers.

/// Retry pauses with full jitter: each is random between zero and a ceiling that doubles with every failure.
///
/// Nodes that were rejected together then retry at different times (Brooker, "Exponential Backoff And Jitter", 2015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    first_ns: u64,
    most_ns: u64,
    failures: u32,
}

impl BackOff {
    /// Ceilings grow from `first_ns` to `most_ns`.
    pub const fn new(first_ns: u64, most_ns: u64) -> BackOff {
        BackOff { first_ns, most_ns, failures: 0 }
    }

    /// Failures so far.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the pause after another failure; `chance` is a random number from 0 to 1.
    pub fn pause_ns(&mut self, chance: f64) -> u64 {
        let doubled = 1u64.checked_shl(self.failures).unwrap_or(u64::MAX);
        let ceiling_ns = self.first_ns.saturating_mul(doubled).min(self.most_ns);
        self.failures = self.failures.saturating_add(1);
        (ceiling_ns as f64 * chance.clamp(0.0, 1.0)) as u64
    }
}

/// Token bucket for the calls of one purpose: a burst, then one call per `each_ns`.
///
/// It bounds the calls of this instance whatever fails elsewhere, as all instances of an account share its API limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    most: u32,
    each_ns: u64,
    left: u32,
    /// Start of the interval that yields the next call.
    since_ns: u64,
}

impl Budget {
    /// `most` calls in a burst, then one per `each_ns`.
    pub const fn new(most: u32, each_ns: u64) -> Budget {
        Budget { most, each_ns, left: most, since_ns: 0 }
    }

    /// Takes one call.
    ///
    /// # Errors
    /// The budget is used up; returns when the next call becomes available.
    pub fn take(&mut self, now_ns: u64) -> Result<(), u64> {
        let each_ns = self.each_ns.max(1);
        let grown = now_ns.saturating_sub(self.since_ns) / each_ns;
        let room = u64::from(self.most.saturating_sub(self.left));
        self.left = self.left.saturating_add(u32::try_from(grown.min(room)).unwrap_or(u32::MAX));
        self.since_ns = match self.left >= self.most {
            true => now_ns.max(self.since_ns),
            false => self.since_ns.saturating_add(grown.saturating_mul(each_ns)),
        };
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.since_ns.saturating_add(each_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ceilings_double_up_to_the_longest() {
        let mut back_off = BackOff::new(10, 65);
        let pauses: Vec<u64> = (0..6).map(|_| back_off.pause_ns(1.0)).collect();
        assert_eq!(pauses, [10, 20, 40, 65, 65, 65]);
    }

    #[test]
    fn a_budget_that_is_used_up_says_when_it_has_more() {
        let mut budget = Budget::new(2, 100);
        assert_eq!([budget.take(0), budget.take(10), budget.take(20)], [Ok(()), Ok(()), Err(100)]);
        assert_eq!([budget.take(100), budget.take(150)], [Ok(()), Err(200)]);
        assert_eq!([budget.take(10_000), budget.take(10_000), budget.take(10_000)], [Ok(()), Ok(()), Err(10_100)]);
    }

    proptest! {
        #[test]
        fn a_pause_is_never_longer_than_its_ceiling(chances in prop::collection::vec(any::<f64>(), 0..80)) {
            let mut back_off = BackOff::new(1_000, 1_000_000);
            for chance in chances {
                prop_assert!(back_off.pause_ns(chance) <= 1_000_000);
            }
        }

        #[test]
        fn no_more_calls_than_the_budget_leave_in_any_time(
            most in 1u32..10, each in 1u64..50, steps in prop::collection::vec(0u64..60, 1..200),
        ) {
            let mut budget = Budget::new(most, each);
            let (mut now, mut taken) = (0, Vec::new());
            for step in steps {
                now += step;
                match budget.take(now) {
                    Ok(()) => taken.push(now),
                    Err(at) => prop_assert!(at > now && at <= now + each),
                }
            }
            for (i, from) in taken.iter().enumerate() {
                for (j, to) in taken.iter().enumerate().skip(i) {
                    prop_assert!((j - i) as u64 <= u64::from(most) + (to - from) / each, "{taken:?}");
                }
            }
        }
    }
}
