//! Fast paths for pairs of the commonest atom types, without conversion to values.

use crate::runtime::op::Op;
use crate::runtime::scalar::Scalar;
use crate::verbs::arith;
use columns::kernel::num::Num;
use columns::kernel::zip::{Arithmetic, float_holds, greater, lesser};

/// Fast path for pairs of long, float, int and boolean; `None` for other types and operators.
#[inline]
pub(super) fn quick(op: Op, x: &Scalar, y: &Scalar) -> Option<Scalar> {
    use Scalar::{Bool, Float, Int, Long};
    match (x, y) {
        (Long(x), Long(y)) => longs(op, *x, *y),
        (Float(x), Float(y)) => floats(op, *x, *y),
        (Long(x), Float(y)) => floats(op, x.to_float(), *y),
        (Float(x), Long(y)) => floats(op, *x, y.to_float()),
        // `div` has the type of its left operand.
        (Bool(x), Long(y)) if op != Op::Div => longs(op, i64::from(*x), *y),
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
