//! Taking updates: each whole, each once, in its order; a store that is full ends the window before the update that has no room.

use super::{Dialect, Fault, Ingest};
use crate::points::{self, Point};
use crate::rdb::intake::{TakeError, Took};
use crate::rdb::messages;
use crate::rdb::policy::Event;
use crate::rdb::update::{self, Update};
use crate::table::store::Refused;
use crate::table::{Schema, symbol};
use proto::{Header, View};

impl Ingest {
    /// One message that is no answer. False if something is to be done before the next.
    pub(super) fn object(&mut self, header: &Header, body: &[u8]) -> bool {
        let object = match update::little(body, header.endian, &self.limits) {
            Ok(object) => object,
            Err(error) => return self.fail(Fault::Unreadable(error)),
        };
        if let Some(update) = update::update(&object) {
            return self.feed(&update);
        }
        match View::parse(&object, proto::Endian::Little, &self.limits) {
            Ok((view, _)) => match messages::told(&view) {
                Ok(told) => self.react(told),
                Err(reason) => self.fail(Fault::Surprise(format!("the tickerplant said {reason}"))),
            },
            Err(error) => self.fail(Fault::Unreadable(error.to_string())),
        }
    }

    pub(super) fn is_day_end(&self, header: &Header, body: &[u8]) -> bool {
        let Ok(object) = update::little(body, header.endian, &self.limits) else { return false };
        let Ok((view, _)) = View::parse(&object, proto::Endian::Little, &self.limits) else { return false };
        update::update(&object).is_none() && matches!(messages::told(&view), Ok(messages::Told::End { .. }))
    }

    /// An update of the feed. False if memory is to be looked at, or something is wrong.
    pub(super) fn feed(&mut self, update: &Update<'_>) -> bool {
        if !self.policy.takes_updates() {
            return true;
        }
        let index = match (self.dialect, update.index) {
            (Some(Dialect::Elastick), None) => {
                return self.fail(Fault::Surprise("an update came without its index".to_string()));
            }
            (Some(Dialect::Elastick), index) => index,
            // Under a tickerplant in q a node counts messages, as the paper's does.
            _ => None,
        };
        if self.replay.is_some() {
            return self.fail(Fault::Surprise("an update came that was not asked for yet".to_string()));
        }
        match self.take(update, index) {
            Ok(()) => {
                points::reach(Point::NodeFed);
                self.unwatched_bytes < self.watch_bytes
            }
            Err(fault) => self.fail(fault),
        }
    }

    /// Takes an update, or says why the connection cannot go on. A full store rolls the node.
    pub(super) fn take(&mut self, update: &Update<'_>, index: Option<u64>) -> Result<(), Fault> {
        if update.table.is_empty() && update.count == 0 {
            // A record that names no table counts for nobody.
            let passed = index.map_or(Ok(()), |index| self.intake.pass(index));
            return passed.map_err(|error| Fault::Surprise(error.to_string()));
        }
        match self.intake.take(update, index) {
            Ok(took) => {
                if took == Took::Nothing && self.intake.lacks(update.table) {
                    self.intake.count_refused();
                    self.refuse(&format!("there is no table {}", update.table.escape_ascii()));
                    return Ok(());
                }
                self.counters.updates_taken = self.counters.updates_taken.saturating_add(1);
                self.resyncs_in_a_row = 0;
                self.unwatched_bytes = self.unwatched_bytes.saturating_add(update.objects.len() as u64);
                Ok(())
            }
            Err(error @ TakeError::Index { .. }) => Err(Fault::Surprise(error.to_string())),
            Err(TakeError::Full { index, refused }) => self.full(index, &refused),
            // A log of another schema, or a tickerplant in q that checks nothing. The window goes on without the update: its proof
            // differs from the log, and health is not ok while the window is held.
            Err(error) => {
                self.intake.skip_refused();
                self.refuse(&error.to_string());
                Ok(())
            }
        }
    }

    /// A table has changed: by an update of the feed or of the log, or by one that is not this node's to take.
    pub(super) fn schema_told(&mut self, schema: Schema, index: Option<u64>) -> Result<(), Fault> {
        let name = symbol::text(schema.name).escape_ascii();
        let takes = self.policy.takes_updates();
        if index.is_some() && takes && self.replay.is_some() {
            return Err(Fault::Surprise("a table changed by an update that was not asked for yet".to_string()));
        }
        if let Some(schemas) = self.intake.changed_by(&schema) {
            log::info!("table {name} has {} columns from now on", schema.columns.len());
            if self.define(schemas)? {
                // No room for the nulls: what it holds is gone, and is rebuilt by those who have room.
                self.step(Event::Dropped);
                return Err(Fault::Surprise(format!("no room for the columns added to table {name}")));
            }
        }
        match index.filter(|_| takes) {
            Some(index) => self.intake.pass(index).map_err(|error| Fault::Surprise(error.to_string())),
            None => Ok(()),
        }
    }

    /// Counts a refused update; logs the first ten, then at powers of two.
    pub(super) fn refuse(&mut self, reason: &str) {
        self.counters.updates_refused = self.counters.updates_refused.saturating_add(1);
        let count = self.counters.updates_refused;
        if count <= 10 || count.is_power_of_two() {
            let missing = self.intake.refused();
            log::error!(
                "update refused, {missing} are missing in the windows held: {reason} ({count} since the start)"
            );
        }
    }

    /// A table has no room: whatever the thresholds say, the window ends before this update, unless an empty node has no room for it
    /// either. Every node after this one would end the same way, so such an update is left out.
    fn full(&mut self, index: u64, refused: &Refused) -> Result<(), Fault> {
        if self.dialect == Some(Dialect::Stock) {
            return Err(Fault::Fatal(format!("no room, and the tickerplant has no queue: {refused}")));
        }
        let is_empty = self.intake.rows() == 0;
        // Symbols are never forgotten: a process that has taken others before has room for these when it starts anew.
        if is_empty && refused.is_full_of_symbols() && self.counters.updates_taken > 0 {
            return Err(Fault::Fatal(format!("update {index} has no room here, which a new process has: {refused}")));
        }
        if is_empty || refused.is_too_large() {
            self.leave_out(index, &format!("it alone is more than this node can hold: {refused}"));
            return Ok(());
        }
        log::warn!("update {index} is for the successor: {refused}");
        self.step(Event::Memory { used_bytes: u64::MAX, budget_bytes: self.budget_bytes.max(1) });
        Ok(())
    }
}
