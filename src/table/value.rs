//! Values: what q expressions compute with. Vectors are shared slices; a column of a table is a vector without a copy.

use super::symbol::Sym;
use super::vector::Vector;
use std::sync::Arc;

/// Any q value. Atoms are stored as they travel (temporal types as their integer, booleans as a byte's truth).
#[derive(Clone, Debug)]
pub enum Value {
    /// Generic null `::` and elided arguments are functions in kdb+; the identity is what clients send for "nothing".
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
    Minute(i32),
    Second(i32),
    /// Milliseconds.
    Time(i32),
    /// Simple vectors and general lists, with their attribute.
    Vector(Vector),
    Dict(Arc<Dict>),
    Table(Arc<Table>),
    Func(Arc<Function>),
}
