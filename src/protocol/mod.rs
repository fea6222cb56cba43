//! Messages between tickerplant and node, each a type with its own encoder and decoder. `ARCHITECTURE.md` section 4 has the table.
//!
//! - [`ToNode`]: messages of the tickerplant, besides updates and responses;
//! - [`Join`] and its response [`Joined`]; [`FromNode`]: messages of a node;
//! - [`follow`]: calls of a tickerplant that follows another one;
//! - [`foreign`]: protocols of the paper and of stock kdb+tick;
//! - [`tables`]: a table without rows, as in messages, log records and the response of `.u.sub`.
//!
//! Decoding accepts messages of other releases and other programs: a missing key has a default if an older release did not send it; a
//! value of the wrong type is [`Malformed`]. A join with another [`VERSION`] is rejected.

pub mod follow;
pub mod foreign;
mod from_node;
mod join;
pub mod owners;
mod parts;
pub mod prove;
pub mod read;
mod state;
mod subscription;
pub mod tables;
mod to_node;

#[cfg(test)]
mod tests;

pub use from_node::{FromNode, Leaving};
pub use join::{Join, Joined};
pub use parts::long;
pub use state::{LeaseState, LogState, Standing, TickState, check_active, check_serving};
pub use subscription::{Filter, requested, subscription};
pub use to_node::{Live, Rebuild, ToNode};

/// Why a message cannot be decoded: kdb+'s error term, and a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Malformed {
    pub term: &'static str,
    pub detail: String,
}

impl Malformed {
    /// An argument that is missing or of the wrong type.
    pub fn of_type(detail: impl Into<String>) -> Malformed {
        Malformed { term: "type", detail: detail.into() }
    }
}

/// Version of the protocol.
pub const VERSION: i64 = 1;

/// Function names on the wire.
pub mod names {
    pub const NONCE: &str = ".u.asg.nonce";
    pub const PROVE: &str = ".u.asg.prove";
    pub const JOIN: &str = ".u.asg.join";
    /// Of the response to a join, which has no name on the wire.
    pub const JOINED: &str = "joined";
    pub const FROM: &str = ".u.asg.from";
    pub const STREAM: &str = ".u.asg.stream";
    pub const ROLLING: &str = ".u.asg.rolling";
    pub const PROVED: &str = ".u.asg.proved";
    pub const LEAVING: &str = ".u.asg.leaving";
    pub const STATUS: &str = ".u.asg.status";
    pub const LIVE: &str = ".u.asg.live";
    pub const REBUILD: &str = ".u.asg.rebuild";
    pub const STREAMED: &str = ".u.asg.streamed";
    pub const RECHECK: &str = ".u.asg.recheck";
    pub const HANDED: &str = ".u.asg.handed";
    pub const SHOW: &str = ".u.asg.show";
    pub const LEFT: &str = ".u.asg.left";
    pub const WAKE: &str = ".u.asg.wake";
    pub const WRITTEN: &str = ".u.asg.written";
    pub const SLEEP: &str = ".u.asg.sleep";
    pub const GROUP: &str = ".u.asg.group";
    pub const DROP: &str = ".u.asg.drop";
    pub const NEED: &str = ".u.asg.need";
    pub const WAITING: &str = ".u.asg.waiting";
    pub const UNSERVED: &str = ".u.asg.unserved";
    pub const BYE: &str = ".u.asg.bye";
    pub const END: &str = ".u.end";
    pub const SCHEMA: &str = ".u.schema";
    pub const CONFIRM: &str = ".u.confirm";
    pub const STATE: &str = ".u.state";
    pub const FAIL_OVER: &str = ".u.failover";
    pub const FOLLOW_OPEN: &str = ".u.follow.open";
    pub const FOLLOW_CHECKSUMS: &str = ".u.follow.checksums";
    pub const FOLLOW_COPY: &str = ".u.follow.copy";
    pub const OWNERS: &str = ".u.asg.owners";
    pub const EVICT: &str = ".u.asg.evict";
    pub const FORGET: &str = ".u.asg.forget";
    pub const PAPER_SUBSCRIBE: &str = ".u.asg.sub";
    pub const PAPER_REPLAY: &str = ".sub.rep";
}
