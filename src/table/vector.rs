//! Vectors: shared slices, one variant for each kdb+ type.

use super::value::Value;
use crate::kernel::sym::Sym;
use crate::sys::shared::Shared;

/// What is promised of a vector's items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attr {
    #[default]
    None,
    Sorted,
    Unique,
    Parted,
    Grouped,
}

/// A vector and its attribute.
#[derive(Clone, Debug)]
pub struct Vector {
    pub attr: Attr,
    pub items: Items,
}

/// A vector's items. Booleans are bytes 0 and 1.
#[derive(Clone, Debug)]
pub enum Items {
    List(Shared<Value>),
    Bool(Shared<u8>),
    Guid(Shared<[u8; 16]>),
    Byte(Shared<u8>),
    Short(Shared<i16>),
    Int(Shared<i32>),
    Long(Shared<i64>),
    Real(Shared<f32>),
    Float(Shared<f64>),
    Char(Shared<u8>),
    Sym(Shared<Sym>),
    Timestamp(Shared<i64>),
    Month(Shared<i32>),
    Date(Shared<i32>),
    Datetime(Shared<f64>),
    Timespan(Shared<i64>),
    Minute(Shared<i32>),
    Second(Shared<i32>),
    Time(Shared<i32>),
}
