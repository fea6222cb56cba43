//! Conversions of items between kinds of numbers.

use crate::runtime::error::QError;
use columns::kernel::num::{Num, float_order};
use columns::table::{Items, Raw};

/// A float as a long: null for null, saturating.
pub(crate) fn float_to_long(f: f64) -> i64 {
    if f.is_nan() {
        i64::NULL
    } else if f >= i64::MAX as f64 {
        i64::INFINITY
    } else if f <= -(i64::MAX as f64) {
        i64::NEGATIVE_INFINITY
    } else {
        f as i64
    }
}

/// Items as floats, in their own unit.
pub(crate) fn floats(x: &Items) -> Result<Vec<f64>, QError> {
    Ok(match x.raw() {
        Raw::U8(v) if !matches!(x, Items::Char(_)) => v.iter().map(|i| f64::from(*i)).collect(),
        Raw::I16(v) => v.iter().map(|i| i.to_float()).collect(),
        Raw::I32(v) => v.iter().map(|i| i.to_float()).collect(),
        Raw::I64(v) => v.iter().map(|i| i.to_float()).collect(),
        Raw::F32(v) => v.iter().map(|i| f64::from(*i)).collect(),
        Raw::F64(v) => v.to_vec(),
        _ => return Err(QError::named("type")),
    })
}

/// Order of two floats in sorts.
pub(crate) fn order_floats(x: &f64, y: &f64) -> std::cmp::Ordering {
    float_order(*x, *y)
}

/// Integers as row numbers, nulls included; `None` for other types.
pub(crate) fn rows(i: &Items) -> Option<Vec<i64>> {
    use columns::kernel::num::Int;
    match i.raw() {
        Raw::I64(v) if matches!(i, Items::Long(_)) => Some(v.to_vec()),
        Raw::I32(v) if matches!(i, Items::Int(_)) => Some(v.iter().map(|i| i.to_long()).collect()),
        Raw::I16(v) => Some(v.iter().map(|i| i.to_long()).collect()),
        Raw::U8(v) if !matches!(i, Items::Char(_)) => Some(v.iter().map(|i| i64::from(*i)).collect()),
        _ => None,
    }
}
