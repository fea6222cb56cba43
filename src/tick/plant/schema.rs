//! The tables that the tickerplant works with, and which changes of them `.u.schema` may make.

use crate::env::Env;
use crate::log::OpenReport;
use crate::q::QError;
use crate::queue::Subscription;
use crate::table::schema::Schema;
use crate::table::wire;
use crate::tick::core::schema::{Current, Form, Tables};
use crate::tick::lane::LaneKey;
use crate::tick::logged_schema::{self, Adopted, Changed, LoggedSchemaError, Reading, change_of};
use crate::tick::subscriptions::{RequestedSymbols, Subscriptions};
use proto::View;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Returns an error whose name has kdb+'s term and the description: a client that gets the name alone reads both.
pub(super) fn refused(term: &str, words: impl std::fmt::Display) -> QError {
    QError::signal(format!("{term}: {words}"))
}

/// The tables of a tickerplant.
pub(super) struct Schemas {
    tables: Arc<Tables>,
    /// The same tables, shared with the other threads.
    current: Current,
    /// Tables changed by `.u.schema`.
    changed: Changed,
    /// `.u.t`: indices of the tables, sorted by name. `.u.schema` changes neither names nor indices.
    sorted: Vec<usize>,
}

/// An accepted change of a table.
pub(super) struct Change {
    /// Index of the table.
    pub place: usize,
    /// All tables, with the changed one.
    pub after: Adopted,
}

impl Schemas {
    pub fn new(adopted: Adopted) -> Schemas {
        let Adopted { tables, changed } = adopted;
        let mut sorted: Vec<usize> = (0..tables.len()).collect();
        sorted.sort_by_key(|table| tables.get(*table).map(|spec| spec.name.clone()));
        Schemas { current: Current::new(Arc::clone(&tables)), tables, changed, sorted }
    }

    /// Adopts the schema of the day's log, if there is a log. A past day ends at once: its records need not fit the schema that follows.
    ///
    /// # Errors
    /// A change that the log's records do not allow; the log cannot be read.
    pub fn adopt(
        env: &Env,
        tables: Arc<Tables>,
        log: Option<&Path>,
        reading: Reading,
        is_past: bool,
    ) -> Result<Schemas, LoggedSchemaError> {
        let adopted = Adopted { tables, changed: Changed::new() };
        let adopted = match log {
            None => adopted,
            Some(path) if is_past => logged_schema::go_on_from(&*env.disk, path, &adopted, &reading.limits),
            Some(path) => logged_schema::adopt(env, path, &adopted, reading)?,
        };
        Ok(Schemas::new(adopted))
    }

    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// Returns the tables as other threads see them.
    pub fn current(&self) -> Current {
        self.current.clone()
    }

    /// Returns the indices of the tables in the order of `.u.t`.
    pub fn sorted(&self) -> &[usize] {
        &self.sorted
    }

    /// Checks a log that continues with these tables, as one that existed when its day began.
    ///
    /// # Errors
    /// Why it cannot be continued.
    pub fn fits(&self, env: &Env, log: &OpenReport, reading: Reading) -> Result<(), String> {
        let own = Adopted { tables: Arc::clone(&self.tables), changed: self.changed.clone() };
        let found = logged_schema::adopt(env, &log.path, &own, reading).map_err(|error| error.to_string())?;
        let is_same = Arc::ptr_eq(&found.tables, &own.tables);
        is_same.then_some(()).ok_or("it has columns that .u.schema added: restart on it".to_string())
    }

    /// Rejects a subscription to unknown tables with the paper's error text.
    pub fn known(&self, subscription: Subscription) -> Result<Subscription, QError> {
        let unknown: Vec<&[u8]> = subscription
            .tabs
            .iter()
            .filter(|name| !name.is_empty() && self.tables.find(name).is_none())
            .map(Vec::as_slice)
            .collect();
        if !unknown.is_empty() {
            let comma: &[u8] = if unknown.len() == 1 { b",`" } else { b"`" };
            return Err(QError::signal([comma, &unknown.join(&b'`'), b" not available"].concat()));
        }
        Ok(subscription)
    }

    /// Returns the tables of a subscription with the symbols of each.
    pub fn requested(&self, subscription: &Subscription) -> Vec<(usize, RequestedSymbols)> {
        let of = |syms: &[Vec<u8>]| match syms {
            [] => RequestedSymbols::All,
            syms if syms.iter().any(Vec::is_empty) => RequestedSymbols::All,
            syms => RequestedSymbols::List(syms.to_vec()),
        };
        let pairs = subscription.tabs.iter().zip(&subscription.syms);
        pairs
            .flat_map(|(tab, syms)| {
                let tables: Vec<usize> = match tab.is_empty() {
                    true => self.sorted.clone(),
                    false => self.tables.find(tab).map(|(table, _)| table).into_iter().collect(),
                };
                tables.into_iter().map(move |table| (table, of(syms)))
            })
            .collect()
    }

