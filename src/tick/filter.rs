//! Cuts the rows that a subscriber wants out of the bytes of an update.
//!
//! All columns here have the core's form: one vector for each column of the table, little-endian, all of one length.

use super::core::schema::{ColumnSpec, TableSpec};
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use proto::{Endian, HEAD_BYTES, Head, Limits, types, walk};
use std::collections::BTreeSet;

/// Symbols of one table in a subscription.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symbols {
    All,
    Some(BTreeSet<Vec<u8>>),
}

/// [`Symbols`] as a hash set for lookup.
#[derive(Clone, Debug)]
pub enum Filter {
    All,
    Some(HashSet<Box<[u8]>, FixedState>),
}

impl Filter {
    pub fn new(symbols: &Symbols) -> Filter {
        match symbols {
            Symbols::All => Filter::All,
            Symbols::Some(symbols) => Filter::Some(symbols.iter().map(|symbol| symbol.as_slice().into()).collect()),
        }
    }

    /// Appends the columns with the wanted rows only and returns their number. Appends nothing if there are none.
    pub fn select(&self, spec: &TableSpec, columns: &[u8], rows: usize, out: &mut Vec<u8>) -> usize {
        let Filter::Some(requested) = self else {
            out.extend_from_slice(columns);
            return rows;
        };
        let Some(symbols) = sym_items(spec, columns) else { return 0 };
        let chosen: Vec<usize> = (0..rows)
            .zip(symbols.split(|byte| *byte == 0))
            .filter_map(|(row, symbol)| requested.contains(symbol).then_some(row))
            .collect();
        if chosen.len() == rows {
            out.extend_from_slice(columns);
        } else if !chosen.is_empty() {
            let start = out.len();
            if pick(spec, columns, &chosen, out).is_none() {
                out.truncate(start);
                return 0;
            }
        }
        chosen.len()
    }
}

/// The objects of an update were validated when it was accepted.
const WALKED: Limits = Limits { max_message_bytes: u64::MAX, max_decompressed_bytes: u64::MAX, max_depth: usize::MAX };

/// Size in bytes of the column at the start of `columns`.
fn column_bytes(column: &ColumnSpec, columns: &[u8]) -> Option<usize> {
    match column.width {
        Some(width) => Head::split(columns)?.0.count().checked_mul(width)?.checked_add(HEAD_BYTES),
        None => walk::object(columns, Endian::Little, &WALKED).ok(),
    }
}

/// Returns the items of each column, without the column's head.
pub fn columns<'a>(spec: &TableSpec, columns: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = columns;
    spec.columns.iter().map_while(move |column| {
        let (own, after) = rest.split_at_checked(column_bytes(column, rest)?)?;
        rest = after;
        own.get(HEAD_BYTES..)
    })
}

/// Returns the items of the column `sym`.
fn sym_items<'a>(spec: &TableSpec, bytes: &'a [u8]) -> Option<&'a [u8]> {
    columns(spec, bytes).nth(spec.sym_column?)
}

/// Appends the chosen rows (ascending) of every column.
fn pick(spec: &TableSpec, bytes: &[u8], chosen: &[usize], out: &mut Vec<u8>) -> Option<()> {
    for (column, items) in spec.columns.iter().zip(columns(spec, bytes)) {
        Head::new(column.ty, chosen.len()).ok()?.write(out);
        match column.width {
            Some(width) => {
                for row in chosen {
                    let start = row.checked_mul(width)?;
                    out.extend_from_slice(items.get(start..start.checked_add(width)?)?);
                }
            }
            None if column.ty == types::SYMBOL => {
                let mut texts = items.split_inclusive(|byte| *byte == 0);
                each_chosen(chosen, || texts.next(), |text| out.extend_from_slice(text))?;
            }
            None => {
                let mut rest = items;
                let next = || {
                    let (object, after) = rest.split_at_checked(walk::object(rest, Endian::Little, &WALKED).ok()?)?;
                    rest = after;
                    Some(object)
                };
                each_chosen(chosen, next, |object| out.extend_from_slice(object))?;
            }
        }
    }
    Some(())
}

/// Iterates over items of variable width and passes the chosen ones to `take`.
fn each_chosen<'a>(
    chosen: &[usize],
    mut next: impl FnMut() -> Option<&'a [u8]>,
    mut take: impl FnMut(&'a [u8]),
) -> Option<()> {
    let mut at = 0usize;
    for row in chosen {
        while at < *row {
            next()?;
            at = at.saturating_add(1);
        }
        take(next()?);
        at = at.saturating_add(1);
    }
    Some(())
}
