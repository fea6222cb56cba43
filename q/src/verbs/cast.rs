//! `$`: casts between types, and padding.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::time;
use crate::runtime::time::DAY_NS;
use crate::syntax::literal::letter_type;
use crate::verbs::arith::monadic;
use crate::verbs::convert::float_to_long;
use crate::verbs::convert::floats;
use crate::verbs::map::{columns, map};
use crate::verbs::tok::parse;
use crate::verbs::types::NAMES;
use columns::kernel::blocks;
use columns::kernel::num::{Int, Num};
use columns::table::symbol::{intern, text};
use columns::table::{Element, Items, Raw, Sym, Value, Vector};
use proto::types::{
    BOOL, BOOL_ATOM, BYTE, CHAR, DATE, DATETIME, FLOAT, GUID, LIST, LONG, MINUTE, MONTH, REAL, SECOND, SYMBOL, TIME,
    TIME_ATOM, TIMESPAN, TIMESTAMP,
};

/// Left argument of `$`.
#[derive(Clone, Copy)]
enum Target {
    Type(i8),
    /// Upper-case letter: parses text as that type.
    Parse(i8),
    /// `year`, `mm`, `dd`, …
    Part(Part),
}

#[derive(Clone, Copy)]
enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Week,
}

fn target(x: &Value) -> Result<Target, QError> {
    match x {
        Value::Char(c) if c.is_ascii_uppercase() => {
            letter_type(c.to_ascii_lowercase()).map(Target::Parse).ok_or(QError::named("type"))
        }
        Value::Char(b'*') => Ok(Target::Type(0)),
        Value::Char(c) => letter_type(*c).map(Target::Type).ok_or(QError::named("type")),
        Value::Sym(s) => Ok(match text(*s) {
            b"" => Target::Parse(11),
            b"year" => Target::Part(Part::Year),
            b"mm" => Target::Part(Part::Month),
            b"dd" => Target::Part(Part::Day),
            b"hh" => Target::Part(Part::Hour),
            b"uu" => Target::Part(Part::Minute),
            b"ss" => Target::Part(Part::Second),
            b"week" => Target::Part(Part::Week),
            b"month" => Target::Type(13),
            name => {
                let known = NAMES.iter().find(|(n, _)| n.as_bytes() == name).map(|(_, t)| *t);
                Target::Type(known.ok_or_else(|| QError::with("cast", "no such type"))?)
            }
        }),
        Value::Short(n) => match i8::try_from(*n) {
            Ok(n @ LIST..=TIME) => Ok(Target::Type(n)),
            Ok(n @ TIME_ATOM..=BOOL_ATOM) => Ok(Target::Parse(-n)),
            _ => Err(QError::named("type")),
        },
        _ => Err(QError::named("type")),
    }
}

/// `x$y`.
pub(crate) fn dollar(context: &mut Context, x: Value, y: Value) -> Result<Value, QError> {
    match &x {
        Value::Vector(Vector { items, .. })
            if match items {
                Items::Char(_) | Items::Sym(_) | Items::Short(_) => true,
                Items::List(_) => !is_matrix(&x),
                Items::Int(_) | Items::Long(_) => holds_texts(&y),
                _ => false,
            } =>
        {
            if x.count() != y.count() && !y.is_scalar() {
                return Err(QError::named("length"));
            }
            context.enter()?;
            // As with any list and dictionary, the keys stay: `"SF"$record`.
            if let Value::Dict(d) = &y
                && d.keyed().is_none()
            {
                let values = dollar(context, x, d.values.clone())?;
                return Ok(Value::dict(d.keys.clone(), values));
            }
            let mut out = crate::runtime::limits::list(x.count())?;
            for i in 0..x.count() {
                out.push(dollar(context, x.at(i), y.at(i))?);
            }
            Ok(Value::collapse(out))
        }
        // A width for each text: `5 -3$("ab";"cd")`.
        Value::Vector(Vector { items: Items::Int(_) | Items::Long(_), .. })
            if matches!(&y, Value::Vector(Vector { items: Items::List(_), .. })) && !is_matrix(&y) =>
        {
            if x.count() != y.count() {
                return Err(QError::named("length"));
            }
            context.enter()?;
            let mut out = crate::runtime::limits::list(x.count())?;
            for i in 0..x.count() {
                out.push(dollar(context, x.at(i), y.at(i))?);
            }
            Ok(Value::collapse(out))
        }
        Value::Vector(_) if y.as_vector().is_some() => crate::verbs::linear::product(context, &x, &y),
        // Name of a global: the domain, which must hold every item of `y`.
        Value::Sym(name) if is_domain(context, *name) => crate::verbs::enums::enumerate(context, *name, y),
        Value::Long(_) | Value::Int(_) => {
            let width = x.as_long().unwrap_or(0);
            pad(context, width, &y)
        }
        _ => match target(&x)? {
            Target::Type(LIST) => Ok(y),
            Target::Type(t @ BYTE..=LONG) if y.is_enumerated() => {
                let places = crate::verbs::enums::places(context, &y)?;
                to(context, t, &places)
            }
            _ if y.is_enumerated() => dollar(context, x, y.plain()),
            Target::Type(t) => to(context, t, &y),
            Target::Parse(t) => parse(context, t, &y),
            Target::Part(p) => monadic(context, &y, &|items| part(p, items)),
        },
    }
}

