//! The event loop (one thread, many connections, bounded memory) and the blocking client.
//!
//! Nothing else in elastick opens a socket. [`reactor::Reactor`] owns listeners and connections and passes whole messages to a
//! [`reactor::Service`]; [`client::Client`] is the client side.

pub mod account;
pub mod call_stack;
pub mod candidates;
pub mod client;
mod connection;
pub mod control;
mod deferred;
pub mod departed;
pub mod forward;
mod holder;
pub mod http;
pub mod http_call;
mod http_response;
mod identity;
pub mod inbox;
mod keepalive;
mod links;
mod listener;
pub mod message;
pub mod notify;
pub mod outgoing;
pub mod own_user;
pub mod peer;
pub mod reactor;
pub mod remote;
mod remote_errors;
mod replies;
mod send_buffer;
pub mod shares;
pub mod signals;
pub mod sites;
mod stream;
pub mod tls;
mod trim;
mod upgrade;
mod user_outbox;
pub mod web_remote;
pub mod websocket;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use control::{Control, SyncRequest};
pub use deferred::Deferred;
pub use links::Links;
pub use listener::{Listeners, socket_directory};
pub use notify::{Notifier, Watchdog};
pub use peer::{CloseReason, ConnId, Peer};
pub use reactor::{Login, NetLimits, Parts, Reactor, Service};
pub use replies::Replies;
pub use send_buffer::{crowds as outbox_crowds, refuses as outbox_refuses};
