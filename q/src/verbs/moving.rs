//! Moving functions over the last `n` items (`msum`, `mavg`, `mmax` and the like), and the exponential moving average.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::map::columns;
use crate::verbs::map::map;
use crate::verbs::rows::flip_list;
use crate::verbs::shape::long;
use crate::verbs::{aggregate, arith, monads};
use columns::kernel::blocks;
use columns::kernel::num::Num;
use columns::kernel::windows;
use columns::table::{Element, Items, Raw, Value, Vector};
use proto::types;

type Moved = std::result::Result<Items, QError>;

/// Applies a function of `n` and a vector to every vector in `y`; lists of lists are taken item by item.
fn moving(context: &mut Context, x: &Value, y: &Value, f: &dyn Fn(usize, &Items) -> Moved) -> Result {
    context.enter()?;
    let n = usize::try_from(long(x)?).map_err(|_| QError::named("domain"))?;
    match y {
        Value::Dict(d) => {
            let values = moving(context, x, &d.values, f)?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        Value::Table(t) => columns(context, t, |c, column| moving(c, x, &column, f)),
        // Atoms of several numeric types, as a column of rows of several types has them, count in the widest of these types.
        Value::Vector(Vector { items: Items::List(l), .. }) if !l.is_empty() && l.iter().all(Value::is_atom) => {
            let widest = l.iter().map(|item| -item.type_number()).max().unwrap_or(types::LONG);
            if !l.iter().all(|item| (types::BOOL..=types::FLOAT).contains(&-item.type_number())) {
                return Err(type_error());
            }
            let numbers = crate::verbs::cast::to(context, widest, y)?;
            moving(context, x, &numbers, f)
        }
        Value::Vector(Vector { items: Items::List(l), .. }) if !l.is_empty() => {
            let flipped = flip_list(y.clone())?;
            flip_list(map(context, &flipped, |c, column| moving(c, x, &column, f))?)
        }
        Value::Vector(v) => Ok(f(n, &v.items)?.into()),
        _ => Err(type_error()),
    }
}

/// The items; those of a text as its characters' codes, which is what `sums"ab"` adds.
fn numbers(items: &Items) -> Moved {
    if matches!(items, Items::Char(_)) { crate::verbs::cast::to_type(types::INT, items) } else { Ok(items.clone()) }
}

/// Computes on the items as floats.
fn floats(items: &Items, f: impl FnOnce(&[f64]) -> Vec<f64>) -> Moved {
    Ok(Items::Float(aggregate::with_floats(&numbers(items)?, f)?.into()))
}

/// `n msum y`: integers stay integers, as in `sums`.
pub(crate) fn msum(context: &mut Context, x: Value, y: Value) -> Result {
    if !matches!(x, Value::Bool(_) | Value::Byte(_) | Value::Short(_) | Value::Int(_) | Value::Long(_)) {
        return Err(type_error());
    }
    moving(context, &x, &y, &|n, items| sums_of(n, &numbers(items)?))
}

fn sums_of(n: usize, items: &Items) -> Moved {
    if !matches!(items.raw(), Raw::I64(_) | Raw::I32(_) | Raw::I16(_) | Raw::U8(_)) {
        let sums = floats(items, |v| windows::sums(n, v, |sum, _| sum))?;
        return match items.type_number().max(types::REAL) {
            types::DATETIME => Ok(sums),
            t => crate::verbs::cast::to_type(t, &sums),
        };
    }
    let t = items.type_number().max(types::INT);
    let sums = windows::integer_sums(n, &arith::longs(items, t)?);
    // A difference of sums, so of points in time a span.
    let t = match t {
        types::TIMESTAMP => types::TIMESPAN,
        types::MONTH | types::DATE => types::INT,
        t => t,
    };
    Ok(match t {
        // Four-byte types wrap on overflow, as eight-byte types do.
        types::INT | types::MONTH | types::DATE | types::MINUTE..=types::TIME => {
            i32::wrap(t, blocks::map(&sums, |sum| *sum as i32))
        }
        _ => i64::wrap(t, sums.into()),
    })
}

pub(crate) fn mavg(context: &mut Context, x: Value, y: Value) -> Result {
    moving(context, &x, &y, &|n, items| floats(items, |v| windows::sums(n, v, |sum, count| sum / count)))
}

/// `n mcount y`: how many of the last `n` items are not null, of any type that has nulls.
pub(crate) fn mcount(context: &mut Context, x: Value, y: Value) -> Result {
    let is_null = monads::null(context, y)?;
    let is_known = monads::not(context, is_null)?;
    msum(context, x, is_known)
}

pub(crate) fn mdev(context: &mut Context, x: Value, y: Value) -> Result {
    moving(context, &x, &y, &|n, items| floats(items, |v| windows::deviations(n, v)))
}

/// Moving extremes in the items' own type. Null is the lowest value. A window that reaches before the first item has negative infinity there, which
/// is a maximum of nulls: `2 mmax 0N 0N` is `-0W 0N`.
fn extremes(n: usize, items: &Items, most: bool) -> Moved {
    fn of<T: Element + Num>(n: usize, t: i8, v: &[T], most: bool) -> Items {
        let found = if most {
            let mut found = windows::extreme(n, v, |new, old| new >= old || old.is_null());
            let begun = found.iter_mut().take(n.saturating_sub(1));
            begun.filter(|item| item.is_null()).for_each(|item| *item = T::NEGATIVE_INFINITY);
            found
        } else {
            windows::extreme(n, v, |new, old| new <= old || new.is_null())
        };
        T::wrap(t, found.into())
    }
    let t = items.type_number();
    Ok(match items.raw() {
        Raw::U8(v) => of(n, t, v, most),
        Raw::I16(v) => of(n, t, v, most),
        Raw::I32(v) => of(n, t, v, most),
        Raw::I64(v) => of(n, t, v, most),
        Raw::F32(v) => of(n, t, v, most),
        Raw::F64(v) => of(n, t, v, most),
        Raw::List([]) => items.clone(),
        Raw::List(_) | Raw::Sym(_) | Raw::Guid(_) => return Err(type_error()),
    })
}

pub(crate) fn mmax(context: &mut Context, x: Value, y: Value) -> Result {
    moving_extremes(context, x, y, true)
}

pub(crate) fn mmin(context: &mut Context, x: Value, y: Value) -> Result {
    moving_extremes(context, x, y, false)
}

/// A window of one item, of none or of fewer leaves `y` as it is.
fn moving_extremes(context: &mut Context, x: Value, y: Value, most: bool) -> Result {
    if long(&x)? < 2 {
        return if y.is_scalar() { Err(type_error()) } else { Ok(y) };
    }
    moving(context, &x, &y, &|n, items| extremes(n, items, most))
}

/// Exponential moving average.
pub(crate) fn ema(_: &mut Context, x: Value, y: Value) -> Result {
    let each: Vec<f64> = if x.is_scalar() {
        vec![x.as_float().ok_or_else(type_error)?]
    } else {
        crate::verbs::convert::floats(&x.to_items())?
    };
    if !x.is_scalar() && each.len() != y.count() {
        return Err(QError::named("length"));
    }
    let mut alphas = each.iter().cycle();
    let mut last = None;
    // A null makes everything after it null, as in the scan that defines `ema`.
    let smooth = |items: &[f64]| -> Vec<f64> {
        blocks::map(items, |f| {
            let alpha = alphas.next().copied().unwrap_or(f64::NAN);
            let next = last.map_or(*f, |last| alpha * f + (1.0 - alpha) * last);
            last = Some(next);
            next
        })
    };
    Ok(Value::floats(aggregate::with_floats(&y.to_items(), smooth)?))
}
