//! Text parsed to values: `"D"$"2026.01.01"` and the like.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::time;
use crate::runtime::time::DAY_NS;
use crate::verbs::map::{columns, map};
use columns::kernel::num::Num;
use columns::table::symbol::intern;
use columns::table::{Items, Value, Vector};
use proto::time::EPOCH_UNIX_S;
use proto::types;

/// Parses text as type `t`; a list of texts item by item.
pub(crate) fn parse(context: &mut Context, t: i8, y: &Value) -> Result<Value, QError> {
    context.enter()?;
    match y {
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            parse_text(t, y.as_text().unwrap_or_default())
        }
        Value::Vector(Vector { items: Items::List(l), .. }) if l.is_empty() => Ok(Items::empty_of(t).into()),
        Value::Vector(Vector { items: Items::List(_), .. }) | Value::Dict(_) => {
            map(context, y, |c, item| parse(c, t, &item))
        }
        Value::Table(table) => columns(context, table, |c, column| parse(c, t, &column)),
        Value::Sym(s) if t == types::SYMBOL => Ok(Value::Sym(*s)),
        Value::Vector(Vector { items: Items::Sym(_), .. }) if t == types::SYMBOL => Ok(y.clone()),
        _ => Err(QError::named("type")),
    }
}

/// Parses one text as type `t`; the type's null if it is invalid.
pub(crate) fn parse_text(t: i8, given: &[u8]) -> Result<Value, QError> {
    let trimmed = given.trim_ascii();
    let null = || Value::null_of(t);
    Ok(match t {
        types::LIST => Value::chars(given),
        types::BOOL => Value::Bool(matches!(trimmed, [b'1' | b'y' | b'Y' | b't' | b'T' | b'x' | b'X'])),
        types::GUID => guid(trimmed).or_else(|| crate::verbs::address::guid(trimmed)).map_or_else(null, Value::Guid),
        types::BYTE => {
            let digits = trimmed.strip_prefix(b"0x").unwrap_or(trimmed);
            let hex = std::str::from_utf8(digits).ok().and_then(|h| u8::from_str_radix(h, 16).ok());
            Value::Byte(hex.unwrap_or(0))
        }
        types::CHAR => Value::Char(if given.len() == 1 { given.first().copied().unwrap_or(b' ') } else { b' ' }),
        types::SYMBOL => Value::Sym(intern(trimmed).map_err(QError::from)?),
        _ if trimmed.is_empty() => null(),
        types::REAL | types::FLOAT => {
            let f = std::str::from_utf8(trimmed).ok().and_then(|f| match f {
                "0w" | "0W" => Some(f64::INFINITY),
                "-0w" | "-0W" => Some(f64::NEG_INFINITY),
                f if f.bytes().all(|c| time::is_digit(c) || matches!(c, b'.' | b'e' | b'E' | b'-' | b'+')) => {
                    f.parse().ok()
                }
                f => fraction(f),
            });
            match f {
                Some(f) if t == types::REAL => Value::Real(f as f32),
                Some(f) => Value::Float(f),
                None => null(),
            }
        }
        types::SHORT..=types::LONG => {
            let number = std::str::from_utf8(trimmed).ok().and_then(|n| n.parse::<i64>().ok());
            let fits = |n: &i64| match t {
                types::SHORT => i16::try_from(*n).is_ok(),
                types::INT => i32::try_from(*n).is_ok(),
                _ => true,
            };
            if number.is_none()
                && t == types::INT
                && let Some(address) = crate::verbs::address::ipv4(trimmed)
            {
                return Ok(Value::Int(address.cast_signed()));
            }
            match trimmed {
                b"0W" | b"0w" => return Ok(Value::from_long(t, i64::INFINITY)),
                b"-0W" | b"-0w" => return Ok(Value::from_long(t, i64::NEGATIVE_INFINITY)),
                _ => {}
            }
            number.filter(fits).map_or_else(null, |n| Value::from_long(t, n))
        }
        _ => parse_temporal(t, trimmed).unwrap_or_else(null),
    })
}

/// Parses a price as bonds are quoted: `1 3/4` is 1.75, `3/4` is 0.75.
fn fraction(text: &str) -> Option<f64> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = text.split_once(' ').unwrap_or(("0", text));
    let (numerator, denominator) = fraction.split_once('/')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(time::is_digit);
        is_number.then(|| digits.parse::<f64>().ok()).flatten()
    };
    let denominator = number(denominator).filter(|d| *d > 0.0)?;
    let value = number(whole)? + number(numerator)? / denominator;
    Some(if is_negative { -value } else { value })
}

