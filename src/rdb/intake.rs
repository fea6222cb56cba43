//! Tables and windows of a node, and the invariant that every update is taken exactly once, in order. No sockets, files
//! or clock.

use super::update::Update;
use super::windows::Window;
use crate::log::Proof;
use crate::table::store::{Refused, Store};
use crate::table::{Schema, symbol};
use std::io;

/// The window that updates are appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub window: Window,
    /// End (exclusive) of a window that is being rebuilt; `None` for the live one.
    pub last: Option<u64>,
}

/// Result of taking an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Rows(usize),
    /// The update lies outside the node's windows, or its table is not subscribed to.
    Nothing,
}

/// Why an update was not taken. The store is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    #[error("update {index}: {refused}")]
    Refused { index: u64, refused: Refused },
    #[error("update {index}: mismatch: table {table} has columns {expected}, got {found}")]
    Names { index: u64, table: String, expected: String, found: String },
    /// A gap or a duplicate: the connection is no longer reliable.
    #[error("got update {found}, expected {expected}")]
    Index { expected: u64, found: u64 },
    /// The table has no room: the node is full.
    #[error("update {index}: {refused}")]
    Full { index: u64, refused: Refused },
}

/// Tables and windows of a node.
#[derive(Debug)]
pub struct Intake {
    store: Store,
    /// NUL-terminated column names of each table, as on the wire, to compare with those of an arriving table.
    names: Vec<Vec<u8>>,
    table_names: Vec<Vec<u8>>,
    /// The subscription covers every update, so indices have no gaps; a selection of tables or symbols has gaps.
    gapless: bool,
    held: Vec<Window>,
    open: Option<Open>,
}

fn on_the_wire(schema: &Schema) -> Vec<u8> {
    let mut names = Vec::new();
    for column in &schema.columns {
        names.extend_from_slice(symbol::text(column.name));
        names.push(0);
    }
    names
}

impl Intake {
    /// `gapless`: the subscription is for everything.
    pub fn new(store: Store, gapless: bool) -> Intake {
        Intake { store, names: Vec::new(), table_names: Vec::new(), gapless, held: Vec::new(), open: None }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Sets whether missing trailing columns are null: true only for elastick's logs, where they stem from before a
    /// schema change.
    pub fn set_fills(&mut self, fills: bool) {
        self.store.set_fills(fills);
    }

    /// Defines the tables. Keeps rows and windows if each table is unchanged or has new columns at its end. Otherwise
    /// drops them and returns true.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub fn define(&mut self, schemas: Vec<Schema>) -> io::Result<bool> {
        let same = schemas.len() == self.table_names.len()
            && self.store.schemas().zip(&schemas).all(|(old, new)| old.name == new.name && old.same_columns(new));
        if same {
            return Ok(false);
        }
        let before = std::mem::take(&mut self.table_names);
        self.names = schemas.iter().map(on_the_wire).collect();
        self.table_names = schemas.iter().map(|schema| symbol::text(schema.name).to_vec()).collect();
        // If there is no room for the nulls, the rows are dropped and replayed from the log.
        if !before.is_empty() && self.store.extend(&schemas).unwrap_or(false) {
            let place = |name: &Vec<u8>| before.iter().position(|before| before == name);
            let tables: Vec<_> = self.table_names.iter().map(place).zip(self.store.rows()).collect();
            let open = self.open.iter_mut().map(|open| &mut open.window);
            self.held.iter_mut().chain(open).for_each(|window| window.reordered(&tables));
            return Ok(false);
        }
        self.store.define(schemas)?;
        self.held.clear();
        self.open = None;
        Ok(true)
    }

    /// Returns the schemas with `change` applied; `None` if it adds no column or its table is unknown.
    pub fn changed_by(&self, change: &Schema) -> Option<Vec<Schema>> {
        let mut schemas: Vec<Schema> = self.store.schemas().map(Schema::clone).collect();
        let own = schemas.iter_mut().find(|schema| schema.name == change.name)?;
        if !own.is_extended_by(change) || own.same_columns(change) {
            return None;
        }
        *own = change.clone();
        Some(schemas)
    }

