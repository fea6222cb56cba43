//! Why a process may not take a lease.

use super::copies::{Copies, CopyName, OwnCopy};
use super::record::LeaseRecord;
use std::fmt;

/// Why a passive process may not take the lease, even once it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Its copy is none of those that have every acknowledged update.
    NotNamed(Copies),
    /// The record is one of tickerplants with a common directory, or another program has written it.
    NoCopies,
    /// The record names this copy under another address.
    OtherAddress(CopyName),
    /// The record is one of tickerplants that have a copy each.
    OfCopies,
    /// The record is one of another log than that in this process's directory, which may have none yet.
    OtherLog { named: Copies, own: Option<CopyName> },
    /// An operator has paused take-overs.
    Paused,
    /// There is no record yet, and the copy is one of a tickerplant that has followed another one.
    GoesSecond,
}

/// Why the process `me` with this copy, or this log in a common directory, may not take the lease of a record; `None` if it may, once the lease is free.
pub(super) fn barrier(
    (copy, log): (Option<&OwnCopy>, Option<&CopyName>),
    record: &LeaseRecord,
    me: &str,
) -> Option<Barrier> {
    let copies = &record.copies;
    let is_own_log = || copies.is_empty() || copies.are_any() || log.is_some_and(|log| copies.allow(log));
    let is_meant = record.is_released && record.successor.as_deref() == Some(me);
    match copy {
        _ if record.is_paused && !is_meant && address_of(&record.owner) != address_of(me) => Some(Barrier::Paused),
        None if is_own_log() => None,
        None if copies.is_common() => Some(Barrier::OtherLog { named: copies.clone(), own: log.cloned() }),
        None => Some(Barrier::OfCopies),
        Some(_) if copies.is_common() => Some(Barrier::NoCopies),
        Some(copy) if copies.allow(&copy.name) => None,
        Some(copy) => {
            let is_same = |name: &&CopyName| number(name) == number(&copy.name);
            let other = copies.names().find(is_same).map(|name| Barrier::OtherAddress(name.clone()));
            Some(other.unwrap_or_else(|| Barrier::NotNamed(copies.clone())))
        }
    }
}

/// What a copy's name has behind its address.
fn number(copy: &str) -> &str {
    copy.rsplit_once('/').map_or(copy, |(_, number)| number)
}

/// Where the process of this name is reached: what comes before its random number.
pub fn address_of(owner: &str) -> &str {
    owner.rsplit_once('/').map_or(owner, |(address, _)| address)
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Barrier::NotNamed(copies) => write!(f, "this copy may lack acknowledged updates; none is missing in {copies}"),
            Barrier::OtherAddress(named) => {
                let address = address_of(named);
                write!(
                    f,
                    "the lease names a copy with the number of this one at another address, {address}: start it with --advertise {address} \
                     again, or, if this directory was copied from there, remove its SRC.copy"
                )
            }
            Barrier::OtherLog { named, own } => {
                let own = own.as_deref().unwrap_or("none");
                write!(
                    f,
                    "the lease is one of another log, {named}, and the one in this directory is {own}: look at the source, the directory and its mount \
                     (elastick lease release --accept-loss allows any log)"
                )
            }
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
