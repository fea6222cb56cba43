//! Reading values.

use super::{Items, Value};
use crate::types;

impl Value {
    /// The text of a symbol atom.
    pub fn as_symbol(&self) -> Option<&[u8]> {
        match self {
            Value::Symbol(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a symbol, a character vector or a character: the ways in which clients spell a name.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self {
            Value::Symbol(text) | Value::Vector { items: Items::Char(text), .. } => Some(text),
            Value::Char(char) => Some(core::slice::from_ref(char)),
            _ => None,
        }
    }

    /// The texts of a symbol vector.
    pub fn as_symbols(&self) -> Option<&[Vec<u8>]> {
        match self {
            Value::Vector { items: Items::Symbol(texts), .. } => Some(texts),
            _ => None,
        }
    }

    /// A boolean atom.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// An int atom.
    pub fn as_int(&self) -> Option<i32> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// A long atom.
    pub fn as_long(&self) -> Option<i64> {
        match self {
            Value::Long(value) => Some(*value),
            _ => None,
        }
    }

    /// A float atom.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The items of a long vector.
    pub fn as_longs(&self) -> Option<&[i64]> {
        match self {
            Value::Vector { items: Items::Long(items), .. } => Some(items),
            _ => None,
        }
    }

    /// The objects of a general list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List { items, .. } => Some(items),
            _ => None,
        }
    }

    /// The text of an error.
    pub fn as_error(&self) -> Option<&[u8]> {
        match self {
            Value::Error(text) => Some(text),
            _ => None,
        }
    }

    /// Whether this is the generic null `::`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Unary(types::UNARY_NULL))
    }

    /// The column of a table by name.
    pub fn column(&self, name: impl AsRef<[u8]>) -> Option<&Value> {
        let Value::Table { names, columns, .. } = self else { return None };
        columns.get(names.iter().position(|other| other == name.as_ref())?)
    }

    /// The value under a symbol key of a dictionary.
    pub fn lookup(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        let Value::Dict { keys, values, .. } = self else { return None };
        values.item(keys.as_symbols()?.iter().position(|other| other == key.as_ref())?)
    }

    /// Item `i` of a vector as an atom, or of a list.
    pub fn item(&self, i: usize) -> Option<Value> {
        match self {
            Value::Vector { items, .. } => items.item(i),
            Value::List { items, .. } => items.get(i).cloned(),
            _ => None,
        }
    }
}

impl Items {
    /// Item `i` as an atom.
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
