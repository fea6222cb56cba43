//! Literals of numbers and temporal values.

use crate::runtime::time;
use crate::runtime::time::{DAY_NS, is_digit};
use columns::kernel::num::Num;
use columns::sys::budget;
use columns::table::{Items, Value};
use proto::types;

/// Type letters 1 to 19 by type number, as used in literal suffixes and by `$`.
pub const LETTERS: &[u8; 20] = b" bg xhijefcspmdznuvt";

/// The type number of a type letter.
pub fn letter_type(letter: u8) -> Option<i8> {
    LETTERS.iter().position(|l| *l == letter && letter != b' ').and_then(|p| i8::try_from(p).ok())
}

/// Returns the literal for adjacent numbers: an atom for one, a vector for more; `None` if they make no literal.
pub fn numbers(parts: &[&[u8]]) -> Option<Value> {
    if let [one] = parts {
        return single(one, None);
    }
    let last = parts.last()?;
    // Past a limit there is no literal, and the caller reads the limit.
    let within = |p: &&&[u8]| !budget::spend(p.len());
    let kinds: Vec<i8> = parts.iter().take_while(within).map(|p| kind(p)).collect::<Option<_>>()?;
    let suffix = last.last().filter(|c| c.is_ascii_lowercase() && !matches!(c, b'n' | b'w')).copied();
    let suffix = suffix.or_else(|| last.last().filter(|c| **c == b'n' && !last.ends_with(b"0n")).copied());
    let number = match suffix.and_then(letter_type) {
        Some(number) => number,
        None => *kinds.iter().max_by_key(|k| rank(**k))?,
    };
    // `0n` and `0w` take the type of the other numbers.
    let upper = |p: &&[u8]| match (*p, number) {
        (b"0n", types::SHORT..=types::LONG) => b"0N".to_vec(),
        (b"0w", types::SHORT..=types::LONG) => b"0W".to_vec(),
        (b"-0w", types::SHORT..=types::LONG) => b"-0W".to_vec(),
        (other, _) => other.to_vec(),
    };
    let values: Vec<Value> =
        parts.iter().take_while(within).map(|p| single(&upper(p), Some(number))).collect::<Option<_>>()?;
    Items::collapse(values).ok().map(Value::from)
}

/// Precedence of types in a mixed literal: the highest rank wins.
fn rank(kind: i8) -> i8 {
    match kind {
        types::TIMESPAN => 30,
        types::TIMESTAMP => 40,
        other => other,
    }
}

/// The type number implied by a number's own spelling.
fn kind(text: &[u8]) -> Option<i8> {
    Some(single(text, None)?.type_number().unsigned_abs() as i8)
}

/// Parses one number; `number` is the type implied by its neighbours, used if its own spelling leaves the type open.
fn single(text: &[u8], number: Option<i8>) -> Option<Value> {
    if let Some(hex) = text.strip_prefix(b"0x") {
        return bytes(hex);
    }
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if let Some(special) = special(digits, negative, number) {
        return Some(special);
    }
    let last = *digits.last()?;
    if last == b'b' {
        let bits: Vec<u8> = digits.get(..digits.len() - 1)?.iter().map(|c| c.wrapping_sub(b'0')).collect();
        if negative || bits.iter().any(|b| *b > 1) {
            return None;
        }
        return Some(if let [bit] = bits[..] { Value::Bool(bit == 1) } else { Value::bools(bits) });
    }
    let own = if last.is_ascii_lowercase() { Some(letter_type(last)?) } else { None };
    let body = if own.is_some() { digits.get(..digits.len() - 1)? } else { digits };
    let value = plain(body, own.or(number))?;
    if negative { negate(value) } else { Some(value) }
}

/// `0N`, `0W`, `0n`, `0w` with their suffixes.
fn special(digits: &[u8], negative: bool, number: Option<i8>) -> Option<Value> {
    let (kind, suffix) = match digits {
        [b'0', kind @ (b'N' | b'W' | b'n' | b'w')] => (*kind, None),
        [b'0', kind @ (b'N' | b'W'), suffix] => (*kind, Some(letter_type(*suffix)?)),
        [b'0', kind @ (b'n' | b'w'), suffix] if *suffix != b'b' => (*kind, Some(letter_type(*suffix)?)),
        _ => return None,
    };
    let lower = kind.is_ascii_lowercase();
    let number = suffix.or(number).unwrap_or(if lower { types::FLOAT } else { types::LONG });
    let number = if lower && suffix.is_none() && !matches!(number, types::REAL | types::DATETIME) {
        types::FLOAT
    } else {
        number
    };
    if kind.eq_ignore_ascii_case(&b'N') {
        return Some(Value::null_of(number));
    }
    let long = if negative { i64::NEGATIVE_INFINITY } else { i64::INFINITY };
    let float = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
    Some(match number {
        types::REAL => Value::Real(float as f32),
        types::FLOAT => Value::Float(float),
        types::DATETIME => Value::Datetime(float),
        _ => Value::from_long(number, long),
    })
}

fn negate(value: Value) -> Option<Value> {
    Some(match value {
        Value::Real(f) => Value::Real(-f),
        Value::Float(f) => Value::Float(-f),
        Value::Datetime(f) => Value::Datetime(-f),
        other => Value::from_long(-other.type_number(), other.as_long()?.negate()),
    })
}

