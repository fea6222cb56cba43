//! Globals of the tickerplant outside of `.u`: those of its start-up files, which clients cannot change, and those of clients.
//!
//! Expressions read a version that does not change, and publish their assignments at their end, if nobody has changed what they read.

use super::core::schema::Tables;
use crate::config::Limit;
use crate::less;
use crate::metrics;
use crate::q::{Console, QError, to_wire};
use crate::table::{Schema, Sym, Value, symbol};
use proto::Writer;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of names: an assignment copies the map.
pub const MAX_NAMES: usize = 10_000;

/// A global and its serialised size; of the owner's own definitions 0.
#[derive(Clone, Debug)]
struct Held {
    value: Value,
    size: usize,
    /// Distinguishes this assignment from others of the name.
    version: u64,
}

/// One version of the globals.
#[derive(Clone, Debug, Default)]
pub struct Globals {
    values: HashMap<Sym, Held>,
    order: Vec<Sym>,
    /// Names that the start-up files have defined, and those that they assign later.
    owned: HashSet<Sym>,
    /// Their namespaces, without those of the language.
    spaces: HashSet<Vec<u8>>,
    bytes: usize,
    bytes_most: usize,
    assignments: u64,
    /// Display settings.
    pub console: Console,
}

/// Returns the first part of a name inside a namespace, `.app` of `.app.sub.f`; `None` for a name of the root.
fn space_of(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b".")?;
    let end = rest.iter().position(|byte| *byte == b'.').unwrap_or(rest.len());
    name.get(..=end)
}

impl Globals {
    /// Globals of the start-up files, with room for `bytes_most` bytes more.
    pub fn new(defined: Vec<(Sym, Value)>, bytes_most: usize) -> Globals {
        let mut globals = Globals { bytes_most, ..Globals::default() };
        for (name, value) in defined {
            globals.own(name);
            globals.put(name, value, 0);
        }
        globals
    }

    pub fn get(&self, name: Sym) -> Option<&Value> {
        self.values.get(&name).map(|held| &held.value)
    }

    /// Whether the start-up files have defined the name.
    pub fn is_owned(&self, name: Sym) -> bool {
        self.owned.contains(&name)
    }

    /// Serialised size of all globals defined by clients.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn own(&mut self, name: Sym) {
        self.owned.insert(name);
        if let Some(space) = space_of(symbol::text(name)) {
            self.spaces.insert(space.to_vec());
        }
    }

    fn put(&mut self, name: Sym, value: Value, size: usize) {
        self.assignments = self.assignments.wrapping_add(1);
        let held = Held { value, size, version: self.assignments };
        if self.values.insert(name, held).is_none() {
            self.order.push(name);
        }
    }

    /// Updates the globals of the tables to their current schema.
    pub fn show_tables(&mut self, tables: &Tables) {
        for spec in tables.iter() {
            let name = spec.schema.name;
            let is_other = |value: &Value| Schema::of(name, value).is_some_and(|own| !own.same_columns(&spec.schema));
            if let Some(held) = self.values.get_mut(&name).filter(|held| is_other(&held.value)) {
                held.value = spec.schema.empty();
            }
        }
    }

    /// Checks that a client may assign this name.
    ///
    /// # Errors
    /// `noupdate` for a name of the start-up files, or in one of their namespaces.
    pub fn check(&self, name: Sym) -> Result<(), QError> {
        let text = symbol::text(name);
        let why = match space_of(text).filter(|space| self.spaces.contains(*space)) {
            _ if self.owned.contains(&name) => "is defined in the start-up files of the tickerplant".to_string(),
            Some(space) => format!("is in {}, a namespace of the tickerplant's start-up files", space.escape_ascii()),
            None => return Ok(()),
        };
        Err(QError::with("noupdate", format!("{} {why}; clients cannot change it", text.escape_ascii())))
    }

    /// Defines or replaces a global.
    ///
    /// # Errors
    /// `noupdate` if a client may not; `wsfull` if the globals of all clients exceed the limit, `limit` for too many; a value that
    /// cannot be serialised.
    pub fn set(&mut self, name: Sym, value: Value, is_owner: bool) -> Result<(), QError> {
        if !is_owner {
            self.check(name)?;
        }
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        to_wire(&value, &mut writer)?;
        writer.finish().map_err(|error| QError::with("type", error.to_string()))?;
        let size = object.len().saturating_add(symbol::text(name).len());
        let before = self.values.get(&name).map(|held| held.size);
        let bytes = less!(self.bytes, before.unwrap_or(0)).saturating_add(size);
        if before.is_none() && self.order.len() >= MAX_NAMES {
            metrics::refused(Limit::globals_bytes);
            return Err(QError::with("limit", format!("more than {MAX_NAMES} names")));
        }
        if bytes > self.bytes_most {
            metrics::refused(Limit::globals_bytes);
            return Err(QError::with(
                "wsfull",
                format!("globals of clients are limited to {} bytes in all (--limit-globals)", self.bytes_most),
            ));
        }
        self.bytes = bytes;
        if is_owner {
            self.own(name);
        }
        self.put(name, value, size);
        Ok(())
    }

    /// Returns the names in a namespace, without its prefix, in order of definition.
    pub fn names(&self, namespace: &[u8]) -> Vec<&'static [u8]> {
        let inside = |name: &Sym| {
            let text = symbol::text(*name);
            match namespace {
                b"" | b"." => (!text.starts_with(b".")).then_some(text),
                space => text.strip_prefix(space)?.strip_prefix(b".").filter(|rest| !rest.contains(&b'.')),
            }
        };
        self.order.iter().filter_map(inside).collect()
    }
}

