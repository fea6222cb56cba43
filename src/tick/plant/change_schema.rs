//! `.u.schema`: adds columns at the end of a table without a restart.

use super::Plant;
use super::messages::encoded;
use super::schema::refused;
use crate::net::{ConnId, Links};
use crate::protocol::ToNode;
use crate::protocol::tables::schema_record;
use crate::q::QError;
use crate::table::schema::Schema;
use crate::tick::core::batch::Batch;
use crate::tick::core::schema::Tables;
use crate::tick::logged_schema;
use proto::View;
use std::sync::Arc;

impl Plant {
    /// Returns the current tables.
    pub fn tables(&self) -> &Arc<Tables> {
        self.schemas.tables()
    }

    /// `.u.schema[t;empty table]`. The change is an update of the log: every node that takes the table applies it at that position. A
    /// table that already has these columns stays unchanged, so the call may be repeated.
    ///
    /// # Errors
    /// Why the table stays unchanged.
    pub fn change_schema(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let user = ctl.peer(conn).map(|peer| peer.user.clone()).unwrap_or_default();
        let Some(change) = self.schemas.change(args)? else { return Ok(()) };
        self.flush_merged(ctl);
        if let Some(failure) = self.log.failure() {
            return Err(refused("io", failure));
        }
        let index = self.batch.tip();
        let spec = change.after.tables.get(change.place).ok_or_else(|| refused("type", "there is no such table"))?;
        let record = schema_record(&spec.schema).map_err(|error| refused("type", error))?;
        // Before the log record: a start that finds the record without the column names could not continue.
        if let Some(path) = self.log.path() {
            logged_schema::write(&*self.env.disk, path, &change.after)
                .map_err(|error| refused("io", format!("cannot write the schema of the log: {error}")))?;
        }
        if let Err(error) = self.log.append(&record, 1, (1, 0)) {
            self.fail(&error, ctl);
            return Err(refused("io", error));
        }
        self.stats.updates = self.stats.updates.wrapping_add(1);
        let (user, table, columns) = (user.escape_ascii(), spec.name.escape_ascii(), spec.columns.len());
        tracing::warn!(%index, %user, %table, columns, "columns were added to the table");
        let (place, schema) = (change.place, spec.schema.clone());
        self.schemas.apply(change);
        self.merging.restart(self.schemas.tables());
        let message = encoded(&ToNode::Schema { schema: schema.clone(), index: Some(index) });
        self.feed.change_table(Arc::clone(self.schemas.tables()), place, &message, ctl);
        self.batch = Batch::new(self.feed.tip().index);
        self.send_schema(place, schema, ctl);
        Ok(())
    }

    /// Sends a changed schema at once to nodes that are not at the tip: standbys, rolled nodes, and those that rebuild, replay or are in
    /// catch-up. The message has no update index, so that it applies immediately. A node in catch-up needs it too: it may roll before it
    /// reaches the record of the change.
    fn send_schema(&self, place: usize, schema: Schema, ctl: &mut dyn Links) {
        let Some(spec) = self.schemas.tables().get(place) else { return };
        let wants = |tabs: &[Vec<u8>]| tabs.iter().any(|tab| tab.is_empty() || *tab == spec.name);
        let message = encoded(&ToNode::Schema { schema, index: None });
        for (handle, member) in self.queue.nodes() {
            let Some(conn) = ctl.by_handle(handle.0) else { continue };
            if !self.feed.is_at_tip(conn) && wants(&member.subscription.tabs) {
                ctl.send(conn, message.clone());
            }
        }
    }
}
