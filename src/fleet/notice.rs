//! Notice that the fleet is about to end an instance.

use std::time::Duration;

/// Why an instance is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The group shrinks, or an operator ends the instance by name.
    Terminating,
    /// The fleet considers the instance unhealthy and replaces it.
    Unhealthy,
    /// The spot instance is being reclaimed.
    SpotInterruption,
    /// The spot instance is at elevated risk of being reclaimed.
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

/// The fleet is about to end this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub reason: Reason,
    /// Time left; `None` if unknown.
    pub left: Option<Duration>,
}
