//! Conversions of items between kinds of numbers.

use crate::runtime::error::QError;
use columns::kernel::blocks;
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
        Raw::U8(v) if !matches!(x, Items::Char(_)) => blocks::map(v, |i| f64::from(*i)),
        Raw::I16(v) => blocks::map(v, |i| i.to_float()),
        Raw::I32(v) => blocks::map(v, |i| i.to_float()),
        Raw::I64(v) => blocks::map(v, |i| i.to_float()),
        Raw::F32(v) => blocks::map(v, |i| f64::from(*i)),
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
        Raw::I32(v) if matches!(i, Items::Int(_)) => Some(blocks::map(v, |i| i.to_long())),
        Raw::I16(v) => Some(blocks::map(v, |i| i.to_long())),
        Raw::U8(v) if !matches!(i, Items::Char(_)) => Some(blocks::map(v, |i| i64::from(*i))),
        _ => None,
    }
}
