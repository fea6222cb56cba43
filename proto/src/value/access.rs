//! Accessors of values.

use super::{Items, Value};
use crate::types;

impl Value {
    /// Returns the text of a symbol atom.
    pub fn as_symbol(&self) -> Option<&[u8]> {
        match self {
            Value::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a symbol, character vector or character atom, as clients send a name in any of these forms.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self {
            Value::Symbol(text) | Value::Vector { items: Items::Char(text), .. } => Some(text),
            Value::Char(char) => Some(core::slice::from_ref(char)),
            _ => None,
        }
    }

    /// Returns the texts of a symbol vector.
    pub fn as_symbols(&self) -> Option<&[Vec<u8>]> {
        match self {
            Value::Vector { items: Items::Symbol(texts), .. } => Some(texts),
            _ => None,
        }
    }

    /// Returns a boolean atom.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns an int atom.
    pub fn as_int(&self) -> Option<i32> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a long atom.
    pub fn as_long(&self) -> Option<i64> {
        match self {
            Value::Long(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a float atom.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the items of a byte vector.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Vector { items: Items::Byte(items), .. } => Some(items),
            _ => None,
        }
    }

    /// Returns the items of a long vector.
    pub fn as_longs(&self) -> Option<&[i64]> {
        match self {
            Value::Vector { items: Items::Long(items), .. } => Some(items),
            _ => None,
        }
    }

    /// Returns the objects of a general list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List { items, .. } => Some(items),
            _ => None,
        }
    }

    /// Returns the text of an error.
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Value::Error(text) => Some(text),
            _ => None,
        }
    }

    /// Returns whether this is the generic null `::`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Unary(types::UNARY_NULL))
    }

    /// Returns the column of a table by name.
    pub fn column(&self, name: impl AsRef<[u8]>) -> Option<&Value> {
        let Value::Table { names, columns, .. } = self else { return None };
        columns.get(names.iter().position(|other| other == name.as_ref())?)
    }

    /// Returns the value of a symbol key of a dictionary.
    pub fn lookup(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        let Value::Dict { keys, values, .. } = self else { return None };
        values.item(keys.as_symbols()?.iter().position(|other| other == key.as_ref())?)
    }

    /// Returns item `i` of a list, or of a vector as an atom.
    pub fn item(&self, i: usize) -> Option<Value> {
        match self {
            Value::Vector { items, .. } => items.item(i),
            Value::List { items, .. } => items.get(i).cloned(),
            _ => None,
        }
    }
}

impl Items {
    /// Returns item `i` as an atom.
    pub fn item(&self, i: usize) -> Option<Value> {
        Some(match self {
            Items::Bool(items) => Value::Bool(*items.get(i)?),
            Items::Guid(items) => Value::Guid(*items.get(i)?),
            Items::Byte(items) => Value::Byte(*items.get(i)?),
            Items::Short(items) => Value::Short(*items.get(i)?),
            Items::Int(items) => Value::Int(*items.get(i)?),
            Items::Long(items) => Value::Long(*items.get(i)?),
            Items::Real(items) => Value::Real(*items.get(i)?),
            Items::Float(items) => Value::Float(*items.get(i)?),
            Items::Char(items) => Value::Char(*items.get(i)?),
            Items::Symbol(items) => Value::Symbol(items.get(i)?.clone()),
            Items::Timestamp(items) => Value::Timestamp(*items.get(i)?),
            Items::Month(items) => Value::Month(*items.get(i)?),
            Items::Date(items) => Value::Date(*items.get(i)?),
            Items::Datetime(items) => Value::Datetime(*items.get(i)?),
            Items::Timespan(items) => Value::Timespan(*items.get(i)?),
            Items::Minute(items) => Value::Minute(*items.get(i)?),
            Items::Second(items) => Value::Second(*items.get(i)?),
            Items::Time(items) => Value::Time(*items.get(i)?),
        })
    }
}