/// A list of numeric vectors.
fn is_matrix(x: &Value) -> bool {
    matches!(x.at(0), Value::Vector(Vector { items: Items::Float(_) | Items::Long(_) | Items::Real(_), .. }))
}

/// A list, or a dictionary's values, of texts: widths on the left pad each its own.
fn holds_texts(y: &Value) -> bool {
    match y {
        Value::Vector(Vector { items: Items::List(list), .. }) => list.iter().all(|item| item.as_text().is_some()),
        Value::Dict(d) => d.keyed().is_none() && holds_texts(&d.values),
        _ => false,
    }
}

fn is_domain(context: &Context, name: Sym) -> bool {
    !text(name).is_empty()
        && !NAMES.iter().any(|(n, _)| n.as_bytes() == text(name))
        && !is_part(text(name))
        && context.host.global(name).is_some()
}

/// `n$text`: pads or cuts on the right to width `n`; on the left for a negative `n`.
fn pad(context: &mut Context, width: i64, y: &Value) -> Result<Value, QError> {
    let Some(chars) = y.as_text().filter(|_| !matches!(y, Value::Char(_))) else {
        if y.is_scalar() {
            return Err(QError::named("type"));
        }
        return map(context, y, |c, item| pad(c, width, &item));
    };
    let wide = usize::try_from(width.unsigned_abs()).map_err(|_| QError::named("limit"))?;
    context.reserve_items(wide, 1)?;
    let mut out = chars.to_vec();
    if width >= 0 {
        out.resize(wide, b' ');
    } else {
        let keep = out.split_off(out.len().saturating_sub(wide));
        out = vec![b' '; wide - keep.len()];
        out.extend_from_slice(&keep);
    }
    Ok(Value::chars(out))
}

/// Casts the atoms of `y` to type `t`.
pub(crate) fn to(context: &mut Context, t: i8, y: &Value) -> Result<Value, QError> {
    if t == SYMBOL && y.as_text().is_some() {
        return parse(context, SYMBOL, y);
    }
    // A text is one symbol also in a list, a dictionary or a table of texts.
    if t == SYMBOL
        && y.count() > 0
        && matches!(y, Value::Dict(_) | Value::Table(_) | Value::Vector(Vector { items: Items::List(_), .. }))
    {
        return map(context, y, |c, item| to(c, SYMBOL, &item));
    }
    if let Value::Vector(Vector { items: Items::List(l), .. }) = y
        && l.is_empty()
    {
        return Ok(Items::empty_of(t).into());
    }
    monadic(context, y, &|items| to_type(t, items))
}

/// Casts a simple vector.
pub(crate) fn to_type(t: i8, x: &Items) -> Result<Items, QError> {
    let from = x.type_number();
    if from == t {
        return Ok(x.clone());
    }
    if from == LIST && x.is_empty() {
        return Ok(Items::empty_of(t));
    }
    let bad = || QError::named("type");
    match (from, t) {
        (GUID | SYMBOL, _) | (_, GUID) => Err(bad()),
        (CHAR, SYMBOL) => match x.raw() {
            Raw::U8(chars) => {
                let names: Result<Vec<Sym>, QError> =
                    chars.iter().map(|c| intern(&[*c]).map_err(QError::from)).collect();
                Ok(Items::Sym(names?.into()))
            }
            _ => Err(bad()),
        },
        (_, SYMBOL) => Err(bad()),
        (REAL | FLOAT, BOOL..=LONG | CHAR) => {
            let f = floats(x)?;
            if t == BOOL {
                return Ok(Items::Bool(blocks::map(&f, |f| u8::from(*f != 0.0))));
            }
            Ok(Items::from_longs(t, blocks::map(&f, |f| float_to_long(f.round()))))
        }
        (DATETIME, t) if t < TIMESTAMP && t != FLOAT && t != REAL => {
            Ok(Items::from_longs(t, blocks::map(&floats(x)?, |f| float_to_long(f.round()))))
        }
        (_, REAL) => Ok(Items::Real(blocks::map(&floats_or_chars(x)?, |f| *f as f32))),
        (from, FLOAT | DATETIME) if from < TIMESTAMP || t == FLOAT => Ok(f64::wrap(t, floats_or_chars(x)?.into())),
        (REAL | FLOAT, _) => {
            let f = floats(x)?;
            Ok(Items::from_longs(t, blocks::map(&f, |f| float_to_long(f.round()))))
        }
        (from, t) if from >= TIMESTAMP && t >= TIMESTAMP => temporal(from, t, x),
        (TIMESTAMP, BYTE..=LONG) | (_, BOOL..=LONG | CHAR) | (_, TIMESTAMP..=TIME) => Ok(narrow(t, x)?),
        _ => Err(bad()),
    }
}

