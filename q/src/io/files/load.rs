//! Parsing of text and bytes into columns.

use super::{bytes_of, lines};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::literal::letter_type;
use crate::verbs::tok::parse_text;
use columns::table::symbol::intern;
use columns::table::{Items, Sym, Table, Value, Vector};
use proto::types;

/// Parses the column types: `None` skips a column, 0 keeps it as text.
fn types(spec: &Value) -> std::result::Result<Vec<Option<i8>>, QError> {
    let letters = spec.as_text().ok_or_else(type_error)?;
    let one = |c: &u8| match c {
        b' ' => Ok(None),
        b'*' => Ok(Some(0)),
        c => letter_type(c.to_ascii_lowercase()).map(Some).ok_or_else(type_error),
    };
    letters.iter().map(one).collect()
}

/// Returns the text to parse (contents of a file, joined lines or the operand itself), and whether it is a single line.
fn source(context: &Context, y: &Value) -> std::result::Result<(Vec<u8>, bool), QError> {
    match y {
        Value::Sym(_) => Ok((bytes_of(context, y)?, false)),
        Value::Vector(Vector { items: Items::Char(text), .. }) => Ok((text.to_vec(), !text.contains(&b'\n'))),
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            if matches!(l.first(), Some(Value::Sym(_))) {
                return Ok((bytes_of(context, y)?, false));
            }
            let mut all = Vec::new();
            for line in l.iter() {
                all.extend_from_slice(line.as_text().ok_or_else(type_error)?);
                all.push(b'\n');
            }
            Ok((all, false))
        }
        Value::Vector(v) if v.is_empty() => Ok((Vec::new(), false)),
        _ => Err(type_error()),
    }
}

/// Fields of one record; quotes protect delimiters, and a doubled quote stands for one, also before text without quotes. A field that begins
/// with a quote may close it and open it again, as in kdb+; in any other field quotes are text.
fn fields(line: &[u8], delimiter: u8) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        let mut field = Vec::new();
        let is_text = |c: &u8| *c != delimiter && *c != b'"';
        let is_doubled = line.get(at..at + 2) == Some(b"\"\"") && line.get(at + 2).is_some_and(is_text);
        if is_doubled {
            field.push(b'"');
            at += 2;
        }
        let has_quotes = !is_doubled && line.get(at) == Some(&b'"');
        let mut is_open = false;
        while let Some(c) = line.get(at).filter(|c| is_open || **c != delimiter) {
            at += 1;
            if !has_quotes || *c != b'"' {
                field.push(*c);
            } else if is_open && line.get(at) == Some(&b'"') {
                field.push(b'"');
                at += 1;
            } else {
                is_open = !is_open;
            }
        }
        out.push(field);
        if at >= line.len() {
            return out;
        }
        at += 1;
    }
}

/// Splits text into records; a quoted field may span lines.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = Vec::new();
    let mut open = false;
    for line in lines(bytes) {
        match out.last_mut() {
            Some(last) if open => {
                last.push(b'\n');
                last.extend_from_slice(line);
            }
            _ => out.push(line.to_vec()),
        }
        open ^= line.iter().filter(|c| **c == b'"').count() % 2 == 1;
    }
    out
}

/// Parses the cells of a column.
fn column(t: i8, cells: Vec<Vec<u8>>) -> Result {
    let mut items = Vec::with_capacity(cells.len());
    for cell in cells {
        items.push(parse_text(t, &cell)?);
    }
    Ok(match Items::collapse(items) {
        Ok(simple) if t != types::LIST => simple.into(),
        Ok(simple) => Value::list((0..simple.len()).map(|i| simple.get(i)).collect()),
        Err(items) if items.is_empty() => Items::empty_of(t).into(),
        Err(items) => Value::list(items),
    })
}

