//! Constructors of values.

use super::{Items, Value};
use crate::types;

impl Value {
    /// The generic null `::`.
    pub const NULL: Value = Value::Unary(types::UNARY_NULL);

    /// A symbol atom.
    pub fn symbol(text: impl AsRef<[u8]>) -> Value {
        Value::Symbol(text.as_ref().to_vec())
    }

    /// A symbol vector.
    pub fn symbols<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Value {
        Items::Symbol(texts.into_iter().map(|text| text.as_ref().to_vec()).collect()).into()
    }

    /// A character vector: a q string.
    pub fn chars(text: impl AsRef<[u8]>) -> Value {
        Items::Char(text.as_ref().to_vec()).into()
    }

    /// A general list.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::List { attr: types::ATTR_NONE, items: items.into_iter().collect() }
    }

    /// A boolean vector.
    pub fn bools(items: impl Into<Vec<bool>>) -> Value {
        Items::Bool(items.into()).into()
    }

    /// A byte vector.
    pub fn bytes(items: impl Into<Vec<u8>>) -> Value {
        Items::Byte(items.into()).into()
    }

    /// A short vector.
    pub fn shorts(items: impl Into<Vec<i16>>) -> Value {
        Items::Short(items.into()).into()
    }

    /// An int vector.
    pub fn ints(items: impl Into<Vec<i32>>) -> Value {
        Items::Int(items.into()).into()
    }

    /// A long vector.
    pub fn longs(items: impl Into<Vec<i64>>) -> Value {
        Items::Long(items.into()).into()
    }

    /// A real vector.
    pub fn reals(items: impl Into<Vec<f32>>) -> Value {
        Items::Real(items.into()).into()
    }

    /// A float vector.
    pub fn floats(items: impl Into<Vec<f64>>) -> Value {
        Items::Float(items.into()).into()
    }

    /// A timestamp vector: nanoseconds from 2000.01.01.
    pub fn timestamps(items: impl Into<Vec<i64>>) -> Value {
        Items::Timestamp(items.into()).into()
    }

    /// A timespan vector: nanoseconds.
    pub fn timespans(items: impl Into<Vec<i64>>) -> Value {
        Items::Timespan(items.into()).into()
    }

    /// A date vector: days from 2000.01.01.
    pub fn dates(items: impl Into<Vec<i32>>) -> Value {
        Items::Date(items.into()).into()
    }

    /// A time vector: milliseconds.
    pub fn times(items: impl Into<Vec<i32>>) -> Value {
        Items::Time(items.into()).into()
    }

    /// A dictionary.
    pub fn dict(keys: Value, values: Value) -> Value {
        Value::Dict { sorted: false, keys: Box::new(keys), values: Box::new(values) }
    }

    /// A table of named columns.
    pub fn table<T: AsRef<[u8]>>(columns: impl IntoIterator<Item = (T, Value)>) -> Value {
        let (names, columns) = columns.into_iter().map(|(name, column)| (name.as_ref().to_vec(), column)).unzip();
        Value::Table { attr: types::ATTR_NONE, names, columns }
    }

    /// A lambda of the root namespace.
    pub fn lambda(source: impl AsRef<[u8]>) -> Value {
        Value::Lambda { namespace: Vec::new(), source: source.as_ref().to_vec() }
    }

    /// An error, as in a response: text without the quote.
    pub fn error(text: impl AsRef<[u8]>) -> Value {
        Value::Error(text.as_ref().to_vec())
    }

    /// Sets the attribute byte of a vector, list or table; returns other values unchanged.
    #[must_use]
    pub fn with_attr(mut self, new: u8) -> Value {
        if let Value::Vector { attr, .. } | Value::List { attr, .. } | Value::Table { attr, .. } = &mut self {
            *attr = new;
        }
        self
    }
}

impl From<Items> for Value {
    fn from(items: Items) -> Value {
        Value::Vector { attr: types::ATTR_NONE, items }
    }
}
