//! Formats values of a log as q literals and as JSON.
//!
//! Covers only what logs contain: little-endian data, and dates within the calendar of four-digit years.

use jiff::Span;
use jiff::civil::Date;
use proto::time::{DAY_MS, DAY_NS};
use proto::{View, types};
use serde_json::{Map, Value as Json};
use std::fmt::Write;

/// Characters of a string that count as one item.
const CHARS_PER_ITEM: usize = 8;

/// Appends a value as q notation; vectors and lists are cut to `most_items` items, followed by `..`.
pub fn text(view: &View<'_>, most_items: usize, out: &mut String) {
    let ty = view.type_code();
    if let Some(table) = view.table() {
        out.push_str("+(");
        symbols(table.names.symbols(), most_items, out);
        out.push_str(")!(");
        items(table.columns.iter(), table.columns.count, most_items, out);
        out.push(')');
    } else if let Some(dict) = view.dict() {
        text(&dict.keys, most_items, out);
        out.push('!');
        text(&dict.values, most_items, out);
    } else if let Some(list) = view.list() {
        out.push('(');
        items(list.iter(), list.count, most_items, out);
        out.push(')');
    } else if let Some(chars) = view.chars() {
        let most_chars = most_items.saturating_mul(CHARS_PER_ITEM);
        string(chars.get(..most_chars).unwrap_or(chars), out);
        if chars.len() > most_chars {
            out.push_str("..");
        }
    } else if let Some(vector) = view.vector() {
        if vector.ty == types::SYMBOL {
            symbols(vector.symbols(), most_items, out);
            return;
        }
        if vector.count == 1 {
            out.push(',');
        }
        let separator = if vector.ty == types::BOOL || vector.ty == types::BYTE { "" } else { " " };
        if vector.ty == types::BYTE {
            out.push_str("0x");
        }
        let width = types::width(vector.ty).unwrap_or(1);
        for (at, item) in vector.items.chunks_exact(width).take(most_items).enumerate() {
            if at > 0 {
                out.push_str(separator);
            }
            atom(vector.ty, item, out);
        }
        if vector.count > most_items {
            out.push_str("..");
        } else {
            out.push_str(types::literal_suffix(vector.ty));
        }
    } else if let Some(symbol) = view.symbol() {
        out.push('`');
        out.push_str(&String::from_utf8_lossy(symbol));
    } else if let Some((_, source)) = view.lambda() {
        out.push_str(&String::from_utf8_lossy(source));
    } else if view.is_null() {
        out.push_str("::");
    } else if types::width(ty).is_some() {
        if ty == -types::BYTE {
            out.push_str("0x");
        }
        atom(-ty, view.raw().get(1..).unwrap_or_default(), out);
        out.push_str(types::literal_suffix(-ty));
    } else {
        out.push_str(types::name(ty));
    }
}

/// Appends one item of a vector, or an atom.
pub fn item(view: &View<'_>, at: usize, out: &mut String) {
    let Some(vector) = view.vector() else { return text(view, 1, out) };
    match types::width(vector.ty) {
        Some(width) => {
            if let Some(bytes) = vector.items.chunks_exact(width).nth(at) {
                atom(vector.ty, bytes, out);
            }
        }
        None => out.push_str(&String::from_utf8_lossy(vector.symbols().nth(at).unwrap_or_default())),
    }
}

fn items<'a>(views: impl Iterator<Item = View<'a>>, count: usize, most_items: usize, out: &mut String) {
    for (at, view) in views.take(most_items).enumerate() {
        if at > 0 {
            out.push(';');
        }
        text(&view, most_items, out);
    }
    if count > most_items {
        out.push_str("..");
    }
}

fn symbols<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>, most_items: usize, out: &mut String) {
    let count = names.len();
    match count {
        0 => out.push_str("`$()"),
        1 => out.push(','),
        _ => {}
    }
    for name in names.take(most_items) {
        out.push('`');
        out.push_str(&String::from_utf8_lossy(name));
    }
    if count > most_items {
        out.push_str("..");
    }
}

fn string(chars: &[u8], out: &mut String) {
    out.push('"');
    for char in String::from_utf8_lossy(chars).chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => _ = write!(out, "\\{:03o}", u32::from(control)),
            char => out.push(char),
        }
    }
    out.push('"');
}

/// Appends one item of a vector of type `ty`, without a suffix.
fn atom(ty: i8, item: &[u8], out: &mut String) {
    let result = match ty {
        types::BOOL => write!(out, "{}", u8::from(item.first().is_some_and(|byte| *byte != 0))),
        types::BYTE => write!(out, "{:02x}", item.first().copied().unwrap_or_default()),
        types::GUID => guid(item, out),
        types::SHORT => integer(i64::from(i16_of(item)), i64::from(i16::MIN), i64::from(i16::MAX), out),
        types::INT => integer(i64::from(i32_of(item)), i64::from(i32::MIN), i64::from(i32::MAX), out),
        types::LONG => integer(i64_of(item), i64::MIN, i64::MAX, out),
        types::REAL => float(f64::from(f32_of(item)), f32_of(item), out),
        types::FLOAT => float(f64_of(item), f64_of(item), out),
        types::TIMESTAMP => timestamp(i64_of(item), out),
        types::TIMESPAN => timespan(i64_of(item), out),
        types::DATETIME => datetime(f64_of(item), out),
        types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME => {
            days_and_times(ty, i32_of(item), out)
        }
        _ => Ok(()),
    };
    // Writing to a `String` cannot fail.
    debug_assert!(result.is_ok());
}

