//! Items picked by row number, on several threads if there are many.

use crate::runtime::error::QError;
use crate::runtime::limits::Allowance;
use crate::runtime::sections;
use columns::kernel::partial::section_rows;
use columns::table::{Element, Items, Raw, Sym, Table, Vector};
use proto::types;

/// Below this number of rows one thread finishes before a second one would have started.
const MANY_ROWS: usize = 1 << 17;

fn pick<T: Element + Copy + Send + Sync>(
    allowance: &Allowance,
    items: &[T],
    rows: &[u32],
    blank: T,
    missing: T,
) -> Result<Vec<T>, QError> {
    allowance.reserve(rows.len().saturating_mul(size_of::<T>()))?;
    let mut out = vec![blank; rows.len()];
    sections::fill(allowance, &mut out, section_rows(1), |start, run| {
        for (slot, row) in run.iter_mut().zip(rows.get(start..).unwrap_or_default()) {
            *slot = items.get(*row as usize).copied().unwrap_or(missing);
        }
        Ok(())
    })?;
    Ok(out)
}

/// As [`Items::gather`], within the limits.
///
/// # Errors
/// Those of the allowance.
pub(crate) fn items(allowance: &Allowance, items: &Items, rows: &[u32]) -> Result<Items, QError> {
    let number = items.type_number();
    if rows.len() < MANY_ROWS || matches!(items, Items::List(_) | Items::Enum(..) | Items::Link(..)) {
        return Ok(items.gather(rows));
    }
    Ok(match items.raw() {
        Raw::U8(v) => {
            u8::wrap(number, pick(allowance, v, rows, 0, if number == types::CHAR { b' ' } else { 0 })?.into())
        }
        Raw::I16(v) => i16::wrap(number, pick(allowance, v, rows, 0, i16::missing())?.into()),
        Raw::I32(v) => i32::wrap(number, pick(allowance, v, rows, 0, i32::missing())?.into()),
        Raw::I64(v) => i64::wrap(number, pick(allowance, v, rows, 0, i64::missing())?.into()),
        Raw::F32(v) => f32::wrap(number, pick(allowance, v, rows, 0.0, f32::missing())?.into()),
        Raw::F64(v) => f64::wrap(number, pick(allowance, v, rows, 0.0, f64::missing())?.into()),
        Raw::Sym(v) => Sym::wrap(number, pick(allowance, v, rows, Sym::NULL, Sym::NULL)?.into()),
        Raw::Guid(_) | Raw::List(_) => items.gather(rows),
    })
}

/// As [`Table::rows`], within the limits.
///
/// # Errors
/// Those of the allowance.
pub(crate) fn rows(allowance: &Allowance, table: &Table, rows: &[u32]) -> Result<Table, QError> {
    let column = |c: &Vector| items(allowance, &c.items, rows).map(Vector::from);
    let columns = table.columns.iter().map(column).collect::<Result<_, _>>()?;
    Ok(Table { sorted: false, names: table.names.clone(), columns })
}
