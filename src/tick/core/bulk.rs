//! Slow path for every other form of data: general columns, rows with lists, uniform rows, tables; also finds the reason of a rejection.

use super::Stamp;
use super::coerce::{self, Mismatch};
use super::refusal::{Found, Reason, listed};
use super::schema::{ColumnSpec, TableSpec};
use proto::view::VectorView;
use proto::{Endian, Head, Limits, View, types};

/// Which values a column accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Types {
    /// Those of its own type.
    Own,
    /// Also those that its type holds unchanged (`coerce`).
    Converted,
}

/// Appends the columns and returns the number of rows. `out` ends with the record's head.
pub(super) fn columns(
    spec: &TableSpec,
    data: &[u8],
    stamp: Stamp,
    (limits, types): (&Limits, Types),
    out: &mut Vec<u8>,
) -> Result<usize, Reason> {
    let (view, used) = View::parse(data, Endian::Little, limits).map_err(Reason::Malformed)?;
    let extra_bytes = data.len().saturating_sub(used) as u64;
    if extra_bytes > 0 {
        let kind = proto::DecodeErrorKind::Trailing { extra_bytes };
        return Err(Reason::Malformed(proto::DecodeError { kind, offset: used as u64 }));
    }
    let given = Given::of(spec, &view)?;
    let appended = append_all(spec, &view, &given, stamp, (limits, types), out);
    match given {
        Given::Row { is_text: true, .. } if types == Types::Converted => {
            appended.map_err(|reason| Reason::TextRow(Box::new(reason)))
        }
        _ => appended,
    }
}

fn append_all(
    spec: &TableSpec,
    view: &View<'_>,
    given: &Given<'_>,
    stamp: Stamp,
    (limits, types): (&Limits, Types),
    out: &mut Vec<u8>,
) -> Result<usize, Reason> {
    let time = spec.columns.first().ok_or_else(|| Reason::NoData { found: Found::of(view) })?;
    let expected = spec.columns.len();
    let brings_time = given.count() == expected;
    let without_time = stamp.item(time.ty).is_some();
    let fits = brings_time || (without_time && given.count().checked_add(1) == Some(expected));
    if !fits {
        return Err(Reason::ColumnCount { expected, without_time, found: given.count() });
    }
    // kdb+tick adds no time to data whose first column has the time's type; such data lacks another column.
    if !brings_time && given.first_type().unsigned_abs() == time.ty.unsigned_abs() {
        return Err(Reason::ColumnCount { expected, without_time: false, found: given.count() });
    }
    let rows = given.rows();
    if !brings_time && let Some((item, width)) = stamp.item(time.ty) {
        head(time.ty, rows, out);
        for _ in 0..rows {
            out.extend_from_slice(item.get(..width).unwrap_or_default());
        }
    }
    let skipped = usize::from(!brings_time);
    for (at, column) in spec.columns.iter().enumerate().skip(skipped) {
        let wrong = |found: Wrong| found.reason(spec, at, column.ty, rows);
        let (start, place) = (out.len(), at.saturating_sub(skipped));
        let appended = given.append(place, column, rows, limits, out);
        match appended {
            Err(Wrong::Type(_)) if types == Types::Converted => {
                out.truncate(start);
                given.append_converted(place, column, rows, limits, out).map_err(wrong)?;
            }
            appended => appended.map_err(wrong)?,
        }
    }
    Ok(rows)
}

/// Why a column was rejected.
enum Wrong {
    Type(Found),
    /// A value in this row that the column's type does not have, in words.
    Value(usize, String),
    Length(usize),
    /// Size in bytes that exceeds the limit of a record.
    Bytes(u64),
}

impl Wrong {
    fn of(mismatch: Mismatch, found: Found, row: usize, words: impl FnOnce() -> String) -> Wrong {
        match mismatch {
            Mismatch::Type => Wrong::Type(found),
            Mismatch::Value => Wrong::Value(row, words()),
        }
    }

