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
