//! Numbers as bytes, bits and digits: what `vs` gives of a number.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::convert;
use crate::verbs::map::map;
use columns::kernel::blocks;
use columns::table::{Items, Value};

/// Digits of a long as bytes, always the same number of them for a base: `0x0a vs 123` has 18, and digits before the last 18 are dropped. The largest
/// long has 19 decimal digits.
pub(super) fn digit_bytes(base: u8, n: i64) -> Value {
    let wide = i64::MAX.ilog(i64::from(base)) as usize;
    let mut rest = n;
    let mut out: Vec<u8> = Vec::with_capacity(wide);
    for _ in 0..wide {
        out.push(rest.rem_euclid(i64::from(base)) as u8);
        rest = rest.div_euclid(i64::from(base));
    }
    out.reverse();
    Items::Byte(out.into()).into()
}

pub(super) fn bytes_of(y: &Value) -> Result {
    let bytes: Vec<u8> = match y {
        Value::Short(i) => i.to_be_bytes().to_vec(),
        Value::Int(i) | Value::Date(i) | Value::Month(i) | Value::Time(i) | Value::Minute(i) | Value::Second(i) => {
            i.to_be_bytes().to_vec()
        }
        Value::Long(i) | Value::Timestamp(i) | Value::Timespan(i) => i.to_be_bytes().to_vec(),
        Value::Real(f) => f.to_be_bytes().to_vec(),
        Value::Float(f) => f.to_be_bytes().to_vec(),
        Value::Byte(b) | Value::Char(b) => vec![*b],
        Value::Bool(b) => vec![u8::from(*b)],
        Value::Guid(g) => g.to_vec(),
        _ => return Err(type_error()),
    };
    Ok(Items::Byte(bytes.into()).into())
}

/// Digits of many numbers in one base, a vector for each position; shorter numbers have leading zeros.
fn digits_of_all(context: &mut Context, base: i64, mut rest: Vec<i64>) -> Result {
    if rest.iter().any(|number| *number < 0) {
        return Err(QError::named("domain"));
    }
    let mut out = Vec::new();
    while rest.iter().any(|number| *number > 0) {
        context.tick()?;
        limits::room_for::<i64>(rest.len().saturating_mul(2))?;
        out.push(Value::longs(blocks::map(&rest, |number| number.rem_euclid(base))));
        rest = blocks::map(&rest, |number| number.div_euclid(base));
    }
    out.reverse();
    Ok(Value::list(out))
}

/// Digits of a number in one base or in mixed bases.
pub(super) fn digits(context: &mut Context, x: &Value, y: &Value) -> Result {
    if let Value::Vector(numbers) = y {
        if let Some(base) = x.as_long().filter(|base| *base > 1)
            && !numbers.is_empty()
        {
            // What is left of each number, before and after a division, and its digit.
            limits::room_for::<i64>(numbers.len().saturating_mul(3))?;
            if let Some(all) = convert::rows(&numbers.items) {
                return digits_of_all(context, base, all);
            }
        }
        let each = map(context, y, |c, item| digits(c, x, &item))?;
        // One row per digit position; shorter numbers have leading zeros.
        let rows = limits::items(&each)?;
        let wide = rows.iter().map(Value::count).max().unwrap_or(0);
        let padded: Vec<Value> = rows
            .into_iter()
            .map(|r| {
                let own = convert::rows(&r.to_items()).unwrap_or_default();
                let mut all = vec![0; wide - own.len()];
                all.extend(own);
                Value::longs(all)
            })
            .collect();
        return crate::verbs::rows::flip_list(Value::list(padded));
    }
    let mut number = y.as_long().ok_or_else(type_error)?;
    match x {
        Value::Vector(v) => {
            limits::room_for::<i64>(v.len().saturating_mul(2))?;
            let bases = convert::rows(&v.items).ok_or_else(type_error)?;
            let mut out: Vec<i64> = Vec::with_capacity(bases.len());
            for (i, base) in bases.iter().enumerate().rev() {
                if i == 0 || *base == 0 {
                    out.push(number);
                    number = 0;
                } else {
                    out.push(number.rem_euclid(*base));
                    number = number.div_euclid(*base);
                }
            }
            out.reverse();
            Ok(Value::longs(out))
        }
        base => {
            let base = base.as_long().filter(|b| *b > 1).ok_or_else(type_error)?;
            if number < 0 {
                return Err(QError::named("domain"));
            }
            let mut out = Vec::new();
            while number > 0 {
                out.push(number % base);
                number /= base;
            }
            out.reverse();
            Ok(Value::longs(out))
        }
    }
}
