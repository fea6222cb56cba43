//! Records that were logged before columns were added at the end of their table.

use super::schema::TableSpec;
use crate::log::columns_of;
use crate::table::nulls::append_nulls;
use proto::log::Record;

/// Columns of a record that has fewer than its table has now: their number, their bytes, and the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Older<'a> {
    pub columns: usize,
    pub bytes: &'a [u8],
    pub rows: usize,
}

/// Returns `None` for a record with all columns, or one whose columns do not match the first columns of the table.
pub fn older<'a>(spec: &TableSpec, record: &Record<'a>) -> Option<Older<'a>> {
    let list = record.columns.list().filter(|list| list.count > 0 && list.count < spec.columns.len())?;
    let mut rows = None;
    let fits = list.iter().zip(&spec.columns).all(|(column, spec)| {
        let length = column.count();
        column.type_code() == spec.ty && *rows.get_or_insert(length) == length
    });
    let (bytes, _) = columns_of(&record.columns);
    fits.then(|| Older { columns: list.count, bytes, rows: rows.unwrap_or(0) })
}

impl Older<'_> {
    /// Returns all columns of the table, with nulls in the added ones.
    pub fn filled(&self, spec: &TableSpec) -> Vec<u8> {
        let mut filled = self.bytes.to_vec();
        for column in spec.columns.iter().skip(self.columns) {
            append_nulls(column.ty, self.rows, &mut filled);
        }
        filled
    }
}
