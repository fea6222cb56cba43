//! The subscriber queue: who of a queue is live, who waits, who holds which window, and what happens when one comes, is full,
//! dies or returns. Pure: [`Queue::step`] takes an event, the tip and the time, and says what to do. See `README.md` here.
//!
//! How a shell uses it:
//!
//! - one [`Queue`] holds every queue of a tickerplant; each event goes through [`Queue::step`] with the current tip;
//! - actions are carried out in order; [`Action::Journal`] comes first, so that what is sent was written;
//! - [`Queue::next_deadline_ns`] says when to step [`Event::Tick`] if nothing else happens before;
//! - at a start: [`journal::read`] the day's journal, [`Queue::restore`], then step [`Event::Restored`] with the log's tip; with no
//!   journal, [`Queue::new`] and its [`Queue::snapshot`] as the first record;
//! - on a node's `.u.asg.proved`: step [`Event::Rebuilt`], compare the proof with the log, step [`Event::Proved`];
//! - [`Queue::rows`] is `.u.asg.tab`.
//!
//! A step takes the time by two clocks ([`Now`]): what the table shows is wall time, what is waited for runs on a steady clock.

mod ends;
mod event;
mod groups;
mod ids;
pub mod invariants;
mod join;
pub mod journal;
mod leave;
mod rest;
mod row;
mod step;
mod table;
mod windows;

#[cfg(test)]
mod tests;

pub use event::{Action, Event, Join, OpenWindow, Refusal, Status, Subscribe, Subscription};
pub use ids::{Date, Handle, NodeName, Now, QueueName, Symbol, UpdateIndex, Window};
pub use leave::Leaving;
pub use rest::Rest;
pub use row::{COLUMNS, Row, Verified};
pub use table::{Held, Kind, Line, Lost, Params, Queue, State, Subscriber, SubscriberId};