    fn reason(self, spec: &TableSpec, at: usize, expected: i8, rows: usize) -> Reason {
        let column = spec.column_name(at);
        match self {
            Wrong::Type(found) => Reason::ColumnType { column, expected, found, coercible: false },
            Wrong::Value(row, value) => Reason::ColumnValue { column, expected, row, value },
            Wrong::Length(found) => Reason::ColumnLength { column, expected: rows, found },
            Wrong::Bytes(bytes) => Reason::TooLong { bytes },
        }
    }
}

/// Data of an update, by its form.
enum Given<'a> {
    /// One row: one value for each column; `is_text`: only its first value, a string, shows that it is one.
    Row { items: Vec<View<'a>>, is_text: bool },
    /// One row whose items all have one type, which q turns into a vector.
    Uniform(VectorView<'a>),
    /// Columns of equal length.
    Columns(Vec<View<'a>>, usize),
}

impl<'a> Given<'a> {
    fn of(spec: &TableSpec, view: &View<'a>) -> Result<Given<'a>, Reason> {
        if let Some(list) = view.list() {
            let items: Vec<View<'a>> = list.iter().collect();
            let first = items.first().map_or(types::LIST, View::type_code);
            // As in kdb+tick, the first item alone decides between one row and many. A string is no column, except of chars or of anything, so
            // it begins a row, in place of a symbol.
            let its_column = spec.columns.get(usize::from(items.len() != spec.columns.len()));
            let is_text = first == types::CHAR
                && its_column.is_some_and(|column| !matches!(column.ty, types::CHAR | types::LIST));
            if first < 0 || is_text {
                return Ok(Given::Row { items, is_text });
            }
            let rows = items.first().map_or(0, View::count);
            return Ok(Given::Columns(items, rows));
        }
        if let Some(vector) = view.vector() {
            return Ok(Given::Uniform(vector));
        }
        let Some(table) = view.table() else { return Err(Reason::NoData { found: Found::of(view) }) };
        let names: Vec<&[u8]> = table.names.symbols().collect();
        let columns: Vec<View<'a>> = table.columns.iter().collect();
        let unknown = names.iter().copied().filter(|name| !spec.column_names.iter().any(|own| own == name));
        let unknown = listed(unknown);
        let (mut ordered, mut missing) = (Vec::with_capacity(names.len()), Vec::new());
        for (at, name) in spec.column_names.iter().enumerate() {
            match names.iter().position(|given| given == name).and_then(|at| columns.get(at)) {
                Some(column) => ordered.push(*column),
                // The time column may be missing.
                None if at == 0 => {}
                None => missing.push(name.as_slice()),
            }
        }
        let missing = listed(missing);
        if !missing.is_empty() || !unknown.is_empty() {
            return Err(Reason::ColumnNames { missing, unknown });
        }
        if ordered.len() != names.len() {
            return Err(Reason::ColumnCount { expected: spec.columns.len(), without_time: true, found: names.len() });
        }
        Ok(Given::Columns(ordered, table.rows()))
    }

    fn count(&self) -> usize {
        match self {
            Given::Row { items, .. } | Given::Columns(items, _) => items.len(),
            Given::Uniform(vector) => vector.count,
        }
    }

    fn first_type(&self) -> i8 {
        match self {
            Given::Row { items, .. } | Given::Columns(items, _) => items.first().map_or(types::LIST, View::type_code),
            Given::Uniform(vector) => vector.ty.saturating_neg(),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Given::Row { .. } | Given::Uniform(_) => 1,
            Given::Columns(_, rows) => *rows,
        }
    }

    fn append(
        &self,
        at: usize,
        column: &ColumnSpec,
        rows: usize,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        match self {
            Given::Row { items, .. } => append_one(items.get(at).ok_or(Wrong::Length(0))?, column, out),
            Given::Uniform(vector) => append_uniform(vector, at, column, out),
            Given::Columns(items, _) => {
                let item = items.get(at).ok_or(Wrong::Length(0))?;
                if item.type_code() < 0 {
                    repeat(item, column, rows, limits, out)
                } else {
                    append_column(item, column, rows, out)
                }
            }
        }
    }
}

impl Given<'_> {
    /// As [`Given::append`], for a column of another type.
    fn append_converted(
        &self,
        at: usize,
        column: &ColumnSpec,
        rows: usize,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let (start, to) = (out.len(), column.ty);
        head(to, rows, out);
        match self {
            Given::Row { items, .. } => {
                let item = items.get(at).ok_or(Wrong::Length(0))?;
                let words = || coerce::object_in_words(item);
                coerce::object(item, to, out).map_err(|mismatch| Wrong::of(mismatch, Found::of(item), 0, words))
            }
            Given::Uniform(vector) => {
                let item = items(vector).nth(at).ok_or(Wrong::Length(vector.count))?;
                let (found, words) =
                    (Found::Object(vector.ty.saturating_neg()), || coerce::item_in_words(vector.ty, item));
                coerce::item(vector.ty, item, to, out).map_err(|mismatch| Wrong::of(mismatch, found, 0, words))
            }
            Given::Columns(columns, _) => {
                let given = columns.get(at).ok_or(Wrong::Length(0))?;
                if given.type_code() < 0 {
                    out.truncate(start);
                    let mut one = Vec::new();
                    head(to, 1, &mut one);
                    let words = || coerce::object_in_words(given);
                    coerce::object(given, to, &mut one)
                        .map_err(|mismatch| Wrong::of(mismatch, Found::of(given), 0, words))?;
                    return repeat_item(one.get(proto::HEAD_BYTES..).unwrap_or_default(), column, rows, limits, out);
                }
                let bytes = (rows as u64).saturating_mul(column.width.unwrap_or(1) as u64);
                if bytes > limits.max_message_bytes {
                    return Err(Wrong::Bytes(bytes));
                }
                column_converted(given, to, out)
            }
        }
    }
}

/// Appends the items of a column of another type.
fn column_converted(given: &View<'_>, to: i8, out: &mut Vec<u8>) -> Result<(), Wrong> {
    if let Some(vector) = given.vector() {
        // A character vector as long as the rows is more likely one string than a symbol for each of its characters.
        if vector.ty == types::CHAR {
            return Err(Wrong::Type(Found::Object(types::CHAR)));
        }
        for (row, item) in items(&vector).enumerate() {
            let words = || coerce::item_in_words(vector.ty, item);
            coerce::item(vector.ty, item, to, out)
                .map_err(|mismatch| Wrong::of(mismatch, Found::Object(vector.ty), row, words))?;
        }
        return Ok(());
    }
    let list = given.list().ok_or_else(|| Wrong::Type(Found::of(given)))?;
    for (row, item) in list.iter().enumerate() {
        match item.type_code() == to.saturating_neg() {
            true => out.extend_from_slice(item.raw().get(1..).unwrap_or_default()),
            false => {
                let words = || coerce::object_in_words(&item);
                coerce::object(&item, to, out)
                    .map_err(|mismatch| Wrong::of(mismatch, Found::in_list(&item), row, words))?;
            }
        }
    }
    Ok(())
}

/// Returns the bytes of each item of a vector, of a symbol without its NUL.
fn items<'a>(vector: &VectorView<'a>) -> impl Iterator<Item = &'a [u8]> {
    let width = types::width(vector.ty);
    let fixed = vector.items.chunks_exact(width.unwrap_or(1)).take(if width.is_some() { vector.count } else { 0 });
    let symbols = if width.is_none() { vector.count } else { 0 };
    fixed.chain(vector.symbols().take(symbols))
}

