//! The lease by which one of several tickerplants is active, and the epoch that fences the others. Pure: [`Lease::step`] takes an event and
//! the time of a monotonic clock, and returns actions. See `README.md` here.

mod barrier;
mod copies;
mod epoch;
mod event;
pub mod owner;
mod process;
mod record;
mod terms;

#[cfg(test)]
mod tests;

pub use barrier::{Barrier, address_of};
pub use copies::{Copies, CopyName, OwnCopy, common_log};
pub use epoch::{Epoch, Fence, Fenced};
pub use event::{LeaseAction, LeaseEvent, Left, Unanswered, Written};
pub use process::{Lease, Standing};
pub use record::{LeaseRecord, LeaseWrite, OwnerName, RecordVersion};
pub use terms::{Terms, TermsError};
