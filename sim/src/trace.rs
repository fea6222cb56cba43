//! The trace of a run: every event in order, for comparison with a second run or for reading.

use super::world::WorldEvent;
use std::fmt::Write;

/// Trace of one run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Lines, if they are kept.
    pub lines: Option<String>,
    /// Whether lines are printed at once.
    pub print: bool,
    /// Virtual time of the last event, in nanoseconds.
    pub at_ns: u64,
}

impl Trace {
    pub fn event(&mut self, at_ns: u64, event: &WorldEvent, wall_ns: u64) {
        self.at_ns = at_ns;
        if self.lines.is_some() || self.print {
            let line = format!("{at_ns:>16} {wall_ns} {event:?}\n");
            self.put(&line);
        }
    }

    /// Adds a line; `line` runs only if the line is kept or printed.
    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if self.lines.is_some() || self.print {
            let line = format!("{:>16} {}\n", self.at_ns, line());
            self.put(&line);
        }
    }

    fn put(&mut self, line: &str) {
        if self.print {
            eprint!("{line}");
        }
        if let Some(lines) = &mut self.lines {
            // Writing to a `String` cannot fail.
            let _ = lines.write_str(line);
        }
    }
}
