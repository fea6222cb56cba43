//! Operations of the VM on registers: fast paths for the commonest types. All others call the primitives, so that each has one meaning.

use super::in_place::{Change, push, put, separate};
use super::quick::quick;
use crate::runtime::context::Context;
use crate::runtime::op::Op;
use crate::runtime::scalar::Scalar;
use crate::runtime::values::truth as holds;
use crate::syntax::prims;
use crate::syntax::steps::Monad;
use crate::verbs::above::Evaluate;
use crate::verbs::amend::Amend;
use crate::verbs::append as rows;
use crate::verbs::{amend, arith, call, index};
use columns::kernel::num::Num;
use columns::kernel::zip::Comparison;
use columns::table::{Items, Value, Vector};

/// Applies an atomic operator to values; `None` on an error.
#[cold]
#[inline(never)]
pub(super) fn through(context: &mut Context, objects: &[Value], op: Op, x: Scalar, y: Scalar) -> Option<Value> {
    let (x, y) = (x.value(objects)?, y.value(objects)?);
    arith::atomic(context, op, &x, &y).ok()
}

/// Applies any other primitive of two arguments; `None` on an error.
pub(super) fn other(context: &mut Context, objects: &[Value], primitive: u16, x: Scalar, y: Scalar) -> Option<Value> {
    let (x, y) = (x.value(objects)?, y.value(objects)?);
    call::run2(context, primitive, x, y).ok()
}

/// `x div y` for a constant `y`; a shift if it is a power of two.
#[inline]
pub(super) fn div_by(x: i64, y: i32) -> i64 {
    match u32::try_from(y) {
        Ok(y) if y.is_power_of_two() && !x.is_null() => x >> y.trailing_zeros(),
        _ => arith::long_div(x, i64::from(y)),
    }
}

/// `x mod y` for a constant `y`; a mask if it is a power of two.
#[inline]
pub(super) fn mod_by(x: i64, y: i32) -> i64 {
    match u32::try_from(y) {
        Ok(y) if y.is_power_of_two() && !x.is_null() => x & i64::from(y - 1),
        _ => arith::long_mod(x, i64::from(y)),
    }
}

/// Result of a comparison; `None` on an error.
#[inline]
pub(super) fn compare(context: &mut Context, objects: &[Value], c: Comparison, x: &Scalar, y: &Scalar) -> Option<bool> {
    match quick(Op::Compare(c), x, y) {
        Some(Scalar::Bool(holds)) => Some(holds),
        _ => holds(&through(context, objects, Op::Compare(c), *x, *y)?).ok(),
    }
}

/// Whether a condition holds; `None` if it is not an atom with a truth value.
#[inline]
pub(super) fn truth(x: &Scalar) -> Option<bool> {
    match x {
        Scalar::Bool(b) => Some(*b),
        Scalar::Long(l) => Some(*l != 0),
        other => holds(&other.value(&[])?).ok(),
    }
}

/// Fast paths of primitives of one argument.
#[inline]
pub(super) fn quick_unary(objects: &[Value], monad: Monad, x: &Scalar) -> Option<Scalar> {
    Some(match (monad, x) {
        (Monad::Neg, Scalar::Long(x)) => Scalar::Long(x.negate()),
        (Monad::Neg, Scalar::Float(x)) => Scalar::Float(-x),
        (Monad::Abs, Scalar::Long(x)) => Scalar::Long(x.absolute()),
        (Monad::Abs, Scalar::Float(x)) => Scalar::Float(x.abs()),
        (Monad::Not, Scalar::Bool(x)) => Scalar::Bool(!x),
        (Monad::Not, Scalar::Long(x)) => Scalar::Bool(*x == 0),
        (Monad::Sqrt, Scalar::Float(x)) => Scalar::Float(x.sqrt()),
        (Monad::Count, Scalar::Object(place)) => Scalar::Long(objects.get(*place as usize)?.count() as i64),
        _ => return None,
    })
}

/// Applies a primitive of one argument; `None` on an error.
pub(super) fn unary(context: &mut Context, objects: &[Value], primitive: u16, x: Scalar) -> Option<Value> {
    let x = x.value(objects)?;
    context.call1(&prims::of_index(primitive), x).ok()
}

/// `x[y]` on a simple vector.
#[inline]
pub(super) fn quick_item(objects: &[Value], x: &Scalar, y: &Scalar) -> Option<Scalar> {
    let (Scalar::Object(place), Scalar::Long(row)) = (x, y) else { return None };
    let Some(Value::Vector(Vector { items, .. })) = objects.get(*place as usize) else { return None };
    let row = usize::try_from(*row).ok()?;
    match items {
        Items::Long(v) => v.get(row).map(|v| Scalar::Long(*v)),
        Items::Float(v) => v.get(row).map(|v| Scalar::Float(*v)),
        Items::Bool(v) => v.get(row).map(|v| Scalar::Bool(*v != 0)),
        Items::Int(v) => v.get(row).map(|v| Scalar::Int(*v)),
        Items::Char(v) => v.get(row).map(|v| Scalar::Char(*v)),
        _ => None,
    }
}

/// `x[y]` on an object; `None` on an error.
pub(super) fn item(context: &mut Context, objects: &[Value], x: Scalar, y: Scalar) -> Option<Value> {
    let Scalar::Object(place) = x else { return None };
    let y = y.value(objects)?;
    index::deep(context, objects.get(place as usize)?, &[y]).ok()
}

/// Updates in place, after a copy if the items have other references.
#[inline]
fn in_place(context: &Context, x: &mut Value, change: impl Fn(&mut Value) -> Change) -> Change {
    match change(x) {
        Change::Shared if context.reserve_items(x.count(), 8).is_ok() => {
            separate(x);
            change(x)
        }
        other => other,
    }
}

/// `x[y]:value` or `x[y]op:value`; false on an error, which may leave `x` destroyed.
pub(super) fn amend(
    context: &mut Context,
    objects: &mut [Value],
    x: usize,
    y: Scalar,
    value: Scalar,
    op: Option<Op>,
) -> bool {
    let Some(object) = objects.get_mut(x) else { return false };
    if in_place(context, object, |x| put(x, y, value, op)) == Change::Done {
        return true;
    }
    let (Some(y), Some(value)) = (y.value(objects), value.value(objects)) else { return false };
    let Some(object) = objects.get_mut(x) else { return false };
    let function = match op {
        None => None,
        Some(op) => match prims::PRIMITIVES.iter().position(|p| p.atomic == Some(op)).map(u16::try_from) {
            Some(Ok(index)) => Some(prims::of_index(index)),
            _ => return false,
        },
    };
    let change = Amend { function: function.as_ref(), value: Some(&value) };
    match amend::deep(context, std::mem::replace(object, Value::Null), &[y], &change) {
        Ok(changed) => {
            *object = changed;
            true
        }
        Err(_) => false,
    }
}

/// `x,:y`; false on an error, which may leave `x` destroyed.
pub(super) fn append(context: &mut Context, objects: &mut [Value], x: usize, y: Scalar) -> bool {
    let Some(object) = objects.get_mut(x) else { return false };
    if in_place(context, object, |x| push(x, y)) == Change::Done {
        return true;
    }
    let Some(y) = y.value(objects) else { return false };
    let Some(object) = objects.get_mut(x) else { return false };
    match rows::append_to(context, std::mem::replace(object, Value::Null), y) {
        Ok(longer) => {
            *object = longer;
            true
        }
        Err(_) => false,
    }
}