/// Unix seconds of 9 to 11 digits, with up to 9 digits of a fraction, as nanoseconds from 2000.01.01.
fn unix_seconds(text: &[u8]) -> Option<i64> {
    let (whole, fraction) = match text.iter().position(|c| *c == b'.') {
        Some(dot) => (text.get(..dot)?, text.get(dot + 1..)?),
        None => (text, &b""[..]),
    };
    let digits = |t: &[u8]| t.iter().all(|c| time::is_digit(*c));
    if !(9..=11).contains(&whole.len()) || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let number = |t: &[u8]| std::str::from_utf8(t).ok()?.parse::<i64>().ok();
    let mut padded = fraction.to_vec();
    padded.resize(9, b'0');
    (number(whole)? - EPOCH_UNIX_S).checked_mul(1_000_000_000)?.checked_add(number(&padded)?)
}

/// A month by its English name or its first three letters.
fn month_named(text: &[u8]) -> Option<i64> {
    const MONTHS: [&[u8]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let start = text.get(..3)?.to_ascii_lowercase();
    MONTHS.iter().position(|m| *m == start).map(|m| m as i64 + 1)
}

/// `[d]d mmm yyyy`, `ddmmmyyyy`, `mmm dd yyyy` and with separators; two-digit years lie in 1930 to 2029.
fn parse_named_day(text: &[u8]) -> Option<i32> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut last = 0u8;
    for c in text {
        let kind = u8::from(c.is_ascii_digit()) + 2 * u8::from(c.is_ascii_alphabetic());
        if kind == 0 {
            last = 0;
            continue;
        }
        if kind != last {
            words.push(Vec::new());
        }
        last = kind;
        words.last_mut()?.push(*c);
    }
    let [a, b, c] = &words[..] else { return None };
    let number = |t: &[u8]| std::str::from_utf8(t).ok()?.parse::<i64>().ok();
    let year = |t: &[u8]| {
        let y = number(t)?;
        Some(if t.len() > 2 {
            y
        } else if y < 30 {
            2000 + y
        } else {
            1900 + y
        })
    };
    if let Some(month) = month_named(b) {
        return if a.len() == 4 {
            time::date(year(a)?, month, number(c)?)
        } else {
            time::date(year(c)?, month, number(a)?)
        };
    }
    time::date(year(c)?, month_named(a)?, number(b)?)
}

/// `mm/dd/yyyy`, or `dd/mm/yyyy` under `\z 1`.
fn parse_numeric_day(text: &[u8]) -> Option<i32> {
    let mut parts = text.split(|c| matches!(c, b'/' | b'-' | b'.'));
    let (a, b, c) = (parts.next()?, parts.next()?, parts.next()?);
    if a.len() > 2 || b.len() > 2 || parts.next().is_some() {
        return None;
    }
    let number = |t: &[u8]| std::str::from_utf8(t).ok()?.parse::<i64>().ok();
    let year = number(c)?;
    let year = if c.len() > 2 {
        year
    } else if year < 30 {
        2000 + year
    } else {
        1900 + year
    };
    if crate::runtime::settings::day_first() {
        time::date(year, number(b)?, number(a)?)
    } else {
        time::date(year, number(a)?, number(b)?)
    }
}

/// `yyyymmdd`, `yyyy-mm-dd`, `yyyy/mm/dd`, `yyyy.mm.dd`, and the formats above.
fn parse_day(text: &[u8]) -> Option<i32> {
    // One or two leading digits are a month or a day, not a year.
    if text.iter().position(|c| matches!(c, b'/' | b'-' | b'.')).is_some_and(|first| first < 3) {
        return parse_numeric_day(text).or_else(|| parse_named_day(text));
    }
    parse_plain_day(text).or_else(|| parse_named_day(text))
}

fn parse_plain_day(text: &[u8]) -> Option<i32> {
    let digits: Vec<u8> = text.iter().map(|c| if matches!(c, b'-' | b'/') { b'.' } else { *c }).collect();
    if digits.len() == 6 && digits.iter().all(|c| time::is_digit(*c)) {
        let number = |s: &[u8]| std::str::from_utf8(s).ok()?.parse::<i64>().ok();
        let year = number(digits.get(..2)?)?;
        let year = if year < 30 { 2000 + year } else { 1900 + year };
        return time::date(year, number(digits.get(2..4)?)?, number(digits.get(4..)?)?);
    }
    if digits.len() == 8 && digits.iter().all(|c| time::is_digit(*c)) {
        let number = |s: &[u8]| std::str::from_utf8(s).ok()?.parse().ok();
        return time::date(number(digits.get(..4)?)?, number(digits.get(4..6)?)?, number(digits.get(6..)?)?);
    }
    time::parse_date(&digits)
}

