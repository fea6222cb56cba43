//! Basic conversions and properties of values.

use crate::runtime::error::QError;
use columns::table::symbol::intern_name as intern;
use columns::table::{Items, Sym, Value};

/// Result of a primitive.
pub(crate) type Result = std::result::Result<Value, QError>;

pub(crate) fn type_error() -> QError {
    QError::named("type")
}

/// Interns a symbol.
///
/// # Errors
/// `limit` if the symbol table is full.
pub(crate) fn symbol(text: &[u8]) -> std::result::Result<Sym, QError> {
    intern(text).map_err(QError::from)
}

/// Whether a condition holds: an atom other than zero, of a numeric, temporal (except datetime) or char type.
///
/// # Errors
/// `type` if the value is no such atom.
pub(crate) fn truth(value: &Value) -> std::result::Result<bool, QError> {
    match value {
        Value::Bool(b) => Ok(*b),
        Value::Float(f) => Ok(*f != 0.0),
        Value::Real(f) => Ok(*f != 0.0),
        other => other.as_long().map(|l| l != 0).ok_or(QError::named("type")),
    }
}

/// Returns the value as a list: an atom becomes a list of one.
pub(crate) fn listed(x: Value) -> Value {
    if x.is_scalar() { x.enlist() } else { x }
}

/// The domain of an enumeration or a link column.
pub(crate) fn domain_of(x: &Value) -> Option<Sym> {
    match x {
        Value::Enum(name, _) | Value::Link(name, _) => Some(*name),
        Value::Vector(v) => domain_of_items(&v.items),
        _ => None,
    }
}

/// As [`domain_of`], for a vector's items.
pub(crate) fn domain_of_items(items: &Items) -> Option<Sym> {
    match items {
        Items::Enum(name, _) | Items::Link(name, _) => Some(*name),
        _ => None,
    }
}
