//! Takes updates: whole, once, in order. A full store ends the window before the update that does not fit.

use super::{Dialect, Fault, Ingest};
use crate::points::{self, Boundary};
use crate::protocol::ToNode;
use crate::rdb::intake::{TakeError, Taken};
use crate::rdb::policy::PolicyEvent;
use crate::rdb::update::{self, Update};
use crate::table::store::Refused;
use crate::table::{Schema, symbol};
use proto::{Header, View};

impl Ingest {
    /// Handles one message other than a response. Returns false if other work is due before the next.
    pub(super) fn object(&mut self, header: &Header, body: &[u8]) -> bool {
        let object = match update::little(body, header.endian, self.link.limits()) {
            Ok(object) => object,
            Err(error) => return self.link.fail(Fault::Unreadable(error)),
        };
        if let Some(update) = update::update(&object) {
            points::message(Boundary::NodeTakes, "update");
            return self.feed(&update);
        }
        match View::parse(&object, proto::Endian::Little, self.link.limits()) {
            Ok((view, _)) => match ToNode::decode(&view) {
                Ok(Some(message)) => {
                    points::message(Boundary::NodeTakes, message.name());
                    self.react(message)
                }
                Ok(None) => {
                    tracing::debug!("the tickerplant calls a function that a node does not have");
                    true
                }
                Err(error) => {
                    self.link.fail(Fault::Surprise(format!("the tickerplant's message cannot be read: {error}")))
                }
            },
            Err(error) => self.link.fail(Fault::Unreadable(error.to_string())),
        }
    }

    pub(super) fn is_day_end(&self, header: &Header, body: &[u8]) -> bool {
        let Ok(object) = update::little(body, header.endian, self.link.limits()) else { return false };
        let Ok((view, _)) = View::parse(&object, proto::Endian::Little, self.link.limits()) else { return false };
        update::update(&object).is_none() && matches!(ToNode::decode(&view), Ok(Some(ToNode::End { .. })))
    }

    /// Takes an update of the feed. Returns false if a memory reading is due or an error occurred.
    pub(super) fn feed(&mut self, update: &Update<'_>) -> bool {
        if !self.policy.takes_updates() {
            return true;
        }
        let index = match (self.link.dialect(), update.index) {
            (Some(Dialect::Elastick), None) => {
                return self.link.fail(Fault::Surprise("received an update without its index".to_string()));
            }
            (Some(Dialect::Elastick), index) => index,
            // A tickerplant in q sends no index: the node counts messages, as the paper's nodes do.
            _ => None,
        };
        if self.replays.is_on() {
            return self.link.fail(Fault::Surprise("received an update before requesting the feed".to_string()));
        }
        match self.take(update, index) {
            Ok(()) => !self.memory.is_due(),
            Err(fault) => self.link.fail(fault),
        }
    }

    /// Takes an update. A rejected one is counted and left out, and a full store rolls the node; both return `Ok`.
    pub(super) fn take(&mut self, update: &Update<'_>, index: Option<u64>) -> Result<(), Fault> {
        if update.table.is_empty() && update.count == 0 {
            // A record without a table has an index but no rows.
            let passed = index.map_or(Ok(()), |index| self.intake.pass(index));
            return passed.map_err(|error| Fault::Surprise(error.to_string()));
        }
        match self.intake.take(update, index) {
            Ok(took) => {
                if took == Taken::Nothing && self.intake.lacks(update.table) {
                    self.intake.count_refused();
                    self.refuse(&format!("there is no table {}", update.table.escape_ascii()));
                    return Ok(());
                }
                self.progress.took();
                self.memory.took(update.objects.len());
                Ok(())
            }
            Err(error @ TakeError::Index { .. }) => Err(Fault::Surprise(error.to_string())),
            Err(TakeError::Full { index, refused }) => self.full(index, &refused),
            // The log has another schema, or a tickerplant in q checks nothing. The window goes on without the update:
            // its proof differs from the log, and health fails while the window is held.
            Err(error) => {
                self.intake.skip_refused();
                self.refuse(&error.to_string());
                Ok(())
            }
        }
    }

    /// Applies a schema change, sent as an update of the feed or log, or outside of this node's updates.
    pub(super) fn apply_schema(&mut self, schema: Schema, index: Option<u64>) -> Result<(), Fault> {
        let name = symbol::text(schema.name).escape_ascii();
        let takes = self.policy.takes_updates();
        if index.is_some() && takes && self.replays.is_on() {
            return Err(Fault::Surprise("received a schema change before requesting the feed".to_string()));
        }
        if let Some(schemas) = self.intake.changed_by(&schema) {
            tracing::info!(table = %name, columns = schema.columns.len(), "columns were added to the table");
            if self.define(schemas)? {
                // There is no room for the nulls: the rows are dropped, and nodes with room rebuild the windows.
                self.step(PolicyEvent::Dropped);
                return Err(Fault::Surprise(format!("no memory for the columns added to table {name}")));
            }
        }
        match index.filter(|_| takes) {
            Some(index) => self.intake.pass(index).map_err(|error| Fault::Surprise(error.to_string())),
            None => Ok(()),
        }
    }

    /// Counts a rejected update; logs the first ten, then at powers of two.
    pub(super) fn refuse(&mut self, reason: &str) {
        let count = self.progress.refused();
        if count <= 10 || count.is_power_of_two() {
            let missing = self.intake.refused();
            tracing::error!(
                "update rejected, {missing} are missing in this node's windows: {reason} ({count} rejected since \
                 the start)"
            );
        }
    }

    /// Handles an update that does not fit into its table: whatever the thresholds, the window ends before it. If even
    /// an empty node has no room, the update is left out, as each further node would end the same way.
    fn full(&mut self, index: u64, refused: &Refused) -> Result<(), Fault> {
        if self.link.dialect() == Some(Dialect::Stock) {
            return Err(Fault::Fatal(format!("out of memory, and the tickerplant has no queue: {refused}")));
        }
        let is_empty = self.intake.rows() == 0;
        // Symbols are never freed: a process that has interned others may have room after a restart.
        if is_empty && refused.is_full_of_symbols() && self.progress.counters().updates_taken > 0 {
            return Err(Fault::Fatal(format!(
                "update {index} does not fit here, but would in a new process: {refused}"
            )));
        }
        if is_empty || refused.is_too_large() {
            self.leave_out(index, &format!("it exceeds the capacity of an empty node: {refused}"));
            return Ok(());
        }
        tracing::warn!("leaving update {index} to the successor: {refused}");
        self.step(PolicyEvent::Memory { used_bytes: u64::MAX, budget_bytes: self.memory.budget_bytes().max(1) });
        Ok(())
    }
}
