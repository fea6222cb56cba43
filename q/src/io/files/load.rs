//! Text of fixed widths, pairs of keys and values, and binary records, parsed into columns.

use super::cells::{Cells, answer, source};
use super::{bytes_of, fixed, lines};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::literal::letter_type;
use crate::verbs::tok::parse_text;
use columns::table::symbol::intern;
use columns::table::{Attr, Items, Value, Vector};
use proto::types;

/// Parses fixed-width records, separated by newlines or back to back.
pub(super) fn fixed(context: &mut Context, types: &[Option<i8>], widths: &Items, y: &Value) -> Result {
    let widths: Vec<usize> = crate::verbs::convert::rows(widths)
        .ok_or_else(type_error)?
        .into_iter()
        .map(|w| usize::try_from(w).unwrap_or(0))
        .collect();
    if widths.len() != types.len() {
        return Err(QError::named("length"));
    }
    let (bytes, single) = source(context, y)?;
    let total: usize = widths.iter().fold(0, |a, b| a.saturating_add(*b));
    let rows: Vec<&[u8]> = if bytes.contains(&b'\n') {
        lines(&bytes)
    } else if total == 0 {
        Vec::new()
    } else {
        bytes.chunks(total).collect()
    };
    let mut columns: Vec<Cells> = types.iter().copied().map(Cells::new).collect();
    for row in &rows {
        context.tick()?;
        let mut at = 0usize;
        for (column, width) in columns.iter_mut().zip(&widths) {
            let end = at.saturating_add(*width).min(row.len());
            column.push(row.get(at.min(end)..end).unwrap_or_default())?;
            at = end;
        }
    }
    let columns = columns.into_iter().filter_map(Cells::finish).collect();
    Ok(answer(columns, single && rows.len() == 1))
}

/// `"S=;" 0: text`: parses key-value pairs; with `*` as the third character, quotes protect delimiters.
pub(super) fn pairs(context: &mut Context, spec: &[u8], y: &Value) -> Result {
    let text = y.as_text().ok_or_else(type_error)?;
    let (key, equals, between, quoted) = match spec {
        [key, equals, b'*', between] => (key, *equals, *between, true),
        [key, equals, between] => (key, *equals, *between, false),
        _ => return Err(QError::named("length")),
    };
    let t = letter_type(key.to_ascii_lowercase()).ok_or_else(type_error)?;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut parts: Vec<Vec<u8>> = vec![Vec::new()];
    let mut open = false;
    for c in text {
        if quoted && *c == b'"' {
            open = !open;
        } else if *c == between && !open {
            parts.push(Vec::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(*c);
        }
    }
    if parts.len() > 1 && parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    for part in parts {
        context.tick()?;
        let at = part.iter().position(|c| *c == equals).unwrap_or(part.len());
        keys.push(parse_text(t, part.get(..at).unwrap_or_default())?);
        values.push(Value::chars(part.get(at + 1..).unwrap_or_default()));
    }
    Ok(Value::list(vec![Value::collapse(keys), Value::list(values)]))
}

/// `(types;widths) 1: y`: parses binary records.
pub(crate) fn binary(context: &mut Context, x: &Value, y: &Value) -> Result {
    // Widths before types mean big-endian numbers.
    let big = x.at(0).as_text().is_none();
    let (letters, widths) = if big { (x.at(1), x.at(0)) } else { (x.at(0), x.at(1)) };
    let letters = letters.as_text().ok_or_else(type_error)?;
    let widths = crate::verbs::convert::rows(&widths.to_items()).ok_or_else(type_error)?;
    let widths: Vec<usize> = widths.into_iter().map(|w| usize::try_from(w).unwrap_or(0)).collect();
    if widths.len() != letters.len() {
        return Err(QError::named("length"));
    }
    let bytes = match y {
        Value::Vector(Vector { items: Items::Byte(b) | Items::Char(b), .. }) => b.to_vec(),
        file => bytes_of(context, file)?,
    };
    let total: usize = widths.iter().fold(0, |a, b| a.saturating_add(*b));
    if total == 0 {
        return Err(QError::named("length"));
    }
    let rows = bytes.len() / total;
    context.reserve_items(rows, 16)?;
    let (mut columns, mut at) = (Vec::new(), 0);
    for (letter, width) in letters.iter().zip(&widths) {
        let fields = (0..rows).map(|row| {
            let start = row * total + at;
            bytes.get(start..start + width).unwrap_or_default()
        });
        if *letter != b' ' {
            columns.push(column(context, letter.to_ascii_lowercase(), *width, fields, big)?);
        }
        at += width;
    }
    Ok(Value::list(columns))
}

/// The values of a field of all records.
fn column<'a>(
    context: &mut Context,
    letter: u8,
    width: usize,
    fields: impl ExactSizeIterator<Item = &'a [u8]>,
    big: bool,
) -> Result {
    let t = letter_type(letter).filter(|t| fixed::is_simple(*t));
    if let Some(t) = t.filter(|t| fixed::width(*t) == Some(width as u64)) {
        let mut packed = Vec::with_capacity(fields.len() * width);
        for field in fields {
            context.tick()?;
            match big && t != types::GUID {
                true => packed.extend(field.iter().rev()),
                false => packed.extend_from_slice(field),
            }
        }
        if t == types::BOOL {
            packed.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        return fixed::vector(t, Attr::None, usize::MAX, &packed);
    }
    let mut items = Vec::with_capacity(fields.len());
    for field in fields {
        context.tick()?;
        items.push(number(letter, field, big)?);
    }
    match (letter, t) {
        _ if !items.is_empty() => Ok(Value::collapse(items)),
        (b's', _) => Ok(Value::symbols(Vec::new())),
        (b'*' | b'c', _) | (_, None) => Ok(Value::empty()),
        (_, Some(t)) => fixed::vector(t, Attr::None, 0, &[]),
    }
}

/// One number, symbol or text of a record.
fn number(letter: u8, bytes: &[u8], big: bool) -> Result {
    let text = bytes.iter().take_while(|c| **c != 0).copied().collect::<Vec<u8>>();
    if letter == b's' {
        return Ok(Value::Sym(intern(&text).map_err(QError::from)?));
    }
    if letter == b'*' || (letter == b'c' && bytes.len() > 1) {
        return Ok(Value::chars(bytes));
    }
    let mut whole: u64 = 0;
    let fold = |whole: &mut u64, b: &u8| *whole = *whole << 8 | u64::from(*b);
    if big {
        bytes.iter().for_each(|b| fold(&mut whole, b));
    } else {
        bytes.iter().rev().for_each(|b| fold(&mut whole, b));
    }
    let long = match bytes.len() {
        1 => i64::from(whole as i8),
        2 => columns::kernel::num::Int::to_long((whole as u16).cast_signed()),
        4 => columns::kernel::num::Int::to_long((whole as u32).cast_signed()),
        8 => whole.cast_signed(),
        _ => return Err(QError::named("length")),
    };
    let t = letter_type(letter).filter(|t| !matches!(*t, types::GUID | types::SYMBOL)).ok_or_else(type_error)?;
    Ok(Value::from_long(t, long))
}
