//! Binary atomic functions, applied item by item to everything that holds atoms.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::op::Op;
use crate::syntax::prims;
use crate::verbs::convert::{float_to_long, floats};
use crate::verbs::map::map;
use crate::verbs::rows::flip_list;
use crate::verbs::{cast, find, merged, sets};
use columns::kernel::blocks;
use columns::kernel::num::Num;
use columns::kernel::zip::{Arithmetic, Comparison, arithmetic, compare, compare_floats, zip};
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Dict, Element, Items, Raw, Table, Value, Vector};
use proto::types::{
    BOOL, BYTE, CHAR, DATE, DATETIME, FLOAT, INT, LONG, MINUTE, MONTH, REAL, SHORT, TIME, TIMESPAN, TIMESTAMP,
};

const ADD: Op = Op::Arithmetic(Arithmetic::Add);
const SUBTRACT: Op = Op::Arithmetic(Arithmetic::Subtract);

/// Fast path for two atoms of the most common types.
pub(crate) fn scalars(primitive: u16, x: &Value, y: &Value) -> Option<Value> {
    let op = prims::atomic_op(primitive)?;
    match (x, y) {
        (Value::Long(x), Value::Long(y)) => Some(match op {
            Op::Arithmetic(Arithmetic::Add) => Value::Long(x.plus(*y)),
            Op::Arithmetic(Arithmetic::Subtract) => Value::Long(x.minus(*y)),
            Op::Arithmetic(Arithmetic::Multiply) => Value::Long(x.times(*y)),
            Op::Arithmetic(Arithmetic::Lesser) => Value::Long(*x.min(y)),
            Op::Arithmetic(Arithmetic::Greater) => Value::Long(*x.max(y)),
            Op::Compare(c) => Value::Bool(holds(c, x.cmp(y))),
            Op::Divide => Value::Float(x.to_float() / y.to_float()),
            Op::Div => Value::Long(long_div(*x, *y)),
            Op::Mod => Value::Long(long_mod(*x, *y)),
            _ => return None,
        }),
        (Value::Float(x), Value::Float(y)) => match op {
            Op::Arithmetic(Arithmetic::Add) => Some(Value::Float(x + y)),
            Op::Arithmetic(Arithmetic::Subtract) => Some(Value::Float(x - y)),
            Op::Arithmetic(Arithmetic::Multiply) => Some(Value::Float(x * y)),
            Op::Divide => Some(Value::Float(x / y)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a comparison holds for operands in this order.
#[inline]
pub(crate) fn holds(c: Comparison, order: std::cmp::Ordering) -> bool {
    match c {
        Comparison::Equal => order.is_eq(),
        Comparison::Unequal => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::More => order.is_gt(),
        Comparison::AtMost => order.is_le(),
        Comparison::AtLeast => order.is_ge(),
    }
}

/// Integer division rounded down; null for null operands and division by zero.
#[inline]
pub(crate) fn long_div(x: i64, y: i64) -> i64 {
    if x.is_null() || y.is_null() || y == 0 {
        return i64::NULL;
    }
    let quotient = x.wrapping_div(y);
    if x.wrapping_rem(y) != 0 && ((x < 0) != (y < 0)) { quotient - 1 } else { quotient }
}

/// Remainder with the sign of `y`; null for null operands and division by zero.
#[inline]
pub(crate) fn long_mod(x: i64, y: i64) -> i64 {
    if x.is_null() || y.is_null() || y == 0 {
        return i64::NULL;
    }
    let rest = x.wrapping_rem(y);
    if rest != 0 && ((rest < 0) != (y < 0)) { rest + y } else { rest }
}

/// Applies item by item through lists, dictionaries and tables, until both sides are atoms or simple vectors.
pub(crate) fn atomic(context: &mut Context, op: Op, x: &Value, y: &Value) -> Result<Value, QError> {
    context.enter()?;
    match (x, y) {
        // What a dictionary of anything has for a missing key fills nothing: KX's clients keep books so.
        (Value::Null, _) if op == Op::Fill && !matches!(y, Value::Func(_)) => Ok(y.clone()),
        // Programs ask which operator they hold: `(%)=first tree`.
        (Value::Func(a), Value::Func(b))
            if let (Op::Compare(which), Function::Primitive(a), Function::Primitive(b)) = (op, &**a, &**b)
                && matches!(which, Comparison::Equal | Comparison::Unequal) =>
        {
            Ok(Value::Bool((a == b) == (which == Comparison::Equal)))
        }
        (Value::Func(_) | Value::Null, _) | (_, Value::Func(_) | Value::Null) => Err(QError::named("type")),
        (Value::Dict(a), Value::Dict(b)) => dictionaries(context, op, a, b),
        (Value::Dict(d), _) => {
            let values = atomic(context, op, &d.values, y)?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        (_, Value::Dict(d)) => {
            let values = atomic(context, op, x, &d.values)?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        (Value::Table(a), Value::Table(b)) => {
            if a.names != b.names {
                return joined_columns(context, op, a, b);
            }
            columns(a, |i, column| {
                let other = b.columns.get(i).cloned().ok_or(QError::named("length"))?;
                atomic(context, op, column, &other.into())
            })
        }
        // A table and a list of lists, `([]x:1 2;y:3 4)-(1 1;2 2)`: the first list is subtracted from the first row, and so on.
        (Value::Table(t), rows) if is_rows_of(t, rows) => {
            let cells = flip_list(rows.clone())?;
            columns(t, |at, column| atomic(context, op, column, &cells.at(at)))
        }
        (rows, Value::Table(t)) if is_rows_of(t, rows) => {
            let cells = flip_list(rows.clone())?;
            columns(t, |at, column| atomic(context, op, &cells.at(at), column))
        }
        (Value::Table(t), _) => columns(t, |_, column| atomic(context, op, column, y)),
        (_, Value::Table(t)) => columns(t, |_, column| atomic(context, op, x, column)),
        _ if !is_list(x) && !is_list(y) => {
            if let (Value::Vector(a), Value::Vector(b)) = (x, y)
                && a.len() != b.len()
            {
                return Err(QError::named("length"));
            }
            simple(op, x, y)
        }
        _ => {
            let count = match (x.is_scalar(), y.is_scalar()) {
                (false, false) if x.count() != y.count() => return Err(QError::named("length")),
                (false, _) => x.count(),
                _ => y.count(),
            };
            let mut out = limits::list(count)?;
            for i in 0..count {
                out.push(atomic(context, op, &x.at(i), &y.at(i))?);
            }
            Ok(Value::collapse(out))
        }
    }
}

/// Whether a list has a row for each of a table's, with a cell for each of its columns.
fn is_rows_of(t: &Table, rows: &Value) -> bool {
    let Value::Vector(Vector { items: Items::List(rows), .. }) = rows else { return false };
    rows.len() == t.count()
        && !rows.is_empty()
        && rows.iter().all(|row| matches!(row, Value::Vector(row) if row.len() == t.columns.len()))
}

fn is_list(x: &Value) -> bool {
    matches!(x, Value::Vector(Vector { items: Items::List(_), .. }))
}

pub(super) fn columns(t: &Table, mut f: impl FnMut(usize, &Value) -> Result<Value, QError>) -> Result<Value, QError> {
    let mut out = Vec::with_capacity(t.columns.len());
    for (i, column) in t.columns.iter().enumerate() {
        let result = f(i, &column.clone().into())?;
        out.push(result.into_vector().ok_or(QError::named("rank"))?);
    }
    Ok(Value::table(Table::new(t.names.clone(), out)))
}

/// Keys of both. A key of one side alone keeps that side's value, but comparisons take it against a null, and a subtraction from zero.
/// Where the right side repeats a key, each of its values is applied in turn.
pub(super) fn dictionaries(context: &mut Context, op: Op, a: &Dict, b: &Dict) -> Result<Value, QError> {
    // As in kdb+, `x>y` is `y<x`, which shows in the order of the keys.
    match op {
        Op::Compare(Comparison::More) => return dictionaries(context, Op::Compare(Comparison::Less), b, a),
        Op::Compare(Comparison::AtMost) => return dictionaries(context, Op::Compare(Comparison::AtLeast), b, a),
        _ => {}
    }
    if let Some(done) = merged::by_columns(context, op, a, b)? {
        return Ok(done);
    }
    if let Some(done) = merged::by_names(context, op, a, b)? {
        return Ok(done);
    }
    let keys = sets::union(context, a.keys.clone(), b.keys.clone())?;
    // Columns keep their types without rows.
    if keys.count() == 0 {
        return Ok(Value::dict(keys, atomic(context, op, &a.values, &b.values)?));
    }
    let (x, y) = (find::all(context, &a.keys, &keys)?, find::all(context, &b.keys, &keys)?);
    let mut out = Vec::with_capacity(x.len());
    for (i, j) in x.iter().zip(&y) {
        let (x, y) = (item_at(&a.values, *i), item_at(&b.values, *j));
        out.push(match (x, y) {
            (Some(x), Some(y)) => atomic(context, op, &x, &y)?,
            (Some(x), None) => alone(context, op, x, false)?,
            (None, Some(y)) => alone(context, op, y, true)?,
            (None, None) => Value::empty(),
        });
    }
    if !matches!(op, Op::Compare(_)) && sets::distinct(context, b.keys.clone())?.count() < b.keys.count() {
        let firsts = find::all(context, &b.keys, &b.keys)?;
        for ((again, first), at) in (0..).zip(firsts).zip(find::all(context, &keys, &b.keys)?) {
            if again == first {
                continue;
            }
            if let Some(result) = usize::try_from(at).ok().and_then(|at| out.get_mut(at)) {
                *result = atomic(context, op, result, &item_at(&b.values, again).unwrap_or(Value::Null))?;
            }
        }
    }
    Ok(Value::dict(keys, Value::collapse(out)))
}

/// Tables with other columns, as the dictionaries of their columns: a column of one side alone stays as it is.
fn joined_columns(context: &mut Context, op: Op, a: &Table, b: &Table) -> Result<Value, QError> {
    let side = |t: &Table| {
        let columns = t.columns.iter().map(|column| Value::from(column.clone())).collect();
        Dict { sorted: false, keys: Value::symbols(t.names.clone()), values: Value::list(columns) }
    };
    if a.count() != b.count() {
        return Err(QError::named("length"));
    }
    let Value::Dict(both) = dictionaries(context, op, &side(a), &side(b))? else { return Err(QError::named("type")) };
    let names = both.keys.as_symbols().ok_or(QError::named("type"))?.to_vec();
    let columns: Option<Vec<Vector>> = both.values.items().into_iter().map(Value::into_vector).collect();
    Ok(Value::table(Table::new(names, columns.ok_or(QError::named("rank"))?)))
}

fn item_at(values: &Value, at: i64) -> Option<Value> {
    let at = usize::try_from(at).ok().filter(|at| *at < values.count())?;
    Some(values.at(at))
}

/// The result for a value whose key the other dictionary lacks.
pub(super) fn alone(context: &mut Context, op: Op, value: Value, is_right: bool) -> Result<Value, QError> {
    context.enter()?;
    if !matches!(op, Op::Compare(_) | SUBTRACT) || op == SUBTRACT && !is_right {
        return Ok(value);
    }
    let items = match &value {
        Value::Dict(d) => return Ok(Value::dict(d.keys.clone(), alone(context, op, d.values.clone(), is_right)?)),
        value => value.to_items(),
    };
    let other = match (op, &items) {
        (_, Items::List(_)) => {
            let mut out = limits::list(value.count())?;
            for at in 0..value.count() {
                out.push(alone(context, op, value.at(at), is_right)?);
            }
            return Ok(Value::collapse(out));
        }
        (Op::Compare(_), _) => Value::null_of(items.type_number()),
        (_, Items::Sym(_) | Items::Char(_) | Items::Guid(_)) => return Ok(value),
        _ => Value::from_long(items.type_number(), 0),
    };
    let (x, y) = if is_right { (other, value) } else { (value, other) };
    atomic(context, op, &x, &y)
}

/// Results of at least this many items are checked against the memory limit.
const MANY_ITEMS: usize = 1 << 10;

/// Bytes per item of the result and of converted operands.
fn bytes_per_item(op: Op, x: &Value, y: &Value) -> usize {
    let same =
        x.type_number().abs() == y.type_number().abs() && matches!(x.type_number().abs(), INT..=FLOAT | TIMESTAMP..);
    match op {
        Op::Compare(_) if same => 1,
        Op::Arithmetic(_) | Op::Divide if same => 8,
        // Both operands widened to 8 bytes, the result, and the result in its own type.
        _ => 28,
    }
}

/// Atoms, and simple vectors of equal length.
fn simple(op: Op, x: &Value, y: &Value) -> Result<Value, QError> {
    if let (Value::Vector(v), other) | (other, Value::Vector(v)) = (x, y) {
        let count = v.len().max(if other.is_scalar() { 0 } else { other.count() });
        if count >= MANY_ITEMS {
            limits::check()?;
            limits::room(count.saturating_mul(bytes_per_item(op, x, y)))?;
        }
    }
    let scalar = x.is_scalar() && y.is_scalar();
    let result = vectors(op, x.to_items(), y.to_items(), x.is_scalar(), y.is_scalar())?;
    Ok(if scalar { result.get(0) } else { result.into() })
}

/// Common type of an operation on two types; `None` if they cannot be combined.
pub(super) fn meet(op: Op, x: i8, y: i8) -> Option<i8> {
    match op {
        Op::Arithmetic(Arithmetic::Lesser | Arithmetic::Greater) | Op::Fill | Op::Compare(_) => meet_kept(op, x, y),
        _ => meet_computed(op, x, y),
    }
}

fn is_number(t: i8) -> bool {
    matches!(t, BOOL | BYTE..=FLOAT)
}

fn is_clock(t: i8) -> bool {
    matches!(t, TIMESPAN..=TIME)
}

/// The finer of two time types.
fn finer(a: i8, b: i8) -> i8 {
    if a == TIMESPAN || b == TIMESPAN { TIMESPAN } else { a.max(b) }
}

/// The result is one of the operands: the higher type.
fn meet_kept(op: Op, x: i8, y: i8) -> Option<i8> {
    let compares = matches!(op, Op::Compare(_));
    let chooses = matches!(op, Op::Arithmetic(_) | Op::Fill);
    Some(match (x, y) {
        (CHAR, CHAR) => CHAR,
        (CHAR, b) | (b, CHAR) if is_number(b) => {
            if compares {
                b.max(INT)
            } else {
                CHAR
            }
        }
        (CHAR, b) | (b, CHAR) if b >= TIMESTAMP => b,
        (a, b) if is_number(a) && is_number(b) => a.max(b),
        (a, b) if a == b => (a >= TIMESTAMP).then_some(a)?,
        (a, b) if is_clock(a) && is_clock(b) => finer(a, b),
        // A timestamp or datetime with a time type gives the time type.
        (TIMESTAMP | DATETIME, t) | (t, TIMESTAMP | DATETIME) if is_clock(t) && chooses => t,
        (TIMESTAMP, DATETIME) | (DATETIME, TIMESTAMP) if chooses => TIMESTAMP,
        (MONTH | DATE, t) | (t, MONTH | DATE) if is_clock(t) && chooses => return None,
        (MONTH, DATETIME) | (DATETIME, MONTH) if chooses => return None,
        (DATE, t) | (t, DATE) if is_clock(t) => TIMESTAMP,
        (TIMESTAMP, _) | (_, TIMESTAMP) => TIMESTAMP,
        (DATETIME, _) | (_, DATETIME) => DATETIME,
        (MONTH, DATE) | (DATE, MONTH) => DATE,
        (FLOAT | REAL, b) | (b, FLOAT | REAL) if b >= TIMESTAMP && compares => FLOAT,
        (a, b) if a >= TIMESTAMP && is_number(b) => a,
        (a, b) if is_number(a) && b >= TIMESTAMP => b,
        _ => return None,
    })
}

/// The result is computed: numbers become at least ints; the rest follows the table in kdb+'s documentation.
fn meet_computed(op: Op, x: i8, y: i8) -> Option<i8> {
    let scales = matches!(op, Op::Arithmetic(Arithmetic::Multiply));
    let subtracts = op == SUBTRACT;
    let sums = op == ADD || subtracts || scales;
    Some(match (x, y) {
        (a, b) if is_number(a) && is_number(b) => a.max(b).max(INT),
        (CHAR, FLOAT) | (FLOAT, CHAR) if sums => FLOAT,
        (a, CHAR) if subtracts && is_number(a) => a.max(INT),
        (CHAR, b) | (b, CHAR) if sums && b >= TIMESTAMP => b,
        (a, b) if a >= TIMESTAMP && b >= TIMESTAMP && scales => return None,
        (TIMESTAMP, TIMESTAMP) if sums => TIMESPAN,
        (MONTH, MONTH) | (DATE, DATE) if sums => INT,
        (DATETIME, DATETIME) if sums => FLOAT,
        (a, b) if a == b && a >= TIMESTAMP => a,
        (a, b) if is_clock(a) && is_clock(b) => finer(a, b),
        (TIMESTAMP..=DATE, b) if is_clock(b) => TIMESTAMP,
        (a, TIMESTAMP..=DATE) if is_clock(a) => TIMESTAMP,
        (DATETIME, TIMESPAN) | (TIMESPAN, DATETIME) => TIMESTAMP,
        (DATETIME, b) if is_clock(b) => DATETIME,
        (a, DATETIME) if is_clock(a) => DATETIME,
        (TIMESTAMP, MONTH | DATE) | (MONTH | DATE, TIMESTAMP) if subtracts => TIMESPAN,
        (DATETIME, TIMESTAMP..=DATE) | (TIMESTAMP..=DATE, DATETIME) if subtracts => FLOAT,
        (MONTH, DATE) | (DATE, MONTH) if subtracts => INT,
        (DATE, FLOAT) | (FLOAT, DATE) if sums => DATETIME,
        (FLOAT, TIMESTAMP | MONTH) | (TIMESTAMP | MONTH, FLOAT) if sums => FLOAT,
        (FLOAT, t) | (t, FLOAT) if sums && is_clock(t) => FLOAT,
        (a, b) if a >= TIMESTAMP && is_number(b) => a,
        (a, b) if is_number(a) && b >= TIMESTAMP => b,
        _ => return None,
    })
}

/// Applies to two vectors of equal length, or to a vector and an atom, passed as a vector of one and a flag.
pub(crate) fn vectors(op: Op, x: Items, y: Items, x_scalar: bool, y_scalar: bool) -> Result<Items, QError> {
    let (a, b) = (x.type_number(), y.type_number());
    // An empty vector and an atom: only the type of the result matters.
    let empty = (x.is_empty() && y_scalar) || (y.is_empty() && x_scalar);
    let (x, y) = if empty { (x.cut(0, 0), y.cut(0, 0)) } else { (x, y) };
    if a == 0 || b == 0 {
        return if x.is_empty() && y.is_empty() { Ok(Items::empty_of(0)) } else { Err(QError::named("type")) };
    }
    match op {
        Op::Compare(c) => comparison(c, &x, &y),
        Op::Fill => fill(x, y),
        Op::Divide => {
            // Two times of different precision are converted to the finer one.
            let common = if a >= 12 && b >= 12 && a != b { meet(ADD, a, b) } else { None };
            let (x, y) = match common {
                Some(t) => (cast::to_type(t, &x)?, cast::to_type(t, &y)?),
                None => (x, y),
            };
            let result = zip(&char_floats(&x)?, &char_floats(&y)?, |x, y| x / y);
            Ok(Items::Float(result.into()))
        }
        Op::Power if !is_number(a) || !is_number(b) => Err(QError::named("type")),
        Op::Log if a == DATETIME || b == DATETIME => Err(QError::named("type")),
        Op::Power => Ok(Items::Float(zip(&char_floats(&x)?, &char_floats(&y)?, power).into())),
        Op::Log => Ok(Items::Float(zip(&char_floats(&x)?, &char_floats(&y)?, |b, x| x.ln() / b.ln()).into())),
        Op::Div | Op::Mod => crate::verbs::division::items(op, x, y),
        Op::Bar => crate::verbs::division::bar(&x, &y),
        Op::Arithmetic(kernel) => {
            let t = meet(op, a, b).ok_or(QError::named("type"))?;
            Ok(match (x.raw(), y.raw()) {
                (Raw::I64(x), Raw::I64(y)) if a == b || t != TIMESPAN || (a != TIMESTAMP && b != TIMESTAMP) => {
                    i64::wrap(t, arithmetic(kernel, x, y).into())
                }
                (Raw::F64(x), Raw::F64(y)) => f64::wrap(t, arithmetic(kernel, x, y).into()),
                (Raw::I32(x), Raw::I32(y)) if matches!(t, INT | MONTH | DATE | MINUTE..=TIME) && same_grain(a, b) => {
                    i32::wrap(t, arithmetic(kernel, x, y).into())
                }
                (Raw::U8(x), Raw::U8(y)) if matches!(t, BOOL | BYTE | CHAR) => {
                    u8::wrap(t, arithmetic(kernel, x, y).into())
                }
                (Raw::I16(x), Raw::I16(y)) if t == SHORT => Items::Short(arithmetic(kernel, x, y).into()),
                (Raw::F32(x), Raw::F32(y)) => Items::Real(arithmetic(kernel, x, y).into()),
                (Raw::F64(x), Raw::I64(_)) if (t, b) == (FLOAT, LONG) => {
                    Items::Float(arithmetic(kernel, x, &floats(&y)?).into())
                }
                (Raw::I64(_), Raw::F64(y)) if (t, a) == (FLOAT, LONG) => {
                    Items::Float(arithmetic(kernel, &floats(&x)?, y).into())
                }
                _ if matches!(t, REAL | FLOAT | DATETIME) => {
                    let result = arithmetic(kernel, &temporal_floats(&x, t)?, &temporal_floats(&y, t)?);
                    cast::to_type(t, &Items::Float(result.into()))?
                }
                _ if matches!(a, REAL | FLOAT) || matches!(b, REAL | FLOAT) => {
                    let result = arithmetic(kernel, &char_floats(&x)?, &char_floats(&y)?);
                    Items::from_longs(t, blocks::map(&result, |f| float_to_long(f.round())))
                }
                _ => {
                    let grain = common_grain(a, b, t);
                    let result = arithmetic(kernel, &longs(&x, grain)?, &longs(&y, grain)?);
                    if matches!(t, INT | MONTH | DATE | MINUTE..=TIME) {
                        // Four-byte types wrap on overflow.
                        let wrapped = |l: &i64| if l.is_null() { i32::NULL } else { *l as i32 };
                        return Ok(i32::wrap(t, blocks::map(&result, wrapped)));
                    }
                    Items::from_longs(t, result)
                }
            })
        }
    }
}

fn same_grain(a: i8, b: i8) -> bool {
    a == b || a < TIMESTAMP || b < TIMESTAMP
}

/// The type in whose unit both sides are counted.
fn common_grain(a: i8, b: i8, result: i8) -> i8 {
    match (a, b) {
        (TIMESTAMP, t) | (t, TIMESTAMP) if is_clock(t) && is_clock(result) => result,
        (TIMESTAMP, _) | (_, TIMESTAMP) => TIMESTAMP,
        (MONTH, DATE) | (DATE, MONTH) => DATE,
        _ => result,
    }
}

/// `x xexp y`. Earlier releases of kdb+ computed `exp y*log x`, so that 2 to the power of 3 was slightly below 8; public tests of later ones
/// agree with the C library's function.
fn power(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.powf(y) }
}

/// Items as floats, chars as their codes.
fn char_floats(x: &Items) -> Result<Vec<f64>, QError> {
    match x {
        Items::Char(v) => Ok(blocks::map(v, |c| f64::from(*c))),
        other => floats(other),
    }
}

/// Items as floats; days for a datetime.
fn temporal_floats(x: &Items, t: i8) -> Result<Vec<f64>, QError> {
    if t == DATETIME && x.type_number() >= TIMESTAMP { floats(&cast::to_type(DATETIME, x)?) } else { char_floats(x) }
}

/// Items as longs, in the unit of type `t` if they are temporal.
pub(crate) fn longs(x: &Items, t: i8) -> Result<Vec<i64>, QError> {
    let own = x.type_number();
    if own >= TIMESTAMP && t >= TIMESTAMP && own != t {
        return longs(&cast::to_type(t, x)?, t);
    }
    crate::verbs::convert::rows(x).map_or_else(
        || match x.raw() {
            Raw::I32(v) => Ok(blocks::map(v, |i| columns::kernel::num::Int::to_long(*i))),
            Raw::I64(v) => Ok(v.to_vec()),
            Raw::U8(v) => Ok(blocks::map(v, |i| i64::from(*i))),
            Raw::F64(_) | Raw::F32(_) => Ok(blocks::map(&floats(x)?, |f| float_to_long(*f))),
            _ => Err(QError::named("type")),
        },
        Ok,
    )
}

fn comparison(c: Comparison, x: &Items, y: &Items) -> Result<Items, QError> {
    let (a, b) = (x.type_number(), y.type_number());
    let result = match (x.raw(), y.raw()) {
        (Raw::Sym(x), Raw::Sym(y)) => match c {
            Comparison::Equal | Comparison::Unequal => zip(x, y, |x, y| u8::from((x == y) == (c == Comparison::Equal))),
            _ => zip(x, y, |x, y| u8::from(holds(c, text(x).cmp(text(y))))),
        },
        (Raw::Guid(x), Raw::Guid(y)) => compare(c, x, y),
        (Raw::Sym(_) | Raw::Guid(_), _) | (_, Raw::Sym(_) | Raw::Guid(_)) => return Err(QError::named("type")),
        (Raw::I64(x), Raw::I64(y)) if a == b => compare(c, x, y),
        (Raw::I32(x), Raw::I32(y)) if a == b => compare(c, x, y),
        (Raw::U8(x), Raw::U8(y)) => compare(c, x, y),
        (Raw::F64(x), Raw::F64(y)) => compare_floats(c, x, y),
        _ => {
            // A timestamp is compared with a time or a timespan by its time of day.
            let t = match (a, b) {
                (TIMESTAMP | DATETIME, t @ TIMESPAN..=TIME) | (t @ TIMESPAN..=TIME, TIMESTAMP | DATETIME) => t,
                (TIMESPAN, MINUTE..=TIME) => TIMESPAN,
                _ => meet(Op::Compare(c), a, b).ok_or(QError::named("type"))?,
            };
            if matches!(t, REAL | FLOAT | DATETIME) {
                compare_floats(c, &temporal_floats(x, t)?, &temporal_floats(y, t)?)
            } else {
                compare(c, &longs(x, t)?, &longs(y, t)?)
            }
        }
    };
    Ok(Items::Bool(result.into()))
}

fn fill(x: Items, y: Items) -> Result<Items, QError> {
    fn each<T: Element + Copy + Default>(t: i8, x: &[T], y: &[T], null: impl Fn(T) -> bool) -> Items {
        T::wrap(t, zip(x, y, |x, y| if null(y) { x } else { y }).into())
    }
    let (a, b) = (x.type_number(), y.type_number());
    let t = if a == b { a } else { meet(Op::Fill, a, b).ok_or(QError::named("type"))? };
    let (x, y) = (cast::to_type(t, &x)?, cast::to_type(t, &y)?);
    Ok(match (x.raw(), y.raw()) {
        (Raw::I16(x), Raw::I16(y)) => each(t, x, y, Num::is_null),
        (Raw::I32(x), Raw::I32(y)) => each(t, x, y, Num::is_null),
        (Raw::I64(x), Raw::I64(y)) => each(t, x, y, Num::is_null),
        (Raw::F32(x), Raw::F32(y)) => each(t, x, y, Num::is_null),
        (Raw::F64(x), Raw::F64(y)) => each(t, x, y, Num::is_null),
        (Raw::Sym(x), Raw::Sym(y)) => each(t, x, y, |s| s.is_null()),
        (Raw::Guid(x), Raw::Guid(y)) => each(t, x, y, |g| g == [0; 16]),
        (Raw::U8(x), Raw::U8(y)) => each(t, x, y, |c| t == CHAR && c == b' '),
        _ => return Err(QError::named("type")),
    })
}

/// Applies a unary function item by item, through lists, dictionaries and tables.
pub(crate) fn monadic(
    context: &mut Context,
    x: &Value,
    leaf: &dyn Fn(&Items) -> Result<Items, QError>,
) -> Result<Value, QError> {
    context.enter()?;
    match x {
        Value::Func(_) | Value::Null => Err(QError::named("type")),
        Value::Dict(d) => {
            let values = monadic(context, &d.values, leaf)?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        Value::Table(t) => columns(t, |_, column| monadic(context, column, leaf)),
        Value::Vector(Vector { items: Items::List(_), .. }) => map(context, x, |c, item| monadic(c, &item, leaf)),
        Value::Vector(v) => {
            if v.len() >= MANY_ITEMS {
                limits::check()?;
                // A result of another type needs longs or floats in between.
                limits::room(v.len().saturating_mul(if v.items.wire_bytes() >= 8 { 8 } else { 20 }))?;
            }
            Ok(leaf(&v.items)?.into())
        }
        atom => Ok(leaf(&atom.to_items())?.get(0)),
    }
}
