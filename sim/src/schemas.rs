//! Tables that get columns at their end: through the schema file and a restart, or by `.u.schema` while the tickerplant runs.

use super::audit::record::{COLUMNS, Extras, MAX_EXTRAS, TABLES};
use super::rng::Rng;
use super::world::{Client, SECOND, World, WorldEvent};
use elastick::net::message;
use elastick::protocol::tables::schema_record;
use elastick::table::schema::{ColumnSchema, Schema};
use elastick::table::{Attr, Sym, symbol};
use elastick::tick::core::Tables;
use proto::MessageKind;
use std::sync::Arc;

/// The user with permission to call `.u.schema`.
pub const OPERATOR: &[u8] = b"operator";

/// One seed in so many has changing tables.
const ONE_IN: u64 = 3;

/// The operator's schema changes, drawn from a random stream of their own.
pub struct Schemas {
    /// `None` if the seed has no changes.
    rng: Option<Rng>,
    /// Number of columns that the schema file adds to each table.
    pub file: Extras,
}

impl Schemas {
    pub fn of(seed: u64, some: bool) -> Schemas {
        let mut rng = Rng::new(seed ^ 0x0000_7363_6865_6d61);
        let changes = some && rng.one_in(ONE_IN);
        Schemas { rng: changes.then_some(rng), file: Extras::default() }
    }

    pub fn change(&self) -> bool {
        self.rng.is_some()
    }
}

/// Returns the tables with so many added columns: `x1`, `x2`, … of longs.
pub fn tables(extras: Extras) -> Arc<Tables> {
    let sym = |text: &str| symbol::intern(text.as_bytes()).unwrap_or(Sym::NULL);
    let schemas = TABLES.iter().zip(extras).map(|(name, extras)| {
        let added = (1..=extras).map(|number| (format!("x{number}"), proto::types::LONG));
        let columns = COLUMNS.iter().map(|(name, ty)| ((*name).to_string(), *ty)).chain(added);
        let columns = columns.map(|(name, ty)| ColumnSchema { name: sym(&name), ty, attr: Attr::None }).collect();
        Schema { name: sym(name), columns, keys: 0 }
    });
    Arc::new(Tables::new(schemas).unwrap_or_default())
}

impl World {
    /// Returns the added columns of the tickerplant's tables; publishers follow a change at once.
    pub fn extras(&self) -> Extras {
        let Some(tick) = &self.tick else { return self.schemas.file };
        let tables = tick.service.plant.tables();
        let columns = |name: &str| tables.find(name.as_bytes()).map_or(0, |(_, spec)| spec.columns.len());
        TABLES.map(|name| columns(name).saturating_sub(COLUMNS.len()))
    }

    /// The operator adds a column to a table; schedules the next change.
    pub fn column_is_added(&mut self) {
        let now = self.extras();
        let Some(rng) = self.schemas.rng.as_mut() else { return };
        let pause_ns = rng.from(3 * SECOND, 15 * SECOND);
        let table = usize::try_from(rng.below(TABLES.len() as u64)).unwrap_or(0);
        let (live, both, restarts) = (rng.percent(60), rng.percent(50), rng.percent(60));
        self.after(pause_ns, WorldEvent::Schema);
        let (Some(extras), Some(file)) = (now.get(table).copied(), self.schemas.file.get(table).copied()) else {
            return;
        };
        let changed = extras.max(file).saturating_add(1);
        if !self.chaotic || self.tick.is_none() || changed > MAX_EXTRAS {
            return;
        }
        if live {
            return self.call_for_columns(table, extras.saturating_add(1), both);
        }
        self.report.fault("table with a column more in the schema file");
        if let Some(file) = self.schemas.file.get_mut(table) {
            *file = changed;
        }
        if restarts {
            self.stop_tick_in_order();
        }
    }

    /// A client of the operator calls `.u.schema`, and adds the column to the schema file or forgets to.
    fn call_for_columns(&mut self, table: usize, extras: usize, both: bool) {
        let Some(line) = self.watchers.first().and_then(|watcher| watcher.line) else { return };
        let mut changed = self.extras();
        let Some(own) = changed.get_mut(table) else { return };
        *own = extras;
        let tables = tables(changed);
        let Some(record) = tables.get(table).and_then(|spec| schema_record(&spec.schema).ok()) else { return };
        let Ok(call) = message::message(MessageKind::Async, |writer| writer.raw(&record)) else { return };
        self.report.fault("column added while the tickerplant runs");
        self.auditor.calls_for_columns(table, extras);
        if let (true, Some(file)) = (both, self.schemas.file.get_mut(table)) {
            *file = extras.max(*file);
        }
        self.send_up(line, call);
    }

    /// Returns the user name of a client.
    pub fn user_of(client: Client) -> Vec<u8> {
        match client {
            Client::Watcher(0) => OPERATOR.to_vec(),
            _ => Vec::new(),
        }
    }
}
