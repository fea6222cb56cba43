//! Console output: lists by line, matrices, dictionaries and tables in columns, cut to the console's size.

use crate::runtime::console::Console;
use crate::verbs::format::{clipped, clipped_cell};
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Items, Sym, Table, Value, Vector};
use proto::types;
use std::cell::Cell;

/// Returns a value's console output, each line with its newline; empty for the generic null.
pub fn show(value: &Value, console: &Console) -> Vec<u8> {
    // A general list has a line for each item, so that an empty one has none.
    if matches!(value, Value::Null) || value.is_nothing() {
        return Vec::new();
    }
    if let Some(shown) = function_lines(value, console) {
        return shown;
    }
    // One line more than fits shows that there are more.
    let room = console.rows.saturating_sub(2).max(1);
    let lines = lines(value, room + 1, Style::of(console));
    let mut out = Vec::new();
    let full = lines.len() > room;
    for line in lines.iter().take(if full { room.saturating_sub(1).max(1) } else { room }) {
        write_line(line, console, &mut out);
    }
    if full {
        out.extend_from_slice(b"..\n");
    }
    out
}

/// Greatest width and height of the console.
pub(crate) const MAX_CONSOLE: usize = 2000;

/// Says how many columns of a table [`show`] shows in full, and how to see them all; `None` if it shows all, or for other values.
pub fn cut_note(value: &Value, console: &Console) -> Option<String> {
    let (shown, all, wide) = columns_shown(value, console)?;
    let how = match wide {
        ..=MAX_CONSOLE => format!("\\c {} {wide} shows them all", console.rows),
        _ => "select fewer".to_owned(),
    };
    Some(format!("({shown} of {all} columns shown; {how})\n"))
}

/// Number of columns of a table that are shown in full, number of all, and columns of a console that shows all.
fn columns_shown(value: &Value, console: &Console) -> Option<(usize, usize, usize)> {
    let tables: Vec<&Table> = match value {
        Value::Table(t) => vec![t],
        Value::Dict(d) => d.keyed().map(|(keys, values)| vec![keys, values])?,
        _ => return None,
    };
    let (room, style) = (console.rows.saturating_sub(1).max(2), Style::of(console));
    let wide = console.columns.saturating_sub(1);
    let (mut end, mut ends) = (0usize, Vec::new());
    let all = tables.iter().map(|t| t.columns.len()).sum();
    for t in tables {
        for width in table_columns(t, room, style).iter().map(|cells| widest(cells)) {
            ends.push(end.saturating_add(width));
            end = end.saturating_add(width + 1);
        }
        // The bar after the keys.
        end = end.saturating_add(1);
    }
    if ends.last().is_none_or(|end| *end <= wide) && ends.len() == all {
        return None;
    }
    // A line that is cut ends in two dots.
    let fits = ends.iter().filter(|end| **end <= wide.saturating_sub(2)).count();
    Some((fits, all, ends.last().map_or(0, |end| end.saturating_add(1))))
}

/// Output of one expression while a script loads: one line, and all lines of a lambda.
pub(crate) fn brief(value: &Value, console: &Console) -> Vec<u8> {
    if let Some(shown) = function_lines(value, console) {
        return shown;
    }
    let mut out = Vec::new();
    if !matches!(value, Value::Null) {
        write_line(&Style::of(console).line(value), console, &mut out);
    }
    out
}

/// A lambda: its whole text, wider than the console if it is. A projection of one: all the lines, each cut as any line is.
fn function_lines(value: &Value, console: &Console) -> Option<Vec<u8>> {
    let function = |value: &Value| match value {
        Value::Func(f) => Some(f.clone()),
        _ => None,
    };
    let f = function(value)?;
    let (of, is_whole) = match &*f {
        Function::Projection { function: of, .. } => (function(of)?, false),
        _ => (f, true),
    };
    let Function::Lambda(lambda) = &*of else { return None };
    let text = clipped(value, console.precision, lambda.source.len().saturating_add(console.columns));
    if is_whole {
        return Some([&text[..], b"\n"].concat());
    }
    let mut out = Vec::with_capacity(text.len());
    text.split(|byte| *byte == b'\n').for_each(|line| write_line(line, console, &mut out));
    Some(out)
}

