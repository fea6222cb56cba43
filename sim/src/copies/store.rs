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
    /// Who takes the lease leaves the copies of the former owner in the record.
    KeepsNames,
    /// A directory that was emptied keeps its number.
    WipesUnnoticed,
}

impl Defect {
    pub const ALL: [Defect; 6] = [
        Defect::NamesAtJoin,
        Defect::ForgetsAtOnce,
        Defect::IgnoresCopies,
        Defect::AcksAlone,
        Defect::KeepsNames,
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

    pub fn write(&mut self, me: &str, lease_ns: u64, write: &LeaseWrite, defect: Option<Defect>) -> Written {
        let names = self.record.as_ref().map(|record| record.copies.clone());
        let written = apply(&mut self.record, me, lease_ns, write);
        if let (LeaseWrite::Take { .. }, Written::Applied, Some(Defect::KeepsNames)) = (write, written, defect)
            && let (Some(record), Some(names)) = (&mut self.record, names)
        {
            let all = names.names().chain(record.copies.names()).cloned();
            record.copies = Copies::of(all.collect::<Vec<_>>());
        }
        written
    }
}