/// `(types;delimiter) 0: y`, `(types;enlist delimiter) 0: y`, `(types;widths) 0: y`: parses delimited or fixed-width text.
pub(crate) fn delimited(context: &mut Context, x: &Value, y: &Value) -> Result {
    let types = types(&x.at(0))?;
    let separator = x.at(1);
    if let Value::Vector(Vector { items: widths @ (Items::Long(_) | Items::Int(_) | Items::Short(_)), .. }) = &separator
    {
        return fixed(context, &types, widths, y);
    }
    let header = matches!(&separator, Value::Vector(_));
    let delimiter = match separator.as_text() {
        Some([one]) => *one,
        _ => return Err(type_error()),
    };
    let (bytes, single) = source(context, y)?;
    context.reserve(bytes.len().saturating_mul(4))?;
    let spans_lines = x.count() > 2 && x.at(2).as_long().is_some_and(|n| n != 0);
    let mut rows: Vec<Vec<u8>> =
        if spans_lines { records(&bytes) } else { lines(&bytes).into_iter().map(<[u8]>::to_vec).collect() };
    let mut names: Vec<Sym> = Vec::new();
    if header && !rows.is_empty() {
        for name in fields(&rows.remove(0), delimiter) {
            names.push(intern(name.trim_ascii()).map_err(QError::from)?);
        }
    }
    let mut cells: Vec<Vec<Vec<u8>>> = vec![Vec::with_capacity(rows.len()); types.len()];
    for row in &rows {
        context.tick()?;
        let mut found = fields(row, delimiter).into_iter();
        for cell in &mut cells {
            cell.push(found.next().unwrap_or_default());
        }
    }
    let mut columns = Vec::new();
    let mut kept = Vec::new();
    for (i, (t, cells)) in types.iter().zip(cells).enumerate() {
        let Some(t) = t else { continue };
        columns.push(column(*t, cells)?);
        kept.push(names.get(i).copied().unwrap_or(Sym::NULL));
    }
    if header {
        let vectors: Option<Vec<Vector>> = columns.into_iter().map(Value::into_vector).collect();
        return Ok(Value::table(Table::new(kept, vectors.ok_or_else(type_error)?)));
    }
    Ok(answer(columns, single))
}

/// Returns the columns, or their items for a single line of text.
fn answer(columns: Vec<Value>, single: bool) -> Value {
    if single { Value::collapse(columns.iter().map(|c| c.at(0)).collect()) } else { Value::list(columns) }
}

/// Parses fixed-width records, separated by newlines or back to back.
fn fixed(context: &mut Context, types: &[Option<i8>], widths: &Items, y: &Value) -> Result {
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
    let mut cells: Vec<Vec<Vec<u8>>> = vec![Vec::with_capacity(rows.len()); types.len()];
    for row in &rows {
        context.tick()?;
        let mut at = 0usize;
        for (cell, width) in cells.iter_mut().zip(&widths) {
            let end = at.saturating_add(*width).min(row.len());
            let text = row.get(at.min(end)..end).unwrap_or_default();
            cell.push(text.to_vec());
            at = end;
        }
    }
    let mut columns = Vec::new();
    for (t, cells) in types.iter().zip(cells) {
        if let Some(t) = t {
            columns.push(column(*t, cells)?);
        }
    }
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
    let mut columns = Vec::new();
    let mut at = 0;
    for (letter, width) in letters.iter().zip(&widths) {
        let mut items = Vec::with_capacity(rows);
        for row in 0..rows {
            context.tick()?;
            let start = row * total + at;
            items.push(number(*letter, bytes.get(start..start + width).unwrap_or_default(), big)?);
        }
        at += width;
        if *letter != b' ' {
            columns.push(Value::collapse(items));
        }
    }
    Ok(Value::list(columns))
}

/// One number, symbol or text of a record.
fn number(letter: u8, bytes: &[u8], big: bool) -> Result {
    let letter = letter.to_ascii_lowercase();
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
    Ok(match (letter, bytes.len()) {
        (b' ', _) => Value::Null,
        (b'b', 1) => Value::Bool(whole != 0),
        (b'x', 1) => Value::Byte(whole as u8),
        (b'c', 1) => Value::Char(whole as u8),
        (b'e', 4) => Value::Real(f32::from_bits(whole as u32)),
        (b'f', 8) => Value::Float(f64::from_bits(whole)),
        (b'z', 8) => Value::Datetime(f64::from_bits(whole)),
        (letter, width @ (1 | 2 | 4 | 8)) => {
            let t =
                letter_type(letter).filter(|t| !matches!(*t, types::GUID | types::SYMBOL)).ok_or_else(type_error)?;
            let long = match width {
                1 => i64::from(whole as i8),
                2 => columns::kernel::num::Int::to_long((whole as u16).cast_signed()),
                4 => columns::kernel::num::Int::to_long((whole as u32).cast_signed()),
                _ => whole.cast_signed(),
            };
            Value::from_long(t, long)
        }
        _ => return Err(QError::named("length")),
    })
}