    /// Returns the tables of a subscription, in the order of `.u.t`.
    pub fn tables_of(&self, subscription: &Subscription) -> Vec<Schema> {
        let requested: BTreeSet<usize> = self.requested(subscription).into_iter().map(|(table, _)| table).collect();
        let chosen = self.sorted.iter().filter(|table| requested.contains(table));
        chosen.filter_map(|table| Some(self.tables.get(*table)?.schema.clone())).collect()
    }

    /// Returns the fan-out group of a queue's subscription. Never merged, because nodes count updates.
    pub fn key(&self, subscription: &Subscription, form: Form, compress: bool) -> LaneKey {
        let mut own = Subscriptions::new(self.tables.len());
        for (table, requested) in self.requested(subscription) {
            own.add(table, (), requested);
        }
        own.key((), form, false, compress)
    }

    /// Checks a call of `.u.schema`. Returns `None` if the table has these columns already.
    ///
    /// # Errors
    /// Why the table stays unchanged.
    pub fn change(&self, args: &[View<'_>]) -> Result<Option<Change>, QError> {
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
            return Ok(None);
        }
        schema.columns.iter_mut().zip(&spec.schema.columns).for_each(|(new, own)| new.attr = own.attr);
        let changed = self.tables.with(&schema).map_err(|error| refused("type", error.to_string()))?;
        let Some(tables) = changed.map(Arc::new) else { return Err(QError::named("type")) };
        if let Some(change) = change_of(&spec.schema, &tables) {
            let reason = "columns can only be added at the end of a table; other changes need a new day and a restart";
            return Err(refused("mismatch", format!("{change}: {reason}")));
        }
        let names: BTreeSet<_> = schema.columns.iter().map(|column| column.name).collect();
        if names.len() < schema.columns.len() {
            return Err(refused("dup", "two columns have the same name"));
        }
        let mut changed = self.changed.clone();
        changed.insert(spec.name.clone());
        Ok(Some(Change { place, after: Adopted { tables, changed } }))
    }

    /// Works with the changed tables from here on.
    pub fn apply(&mut self, change: Change) {
        self.tables = change.after.tables;
        self.changed = change.after.changed;
        self.current.set(Arc::clone(&self.tables));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Attr;
    use crate::table::schema::ColumnSchema;
    use crate::table::symbol::intern;

    fn schemas() -> Schemas {
        let column = |name: &str, ty| ColumnSchema { name: intern(name.as_bytes()).unwrap(), ty, attr: Attr::None };
        let table = |name: &str| Schema {
            name: intern(name.as_bytes()).unwrap(),
            columns: vec![column("time", 16), column("sym", 11)],
            keys: 0,
        };
        let tables = Tables::new([table("trade"), table("quote")]).expect("valid tables");
        Schemas::new(Adopted { tables: Arc::new(tables), changed: Changed::new() })
    }

    fn subscription(tabs: &[&str], syms: &[&str]) -> Subscription {
        let syms: Vec<Vec<u8>> = syms.iter().map(|sym| sym.as_bytes().to_vec()).collect();
        Subscription { tabs: tabs.iter().map(|tab| tab.as_bytes().to_vec()).collect(), syms: vec![syms; tabs.len()] }
    }

    #[test]
    fn a_subscription_of_all_tables_has_them_by_name() {
        let schemas = schemas();
        let names: Vec<_> = schemas
            .tables_of(&subscription(&[""], &[]))
            .iter()
            .map(|schema| crate::table::symbol::text(schema.name).to_vec())
            .collect();
        assert_eq!((names, schemas.sorted()), (vec![b"quote".to_vec(), b"trade".to_vec()], &[1, 0][..]));
        let requested = schemas.requested(&subscription(&["trade"], &["A", "B"]));
        assert_eq!(requested, [(0, RequestedSymbols::List(vec![b"A".to_vec(), b"B".to_vec()]))]);
    }

    #[test]
    fn unknown_tables_are_rejected_in_the_papers_words() {
        let known = |tabs| schemas().known(subscription(tabs, &[])).map_err(|error| error.to_string());
        assert!(known(&["trade", ""]).is_ok());
        assert!(known(&["x"]).is_err_and(|error| error.contains(",`x not available")));
        assert!(known(&["x", "y"]).is_err_and(|error| error.contains("`x`y not available")));
    }
}
