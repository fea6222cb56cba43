//! The event loop (one thread, many connections, bounded memory) and the blocking client.
//!
//! Nothing else in elastick opens a socket. [`reactor::Reactor`] owns listeners and connections and passes whole messages to a
//! [`reactor::Service`]; [`client::Client`] is the client side.

pub mod access;
pub mod client;
mod connection;
pub mod control;
mod deferred;
mod ebb;
mod holder;
pub mod http;
pub mod inbox;
mod links;
mod listener;
pub mod message;
pub mod notify;
mod outbox;
pub mod peer;
pub mod reactor;
pub mod remote;
mod replies;
pub mod signals;
mod silence;
mod stream;
pub mod websocket;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use control::{Control, Request};
pub use deferred::Deferred;
pub use links::Links;
pub use listener::{Listeners, socket_directory};
pub use notify::{Heart, Notifier};
pub use outbox::refuses as outbox_refuses;
pub use peer::{CloseReason, ConnId, Peer};
pub use reactor::{Login, NetLimits, Parts, Reactor, Service};
pub use replies::Replies;
