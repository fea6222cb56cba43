//! Globals of the tickerplant outside of `.u`: those of its start-up files, which clients cannot change, and those of clients, by their spaces
//! (`users`).
//!
//! Expressions read a version that does not change, and publish their assignments at their end, if nobody has changed what they read.

use super::core::schema::Tables;
use super::users::Space;
use crate::config::Limit;
use crate::less;
use crate::metrics;
use crate::q::guard::{space_of, stem_of};
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
    /// User whose data it may hold: the one for whom code of the start-up files has assigned one of their names, or nobody in particular.
    writer: Option<Space>,
}

/// Who assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    pub space: Space,
    /// Code of the owner.
    pub is_owner: bool,
    /// User whose data the value may hold.
    pub writer: Option<Space>,
}

impl Author {
    /// The owner itself.
    #[cfg(test)]
    const OWNER: Author = Author { space: Space::SHARED, is_owner: true, writer: None };

    #[cfg(test)]
    const fn client(space: Space) -> Author {
        Author { space, is_owner: false, writer: None }
    }
}

/// One version of the globals.
#[derive(Clone, Debug, Default)]
pub struct Globals {
    values: HashMap<(Space, Sym), Held>,
    order: Vec<(Space, Sym)>,
    /// Names that the start-up files have defined, and those that they assign later.
    owned: HashSet<Sym>,
    /// Their namespaces, without those of the language.
    spaces: HashSet<Vec<u8>>,
    bytes: usize,
    bytes_most: usize,
    /// Of each user's own.
    user_bytes: HashMap<Space, usize>,
    user_bytes_most: usize,
    assignments: u64,
    /// Display settings.
    pub console: Console,
    /// Port of the process, for `\p`.
    pub port: u16,
}

impl Globals {
    /// Globals of the start-up files, with room for `bytes_most` bytes more, of which each user may fill `user_bytes_most`.
    pub fn new(defined: Vec<(Sym, Value)>, bytes_most: usize, user_bytes_most: usize) -> Globals {
        let mut globals = Globals { bytes_most, user_bytes_most, ..Globals::default() };
        for (name, value) in defined {
            globals.own(name);
            globals.put((Space::SHARED, name), value, 0, None);
        }
        globals
    }

    /// Returns the value that an expression with this space sees.
    pub fn get(&self, space: Space, name: Sym) -> Option<&Value> {
        self.values.get(&self.key(space, name)).map(|held| &held.value)
    }

    /// Key of a global: a name that the start-up files define is in the shared space.
    fn key(&self, space: Space, name: Sym) -> (Space, Sym) {
        (if self.is_owned(name) { Space::SHARED } else { space }, name)
    }

    /// Returns the user whose data the value that an expression with this space sees may hold, if that is not known to be its own.
    pub fn writer(&self, space: Space, name: Sym) -> Option<Space> {
        self.values.get(&self.key(space, name)).and_then(|held| held.writer)
    }

