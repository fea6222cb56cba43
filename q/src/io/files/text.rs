//! Formatting of tables and columns as delimited text.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::format;
use columns::table::symbol::text;
use columns::table::{Items, Value, Vector};

/// Appends a field, quoted if it contains the delimiter or a newline; quotes in it are doubled only then.
fn field(bytes: &[u8], delimiter: &[u8], out: &mut Vec<u8>) {
    let has_delimiter = match delimiter {
        [] => false,
        [one] => bytes.contains(one),
        several => bytes.windows(several.len()).any(|w| w == several),
    };
    if !has_delimiter && !bytes.contains(&b'\n') {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    for c in bytes {
        if *c == b'"' {
            out.push(b'"');
        }
        out.push(*c);
    }
    out.push(b'"');
}

/// Formats a cell: dates with dashes, everything else as `string` does.
fn cell(item: &Value) -> std::result::Result<Vec<u8>, QError> {
    Ok(match item {
        Value::Date(_) | Value::Timestamp(_) | Value::Datetime(_) => {
            let mut spelled = format::string(item)?;
            spelled.iter_mut().take(10).filter(|c| **c == b'.').for_each(|c| *c = b'-');
            spelled
        }
        Value::Func(_) | Value::Dict(_) | Value::Table(_) => return Err(type_error()),
        other => match other.as_text() {
            Some(text) => text.to_vec(),
            None if other.is_atom() || matches!(other, Value::Null) => format::string(other)?,
            None => return Err(type_error()),
        },
    })
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
    let mut out = crate::runtime::limits::list(rows + 1)?;
    if let Some(names) = names {
        let mut line = Vec::new();
        for (i, name) in names.iter().enumerate() {
            if i > 0 {
                line.extend_from_slice(delimiter);
            }
            field(name, delimiter, &mut line);
        }
        out.push(Value::chars(line));
    }
    let mut line: Vec<u8> = Vec::new();
    for row in 0..rows {
        context.tick()?;
        line.clear();
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                line.extend_from_slice(delimiter);
            }
            field(&cell(&column.items.get(row))?, delimiter, &mut line);
        }
        out.push(Value::chars(&line[..]));
    }
    Ok(Value::list(out))
}
