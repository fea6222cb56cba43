//! Values as one line of text: `.Q.s1`, `-3!`, `string`, and the cells of console output.

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::line::Line;
use crate::runtime::locked;
use crate::runtime::settings::precision;
use crate::runtime::time::{DAY_NS, civil_from_days, day_of_month};
use crate::syntax::prims;
use crate::verbs::decimal::float;
use columns::kernel::num::{Int, Num};
use columns::table::domains;
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Items, Sym, Value, Vector};
use proto::types;

/// A long as it is typed: nulls and infinities by their names.
pub(crate) fn integer(long: i64) -> String {
    match long {
        i64::NULL => "0N".into(),
        i64::INFINITY => "0W".into(),
        i64::NEGATIVE_INFINITY => "-0W".into(),
        plain => plain.to_string(),
    }
}

fn date(days: i64) -> String {
    let (y, m, d) = civil_from_days(days);
    // Only four-digit years are shown.
    if (1..=9999).contains(&y) { format!("{y:04}.{m:02}.{d:02}") } else { "0000.00.00".into() }
}

/// The digits of a null or an infinity of a temporal type, which tell no type; `None` for any other value.
fn special(value: &Value) -> Option<String> {
    let long = match value {
        Value::Datetime(f) if f.is_nan() => i64::NULL,
        Value::Datetime(f) if f.is_infinite() && *f > 0.0 => i64::INFINITY,
        Value::Datetime(f) if f.is_infinite() => i64::NEGATIVE_INFINITY,
        Value::Timestamp(_) | Value::Timespan(_) => shown_long(value),
        Value::Month(_) | Value::Date(_) | Value::Minute(_) | Value::Second(_) | Value::Time(_) => shown_long(value),
        _ => return None,
    };
    matches!(long, i64::NULL | i64::INFINITY | i64::NEGATIVE_INFINITY).then(|| integer(long))
}

fn clock(ns: i64) -> String {
    let s = ns / 1_000_000_000;
    format!("{:02}:{:02}:{:02}.{:09}", s / 3600, s / 60 % 60, s % 60, ns % 1_000_000_000)
}

fn signed(long: i64, usual: impl FnOnce(i64) -> String) -> String {
    if long < 0 { format!("-{}", usual(long.wrapping_neg())) } else { usual(long) }
}

/// The integer to show: infinities of four-byte types become those of a long; a short's are shown as plain numbers.
fn shown_long(value: &Value) -> i64 {
    match value {
        Value::Short(i16::INFINITY) => i64::INFINITY,
        Value::Short(i16::NEGATIVE_INFINITY) => i64::NEGATIVE_INFINITY,
        Value::Int(i) | Value::Month(i) | Value::Date(i) | Value::Minute(i) | Value::Second(i) | Value::Time(i) => {
            match *i {
                i32::INFINITY => i64::INFINITY,
                i32::NEGATIVE_INFINITY => i64::NEGATIVE_INFINITY,
                plain => plain.to_long(),
            }
        }
        other => other.as_long().unwrap_or(0),
    }
}

