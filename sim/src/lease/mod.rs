//! Model checker for the lease: `elastick::lease::Lease`, the production code, in two or three processes with one store, through every order
//! of events up to a bound. See `README.md` here.

mod explore;
mod rest;
mod state;
mod store;

pub use explore::{Found, Outcome, check};
pub use store::Defect;
pub(crate) use store::{apply, read, write};

use elastick::lease::{Terms, TermsError};
use std::time::Duration;

/// Length of a step of simulated time.
pub const UNIT_NS: u64 = 1_000_000_000;
/// Most processes.
pub const MAX_PROCESSES: u8 = 3;

/// Bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub processes: u8,
    /// Units of time.
    pub time: u8,
    /// Calls that fail, or whose answer is lost: the store may have applied them or not.
    pub lost: u8,
    /// Writes that are answered with an error and applied later.
    pub late: u8,
    /// Processes that stop and go on later.
    pub pauses: u8,
    /// Processes that are killed; another one starts in their place.
    pub kills: u8,
    /// Requests to step down.
    pub requests: u8,
    /// Units by which clocks fall behind; none by more than one in six.
    pub drift: u8,
}

/// Terms of a model, in units: a lease of 3, a heartbeat of 1, a read of a passive process each unit. Where clocks fall behind, a lease has 6 and
/// a heartbeat 2: one unit of 3 is more than the part of a lease that is kept as a margin.
///
/// # Errors
/// Never, with these figures.
pub fn terms(bounds: Bounds) -> Result<Terms, TermsError> {
    let scale = if bounds.drift > 0 { 2 } else { 1 };
    let unit = Duration::from_nanos(UNIT_NS);
    let terms = Terms::new(unit.saturating_mul(3 * scale), unit.saturating_mul(scale))?;
    Ok(Terms { poll_ns: UNIT_NS, retry_ns: UNIT_NS, ..terms })
}