/// Writes a line, cut so that it fits the columns together with its newline.
fn write_line(line: &[u8], console: &Console, out: &mut Vec<u8>) {
    let wide = console.columns.saturating_sub(1);
    if line.len() > wide {
        out.extend_from_slice(line.get(..wide.saturating_sub(2)).unwrap_or_default());
        out.extend_from_slice(b"..");
    } else {
        out.extend_from_slice(line);
    }
    out.push(b'\n');
}

type Lines = Vec<Vec<u8>>;

/// Formatting parameters of a line.
#[derive(Clone, Copy)]
struct Style {
    precision: u8,
    /// Maximum visible bytes of a line; what follows need not be formatted.
    wide: usize,
}

impl Style {
    fn of(console: &Console) -> Style {
        Style { precision: console.precision, wide: console.columns.max(2) }
    }

    fn line(self, value: &Value) -> Vec<u8> {
        clipped(value, self.precision, self.wide)
    }

    fn cell(self, value: &Value) -> Vec<u8> {
        clipped_cell(value, self.precision, self.wide)
    }
}

fn lines(value: &Value, most: usize, style: Style) -> Lines {
    match value {
        Value::Vector(Vector { items: Items::List(l), .. }) if !l.is_empty() => {
            let shown = l.get(..most.min(l.len())).unwrap_or_default();
            // A column of a table shows such items one by one, as kdb+ does.
            if is_without_columns(l) { vec![Vec::new(); shown.len()] } else { list_lines(shown, style) }
        }
        Value::Dict(d) => match (&d.keys, &d.values) {
            (Value::Table(k), Value::Table(v)) => {
                let (left, right) = (table_block(k, most, style), table_block(v, most, style));
                beside(left, right)
            }
            (Value::Table(k), values) => {
                let left = table_block(k, most, style);
                let cells = column(values, most, style);
                let wide = cells.iter().map(|l| width(l)).max().unwrap_or(1);
                let mut right: Lines = vec![Vec::new(), vec![b'-'; wide]];
                right.extend(cells);
                beside(left, right)
            }
            (keys, Value::Table(v)) => {
                // The keys have no heading; the rule above them is as wide as the first key, as in kdb+.
                let mut left = column(keys, most, style);
                let wide = left.first().map_or(0, |l| width(l));
                left.splice(0..0, [Vec::new(), vec![b'-'; wide]]);
                beside(left, table_block(v, most, style))
            }
            // A path as values: a table on disk, flipped.
            (_, Value::Sym(_)) => vec![style.line(value)],
            // Rows without columns.
            (keys, Value::Vector(Vector { items: Items::List(l), .. }))
                if !l.is_empty() && l.iter().all(Value::is_nothing) =>
            {
                beside(pad(column(keys, most, style)), Vec::new())
            }
            (keys, values) => beside(pad(column(keys, most, style)), column(values, most, style)),
        },
        Value::Table(t) => table_block(t, most, style),
        other => vec![style.line(other)],
    }
}

/// Joins two blocks with a bar between them; pads the left one.
fn beside(left: Lines, right: Lines) -> Lines {
    let wide = left.iter().map(|l| width(l)).max().unwrap_or(0);
    let mut out = Vec::with_capacity(left.len());
    for (i, mut line) in left.into_iter().enumerate() {
        line.resize(line.len() + wide - width(&line), b' ');
        line.extend_from_slice(b"| ");
        line.extend_from_slice(right.get(i).map_or(&[][..], |r| r));
        out.push(line);
    }
    out
}

/// In bytes, as in kdb+: text beyond ASCII is narrower on the screen than its column.
fn width(line: &[u8]) -> usize {
    line.len()
}

fn pad(mut lines: Lines) -> Lines {
    let wide = lines.iter().map(|l| width(l)).max().unwrap_or(0);
    for line in &mut lines {
        line.resize(line.len() + wide - width(line), b' ');
    }
    lines
}

/// Levels of a list at which rows are aligned.
const MAX_ALIGNED: usize = 4;

/// Text within rows that is aligned: a list that holds another many times has far more than a console shows.
const MAX_ALIGNED_BYTES: usize = 1 << 18;

/// Items of a row that are aligned with each other: those past the console's edge, too, make the columns of a row of pairs wide.
const MAX_ALIGNED_ITEMS: usize = 2000;

/// Remaining bytes that may be aligned, and the nesting level of the list.
#[derive(Clone, Copy)]
struct Aligning<'a> {
    left_bytes: &'a Cell<usize>,
    level: usize,
}

