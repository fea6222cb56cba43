//! Events and actions of a lease.

use super::copies::{Copies, CopyName};
use super::epoch::Epoch;
use super::record::{LeaseRecord, LeaseWrite, OwnerName};

/// Outcome of a conditional write that the store has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    Applied,
    /// The condition did not hold.
    Refused,
}

/// A call that failed or was not answered in time. A write may have been applied, or may be applied later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unanswered;

/// Input of a step. An answer belongs to the call before it: what a store says after its call has counted as [`Unanswered`] must be dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseEvent {
    /// Time has passed.
    Tick,
    /// Answer to [`LeaseAction::Read`]; `None` if there is no record.
    Read(Result<Option<LeaseRecord>, Unanswered>),
    /// Answer to [`LeaseAction::Write`].
    Wrote(Result<Written, Unanswered>),
    /// The log has this epoch of another process: the lease's next one must be higher. An active process whose epoch is not higher takes the
    /// lease again. Never to be stepped with the epoch with which the process itself has opened the log.
    LogEpoch(Epoch),
    /// It is proved that this owner cannot write the log any more (its process is gone, or its lock on the log is held by this one):
    /// its lease need not run out. It may still believe that it is active, and publish what it cannot log.
    CannotWrite(OwnerName),
    /// Step down in order, also if the lease is just being taken, and let `successor`, if one is named, take the lease first.
    StepDown { successor: Option<OwnerName> },
    /// The log is closed after [`LeaseAction::StepDown`].
    Closed,
    /// The active process wants the record to name these copies. Requests are numbered from 1.
    Copies { request: u64, copies: Copies },
    /// The process's directory, which it shares with others, has this log ([`super::common_log`]).
    OwnLog(CopyName),
    /// Whether a passive process must leave the lease alone.
    Pause(bool),
}

/// Why a process is not active any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// By request.
    Requested,
    /// Another process owns the lease, or the record is gone.
    Taken,
    /// No renewal succeeded in time.
    Expired,
    /// The log has the highest epoch that there is.
    NoEpoch,
    /// The answer to the write that takes the lease under a higher epoch was lost, and with it the epoch.
    Unclear,
}

/// Output of a step. At most one call is under way; a store answers each, by its deadline at the latest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseAction {
    /// Read the record, consistently.
    Read,
    Write(LeaseWrite),
    /// This process is active: open the log with this epoch, and write.
    Lead(Epoch),
    /// Renewals are late; the lease ends after this time.
    Danger {
        left_ns: u64,
    },
    /// A renewal succeeded after [`LeaseAction::Danger`] or [`LeaseAction::Hold`].
    Safe,
    /// The record names the copies of this request, the last one, and no write that was sent before can change that any more.
    Copies {
        request: u64,
        copies: Copies,
    },
    /// The store has not answered for a whole lease, and the process stays active by its lock on the log.
    Hold,
    /// This process is not active any more: accept nothing, close the log, then step [`LeaseEvent::Closed`].
    StepDown(Left),
}