    /// Drops the globals of a user.
    pub fn forget(&mut self, space: Space) {
        let bytes = self.user_bytes.remove(&space).unwrap_or(0);
        self.bytes = less!(self.bytes, bytes);
        self.values.retain(|(of, _), _| *of != space);
        self.order.retain(|(of, _)| *of != space);
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

    fn put(&mut self, key: (Space, Sym), value: Value, size: usize, writer: Option<Space>) {
        self.assignments = self.assignments.wrapping_add(1);
        let held = Held { value, size, version: self.assignments, writer };
        if self.values.insert(key, held).is_none() {
            self.order.push(key);
        }
    }

    /// Updates the globals of the tables to their current schema.
    pub fn show_tables(&mut self, tables: &Tables) {
        for spec in tables.iter() {
            let name = spec.schema.name;
            let is_other = |value: &Value| Schema::of(name, value).is_some_and(|own| !own.same_columns(&spec.schema));
            if let Some(held) = self.values.get_mut(&(Space::SHARED, name)).filter(|held| is_other(&held.value)) {
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
        let is_part = || stem_of(text).and_then(symbol::find).is_some_and(|stem| self.is_owned(stem));
        let why = match space_of(text).filter(|space| self.spaces.contains(*space)) {
            _ if self.owned.contains(&name) => "is defined in the start-up files of the tickerplant".to_string(),
            _ if is_part() => "is a part of what the start-up files of the tickerplant define".to_string(),
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
    pub fn set(&mut self, name: Sym, value: Value, author: Author) -> Result<(), QError> {
        if !author.is_owner {
            self.check(name)?;
        }
        let key = (if author.is_owner { Space::SHARED } else { author.space }, name);
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        to_wire(&value, &mut writer)?;
        writer.finish().map_err(|error| QError::with("type", error.to_string()))?;
        let size = object.len().saturating_add(symbol::text(name).len());
        let before = self.values.get(&key).map(|held| held.size);
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
        if !key.0.is_shared() {
            let own = self.user_bytes.get(&key.0).copied().unwrap_or(0);
            let own = less!(own, before.unwrap_or(0)).saturating_add(size);
            if own > self.user_bytes_most {
                metrics::refused(Limit::user_globals_bytes);
                let most = self.user_bytes_most;
                let why = format!("your globals would hold {own} bytes, the limit is {most} (--limit-user-globals)");
                return Err(QError::with("wsfull", why));
            }
            self.user_bytes.insert(key.0, own);
        }
        self.bytes = bytes;
        if author.is_owner {
            self.own(name);
        }
        self.put(key, value, size, author.writer);
        Ok(())
    }

    /// Deletes a global, if there is one.
    ///
    /// # Errors
    /// `noupdate` if a client may not.
    pub fn remove(&mut self, name: Sym, author: Author) -> Result<(), QError> {
        if !author.is_owner {
            self.check(name)?;
        }
        let key = (if author.is_owner { Space::SHARED } else { author.space }, name);
        let Some(held) = self.values.remove(&key) else { return Ok(()) };
        self.order.retain(|other| *other != key);
        self.bytes = less!(self.bytes, held.size);
        if let Some(own) = self.user_bytes.get_mut(&key.0) {
            *own = less!(*own, held.size);
        }
        Ok(())
    }

    /// Returns the names that a space sees, in order of definition.
    pub fn names(&self, space: Space) -> impl Iterator<Item = Sym> {
        self.order.iter().filter(move |(of, name)| self.key(space, *name).0 == *of).map(|(_, name)| *name)
    }
}

/// What an expression has read and assigned.
#[derive(Debug, Default)]
pub struct Access {
    /// Names of clients that it has read.
    pub read: HashSet<Sym>,
    /// It has listed names.
    pub listed: bool,
    /// Names that it has assigned or deleted, in order.
    pub assigned: Vec<(Sym, Author)>,
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

    /// Drops the globals of a user who has left. On the event-loop thread: only users who have defined some pay for a copy.
    pub fn forget(&self, space: Space) {
        let mut locked = self.locked();
        if locked.user_bytes.contains_key(&space) {
            Arc::make_mut(&mut locked).forget(space);
        }
    }

    /// Adopts the assignments of an expression with this space: it began with the globals `base`, and `own` are those after it. Returns false if a global
    /// that it has read is another by now: the expression has to be evaluated again.
    ///
    /// # Errors
    /// Those of [`Globals::set`].
    pub fn publish(&self, space: Space, base: &Arc<Globals>, own: &Globals, access: &Access) -> Result<bool, QError> {
        if access.assigned.is_empty() {
            return Ok(true);
        }
        loop {
            // Threads copy the map without the lock, which the event loop takes too.
            let current = self.current();
            let version = |of: &Globals, name: &Sym| of.values.get(&of.key(space, *name)).map(|held| held.version);
            let is_same = Arc::ptr_eq(&current, base);
            let is_other = |name: &Sym| version(&current, name) != version(base, name);
            if !is_same && (access.listed || access.read.iter().any(is_other)) {
                return Ok(false);
            }
            let mut next = Globals::clone(&current);
            for (name, author) in &access.assigned {
                match own.get(author.space, *name) {
                    Some(value) => next.set(*name, value.clone(), *author)?,
                    None => next.remove(*name, *author)?,
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
        Globals::new(names.iter().map(|name| (sym(name), Value::Long(1))).collect(), 1 << 20, 1 << 10)
    }

    #[test]
    fn clients_replace_no_name_of_the_start_up_files() {
        let mut globals = of_owner(&["ok", ".app.f", ".z.pw"]);
        for name in ["ok", "ok.time", ".app.f", ".app.g", ".app.sub.h", ".app", ".z.pw", ".z.pg"] {
            let error = globals.set(sym(name), Value::Long(2), Author::client(Space::SHARED)).unwrap_err();
            assert_eq!(&*error.name, b"noupdate", "{name}");
        }
        for name in ["okay", ".apps.f", ".other"] {
            assert_eq!(globals.set(sym(name), Value::Long(2), Author::client(Space::SHARED)), Ok(()), "{name}");
        }
        assert_eq!(globals.set(sym("ok"), Value::Long(3), Author::OWNER), Ok(()), "the owner may");
    }

    fn assigns(shared: &SharedGlobals, base: &Arc<Globals>, reads: &[&str], name: &str) -> bool {
        let mut own = Globals::clone(base);
        own.set(sym(name), Value::Long(5), Author::client(Space::SHARED)).unwrap();
        let access = Access {
            read: reads.iter().map(|name| sym(name)).collect(),
            assigned: vec![(sym(name), Author::client(Space::SHARED))],
            ..Access::default()
        };
        shared.publish(Space::SHARED, base, &own, &access).unwrap()
    }

    #[test]
    fn assignments_of_two_expressions_both_count() {
        let shared = SharedGlobals::from(of_owner(&[]));
        let base = shared.current();
        assert!(assigns(&shared, &base, &[], "a"));
        assert!(assigns(&shared, &base, &["c"], "b"), "neither has read what the other has assigned");
        let has = |name| shared.current().get(Space::SHARED, sym(name)).is_some();
        assert!(has("a") && has("b"));
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
            globals.set(sym(&format!("name{number}")), Value::Null, Author::client(Space::SHARED)).unwrap();
        }
        let mut set = |name| globals.set(sym(name), Value::Null, Author::client(Space::SHARED));
        assert_eq!(&*set("more").unwrap_err().name, b"limit");
        assert_eq!(set("name3"), Ok(()));
    }
}
