//! JSON serialiser and parser: `.j.j` and `.j.k`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::{decimal, digits, format, spell};
use columns::kernel::blocks;
use columns::sys::budget::{self, BLOCK};
use columns::table::symbol::text;
use columns::table::{Items, Table, Value, Vector};

mod read;

pub(crate) use read::from_json;

type Done = std::result::Result<(), QError>;

/// `.j.j x`: a value as JSON.
pub(crate) fn to_json(context: &mut Context, x: Value) -> Result {
    let mut out = Vec::new();
    write(context, &x, &mut out)?;
    Ok(Value::chars(out))
}

/// `.j.jd (x;d)`: as [`to_json`]; if `` d`null0w `` is true, infinities become `null`.
pub(crate) fn to_json_with(context: &mut Context, x: Value) -> Result {
    let (value, options) = (x.at(0), x.at(1));
    let Value::Dict(options) = options else { return Err(type_error()) };
    let at = crate::verbs::find::position(&options.keys, &Value::Sym(crate::syntax::prims::name("null0w")))?;
    let as_null = at.is_some_and(|at| matches!(options.values.at(at), Value::Bool(true)));
    let value = if as_null { finite(context, &value)? } else { value };
    to_json(context, value)
}

/// Replaces infinities by nulls.
fn finite(context: &mut Context, x: &Value) -> Result {
    context.enter()?;
    let null = |f: &f64| if f.is_infinite() { f64::NAN } else { *f };
    Ok(match x {
        Value::Float(f) => Value::Float(null(f)),
        Value::Vector(Vector { items: Items::Float(v), .. }) => Value::floats(blocks::map(v, null)),
        Value::Vector(Vector { items: Items::List(_), .. }) => {
            crate::verbs::map::map(context, x, |c, item| finite(c, &item))?
        }
        Value::Dict(d) => Value::dict(finite(context, &d.keys)?, finite(context, &d.values)?),
        Value::Table(t) => {
            let mut t = (**t).clone();
            for column in &mut t.columns {
                let held = finite(context, &column.clone().into())?;
                *column = held.into_vector().ok_or_else(type_error)?;
            }
            Value::table(t)
        }
        other => other.clone(),
    })
}

/// Whether a JSON string holds this byte without an escape.
fn is_plain(c: u8) -> bool {
    !matches!(c, b'"' | b'\\' | 0..=31)
}

fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for block in bytes.chunks(BLOCK) {
        if budget::spend(block.len()) {
            break;
        }
        let mut rest = block;
        while let Some(at) = rest.iter().position(|c| !is_plain(*c)) {
            let (plain, from) = rest.split_at(at);
            out.extend_from_slice(plain);
            match from.first().copied().unwrap_or(0) {
                c @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', c]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0x08 => out.extend_from_slice(b"\\b"),
                0x0c => out.extend_from_slice(b"\\f"),
                c => out.extend_from_slice(format!("\\u{c:04x}").as_bytes()),
            }
            rest = from.get(1..).unwrap_or_default();
        }
        out.extend_from_slice(rest);
    }
    out.push(b'"');
}

/// Writes the items of a vector as an array.
fn array(context: &mut Context, items: &Items, out: &mut Vec<u8>) -> Done {
    let precision = context.host.console().precision;
    out.push(b'[');
    for row in 0..items.len() {
        separate(context, row, b",", out)?;
        item(context, items, row, precision, out)?;
    }
    out.push(b']');
    context.reserve(out.len())
}

/// Rows written between two looks at whether the text may become twice as long.
const RESERVED_ROWS: usize = 1024;

/// Writes what is between a row and the one before, and checks the limits.
fn separate(context: &mut Context, row: usize, separator: &[u8], out: &mut Vec<u8>) -> Done {
    if row > 0 {
        out.extend_from_slice(separator);
    }
    context.tick()?;
    if row.is_multiple_of(RESERVED_ROWS) {
        context.reserve(out.len())?;
    }
    Ok(())
}

/// Writes a table as an array of objects.
fn table(context: &mut Context, table: &Table, out: &mut Vec<u8>) -> Done {
    let precision = context.host.console().precision;
    let mut keys = Vec::with_capacity(table.names.len());
    for (at, name) in table.names.iter().enumerate() {
        let mut key = if at > 0 { b",".to_vec() } else { Vec::new() };
        quoted(text(*name), &mut key);
        key.push(b':');
        keys.push(key);
    }
    out.push(b'[');
    for row in 0..table.count() {
        separate(context, row, b",\n ", out)?;
        out.push(b'{');
        for (key, column) in keys.iter().zip(&table.columns) {
            out.extend_from_slice(key);
            item(context, &column.items, row, precision, out)?;
        }
        out.push(b'}');
    }
    out.push(b']');
    context.reserve(out.len())
}

