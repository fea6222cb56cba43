//! The three kinds of tickerplant that a node can be connected to.

use crate::config::options::Protocol;

/// Protocol of a tickerplant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Elastick,
    Paper,
    Stock,
}

impl Dialect {
    /// Returns the protocol that an option prescribes; `None` to find it out.
    pub fn forced(option: Protocol) -> Option<Dialect> {
        match option {
            Protocol::Auto => None,
            Protocol::Elastick => Some(Dialect::Elastick),
            Protocol::Paper => Some(Dialect::Paper),
            Protocol::Stock => Some(Dialect::Stock),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Dialect::Elastick => "elastick",
            Dialect::Paper => "paper",
            Dialect::Stock => "stock",
        }
    }

    /// Returns whether a node keeps its rows over a reconnect.
    pub fn resumes(self) -> bool {
        self == Dialect::Elastick
    }
}
