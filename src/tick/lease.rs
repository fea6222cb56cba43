//! Health and metrics of the lease.

use crate::election::Tenure;
use crate::metrics::{Health, Id, Snapshot};

/// Adds the lease to the metrics of an active or a passive tickerplant; without a store of leases there is nothing to add.
pub(super) fn put(tenure: Option<&Tenure>, snapshot: &mut Snapshot) {
    let Some(view) = tenure.map(Tenure::view) else { return };
    snapshot.set(Id::LeaseOwned, view.lead.is_some());
    snapshot.set(Id::LeaseRenewed, view.renewed.map(|age| age.as_secs_f64()));
    snapshot.set(Id::LeaseDanger, view.danger.is_some() || view.is_held);
    snapshot.set(Id::LeaseHeld, view.is_held);
    snapshot.set(Id::LeaseFailures, view.failures);
}

/// Adds what endangers the lease of an active tickerplant to its health.
pub(super) fn add_health(tenure: Option<&Tenure>, health: &mut Health) {
    let view = tenure.map(Tenure::view).filter(|view| view.danger.is_some() || view.is_held);
    health.degrade_if("lease", view.and_then(|view| view.words()));
}
