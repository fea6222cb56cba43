//! Requests for more instances over an API that sets absolute numbers, throttles calls, and may lose responses. Pure.
//!
//! The API can only set the capacity to n. A caller that adds one to the number it read launches two instances if a
//! response is lost, or undoes another caller's request. Therefore a request is for at least n, and proceeds as
//! follows:
//!
//! ```text
//! describe --> desired >= n --------------------> granted
//!          --> desired >= max ------------------> refused
//!          --> set min(n, max) --> done --------> granted, or refused above the maximum
//!                              --> answer lost -> describe, and from there again
//!                              --> not valid ---> describe, for the limits have changed; refused the second time
//!                              --> put off -----> later
//! ```
//!
//! The capacity is only ever set above the number read just before. A request thus does not lower it, and repeating all
//! of it changes nothing. A concurrent request between read and set can still be undone: [`launches`] detects that.

pub mod launches;
pub mod termination;
#[cfg(test)]
mod tests;

use super::{Capacity, FleetError};

/// Result of the last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The current group.
    Described { desired: u32, max: u32 },
    /// The capacity was set.
    Done,
    /// The call failed.
    Failed(FleetError),
}

/// Next step of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Describe,
    /// Set the capacity to this number, which is above the last one read.
    Set(u32),
    /// Finished: granted or rejected.
    Over(Capacity),
    /// Retry later.
    Later(FleetError),
}

/// Maximum number of lost or invalid responses in one request before it is postponed.
const MAX_SETBACKS: u32 = 2;

/// A request for at least `wanted` instances.
#[derive(Clone, Debug)]
pub struct CapacityRequest {
    requested: u32,
    /// Desired capacity and maximum as last read, while setting.
    seen: Option<(u32, u32)>,
    setbacks: u32,
}

impl CapacityRequest {
    /// A new request starts with [`Next::Describe`].
    pub fn new(requested: u32) -> CapacityRequest {
        CapacityRequest { requested, seen: None, setbacks: 0 }
    }

    /// Returns the next step after the result of the last.
    pub fn step(&mut self, result: StepResult) -> Next {
        match result {
            StepResult::Described { desired, max } => {
                self.seen = Some((desired, max));
                if desired >= self.requested {
                    Next::Over(Capacity::Granted { desired })
                } else if desired >= max {
                    Next::Over(self.refused(desired, max))
                } else {
                    Next::Set(self.requested.min(max))
                }
            }
            StepResult::Done => match self.seen {
                Some((_, max)) if max < self.requested => Next::Over(self.refused(max, max)),
                Some(_) => Next::Over(Capacity::Granted { desired: self.requested }),
                None => Next::Describe,
            },
            StepResult::Failed(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: FleetError) -> Next {
        let setting = self.seen.take();
        let again = match &error {
            FleetError::Unsure { .. } | FleetError::Refused(_) => setting.is_some(),
            _ => false,
        };
        if again && self.setbacks < MAX_SETBACKS {
            self.setbacks = self.setbacks.saturating_add(1);
            return Next::Describe;
        }
        match (error, setting) {
            (FleetError::Refused(reason), Some((desired, _))) => Next::Over(Capacity::Refused { desired, reason }),
            (error, _) => Next::Later(error),
        }
    }

    fn refused(&self, desired: u32, max: u32) -> Capacity {
        let reason = format!("{} instances exceed the group's maximum of {max}", self.requested);
        Capacity::Refused { desired, reason }
    }
}
