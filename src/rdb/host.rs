//! What a query sees of a node: tables as they were when it first looked, what clients assigned, and `.rdb`.

use super::globals::{Globals, SharedGlobals, within};
use super::report::{self, Constants};
use super::shared::{Shared, State};
use crate::q::error::QError;
use crate::q::extend;
use crate::q::host::{Caller, Host, NEEDS_OWNER};
use crate::sys::shared::Shared as Slice;
use crate::table::store::Tables;
use crate::table::{Sym, Value, symbol};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What all queries of a node share.
pub struct NodeScope {
    pub shared: Arc<Shared>,
    pub globals: SharedGlobals,
    pub constants: Constants,
    /// Clients may read but not assign.
    pub block_writes: bool,
    /// Most bytes that clients may hold in what they assign.
    pub global_bytes_most: u64,
    windows: Sym,
    stats: Sym,
}

impl NodeScope {
    pub fn new(shared: Arc<Shared>, constants: Constants, block_writes: bool, global_bytes_most: u64) -> NodeScope {
        let name = |text: &[u8]| symbol::intern(text).unwrap_or(Sym::NULL);
        NodeScope {
            shared,
            globals: SharedGlobals::default(),
            constants,
            block_writes,
            global_bytes_most,
            windows: name(b".rdb.windows"),
            stats: name(b".rdb.stats"),
        }
    }
}

/// How a query runs: beside others on a snapshot, or alone with the right to assign.
enum Rights {
    Read,
    Write(Globals),
}

/// One query's host.
pub struct QueryHost<'a> {
    scope: &'a NodeScope,
    tables: Arc<Tables>,
    /// As it was with these tables.
    state: Arc<State>,
    /// A table is cut at the rows it has when the query first asks for it, and stays so.
    seen: RefCell<HashMap<Sym, Value>>,
    globals: Arc<Globals>,
    rights: Rights,
    caller: Caller,
}

impl<'a> QueryHost<'a> {
    /// For a query beside others.
    pub fn reading(scope: &'a NodeScope, caller: Caller) -> QueryHost<'a> {
        let ((tables, state), globals) = (scope.shared.view(), scope.globals.current());
        QueryHost { scope, tables, state, seen: RefCell::default(), globals, rights: Rights::Read, caller }
    }

    /// For a query that assigns. The caller sees to it that there is one at a time.
    pub fn writing(scope: &'a NodeScope, caller: Caller) -> QueryHost<'a> {
        let host = QueryHost::reading(scope, caller);
        let own = Globals::clone(&host.globals);
        QueryHost { rights: Rights::Write(own), ..host }
    }

    /// Makes what a writing query assigned everybody's. As in kdb+, that goes for one that ended in an error too.
    pub fn finish(self) {
        if let Rights::Write(globals) = self.rights {
            self.scope.globals.replace(globals);
        }
    }

    fn globals(&self) -> &Globals {
        match &self.rights {
            Rights::Read => &self.globals,
            Rights::Write(own) => own,
        }
    }

    fn is_fed(&self, name: Sym) -> bool {
        self.tables.get(name).is_some() || symbol::text(name).starts_with(b".rdb.")
    }

    fn own(&self) -> [Sym; 2] {
        [self.scope.windows, self.scope.stats]
    }
}

/// Tables belong to the tickerplant's feed: rows that a client put in would be on no other node and in no log.
fn no_update(name: Sym) -> QError {
    QError::with("noupdate", format!("{} is fed by the tickerplant", String::from_utf8_lossy(symbol::text(name))))
}

impl Host for QueryHost<'_> {
    fn global(&self, name: Sym) -> Option<Value> {
        if let Some(table) = self.tables.get(name) {
            let mut seen = self.seen.borrow_mut();
            return Some(seen.entry(name).or_insert_with(|| table.snapshot(usize::MAX)).clone());
        }
        if name == self.scope.windows {
            return Some(report::windows(&self.state));
        }
        if name == self.scope.stats {
            let open = self.scope.shared.queries_open.load(Ordering::SeqCst);
            return Some(report::stats(&self.scope.shared.state(), &self.scope.constants, open));
        }
        self.globals().get(name).cloned()
    }

    fn assign(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        if self.is_fed(name) {
            return Err(no_update(name));
        }
        if self.scope.block_writes && self.caller.remote {
            return Err(QError::with("noupdate", "clients may not assign here"));
        }
        let held = u64::try_from(self.scope.shared.global_bytes.load(Ordering::Relaxed)).unwrap_or(0);
        let most = self.scope.global_bytes_most;
        match &mut self.rights {
            Rights::Read => Err(NEEDS_OWNER),
            Rights::Write(_) if held > most => {
                Err(QError::with("wsfull", format!("clients hold {held} bytes in what they assigned, at most {most}")))
            }
            Rights::Write(globals) => globals.set(name, value),
        }
    }

    fn names(&self, namespace: Sym) -> Vec<Sym> {
        let tables = self.tables.iter().map(|table| table.schema().name);
        let mut names = within(tables.chain(self.own()), namespace);
        names.extend(self.globals().names(namespace));
        names
    }

    fn native(&self, _: Sym) -> Option<u8> {
        None
    }

    fn call(&mut self, name: Sym, _: &[Value]) -> Result<Value, QError> {
        Err(QError::signal(symbol::text(name)))
    }

    fn append(&mut self, name: Sym, rows: &Value) -> Result<Value, QError> {
        if self.is_fed(name) {
            return Err(no_update(name));
        }
        let old = match self.globals().get(name) {
            Some(old) => old.clone(),
            // As in kdb+, a table inserted under a new name defines it.
            None => match rows {
                Value::Table(table) => Value::Table(Arc::new(table.rows::<u32>(&[]))),
                _ => return Err(QError::signal(symbol::text(name))),
            },
        };
        let before = old.count();
        let new = extend(old, rows)?;
        let after = new.count();
        self.assign(name, new)?;
        Ok(Value::longs((before as i64..after as i64).collect()))
    }

    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn rows_of(&self, column: &Slice<Sym>, symbol: Sym) -> Option<Vec<u32>> {
        self.tables.iter().find_map(|table| Some(table.index_of(column)?.rows(column, symbol)))
    }
}
