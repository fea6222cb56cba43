//! What "logged" means, and what to do with a log that is damaged in its middle: words that the operator chooses.

use super::units;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When an update may be acknowledged. `src/log/README.md` has the table of what each survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In a buffer of this process, written when it is full or the timer says so.
    None,
    /// Given to the operating system: survives the process.
    Os,
    /// Synced to disk by another thread, at most once in this time; acknowledged when synced.
    Group(Duration),
    /// Synced to disk before it is published or acknowledged.
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
            None => Err(format!("{text:?} is not none, os, group(TIME) or each")),
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

/// What to do at start with a log that has damage before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Refuse to start.
    Stop,
    /// Cut the log where the damage begins; the rest is kept in a file beside it.
    KeepBefore,
    /// Leave out what cannot be read and keep what comes after; the damaged log is kept in a file beside it.
    Skip,
}

impl FromStr for Damage {
    type Err = String;

    fn from_str(text: &str) -> Result<Damage, String> {
        match text.trim() {
            "stop" => Ok(Damage::Stop),
            "keep-before" => Ok(Damage::KeepBefore),
            "skip" => Ok(Damage::Skip),
            _ => Err(format!("{text:?} is not stop, keep-before or skip")),
        }
    }
}

/// What a repair does with blocks whose records can be read but whose checksums differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedBlocks {
    /// Keep them, marked in the side file.
    Keep,
    /// Leave them out.
    Cut,
}

impl FromStr for ChangedBlocks {
    type Err = String;

    fn from_str(text: &str) -> Result<ChangedBlocks, String> {
        match text {
            "keep" => Ok(ChangedBlocks::Keep),
            "cut" => Ok(ChangedBlocks::Cut),
            _ => Err(format!("{text:?} is neither keep nor cut")),
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
