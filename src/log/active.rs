//! Who writes a directory's logs, read by a process that does not hold the lock.

use super::error::LogError;
use super::holder::{Holder, describe};
use super::identity::LogId;
use super::index::SideFile;
use super::lock::{read_address, read_holder, read_identity};
use super::name::{lock_path, logs_of, side_path};
use crate::env::Disk;
use std::io;
use std::path::{Path, PathBuf};

/// The last process that held the lock, which it may have left by now, and its newest log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
    pub epoch: u64,
    /// Identity of the directory's logs.
    pub id: Option<LogId>,
    /// Process, host and epoch, in words.
    pub process: String,
    /// Where it is reached, `HOST:PORT`; `None` if it did not say.
    pub address: Option<String>,
    /// It ended in order.
    pub is_closed: bool,
    pub log: Option<PathBuf>,
    /// Updates in that log as far as its side file goes, so at least those.
    pub updates: u64,
}

impl Active {
    /// Reads the lock file and the newest log's side file; `None` if no process has ever held the lock.
    ///
    /// # Errors
    /// The system's.
    pub fn read(disk: &dyn Disk, dir: &Path, src: &str) -> Result<Option<Active>, LogError> {
        let path = lock_path(dir, src);
        let holder = match read_holder(disk, &path) {
            Ok(Some(holder)) => holder,
            Ok(None) => return Ok(None),
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = read_identity(disk, dir, src)?;
        let address = read_address(disk, &path, holder.epoch)?;
        let log = logs_of(disk, dir, src).map_err(LogError::io(dir, "list"))?.pop().map(|(_, log)| log);
        let end = log.as_ref().and_then(|log| SideFile::open(disk, &side_path(log))?.end());
        let Holder { epoch, clean: is_closed, .. } = holder;
        let process = describe(Some(&holder));
        Ok(Some(Active { epoch, id, process, address, is_closed, log, updates: end.map_or(0, |end| end.index) }))
    }
}