fn parse_temporal(t: i8, text: &[u8]) -> Option<Value> {
    // Separator of date and time: a letter, a space, or a dash before the hours.
    let split = text.iter().enumerate().position(|(i, c)| {
        let digits_around = text.get(i.wrapping_sub(1)).is_some_and(u8::is_ascii_digit)
            && text.get(i + 1).is_none_or(|c| c.is_ascii_digit() || *c == b' ');
        let dash = *c == b'-' && i >= 8 && text.get(i..).is_some_and(|rest| rest.contains(&b':'));
        dash || (matches!(c, b'D' | b'T' | b' ') && digits_around && (i >= 6 || t == types::TIMESPAN))
    });
    let halves = || {
        let at = split?;
        Some((text.get(..at)?, text.get(at + 1..)?))
    };
    let clock = |c: &[u8]| {
        let c = c.strip_suffix(b"Z").unwrap_or(c);
        // An offset from UTC has a sign.
        let (negative, c) = match c {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, c),
        };
        let ns = if c.contains(&b':') { time::parse_clock_ns(c) } else { time::parse_clock_digits_ns(c) };
        if negative { ns.and_then(i64::checked_neg) } else { ns }
    };
    Some(match t {
        types::TIMESTAMP | types::DATETIME => {
            let ns = match halves() {
                None if t == types::TIMESTAMP && unix_seconds(text).is_some() => unix_seconds(text)?,
                Some((day, rest)) => {
                    let within = if rest.is_empty() { 0 } else { clock(rest)? };
                    i64::from(parse_day(day)?).checked_mul(DAY_NS)?.checked_add(within)?
                }
                None => i64::from(parse_day(text)?).checked_mul(DAY_NS)?,
            };
            if t == types::TIMESTAMP { Value::Timestamp(ns) } else { Value::Datetime(ns as f64 / DAY_NS as f64) }
        }
        types::MONTH => {
            // `"M"$"2024.05"` is a month, `"M"$"1.5"` is null: with a dot the year needs four digits. Else prices in a text file would be months.
            if text.iter().position(|c| *c == b'.').is_some_and(|dot| dot < 4) {
                return None;
            }
            let first = [text, b".01"].concat();
            let day = parse_day(&first).or_else(|| parse_day(&[text, b"01"].concat())).or_else(|| parse_day(text))?;
            Value::Month(i32::try_from(time::month_of_day(i64::from(day))).ok()?)
        }
        types::DATE => Value::Date(parse_day(text).or_else(|| parse_day(halves()?.0))?),
        types::TIMESPAN => match halves() {
            Some((days, rest)) => {
                let (negative, days) = days.strip_prefix(b"-").map_or((false, days), |d| (true, d));
                let days: i64 = std::str::from_utf8(days).ok()?.parse().ok()?;
                let within = if rest.is_empty() { 0 } else { clock(rest)? };
                let ns = days.checked_mul(DAY_NS)?.checked_add(within)?;
                Value::Timespan(if negative { -ns } else { ns })
            }
            None => Value::Timespan(clock(text).or_else(|| hours_and_fraction(text))?),
        },
        types::MINUTE => Value::Minute(i32::try_from(clock(text)? / 60_000_000_000).ok()?),
        types::SECOND => Value::Second(i32::try_from(clock(text)? / 1_000_000_000).ok()?),
        types::TIME => Value::Time(i32::try_from(clock(text)? / 1_000_000).ok()?),
        _ => return None,
    })
}

/// `h.f`: hours and a fraction of a second, as kdb+ reads what looks like a float.
fn hours_and_fraction(text: &[u8]) -> Option<i64> {
    let at = text.iter().position(|c| *c == b'.')?;
    let (hours, fraction) = (text.get(..at)?, text.get(at..)?);
    if hours.is_empty() || hours.len() > 2 {
        return None;
    }
    time::parse_clock_ns(&[hours, b":00:00", fraction].concat())
}

fn guid(text: &[u8]) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.iter().filter(|c| **c != b'-').copied().collect();
    if digits.len() != 32 {
        return None;
    }
    let mut out = [0; 16];
    for (slot, pair) in out.iter_mut().zip(digits.chunks(2)) {
        *slot = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}
