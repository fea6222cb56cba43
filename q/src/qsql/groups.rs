//! The selected rows in groups. If rows have codes, aggregates are computed by code, block by block, which also finds the codes
//! present; the group of each row is stored only on demand.

use super::Selected;
use super::keys::{Codes, FEW_CODES, places, renumber};
use crate::runtime::error::QError;
use crate::runtime::limits::Allowance;
use crate::verbs::aggregate;
use crate::verbs::aggregate::{Aggregation, Grouping, Ids};
use crate::verbs::rowwise::RowWise;
use columns::kernel::keys::members;
use columns::table::{Items, Vector};
use std::sync::Arc;

/// With more than [`FEW_CODES`] possible codes and fewer rows per code than this, groups are numbered before they are aggregated.
const CODE_ROWS: u64 = 32;

/// The groups found.
struct Settled {
    /// Their codes; empty if groups were not found by code.
    there: Vec<u32>,
    count: usize,
    /// Key columns, one item per group.
    keys: Vec<Vector>,
}

pub(super) struct Grouped {
    codes: Option<Codes>,
    settled: Option<Settled>,
    /// Group of each selected row.
    ids: Option<Vec<u32>>,
    /// Table rows of each group.
    members: Option<Vec<Arc<Vec<u32>>>>,
}

impl Grouped {
    /// Creates known groups: the group of each row, their number and their keys.
    pub(super) fn made(ids: Vec<u32>, count: usize, keys: Vec<Vector>) -> Grouped {
        let settled = Settled { there: Vec::new(), count, keys };
        Grouped { codes: None, settled: Some(settled), ids: Some(ids), members: None }
    }

    pub(super) fn of_codes(codes: Codes) -> Grouped {
        Grouped { codes: Some(codes), settled: None, ids: None, members: None }
    }

    /// Finds the groups now.
    ///
    /// # Errors
    /// Those of [`Grouped::ids`].
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

    /// Number of groups.
    ///
    /// # Errors
    /// Those of [`Grouped::ids`].
    pub(super) fn count(&mut self, allowance: &Allowance) -> Result<usize, QError> {
        Ok(self.settle(allowance)?.count)
    }

    /// Key columns, one item per group.
    ///
    /// # Errors
    /// Those of [`Grouped::ids`].
    pub(super) fn keys(&mut self, allowance: &Allowance) -> Result<Vec<Vector>, QError> {
        Ok(self.settle(allowance)?.keys.clone())
    }

    /// Group of each selected row.
    ///
    /// # Errors
    /// Errors of the `by` expressions; `stop` and `wsfull` at the limits.
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

    /// Table rows of each group.
    ///
    /// # Errors
    /// Those of [`Grouped::ids`].
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

    /// Returns one item per group for each request; `None` if an aggregate has no kernel for its arguments.
    ///
    /// # Errors
    /// Errors of the expressions; `stop` and `wsfull` at the limits.
    pub(super) fn aggregate(
        &mut self,
        allowance: &Allowance,
        expressions: &[RowWise],
        requests: &[Aggregation],
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
