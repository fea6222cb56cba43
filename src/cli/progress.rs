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
        let Some(passed_s) = self.is_due() else { return };
        let share = done_bytes.saturating_mul(100).checked_div(total_bytes).unwrap_or(100);
        let rate = done_bytes as f64 / passed_s / 1e6;
        self.draw(&format!("{share} %, {rate:.0} MB/s"));
    }

    /// Reports `done` of `total` pieces.
    pub fn of(&mut self, done: usize, total: usize) {
        let Some(passed_s) = self.is_due() else { return };
        let rate = done as f64 / passed_s;
        self.draw(&format!("{done} of {total}, {rate:.0} a second"));
    }

    /// Returns the seconds since the beginning if the line is to be drawn.
    fn is_due(&mut self) -> Option<f64> {
        let now = Instant::now();
        if !self.terminal || now.duration_since(self.drawn.unwrap_or(self.begin)) < PAUSE {
            return None;
        }
        self.drawn = Some(now);
        Some(now.duration_since(self.begin).as_secs_f64())
    }

    fn draw(&self, text: &str) {
        // A failed redraw does not matter.
        let _ = write!(std::io::stderr(), "\r{}: {text}\x1b[K", self.what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
