//! The store of the lease, and seeded bugs that show whether the rules find any.

use crate::lease::apply;
use elastick::lease::{Copies, LeaseRecord, LeaseWrite, Written};

/// Seeded bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A follower counts as complete once it has connected.
    NamesAtJoin,
    /// A request for copies counts as carried out as soon as it is made.
    ForgetsAtOnce,
    /// A process takes the lease whatever the record names.
    IgnoresCopies,
    /// Responses do not wait for followers.
    AcksAlone,
    /// Who takes the lease never requests that the record names no other copy than its own.
    KeepsNames,
    /// Who takes the lease names its own copy alone at once, although it may not be able to open its log.
    NamesBeforeOpening,
    /// A directory that was emptied keeps its number.
    WipesUnnoticed,
}

impl Defect {
    pub const ALL: [Defect; 7] = [
        Defect::NamesAtJoin,
        Defect::ForgetsAtOnce,
        Defect::IgnoresCopies,
        Defect::AcksAlone,
        Defect::KeepsNames,
        Defect::NamesBeforeOpening,
        Defect::WipesUnnoticed,
    ];
}

/// A write on its way, and who sent it.
#[derive(Clone, Debug)]
pub struct Late {
    pub by: String,
    pub write: LeaseWrite,
}

/// One record, and writes that are applied later.
#[derive(Clone, Debug, Default)]
pub struct Store {
    pub record: Option<LeaseRecord>,
    pub late: Vec<Late>,
}

impl Store {
    pub fn read(&self, defect: Option<Defect>) -> Option<LeaseRecord> {
        let mut record = self.record.clone()?;
        if defect == Some(Defect::IgnoresCopies) {
            record.copies = Copies::any();
        }
        Some(record)
    }

    pub fn write(&mut self, me: &str, lease_ns: u64, write: &LeaseWrite) -> Written {
        apply(&mut self.record, me, lease_ns, write)
    }
}
