//! The log whose updates a node takes. Rejects a tickerplant that was replaced.

use crate::lease::{Epoch, Fence};
use crate::log::WriterId;
use std::path::{Path, PathBuf};

/// A log with its highest epoch.
#[derive(Debug)]
struct Known {
    /// Its directory; identifies the log of a tickerplant that sends no writer id.
    directory: PathBuf,
    writer: Option<WriterId>,
    /// The highest epoch seen.
    fence: Fence,
}

/// The log that this node's rows come from, and why its tickerplant is rejected, if it is.
#[derive(Debug, Default)]
pub(super) struct KnownLog {
    known: Option<Known>,
    refused: Option<String>,
}

impl KnownLog {
    pub fn writer(&self) -> Option<WriterId> {
        self.known.as_ref().and_then(|known| known.writer)
    }

    /// Returns why the node takes no updates from a tickerplant that it can reach.
    pub fn refused(&self) -> Option<&String> {
        self.refused.as_ref()
    }

    pub fn refuse(&mut self, reason: String) {
        self.refused = Some(reason);
    }

    /// Rejects a tickerplant whose log has a newer writer (a higher epoch). Epochs are compared within one log only,
    /// and a tickerplant without a log has none. Returns whether the log differs from the one that this node's rows
    /// come from.
    ///
    /// # Errors
    /// Why the tickerplant is rejected.
    pub fn pass(&mut self, log: Option<&Path>, epoch: Epoch, writer: Option<WriterId>) -> Result<bool, String> {
        let passed = self.pass_fence(log, epoch, writer);
        if passed.is_ok() {
            self.refused = None;
        }
        passed
    }

    fn pass_fence(&mut self, log: Option<&Path>, epoch: Epoch, writer: Option<WriterId>) -> Result<bool, String> {
        let Some(directory) = log.and_then(Path::parent) else { return Ok(false) };
        let before = self.known.take();
        let was = before.as_ref().and_then(|known| known.writer).zip(writer);
        let is_other = was.is_some_and(|(before, now)| before.log != now.log);
        // Falls back to the directory if either side has no writer id.
        let is_same = |known: &Known| if was.is_some() { !is_other } else { known.directory == directory };
        let (mut fence, writer) = match before.filter(is_same) {
            Some(known) => (known.fence, writer.or(known.writer)),
            None => (Fence::default(), writer),
        };
        let passed = fence.pass(epoch);
        let writer = if passed.is_ok() { writer } else { was.map(|(before, _)| before) };
        self.known = Some(Known { directory: directory.to_path_buf(), writer, fence });
        match passed {
            Ok(()) => {
                if let Some((before, now)) = was.filter(|_| is_other) {
                    tracing::warn!(
                        directory = %directory.display(), log = %now.log, former = %before.log,
                        "the tickerplant has another log than before: dropping the rows of the former one"
                    );
                }
                Ok(is_other)
            }
            Err(fenced) => Err(format!(
                "the tickerplant was replaced: {fenced}; this one is a former writer of the log in {}: stop it",
                directory.display()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogId;

    fn writer(log: u64, epoch: u64) -> Option<WriterId> {
        Some(WriterId { log: LogId(log), epoch, writer: LogId(epoch) })
    }

    fn pass(known: &mut KnownLog, log: u64, epoch: u64) -> Result<bool, String> {
        known.pass(Some(Path::new("/data/sym2030.01.01")), Epoch(epoch), writer(log, epoch))
    }

    #[test]
    fn an_old_writer_is_rejected_and_the_next_one_is_not() {
        let mut known = KnownLog::default();
        assert_eq!(pass(&mut known, 1, 7), Ok(false));
        let reason = pass(&mut known, 1, 6).expect_err("it was replaced");
        known.refuse(reason);
        assert!(known.refused().is_some_and(|reason| reason.contains("replaced")));
        assert_eq!(known.writer(), writer(1, 7), "its rows are of the writer that replaced it");
        assert_eq!((pass(&mut known, 1, 8), known.refused()), (Ok(false), None));
    }

    #[test]
    fn a_lower_epoch_of_another_log_is_another_log_and_no_old_writer() {
        let mut known = KnownLog::default();
        assert_eq!([pass(&mut known, 1, 7), pass(&mut known, 2, 1)], [Ok(false), Ok(true)]);
    }

    #[test]
    fn without_a_writers_id_the_directory_tells_logs_apart() {
        let mut known = KnownLog::default();
        let mut pass = |path: &str, epoch| known.pass(Some(Path::new(path)), Epoch(epoch), None);
        assert_eq!(pass("/a/sym2030.01.01", 7), Ok(false));
        assert!(pass("/a/sym2030.01.02", 6).is_err());
        assert_eq!(pass("/b/sym2030.01.01", 6), Ok(false));
    }
}
