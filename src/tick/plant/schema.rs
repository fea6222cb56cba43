//! `.u.schema`: adds columns at the end of a table without a restart.

use super::Plant;
use super::queue::encoded;
use crate::net::{ConnId, Links};
use crate::protocol::ToNode;
use crate::protocol::tables::schema_record;
use crate::q::QError;
use crate::table::schema::Schema;
use crate::table::wire;
use crate::tick::core::batch::Batch;
use crate::tick::core::schema::Form;
use crate::tick::logged_schema::{self, Adopted, change_of};
use proto::View;
use std::sync::Arc;

/// An error with kdb+'s term and a description, also for calls from expressions.
fn refused(term: &str, words: impl std::fmt::Display) -> QError {
    QError::signal(format!("{term}: {words}"))
}

impl Plant {
    /// `.u.schema[t;empty table]`. The change is an update of the log: every node that takes the table applies it at that position. A
    /// table that already has these columns stays unchanged, so the call may be repeated.
    ///
    /// # Errors
    /// Why the table stays unchanged.
    pub fn change_schema(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let user = ctl.peer(conn).map(|peer| peer.user.clone()).unwrap_or_default();
        if !self.operators.contains(&user) {
            let reason = "only users named by --operators may call .u.schema";
            return Err(refused("access", reason));
        }
        let [name, table] = args else {
            return Err(refused("rank", ".u.schema takes a table's name and an empty table"));
        };
        let name = name.symbol().ok_or(refused("type", "a table's name must be a symbol"))?;
        let Some((place, spec)) = self.tables.find(name) else {
            // kdb+tick signals the name of an unknown table.
            let reason = "no such table; to create one, add it to the schema file and restart";
            return Err(refused(&name.escape_ascii().to_string(), reason));
        };
        let is_table = || refused("type", "the second argument must be an empty table with all columns of the table");
        let mut schema =
            wire::data(table).ok().and_then(|value| Schema::of(spec.schema.name, &value)).ok_or_else(is_table)?;
        if table.table().is_none_or(|table| table.columns.iter().any(|column| column.count() > 0)) && schema.keys == 0 {
            return Err(refused("length", "the table must have no rows: 0#t"));
        }
        if schema.same_columns(&spec.schema) && schema.keys == spec.schema.keys {
            return Ok(());
        }
        schema.columns.iter_mut().zip(&spec.schema.columns).for_each(|(new, own)| new.attr = own.attr);
        let changed = self.tables.with(&schema).map_err(|error| refused("type", error.to_string()))?;
        let Some(tables) = changed.map(Arc::new) else { return Err(QError::named("type")) };
        if let Some(change) = change_of(&spec.schema, &tables) {
            let reason = "columns can only be added at the end of a table; other changes need a new day and a restart";
            return Err(refused("mismatch", format!("{change}: {reason}")));
        }
        let names: std::collections::BTreeSet<_> = schema.columns.iter().map(|column| column.name).collect();
        if names.len() < schema.columns.len() {
            return Err(refused("dup", "two columns have the same name"));
        }
        self.flush_merged(ctl);
        if let Some(failure) = self.log.failure() {
            return Err(refused("io", failure));
        }
        let wrong = |error: proto::EncodeError| refused("type", error.to_string());
        let spec = tables.get(place).ok_or_else(is_table)?;
        let index = self.batch.tip();
        let record = schema_record(&spec.schema).map_err(wrong)?;
        let mut changed = self.changed.clone();
        changed.insert(spec.name.clone());
        let adopted = Adopted { tables: Arc::clone(&tables), changed };
        // Before the log record: a start that finds the record without the column names could not continue.
        if let Some(path) = self.log.path() {
            logged_schema::write(path, &adopted)
                .map_err(|error| refused("io", format!("cannot write the schema of the log: {error}")))?;
        }
        if let Err(error) = self.log.append(&record, 1) {
            self.fail(&error, ctl);
            return Err(refused("io", error.to_string()));
        }
        let user = user.escape_ascii();
        tracing::warn!(
            %index, %user, table = %spec.name.escape_ascii(), columns = spec.columns.len(), "columns were added to the table"
        );
        self.changed = adopted.changed;
        self.tables = Arc::clone(&tables);
        self.current.set(Arc::clone(&tables));
        self.merging.restart(&tables);
        self.feed.change_table(
            tables.clone(),
            place,
            &encoded(&ToNode::Schema { schema: spec.schema.clone(), index: Some(index) }),
            ctl,
        );
        self.batch = Batch::new(self.feed.tip().index);
        // The other nodes get the change without an index, because they do not receive that update now: those that wait, have rolled,
        // rebuild a window, replay, or are in catch-up. A node in catch-up may roll before it reaches the update.
        let told = encoded(&ToNode::Schema { schema: spec.schema.clone(), index: None });
        let wants = |tabs: &[Vec<u8>]| tabs.iter().any(|tab| tab.is_empty() || *tab == spec.name);
        let others = self.members.iter().filter(|(conn, member)| {
            member.form == Form::Indexed && !self.feed.is_at_tip(**conn) && wants(&member.subscription.tabs)
        });
        others.for_each(|(conn, _)| ctl.send(*conn, told.clone()));
        Ok(())
    }
}
