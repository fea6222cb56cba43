//! Asking for more instances over calls that are absolute, that may be put off, and whose answers may be lost. Pure.
//!
//! The fleet's only way to grow is "let the capacity be n". Whoever adds one to what was read launches twice when an answer
//! is lost, or takes back what another has asked for. So a request is for at least n, and goes:
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
//! The capacity is set only to more than was read just before, so that it is never lowered, and repeating all of it changes
//! nothing. Another request between reading and setting can still be lost: see [`launches`] for how that is noticed.

pub mod farewell;
pub mod launches;
#[cfg(test)]
mod tests;

use super::{Capacity, FleetError};

/// What has become of the last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The group as it is.
    Described { desired: u32, max: u32 },
    /// The capacity was set.
    Done,
    /// The call failed.
    Failed(FleetError),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Describe,
    /// Let the capacity be this, more than it was.
    Set(u32),
    /// It is over: granted or refused.
    Over(Capacity),
    /// Nothing more can be done now.
    Later(FleetError),
}

/// Answers that may be lost, or be invalid, in one request before it is put off.
const SETBACKS_MOST: u32 = 2;

/// One request for at least so many instances.
#[derive(Clone, Debug)]
pub struct Request {
    wanted: u32,
    /// What was described last, and is being set.
    seen: Option<(u32, u32)>,
    setbacks: u32,
}

impl Request {
    /// Begins with [`Next::Describe`].
    pub fn new(wanted: u32) -> Request {
        Request { wanted, seen: None, setbacks: 0 }
    }

    pub fn step(&mut self, heard: Heard) -> Next {
        match heard {
            Heard::Described { desired, max } => {
                self.seen = Some((desired, max));
                if desired >= self.wanted {
                    Next::Over(Capacity::Granted { desired })
                } else if desired >= max {
                    Next::Over(self.refused(desired, max))
                } else {
                    Next::Set(self.wanted.min(max))
                }
            }
            Heard::Done => match self.seen {
                Some((_, max)) if max < self.wanted => Next::Over(self.refused(max, max)),
                Some(_) => Next::Over(Capacity::Granted { desired: self.wanted }),
                None => Next::Describe,
            },
            Heard::Failed(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: FleetError) -> Next {
        let setting = self.seen.take();
        let again = match &error {
            FleetError::Unsure { .. } | FleetError::Refused(_) => setting.is_some(),
            _ => false,
        };
        if again && self.setbacks < SETBACKS_MOST {
            self.setbacks = self.setbacks.saturating_add(1);
            return Next::Describe;
        }
        match (error, setting) {
            (FleetError::Refused(reason), Some((desired, _))) => Next::Over(Capacity::Refused { desired, reason }),
            (error, _) => Next::Later(error),
        }
    }

    fn refused(&self, desired: u32, max: u32) -> Capacity {
        let reason = format!("{} instances are more than the group's maximum of {max}", self.wanted);
        Capacity::Refused { desired, reason }
    }
}
