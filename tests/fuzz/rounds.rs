//! Length of a test: a number of expressions, or of seconds if `ELASTICK_FUZZ_SECONDS` is set.

use std::io::Write;
use std::time::{Duration, Instant};

/// Interval of progress reports.
const TOLD_EVERY: Duration = Duration::from_secs(60);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|s| s.parse().ok())
}

pub fn seed() -> u64 {
    number("ELASTICK_FUZZ_SEED").unwrap_or(20_261_121)
}

/// Iterator with one item per expression to test. Reports their number at its end.
pub struct Rounds {
    name: &'static str,
    most: u64,
    until: Option<Instant>,
    done: u64,
    told: Instant,
}

impl Rounds {
    /// Ends after `usual` expressions unless the environment says otherwise.
    pub fn of(name: &'static str, usual: u64) -> Rounds {
        let until = number("ELASTICK_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
        Rounds { name, most: number("ELASTICK_FUZZ_RUNS").unwrap_or(usual), until, done: 0, told: Instant::now() }
    }

    /// Not by a macro: the test harness would capture its output.
    fn tell(&self) {
        writeln!(std::io::stderr(), "{}: {} expressions, seed {}", self.name, self.done, seed()).ok();
    }
}

impl Iterator for Rounds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let more = match self.until {
            Some(until) => Instant::now() < until,
            None => self.done < self.most,
        };
        if !more {
            return None;
        }
        if self.told.elapsed() >= TOLD_EVERY {
            self.tell();
            self.told = Instant::now();
        }
        self.done += 1;
        Some(self.done)
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.tell();
    }
}
