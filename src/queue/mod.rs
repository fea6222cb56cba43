//! The subscriber queue: which node is live, which are standbys, which node holds which window, and what changes when a node joins, fills
//! up, dies or returns. Pure: [`Queue::step`] takes an event, the tip and the time, and returns actions. See `README.md` here.
//!
//! Protocol between the queue and its shell:
//!
//! - one [`Queue`] holds all queues of a tickerplant; the shell steps each event with the current tip;
//! - the shell carries actions out in order; [`Action::Journal`] is first, so that a change is recorded before its effects are sent;
//! - [`Queue::next_deadline_ns`] returns when to step [`QueueEvent::Tick`] if no other event comes before;
//! - at start-up: [`journal::read`] the day's journal, [`Queue::restore`], then step [`QueueEvent::Restored`] with the log's tip; without a
//!   journal, [`Queue::new`], and its [`Queue::snapshot`] as the first record;
//! - on a node's `.u.asg.proved`: step [`QueueEvent::Rebuilt`], compare the proof with the log, step [`QueueEvent::Proved`];
//! - [`Queue::rows`] is `.u.asg.tab`.
//!
//! A step takes the time of two clocks ([`Now`]): the table shows wall time, and time-outs run on a steady clock.

mod back_off;
mod departed;
mod ends;
mod event;
mod evict;
mod groups;
mod ids;
pub mod invariants;
mod join;
pub mod journal;
mod late_launches;
mod leave;
mod note;
mod row;
mod served;
mod sleep;
mod step;
mod table;
mod windows;
mod written;

#[cfg(test)]
mod tests;

pub use crate::config::Wake;
pub use back_off::BackOff;
pub use event::{Action, EVICTED, Join, OpenWindow, QueueError, QueueEvent, Status, Subscribe, Subscription};
pub use evict::MAX_EVICTED;
pub use ids::{Date, Handle, NodeName, Now, QueueName, Symbol, UpdateIndex, Window};
pub use leave::Leaving;
pub use note::Note;
pub use row::{COLUMNS, Row, Verified};
pub use sleep::RECENT_NS;
pub use table::{Held, Kind, Line, Lost, Params, Progress, Queue, State, Subscriber, SubscriberId};
