//! Where a log is read from.

use super::file::LogFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log to be read: by its path, or, in the process that writes it, through the descriptors that write it and its side file. Those have
/// the log also when its path does not lead to it any more.
#[derive(Clone)]
pub struct LogSource {
    path: PathBuf,
    pub(super) own: Option<Arc<dyn LogFile>>,
    pub(super) side: Option<Arc<dyn LogFile>>,
}

impl LogSource {
    pub fn at(path: PathBuf) -> LogSource {
        LogSource { path, own: None, side: None }
    }

    pub(super) fn of_writer(path: PathBuf, file: Arc<dyn LogFile>, side: Option<Arc<dyn LogFile>>) -> LogSource {
        LogSource { path, own: Some(file), side }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl From<PathBuf> for LogSource {
    fn from(path: PathBuf) -> LogSource {
        LogSource::at(path)
    }
}
