//! What other processes do at the session's connections, as the console hears of it.

use crate::net::inbox::Inbox;
use crate::q::handles::Peer;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What happened at a connection.
pub enum Happened {
    /// Another process has connected.
    Opened { peer: Box<dyn Peer>, user: Vec<u8>, address: i32 },
    /// Somebody wants to connect, and `.z.pw` decides.
    Login { user: Vec<u8>, password: Vec<u8>, answer: Sender<bool> },
    /// Messages have come, or nothing comes any more.
    Told(Arc<Inbox>),
}
