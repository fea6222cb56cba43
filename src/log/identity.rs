//! What tells a log from another one at the same path.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Identity of the logs in a directory: a random number that its first writer draws and every later one keeps, in the lock file and in
/// every side file. Epochs of one identity can be compared; another identity is another log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for LogId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<LogId, ParseIntError> {
        u64::from_str_radix(text, 16).map(LogId)
    }
}

/// A writer of a log, as nodes remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterId {
    /// Identity of the directory's logs.
    pub log: LogId,
    pub epoch: u64,
    /// Tells writers of one epoch apart: there is more than one where an earlier state of the directory was restored.
    pub writer: LogId,
}

/// What a writer finds in what a node remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// This writer, or one before it whose updates are all in the log as far as its epoch goes.
    Same,
    /// Another log: what the node holds is not in this one.
    Other,
    /// This log, in a state that the directory does not have any more, or from a writer that has replaced this one.
    Later,
}

impl WriterId {
    /// What `seen` is to this writer.
    pub fn look_at(&self, seen: &WriterId) -> Remembered {
        if seen.log != self.log {
            Remembered::Other
        } else if seen.epoch > self.epoch || (seen.epoch == self.epoch && seen.writer != self.writer) {
            Remembered::Later
        } else {
            Remembered::Same
        }
    }
}