fn floats_or_chars(x: &Items) -> Result<Vec<f64>, QError> {
    match x.raw() {
        Raw::U8(v) => Ok(blocks::map(v, |c| f64::from(*c))),
        _ => floats(x),
    }
}

fn narrow(t: i8, x: &Items) -> Result<Items, QError> {
    let longs: Vec<i64> = match x.raw() {
        Raw::U8(v) => blocks::map(v, |i| i64::from(*i)),
        Raw::I16(v) => blocks::map(v, |i| i.to_long()),
        Raw::I32(v) => blocks::map(v, |i| i.to_long()),
        // Casts to byte keep an int's low byte; longs outside the range of ints saturate.
        Raw::I64(v) if t == BYTE => blocks::map(v, |i| i64::from(i32::from_long(*i))),
        Raw::I64(v) => v.to_vec(),
        _ => return Err(QError::named("type")),
    };
    Ok(Items::from_longs(t, longs))
}

/// Between temporal types, through nanoseconds or days.
fn temporal(from: i8, t: i8, x: &Items) -> Result<Items, QError> {
    if from == DATETIME && matches!(t, MONTH | DATE) {
        // Rounded to milliseconds, so that a datetime shown as midnight belongs to the next day.
        let day = |f: &f64| {
            if f.is_finite() {
                float_to_long((f * 86_400_000.0).round()).div_euclid(86_400_000)
            } else {
                float_to_long(*f)
            }
        };
        let days = blocks::map(&floats(x)?, day);
        return if t == DATE {
            Ok(Items::from_longs(DATE, days))
        } else {
            temporal(DATE, t, &Items::from_longs(DATE, days))
        };
    }
    if from == DATETIME {
        let days = floats(x)?;
        let ns = |f: &f64| {
            if f.is_finite() {
                let ms = float_to_long((f * 86_400_000.0).round());
                let end = if ms < 0 { i64::NEGATIVE_INFINITY } else { i64::INFINITY };
                ms.checked_mul(1_000_000).filter(|ns| !ns.is_null()).unwrap_or(end)
            } else {
                float_to_long(*f)
            }
        };
        return temporal(TIMESTAMP, t, &Items::Timestamp(blocks::map(&days, ns)));
    }
    let mut longs: Vec<i64> = crate::verbs::arith::longs(x, from)?;
    if matches!(x.raw(), Raw::I32(_)) {
        for l in &mut longs {
            *l = widened_infinity(*l);
        }
    }
    let special = |l: i64| l.is_null() || l == i64::INFINITY || l == i64::NEGATIVE_INFINITY;
    let convert = |l: &i64| if special(*l) { *l } else { temporal_long(from, t, *l) };
    if t == DATETIME {
        let days = |l: &i64| match (*l, from) {
            (i64::NULL, _) => f64::NAN,
            (i64::INFINITY, _) => f64::INFINITY,
            (i64::NEGATIVE_INFINITY, _) => f64::NEG_INFINITY,
            (l, DATE) => l as f64,
            (l, MONTH) => time::day_of_month(l) as f64,
            (l, _) => temporal_long(from, TIMESTAMP, l) as f64 / DAY_NS as f64,
        };
        return Ok(Items::Datetime(blocks::map(&longs, days)));
    }
    Ok(Items::from_longs(t, blocks::map(&longs, convert)))
}

/// Infinities of four-byte types become those of eight: they stay infinite between temporal types.
fn widened_infinity(l: i64) -> i64 {
    const LAST: i64 = i32::INFINITY as i64;
    match l {
        LAST => i64::INFINITY,
        l if l == -LAST => i64::NEGATIVE_INFINITY,
        plain => plain,
    }
}

/// Days in nanoseconds; infinite beyond the range of a timestamp.
fn days_ns(days: i64) -> i64 {
    let end = if days < 0 { i64::NEGATIVE_INFINITY } else { i64::INFINITY };
    days.checked_mul(DAY_NS).filter(|ns| !ns.is_null()).unwrap_or(end)
}

