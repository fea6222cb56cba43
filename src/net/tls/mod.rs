//! TLS: certificates of the process, connections of the event loop, and connections to other processes.
//!
//! The certificates belong to the process: [`install`] sets them at its start, [`watch`] replaces them when their files change.

mod certificate;
mod client;
mod explain;
#[cfg(test)]
pub(in crate::net) mod fixture;
mod handshakes;
mod material;
mod process;
mod session;
mod settings;

pub use certificate::Certificate;
pub use client::TlsSocket;
pub use process::{Door, install, shown, watch};
pub use session::Secured;
pub use settings::TlsSettings;

pub(in crate::net) use client::{connect, connect_to_service};
pub(in crate::net) use explain::explain;
pub(in crate::net) use handshakes::Handshakes;
pub(in crate::net) use session::Session;

/// First byte of a TLS connection: a record of the handshake. No kdb+ user name and no HTTP request begins with it.
pub(in crate::net) const FIRST_BYTE: u8 = 0x16;
