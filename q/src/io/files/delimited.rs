//! Delimited text parsed into columns: `(types;delimiter) 0: y`.

use super::cells::{Cells, answer, source, types};
use super::{each_line, load};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use columns::table::symbol::intern;
use columns::table::{Items, Sym, Table, Value, Vector};
use std::borrow::Cow;

/// Fields of a record; quotes protect delimiters, and a doubled quote stands for one, also before text without quotes. A field that begins
/// with a quote may close it and open it again, as in kdb+; in any other field quotes are text.
struct Fields<'a> {
    /// What is left; `None` behind the last field.
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let rest = self.rest?;
        if rest.first() == Some(&b'"') {
            let (field, length) = quoted(rest, self.delimiter);
            self.rest = rest.get(length + 1..);
            return Some(field.into());
        }
        let end = rest.iter().position(|c| *c == self.delimiter);
        self.rest = end.and_then(|end| rest.get(end + 1..));
        Some(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().into())
    }
}

fn fields(line: &[u8], delimiter: u8) -> Fields<'_> {
    Fields { rest: Some(line), delimiter }
}

/// A field that begins with a quote, and the number of bytes that it takes.
fn quoted(line: &[u8], delimiter: u8) -> (Vec<u8>, usize) {
    let (mut field, mut at) = (Vec::new(), 0);
    let is_text = |c: &u8| *c != delimiter && *c != b'"';
    let is_doubled = line.starts_with(b"\"\"") && line.get(2).is_some_and(is_text);
    if is_doubled {
        field.push(b'"');
        at = 2;
    }
    let mut is_open = false;
    while let Some(c) = line.get(at).filter(|c| is_open || **c != delimiter) {
        at += 1;
        if is_doubled || *c != b'"' {
            field.push(*c);
        } else if is_open && line.get(at) == Some(&b'"') {
            field.push(b'"');
            at += 1;
        } else {
            is_open = !is_open;
        }
    }
    (field, at)
}

/// Splits text into records; a quoted field may span lines.
fn records(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let is_open = |line: &[u8]| line.iter().filter(|c| **c == b'"').count() % 2 == 1;
    let mut lines = each_line(bytes);
    std::iter::from_fn(move || {
        let mut record = Cow::Borrowed(lines.next()?);
        let mut open = is_open(&record);
        while let Some(line) = if open { lines.next() } else { None } {
            let record = record.to_mut();
            record.push(b'\n');
            record.extend_from_slice(line);
            open ^= is_open(line);
        }
        Some(record)
    })
}

/// `(types;delimiter) 0: y`, `(types;enlist delimiter) 0: y`, `(types;widths) 0: y`: parses delimited or fixed-width text.
pub(crate) fn delimited(context: &mut Context, x: &Value, y: &Value) -> Result {
    let types = types(&x.at(0))?;
    let separator = x.at(1);
    if let Value::Vector(Vector { items: widths @ (Items::Long(_) | Items::Int(_) | Items::Short(_)), .. }) = &separator
    {
        return load::fixed(context, &types, widths, y);
    }
    let header = matches!(&separator, Value::Vector(_));
    let delimiter = match (&separator, separator.as_text()) {
        (Value::Byte(one), _) | (_, Some([one])) => *one,
        (Value::Vector(Vector { items: Items::Byte(bytes), .. }), _) if bytes.len() == 1 => {
            bytes.first().copied().ok_or_else(type_error)?
        }
        _ => return Err(type_error()),
    };
    let (bytes, single) = source(context, y)?;
    let spans_lines = x.count() > 2 && x.at(2).as_long().is_some_and(|n| n != 0);
    let mut rows: Box<dyn Iterator<Item = Cow<'_, [u8]>>> =
        if spans_lines { Box::new(records(&bytes)) } else { Box::new(each_line(&bytes).map(Cow::Borrowed)) };
    let mut names: Vec<Sym> = Vec::new();
    if header && let Some(row) = rows.next() {
        for name in fields(&row, delimiter) {
            names.push(intern(name.trim_ascii()).map_err(QError::from)?);
        }
    }
    let mut cells: Vec<Cells> = types.iter().copied().map(Cells::new).collect();
    for row in rows {
        context.tick()?;
        let mut found = fields(&row, delimiter);
        for cell in &mut cells {
            cell.push(&found.next().unwrap_or_default())?;
        }
    }
    let mut columns = Vec::new();
    let mut kept = Vec::new();
    for (i, column) in cells.into_iter().enumerate() {
        let Some(column) = column.finish() else { continue };
        columns.push(column);
        kept.push(names.get(i).copied().unwrap_or(Sym::NULL));
    }
    if header {
        let vectors: Option<Vec<Vector>> = columns.into_iter().map(Value::into_vector).collect();
        return Ok(Value::table(Table::new(kept, vectors.ok_or_else(type_error)?)));
    }
    Ok(answer(columns, single))
}
