//! Globals that start-up files and clients have assigned: a copy-on-write map, so that running queries keep the version
//! they began with.

use crate::q::error::QError;
use crate::q::guard::Authors;
use crate::q::names::within;
use crate::table::{Sym, Value};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Maximum number of global names.
pub const MAX_NAMES: usize = 10_000;

/// Names and values, in order of definition.
#[derive(Clone, Debug, Default)]
pub struct Globals {
    values: HashMap<Sym, Value>,
    order: Vec<Sym>,
    /// Records whose values the names hold: code of clients runs with a client's rights.
    pub authors: Authors,
}

impl Globals {
    pub fn get(&self, name: Sym) -> Option<&Value> {
        self.values.get(&name)
    }

    /// # Errors
    /// `'limit` for one name too many.
    pub fn set(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        if !self.values.contains_key(&name) {
            if self.order.len() >= MAX_NAMES {
                return Err(QError::with("limit", format!("more than {MAX_NAMES} names")));
            }
            self.order.push(name);
        }
        self.values.insert(name, value);
        Ok(())
    }

    pub fn remove(&mut self, name: Sym) {
        if self.values.remove(&name).is_some() {
            self.order.retain(|known| *known != name);
        }
    }

    /// Copies the values of `names` from `other`, removing those that it does not define.
    ///
    /// # Errors
    /// `'limit` for one name too many.
    pub fn take(&mut self, names: &[Sym], other: &Globals) -> Result<(), QError> {
        for name in names {
            match other.get(*name) {
                Some(value) => {
                    self.authors.take(*name, &other.authors);
                    self.set(*name, value.clone())?;
                }
                None => self.remove(*name),
            }
        }
        Ok(())
    }

    /// Returns all names, in order of definition.
    pub fn all(&self) -> impl Iterator<Item = Sym> {
        self.order.iter().copied()
    }

    /// Returns the names in a namespace, as [`within`] does.
    pub fn names(&self, namespace: Sym) -> Vec<Sym> {
        within(self.all(), namespace)
    }
}

/// The current version of the map.
#[derive(Debug, Default)]
pub struct SharedGlobals(RwLock<Arc<Globals>>);

impl From<Globals> for SharedGlobals {
    fn from(globals: Globals) -> SharedGlobals {
        SharedGlobals(RwLock::new(Arc::new(globals)))
    }
}

impl SharedGlobals {
    /// Returns the current map; later assignments do not change it.
    pub fn current(&self) -> Arc<Globals> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Publishes a new map.
    pub fn replace(&self, globals: Globals) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(globals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::symbol;

    fn sym(text: &str) -> Sym {
        symbol::intern(text.as_bytes()).expect("room")
    }

    #[test]
    fn names_stand_in_their_namespaces_in_order_of_definition() {
        let mut globals = Globals::default();
        for name in ["b", ".n.y", "a", ".n.x", ".nn.z", "b", ".n.m.x", ".n.m.k.y"] {
            globals.set(sym(name), Value::Long(1)).expect("room");
        }
        assert_eq!(globals.names(Sym::NULL), [sym("b"), sym("a")]);
        assert_eq!(globals.names(sym(".n")), [sym("y"), sym("x"), sym("m")]);
        assert_eq!(globals.names(sym(".n.m")), [sym("x"), sym("k")]);
    }

    #[test]
    fn a_borrowed_map_stays_valid() {
        let shared = SharedGlobals::default();
        let before = shared.current();
        let mut next = Globals::clone(&before);
        next.set(sym("v"), Value::Long(1)).expect("room");
        shared.replace(next);
        assert!(before.get(sym("v")).is_none());
        assert!(shared.current().get(sym("v")).is_some());
    }

    #[test]
    fn one_name_too_many_is_an_error() {
        let mut globals = Globals::default();
        for i in 0..MAX_NAMES {
            globals.set(sym(&format!("globals{i}")), Value::Null).expect("room");
        }
        assert_eq!(
            globals.set(sym("more"), Value::Null).expect_err("full"),
            QError::with("limit", format!("more than {MAX_NAMES} names"))
        );
        assert!(globals.set(sym("globals7"), Value::Null).is_ok());
    }
}
