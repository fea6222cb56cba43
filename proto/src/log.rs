//! The records of a tickerplant log.
//!
//! A log is the eight bytes that `` .[`:log;();:;()] `` writes (`ff 01`, then an empty general list), followed by one
//! serialised object per update, little-endian, without message header, length or separator. The count in the file's
//! first bytes stays 0. The object of an update is the list `` (`upd;`table;data) ``:
//!
//! | bytes | meaning |
//! |---|---|
//! | `00 00 03000000` | general list of three |
//! | `f5 "upd" 00` | function |
//! | `f5 "trade" 00` | table |
//! | `00 00 08000000 …` | eight columns (or a table, or a row of atoms) |

use crate::error::DecodeError;
use crate::head::Head;
use crate::header::Endian;
use crate::limits::Limits;
use crate::types;
use crate::view::View;

/// Content of a new log.
pub const FILE_HEAD: [u8; 8] = [0xff, 0x01, 0, 0, 0, 0, 0, 0];

/// Returns whether a file that starts with these bytes is a log, that is, a saved general list. Ignores the count.
pub fn is_log_head(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0x01, 0, _, _, _, _, _, ..])
}

/// Function name of a record that changes a table: `` (`.u.schema;`table;empty table) ``. Such a record counts as an update, but in no proof.
pub const SCHEMA: &[u8] = b".u.schema";

/// An update, as tickerplants write it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Function to call on replay, usually `upd`.
    pub function: &'a [u8],
    /// Table name.
    pub table: &'a [u8],
    /// The data: a list of columns; from some writers a table, or a list of atoms for one row.
    pub columns: View<'a>,
    /// The whole record.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// Returns whether the record changes its table's schema; it then holds no rows.
    pub fn is_schema(&self) -> bool {
        self.function == SCHEMA
    }
}

/// Returns the object at the start of `bytes` and its length; `None` if `bytes` is empty. `bytes` follows the log's
/// first eight bytes or another record.
///
/// # Errors
/// `Incomplete` for a tail torn by a crash; another error for bytes that are not a record.
pub fn next_record<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<(usize, View<'a>)>, DecodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (view, used) = View::parse(bytes, Endian::Little, limits)?;
    Ok(Some((used, view)))
}

/// Returns the parts of a record if it is an update. Any other message is a valid record too: replay evaluates it.
pub fn record(view: View<'_>) -> Option<Record<'_>> {
    let list = view.list().filter(|list| list.count == 3)?;
    let mut parts = list.iter();
    let (function, table) = (parts.next()?, parts.next()?);
    // The rest of the body is the third object: no need to walk it.
    let columns_at = function.raw().len().checked_add(table.raw().len())?;
    let columns = View::walked(list.body.get(columns_at..)?, list.endian);
    let (function, table) = (function.symbol()?, table.symbol()?);
    Some(Record { function, table, columns, bytes: view.raw() })
}

/// Appends everything before the columns of `` (`upd;`table;columns) ``; the caller appends `column_count` objects.
/// Cuts a table name at its first NUL, and a count to `i32::MAX`.
pub fn write_record_head(table: &[u8], column_count: usize, out: &mut Vec<u8>) {
    let symbol = types::SYMBOL_ATOM.cast_unsigned();
    Head::saturating(types::LIST, 3).write(out);
    out.push(symbol);
    out.extend_from_slice(b"upd\0");
    out.push(symbol);
    out.extend(table.iter().take_while(|byte| **byte != 0));
    out.push(0);
    Head::saturating(types::LIST, column_count).write(out);
}
