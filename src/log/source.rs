//! Location from which a log is read.

use crate::env::LogFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Source of a log: a path or, in the writer's own process, the open descriptors of the log and its side file. The descriptors still reach
/// the log when its path no longer does.
#[derive(Clone)]
pub struct LogSource {
    path: PathBuf,
    pub(super) own: Option<Arc<dyn LogFile>>,
    pub(super) side: Option<Arc<dyn LogFile>>,
}

impl LogSource {
    /// A log that is opened by its path.
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
