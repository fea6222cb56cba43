//! What passes between the thread of the lease and that of the calls.

use super::store::StoreError;
use crate::lease::{LeaseEvent, LeaseRecord, LeaseWrite, Written};

/// Input of the driver.
pub(super) enum Input {
    Event(LeaseEvent),
    /// Answer to the call with this number.
    Answer(u64, Answer),
    /// The process needs no lease any more.
    End,
}

/// A call, and the time on the clock of the lease after which it must not begin.
pub(super) struct Job {
    pub number: u64,
    /// `None` for a read.
    pub write: Option<LeaseWrite>,
    pub until_ns: u64,
}

/// Answer of a store.
pub(super) enum Answer {
    Read(Result<Option<LeaseRecord>, StoreError>),
    Wrote(Result<Written, StoreError>),
}
