//! What the machine's steps do to registers. The commonest pairs of types are done here; all others go through the
//! primitives themselves, so that there is one meaning of each.

use super::in_place::{Change, push, put, separate};
use super::scalar::Scalar;
use super::step::Monad;
use crate::amend::{self, Amend};
use crate::arith::{self, Op};
use crate::context::Context;
use crate::{append as rows, eval, index, prims};
use columns::kernel::num::Num;
use columns::kernel::zip::{Arithmetic, Comparison, float_holds, greater, lesser};
use columns::table::{Items, Value, Vector};

/// A function of two arguments that works item by item; `None` where it is an error.
#[cold]
#[inline(never)]
pub(super) fn through(context: &mut Context, objects: &[Value], op: Op, x: Scalar, y: Scalar) -> Option<Value> {
    let (x, y) = (x.value(objects)?, y.value(objects)?);
    arith::atomic(context, op, &x, &y).ok()
}

/// Any other primitive of two arguments.
pub(super) fn other(context: &mut Context, objects: &[Value], primitive: u16, x: Scalar, y: Scalar) -> Option<Value> {
    let (x, y) = (x.value(objects)?, y.value(objects)?);
    prims::run2(context, primitive, x, y).ok()
}

/// Pairs of long, float, int and boolean.
#[inline]
pub(super) fn quick(op: Op, x: &Scalar, y: &Scalar) -> Option<Scalar> {
    use Scalar::{Bool, Float, Int, Long};
    match (x, y) {
        (Long(x), Long(y)) => longs(op, *x, *y),
        (Float(x), Float(y)) => floats(op, *x, *y),
        (Long(x), Float(y)) => floats(op, x.to_float(), *y),
        (Float(x), Long(y)) => floats(op, *x, y.to_float()),
        (Bool(x), Long(y)) => longs(op, i64::from(*x), *y),
        (Long(x), Bool(y)) => longs(op, *x, i64::from(*y)),
        (Int(x), Int(y)) => match op {
            Op::Arithmetic(Arithmetic::Add) => Some(Int(x.plus(*y))),
            Op::Arithmetic(Arithmetic::Subtract) => Some(Int(x.minus(*y))),
            Op::Arithmetic(Arithmetic::Multiply) => Some(Int(x.times(*y))),
            Op::Compare(c) => Some(Bool(arith::holds(c, x.cmp(y)))),
            _ => None,
        },
        (Bool(x), Bool(y)) => match op {
            Op::Arithmetic(Arithmetic::Lesser) => Some(Bool(x & y)),
            Op::Arithmetic(Arithmetic::Greater) => Some(Bool(x | y)),
            Op::Compare(c) => Some(Bool(arith::holds(c, x.cmp(y)))),
            _ => None,
        },
        _ => None,
    }
}

#[inline]
fn longs(op: Op, x: i64, y: i64) -> Option<Scalar> {
    Some(match op {
        Op::Arithmetic(Arithmetic::Add) => Scalar::Long(x.plus(y)),
        Op::Arithmetic(Arithmetic::Subtract) => Scalar::Long(x.minus(y)),
        Op::Arithmetic(Arithmetic::Multiply) => Scalar::Long(x.times(y)),
        Op::Arithmetic(Arithmetic::Lesser) => Scalar::Long(x.min(y)),
        Op::Arithmetic(Arithmetic::Greater) => Scalar::Long(x.max(y)),
        Op::Compare(c) => Scalar::Bool(arith::holds(c, x.cmp(&y))),
        Op::Divide => Scalar::Float(x.to_float() / y.to_float()),
        Op::Div => Scalar::Long(arith::long_div(x, y)),
        Op::Mod => Scalar::Long(arith::long_mod(x, y)),
        _ => return None,
    })
}

#[inline]
fn floats(op: Op, x: f64, y: f64) -> Option<Scalar> {
    Some(match op {
        Op::Arithmetic(Arithmetic::Add) => Scalar::Float(x + y),
        Op::Arithmetic(Arithmetic::Subtract) => Scalar::Float(x - y),
        Op::Arithmetic(Arithmetic::Multiply) => Scalar::Float(x * y),
        Op::Arithmetic(Arithmetic::Lesser) => Scalar::Float(lesser(x, y)),
        Op::Arithmetic(Arithmetic::Greater) => Scalar::Float(greater(x, y)),
        Op::Compare(c) => Scalar::Bool(float_holds(c, x, y)),
        Op::Divide => Scalar::Float(x / y),
        _ => return None,
    })
}

/// `x div y` of a constant: by a shift where that is a power of two.
#[inline]
pub(super) fn div_by(x: i64, y: i32) -> i64 {
    match u32::try_from(y) {
        Ok(y) if y.is_power_of_two() && !x.is_null() => x >> y.trailing_zeros(),
        _ => arith::long_div(x, i64::from(y)),
    }
}

/// `x mod y` of a constant: by a mask where that is a power of two.
#[inline]
pub(super) fn mod_by(x: i64, y: i32) -> i64 {
    match u32::try_from(y) {
        Ok(y) if y.is_power_of_two() && !x.is_null() => x & i64::from(y - 1),
        _ => arith::long_mod(x, i64::from(y)),
    }
}

/// A comparison as a condition.
#[inline]
pub(super) fn compare(context: &mut Context, objects: &[Value], c: Comparison, x: &Scalar, y: &Scalar) -> Option<bool> {
    match quick(Op::Compare(c), x, y) {
        Some(Scalar::Bool(holds)) => Some(holds),
        _ => eval::truth(&through(context, objects, Op::Compare(c), *x, *y)?).ok(),
    }
}

/// Whether a condition holds.
#[inline]
pub(super) fn truth(x: &Scalar) -> Option<bool> {
    match x {
        Scalar::Bool(b) => Some(*b),
        Scalar::Long(l) => Some(*l != 0),
        other => eval::truth(&other.value(&[])?).ok(),
    }
}

/// A primitive of one argument, where it has a short way.
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

/// A primitive of one argument.
pub(super) fn unary(context: &mut Context, objects: &[Value], primitive: u16, x: Scalar) -> Option<Value> {
    let x = x.value(objects)?;
    context.call1(&prims::of_index(primitive), x).ok()
}

/// `x[y]` of a simple vector.
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

/// `x[y]` of an object.
pub(super) fn item(context: &mut Context, objects: &[Value], x: Scalar, y: Scalar) -> Option<Value> {
    let Scalar::Object(place) = x else { return None };
    let y = y.value(objects)?;
    index::deep(context, objects.get(place as usize)?, &[y]).ok()
}

/// A change in place, after a copy if others hold the items too.
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

/// `x[y]:value` or `x[y]op:value`; false where it is an error, and `x` may be lost then.
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

/// `x,:y`; false where it is an error, and `x` may be lost then.
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