/// Writes the head of a column. The count was read from a message, so it fits.
fn head(ty: i8, count: usize, out: &mut Vec<u8>) {
    Head::saturating(ty, count).write(out);
}

/// Appends one item of a row as a column.
fn append_one(item: &View<'_>, column: &ColumnSpec, out: &mut Vec<u8>) -> Result<(), Wrong> {
    if column.ty == types::LIST {
        head(types::LIST, 1, out);
        out.extend_from_slice(item.raw());
        return Ok(());
    }
    if item.type_code() != column.ty.saturating_neg() {
        return Err(Wrong::Type(Found::of(item)));
    }
    head(column.ty, 1, out);
    out.extend_from_slice(item.raw().get(1..).unwrap_or_default());
    Ok(())
}

/// Appends item `at` of a uniform row as a column.
fn append_uniform(vector: &VectorView<'_>, at: usize, column: &ColumnSpec, out: &mut Vec<u8>) -> Result<(), Wrong> {
    let atom = vector.ty.saturating_neg();
    if column.ty == types::LIST {
        head(types::LIST, 1, out);
        out.push(atom.cast_unsigned());
    } else if column.ty == vector.ty {
        head(column.ty, 1, out);
    } else {
        return Err(Wrong::Type(Found::Object(atom)));
    }
    append_item(vector, at, out).ok_or(Wrong::Length(vector.count))
}

