//! Aggregates, running and moving functions over lists, dictionaries and tables.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::op::Op;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::prims;
use crate::verbs::aggregate::Aggregate;
use crate::verbs::cast::to_type;
use crate::verbs::convert::floats;
use crate::verbs::map::columns;
use crate::verbs::shape::by_column;
use crate::verbs::{aggregate, arith};
use columns::kernel::blocks;
use columns::kernel::merge;
use columns::kernel::num::{Num, float_order};
use columns::kernel::zip::{Arithmetic, Comparison};
use columns::table::{Element, Items, Raw, Value, Vector};
use proto::types;

/// Aggregates a vector by its kernel, a list of lists item by item, a table by column, a dictionary over its values.
fn reduce(context: &mut Context, x: Value, what: Aggregate, op: Option<Op>) -> Result {
    match &x {
        Value::Vector(v) if !matches!(v.items, Items::List(_)) => {
            if let Some(result) = aggregate::whole(&context.allowance, what, std::slice::from_ref(&v.items))? {
                return Ok(result);
            }
            Err(type_error())
        }
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            let Some(op) = op else {
                return match what {
                    // In a mixed list every item counts, including nulls.
                    Aggregate::Avg if l.iter().all(Value::is_atom) => {
                        let plain = crate::verbs::cast::to(context, types::FLOAT, &x)?;
                        let total = reduce(context, plain, Aggregate::Sum, None)?;
                        arith::atomic(context, Op::Divide, &total, &Value::Long(l.len() as i64))
                    }
                    _ if l.iter().all(Value::is_atom) => {
                        let plain = crate::verbs::cast::to(context, types::FLOAT, &x)?;
                        reduce(context, plain, what, None)
                    }
                    Aggregate::Avg => {
                        let total = reduce(context, x.clone(), Aggregate::Sum, prims::op("+"))?;
                        arith::atomic(context, Op::Divide, &total, &Value::Long(l.len() as i64))
                    }
                    // A matrix is aggregated column by column.
                    _ => {
                        let columns = crate::verbs::shape::flip(context, x.clone())?;
                        context.enter()?;
                        crate::verbs::map::map(context, &columns, |c, column| reduce(c, column, what, None))
                    }
                };
            };
            let mut items = l.iter();
            let Some(first) = items.next() else {
                return Ok(match what {
                    Aggregate::Min => Value::Long(i64::MAX),
                    Aggregate::Max => Value::Long(-i64::MAX),
                    _ => Value::empty(),
                });
            };
            let mut total = first.clone();
            for item in items {
                context.tick()?;
                total = arith::atomic(context, op, &total, item)?;
            }
            Ok(total)
        }
        Value::Dict(d) => reduce(context, d.values.clone(), what, op),
        Value::Table(t) => by_column(context, t, |c, column| reduce(c, column, what, op)),
        Value::Func(_) | Value::Null => Err(type_error()),
        Value::Sym(_) if op.is_none() => Err(type_error()),
        // sum, min and max of an atom are that atom, also of a symbol: max`a is `a.
        atom => match what {
            Aggregate::Avg => Ok(Value::Float(atom.as_float().ok_or_else(type_error)?)),
            Aggregate::Var { sample, .. } => Ok(Value::Float(if sample { f64::NAN } else { 0.0 })),
            _ => Ok(x),
        },
    }
}

macro_rules! aggregates {
    ($($name:ident $what:expr, $op:expr;)*) => { $(
        pub(crate) fn $name(context: &mut Context, x: Value) -> Result {
            reduce(context, x, $what, $op)
        }
    )* };
}
aggregates! {
    sum Aggregate::Sum, Some(Op::Arithmetic(Arithmetic::Add));
    min Aggregate::Min, Some(Op::Arithmetic(Arithmetic::Lesser));
    max Aggregate::Max, Some(Op::Arithmetic(Arithmetic::Greater));
    avg Aggregate::Avg, None;
    var Aggregate::Var { sample: false, root: false }, None;
    dev Aggregate::Var { sample: false, root: true }, None;
    svar Aggregate::Var { sample: true, root: false }, None;
    sdev Aggregate::Var { sample: true, root: true }, None;
}

