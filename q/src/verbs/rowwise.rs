//! Row-wise expressions, whose result in each row depends on that row alone. They are evaluated block by block, on any
//! thread, without whole columns of intermediate results.

use crate::runtime::error::QError;
use crate::runtime::op::Op;
use crate::verbs::arith::vectors;
use columns::table::Items;
use std::ops::Range;
use std::sync::Arc;

/// An expression over the rows of a selection.
#[derive(Clone, Debug)]
pub(crate) enum RowWise {
    /// One item for each row.
    Items(Items),
    /// A column of the table, and the selected rows.
    Column(Items, Arc<Vec<u32>>),
    /// The row number in the table, of all rows or of these.
    Number(Option<Arc<Vec<u32>>>),
    /// The same item for every row, as a vector of one.
    Atom(Items),
    Apply(Op, Box<RowWise>, Box<RowWise>),
}

fn picked(rows: &[u32], range: Range<usize>) -> Result<&[u32], QError> {
    rows.get(range).ok_or(QError::named("length"))
}

impl RowWise {
    /// One item for each row.
    pub(crate) fn of(items: Items) -> RowWise {
        RowWise::Items(items)
    }

    pub(crate) fn is_atom(&self) -> bool {
        matches!(self, RowWise::Atom(_))
    }

    /// Returns the items over a range of the selection's rows; of an atom, one item.
    ///
    /// # Errors
    /// `type` if a function does not support its arguments.
    pub(crate) fn block(&self, range: Range<usize>) -> Result<Items, QError> {
        Ok(match self {
            RowWise::Items(items) => items.cut(range.start, range.end),
            RowWise::Column(items, rows) => items.gather(picked(rows, range)?),
            RowWise::Number(None) => Items::Long(range.map(|row| row as i64).collect()),
            RowWise::Number(Some(rows)) => {
                Items::Long(picked(rows, range)?.iter().map(|row| i64::from(*row)).collect())
            }
            RowWise::Atom(item) => item.clone(),
            RowWise::Apply(op, x, y) => {
                let (a, b) = (x.block(range.clone())?.plain(), y.block(range)?.plain());
                vectors(*op, a, b, x.is_atom(), y.is_atom())?
            }
        })
    }

    /// Returns the items at some of the selection's rows; nulls past the end.
    ///
    /// # Errors
    /// As [`RowWise::block`].
    pub(crate) fn at(&self, positions: &[u32]) -> Result<Items, QError> {
        let row = |rows: &Arc<Vec<u32>>, at: &u32| rows.get(*at as usize).map_or(-1, |row| i64::from(*row));
        Ok(match self {
            RowWise::Items(items) => items.gather(positions),
            RowWise::Column(items, rows) => {
                items.gather(&positions.iter().map(|at| row(rows, at)).collect::<Vec<i64>>())
            }
            RowWise::Number(None) => Items::Long(positions.iter().map(|at| i64::from(*at)).collect()),
            RowWise::Number(Some(rows)) => Items::Long(positions.iter().map(|at| row(rows, at)).collect()),
            RowWise::Atom(item) => item.clone(),
            RowWise::Apply(op, x, y) => {
                let (a, b) = (x.at(positions)?.plain(), y.at(positions)?.plain());
                vectors(*op, a, b, x.is_atom(), y.is_atom())?
            }
        })
    }

    /// Whether both are the same expression of the same columns.
    pub(crate) fn is_same(&self, other: &RowWise) -> bool {
        match (self, other) {
            (RowWise::Items(x), RowWise::Items(y)) => x.is_same_memory(y),
            (RowWise::Column(x, rows), RowWise::Column(y, others)) => Arc::ptr_eq(rows, others) && x.is_same_memory(y),
            (RowWise::Number(_), RowWise::Number(_)) => true,
            (RowWise::Atom(x), RowWise::Atom(y)) => x.is_same_memory(y),
            (RowWise::Apply(f, a, b), RowWise::Apply(g, c, d)) => f == g && a.is_same(c) && b.is_same(d),
            _ => false,
        }
    }
}
