//! Match (`~`) and a total order of all values.

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::syntax::prims;
use crate::verbs::function::{is_elided, type_of};
use columns::kernel::blocks;
use columns::kernel::num::{float_equal, float_order};
use columns::sys::budget::BLOCK;
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Items, Raw, Value, Vector};
use std::cmp::Ordering;

/// `x~y`: same type and same items; floats within the comparison tolerance.
pub(crate) fn same(x: &Value, y: &Value) -> Result<bool, QError> {
    alike::<false>(x, y)
}

/// As [`same`], without tolerance: find, `in`, `distinct` and keys compare floats exactly.
pub(crate) fn same_exactly(x: &Value, y: &Value) -> Result<bool, QError> {
    alike::<true>(x, y)
}

/// Whether two values that match have the same attributes at every depth. ``1 2~`s#1 2`` is
/// 1b, yet ``@[`.;`L;`s#]`` has to store the new `L`.
pub(crate) fn same_attributes(x: &Value, y: &Value) -> Result<bool, QError> {
    limits::step()?;
    Ok(match (x, y) {
        (Value::Vector(a), Value::Vector(b)) => return same_marks(a, b),
        (Value::Dict(a), Value::Dict(b)) => {
            a.sorted == b.sorted && same_attributes(&a.keys, &b.keys)? && same_attributes(&a.values, &b.values)?
        }
        (Value::Table(a), Value::Table(b)) => {
            let mut pairs = a.columns.iter().zip(&b.columns);
            a.sorted == b.sorted && pairs.try_fold(true, |all, (a, b)| Ok::<_, QError>(all && same_marks(a, b)?))?
        }
        _ => true,
    })
}

fn same_marks(a: &Vector, b: &Vector) -> Result<bool, QError> {
    let inside = match (&a.items, &b.items) {
        (Items::List(a), Items::List(b)) if a.as_ptr() != b.as_ptr() => {
            let mut pairs = a.iter().zip(b.iter());
            pairs.try_fold(true, |all, (a, b)| Ok::<_, QError>(all && same_attributes(a, b)?))?
        }
        _ => true,
    };
    Ok(inside && a.attr == b.attr)
}

fn alike<const EXACT: bool>(x: &Value, y: &Value) -> Result<bool, QError> {
    limits::step()?;
    Ok(match (x, y) {
        (Value::Vector(a), Value::Vector(b)) => return same_items::<EXACT>(&a.items, &b.items),
        (Value::Dict(a), Value::Dict(b)) => alike::<EXACT>(&a.keys, &b.keys)? && alike::<EXACT>(&a.values, &b.values)?,
        (Value::Table(a), Value::Table(b)) => {
            if a.names != b.names {
                return Ok(false);
            }
            for (c, d) in a.columns.iter().zip(&b.columns) {
                if !same_items::<EXACT>(&c.items, &d.items)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Func(a), Value::Func(b)) => a.ptr_eq(b) || same_function::<EXACT>(a, b)?,
        (Value::Null, Value::Null) => true,
        // Libraries find what a projection leaves open with `(::)~/:`.
        (Value::Null, f @ Value::Func(_)) | (f @ Value::Func(_), Value::Null) => is_elided(f),
        (Value::Enum(a, x), Value::Enum(b, y)) => a == b && x == y,
        (Value::Link(a, x), Value::Link(b, y)) => a == b && x == y,
        _ if x.is_atom() && y.is_atom() && x.type_number() == y.type_number() => {
            same_items::<EXACT>(&x.to_items(), &y.to_items())?
        }
        _ => false,
    })
}

fn same_items<const EXACT: bool>(a: &Items, b: &Items) -> Result<bool, QError> {
    let domains = (crate::runtime::values::domain_of_items(a), crate::runtime::values::domain_of_items(b));
    if a.len() != b.len() || a.type_number() != b.type_number() || domains.0 != domains.1 {
        return Ok(false);
    }
    Ok(match (a.raw(), b.raw()) {
        (Raw::List(x), Raw::List(y)) => {
            // A list compared with itself is not walked.
            if a.is_same_memory(b) {
                return Ok(true);
            }
            for (x, y) in x.iter().zip(y) {
                if !alike::<EXACT>(x, y)? {
                    return Ok(false);
                }
            }
            true
        }
        (Raw::U8(x), Raw::U8(y)) => blocks::equal(x, y),
        (Raw::I16(x), Raw::I16(y)) => blocks::equal(x, y),
        (Raw::I32(x), Raw::I32(y)) => blocks::equal(x, y),
        (Raw::I64(x), Raw::I64(y)) => blocks::equal(x, y),
        (Raw::Sym(x), Raw::Sym(y)) => blocks::equal(x, y),
        (Raw::Guid(x), Raw::Guid(y)) => blocks::equal(x, y),
        (Raw::F32(x), Raw::F32(y)) => blocks::all(x, y, |x, y| equal::<EXACT>(f64::from(*x), f64::from(*y))),
        (Raw::F64(x), Raw::F64(y)) => blocks::all(x, y, |x, y| equal::<EXACT>(*x, *y)),
        _ => false,
    })
}

fn equal<const EXACT: bool>(x: f64, y: f64) -> bool {
    if EXACT { x == y || x.is_nan() && y.is_nan() } else { float_equal(x, y) }
}

fn same_function<const EXACT: bool>(a: &Function, b: &Function) -> Result<bool, QError> {
    Ok(match (a, b) {
        (Function::Lambda(a), Function::Lambda(b)) => a.source == b.source && a.namespace == b.namespace,
        (Function::Primitive(a), Function::Primitive(b)) => a == b,
        (Function::Coded(a, b), Function::Coded(c, d)) => (a, b) == (c, d),
        (Function::Native(a), Function::Native(b)) => a == b,
        (Function::Derived { iterator: i, function: f }, Function::Derived { iterator: j, function: g }) => {
            i == j && alike::<EXACT>(f, g)?
        }
        (Function::Composition(a), Function::Composition(b)) => same_all::<EXACT>(a, b)?,
        (Function::OnDisk { columns: a, place: p }, Function::OnDisk { columns: b, place: q }) => a == b && p == q,
        (Function::Projection { function: f, arguments: a }, Function::Projection { function: g, arguments: b }) => {
            let holes = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_some() == b.is_some());
            let (a, b): (Vec<Value>, Vec<Value>) =
                (a.iter().flatten().cloned().collect(), b.iter().flatten().cloned().collect());
            holes && alike::<EXACT>(f, g)? && same_all::<EXACT>(&a, &b)?
        }
        (Function::Primitive(word), spelled) | (spelled, Function::Primitive(word)) => {
            prims::get(*word).is_some_and(|word| word.name == "upsert") && spells_upsert(spelled)
        }
        _ => false,
    })
}