pub(crate) fn prd(context: &mut Context, x: Value) -> Result {
    let times = Op::Arithmetic(Arithmetic::Multiply);
    match &x {
        Value::Vector(Vector { items: Items::Char(_), .. }) => Err(type_error()),
        Value::Vector(Vector { items: Items::List(l), .. }) if l.is_empty() => Ok(Value::Long(1)),
        Value::Vector(Vector { items: Items::List(_), .. }) => reduce(context, x, Aggregate::Sum, Some(times)),
        Value::Vector(v) => Ok(match v.items.raw() {
            Raw::F64(_) | Raw::F32(_) => {
                let factor = |all: f64, f: &f64| if f.is_nan() { all } else { all * f };
                let product = blocks::fold(&floats(&v.items)?, 1.0, factor);
                match v.items.type_number() {
                    types::REAL => Value::Real(product as f32),
                    types::DATETIME => Value::Datetime(product),
                    _ => Value::Float(product),
                }
            }
            _ => {
                let t = if v.items.type_number() < types::INT { types::INT } else { v.items.type_number() };
                let longs = arith::longs(&v.items, t)?;
                Value::from_long(
                    t,
                    blocks::fold(&longs, 1, |all: i64, l| if l.is_null() { all } else { all.multiplied(*l) }),
                )
            }
        }),
        Value::Dict(d) => prd(context, d.values.clone()),
        Value::Table(t) => by_column(context, t, prd),
        _ => Ok(x),
    }
}

/// The items that are not null.
/// Average of the two items in the middle of a sorted list or table, which are the same one if the count is odd.
fn middle_items(context: &mut Context, x: Value) -> Result {
    let half = x.count() / 2;
    let order = crate::verbs::sort::iasc(context, x.clone())?;
    let lower = (half + x.count() % 2).saturating_sub(1);
    let rows = [lower, half].map(|i| order.at(i).as_long().unwrap_or(i64::MIN));
    avg(context, x.gather(&rows))
}

pub(crate) fn med(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Dict(d) => med(context, d.values.clone()),
        Value::Vector(Vector { items: Items::List(l), .. })
            if !l.is_empty() && l.iter().all(|item| !item.is_scalar()) =>
        {
            middle_items(context, x)
        }
        Value::Vector(Vector { items: Items::List(l), .. }) if l.is_empty() => Ok(Value::Float(f64::NAN)),
        // Rows are sorted as a whole.
        Value::Table(t) if t.count() > 0 => middle_items(context, x),
        Value::Table(t) => by_column(context, t, med),
        Value::Vector(v) => {
            let mut f: Vec<f64> = floats(&v.items)?;
            // Nulls come first and count for the middle; the average of the two middle items leaves them out.
            merge::standard(&mut f, |a, b| float_order(*a, *b));
            let at = |i: usize| f.get(i).copied().unwrap_or(f64::NAN);
            let (lower, upper) = (at((f.len() / 2 + f.len() % 2).saturating_sub(1)), at(f.len() / 2));
            Ok(Value::Float(match (lower.is_nan(), upper.is_nan()) {
                (true, _) => upper,
                (_, true) => lower,
                _ => (lower + upper) / 2.0,
            }))
        }
        atom => Ok(Value::Float(atom.as_float().ok_or_else(type_error)?)),
    }
}

pub(crate) fn all(context: &mut Context, x: Value) -> Result {
    let bits = crate::verbs::cast::to(context, 1, &x)?;
    let result = reduce(context, bits, Aggregate::Min, Some(Op::Arithmetic(Arithmetic::Lesser)))?;
    as_bool(context, result)
}

