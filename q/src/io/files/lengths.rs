//! Columns of a splayed table that differ in length: during an append, or after one that was interrupted.

use super::column_names;
use super::unfinished::noted_rows;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use columns::table::{Sym, Table, Vector};
use std::path::Path;

/// Times that the rows are counted again while an append ends.
const MAX_COUNTS: usize = 64;

/// Cuts the columns of a splayed table, whole or in part, to the rows that all of them have, during an append or after one that was interrupted.
///
/// # Errors
/// `length` if the columns differ in length for another reason.
pub(super) fn even(context: &mut Context, folder: &Path, table: &mut Table) -> Result<(), QError> {
    let rows = table.count();
    let rows = if table.columns.iter().all(|c| c.len() == rows) {
        match noted_rows(folder).and_then(|noted| usize::try_from(noted).ok()) {
            Some(noted) if noted < rows => noted,
            _ => return Ok(()),
        }
    } else {
        let read: Vec<(Sym, usize)> = table.names.iter().copied().zip(table.columns.iter().map(Vector::len)).collect();
        let names = column_names(context, folder)?;
        let mut counted = super::grow::complete_rows(context, folder, &names, &read);
        for _ in 1..MAX_COUNTS {
            if !counted.as_ref().is_err_and(|error| *error.name == *b"length") {
                break;
            }
            counted = super::grow::complete_rows(context, folder, &names, &read);
        }
        counted?
    };
    for column in &mut table.columns {
        *column = Vector { attr: column.attr, ..column.cut(0, rows.min(column.len())) };
    }
    Ok(())
}
