//! Why a process may not take a lease.

use super::copies::{Copies, OwnCopy};
use super::record::LeaseRecord;
use std::fmt;

/// Why a passive process may not take the lease, even once it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Its copy is none of those that have every acknowledged update.
    NotNamed(Copies),
    /// The record is one of tickerplants with a common directory, or another program has written it.
    NoCopies,
    /// The record is one of tickerplants that have a copy each.
    OfCopies,
    /// An operator has paused take-overs.
    Paused,
    /// There is no record yet, and the copy is one of a tickerplant that has followed another one.
    GoesSecond,
}

/// Why the process `me` with this copy may not take the lease of a record; `None` if it may, once the lease is free.
pub(super) fn barrier(copy: Option<&OwnCopy>, record: &LeaseRecord, me: &str) -> Option<Barrier> {
    let copies = &record.copies;
    let is_meant = record.is_released && record.successor.as_deref() == Some(me);
    match copy {
        _ if record.is_paused && !is_meant && address(&record.owner) != address(me) => Some(Barrier::Paused),
        None => (!copies.is_empty()).then_some(Barrier::OfCopies),
        Some(_) if copies.is_empty() => Some(Barrier::NoCopies),
        Some(copy) => (!copies.allow(&copy.name)).then(|| Barrier::NotNamed(copies.clone())),
    }
}

/// Where the process of this name is reached: what comes before its random number.
fn address(owner: &str) -> &str {
    owner.rsplit_once('/').map_or(owner, |(address, _)| address)
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Barrier::NotNamed(copies) => write!(f, "this copy may lack acknowledged updates; none is missing in {copies}"),
            Barrier::NoCopies => f.write_str(
                "the lease names no copy of the log: tickerplants with a common directory, or another program, have written it (elastick lease release \
                 --accept-loss allows any copy)",
            ),
            Barrier::GoesSecond => f.write_str(
                "nobody has taken the lease yet, and this copy is of another tickerplant's log, which goes first: start that one, or \
                 this one without --follow if it is lost",
            ),
            Barrier::Paused => f.write_str("take-overs are paused (elastick lease resume)"),
            Barrier::OfCopies => f.write_str("the lease is one of tickerplants with a copy of the log each (--follow)"),
        }
    }
}