pub(crate) fn any(context: &mut Context, x: Value) -> Result {
    let bits = crate::verbs::cast::to(context, 1, &x)?;
    if let Value::Vector(v) = &bits
        && v.is_empty()
    {
        return Ok(Value::Bool(false));
    }
    let result = reduce(context, bits, Aggregate::Max, Some(Op::Arithmetic(Arithmetic::Greater)))?;
    as_bool(context, result)
}

fn as_bool(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Byte(b) => Ok(Value::Bool(*b != 0)),
        _ => crate::verbs::cast::to(context, 1, &x),
    }
}

/// Two numeric lists as floats, without the pairs that have a null.
fn paired(x: &Value, y: &Value) -> std::result::Result<(Vec<f64>, Vec<f64>), QError> {
    let (a, b) = (floats(&x.to_items())?, floats(&y.to_items())?);
    if a.len() != b.len() {
        return Err(QError::named("length"));
    }
    let is_known: Vec<bool> = blocks::both(&a, &b, |a, b| !a.is_nan() && !b.is_nan());
    let kept = |items: &[f64]| {
        let item = |i: usize| items.get(i).copied().filter(|_| is_known.get(i) == Some(&true));
        blocks::kept(0..items.len(), item)
    };
    Ok((kept(&a), kept(&b)))
}

pub(crate) fn wavg(context: &mut Context, x: Value, y: Value) -> Result {
    weighted(context, Aggregate::WeightedAvg, x, y)
}

pub(crate) fn wsum(context: &mut Context, x: Value, y: Value) -> Result {
    weighted(context, Aggregate::WeightedSum, x, y)
}

fn weighted(context: &mut Context, what: Aggregate, x: Value, y: Value) -> Result {
    let is_list =
        |v: &Value| matches!(v, Value::Vector(Vector { items: Items::List(_), .. }) | Value::Dict(_) | Value::Table(_));
    if is_list(&x) || is_list(&y) || x.is_scalar() || y.is_scalar() {
        let products = arith::atomic(context, Op::Arithmetic(Arithmetic::Multiply), &x, &y)?;
        let total = sum(context, products)?;
        if what == Aggregate::WeightedSum {
            return Ok(total);
        }
        let weights = sum(context, x)?;
        return arith::atomic(context, Op::Divide, &total, &weights);
    }
    if x.count() != y.count() {
        return Err(QError::named("length"));
    }
    aggregate::whole(&context.allowance, what, &[x.to_items(), y.to_items()])?.ok_or_else(type_error)
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let sum = |items: &[f64]| blocks::fold(items, 0.0, |sum, f| sum + f);
    let (ma, mb) = (sum(a) / n, sum(b) / n);
    let products: Vec<f64> = blocks::both(a, b, |a, b| (a - ma) * (b - mb));
    sum(&products) / n
}

pub(crate) fn cov(_: &mut Context, x: Value, y: Value) -> Result {
    let (a, b) = paired(&x, &y)?;
    Ok(Value::Float(covariance(&a, &b)))
}

pub(crate) fn scov(_: &mut Context, x: Value, y: Value) -> Result {
    let (a, b) = paired(&x, &y)?;
    let n = a.len() as f64;
    Ok(Value::Float(covariance(&a, &b) * n / (n - 1.0)))
}

pub(crate) fn cor(_: &mut Context, x: Value, y: Value) -> Result {
    let (a, b) = paired(&x, &y)?;
    Ok(Value::Float(covariance(&a, &b) / (covariance(&a, &a) * covariance(&b, &b)).sqrt()))
}