fn i16_of(item: &[u8]) -> i16 {
    item.first_chunk().map_or(types::NULL_SHORT, |bytes| i16::from_le_bytes(*bytes))
}

fn i32_of(item: &[u8]) -> i32 {
    item.first_chunk().map_or(types::NULL_INT, |bytes| i32::from_le_bytes(*bytes))
}

fn i64_of(item: &[u8]) -> i64 {
    item.first_chunk().map_or(types::NULL_LONG, |bytes| i64::from_le_bytes(*bytes))
}

fn f32_of(item: &[u8]) -> f32 {
    item.first_chunk().map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes))
}

fn f64_of(item: &[u8]) -> f64 {
    item.first_chunk().map_or(f64::NAN, |bytes| f64::from_le_bytes(*bytes))
}

type Written = std::fmt::Result;

fn integer(value: i64, null: i64, infinity: i64, out: &mut String) -> Written {
    match value {
        _ if value == null => out.write_str("0N"),
        _ if value == infinity => out.write_str("0W"),
        _ if value == -infinity => out.write_str("-0W"),
        _ => write!(out, "{value}"),
    }
}

/// `shown` is the value in its own width, so that a real is not printed with the digits of a float.
fn float(value: f64, shown: impl std::fmt::Display, out: &mut String) -> Written {
    if value.is_nan() {
        out.write_str("0n")
    } else if value.is_infinite() {
        out.write_str(if value > 0.0 { "0w" } else { "-0w" })
    } else if value != 0.0 && !(1e-5..1e16).contains(&value.abs()) {
        write!(out, "{value:e}")
    } else {
        write!(out, "{shown}")
    }
}

fn guid(item: &[u8], out: &mut String) -> Written {
    for (at, byte) in item.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        write!(out, "{byte:02x}")?;
    }
    Ok(())
}

fn date_of(days: i64) -> Option<Date> {
    let span = Span::new().try_days(days).ok()?;
    Date::constant(2000, 1, 1).checked_add(span).ok()
}

fn date(days: i64, out: &mut String) -> Written {
    match date_of(days) {
        Some(date) => write!(out, "{:04}.{:02}.{:02}", date.year(), date.month(), date.day()),
        None => write!(out, "{days}d"),
    }
}

/// Time of day in nanoseconds.
fn clock(ns: i64, out: &mut String) -> Written {
    let seconds = ns / 1_000_000_000;
    write!(out, "{:02}:{:02}:{:02}.{:09}", seconds / 3600, seconds / 60 % 60, seconds % 60, ns % 1_000_000_000)
}

fn timestamp(ns: i64, out: &mut String) -> Written {
    match ns {
        i64::MIN => out.write_str("0Np"),
        i64::MAX => out.write_str("0Wp"),
        _ if ns == -i64::MAX => out.write_str("-0Wp"),
        _ => {
            date(ns.div_euclid(DAY_NS), out)?;
            out.push('D');
            clock(ns.rem_euclid(DAY_NS), out)
        }
    }
}

fn timespan(ns: i64, out: &mut String) -> Written {
    match ns {
        i64::MIN => out.write_str("0Nn"),
        i64::MAX => out.write_str("0Wn"),
        _ if ns == -i64::MAX => out.write_str("-0Wn"),
        _ => {
            if ns < 0 {
                out.push('-');
            }
            let ns = ns.abs();
            write!(out, "{}D", ns / DAY_NS)?;
            clock(ns % DAY_NS, out)
        }
    }
}

