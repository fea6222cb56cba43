//! A step of the queue: its circumstances, and what is to be done for each subscriber.

use crate::log::Proof;
use crate::protocol::ToNode;
use crate::queue::{Date, Handle, Now, QueueError, Subscription, Symbol, UpdateIndex, Window};
use std::path::Path;
use std::sync::Arc;

/// Circumstances of a step.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub tip: UpdateIndex,
    pub now: Now,
    /// The day's log, beside which the journal is.
    pub log: Option<&'a Path>,
}

/// Result of a step.
#[derive(Default)]
pub struct Stepped {
    /// To be carried out in this order.
    pub effects: Vec<Effect>,
    /// Groups of which at least so many instances are to be requested.
    pub requests: Vec<(Symbol, usize)>,
    /// Why the event was rejected.
    pub refused: Option<QueueError>,
}

/// What to do for a subscriber. Nothing if it has disconnected, except for a comparison.
#[derive(Debug, PartialEq)]
pub struct Effect {
    pub to: Handle,
    pub what: What,
}

/// Kind of an [`Effect`].
#[derive(Debug, PartialEq)]
pub enum What {
    Send(ToNode),
    /// Reply to its join; `drop`: its rows are not to be kept.
    Join {
        subscription: Arc<Subscription>,
        drop: bool,
    },
    /// A node is live: it replays the log up to the tip and then requests the feed. `position`: its place among the queue's instances.
    Live {
        subscription: Arc<Subscription>,
        first: UpdateIndex,
        position: usize,
    },
    /// A paper subscriber is live: it replays the log up to the tip, and is fed from there.
    LivePaper {
        subscription: Arc<Subscription>,
        first: UpdateIndex,
    },
    /// It is live again after a disconnect.
    Resume {
        next: UpdateIndex,
    },
    StopFeed,
    /// A node rebuilds a window of this day.
    Rebuild {
        window: Window,
        date: Date,
        hidden: bool,
    },
    /// A paper subscriber rebuilds a window.
    RebuildPaper {
        subscription: Arc<Subscription>,
        window: Window,
    },
    Compare(Comparison),
    /// It has joined again over another connection.
    Close,
}

/// A proof to be compared with the log.
#[derive(Debug, PartialEq)]
pub struct Comparison {
    pub subscription: Arc<Subscription>,
    pub date: Date,
    pub window: Window,
    pub held: Proof,
}

/// What follows a proof that has arrived.
pub enum Proved {
    /// The queue waits for it: compare it, unless the node has left.
    Wanted(Option<Effect>),
    /// The queue does not know yet that the node holds this window.
    Unknown,
}
