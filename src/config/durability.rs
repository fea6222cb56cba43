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
    /// As `Group`, and acknowledged after the sync of so many followers as well.
    Replica { followers: u32, sync: Duration },
}

/// Followers that a tickerplant may wait for.
const MAX_REPLICAS: u32 = 8;
/// Interval between syncs under `replica(N)`.
const REPLICA_SYNC: Duration = Duration::from_millis(5);

impl Durability {
    /// Returns what the reply to a sync publisher promises.
    pub fn promise(self) -> &'static str {
        match self {
            Durability::None => "a reply means accepted; a crash loses what is still buffered",
            Durability::Os => "a reply means written; a power cut may lose the last seconds",
            Durability::Group(_) | Durability::Each => "a reply means synced to disk",
            Durability::Replica { .. } => "a reply means synced to disk here and by followers, unless these are away",
        }
    }

    /// Interval in which a thread of its own syncs the log, if one does.
    pub fn group_interval(self) -> Option<Duration> {
        match self {
            Durability::Group(interval) | Durability::Replica { sync: interval, .. } => Some(interval),
            Durability::None | Durability::Os | Durability::Each => None,
        }
    }
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
        let inside = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(time) = inside("group") {
            return units::millis(time).map(Durability::Group);
        }
        let Some(replicas) = inside("replica") else {
            return Err(format!("{text:?} is not a durability; use none, os, group(TIME), each or replica(COUNT)"));
        };
        let (count, time) = replicas.split_once(',').map_or((replicas, None), |(count, time)| (count, Some(time)));
        let followers = count.trim().parse().ok().filter(|count| (1..=MAX_REPLICAS).contains(count));
        let followers =
            followers.ok_or_else(|| format!("{text:?}: 1 to {MAX_REPLICAS} followers can be waited for"))?;
        let sync = time.map_or(Ok(REPLICA_SYNC), units::millis)?;
        Ok(Durability::Replica { followers, sync })
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::None => f.write_str("none"),
            Durability::Os => f.write_str("os"),
            Durability::Group(time) => write!(f, "group({time:?})"),
            Durability::Each => f.write_str("each"),
            Durability::Replica { followers, sync: REPLICA_SYNC } => write!(f, "replica({followers})"),
            Durability::Replica { followers, sync } => write!(f, "replica({followers},{sync:?})"),
        }
    }
}

/// What happens under `replica(N)` while fewer than N followers confirm in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaMissing {
    /// Updates are acknowledged once they are synced here.
    Continue,
    /// Updates are rejected.
    Refuse,
}

impl FromStr for ReplicaMissing {
    type Err = String;

    fn from_str(text: &str) -> Result<ReplicaMissing, String> {
        match text.trim() {
            "continue" => Ok(ReplicaMissing::Continue),
            "refuse" => Ok(ReplicaMissing::Refuse),
            _ => Err(format!("{text:?} is not a way to go on without followers; use continue or refuse")),
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
        for text in ["none", "os", "group(5ms)", "each", "replica(1)", "replica(2,20ms)"] {
            assert_eq!(text.parse::<Durability>().map(|d| d.to_string()), Ok(text.to_string()));
        }
        assert_eq!("group(20)".parse(), Ok(Durability::Group(Duration::from_millis(20))));
        for wrong in ["sometimes", "replica(0)", "replica(9)", "replica(x)", "replica(1", "replica(1,soon)"] {
            assert!(wrong.parse::<Durability>().is_err(), "{wrong}");
        }
    }
}