/// What an expression has read and assigned.
#[derive(Debug, Default)]
pub struct Access {
    /// Names of clients that it has read.
    pub read: HashSet<Sym>,
    /// It has listed names.
    pub listed: bool,
    /// Names that it has assigned, in order, and whether with the owner's rights.
    pub assigned: Vec<(Sym, bool)>,
}

/// The current version.
#[derive(Debug, Default)]
pub struct SharedGlobals(Mutex<Arc<Globals>>);

impl From<Globals> for SharedGlobals {
    fn from(globals: Globals) -> SharedGlobals {
        SharedGlobals(Mutex::new(Arc::new(globals)))
    }
}

impl SharedGlobals {
    fn locked(&self) -> MutexGuard<'_, Arc<Globals>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn current(&self) -> Arc<Globals> {
        Arc::clone(&self.locked())
    }

    /// Updates the globals of the tables. On the event-loop thread: at most one schema change of an operator pays for the copy.
    pub fn show_tables(&self, tables: &Tables) {
        Arc::make_mut(&mut *self.locked()).show_tables(tables);
    }

    /// Adopts the assignments of an expression: it began with the globals `base`, and `own` are those after it. Returns false if a global
    /// that it has read is another by now: the expression has to be evaluated again.
    ///
    /// # Errors
    /// Those of [`Globals::set`].
    pub fn publish(&self, base: &Arc<Globals>, own: &Globals, access: &Access) -> Result<bool, QError> {
        if access.assigned.is_empty() {
            return Ok(true);
        }
        loop {
            // Threads copy the map without the lock, which the event loop takes too.
            let current = self.current();
            let version = |of: &Globals, name: &Sym| of.values.get(name).map(|held| held.version);
            let is_same = Arc::ptr_eq(&current, base);
            let is_other = |name: &Sym| version(&current, name) != version(base, name);
            if !is_same && (access.listed || access.read.iter().any(is_other)) {
                return Ok(false);
            }
            let mut next = Globals::clone(&current);
            for (name, is_owner) in &access.assigned {
                if let Some(value) = own.get(*name) {
                    next.set(*name, value.clone(), *is_owner)?;
                }
            }
            let mut locked = self.locked();
            if Arc::ptr_eq(&locked, &current) {
                *locked = Arc::new(next);
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sym(text: &str) -> Sym {
        symbol::intern(text.as_bytes()).expect("room")
    }

    fn of_owner(names: &[&str]) -> Globals {
        Globals::new(names.iter().map(|name| (sym(name), Value::Long(1))).collect(), 1 << 20)
    }

    #[test]
    fn clients_replace_no_name_of_the_start_up_files() {
        let mut globals = of_owner(&["ok", ".app.f", ".z.pw"]);
        for name in ["ok", ".app.f", ".app.g", ".app.sub.h", ".app", ".z.pw", ".z.pg"] {
            let error = globals.set(sym(name), Value::Long(2), false).unwrap_err();
            assert_eq!(&*error.name, b"noupdate", "{name}");
        }
        for name in ["okay", ".apps.f", ".other"] {
            assert_eq!(globals.set(sym(name), Value::Long(2), false), Ok(()), "{name}");
        }
        assert_eq!(globals.set(sym("ok"), Value::Long(3), true), Ok(()), "the owner may");
    }

    fn assigns(shared: &SharedGlobals, base: &Arc<Globals>, reads: &[&str], name: &str) -> bool {
        let mut own = Globals::clone(base);
        own.set(sym(name), Value::Long(5), false).unwrap();
        let access = Access {
            read: reads.iter().map(|name| sym(name)).collect(),
            assigned: vec![(sym(name), false)],
            ..Access::default()
        };
        shared.publish(base, &own, &access).unwrap()
    }

    #[test]
    fn assignments_of_two_expressions_both_count() {
        let shared = SharedGlobals::from(of_owner(&[]));
        let base = shared.current();
        assert!(assigns(&shared, &base, &[], "a"));
        assert!(assigns(&shared, &base, &["c"], "b"), "neither has read what the other has assigned");
        assert!(shared.current().get(sym("a")).is_some() && shared.current().get(sym("b")).is_some());
    }

    #[test]
    fn an_expression_that_has_read_an_old_value_starts_again() {
        let shared = SharedGlobals::from(of_owner(&[]));
        let base = shared.current();
        assert!(assigns(&shared, &base, &["n"], "n"));
        assert!(!assigns(&shared, &base, &["n"], "n"));
        assert!(assigns(&shared, &shared.current(), &["n"], "n"));
    }

    #[test]
    fn one_name_too_many_is_an_error() {
        let mut globals = of_owner(&[]);
        for number in 0..MAX_NAMES {
            globals.set(sym(&format!("name{number}")), Value::Null, false).unwrap();
        }
        assert_eq!(&*globals.set(sym("more"), Value::Null, false).unwrap_err().name, b"limit");
        assert_eq!(globals.set(sym("name3"), Value::Null, false), Ok(()));
    }
}