/// Writes an item of a vector as its atom is written.
fn item(context: &mut Context, items: &Items, row: usize, precision: u8, out: &mut Vec<u8>) -> Done {
    let is_done = match items {
        Items::List(l) => {
            return match l.get(row) {
                Some(Value::Vector(Vector { items: Items::Char(text), .. })) => {
                    quoted(text, out);
                    context.reserve(text.len())
                }
                Some(other) => write(context, other, out),
                None => Ok(()),
            };
        }
        Items::Long(v) => v.get(row).filter(|long| spell::is_whole(**long)).map(|long| digits::whole(*long, out)),
        Items::Int(v) => v.get(row).filter(|int| spell::is_whole(**int)).map(|int| digits::whole(i64::from(*int), out)),
        Items::Float(v) => v.get(row).filter(|f| f.is_finite()).map(|f| decimal::put(*f, precision, out)),
        Items::Sym(v) | Items::Enum(_, v) => v.get(row).map(|symbol| quoted(text(*symbol), out)),
        Items::Date(_) | Items::Timestamp(_) => {
            out.push(b'"');
            let start = out.len();
            spell::cell(items, row, 17, out)?;
            spell::put_dashes(out, start);
            out.push(b'"');
            Some(())
        }
        Items::Time(_) | Items::Timespan(_) | Items::Minute(_) | Items::Second(_) => {
            out.push(b'"');
            spell::cell(items, row, 17, out)?;
            out.push(b'"');
            Some(())
        }
        _ => None,
    };
    match is_done {
        Some(()) => Ok(()),
        None => write(context, &items.get(row), out),
    }
}

fn write(context: &mut Context, x: &Value, out: &mut Vec<u8>) -> Done {
    context.enter()?;
    match x {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        Value::Char(c) => quoted(&[*c], out),
        Value::Vector(Vector { items: Items::Char(c), .. }) => quoted(c, out),
        Value::Sym(s) | Value::Enum(_, s) => quoted(text(*s), out),
        Value::Link(..) => write(context, &x.clone().plain(), out)?,
        Value::Byte(b) => quoted(format!("{b:02x}").as_bytes(), out),
        Value::Short(_) | Value::Int(_) | Value::Long(_) | Value::Real(_) | Value::Float(_) => {
            out.extend_from_slice(&number(x, context.host.console().precision));
        }
        Value::Date(_) | Value::Timestamp(_) | Value::Datetime(_) | Value::Month(_) => {
            let mut spelled = format::cell(x, 17)?;
            spell::put_dashes(&mut spelled, 0);
            quoted(&spelled, out);
        }
        Value::Vector(v) => array(context, &v.items, out)?,
        Value::Table(t) => table(context, t, out)?,
        Value::Dict(d) if d.keyed().is_some() => {
            let flat = crate::verbs::rows::unkey(x)?;
            write(context, &flat, out)?;
        }
        Value::Dict(d) => {
            out.push(b'{');
            for i in 0..d.keys.count() {
                if i > 0 {
                    out.push(b',');
                }
                let key = d.keys.at(i);
                match key.as_text() {
                    Some(text) => quoted(text, out),
                    None => quoted(&format::string(&key)?, out),
                }
                out.push(b':');
                write(context, &d.values.at(i), out)?;
            }
            out.push(b'}');
        }
        Value::Func(_) => return Err(type_error()),
        atom => quoted(&format::cell(atom, 17)?, out),
    }
    context.reserve(out.len())
}

/// A number's digits. Nulls become `null`; infinities become words, as in q, although JSON has none.
fn number(x: &Value, precision: u8) -> Vec<u8> {
    match x {
        Value::Real(f) if f.is_infinite() => {}
        Value::Float(f) if f.is_infinite() => {}
        _ if format::is_blank(x) => return b"null".to_vec(),
        other => return format::item(other, precision),
    }
    let negative = x.as_float().is_some_and(|f| f < 0.0);
    if negative { b"-inf".to_vec() } else { b"inf".to_vec() }
}
