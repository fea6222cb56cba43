//! What a follower shows: of the copy, by the thread that copies, for the event loop.

use crate::env::{Disk, Open};
use crate::log::LogError;
use crate::sys::fs::Place;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest reason that is shown.
const MAX_REASON_BYTES: usize = 512;

/// State of a copy.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Address of the last leader.
    pub leader: String,
    /// The copy goes on.
    pub is_connected: bool,
    /// Epoch of the leader.
    pub epoch: Option<u64>,
    /// Updates of the day that are on this disk.
    pub tip: Option<u64>,
    /// Updates of the day that the leader has, as far as is known.
    pub leader_tip: u64,
    /// When this disk last had all updates that the leader had.
    pub complete_at: Option<Instant>,
    /// Why nothing is copied.
    pub trouble: Option<String>,
    /// What an operator should know of the log, as a part that was cut off.
    pub note: String,
    /// Why the copy has ended for good.
    pub failure: Option<String>,
    /// The log as it was when the copy ended.
    pub closed: Option<ClosedLog>,
}

/// A log that has been closed, to be opened again by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedLog {
    pub path: PathBuf,
    pub place: Place,
    pub bytes: u64,
}

impl ClosedLog {
    /// Checks that the path still leads to the log, with all that was in it.
    ///
    /// # Errors
    /// `Lost` if it leads to another file or a shorter one; the system's.
    pub fn check(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let file = disk.open(&self.path, Open::Read).map_err(LogError::io(&self.path, "open"))?;
        let place = file.identity().map_err(LogError::io(&self.path, "look at"))?;
        let bytes = file.size_bytes().map_err(LogError::io(&self.path, "look at"))?;
        let lost = |reason: String| Err(LogError::Lost { path: self.path.clone(), reason });
        if place != self.place {
            return lost(
                "it is another file than the copy that followed: is another volume mounted there?".to_string(),
            );
        }
        if bytes < self.bytes {
            return lost(format!("it has {bytes} bytes, and had {} when the copy was closed", self.bytes));
        }
        Ok(())
    }
}

impl Status {
    /// Updates that this disk lacks, as far as is known.
    pub fn lag(&self) -> Option<u64> {
        Some(self.leader_tip.saturating_sub(self.tip?))
    }

    /// For how long this disk has lacked any update, or has not heard of the leader.
    pub fn late(&self) -> Option<Duration> {
        let complete_at = self.complete_at?;
        Some(if self.is_connected && self.lag() == Some(0) { Duration::ZERO } else { complete_at.elapsed() })
    }
}

/// Shared by both threads.
#[derive(Clone, Debug, Default)]
pub struct SharedStatus(Arc<Mutex<Status>>);

impl SharedStatus {
    pub fn get(&self) -> Status {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records why nothing is copied, and logs it if it is another reason than before.
    pub fn trouble(&self, reason: String) {
        let reason: String = reason.chars().take(MAX_REASON_BYTES).collect();
        let is_new = self.change(|status| status.trouble.replace(reason.clone()).as_ref() != Some(&reason));
        if is_new {
            tracing::warn!("nothing is copied: {reason}; trying again");
        }
    }
}