/// Formats an atom as an item of a vector, without the type suffix at the vector's end; empty for other values.
pub(crate) fn item(value: &Value, precision: u8) -> Vec<u8> {
    if let Some(digits) = special(value) {
        return digits.into_bytes();
    }
    let long = shown_long(value);
    let out = match value {
        Value::Bool(b) => if *b { "1" } else { "0" }.to_owned(),
        Value::Byte(b) => format!("{b:02x}"),
        Value::Guid(g) => {
            let hex: String = g.iter().map(|b| format!("{b:02x}")).collect();
            let part = |a, b| hex.get(a..b).unwrap_or_default().to_owned();
            [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
        }
        Value::Short(_) | Value::Int(_) | Value::Long(_) => integer(long),
        Value::Real(f) if f.is_nan() => "0N".into(),
        Value::Real(f) if f.is_infinite() => if *f > 0.0 { "0w" } else { "-0w" }.into(),
        Value::Real(f) => float(f64::from(*f), precision),
        Value::Float(f) => float(*f, precision),
        Value::Char(c) => return vec![*c],
        Value::Link(..) => return item(&value.clone().plain(), precision),
        Value::Sym(s) | Value::Enum(_, s) => return text(*s).to_vec(),
        Value::Timestamp(_) => format!("{}D{}", date(long.div_euclid(DAY_NS)), clock(long.rem_euclid(DAY_NS))),
        Value::Month(_) => date(day_of_month(long)).get(..7).unwrap_or_default().to_owned(),
        Value::Date(_) => date(long),
        Value::Datetime(f) => {
            let ms = (f * 86_400_000.0).round() as i64;
            let within = clock(ms.rem_euclid(86_400_000) * 1_000_000);
            match date(ms.div_euclid(86_400_000)).as_str() {
                "0000.00.00" => "0000.00.00T00:00:00.000".to_owned(),
                day => format!("{day}T{}", within.get(..12).unwrap_or_default()),
            }
        }
        Value::Timespan(_) => signed(long, |l| format!("{}D{}", l / DAY_NS, clock(l % DAY_NS))),
        Value::Minute(_) => signed(long, |l| format!("{:02}:{:02}", l / 60, l % 60)),
        Value::Second(_) => signed(long, |l| format!("{:02}:{:02}:{:02}", l / 3600, l / 60 % 60, l % 60)),
        Value::Time(_) => signed(long, |l| {
            let mut text = clock(l.saturating_mul(1_000_000));
            text.truncate(text.len().saturating_sub(6));
            text
        }),
        _ => return Vec::new(),
    };
    out.into_bytes()
}

/// Whether a cell with this value is empty.
pub(crate) fn is_blank(value: &Value) -> bool {
    value.is_atom() && is_null(value)
}

fn is_null(value: &Value) -> bool {
    match value {
        Value::Float(f) | Value::Datetime(f) => f.is_nan(),
        Value::Real(f) => f.is_nan(),
        Value::Sym(s) | Value::Enum(_, s) => s.is_null(),
        Value::Bool(_) | Value::Byte(_) | Value::Char(_) | Value::Guid(_) => false,
        Value::Short(i) => i.is_null(),
        Value::Int(i) | Value::Month(i) | Value::Date(i) | Value::Minute(i) | Value::Second(i) | Value::Time(i) => {
            i.is_null()
        }
        other => other.as_long().is_some_and(Num::is_null),
    }
}

/// Formats a table cell: nulls are empty.
///
/// # Errors
/// Those of the limits, if the value is no atom.
pub(crate) fn cell(value: &Value, precision: u8) -> Result<Vec<u8>, QError> {
    if value.is_atom() { Ok(atom_cell(value, precision)) } else { one_line_at(value, precision) }
}

fn atom_cell(value: &Value, precision: u8) -> Vec<u8> {
    if is_null(value) { Vec::new() } else { item(value, precision) }
}

/// As [`cell`], cut to what is visible.
pub(crate) fn clipped_cell(value: &Value, precision: u8, most: usize) -> Vec<u8> {
    if value.is_atom() { atom_cell(value, precision) } else { clipped(value, precision, most) }
}

/// `string x` of an atom.
///
/// # Errors
/// Those of the limits, if the value is no atom.
pub(crate) fn string(value: &Value) -> Result<Vec<u8>, QError> {
    cell(value, precision())
}

/// Writes text with quotes and escapes.
fn quoted(bytes: &[u8], out: &mut Line) -> Result<(), QError> {
    out.put(b"\"")?;
    for run in out.seen(bytes).chunk_by(|a, b| is_plain(*a) && is_plain(*b)) {
        match run {
            [b'"'] => out.put(b"\\\"")?,
            [b'\\'] => out.put(b"\\\\")?,
            [b'\n'] => out.put(b"\\n")?,
            [b'\t'] => out.put(b"\\t")?,
            [b'\r'] => out.put(b"\\r")?,
            [c @ (0..=31 | 127..)] => out.put(format!("\\{c:03o}").as_bytes())?,
            plain => out.put(plain)?,
        }
    }
    out.put(b"\"")
}

/// Whether a byte needs no escape between quotes.
fn is_plain(c: u8) -> bool {
    !matches!(c, b'"' | b'\\' | 0..=31 | 127..)
}

/// `.Q.s1 x`; at a limit, as much as was written.
pub fn one_line(value: &Value) -> Vec<u8> {
    clipped(value, precision(), usize::MAX)
}

/// `.Q.s1 x`, with floats at a precision.
///
/// # Errors
/// Those of the limits.
pub(crate) fn one_line_at(value: &Value, precision: u8) -> Result<Vec<u8>, QError> {
    let mut out = Line::whole();
    write(value, precision, &mut out)?;
    Ok(out.into_bytes())
}

/// The start of a value's line: all of it, or more than `most` bytes. Dots mark a line ended by a limit.
pub(crate) fn clipped(value: &Value, precision: u8, most: usize) -> Vec<u8> {
    let mut out = Line::clipped(most);
    let ended = write(value, precision, &mut out);
    let mut bytes = out.into_bytes();
    if ended.is_err() {
        bytes.extend_from_slice(b"..");
    }
    bytes
}

fn write(value: &Value, precision: u8, out: &mut Line) -> Result<(), QError> {
    if out.is_full() {
        return Ok(());
    }
    limits::step()?;
    match value {
        Value::Null => out.put(b"::"),
        Value::Vector(v) => vector(v, precision, out),
        Value::Dict(d) => {
            let wrap = matches!(d.keys, Value::Table(_) | Value::Dict(_)) || holds_operator(&d.keys) || d.sorted;
            if wrap {
                out.put(b"(")?;
            }
            write(&d.keys, precision, out)?;
            out.put(if wrap { b")!" } else { b"!" })?;
            write(&d.values, precision, out)
        }
        Value::Table(t) => {
            let names = Value::symbols(t.names.clone());
            let wrap = holds_operator(&names);
            out.put(if t.sorted { b"`s#+" } else { b"+" })?;
            if wrap {
                out.put(b"(")?;
            }
            write(&names, precision, out)?;
            out.put(if wrap { b")!" } else { b"!" })?;
            write(&Value::list(t.columns.iter().map(|c| c.clone().into()).collect()), precision, out)
        }
        Value::Func(f) => function(f, precision, out),
        atom => write_atom(atom, precision, out),
    }
}

/// Whether a list is written with an operator, as one item (`,1`) and an empty list of a type (`` `long$() ``) are.
fn holds_operator(value: &Value) -> bool {
    match value {
        Value::Vector(v) if v.is_empty() => !matches!(v.items, Items::Char(_) | Items::List(_)),
        Value::Vector(v) => v.len() == 1,
        _ => false,
    }
}

fn write_atom(atom: &Value, precision: u8, out: &mut Line) -> Result<(), QError> {
    match atom {
        Value::Char(c) => quoted(&[*c], out),
        Value::Sym(s) => out.put(&[b"`", text(*s)].concat()),
        Value::Enum(domain, s) => out.put(&[b"`", text(*domain), b"$`", text(*s)].concat()),
        Value::Link(domain, _) => {
            out.put(&[b"`", text(*domain), link_glyph(*domain)].concat())?;
            write_atom(&atom.clone().plain(), precision, out)
        }
        Value::Byte(b) => out.put(format!("0x{b:02x}").as_bytes()),
        Value::Float(f) => {
            let digits = float(*f, precision);
            out.put(digits.as_bytes())?;
            if digits.contains(['.', 'e', 'n', 'w']) { Ok(()) } else { out.put(b"f") }
        }
        other => {
            out.put(&item(other, precision))?;
            // A null or an infinity alone does not tell its type; a month always has its suffix.
            if special(other).is_some() && !matches!(other, Value::Month(_)) {
                out.put(&[types::letter(other.type_number()).unwrap_or(b' ')])?;
            }
            out.put(types::literal_suffix(-other.type_number()).as_bytes())
        }
    }
}

/// `$` before a key of the domain, `!` before the number of a row that a link points to, and before the position of a symbol whose domain is not there.
fn link_glyph(domain: Sym) -> &'static [u8] {
    if domains::key_type(domain).is_some_and(domains::can_hold) { b"$" } else { b"!" }
}