/// Appends the bytes of one item, which are the same in an atom and in a vector.
fn append_item(vector: &VectorView<'_>, at: usize, out: &mut Vec<u8>) -> Option<()> {
    match types::width(vector.ty) {
        Some(width) => {
            let start = at.checked_mul(width)?;
            out.extend_from_slice(vector.items.get(start..start.checked_add(width)?)?);
        }
        None => {
            out.extend_from_slice(vector.symbols().nth(at)?);
            out.push(0);
        }
    }
    Some(())
}

/// Appends a simple vector as a general list of its atoms.
fn append_as_list(vector: &VectorView<'_>, out: &mut Vec<u8>) {
    head(types::LIST, vector.count, out);
    let atom = vector.ty.saturating_neg().cast_unsigned();
    if let Some(width) = types::width(vector.ty) {
        for item in vector.items.chunks_exact(width) {
            out.push(atom);
            out.extend_from_slice(item);
        }
    } else {
        for text in vector.symbols() {
            out.push(atom);
            out.extend_from_slice(text);
            out.push(0);
        }
    }
}

/// Appends a column of several rows.
fn append_column(item: &View<'_>, column: &ColumnSpec, rows: usize, out: &mut Vec<u8>) -> Result<(), Wrong> {
    if item.count() != rows {
        return Err(if item.is_null() { Wrong::Type(Found::Null) } else { Wrong::Length(item.count()) });
    }
    if let Some(vector) = item.vector() {
        if vector.ty == column.ty {
            head(column.ty, rows, out);
            out.extend_from_slice(vector.items);
        } else if column.ty == types::LIST {
            append_as_list(&vector, out);
        } else {
            return Err(Wrong::Type(Found::of(item)));
        }
        return Ok(());
    }
    let Some(list) = item.list() else { return Err(Wrong::Type(Found::of(item))) };
    head(column.ty, rows, out);
    for entry in list.iter() {
        if column.ty == types::LIST {
            out.extend_from_slice(entry.raw());
        } else if entry.type_code() == column.ty.saturating_neg() {
            // A general list of atoms of one type, which some clients send instead of a vector.
            out.extend_from_slice(entry.raw().get(1..).unwrap_or_default());
        } else {
            return Err(Wrong::Type(Found::in_list(&entry)));
        }
    }
    Ok(())
}

/// Appends an atom repeated for every row, as in a q table.
fn repeat(atom: &View<'_>, column: &ColumnSpec, rows: usize, limits: &Limits, out: &mut Vec<u8>) -> Result<(), Wrong> {
    let item = match column.ty {
        types::LIST => atom.raw(),
        ty if ty.saturating_neg() == atom.type_code() => atom.raw().get(1..).unwrap_or_default(),
        _ => return Err(Wrong::Type(Found::of(atom))),
    };
    repeat_item(item, column, rows, limits, out)
}

/// Appends the bytes of an item for every row.
fn repeat_item(item: &[u8], column: &ColumnSpec, rows: usize, limits: &Limits, out: &mut Vec<u8>) -> Result<(), Wrong> {
    // A long symbol and many rows expand to far more bytes than the message had.
    let bytes = (item.len() as u64).saturating_mul(rows as u64);
    if bytes > limits.max_message_bytes {
        return Err(Wrong::Bytes(bytes));
    }
    head(column.ty, rows, out);
    for _ in 0..rows {
        out.extend_from_slice(item);
    }
    Ok(())
}
