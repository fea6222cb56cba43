//! What other threads tell the loop that serves connections.

use super::effects::Out;
use super::pool::Done;
use crate::net::ConnId;
use crate::net::inbox::Inbox;
use bytes::Bytes;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

/// One thing that is told.
pub enum Said {
    Done(Done),
    /// A sync message to a client, whose answer an evaluation waits for; what that has sent before leaves before.
    Ask {
        conn: ConnId,
        before: Vec<Out>,
        message: Bytes,
    },
    /// A process that this one has connected to has sent messages, or has closed the connection.
    Told(Arc<Inbox>),
}

type Wake = Box<dyn Fn() + Send + Sync>;

/// The way to the loop, which may come later than the first thing that is said.
#[derive(Clone)]
pub struct Outlet {
    said: Sender<Said>,
    wake: Arc<OnceLock<Wake>>,
}

impl Outlet {
    pub fn new() -> (Outlet, Receiver<Said>) {
        let (said, heard) = channel();
        (Outlet { said, wake: Arc::default() }, heard)
    }

    /// How to wake the loop.
    pub fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    pub fn say(&self, said: Said) {
        // A loop that is gone wants nothing.
        let _ = self.said.send(said);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}