/// Running results of `op` over a simple vector, by a kernel: `sums`, `mins` and the like.
pub(crate) fn running(op: Arithmetic, x: &Items) -> Option<Items> {
    fn each<T: Num + Element>(t: i8, v: &[T], start: T, f: impl Fn(T, T) -> T) -> Items {
        let mut total = start;
        T::wrap(
            t,
            blocks::map(v, |x| {
                if !x.is_null() {
                    total = f(total, *x);
                }
                total
            }),
        )
    }
    fn go<T: Num + Element>(op: Arithmetic, t: i8, v: &[T], zero: T, one: T) -> Items {
        match op {
            Arithmetic::Add => each(t, v, zero, T::added),
            Arithmetic::Multiply => each(t, v, one, T::multiplied),
            Arithmetic::Greater => each(t, v, T::NEGATIVE_INFINITY, |a, b| if b > a { b } else { a }),
            _ => {
                let mut best = T::INFINITY;
                T::wrap(
                    t,
                    blocks::map(v, |x| {
                        if !x.is_null() && *x < best {
                            best = *x;
                        }
                        best
                    }),
                )
            }
        }
    }
    let t = x.type_number();
    let add = matches!(op, Arithmetic::Add | Arithmetic::Multiply);
    let as_int = |i: &i16| if i.is_null() { i32::NULL } else { i32::from(*i) };
    Some(match x.raw() {
        Raw::I64(v) => go(op, t, v, 0, 1),
        Raw::I32(v) => go(op, t, v, 0, 1),
        Raw::F64(v) => go(op, t, v, 0.0, 1.0),
        Raw::F32(v) => go(op, t, v, 0.0, 1.0),
        Raw::I16(v) if !add => go(op, t, v, 0, 1),
        Raw::I16(v) => go(op, types::INT, &blocks::map::<_, _, Vec<i32>>(v, as_int), 0, 1),
        Raw::U8(v) if !add => go(op, t, v, 0, 1),
        // Running sums of characters are those of their codes; there are no products of them.
        Raw::U8(v) if t != types::CHAR || op == Arithmetic::Add => {
            go(op, types::INT, &blocks::map::<_, _, Vec<i32>>(v, |i| i32::from(*i)), 0, 1)
        }
        _ => return None,
    })
}

fn scan(context: &mut Context, x: Value, op: Arithmetic) -> Result {
    match &x {
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            let mut out: Vec<Value> = Vec::with_capacity(l.len());
            for item in l.iter() {
                context.tick()?;
                out.push(match out.last() {
                    Some(before) => {
                        let before = before.clone();
                        arith::atomic(context, Op::Arithmetic(op), &before, item)?
                    }
                    None => item.clone(),
                });
            }
            Ok(Value::collapse(out))
        }
        Value::Vector(v) => running(op, &v.items).map(Value::from).ok_or_else(type_error),
        Value::Dict(d) => {
            let values = scan(context, d.values.clone(), op)?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        Value::Table(t) => columns(context, t, |c, column| scan(c, column, op)),
        _ => Ok(x),
    }
}

pub(crate) fn sums(context: &mut Context, x: Value) -> Result {
    scan(context, x, Arithmetic::Add)
}

pub(crate) fn prds(context: &mut Context, x: Value) -> Result {
    scan(context, x, Arithmetic::Multiply)
}

pub(crate) fn mins(context: &mut Context, x: Value) -> Result {
    scan(context, x, Arithmetic::Lesser)
}

pub(crate) fn maxs(context: &mut Context, x: Value) -> Result {
    scan(context, x, Arithmetic::Greater)
}

pub(crate) fn avgs(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Dict(d) => {
            let values = avgs(context, d.values.clone())?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        Value::Table(t) => columns(context, t, avgs),
        Value::Vector(Vector { items: Items::List(l), .. }) if !l.is_empty() => {
            let totals = sums(context, x.clone())?;
            let counts = Value::longs((1..=l.len() as i64).collect());
            arith::atomic(context, Op::Divide, &totals, &counts)
        }
        Value::Vector(v) => {
            let (mut total, mut count) = (0.0, 0.0);
            let running = |f: &f64| {
                if !f.is_nan() {
                    total += f;
                    count += 1.0;
                }
                total / count
            };
            // Texts count as in `sums`: avgs"ab" is 97 97.5.
            let is_text = matches!(v.items, Items::Char(_));
            let codes = if is_text { to_type(types::INT, &v.items)? } else { v.items.clone() };
            Ok(Value::floats(blocks::map(&floats(&codes)?, running)))
        }
        atom => Ok(Value::Float(atom.as_float().ok_or_else(type_error)?)),
    }
}

