//! Errors of the log, worded for the operator.

use super::scan::DamagedRange;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Error of opening, reading or writing a log.
#[derive(Debug, Error)]
pub enum LogError {
    #[error("{path}: cannot {action}: {source}{advice}", advice = advice(.source))]
    Io { path: PathBuf, action: &'static str, source: io::Error },
    #[error("{path} is not a tickerplant log: it does not start with ff 01 and an empty list")]
    NotALog { path: PathBuf },
    #[error("{path} is on {found}, but --require-mount is {required}: is the volume mounted? Nothing was written")]
    Misplaced { path: PathBuf, required: String, found: String },
    #[error(
        "{path} already exists and belongs to another tickerplant: {reason}. Move it away, with the files beside it; \
         until then the previous day continues"
    )]
    Foreign { path: PathBuf, reason: String },
    #[error("{path} already exists and cannot be continued: {reason}")]
    Unfit { path: PathBuf, reason: String },
    #[error(
        "{path} is in use by another tickerplant ({holder}); a log may have only one writer. With --lease file: a second one waits for it"
    )]
    Held { path: PathBuf, holder: String },
    #[error(
        "{path} is another file than the one that the active tickerplant had locked: is another volume mounted there? Nothing was \
         written"
    )]
    OtherLock { path: PathBuf },
    #[error("epoch {given} is not above epoch {stored} in {path}: another tickerplant has taken over")]
    StaleEpoch { path: PathBuf, given: u64, stored: u64 },
    #[error("{path} is damaged: {damage}")]
    Damaged { path: PathBuf, damage: Box<DamagedRange> },
    /// The log could not be opened for appending; it is unchanged.
    #[error(
        "{path} is damaged: {damage}; nothing was changed. `elastick log verify` lists all damage; start with \
         --damage keep-before to keep the updates before it, or with --damage skip to drop only the damage"
    )]
    Refused { path: PathBuf, damage: Box<DamagedRange> },
    /// A write or sync failed. Nothing more is accepted, because the contents of the disk are unknown.
    #[error("{path}: logging has stopped after an earlier failure: {reason}")]
    Poisoned { path: PathBuf, reason: String },
    /// The file lost updates that were acknowledged; nothing may be appended after the gap.
    #[error("{path}: {reason}")]
    Cut { path: PathBuf, reason: String },
    /// Another process writes the log, or may. This process must end; its successor learns at start whether the log is free.
    #[error("{path} may no longer be written by this tickerplant: {reason}")]
    Lost { path: PathBuf, reason: String },
    #[error("{path} shrank from {was_bytes} to {now_bytes} bytes while it was read")]
    Shrunk { path: PathBuf, was_bytes: u64, now_bytes: u64 },
    #[error(
        "{path} is not the tickerplant's log: bytes {first_byte} to {last_byte} differ from what it wrote. Is \
         another volume mounted at that path on this host?"
    )]
    Other { path: PathBuf, first_byte: u64, last_byte: u64 },
    #[error("{path} was replaced by another file while it was read")]
    Replaced { path: PathBuf },
    #[error("{path} has {have_index} updates after {waited:?}; {wanted_index} were announced")]
    NotReached { path: PathBuf, wanted_index: u64, have_index: u64, waited: Duration },
}

/// What the operator can do about an operating-system error.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; the user that runs this process needs read and write access to it",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; its file system is mounted read-only: remount it read-write, or log elsewhere"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; its file system is full: free space there, or log elsewhere"
        }
        io::ErrorKind::FileTooLarge => {
            "; a file size limit is reached (`ulimit -f`, LimitFSIZE= of the unit, or the file system's): raise \
             it, or log elsewhere"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "; the log directory must be a directory",
        _ => "",
    }
}

impl LogError {
    /// Whether another process may own the log now, so that only synced updates are known to be in it.
    pub fn is_lost(&self) -> bool {
        matches!(self, LogError::Lost { .. })
    }

    /// What the operator must do after the log stopped accepting updates because of this error.
    pub fn remedy(&self) -> &'static str {
        match self {
            LogError::Cut { .. } => {
                "before you restart the tickerplant, restore a copy of the log (`copytruncate` of logrotate makes \
                 one) or save the rows from the nodes, which hold them until then; and stop other programs from \
                 changing the log"
            }
            _ => "restart the tickerplant: its start reads what the disk has of the log",
        }
    }

    /// Wraps an operating-system error with the file and the failed action.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> LogError {
        let path = path.to_path_buf();
        move |source| LogError::Io { path, action, source }
    }
}
