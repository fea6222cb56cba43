//! `div`, `mod` and `xbar`. The types of their results follow the tables of kdb+'s documentation, not those of other arithmetic.

use crate::runtime::error::QError;
use crate::runtime::op::Op;
use crate::verbs::arith::{long_div, long_mod, longs, meet};
use crate::verbs::cast;
use crate::verbs::convert::{float_to_long, floats};
use columns::kernel::blocks;
use columns::kernel::num::Num;
use columns::kernel::zip::zip;
use columns::table::Items;
use proto::types::{
    BOOL, BYTE, CHAR, DATE, DATETIME, FLOAT, INT, LONG, MINUTE, MONTH, REAL, SHORT, SYMBOL, TIME, TIMESPAN, TIMESTAMP,
};

/// Applies `div` or `mod` to vectors of equal length, or one of which has one item.
pub(super) fn items(op: Op, x: Items, y: Items) -> Result<Items, QError> {
    let (a, b) = (x.type_number(), y.type_number());
    let t = if op == Op::Div { type_of_div(a, b) } else { type_of_mod(a, b) };
    let t = t.ok_or(QError::named("type"))?;
    // A char is its number.
    let (x, y) = (number(x)?, number(y)?);
    let is_float = |t: i8| matches!(t, REAL | FLOAT | DATETIME);
    if is_float(a) || is_float(b) {
        let (x, y) = (floats(&x)?, floats(&y)?);
        return match (op, t) {
            (Op::Div, REAL | FLOAT) => Ok(Items::Float(zip(&x, &y, |x, y| (x / y).floor()).into())),
            (Op::Div, DATETIME) => Ok(Items::Datetime(zip(&x, &y, |x, y| (x / y).floor()).into())),
            (Op::Div, _) => Ok(Items::from_longs(t, zip(&x, &y, |x, y| float_to_long((x / y).floor())))),
            _ => {
                let rest = zip(&x, &y, |x, y| if y == 0.0 { f64::NAN } else { x - y * (x / y).floor() });
                match t {
                    REAL | FLOAT | DATETIME => cast::to_type(t, &Items::Float(rest.into())),
                    _ => Ok(Items::from_longs(t, rest.into_iter().map(float_to_long).collect())),
                }
            }
        };
    }
    // Two times of different precision are converted to the finer one.
    let grain = if a >= TIMESTAMP && b >= TIMESTAMP { meet(op, a, b).unwrap_or(LONG) } else { a.max(b).max(LONG) };
    let result = if op == Op::Div { long_div } else { long_mod };
    Ok(Items::from_longs(t, zip(&longs(&x, grain)?, &longs(&y, grain)?, result)))
}

fn number(x: Items) -> Result<Items, QError> {
    if x.type_number() == CHAR { cast::to_type(INT, &x) } else { Ok(x) }
}

/// Numbers and times: every type but symbols, guids and lists.
fn counts(t: i8) -> bool {
    matches!(t, BOOL | BYTE..=CHAR | TIMESTAMP..=TIME)
}

/// `div` keeps the type of its left argument; types narrower than an int become ints, reals floats.
fn type_of_div(x: i8, y: i8) -> Option<i8> {
    Some(match x {
        _ if !counts(x) || !counts(y) => return None,
        BOOL | BYTE | SHORT | INT | CHAR => INT,
        REAL => FLOAT,
        _ => x,
    })
}

fn type_of_mod(x: i8, y: i8) -> Option<i8> {
    Some(match (x, y) {
        _ if !counts(x) || !counts(y) || x == SYMBOL || y == SYMBOL => return None,
        (CHAR, FLOAT) => FLOAT,
        (BOOL | BYTE..=LONG, CHAR) | (CHAR, BOOL | BYTE..=CHAR) => return None,
        (BOOL | BYTE..=LONG, REAL) => REAL,
        (BOOL | BYTE..=LONG, FLOAT) => FLOAT,
        (BOOL | BYTE..=LONG, BOOL | BYTE..=LONG) => x.max(y).max(INT),
        (BOOL | BYTE..=LONG | CHAR, _) => y,
        (REAL | FLOAT, DATE | DATETIME) => DATETIME,
        (REAL | FLOAT, _) => FLOAT,
        (_, TIMESTAMP..) => return None,
        (TIMESTAMP, FLOAT) => FLOAT,
        (TIMESTAMP, _) => TIMESPAN,
        (DATE, FLOAT) => return None,
        (MONTH, FLOAT) => FLOAT,
        (MONTH | DATE, _) => INT,
        (DATETIME, _) | (TIMESPAN | MINUTE..=TIME, FLOAT) => FLOAT,
        _ => x,
    })
}

/// `x xbar y`: the largest multiple of `x` not above `y`, counted in the unit of `y`.
pub(super) fn bar(x: &Items, y: &Items) -> Result<Items, QError> {
    let (a, b) = (x.type_number(), y.type_number());
    let t = type_of_bar(a, b);
    let (x, y) = (&number(x.clone())?, &number(y.clone())?);
    if matches!(a, REAL | FLOAT | DATETIME) || matches!(b, REAL | FLOAT | DATETIME) {
        let bars = zip(&floats(x)?, &floats(y)?, |x, y| x * (y / x).floor());
        return match t {
            FLOAT => Ok(Items::Float(bars.into())),
            DATETIME => Ok(Items::Datetime(bars.into())),
            t => cast::to_type(t, &Items::Float(bars.into())),
        };
    }
    // A width on another type is converted to that type's unit; one that is finer than the unit leaves the values as they are.
    let widths = if a >= TIMESPAN && b >= TIMESTAMP && a != b {
        let unit = if matches!(b, TIMESTAMP | MONTH | DATE) { TIMESPAN } else { b };
        let whole = longs(&cast::to_type(unit, x)?, unit)?;
        let finest = |width: &i64, given: &i64| if *width == 0 && *given > 0 { 1 } else { *width };
        blocks::both(&whole, &longs(x, a)?, finest)
    } else {
        longs(x, a)?
    };
    let bars = zip(&widths, &longs(y, b)?, |x, y| long_div(y, x).times(x));
    Ok(Items::from_longs(t, bars))
}

/// The type of `x*y div x`, which defines `xbar`, with a timespan `x` as a long; two times keep the type of the right one.
fn type_of_bar(x: i8, y: i8) -> i8 {
    match (x, y) {
        (BOOL..=INT | CHAR, BOOL..=INT | CHAR) => INT,
        (BOOL..=LONG, BOOL..=LONG | CHAR) => LONG,
        (REAL, BOOL..=LONG | CHAR) => REAL,
        (BOOL..=CHAR, REAL | FLOAT) => FLOAT,
        (FLOAT, BOOL..=CHAR | TIMESTAMP | MONTH | TIMESPAN..=TIME) => FLOAT,
        (FLOAT, DATE | DATETIME) | (DATE, REAL | FLOAT) | (DATETIME, _) => DATETIME,
        (_, TIMESTAMP..) => y,
        (_, REAL | FLOAT) => FLOAT,
        (TIMESPAN, _) => LONG,
        (TIMESTAMP.., _) => x,
        _ => y.max(INT),
    }
}