/// Whether a function is `.[;();,;]`, which kdb+ shows for `upsert`: programs look for it in parse trees.
fn spells_upsert(f: &Function) -> bool {
    let Function::Projection { function, arguments } = f else { return false };
    let [None, Some(Value::Vector(path)), Some(join), None] = &arguments[..] else { return false };
    prims::is_glyph(function, ".") && path.is_empty() && prims::is_glyph(join, ",")
}

fn same_all<const EXACT: bool>(a: &[Value], b: &[Value]) -> Result<bool, QError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(b) {
        if !alike::<EXACT>(a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Total order of all values, for sorting general lists: by type, then item by item.
///
/// # Errors
/// Those of the limits.
pub(crate) fn order(x: &Value, y: &Value) -> Result<Ordering, QError> {
    limits::step()?;
    if let (Some(x), Some(y)) = (number(x), number(y)) {
        return Ok(x.cmp(&y));
    }
    if let (Some(x), Some(y)) = (x.as_float(), y.as_float()) {
        return Ok(float_order(x, y));
    }
    Ok(match (x, y) {
        (Value::Sym(x) | Value::Enum(_, x), Value::Sym(y) | Value::Enum(_, y)) => text(*x).cmp(text(*y)),
        (Value::Guid(x), Value::Guid(y)) => x.cmp(y),
        (Value::Vector(a), Value::Vector(b)) => {
            if a.items.is_same_memory(&b.items) {
                return Ok(Ordering::Equal);
            }
            if let (Raw::U8(a), Raw::U8(b)) = (a.items.raw(), b.items.raw()) {
                return order_bytes(a, b);
            }
            for i in 0..a.len().min(b.len()) {
                let item = order(&a.items.get(i), &b.items.get(i))?;
                if item.is_ne() {
                    return Ok(item);
                }
            }
            a.len().cmp(&b.len())
        }
        (Value::Dict(x), Value::Dict(y)) => return order(&x.values, &y.values),
        _ => type_of(x).cmp(&type_of(y)),
    })
}

/// The order of texts and bytes, in blocks between which the limits are checked.
pub(crate) fn order_bytes(x: &[u8], y: &[u8]) -> Result<Ordering, QError> {
    for (a, b) in x.chunks(BLOCK).zip(y.chunks(BLOCK)) {
        limits::step()?;
        if a != b {
            return Ok(a.cmp(b));
        }
    }
    Ok(x.len().cmp(&y.len()))
}

/// The order of a list of mixed types, as sorting has it: by type, then by value.
pub(crate) fn order_mixed(x: &Value, y: &Value) -> Result<Ordering, QError> {
    match x.type_number().unsigned_abs().cmp(&y.type_number().unsigned_abs()) {
        Ordering::Equal => order(x, y),
        by_type => Ok(by_type),
    }
}

/// Binary search: the number of leading `rows` for which `before` holds.
///
/// # Errors
/// Those of `before`.
pub(crate) fn partition_point<T, E>(rows: &[T], mut before: impl FnMut(&T) -> Result<bool, E>) -> Result<usize, E> {
    let (mut from, mut to) = (0, rows.len());
    while from < to {
        let middle = from.midpoint(to);
        match rows.get(middle) {
            Some(row) if before(row)? => from = middle + 1,
            _ => to = middle,
        }
    }
    Ok(from)
}

fn number(x: &Value) -> Option<i64> {
    if matches!(x, Value::Float(_) | Value::Real(_) | Value::Datetime(_)) { None } else { x.as_long() }
}
