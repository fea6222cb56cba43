//! Handles a log whose path no longer leads to it: removed, moved, or replaced by another file.

use super::Plant;
use crate::log::{LogSource, LogWriter};
use crate::queue::Date;
use crate::tick::clock;

/// Logs of ended days kept open because their paths do not lead to them.
const MAX_ENDED: usize = 8;

impl Plant {
    /// Describes why the log's path does not lead to the log; `None` if it does.
    pub(super) fn log_elsewhere(&self) -> Option<String> {
        self.log.as_ref().and_then(LogWriter::elsewhere)
    }

    /// Logs when the path stops leading to the log, or leads to it again.
    pub(super) fn look_at_log_file(&mut self) {
        let elsewhere = self.log_elsewhere();
        if elsewhere == self.elsewhere_told {
            return;
        }
        match (&elsewhere, &self.log) {
            (Some(why), _) => tracing::error!(
                "{why}. Updates are still logged in the file that was opened, and nodes are fed from it; the next start would not find it"
            ),
            (None, Some(log)) => tracing::info!(path = %log.path().display(), "the path leads to the open log again"),
            (None, None) => {}
        }
        self.elsewhere_told = elsewhere;
    }

    /// Before a roll closes the day's log: keeps it open if its path does not lead to it, because it could not be opened again.
    pub(super) fn keep_if_elsewhere(&mut self) {
        let Some((log, why)) = self.log.as_ref().and_then(|log| Some((log, log.elsewhere()?))) else { return };
        let date = clock::day_number(log.date());
        if self.ended_elsewhere.len() < MAX_ENDED && self.ended_elsewhere.iter().all(|(of, _)| *of != date) {
            tracing::error!("{why}. It is held open as long as this process runs");
            self.ended_elsewhere.push((date, log.source()));
        }
    }

    /// Returns where to read the log of a date, even if no file exists.
    pub(super) fn source_of(&self, date: Date) -> Option<LogSource> {
        if let Some(log) = self.log.as_ref().filter(|log| clock::day_number(log.date()) == date) {
            return Some(log.source());
        }
        let held = self.ended_elsewhere.iter().find(|(of, _)| *of == date).map(|(_, source)| source.clone());
        held.or_else(|| self.log_of(date).map(LogSource::at))
    }
}
