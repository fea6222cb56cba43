//! Binary search: `bin`, `binr`, step functions.

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::verbs::convert::order_floats;
use crate::verbs::matches::{order, partition_point};
use columns::kernel::blocks;
use columns::sys::budget;
use columns::table::symbol::text;
use columns::table::{Items, Raw, Value, Vector};
use std::cmp::Ordering;

/// Searches between two checks of the limits.
const SOUGHT_AT_ONCE: usize = 1 << 10;

/// `list bin wanted`: the last index whose item is not above; -1 without one.
pub(crate) fn bin(list: &Value, sought: &Value) -> Result<Vec<i64>, QError> {
    search(list, sought, |o| o != Ordering::Greater).map(|v| blocks::map(&v, |i| i - 1))
}

/// `list binr wanted`: the first index whose item is not below.
pub(crate) fn binr(list: &Value, sought: &Value) -> Result<Vec<i64>, QError> {
    search(list, sought, |o| o == Ordering::Less)
}

fn search(list: &Value, sought: &Value, before: impl Fn(Ordering) -> bool) -> Result<Vec<i64>, QError> {
    let (Value::Vector(l), Value::Vector(w)) = (list, sought) else { return Err(QError::named("type")) };
    fn each<T, U>(
        l: &[T],
        w: &[U],
        cmp: impl Fn(&T, &U) -> Result<Ordering, QError>,
        before: impl Fn(Ordering) -> bool,
    ) -> Result<Vec<i64>, QError> {
        limits::room_for::<i64>(w.len())?;
        let mut out = Vec::with_capacity(w.len());
        let steps = l.len().checked_ilog2().unwrap_or(0) as usize + 1;
        for chunk in w.chunks(SOUGHT_AT_ONCE) {
            if budget::spend(chunk.len().saturating_mul(steps)) {
                limits::settle()?;
            }
            for w in chunk {
                out.push(partition_point(l, |l| Ok::<_, QError>(before(cmp(l, w)?)))? as i64);
            }
        }
        Ok(out)
    }
    fn all(v: &Vector) -> Result<Vec<Value>, QError> {
        limits::room_for::<Value>(v.len())?;
        let mut out = Vec::with_capacity(v.len());
        for i in 0..v.len() {
            limits::pace()?;
            out.push(v.items.get(i));
        }
        Ok(out)
    }
    if l.items.type_number() != w.items.type_number() && !matches!((&l.items, &w.items), (_, Items::List(_))) {
        let (a, b) = (l.items.type_number(), w.items.type_number());
        if a == 0 || a == 11 || b == 11 || a == 2 || b == 2 {
            return Err(QError::named("type"));
        }
        return each(&all(l)?, &all(w)?, order, before);
    }
    match (l.items.raw(), w.items.raw()) {
        (Raw::U8(l), Raw::U8(w)) => each(l, w, |a, b| Ok(a.cmp(b)), before),
        (Raw::I16(l), Raw::I16(w)) => each(l, w, |a, b| Ok(a.cmp(b)), before),
        (Raw::I32(l), Raw::I32(w)) => each(l, w, |a, b| Ok(a.cmp(b)), before),
        (Raw::I64(l), Raw::I64(w)) => each(l, w, |a, b| Ok(a.cmp(b)), before),
        (Raw::Sym(l), Raw::Sym(w)) => each(l, w, |a, b| Ok(text(*a).cmp(text(*b))), before),
        (Raw::F64(l), Raw::F64(w)) => each(l, w, |a, b| Ok(order_floats(a, b)), before),
        (Raw::F32(l), Raw::F32(w)) => each(l, w, |a, b| Ok(order_floats(&f64::from(*a), &f64::from(*b))), before),
        (Raw::Guid(l), Raw::Guid(w)) => each(l, w, |a, b| Ok(a.cmp(b)), before),
        (Raw::List(l), Raw::List(w)) => each(l, w, order, before),
        _ => each(&all(l)?, &all(w)?, order, before),
    }
}
