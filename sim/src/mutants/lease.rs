//! Mutants of the lease that several tickerplants share: those of the lease's model that a simulated day can reach.

use super::{Defect, planted};
use crate::lease::Defect as OfModel;

impl Defect {
    /// The model's defect that it stands for; `None` for defects of other parts.
    pub fn of_lease(self) -> Option<OfModel> {
        match self {
            Defect::LeaseWithoutCondition => Some(OfModel::NoCondition),
            Defect::LeaseRenewedByStaleRead => Some(OfModel::RenewsByStaleRead),
            Defect::LeaseDeletedAtRelease => Some(OfModel::DeletesAtRelease),
            Defect::LeaseByAnotherClock => Some(OfModel::TrustsWallClock),
            Defect::LeaseWithoutMargin => Some(OfModel::NoMargin),
            _ => None,
        }
    }
}

/// Returns the active mutant of the lease.
pub fn planted_lease() -> Option<OfModel> {
    planted().and_then(Defect::of_lease)
}
