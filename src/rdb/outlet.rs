//! Messages from other threads to the connection loop.

use super::effects::Out;
use super::pool::Done;
use crate::net::ConnId;
use crate::net::inbox::Inbox;
use bytes::Bytes;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

/// A message to the connection loop.
pub enum LoopMessage {
    Done(Done),
    /// Send a sync request to a client, for an evaluation that waits for the response; `before`: its earlier messages, to be sent first.
    Request {
        conn: ConnId,
        before: Vec<Out>,
        message: Bytes,
    },
    /// A connection opened by this process has received messages or was closed.
    Received(Arc<Inbox>),
}

type Wake = Box<dyn Fn() + Send + Sync>;

/// Sender to the connection loop, which may start after the first message.
#[derive(Clone)]
pub struct Outlet {
    messages: Sender<LoopMessage>,
    wake: Arc<OnceLock<Wake>>,
}

impl Outlet {
    /// Returns the sender, and the receiver for the loop.
    pub fn new() -> (Outlet, Receiver<LoopMessage>) {
        let (messages, received) = channel();
        (Outlet { messages, wake: Arc::default() }, received)
    }

    /// Sets the callback that wakes the loop.
    pub fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// Sends a message and wakes the loop.
    pub fn send(&self, message: LoopMessage) {
        // The loop may already be gone.
        let _ = self.messages.send(message);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}
