//! Globals of users whose roles restrict their rows: each such user has a space of names that nobody else sees.
//!
//! A space begins empty with the user's first connection and is dropped with the last one.

use super::globals::Globals;
use crate::config::Limit;
use crate::metrics;
use crate::net::ConnId;
use crate::q::QError;
use crate::sys::stack;
use crate::table::{Function, Items, Sym, Value, Vector, symbol};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Globals of one user.
#[derive(Clone, Debug, Default)]
pub struct Space {
    globals: Globals,
    /// Bytes of each value and its name.
    sizes: HashMap<Sym, u64>,
    bytes: u64,
}

impl Space {
    pub fn get(&self, name: Sym) -> Option<&Value> {
        self.globals.get(name)
    }

    pub fn globals(&self) -> &Globals {
        &self.globals
    }

    /// Assigns a name, if all values together then have no more than `bytes_most`.
    ///
    /// # Errors
    /// `wsfull` beyond the limit; `limit` for one name too many.
    pub fn set(&mut self, name: Sym, value: Value, bytes_most: u64) -> Result<(), QError> {
        let size = bytes_of(&value, bytes_most.saturating_add(1)).saturating_add(symbol::text(name).len() as u64);
        let others = self.bytes.saturating_sub(self.sizes.get(&name).copied().unwrap_or(0));
        let bytes = others.saturating_add(size);
        if bytes > bytes_most {
            metrics::refused(Limit::user_globals_bytes);
            let why =
                format!("your globals would hold {bytes} bytes, the limit is {bytes_most} (--limit-user-globals)");
            return Err(QError::with("wsfull", why));
        }
        self.globals.set(name, value)?;
        self.sizes.insert(name, size);
        self.bytes = bytes;
        Ok(())
    }

    pub fn remove(&mut self, name: Sym) {
        self.globals.remove(name);
        self.bytes = self.bytes.saturating_sub(self.sizes.remove(&name).unwrap_or(0));
    }
}

/// Bytes that a value holds, at most `most`. Parts that it shares with others count in full, and the search ends at `most`: a value of a few
/// kilobytes may name its parts more often than there is time to count.
fn bytes_of(value: &Value, most: u64) -> u64 {
    let mut left = most;
    take(value, &mut left);
    most.saturating_sub(left)
}

fn take(value: &Value, left: &mut u64) {
    let mut own = size_of::<Value>() as u64;
    match value {
        Value::Vector(vector) => take_vector(vector, left),
        Value::Table(table) => table.columns.iter().for_each(|column| take_vector(column, left)),
        Value::Func(function) => {
            if let Function::Lambda(lambda) | Function::View(lambda) = &**function {
                own = own.saturating_add(lambda.source.len() as u64);
            }
        }
        _ => {}
    }
    *left = left.saturating_sub(own);
    if stack::is_deep() {
        // Nested beyond any use: over every limit.
        *left = 0;
    }
    match value {
        Value::Dict(dict) => take_all([&dict.keys, &dict.values].into_iter(), left),
        Value::Func(function) => match &**function {
            Function::Projection { function, arguments } => {
                take_all(std::iter::once(function).chain(arguments.iter().flatten()), left);
            }
            Function::Composition(parts) => take_all(parts.iter(), left),
            Function::Derived { function, .. } => take(function, left),
            _ => {}
        },
        _ => {}
    }
}

fn take_all<'a>(mut values: impl Iterator<Item = &'a Value>, left: &mut u64) {
    while *left > 0
        && let Some(value) = values.next()
    {
        take(value, left);
    }
}

fn take_vector(vector: &Vector, left: &mut u64) {
    match &vector.items {
        Items::List(items) => take_all(items.iter(), left),
        simple => *left = left.saturating_sub(simple.held_bytes() as u64),
    }
}

#[derive(Debug, Default)]
struct Open {
    space: Arc<Space>,
    connections: HashSet<ConnId>,
}

/// The spaces of the users that are connected.
#[derive(Debug)]
pub struct Spaces {
    /// Maximum bytes of each.
    pub bytes_most: u64,
    /// Bytes of all of them.
    bytes: Arc<AtomicI64>,
    open: Mutex<HashMap<Vec<u8>, Open>>,
}

impl Spaces {
    pub fn new(bytes_most: u64, bytes: Arc<AtomicI64>) -> Spaces {
        Spaces { bytes_most, bytes, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn connected(&self, user: &[u8], conn: ConnId) {
        self.open().entry(user.to_vec()).or_default().connections.insert(conn);
    }

    /// Drops the space of a connection's user if this was the last one.
    pub fn disconnected(&self, conn: ConnId) {
        self.open().retain(|_, own| {
            let is_last = own.connections.remove(&conn) && own.connections.is_empty();
            if is_last {
                self.count(own.space.bytes, 0);
            }
            !is_last
        });
    }

    /// Returns the user's globals; an evaluation that changes them changes a copy.
    pub fn of(&self, user: &[u8]) -> Arc<Space> {
        self.open().get(user).map(|own| Arc::clone(&own.space)).unwrap_or_default()
    }

    /// Adopts the changed globals of a user. They are dropped if no connection of the user is open, as after a page's evaluation. Returns by
    /// how many bytes they have grown.
    pub fn publish(&self, user: &[u8], space: Arc<Space>) -> i64 {
        let mut open = self.open();
        let Some(own) = open.get_mut(user) else { return 0 };
        let grown = self.count(own.space.bytes, space.bytes);
        own.space = space;
        grown
    }

    fn count(&self, before: u64, now: u64) -> i64 {
        let grown = now.cast_signed().wrapping_sub(before.cast_signed());
        self.bytes.fetch_add(grown, Ordering::Relaxed);
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sym(text: &str) -> Sym {
        symbol::intern(text.as_bytes()).expect("room")
    }

    #[test]
    fn a_space_ends_with_the_users_last_connection() {
        let total = Arc::new(AtomicI64::new(0));
        let spaces = Spaces::new(1 << 20, Arc::clone(&total));
        let (one, two) = (ConnId::new(0, 1), ConnId::new(1, 2));
        spaces.connected(b"bob", one);
        spaces.connected(b"bob", two);
        let mut own = spaces.of(b"bob");
        Arc::make_mut(&mut own).set(sym("x"), Value::longs(vec![0; 100]), 1 << 20).expect("room");
        assert!(spaces.publish(b"bob", own) >= 800);
        assert!(spaces.of(b"cat").get(sym("x")).is_none());
        spaces.disconnected(one);
        assert!(spaces.of(b"bob").get(sym("x")).is_some());
        spaces.disconnected(two);
        assert!(spaces.of(b"bob").get(sym("x")).is_none());
        assert_eq!(total.load(Ordering::Relaxed), 0);
        // An evaluation may end after its connection.
        assert_eq!(spaces.publish(b"bob", Arc::default()), 0);
    }

    #[test]
    fn values_are_counted_and_replaced_ones_no_longer() {
        let mut space = Space::default();
        for _ in 0..10 {
            space.set(sym("x"), Value::longs(vec![0; 100]), 1000).expect("it replaces the last one");
        }
        assert_eq!(&*space.set(sym("y"), Value::longs(vec![0; 100]), 1000).unwrap_err().name, b"wsfull");
        space.remove(sym("x"));
        assert_eq!(space.bytes, 0);
        // Values that share their parts have no end of items.
        let doubled = (0..64).fold(Value::Long(1), |v, _| Value::list(vec![v.clone(), v]));
        assert_eq!(&*space.set(sym("y"), doubled, 1000).unwrap_err().name, b"wsfull");
    }
}
