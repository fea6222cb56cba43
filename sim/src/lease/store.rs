//! The store of a model, and stores with a bug.

use super::UNIT_NS;
use elastick::lease::{Copies, Epoch, LeaseRecord, LeaseWrite, Written};

/// Seeded bugs that show whether the model finds any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The store applies a write whatever its condition says.
    NoCondition,
    /// A renewal is applied though the record has another version: its sender has read an old one.
    RenewsByStaleRead,
    /// A lease that is released is deleted, and its number with it.
    DeletesAtRelease,
    /// A call that is not answered counts as refused, and what the store holds then as another's.
    SkipsReadBack,
    /// A record's time counts from when another clock wrote it, which goes before the reader's.
    TrustsWallClock,
    /// The log accepts records of every writer.
    NoFenceAtLog,
    /// An owner relies on the whole lease, with no margin for clocks that run at different rates.
    NoMargin,
    /// An owner renews its lease once.
    RenewsOnce,
}

impl Defect {
    pub const ALL: [Defect; 8] = [
        Defect::NoCondition,
        Defect::RenewsByStaleRead,
        Defect::DeletesAtRelease,
        Defect::SkipsReadBack,
        Defect::TrustsWallClock,
        Defect::NoFenceAtLog,
        Defect::NoMargin,
        Defect::RenewsOnce,
    ];
}

/// Returns the record as a process reads it.
pub fn read(record: Option<&LeaseRecord>, me: &str, defect: Option<Defect>) -> Option<LeaseRecord> {
    let mut record = record.cloned()?;
    if defect == Some(Defect::TrustsWallClock) && record.owner != me {
        record.lease_ns = record.lease_ns.saturating_sub(2 * UNIT_NS);
    }
    Some(record)
}

/// Whether a write would change a lease of another owner without taking it.
pub fn is_trespass(found: Option<&LeaseRecord>, me: &str, write: &LeaseWrite) -> bool {
    let is_keeping = matches!(write, LeaseWrite::Renew { .. } | LeaseWrite::Release { .. });
    is_keeping && found.is_some_and(|record| record.owner != me)
}

/// Applies a write, if its condition holds.
pub fn write(
    found: &mut Option<LeaseRecord>,
    me: &str,
    lease_ns: u64,
    write: &LeaseWrite,
    defect: Option<Defect>,
) -> Written {
    let any = defect == Some(Defect::NoCondition);
    let has = |version: &str| any || found.as_ref().is_some_and(|record| record.version == version);
    let is_own = any || found.as_ref().is_some_and(|record| record.owner == me);
    let named = found.as_ref().map(|record| record.copies.clone()).unwrap_or_default();
    let own = |version: &str, epoch: Epoch, copies: &Option<Copies>| LeaseRecord {
        owner: me.to_string(),
        version: version.to_string(),
        lease_ns,
        is_released: false,
        successor: None,
        epoch,
        copies: copies.clone().unwrap_or_else(|| named.clone()),
        is_paused: false,
    };
    let epoch = found.as_ref().map_or(Epoch(0), |record| record.epoch);
    let is_released = found.as_ref().is_some_and(|record| record.is_released);
    let next = match write {
        LeaseWrite::Create { version, epoch, copies } if any || found.is_none() => Some(own(version, *epoch, copies)),
        LeaseWrite::Take { from, was_released, version, epoch, copies }
            if has(from) && (any || found.as_ref().is_some_and(|record| record.is_released == *was_released)) =>
        {
            Some(own(version, *epoch, copies))
        }
        LeaseWrite::Renew { from, version, copies }
            if defect == Some(Defect::RenewsByStaleRead) || (has(from) && is_own && (any || !is_released)) =>
        {
            Some(own(version, epoch, copies))
        }
        LeaseWrite::Release { from, .. } if has(from) && is_own && defect == Some(Defect::DeletesAtRelease) => None,
        LeaseWrite::Release { from, successor, .. } if has(from) && is_own && (any || !is_released) => {
            found.clone().map(|record| LeaseRecord { is_released: true, successor: successor.clone(), ..record })
        }
        _ => return Written::Refused,
    };
    *found = next;
    Written::Applied
}

/// Applies a write to a store without a bug.
pub fn apply(found: &mut Option<LeaseRecord>, me: &str, lease_ns: u64, by: &LeaseWrite) -> Written {
    write(found, me, lease_ns, by, None)
}