/// Items of a list below one another; rows of equal length are aligned in columns.
fn list_lines(items: &[Value], style: Style) -> Lines {
    let left_bytes = Cell::new(MAX_ALIGNED_BYTES);
    lines_of(items, style, usize::MAX, |row, wide| {
        let level = if left_bytes.get() == 0 { MAX_ALIGNED } else { 1 };
        row_cells(row, wide, style, Aligning { left_bytes: &left_bytes, level })
    })
}

/// Items of a list; `cells` returns the first ones of a row that is aligned with the others, none if they are not shown. Columns that begin
/// after `most` bytes are left out.
fn lines_of(items: &[Value], style: Style, most: usize, cells: impl Fn(&Value, usize) -> Lines) -> Lines {
    let wide = match items.first() {
        Some(Value::Vector(v)) => v.len(),
        _ => 0,
    };
    let matrix =
        wide > 0 && items.iter().all(|i| matches!(i, Value::Vector(v) if v.len() == wide)) && !is_compact(items);
    if !matrix {
        return items.iter().map(|i| style.line(i)).collect();
    }
    let wide = wide.min(style.wide + 1);
    let rows: Vec<Lines> = items.iter().map(|row| cells(row, wide)).take_while(|cells| !cells.is_empty()).collect();
    let columns = (0..wide).map(|c| rows.iter().map(|row| row.get(c).cloned().unwrap_or_default()).collect()).collect();
    let mut lines = join_columns_within(columns, rows.len(), most);
    lines.resize(items.len(), Vec::new());
    lines
}

/// Whether these are two or more empty lists of one type, as `2 0N#0#0`: a matrix without columns, which kdb+ shows as blank lines.
fn is_without_columns(rows: &[Value]) -> bool {
    let number = rows.first().map_or(0, Value::type_number);
    let is_empty = |row: &Value| matches!(row, Value::Vector(v) if v.is_empty()) && row.type_number() == number;
    rows.len() > 1 && rows.iter().all(is_empty) && !is_compact(rows)
}

/// Rows of text, booleans or bytes are shown unaligned.
fn is_compact(rows: &[Value]) -> bool {
    let number = rows.first().map_or(0, Value::type_number);
    matches!(number, types::BOOL | types::BYTE | types::CHAR) && rows.iter().all(|r| r.type_number() == number)
}

/// The first `wide` cells of a row of a matrix: atoms of general lists keep their type suffix, and items that form a matrix themselves
/// are aligned within the row. Cells past the console's edge are blank.
fn row_cells(row: &Value, wide: usize, style: Style, within: Aligning) -> Lines {
    let inner = Aligning { level: within.level + 1, ..within };
    match row {
        Value::Vector(Vector { items: Items::List(l), .. }) if within.level < MAX_ALIGNED => {
            let items = l.get(..wide.max(MAX_ALIGNED_ITEMS)).unwrap_or(l);
            // A row of nothing but `()` is a matrix without columns.
            if items.iter().all(Value::is_nothing) {
                return vec![Vec::new(); items.len()];
            }
            let cells = |row: &Value, wide| match within.left_bytes.get() {
                0 => Lines::new(),
                _ => row_cells(row, wide, style, inner),
            };
            visible(lines_of(items, style, style.wide, cells).into_iter(), style, within)
        }
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            visible(l.iter().take(wide).map(|item| style.line(item)), style, within)
        }
        other => visible((0..wide).map(|c| style.cell(&other.at(c))), style, within),
    }
}

/// The cells of a row up to the console's edge.
fn visible(cells: impl Iterator<Item = Vec<u8>>, style: Style, within: Aligning) -> Lines {
    let mut bytes = 0;
    let is_visible = |cell: &Vec<u8>| {
        let begins = bytes;
        bytes += cell.len() + 1;
        begins <= style.wide
    };
    let shown = cells.take_while(is_visible).collect();
    within.left_bytes.set(within.left_bytes.get().saturating_sub(bytes));
    shown
}

/// Columns side by side, each as wide as its widest cell.
fn join_columns(columns: Vec<Lines>, rows: usize) -> Lines {
    join_columns_within(columns, rows, usize::MAX)
}