/// `deltas x`.
pub(crate) fn deltas(context: &mut Context, arguments: Vec<Value>) -> Result {
    seeded(context, arguments, Op::Arithmetic(Arithmetic::Subtract))
}

pub(crate) fn ratios(context: &mut Context, arguments: Vec<Value>) -> Result {
    seeded(context, arguments, Op::Divide)
}

/// With two arguments, the first is the item before those of the second.
fn seeded(context: &mut Context, mut arguments: Vec<Value>, op: Op) -> Result {
    let y = arguments.pop().ok_or_else(type_error)?;
    match arguments.pop() {
        None => with_previous(context, y, op),
        Some(seed) => {
            let all = crate::verbs::shape::join(context, seed, y)?;
            let result = with_previous(context, all, op)?;
            Ok(result.cut(1, result.count()))
        }
    }
}

fn with_previous(context: &mut Context, x: Value, op: Op) -> Result {
    match &x {
        Value::Dict(d) => {
            let values = with_previous(context, d.values.clone(), op)?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        Value::Table(t) => columns(context, t, |c, column| with_previous(c, column, op)),
        Value::Vector(v) if v.is_empty() => Ok(x),
        Value::Vector(_) => {
            let count = x.count();
            let (before, after) = (x.cut(0, count - 1), x.cut(1, count));
            let rest = arith::atomic(context, op, &after, &before)?;
            let first = x.at(0);
            let first = if op == Op::Divide { crate::verbs::cast::to(context, types::FLOAT, &first)? } else { first };
            // The first item is converted to the type of the differences: for dates, days.
            let t = rest.to_items().type_number();
            let first = match first.type_number() {
                own if own == -types::DATETIME => Value::Float(first.as_float().unwrap_or(f64::NAN)),
                own if own < 0 && t != -own && t != types::LIST => {
                    Value::from_long(t, first.as_long().unwrap_or(i64::NULL))
                }
                _ => first,
            };
            crate::verbs::shape::join(context, first.enlist(), rest)
        }
        _ => Ok(x),
    }
}

/// `differ`; with two arguments, the first is the item before those of the second.
pub(crate) fn differ_from(context: &mut Context, mut arguments: Vec<Value>) -> Result {
    let y = arguments.pop().ok_or_else(type_error)?;
    let Some(before) = arguments.pop() else { return differ(context, y) };
    let first = Value::Bool(!crate::verbs::matches::same(&before, &y.at(0))?);
    let count = y.count();
    match differ(context, y)? {
        empty if count == 0 => Ok(empty),
        Value::Dict(d) => {
            let values = crate::verbs::shape::join(context, first, d.values.cut(1, count))?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        list => crate::verbs::shape::join(context, first, list.cut(1, count)),
    }
}

pub(crate) fn differ(context: &mut Context, x: Value) -> Result {
    if let Value::Dict(d) = &x {
        let values = differ(context, d.values.clone())?;
        return Ok(Value::dict(d.keys.clone(), values));
    }
    if x.is_scalar() {
        return Err(type_error());
    }
    let count = x.count();
    let mut out = Vec::with_capacity(count);
    if let Value::Vector(v) = &x
        && !matches!(v.items, Items::List(_) | Items::Float(_) | Items::Real(_))
        && count > 0
    {
        let unequal = arith::atomic(context, Op::Compare(Comparison::Unequal), &x.cut(1, count), &x.cut(0, count - 1))?;
        return crate::verbs::shape::join(context, Value::Bool(true), unequal);
    }
    for i in 0..count {
        context.tick()?;
        out.push(u8::from(i == 0 || !crate::verbs::matches::same(&x.at(i), &x.at(i - 1))?));
    }
    Ok(Value::bools(out))
}
