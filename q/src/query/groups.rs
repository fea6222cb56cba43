//! The selected rows in groups. Where a code says a row's group, aggregates are taken by code, block by block, and which
//! codes there are is seen on the way; the group of each row is written down only where somebody asks for it.

use super::Selected;
use super::keys::{Codes, FEW_CODES, places, renumber};
use crate::aggregate::{self, Grouping, Ids, Request};
use crate::error::QError;
use crate::limits::Allowance;
use crate::rowwise::RowWise;
use columns::kernel::keys::members;
use columns::table::{Items, Vector};
use std::sync::Arc;

/// There may be a code for so many rows before it is better to number the groups first.
const CODE_ROWS: u64 = 32;

/// Which groups there are.
struct Settled {
    /// Their codes; none where groups were not found by code.
    there: Vec<u32>,
    count: usize,
    /// One item per group.
    keys: Vec<Vector>,
}

pub(super) struct Grouped {
    codes: Option<Codes>,
    settled: Option<Settled>,
    /// The group of each selected row.
    ids: Option<Vec<u32>>,
    /// For each group the rows of the table.
    members: Option<Vec<Arc<Vec<u32>>>>,
}

impl Grouped {
    /// Groups that are known: the group of each row, how many there are, and their keys.
    pub(super) fn made(ids: Vec<u32>, count: usize, keys: Vec<Vector>) -> Grouped {
        let settled = Settled { there: Vec::new(), count, keys };
        Grouped { codes: None, settled: Some(settled), ids: Some(ids), members: None }
    }

    pub(super) fn of_codes(codes: Codes) -> Grouped {
        Grouped { codes: Some(codes), settled: None, ids: None, members: None }
    }

    /// The same, its groups known.
    ///
    /// # Errors
    /// As those of [`Grouped::ids`].
    pub(super) fn settled(mut self, allowance: &Allowance) -> Result<Grouped, QError> {
        self.settle(allowance)?;
        Ok(self)
    }

    fn settle(&mut self, allowance: &Allowance) -> Result<&Settled, QError> {
        if self.settled.is_none() {
            self.ids(allowance)?;
        }
        self.settled.as_ref().ok_or(QError::named("type"))
    }

    /// How many groups there are.
    ///
    /// # Errors
    /// As those of [`Grouped::ids`].
    pub(super) fn count(&mut self, allowance: &Allowance) -> Result<usize, QError> {
        Ok(self.settle(allowance)?.count)
    }

    /// The keys, one item per group.
    ///
    /// # Errors
    /// As those of [`Grouped::ids`].
    pub(super) fn keys(&mut self, allowance: &Allowance) -> Result<Vec<Vector>, QError> {
        Ok(self.settle(allowance)?.keys.clone())
    }

    /// The group of each selected row.
    ///
    /// # Errors
    /// Those of the expressions that rows are grouped by, and those of the allowance.
    pub(super) fn ids(&mut self, allowance: &Allowance) -> Result<&[u32], QError> {
        if self.ids.is_none()
            && let Some(codes) = &self.codes
        {
            match codes.ids(allowance)? {
                Some(mut ids) => {
                    let there = codes.there();
                    if there.len() < codes.total || there.windows(2).any(|pair| pair.is_sorted_by(|a, b| a > b)) {
                        renumber(allowance, &mut ids, &places(&there, codes.total))?;
                    }
                    self.ids = Some(ids);
                    self.settle_as(there);
                }
                None => self.make_exact(allowance)?,
            }
        }
        self.ids.as_deref().ok_or(QError::named("type"))
    }

    fn settle_as(&mut self, there: Vec<u32>) {
        if self.settled.is_none()
            && let Some(codes) = &self.codes
        {
            let keys = codes.columns(&there);
            self.settled = Some(Settled { count: there.len(), there, keys });
        }
    }

    fn make_exact(&mut self, allowance: &Allowance) -> Result<(), QError> {
        if let Some(codes) = self.codes.take() {
            *self = codes.exactly(allowance)?;
        }
        Ok(())
    }

    /// For each group its rows in the table.
    ///
    /// # Errors
    /// As those of [`Grouped::ids`].
    pub(super) fn members(&mut self, allowance: &Allowance, selected: &Selected) -> Result<&[Arc<Vec<u32>>], QError> {
        if self.members.is_none() {
            let count = self.count(allowance)?;
            let mut members = members(self.ids(allowance)?, count);
            if let Some(rows) = &selected.rows {
                for member in members.iter_mut().flatten() {
                    *member = rows.get(*member as usize).copied().unwrap_or(0);
                }
            }
            self.members = Some(members.into_iter().map(Arc::new).collect());
        }
        Ok(self.members.as_deref().unwrap_or_default())
    }

    /// For each request one item per group; `Ok(None)` where one of them has no kernel for its arguments.
    ///
    /// # Errors
    /// Those of the expressions and of the allowance.
    pub(super) fn aggregate(
        &mut self,
        allowance: &Allowance,
        expressions: &[RowWise],
        requests: &[Request],
        rows: usize,
    ) -> Result<Option<Vec<Items>>, QError> {
        let room = |groups: usize| allowance.reserve(groups.saturating_mul(requests.len()).saturating_mul(32));
        if self.ids.is_none()
            && let Some(codes) = &self.codes
            && codes.total as u64 <= FEW_CODES.max(rows as u64 / CODE_ROWS)
        {
            room(codes.total)?;
            let by = Grouping { ids: Ids::Coded(codes), groups: codes.total };
            let results = aggregate::over(allowance, expressions, requests, rows, by)?;
            if !codes.is_outside() {
                let Some(results) = results else { return Ok(None) };
                if self.settled.is_none() {
                    let there = codes.there();
                    self.settle_as(there);
                }
                let there = self.settled.as_ref().map(|settled| &settled.there[..]).unwrap_or_default();
                return Ok(Some(results.into_iter().map(|items| items.gather(there)).collect()));
            }
            self.make_exact(allowance)?;
        }
        let count = self.count(allowance)?;
        room(count)?;
        let by = Grouping { ids: Ids::Given(self.ids(allowance)?), groups: count };
        aggregate::over(allowance, expressions, requests, rows, by)
    }
}
