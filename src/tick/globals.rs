//! Globals defined by clients and the schema file. Read by query threads, changed by the event-loop thread only.

use super::core::schema::Tables;
use crate::config::Limit;
use crate::less;
use crate::metrics;
use crate::q::{Console, QError, to_wire};
use crate::table::{Schema, Sym, Value, symbol};
use proto::Writer;
use std::collections::HashMap;

/// Globals of the tickerplant outside of `.u`.
#[derive(Clone, Default)]
pub struct Globals {
    /// Each value with its serialised size.
    values: HashMap<Sym, (Value, usize)>,
    order: Vec<Sym>,
    bytes: usize,
    bytes_most: usize,
    /// Display settings.
    pub console: Console,
}

impl Globals {
    /// Globals of the schema file, with room for `bytes_most` bytes more.
    pub fn new(defined: Vec<(Sym, Value)>, bytes_most: usize) -> Globals {
        let order = defined.iter().map(|(name, _)| *name).collect();
        let values = defined.into_iter().map(|(name, value)| (name, (value, 0))).collect();
        Globals { values, order, bytes: 0, bytes_most, console: Console::default() }
    }

    pub fn get(&self, name: Sym) -> Option<&Value> {
        self.values.get(&name).map(|(value, _)| value)
    }

    /// Serialised size of all globals defined by clients.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Updates the globals of the tables to their current schema.
    pub fn show_tables(&mut self, tables: &Tables) {
        for spec in tables.iter() {
            let name = spec.schema.name;
            let is_other = |value: &Value| Schema::of(name, value).is_some_and(|own| !own.same_columns(&spec.schema));
            if let Some((value, _)) = self.values.get_mut(&name).filter(|(value, _)| is_other(value)) {
                *value = spec.schema.empty();
            }
        }
    }

    /// Defines or replaces a global.
    ///
    /// # Errors
    /// `wsfull` if the globals of all clients exceed the limit; a value that cannot be serialised.
    pub fn set(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        to_wire(&value, &mut writer)?;
        writer.finish().map_err(|error| QError::with("type", error.to_string()))?;
        let size = object.len().saturating_add(symbol::text(name).len());
        let before = self.values.get(&name).map_or(0, |(_, size)| *size);
        let bytes = less!(self.bytes, before).saturating_add(size);
        if bytes > self.bytes_most {
            metrics::refused(Limit::globals_bytes);
            return Err(QError::with(
                "wsfull",
                format!("globals of clients are limited to {} bytes in all", self.bytes_most),
            ));
        }
        self.bytes = bytes;
        if self.values.insert(name, (value, size)).is_none() {
            self.order.push(name);
        }
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