/// Items of one type written between two checks of the limits.
const RUN: usize = 1024;

fn vector(v: &Vector, precision: u8, out: &mut Line) -> Result<(), QError> {
    let attribute = text(crate::verbs::types::attribute_name(v.attr));
    if !attribute.is_empty() {
        out.put(&[b"`", attribute, b"#"].concat())?;
    }
    if let Some(domain) = crate::runtime::values::domain_of_items(&v.items) {
        let glyph: &[u8] = if matches!(v.items, Items::Link(..)) { link_glyph(domain) } else { b"$" };
        out.put(&[b"`", text(domain), glyph].concat())?;
        // An enumeration is a type of its own.
        if v.is_empty() && glyph == b"$" {
            return out.put(b"()");
        }
        return vector(&Vector { attr: columns::table::Attr::None, items: v.items.plain() }, precision, out);
    }
    let number = v.items.type_number();
    if v.is_empty() {
        return match number {
            types::LIST => out.put(b"()"),
            types::CHAR => out.put(b"\"\""),
            _ => out.put(format!("`{}$()", crate::verbs::types::type_name(number)).as_bytes()),
        };
    }
    if v.len() == 1 {
        out.put(b",")?;
    }
    match &v.items {
        Items::List(l) => {
            if let [one] = &l[..] {
                return write(one, precision, out);
            }
            out.put(b"(")?;
            for (i, value) in l.iter().enumerate() {
                if out.is_full() {
                    return Ok(());
                }
                if i > 0 {
                    out.put(b";")?;
                }
                // An elided item is written as nothing.
                write(value, precision, out)?;
            }
            out.put(b")")
        }
        Items::Char(c) => quoted(c, out),
        Items::Sym(s) => {
            for s in out.seen(s) {
                out.put(b"`")?;
                out.put(text(*s))?;
            }
            Ok(())
        }
        Items::Byte(b) => {
            out.put(b"0x")?;
            for run in out.seen(b).chunks(RUN) {
                limits::check()?;
                out.put(run.iter().map(|b| format!("{b:02x}")).collect::<String>().as_bytes())?;
            }
            Ok(())
        }
        Items::Bool(b) => {
            for run in out.seen(b).chunks(RUN) {
                out.put(&run.iter().map(|b| b'0' + (b & 1)).collect::<Vec<u8>>())?;
            }
            out.put(b"b")
        }
        simple => numbers(simple, precision, out),
    }
}

