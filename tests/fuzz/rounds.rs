//! How long a test goes on: so many expressions, or, where `ELASTICK_FUZZ_SECONDS` is set, so many seconds.

use std::io::Write;
use std::time::{Duration, Instant};

/// How often it tells how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(60);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|s| s.parse().ok())
}

pub fn seed() -> u64 {
    number("ELASTICK_FUZZ_SEED").unwrap_or(20_261_121)
}

/// One item for each expression that is wanted. At its end it tells how many there were.
pub struct Rounds {
    name: &'static str,
    most: u64,
    until: Option<Instant>,
    done: u64,
    told: Instant,
}

impl Rounds {
    /// So many, where nothing else is said.
    pub fn of(name: &'static str, usual: u64) -> Rounds {
        let until = number("ELASTICK_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
        Rounds { name, most: number("ELASTICK_FUZZ_RUNS").unwrap_or(usual), until, done: 0, told: Instant::now() }
    }

    /// Not by a macro: what is printed in tests is held back.
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
