//! Formatting of tables and columns as delimited text.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::settings::precision;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::{format, spell};
use columns::sys::shared::Shared;
use columns::table::symbol::text;
use columns::table::{Items, Value, Vector};

/// Quotes the field at the end of a line if it contains the delimiter or a newline; quotes in it are doubled only then.
fn quote(line: &mut Vec<u8>, start: usize, delimiter: &[u8]) {
    let bytes = line.get(start..).unwrap_or_default();
    let has_delimiter = match delimiter {
        [] => false,
        [one] => bytes.contains(one),
        several => bytes.windows(several.len()).any(|w| w == several),
    };
    if !has_delimiter && !bytes.contains(&b'\n') {
        return;
    }
    let plain = line.split_off(start);
    line.push(b'"');
    for c in plain {
        if c == b'"' {
            line.push(b'"');
        }
        line.push(c);
    }
    line.push(b'"');
}

/// Appends an item of a list as `string` spells it.
fn listed(item: &Value, precision: u8, line: &mut Vec<u8>) -> std::result::Result<(), QError> {
    match item {
        Value::Func(_) | Value::Dict(_) | Value::Table(_) => return Err(type_error()),
        other => match other.as_text() {
            Some(text) => line.extend_from_slice(text),
            None if other.is_atom() || matches!(other, Value::Null) => {
                line.extend_from_slice(&format::cell(other, precision)?);
            }
            None => return Err(type_error()),
        },
    }
    Ok(())
}

/// A column, and what its fields need.
struct Column<'a> {
    items: &'a Items,
    /// The fields may contain the delimiter or a newline.
    may_quote: bool,
}

impl Column<'_> {
    fn of<'a>(column: &'a Vector, delimiter: &[u8]) -> Column<'a> {
        let items = &column.items;
        let is_text = matches!(items, Items::List(_) | Items::Sym(_) | Items::Enum(..) | Items::Char(_));
        // Numbers and times consist of these.
        let is_in_numbers = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b':' | b'-' | b'+');
        Column { items, may_quote: is_text || delimiter.iter().any(is_in_numbers) }
    }

    /// Appends the field of a row: dates with dashes, everything else as `string` does.
    fn field(
        &self,
        row: usize,
        delimiter: &[u8],
        precision: u8,
        line: &mut Vec<u8>,
    ) -> std::result::Result<(), QError> {
        let start = line.len();
        let mut has_date =
            matches!(self.items, Items::Date(_) | Items::Month(_) | Items::Timestamp(_) | Items::Datetime(_));
        match self.items {
            Items::List(l) => {
                let item = l.get(row).unwrap_or(&Value::Null);
                has_date = matches!(item, Value::Date(_) | Value::Month(_) | Value::Timestamp(_) | Value::Datetime(_));
                listed(item, precision, line)?;
            }
            items => spell::cell(items, row, precision, line)?,
        }
        if has_date {
            spell::put_dashes(line, start);
        }
        if self.may_quote {
            quote(line, start, delimiter);
        }
        Ok(())
    }
}

/// Size of the buffers that lines are written to. Lines are slices of their buffer, so one that is kept keeps all of it.
const PART_BYTES: usize = 1 << 16;

/// Lines that are written one after the other.
struct Lines {
    part: Vec<u8>,
    /// Where the lines in `part` end.
    ends: Vec<usize>,
    lines: Vec<Value>,
}

impl Lines {
    /// Ends the line at the end of `part`.
    fn end(&mut self) {
        self.ends.push(self.part.len());
        if self.part.len() >= PART_BYTES {
            self.cut();
        }
    }

    /// Makes lines of the part.
    fn cut(&mut self) {
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES + PART_BYTES / 8));
        let part = Shared::from(part);
        let mut start = 0;
        for end in self.ends.drain(..) {
            self.lines.push(Vector::from(Items::Char(part.cut(start..end))).into());
            start = end;
        }
    }
}

/// `delimiter 0: columns`: one line per row; a table's first line holds the column names.
pub(super) fn prepare(context: &mut Context, delimiter: &[u8], y: &Value) -> Result {
    let (names, columns): (Option<Vec<&[u8]>>, Vec<Vector>) = match y {
        Value::Table(t) => (Some(t.names.iter().map(|n| text(*n)).collect()), t.columns.clone()),
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            let columns: Option<Vec<Vector>> = l.iter().map(|c| c.clone().into_vector()).collect();
            (None, columns.ok_or_else(type_error)?)
        }
        _ => return Err(type_error()),
    };
    let rows = columns.first().map_or(0, Vector::len);
    if columns.iter().any(|c| c.len() != rows) {
        return Err(QError::named("length"));
    }
    let mut out = Lines { part: Vec::new(), ends: Vec::new(), lines: crate::runtime::limits::list(rows + 1)? };
    if let Some(names) = names {
        for (i, name) in names.iter().enumerate() {
            if i > 0 {
                out.part.extend_from_slice(delimiter);
            }
            let start = out.part.len();
            out.part.extend_from_slice(name);
            quote(&mut out.part, start, delimiter);
        }
        out.end();
    }
    let precision = precision();
    let columns: Vec<Column> = columns.iter().map(|column| Column::of(column, delimiter)).collect();
    for row in 0..rows {
        context.tick()?;
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.part.extend_from_slice(delimiter);
            }
            column.field(row, delimiter, precision, &mut out.part)?;
        }
        out.end();
    }
    out.cut();
    Ok(Value::list(out.lines))
}
