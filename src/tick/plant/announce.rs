//! What the tickerplant logs about itself at its start and at its end.

use super::Plant;
use super::messages::encoded;
use crate::log::LogWriter;
use crate::metrics::health::grouped;
use crate::net::Links;
use crate::protocol::ToNode;
use crate::tick::schema_file::Source;

impl Plant {
    /// Sends nodes `Bye`, on which they look for a tickerplant again.
    pub(super) fn announce_end(&mut self, reason: &str, ctl: &mut dyn Links) {
        let bye = encoded(&ToNode::Bye { reason: reason.to_string() });
        let nodes = self.queue.nodes().filter_map(|(handle, _)| ctl.by_handle(handle.0));
        nodes.collect::<Vec<_>>().into_iter().for_each(|conn| ctl.send(conn, bye.clone()));
    }

    /// Logs the tables and where they come from, where updates are logged, and when the day ends.
    pub fn log_start(&self, schema: &Source) {
        let columns = |table: &crate::tick::core::schema::TableSpec| {
            format!("{} ({} columns)", table.name.escape_ascii(), table.columns.len())
        };
        let tables: Vec<String> = self.tables().iter().map(columns).collect();
        tracing::info!("tables from {schema}: {}", tables.join(", "));
        match self.log() {
            Some(log) => {
                let (path, durability) = (log.path().display(), log.durability());
                tracing::info!("updates are logged to {path}, durability {durability}: {}", durability.promise());
            }
            None => tracing::warn!(
                "no log directory: updates are not logged and are lost on restart, and a node that joins late cannot be fed; \
                 name one, as in elastick tick SRC DIR"
            ),
        }
        if let Some(end) = self.time.end_of_day() {
            tracing::info!("day {} ends at {end}", self.time.date());
        } else if let Some(ahead) = self.time.ahead() {
            tracing::warn!("{ahead}");
        }
    }

    /// Logs why the tickerplant ends. What its log has is said once that is closed.
    pub(super) fn log_stop(&self, reason: &str) {
        match (self.log(), self.feed.tip().index) {
            (None, updates @ 1..) => {
                tracing::warn!("{reason}: {} updates of today were not logged and are gone", grouped(updates));
            }
            _ => tracing::info!("{reason}"),
        }
    }
}

/// Returns what is in a log that has been closed.
pub(super) fn closed(log: &LogWriter) -> String {
    let (records, path) = (grouped(log.tip()), log.path().display());
    format!("{records} records of today are in {path}, all of them synced to disk; the next start continues there")
}