/// Writes the items of a numeric or temporal vector, and what tells their type.
fn numbers(items: &Items, precision: u8, out: &mut Line) -> Result<(), QError> {
    let number = items.type_number();
    let start = out.len();
    let is_temporal = matches!(number, types::TIMESTAMP | types::DATE..=types::TIME);
    let mut shows_type = !is_temporal;
    for i in 0..items.len() {
        if i > 0 {
            if out.is_full() {
                return Ok(());
            }
            if i % RUN == 0 {
                limits::check()?;
            }
            out.put(b" ")?;
        }
        let value = items.get(i);
        match if is_temporal { special(&value) } else { None } {
            Some(digits) => out.put(digits.as_bytes())?,
            None => {
                shows_type = true;
                out.put(&item(&value, precision))?;
            }
        }
    }
    // Nulls and infinities alone do not tell the type.
    if !shows_type {
        out.put(&[types::letter(number).unwrap_or(b' ')])?;
    }
    if number == types::FLOAT && !out.since(start).iter().any(|c| matches!(c, b'.' | b'e' | b'n' | b'w')) {
        out.put(b"f")?;
    }
    out.put(types::literal_suffix(number).as_bytes())
}

fn function(f: &Function, precision: u8, out: &mut Line) -> Result<(), QError> {
    match f {
        Function::Lambda(l) | Function::View(l) => out.put(locked::shown(&l.source)),
        Function::Primitive(index) => out.put(prims::shown(*index).as_bytes()),
        Function::Coded(types::UNARY, types::UNARY_HOLE) => out.put(b"::"),
        Function::Coded(kind, code) => out.put(format!("{kind}:{code:02x}").as_bytes()),
        Function::Native(name) => out.put(text(*name)),
        Function::Projection { function, arguments } => {
            write(function, precision, out)?;
            out.put(b"[")?;
            for (i, argument) in arguments.iter().enumerate() {
                if i > 0 {
                    out.put(b";")?;
                }
                if let Some(value) = argument {
                    write(value, precision, out)?;
                }
            }
            out.put(b"]")
        }
        Function::Composition(parts) => parts.iter().try_for_each(|p| write(p, precision, out)),
        Function::OnDisk { columns, place } => {
            out.put(b"+")?;
            write(&Value::symbols_to(columns, *place), precision, out)
        }
        Function::Derived { iterator, function } => {
            write(function, precision, out)?;
            out.put(iterator.glyph().as_bytes())
        }
    }
}