fn bytes(hex: &[u8]) -> Option<Value> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    let digits: Vec<u8> = hex.iter().map(|c| digit(*c)).collect::<Option<_>>()?;
    let odd = digits.len() % 2;
    let mut out: Vec<u8> = digits.first().filter(|_| odd == 1).copied().into_iter().collect();
    out.extend(digits.get(odd..)?.chunks(2).map(|pair| pair.iter().fold(0, |all, d| all << 4 | d)));
    Some(if let [byte] = out[..] { Value::Byte(byte) } else { Items::Byte(out.into()).into() })
}

/// Parses a number without sign and suffix, of type `number` if given.
fn plain(text: &[u8], number: Option<i8>) -> Option<Value> {
    let dots = text.iter().filter(|c| **c == b'.').count();
    if text.contains(&b'D') {
        let at = text.iter().position(|c| *c == b'D')?;
        let (days, rest) = (text.get(..at)?, text.get(at + 1..)?);
        let within = if rest.is_empty() { 0 } else { time::parse_clock_ns(rest)? };
        if days.contains(&b'.') {
            let day = i64::from(time::parse_date(days)?);
            // The earliest timestamp is not at midnight: its day starts before the range of `i64` nanoseconds.
            let ns = i128::from(day) * i128::from(DAY_NS) + i128::from(within);
            return Some(Value::Timestamp(i64::try_from(ns).ok()?));
        }
        let days = unsigned(days)?;
        return Some(Value::Timespan(days.checked_mul(DAY_NS)?.checked_add(within)?));
    }
    if let Some(at) = text.iter().position(|c| *c == b'T') {
        let day = f64::from(time::parse_date(text.get(..at)?)?);
        let rest = text.get(at + 1..)?;
        let within = match coloned_millis(rest) {
            _ if rest.is_empty() => 0,
            Some(ns) => ns,
            None => time::parse_clock_ns(rest)?,
        };
        return Some(Value::Datetime(day + (within / 1_000_000) as f64 / 86_400_000.0));
    }
    let colons = text.iter().filter(|c| **c == b':').count();
    if colons > 0 {
        let millis = coloned_millis(text);
        let ns = millis.or_else(|| time::parse_clock_ns(text))?;
        let decimals = text.iter().rev().position(|c| *c == b'.');
        let own = match (colons, decimals) {
            _ if millis.is_some() => types::TIME,
            (1, None) => types::MINUTE,
            (2, None) => types::SECOND,
            (2, Some(..=3)) => types::TIME,
            _ => types::TIMESPAN,
        };
        return clock(number.filter(|n| (types::TIMESPAN..=types::TIME).contains(n)).unwrap_or(own), ns);
    }
    if dots == 2 {
        let day = time::parse_date(text)?;
        return Some(match number {
            Some(types::TIMESTAMP) => Value::Timestamp(i64::from(day).checked_mul(DAY_NS)?),
            Some(types::DATETIME) => Value::Datetime(f64::from(day)),
            _ => Value::Date(day),
        });
    }
    match number {
        Some(types::MONTH) => {
            let (year, month) = (text.get(..4)?, text.get(5..)?);
            let (year, month) = (unsigned(year)?, unsigned(month)?);
            (text.get(4) == Some(&b'.') && (1..=12).contains(&month))
                .then(|| Value::Month(((year - 2000) * 12 + month - 1) as i32))
        }
        Some(types::REAL) => float(text).map(|f| Value::Real(f as f32)),
        Some(types::FLOAT) => float(text).map(Value::Float),
        Some(types::DATETIME) => float(text).map(Value::Datetime),
        Some(types::DATE) if text.len() < 8 => None,
        Some(number @ (types::TIMESTAMP | types::TIMESPAN..=types::TIME)) => {
            clock(number, time::parse_clock_digits_ns(text)?)
        }
        Some(number @ (types::SHORT..=types::LONG | types::DATE)) => {
            let long = unsigned(text)?;
            let fits = match number {
                types::SHORT => i16::try_from(long).is_ok(),
                types::INT | types::DATE => i32::try_from(long).is_ok(),
                _ => true,
            };
            fits.then(|| Value::from_long(number, long))
        }
        Some(_) => None,
        None if dots == 1 || text.contains(&b'e') => float(text).map(Value::Float),
        None => unsigned(text).map(Value::Long),
    }
}

/// A time of this type, or a timestamp on 2000.01.01.
fn clock(number: i8, ns: i64) -> Option<Value> {
    Some(match number {
        types::TIMESTAMP => Value::Timestamp(ns),
        types::TIMESPAN => Value::Timespan(ns),
        types::MINUTE => Value::Minute(i32::try_from(ns / 60_000_000_000).ok()?),
        types::SECOND => Value::Second(i32::try_from(ns / 1_000_000_000).ok()?),
        _ => Value::Time(i32::try_from(ns / 1_000_000).ok()?),
    })
}

/// Nanoseconds of a clock whose milliseconds follow a third colon instead of a dot, as some feeds write them: `09:30:00:125`.
fn coloned_millis(text: &[u8]) -> Option<i64> {
    let at = text.iter().rposition(|c| *c == b':')?;
    let (clock, millis) = (text.get(..at)?, text.get(at + 1..)?);
    if millis.len() != 3 || clock.contains(&b'.') || clock.iter().filter(|c| **c == b':').count() != 2 {
        return None;
    }
    time::parse_clock_ns(clock)?.checked_add(unsigned(millis)?.checked_mul(1_000_000)?)
}

fn unsigned(text: &[u8]) -> Option<i64> {
    if text.is_empty() || !text.iter().all(|c| is_digit(*c)) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn float(text: &[u8]) -> Option<f64> {
    let usual = text.iter().all(|c| is_digit(*c) || matches!(c, b'.' | b'e' | b'-' | b'+'));
    if usual { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}
