//! Which globals a caller sees, and which it may change.
//!
//! A user whose roles restrict rows has a space of globals (`spaces`). Names that the start-up files or the process's events have assigned are
//! never looked up there: code of the owner that the user calls finds what the owner has put there.

use super::entitled;
use super::globals::Globals;
use super::host::{QueryHost, Rights};
use super::paper_names;
use super::report::Shown;
use crate::q::error::QError;
use crate::q::guard::stem_of;
use crate::q::holds_foreign_code;
use crate::q::host::{Host, NEEDS_OWNER};
use crate::q::names::{namespaces, within};
use crate::table::{Sym, Value, symbol};
use std::collections::hash_map::Entry;
use std::sync::{Arc, PoisonError};

/// Only the feed writes these tables: a client's rows would be on no other node and in no log.
fn no_update(name: Sym) -> QError {
    QError::with("noupdate", format!("{} is fed by the tickerplant", String::from_utf8_lossy(symbol::text(name))))
}

impl QueryHost<'_> {
    pub(super) fn globals(&self) -> &Globals {
        match &self.rights {
            Rights::Read => &self.globals,
            Rights::Write(own) | Rights::Apart { globals: own, .. } => own,
        }
    }

    pub(super) fn is_fed(&self, name: Sym) -> bool {
        let text = symbol::text(name);
        let is_figure = || paper_names::is_figure(text) && self.globals().get(name).is_none();
        self.view.tables.get(name).is_some() || text.starts_with(b".rdb.") || is_figure()
    }

    pub(super) fn own(&self) -> [Sym; 4] {
        [self.scope.windows, self.scope.stats, self.scope.windows_v1, self.scope.stats_v1]
    }

    /// Checks that a name is not fed by the tickerplant.
    pub(super) fn check_fed(&self, name: Sym) -> Result<(), QError> {
        if self.is_fed(name) { Err(no_update(name)) } else { Ok(()) }
    }

    /// Checks whether the caller may change this global.
    pub(super) fn check_change(&self, name: Sym) -> Result<(), QError> {
        self.check_fed(name)?;
        // `trade.time` is a column of a table.
        if self.assigns_own()
            && let Some(stem) = stem_of(symbol::text(name)).and_then(symbol::find)
        {
            self.check_fed(stem)?;
        }
        let is_remote = self.caller().remote;
        if is_remote && name == self.scope.day_end {
            return Err(QError::with("access", ".u.end can only be set in start-up files"));
        }
        if is_remote && self.scope.rules.block_writes {
            return Err(QError::with("noupdate", "clients may not assign (-b)"));
        }
        let authors = &self.globals().authors;
        if self.is_restricted() && !self.by_owner && authors.is_owners(name) {
            let name = symbol::text(name).escape_ascii();
            return Err(QError::with("access", format!("{name} belongs to the process, and your rows are restricted")));
        }
        authors.check(name, is_remote)
    }

    /// Reads a table once per evaluation: the rows that the caller may read.
    pub(super) fn read(&self, name: Sym, table: impl FnOnce() -> Option<Value>) -> Option<Value> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match seen.entry(name) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unseen) => {
                let table = table()?;
                unseen.insert(match &self.requester.restricted {
                    Some(grants) => entitled::rows(grants, name, table, &self.view, self.caller()),
                    None => Ok(table),
                })
            }
        };
        found.as_ref().ok().cloned()
    }

    /// Takes the emptying of a table in the owner's `.u.end`, as `.Q.hdpf` and r.q do it once the day is saved: for the rest of the
    /// call the table is shown without rows. The node drops the ended day's rows by itself. Returns whether that is what is assigned.
    pub(super) fn empties(&self, name: Sym, value: &Value) -> bool {
        let (Rights::Apart { .. }, Value::Table(empty)) = (&self.rights, value) else { return false };
        if empty.count() > 0 || self.view.tables.get(name).is_none() {
            return false;
        }
        let is_like = matches!(self.global(name), Some(Value::Table(held)) if held.names == empty.names);
        if is_like {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Ok(value.clone()));
        }
        is_like
    }

    /// Returns the value of a name in the caller's own space.
    pub(super) fn own_value(&self, name: Sym) -> Option<&Value> {
        self.space.as_ref()?.get(name).filter(|_| !self.globals().authors.is_owners(name))
    }

    /// Assigns a name in the caller's own space.
    pub(super) fn assign_own(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        let bytes_most = self.scope.spaces.bytes_most;
        match (&self.rights, &mut self.space) {
            (Rights::Write(_), Some(space)) => {
                self.has_own_changed = true;
                Arc::make_mut(space).set(name, value, bytes_most)
            }
            _ => Err(NEEDS_OWNER),
        }
    }

    /// Deletes a name in the caller's own space.
    pub(super) fn remove_own(&mut self, name: Sym) -> Result<(), QError> {
        match (&self.rights, &mut self.space) {
            (Rights::Write(_), Some(space)) => {
                self.has_own_changed = true;
                Arc::make_mut(space).remove(name);
                Ok(())
            }
            _ => Err(NEEDS_OWNER),
        }
    }

    /// Whether an assignment concerns the caller's own space, not the globals that all share.
    pub(super) fn assigns_own(&self) -> bool {
        self.is_restricted() && !self.by_owner
    }

    /// Whether the caller sees the whole value of a global that all share.
    pub(super) fn sees_all(&self, name: Sym) -> bool {
        let globals = self.globals();
        let is_filtered = globals.authors.is_of_start(name) && globals.get(name).is_some_and(entitled::has_rows);
        !self.is_restricted() || !(self.is_hidden(name) || is_filtered)
    }

    /// Checks a value that code of the owner stores on behalf of a caller: a function of a user whose rows are restricted must not run for
    /// others.
    pub(super) fn check_code(&self, value: &Value) -> Result<(), QError> {
        if self.is_restricted() && holds_foreign_code(value) {
            return Err(QError::with(
                "access",
                "functions of users whose rows are restricted are not stored for others",
            ));
        }
        Ok(())
    }

    /// Returns the globals that the caller sees, by their full names.
    fn listed(&self) -> impl Iterator<Item = Sym> {
        let globals = self.globals();
        globals.authors.list(&self.requester.asking);
        let shared = globals.all().filter(|name| !self.is_restricted() || self.is_visible(*name));
        shared.chain(self.space.iter().flat_map(|space| space.globals().all()))
    }

    /// Returns the names in a namespace that the caller sees.
    pub(super) fn visible_names(&self, namespace: Sym) -> Vec<Sym> {
        let tables = self.view.tables.iter().map(|table| table.schema().name);
        let fed = tables.chain(self.own()).filter(|name| !self.is_restricted() || self.is_visible(*name));
        within(fed.chain(self.listed()), namespace)
    }

    /// Returns the top-level namespaces that the caller sees.
    pub(super) fn visible_namespaces(&self) -> Vec<Sym> {
        namespaces(self.listed())
    }

    /// Whether a restricted caller must not read a name that is no table of the feed: the node's figures, and globals that others
    /// have assigned.
    pub(super) fn is_hidden(&self, name: Sym) -> bool {
        let is_of_paper = || {
            let text = symbol::text(name);
            (paper_names::is_figure(text) || paper_names::arity(text).is_some()) && self.globals().get(name).is_none()
        };
        let is_figures = name == self.scope.stats || name == self.scope.stats_v1 || is_of_paper();
        self.is_restricted()
            && ((is_figures && !self.requester.sees_figures())
                || !self.globals().authors.is_of(name, &self.caller().user))
    }

    /// Whether a restricted caller sees the name in lists of names.
    pub(super) fn is_visible(&self, name: Sym) -> bool {
        let globals = self.globals();
        let is_table = self.view.tables.get(name).is_some()
            || (globals.authors.is_of_start(name) && globals.get(name).is_some_and(entitled::has_rows));
        !self.is_hidden(name) && (!is_table || self.requester.shows(name) != Shown::No)
    }
}
