//! Slow path for every other form of data: general columns, rows with lists, uniform rows, tables; also finds the reason of a rejection.

use super::Stamp;
use super::refusal::Reason;
use super::schema::{ColumnSpec, TableSpec};
use proto::view::VectorView;
use proto::{Endian, Head, Limits, View, types};

/// Appends the columns and returns the number of rows. `out` ends with the record's head.
pub(super) fn columns(
    spec: &TableSpec,
    data: &[u8],
    stamp: Stamp,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<usize, Reason> {
    let (view, used) = View::parse(data, Endian::Little, limits).map_err(Reason::Malformed)?;
    let extra_bytes = data.len().saturating_sub(used) as u64;
    if extra_bytes > 0 {
        let kind = proto::DecodeErrorKind::Trailing { extra_bytes };
        return Err(Reason::Malformed(proto::DecodeError { kind, offset: used as u64 }));
    }
    let given = Given::of(spec, &view)?;
    let time = spec.columns.first().ok_or(Reason::NoData { found: view.type_code() })?;
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
        given.append(at.saturating_sub(skipped), column, rows, limits, out).map_err(wrong)?;
    }
    Ok(rows)
}

/// Why a column was rejected.
enum Wrong {
    Type(i8),
    Length(usize),
    /// Size in bytes that exceeds the limit of a record.
    Bytes(u64),
}

impl Wrong {
    fn reason(self, spec: &TableSpec, at: usize, expected: i8, rows: usize) -> Reason {
        let column = spec.column_name(at);
        match self {
            Wrong::Type(found) => Reason::ColumnType { column, expected, found },
            Wrong::Length(found) => Reason::ColumnLength { column, expected: rows, found },
            Wrong::Bytes(bytes) => Reason::TooLong { bytes },
        }
    }
}

/// Data of an update, by its form.
enum Given<'a> {
    /// One row: one value for each column.
    Row(Vec<View<'a>>),
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
            // As in kdb+tick, the first item alone decides between one row and many.
            if first < 0 {
                return Ok(Given::Row(items));
            }
            let rows = items.first().map_or(0, View::count);
            return Ok(Given::Columns(items, rows));
        }
        if let Some(vector) = view.vector() {
            return Ok(Given::Uniform(vector));
        }
        let Some(table) = view.table() else { return Err(Reason::NoData { found: view.type_code() }) };
        let names: Vec<&[u8]> = table.names.symbols().collect();
        let columns: Vec<View<'a>> = table.columns.iter().collect();
        if let Some(unknown) = names.iter().find(|name| !spec.column_names.iter().any(|own| own == *name)) {
            return Err(Reason::ColumnName { column: unknown.escape_ascii().to_string() });
        }
        let mut ordered = Vec::with_capacity(names.len());
        for (at, name) in spec.column_names.iter().enumerate() {
            match names.iter().position(|given| given == name).and_then(|at| columns.get(at)) {
                Some(column) => ordered.push(*column),
                // The time column may be missing.
                None if at == 0 => {}
                None => return Err(Reason::ColumnName { column: spec.column_name(at) }),
            }
        }
        if ordered.len() != names.len() {
            return Err(Reason::ColumnCount { expected: spec.columns.len(), without_time: true, found: names.len() });
        }
        Ok(Given::Columns(ordered, table.rows()))
    }

    fn count(&self) -> usize {
        match self {
            Given::Row(items) | Given::Columns(items, _) => items.len(),
            Given::Uniform(vector) => vector.count,
        }
    }

    fn first_type(&self) -> i8 {
        match self {
            Given::Row(items) | Given::Columns(items, _) => items.first().map_or(types::LIST, View::type_code),
            Given::Uniform(vector) => vector.ty.saturating_neg(),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Given::Row(_) | Given::Uniform(_) => 1,
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
            Given::Row(items) => append_one(items.get(at).ok_or(Wrong::Length(0))?, column, out),
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
        return Err(Wrong::Type(item.type_code()));
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
        return Err(Wrong::Type(atom));
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
    let found = item.type_code();
    if item.count() != rows {
        return Err(Wrong::Length(item.count()));
    }
    if let Some(vector) = item.vector() {
        if vector.ty == column.ty {
            head(column.ty, rows, out);
            out.extend_from_slice(vector.items);
        } else if column.ty == types::LIST {
            append_as_list(&vector, out);
        } else {
            return Err(Wrong::Type(found));
        }
        return Ok(());
    }
    let Some(list) = item.list() else { return Err(Wrong::Type(found)) };
    head(column.ty, rows, out);
    for entry in list.iter() {
        if column.ty == types::LIST {
            out.extend_from_slice(entry.raw());
        } else if entry.type_code() == column.ty.saturating_neg() {
            // A general list of atoms of one type, which some clients send instead of a vector.
            out.extend_from_slice(entry.raw().get(1..).unwrap_or_default());
        } else {
            return Err(Wrong::Type(if entry.type_code() < 0 { entry.type_code() } else { found }));
        }
    }
    Ok(())
}

/// Appends an atom repeated for every row, as in a q table.
fn repeat(atom: &View<'_>, column: &ColumnSpec, rows: usize, limits: &Limits, out: &mut Vec<u8>) -> Result<(), Wrong> {
    let item = match column.ty {
        types::LIST => atom.raw(),
        ty if ty.saturating_neg() == atom.type_code() => atom.raw().get(1..).unwrap_or_default(),
        _ => return Err(Wrong::Type(atom.type_code())),
    };
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