    /// Advances past an update that has no rows.
    ///
    /// # Errors
    /// A gap or a duplicate.
    pub fn pass(&mut self, index: u64) -> Result<(), TakeError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let expected = open.window.next;
        if index < expected || (self.gapless && index > expected) {
            return Err(TakeError::Index { expected, found: index });
        }
        if open.last.is_none_or(|last| index < last) {
            open.window.next = index.saturating_add(1);
        }
        Ok(())
    }

    /// Opens a window at `first`; `last` is its end if it is a closed window to be rebuilt.
    pub fn open(&mut self, first: u64, last: Option<u64>) {
        self.close();
        self.open = Some(Open { window: Window::new(first, &self.store.rows()), last });
    }

    pub fn open_window(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    pub fn held(&self) -> &[Window] {
        &self.held
    }

    /// Returns the next update index that the open window expects.
    pub fn next(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.window.next)
    }

    /// Returns whether the window being rebuilt is complete.
    pub fn is_rebuilt(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.last.is_some_and(|last| open.window.next >= last))
    }

    /// Takes update `index`; without an index, from a tickerplant that sends none, it counts as the next one.
    ///
    /// # Errors
    /// [`TakeError`]; the store is unchanged then.
    pub fn take(&mut self, update: &Update<'_>, index: Option<u64>) -> Result<Taken, TakeError> {
        let Some(open) = &mut self.open else { return Ok(Taken::Nothing) };
        let expected = open.window.next;
        let index = index.unwrap_or(expected);
        if index < expected || (self.gapless && index > expected) {
            return Err(TakeError::Index { expected, found: index });
        }
        if open.last.is_some_and(|last| index >= last) {
            return Ok(Taken::Nothing);
        }
        let table = self.table_names.iter().position(|name| name == update.table);
        let took = match table {
            None => Taken::Nothing,
            Some(table) => {
                if let Some(found) = update.names
                    && let Some(expected) = self.names.get(table).filter(|expected| *expected != found)
                {
                    let words = |names: &[u8]| String::from_utf8_lossy(names).replace('\0', " ").trim_end().to_string();
                    let table = String::from_utf8_lossy(update.table).into_owned();
                    return Err(TakeError::Names { index, table, expected: words(expected), found: words(found) });
                }
                match self.store.append(table, update.count, update.objects) {
                    Ok(rows) => {
                        open.window.enter(table, rows, update.objects);
                        Taken::Rows(rows)
                    }
                    Err(refused) if refused.is_full() => return Err(TakeError::Full { index, refused }),
                    Err(refused) => return Err(TakeError::Refused { index, refused }),
                }
            }
        };
        open.window.next = index.saturating_add(1);
        Ok(took)
    }

    /// Returns whether an update of this table is due but the table is undefined.
    pub fn lacks(&self, table: &[u8]) -> bool {
        self.gapless && self.open.is_some() && !self.table_names.iter().any(|name| name == table)
    }

    /// Advances past the next update without taking it.
    pub fn skip(&mut self) {
        if let Some(open) = &mut self.open {
            open.window.next = open.window.next.saturating_add(1);
        }
    }

    /// Advances past the next update, which was rejected, and counts it as missing.
    pub fn skip_refused(&mut self) {
        self.count_refused();
        self.skip();
    }

    /// Counts an update that [`Intake::take`] has already advanced past as rejected.
    pub fn count_refused(&mut self) {
        if let Some(open) = &mut self.open {
            open.window.refused = open.window.refused.saturating_add(1);
        }
    }

    /// Returns the number of updates missing from the windows held because they were rejected.
    pub fn refused(&self) -> u64 {
        let open = self.open.iter().map(|open| &open.window);
        self.held.iter().chain(open).map(|window| window.refused).sum()
    }

    /// Advances to `next` for a subscription with a selection: all updates before it were sent, and the rest did not match.
    pub fn reach(&mut self, next: u64) {
        if let Some(open) = self.open.as_mut().filter(|open| open.window.next < next) {
            open.window.next = next;
        }
    }

    /// Closes the open window at the next index; keeps it unless it is empty. Later updates are dropped.
    pub fn close(&mut self) -> Option<Window> {
        let window = self.open.take()?.window;
        if !window.is_empty() {
            self.held.push(window.clone());
        }
        Some(window)
    }

    /// Drops the open window and its rows.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub fn abandon(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some(open) => self.cut(&open.window),
            None => Ok(()),
        }
    }

    /// Hides the node's rows from queries, or shows them. Used while rebuilding a draining node's window: that node
    /// still answers for it, and this one holds nothing else.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub fn set_hidden(&mut self, hidden: bool) -> io::Result<()> {
        self.store.set_hidden(hidden)
    }

    pub fn is_hidden(&self) -> bool {
        self.store.is_hidden()
    }

    /// Drops a closed window and its rows; returns false if the node does not hold it.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub fn forget(&mut self, first: u64, last: u64) -> io::Result<bool> {
        let Some(at) = self.held.iter().position(|held| (held.first, held.next) == (first, last)) else {
            return Ok(false);
        };
        let window = self.held.remove(at);
        self.cut(&window)?;
        Ok(true)
    }

    fn cut(&mut self, window: &Window) -> io::Result<()> {
        let places = window.places();
        self.store.cut(&places)?;
        let open = self.open.iter_mut().map(|open| &mut open.window);
        self.held.iter_mut().chain(open).for_each(|held| held.shift(&places));
        Ok(())
    }

    /// Drops all rows and windows, and returns their memory to the system.
    ///
    /// # Errors
    /// The address space is exhausted.
    pub fn clear(&mut self) -> io::Result<()> {
        self.held.clear();
        self.open = None;
        self.store.clear()
    }

    /// Returns the proof of a window.
    pub fn proof(&self, window: &Window) -> Proof {
        window.proof(self.table_names.iter().map(Vec::as_slice))
    }

    /// Returns the number of rows in all tables.
    pub fn rows(&self) -> u64 {
        self.store.rows().iter().map(|rows| *rows as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::schema::ColumnSchema;
    use crate::table::vector::Attr;
    use crate::table::{Items, Value};
    use proptest::prelude::*;
    use proto::{Writer, types};

    fn schema(name: &str) -> Schema {
        let sym = |text: &str| symbol::intern(text.as_bytes()).expect("room");
        let column = |name, ty| ColumnSchema { name: sym(name), ty, attr: Attr::None };
        Schema { name: sym(name), columns: vec![column("time", 16), column("n", 7)], keys: 0 }
    }

    fn intake(gapless: bool) -> Intake {
        let mut intake = Intake::new(Store::new(1 << 20), gapless);
        intake.define(vec![schema("a"), schema("b")]).expect("reserve");
        intake
    }

    fn objects(values: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.vector(types::TIMESPAN, 0, values);
        w.vector(types::LONG, 0, values);
        w.finish().expect("encodes");
        out
    }

    fn take(intake: &mut Intake, table: &str, index: u64, values: &[i64]) -> Result<Taken, TakeError> {
        let objects = objects(values);
        let update = Update { table: table.as_bytes(), names: None, count: 2, objects: &objects, index: Some(index) };
        intake.take(&update, Some(index))
    }

    fn values(intake: &Intake, table: &str) -> Vec<i64> {
        let name = symbol::intern(table.as_bytes()).expect("room");
        let tables = intake.store().shared().current();
        let Some(Value::Table(table)) = tables.get(name).map(|t| t.snapshot(usize::MAX)) else { panic!("no table") };
        let Some(Items::Long(values)) = table.columns.get(1).map(|c| c.items.clone()) else { panic!("type") };
        values.to_vec()
    }

    #[test]
    fn nothing_is_taken_without_a_window() {
        let mut intake = intake(true);
        assert_eq!(take(&mut intake, "a", 0, &[1]).expect("no error"), Taken::Nothing);
        assert_eq!(intake.rows(), 0);
    }

    #[test]
    fn a_gap_and_a_duplicate_are_errors() {
        let mut intake = intake(true);
        intake.open(5, None);
        take(&mut intake, "a", 5, &[1]).expect("taken");
        for found in [5, 7] {
            let error = take(&mut intake, "a", found, &[1]).expect_err("index").to_string();
            assert_eq!(error, format!("got update {found}, expected 6"));
        }
        assert_eq!(intake.rows(), 1);
    }

    #[test]
    fn a_subscription_to_some_may_have_gaps_but_no_duplicates() {
        let mut intake = intake(false);
        intake.open(0, None);
        take(&mut intake, "a", 3, &[1]).expect("taken");
        take(&mut intake, "a", 9, &[1]).expect("taken");
        assert!(take(&mut intake, "a", 9, &[1]).is_err());
        assert_eq!(intake.next(), Some(10));
    }

    #[test]
    fn after_a_close_updates_are_dropped() {
        let mut intake = intake(true);
        intake.open(0, None);
        take(&mut intake, "a", 0, &[1, 2]).expect("taken");
        let window = intake.close().expect("open");
        assert_eq!((window.first, window.next, window.rows()), (0, 1, 2));
        assert_eq!(take(&mut intake, "a", 1, &[3]).expect("dropped"), Taken::Nothing);
        assert_eq!(values(&intake, "a"), [1, 2]);
    }

    #[test]
    fn a_rejected_update_leaves_window_and_rows_alone() {
        let mut intake = intake(true);
        intake.open(0, None);
        let mut wrong = Vec::new();
        let mut w = Writer::new(&mut wrong);
        w.vector(types::TIMESPAN, 0, &[1i64]);
        w.vector(types::FLOAT, 0, &[1.0]);
        w.finish().expect("encodes");
        let update = Update { table: b"a", names: None, count: 2, objects: &wrong, index: None };
        let error = intake.take(&update, None).expect_err("type").to_string();
        assert_eq!(error, "update 0: table a, column n: type: it has type float, the schema has long");
        assert_eq!((intake.next(), intake.rows()), (Some(0), 0));
    }

    #[test]
    fn a_rejected_update_is_missing_as_long_as_its_window_is_held() {
        let mut intake = intake(true);
        intake.open(0, None);
        take(&mut intake, "a", 0, &[1]).expect("taken");
        intake.skip_refused();
        intake.close();
        intake.open(2, None);
        take(&mut intake, "c", 2, &[1]).expect("passed over");
        assert!(intake.lacks(b"c"));
        intake.count_refused();
        assert_eq!((intake.refused(), intake.next()), (2, Some(3)));
        assert!(intake.forget(0, 2).expect("address space"));
        assert_eq!(intake.refused(), 1);
        intake.abandon().expect("address space");
        assert_eq!(intake.refused(), 0);
    }

    #[test]
    fn other_column_names_are_an_error_in_words() {
        let mut intake = intake(true);
        intake.open(0, None);
        let objects = objects(&[1]);
        let names = Some(&b"time\0m\0"[..]);
        let update = Update { table: b"a", names, count: 2, objects: &objects, index: Some(0) };
        let error = intake.take(&update, Some(0)).expect_err("names").to_string();
        assert_eq!(error, "update 0: mismatch: table a has columns time n, got time m");
    }

    #[test]
    fn a_rebuilt_window_takes_no_more_than_its_own() {
        let mut intake = intake(true);
        intake.open(2, Some(4));
        for index in 2..4 {
            assert!(!intake.is_rebuilt());
            take(&mut intake, "a", index, &[index as i64]).expect("taken");
        }
        assert!(intake.is_rebuilt());
        assert_eq!(take(&mut intake, "a", 4, &[9]).expect("dropped"), Taken::Nothing);
        assert_eq!(values(&intake, "a"), [2, 3]);
    }

    #[test]
    fn two_nodes_that_take_the_same_prove_the_same() {
        let (mut one, mut other) = (intake(true), intake(true));
        one.open(0, None);
        for index in 0..6 {
            take(&mut one, if index % 2 == 0 { "a" } else { "b" }, index, &[index as i64]).expect("taken");
        }
        other.open(3, Some(6));
        for index in 3..6 {
            take(&mut other, if index % 2 == 0 { "a" } else { "b" }, index, &[index as i64]).expect("taken");
        }
        let close = |intake: &mut Intake| {
            let window = intake.close().expect("open");
            intake.proof(&window)
        };
        let (mut whole, last) = (close(&mut one), close(&mut other));
        other.open(0, Some(3));
        for index in 0..3 {
            take(&mut other, if index % 2 == 0 { "a" } else { "b" }, index, &[index as i64]).expect("taken");
        }
        whole.subtract(&last);
        assert_eq!(whole, close(&mut other));
    }

    /// First and next update, values in `a` and in `b`.
    type ModelWindow = (u64, u64, Vec<i64>, Vec<i64>);

    proptest! {
        #[test]
        fn a_forgotten_window_takes_its_own_rows_with_it(
            windows in proptest::collection::vec((0usize..6, 0usize..4, any::<bool>()), 1..8),
            forget in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        ) {
            let mut intake = intake(true);
            let mut model: Vec<ModelWindow> = Vec::new();
            let mut index = 0;
            for (updates, rows, in_a) in windows {
                intake.open(index, Some(index + updates as u64));
                let first = index;
                let (mut a, mut b) = (Vec::new(), Vec::new());
                for _ in 0..updates {
                    let values: Vec<i64> = (0..rows as i64).map(|row| index as i64 * 10 + row).collect();
                    take(&mut intake, if in_a { "a" } else { "b" }, index, &values).expect("taken");
                    if in_a { a.extend(values) } else { b.extend(values) }
                    index += 1;
                }
                intake.close();
                if updates > 0 {
                    model.push((first, index, a, b));
                }
            }
            for which in forget {
                if model.is_empty() {
                    break;
                }
                let (first, last, ..) = model.remove(which.index(model.len()));
                prop_assert!(intake.forget(first, last).expect("reserve"));
            }
            let all = |of: fn(&ModelWindow) -> &Vec<i64>| -> Vec<i64> {
                model.iter().flat_map(|window| of(window).clone()).collect()
            };
            prop_assert_eq!(values(&intake, "a"), all(|w| &w.2));
            prop_assert_eq!(values(&intake, "b"), all(|w| &w.3));
            prop_assert!(!intake.forget(999, 1000).expect("reserve"));
        }
    }
}
