//! The trace of a run: every event as it happened, to be compared with that of a second run, or to be read.

use super::world::Event;
use std::fmt::Write;

/// What is kept of a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Lines, where they are kept.
    pub lines: Option<String>,
    /// Whether they are printed at once.
    pub print: bool,
    /// The moment of the last event, in the world's nanoseconds.
    pub at_ns: u64,
}

impl Trace {
    pub fn event(&mut self, at_ns: u64, event: &Event, wall_ns: u64) {
        self.at_ns = at_ns;
        if self.lines.is_some() || self.print {
            let line = format!("{at_ns:>16} {wall_ns} {event:?}\n");
            self.put(&line);
        }
    }

    /// A line of its own, made only where someone wants it.
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
            // A string takes what it is given.
            let _ = lines.write_str(line);
        }
    }
}