/// [`join_columns`] without those that begin after `most` bytes.
fn join_columns_within(columns: Vec<Lines>, rows: usize, most: usize) -> Lines {
    let mut out: Lines = vec![Vec::new(); rows];
    let last = columns.len().saturating_sub(1);
    for (c, column) in columns.into_iter().enumerate() {
        if out.first().is_some_and(|line| line.len() > most) {
            break;
        }
        let wide = widest(&column);
        for (line, cell) in out.iter_mut().zip(column) {
            let have = width(&cell);
            line.extend_from_slice(&cell);
            line.resize(line.len() + wide - have, b' ');
            if c < last {
                line.push(b' ');
            }
        }
    }
    out
}

/// Items of a list as cells of one column.
fn column(values: &Value, most: usize, style: Style) -> Lines {
    let count = values.count().min(most);
    match values {
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            let shown = l.get(..count).unwrap_or_default();
            list_lines(shown, style)
        }
        other => (0..count).map(|i| style.cell(&other.at(i))).collect(),
    }
}

fn widest(cells: &[Vec<u8>]) -> usize {
    cells.iter().map(|cell| width(cell)).max().unwrap_or(0)
}

/// Cells of each column, the first of which is its name.
fn table_columns(t: &Table, most: usize, style: Style) -> Vec<Lines> {
    let rows = t.count().min(most);
    let mut columns = Vec::with_capacity(t.columns.len());
    for (name, vector) in t.names.iter().zip(&t.columns).take(style.wide + 1) {
        let mut cells: Lines = vec![text(*name).to_vec()];
        match &vector.items {
            Items::List(l) => {
                let shown = l.get(..rows).unwrap_or_default();
                // Cells of equal length are aligned, except lists of one text or of one general list, and the only cell is not left blank.
                match shown {
                    [only] if matches!(only.as_symbols(), Some([Sym::NULL])) => cells.push(style.line(only)),
                    _ if shown.iter().all(Value::is_nothing) => cells.resize(shown.len() + 1, Vec::new()),
                    _ if shown.iter().any(holds_one_list) => cells.extend(shown.iter().map(|v| style.line(v))),
                    _ => cells.extend(list_lines(shown, style)),
                }
            }
            simple => cells.extend((0..rows).map(|i| style.cell(&simple.get(i)))),
        }
        columns.push(cells);
    }
    columns
}

/// Whether a cell is a list of nothing but a text or a general list, as `enlist"ab"`.
fn holds_one_list(cell: &Value) -> bool {
    let Value::Vector(Vector { items: Items::List(items), .. }) = cell else { return false };
    matches!(&items[..], [Value::Vector(Vector { items: Items::List(_) | Items::Char(_), .. })])
}

/// Column names, a line of dashes, and rows.
fn table_block(t: &Table, most: usize, style: Style) -> Lines {
    let mut lines = join_columns(table_columns(t, most, style), t.count().min(most) + 1);
    let wide = lines.first().map_or(0, |l| width(l));
    lines.insert(1, vec![b'-'; wide]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use columns::table::symbol::intern;

    #[test]
    fn columns_that_are_cut_are_counted() {
        let name = |i: usize| intern(format!("column{i}").as_bytes()).expect("a symbol");
        let table = |range: std::ops::Range<usize>| {
            let names: Vec<Sym> = range.clone().map(name).collect();
            Table::new(names, range.map(|i| Items::Long(vec![i as i64, 10].into()).into()).collect())
        };
        let console = |columns| Console { columns, ..Console::default() };
        let keyed = Value::dict(Value::table(table(0..1)), Value::table(table(1..10)));
        for value in [Value::table(table(0..10)), keyed] {
            for columns in [20, 40, 70, 79, 80, 81, 82, 83, 200] {
                let shown = String::from_utf8(show(&value, &console(columns))).expect("text");
                let header = shown.lines().next().unwrap_or_default().to_owned();
                let header = header.trim_end_matches("..").to_owned();
                let is_cut = shown.lines().next().is_some_and(|line| line.ends_with(".."));
                let whole = (0..10).filter(|i| header.split([' ', '|']).any(|w| w == format!("column{i}"))).count();
                match columns_shown(&value, &console(columns)) {
                    Some((fits, all, wide)) => {
                        assert_eq!((fits, all, is_cut), (whole, 10, true), "{columns}");
                        assert!(columns_shown(&value, &console(wide)).is_none(), "{columns}");
                        assert!(columns_shown(&value, &console(wide - 1)).is_some(), "{columns}");
                    }
                    None => assert_eq!((whole, is_cut), (10, false), "{columns}"),
                }
            }
        }
        assert_eq!(columns_shown(&Value::Long(7), &console(10)), None);
    }
}
