//! Option values for the durability of updates, and for a log that is damaged before its end.

use super::units;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When an update may be acknowledged. `src/log/README.md` has a table of the failures that each level survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In a buffer of this process; written when it is full or on a timer.
    None,
    /// Written to the operating system: survives a crash of the process.
    Os,
    /// Synced to disk by another thread, at most once in this interval; acknowledged after the sync.
    Group(Duration),
    /// Synced to disk before the update is published or acknowledged.
    Each,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        let text = text.trim();
        match text {
            "none" => return Ok(Durability::None),
            "os" => return Ok(Durability::Os),
            "each" => return Ok(Durability::Each),
            _ => {}
        }
        match text.strip_prefix("group(").and_then(|rest| rest.strip_suffix(')')) {
            Some(time) => units::millis(time).map(Durability::Group),
            None => Err(format!("{text:?} is not a durability; use none, os, group(TIME) or each")),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::None => f.write_str("none"),
            Durability::Os => f.write_str("os"),
            Durability::Group(time) => write!(f, "group({time:?})"),
            Durability::Each => f.write_str("each"),
        }
    }
}

/// Reaction at the start to a log with damage before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Do not start.
    Stop,
    /// Truncate the log where the damage begins; the rest is kept in a file beside it.
    KeepBefore,
    /// Drop the unreadable part and keep what follows; the damaged log is kept in a file beside it.
    Skip,
}

impl FromStr for Damage {
    type Err = String;

    fn from_str(text: &str) -> Result<Damage, String> {
        match text.trim() {
            "stop" => Ok(Damage::Stop),
            "keep-before" => Ok(Damage::KeepBefore),
            "skip" => Ok(Damage::Skip),
            _ => Err(format!("{text:?} is not a way to handle damage; use stop, keep-before or skip")),
        }
    }
}

/// Treatment in a repair of blocks whose records are readable but whose checksums differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedBlocks {
    /// Keep them, marked in the side file.
    Keep,
    /// Drop them.
    Cut,
}

impl FromStr for ChangedBlocks {
    type Err = String;

    fn from_str(text: &str) -> Result<ChangedBlocks, String> {
        match text {
            "keep" => Ok(ChangedBlocks::Keep),
            "cut" => Ok(ChangedBlocks::Cut),
            _ => Err(format!("{text:?} is not a way to handle changed blocks; use keep or cut")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_is_read_as_it_is_written() {
        for text in ["none", "os", "group(5ms)", "each"] {
            assert_eq!(text.parse::<Durability>().map(|d| d.to_string()), Ok(text.to_string()));
        }
        assert_eq!("group(20)".parse(), Ok(Durability::Group(Duration::from_millis(20))));
        assert!("sometimes".parse::<Durability>().is_err());
    }
}