fn datetime(days: f64, out: &mut String) -> Written {
    if !days.is_finite() {
        return out.write_str(if days.is_nan() { "0Nz" } else { "0Wz" });
    }
    let ms = ((days - days.floor()) * DAY_MS as f64).round() as i64;
    date(days.floor() as i64, out)?;
    write!(out, "T{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

fn days_and_times(ty: i8, value: i32, out: &mut String) -> Written {
    let letter = types::letter(ty).map_or('?', char::from);
    match value {
        i32::MIN => return write!(out, "0N{letter}"),
        i32::MAX => return write!(out, "0W{letter}"),
        _ if value == -i32::MAX => return write!(out, "-0W{letter}"),
        _ => {}
    }
    if ty == types::DATE {
        return date(i64::from(value), out);
    }
    if ty == types::MONTH {
        return write!(out, "{:04}.{:02}", 2000 + value.div_euclid(12), value.rem_euclid(12) + 1);
    }
    if value < 0 {
        out.push('-');
    }
    let value = value.unsigned_abs();
    match ty {
        types::MINUTE => write!(out, "{:02}:{:02}", value / 60, value % 60),
        types::SECOND => write!(out, "{:02}:{:02}:{:02}", value / 3600, value / 60 % 60, value % 60),
        _ => {
            let (seconds, ms) = (value / 1000, value % 1000);
            write!(out, "{:02}:{:02}:{:02}.{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        }
    }
}

/// Returns a value as JSON: numbers, booleans and text natively, temporal values and guids as text in q notation, nulls as `null`.
pub fn json(view: &View<'_>) -> Json {
    if let Some(table) = view.table() {
        let names = table.names.symbols().map(lossy);
        return Json::Object(names.zip(table.columns.iter().map(|column| json(&column))).collect::<Map<_, _>>());
    }
    if let Some(dict) = view.dict() {
        return Json::Array(vec![json(&dict.keys), json(&dict.values)]);
    }
    if let Some(list) = view.list() {
        return Json::Array(list.iter().map(|item| json(&item)).collect());
    }
    if let Some(chars) = view.text() {
        return Json::String(lossy(chars));
    }
    if let Some(vector) = view.vector() {
        if vector.ty == types::SYMBOL {
            return Json::Array(vector.symbols().map(|name| Json::String(lossy(name))).collect());
        }
        let width = types::width(vector.ty).unwrap_or(1);
        return Json::Array(vector.items.chunks_exact(width).map(|item| json_atom(vector.ty, item)).collect());
    }
    match view.type_code() {
        ty if ty < 0 && types::width(ty).is_some() => json_atom(-ty, view.raw().get(1..).unwrap_or_default()),
        _ if view.is_null() => Json::Null,
        _ => {
            let mut out = String::new();
            text(view, usize::MAX, &mut out);
            Json::String(out)
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json_atom(ty: i8, item: &[u8]) -> Json {
    match ty {
        types::BOOL => return Json::Bool(item.first().is_some_and(|byte| *byte != 0)),
        types::BYTE => return Json::from(item.first().copied().unwrap_or_default()),
        types::SHORT if i16_of(item) != types::NULL_SHORT => return Json::from(i16_of(item)),
        types::INT if i32_of(item) != types::NULL_INT => return Json::from(i32_of(item)),
        types::LONG if i64_of(item) != types::NULL_LONG => return Json::from(i64_of(item)),
        types::REAL if f32_of(item).is_finite() => return Json::from(f32_of(item)),
        types::FLOAT if f64_of(item).is_finite() => return Json::from(f64_of(item)),
        _ => {}
    }
    let mut out = String::new();
    atom(ty, item, &mut out);
    if out.starts_with("0N") || out == "0n" { Json::Null } else { Json::String(out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Limits};

    fn shown(bytes: &[u8]) -> String {
        let (view, used) = View::parse(bytes, Endian::Little, &Limits::default()).unwrap();
        assert_eq!(used, bytes.len());
        let mut out = String::new();
        text(&view, 3, &mut out);
        out
    }

    fn vector(ty: u8, items: &[i64]) -> Vec<u8> {
        let mut out = vec![ty, 0];
        out.extend_from_slice(&(items.len() as i32).to_le_bytes());
        items.iter().for_each(|item| out.extend_from_slice(&item.to_le_bytes()));
        out
    }

    #[test]
    fn numbers_and_times_look_as_in_q() {
        assert_eq!(shown(&vector(7, &[1, i64::MIN, i64::MAX])), "1 0N 0W");
        assert_eq!(shown(&vector(7, &[1, 2, 3, 4])), "1 2 3..");
        assert_eq!(shown(&vector(7, &[5])), ",5");
        assert_eq!(shown(&vector(12, &[0, -1])), "2000.01.01D00:00:00.000000000 1999.12.31D23:59:59.999999999");
        assert_eq!(shown(&vector(16, &[34_200_000_000_000, -1])), "0D09:30:00.000000000 -0D00:00:00.000000001");
        assert_eq!(shown(&[0xf2, 0, 0, 0, 0]), "2000.01.01");
        assert_eq!(shown(&[0xed, 0xff, 0xff, 0xff, 0x7f]), "0Wt");
        assert_eq!(shown(&[0xf3, 0xff, 0xff, 0xff, 0xff]), "1999.12m");
        assert_eq!(shown(&[0xff, 1]), "1b");
    }

    #[test]
    fn dates_beyond_the_calendar_do_not_fail() {
        assert_eq!(shown(&[0xf2, 0xfe, 0xff, 0xff, 0x7f]), "2147483646d");
    }

    #[test]
    fn text_is_quoted_and_lists_are_abbreviated() {
        assert_eq!(shown(b"\x0a\x00\x03\0\0\0a\"\n"), "\"a\\\"\\n\"");
        assert_eq!(shown(b"\x0b\x00\x02\0\0\0a\0bc\0"), "`a`bc");
        assert_eq!(shown(b"\x00\x00\x02\0\0\0\xf5a\0\xf7\0\0\0\0\0\0\xf8\x3f"), "(`a;1.5)");
    }

    #[test]
    fn json_has_null_for_nulls() {
        let bytes = vector(7, &[1, i64::MIN]);
        let (view, _) = View::parse(&bytes, Endian::Little, &Limits::default()).unwrap();
        assert_eq!(json(&view).to_string(), "[1,null]");
    }
}
