//! Values: what q expressions compute with.

use super::function::Function;
use super::vector::Vector;
use crate::kernel::sym::Sym;
use std::sync::Arc;

/// Any q value. Temporal atoms are held as the integer that travels, so `0N` is that type's minimum.
#[derive(Clone, Debug)]
pub enum Value {
    /// The generic null `::`.
    Null,
    Bool(bool),
    Guid([u8; 16]),
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Real(f32),
    Float(f64),
    Char(u8),
    Sym(Sym),
    /// Nanoseconds from 2000.01.01.
    Timestamp(i64),
    /// Months from 2000.01.
    Month(i32),
    /// Days from 2000.01.01.
    Date(i32),
    /// Days from 2000.01.01, with a fraction.
    Datetime(f64),
    /// Nanoseconds.
    Timespan(i64),
    /// Minutes.
    Minute(i32),
    /// Seconds.
    Second(i32),
    /// Milliseconds.
    Time(i32),
    /// A simple vector or a general list, with its attribute.
    Vector(Vector),
    Dict(Arc<Dict>),
    Table(Arc<Table>),
    Func(Arc<Function>),
}

/// A dictionary; with tables on both sides, a keyed table.
#[derive(Clone, Debug)]
pub struct Dict {
    /// Type 127: keys carry `` `s# `` and lookup steps.
    pub sorted: bool,
    pub keys: Value,
    pub values: Value,
}

/// A table: names and as many columns of one length.
#[derive(Clone, Debug)]
pub struct Table {
    pub sorted: bool,
    pub names: Vec<Sym>,
    pub columns: Vec<Vector>,
}