fn unit_ns(t: i8) -> i64 {
    match t {
        MINUTE => 60_000_000_000,
        SECOND => 1_000_000_000,
        TIME => 1_000_000,
        _ => 1,
    }
}

fn temporal_long(from: i8, t: i8, l: i64) -> i64 {
    match (from, t) {
        (TIMESTAMP, DATE) => l.div_euclid(DAY_NS),
        (TIMESTAMP, MONTH) => time::month_of_day(l.div_euclid(DAY_NS)),
        (TIMESTAMP, TIMESPAN..=TIME) => l.rem_euclid(DAY_NS) / unit_ns(t),
        (DATE, TIMESTAMP) => days_ns(l),
        (DATE, MONTH) => time::month_of_day(l),
        (MONTH, DATE) => time::day_of_month(l),
        (MONTH, TIMESTAMP) => days_ns(time::day_of_month(l)),
        (MONTH | DATE, _) => 0,
        (TIMESPAN..=TIME, TIMESPAN..=TIME) => l.saturating_mul(unit_ns(from)).div_euclid(unit_ns(t)),
        (TIMESPAN..=TIME, TIMESTAMP) => l.saturating_mul(unit_ns(from)),
        _ => l,
    }
}

fn part(p: Part, x: &Items) -> Result<Items, QError> {
    let from = x.type_number();
    if from < TIMESTAMP {
        return Err(QError::named("type"));
    }
    let date_part = matches!(p, Part::Year | Part::Month | Part::Day | Part::Week);
    if date_part && from >= MINUTE && !matches!(p, Part::Month) {
        return Err(QError::named("type"));
    }
    if from >= TIMESPAN || !date_part {
        // Of a time type, `mm` is the minute.
        let seconds = crate::verbs::arith::longs(&to_type(TIMESPAN, x)?, TIMESPAN)?;
        let value = |ns: &i64| {
            if ns.is_null() {
                return i64::NULL;
            }
            match p {
                Part::Hour => ns.div_euclid(3_600_000_000_000),
                Part::Second => ns.div_euclid(1_000_000_000).rem_euclid(60),
                _ => ns.div_euclid(60_000_000_000).rem_euclid(60),
            }
        };
        return Ok(Items::from_longs(6, blocks::map(&seconds, value)));
    }
    let days = crate::verbs::arith::longs(&to_type(DATE, x)?, DATE)?;
    // Neither null nor infinite, including those widened from a narrower type.
    let is_day = |d: i64| d.unsigned_abs() < i32::MAX as u64;
    if matches!(p, Part::Week) {
        // The Monday on or before; 2000.01.01 was a Saturday.
        let monday = |d: &i64| if is_day(*d) { (d + 5).div_euclid(7) * 7 - 5 } else { *d };
        return Ok(Items::from_longs(14, blocks::map(&days, monday)));
    }
    let value = |d: &i64| {
        if !is_day(*d) {
            return i64::NULL;
        }
        let (year, month, day) = time::civil_from_days(*d);
        match p {
            Part::Year => year,
            Part::Month => month,
            _ => day,
        }
    };
    Ok(Items::from_longs(6, blocks::map(&days, value)))
}

/// Whether a name stands for a part of a temporal value that is no type.
fn is_part(name: &[u8]) -> bool {
    matches!(name, b"year" | b"mm" | b"dd" | b"hh" | b"uu" | b"ss" | b"week")
}

/// `x.year` and the like on a value; `None` if `name` is no such part.
pub(crate) fn part_of(context: &mut Context, name: &[u8], x: &Value) -> Option<Result<Value, QError>> {
    if !is_part(name) && !matches!(name, b"month" | b"date" | b"minute" | b"second" | b"time") {
        return None;
    }
    let target = intern(name).ok().map(Value::Sym)?;
    Some(dollar(context, target, x.clone()))
}

/// `string`: every atom as text.
pub(crate) fn string(context: &mut Context, x: &Value) -> Result<Value, QError> {
    context.enter()?;
    match x {
        Value::Vector(_) | Value::Dict(_) => {
            if x.count() == 0 && !matches!(x, Value::Dict(_)) {
                return Ok(Value::empty());
            }
            map(context, x, |c, item| string(c, &item))
        }
        Value::Table(t) => columns(context, t, |c, column| string(c, &column)),
        Value::Sym(s) => Ok(Value::chars(text(*s))),
        Value::Char(c) => Ok(Value::chars(vec![*c])),
        atom => Ok(Value::chars(crate::verbs::format::string(atom)?)),
    }
}
