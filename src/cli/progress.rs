//! Progress line of long work on standard error, if that is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Delay before the line first appears, and shortest interval between redraws.
const PAUSE: Duration = Duration::from_millis(250);

/// Progress line of one task on standard error.
pub struct Progress {
    what: String,
    begin: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub fn new(what: impl Into<String>) -> Progress {
        Progress { what: what.into(), begin: Instant::now(), drawn: None, terminal: std::io::stderr().is_terminal() }
    }

    /// Reports `done` of `total` bytes.
    pub fn at(&mut self, done_bytes: u64, total_bytes: u64) {
        let now = Instant::now();
        if !self.terminal || now.duration_since(self.drawn.unwrap_or(self.begin)) < PAUSE {
            return;
        }
        self.drawn = Some(now);
        let share = done_bytes.saturating_mul(100).checked_div(total_bytes).unwrap_or(100);
        let rate = done_bytes as f64 / now.duration_since(self.begin).as_secs_f64() / 1e6;
        // A failed redraw does not matter.
        let _ = write!(std::io::stderr(), "\r{}: {share} %, {rate:.0} MB/s\x1b[K", self.what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
