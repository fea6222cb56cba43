//! That the fleet is going to end an instance.

use std::time::Duration;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The group is made smaller, or someone ends the instance by name.
    Terminating,
    /// The fleet thinks that the instance is not well, and replaces it.
    Unhealthy,
    /// The server is taken back.
    SpotInterruption,
    /// The server is likely to be taken back soon.
    Rebalance,
}

impl Reason {
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Terminating => "terminating",
            Reason::Unhealthy => "unhealthy",
            Reason::SpotInterruption => "spot interruption",
            Reason::Rebalance => "rebalance recommendation",
        }
    }

    pub const ALL: [Reason; 4] = [Reason::Terminating, Reason::Unhealthy, Reason::SpotInterruption, Reason::Rebalance];

    pub fn from_name(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// The fleet is going to end this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub reason: Reason,
    /// Time left, none where the fleet does not say.
    pub left: Option<Duration>,
}
