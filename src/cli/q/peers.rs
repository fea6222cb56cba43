//! Events of the session's connections for the console.

use crate::net::inbox::Inbox;
use crate::q::handlers::{Handler, HandlerEvent, Outcome};
use crate::q::handles::Peer;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An event of a connection.
pub enum Happened {
    /// A client has connected.
    Opened { peer: Box<dyn Peer>, user: Vec<u8>, address: i32, web: bool },
    /// A client wants to connect, and `.z.pw` decides.
    Login { user: Vec<u8>, password: Vec<u8>, answer: Sender<bool> },
    /// Messages have arrived, or the connection has closed.
    Told(Arc<Inbox>),
    /// A WebSocket message.
    Web { inbox: Arc<Inbox>, event: HandlerEvent, done: Box<dyn FnOnce() + Send> },
    /// An HTTP request to authorise or to serve, and the callback for the outcome: `None` if the handler failed.
    Asked {
        handle: i32,
        user: Vec<u8>,
        address: i32,
        event: HandlerEvent,
        answer: Box<dyn FnOnce(Option<Outcome>) + Send>,
    },
}

/// Handlers that the session has set, for the loop that serves its clients. As in kdb+, no client is served before the script of the
/// command line has been evaluated.
#[derive(Debug, Default)]
pub struct HandlersSet {
    bits: Mutex<Option<u32>>,
    known: Condvar,
}

/// Handlers that matter before a message is evaluated.
const LOOKED_AT: [Handler; 6] =
    [Handler::Login, Handler::Authorise, Handler::Page, Handler::Post, Handler::Methods, Handler::Web];

fn bit(handler: Handler) -> u32 {
    LOOKED_AT.iter().position(|known| *known == handler).map_or(0, |at| 1 << at)
}

impl HandlersSet {
    fn bits(&self) -> MutexGuard<'_, Option<u32>> {
        self.bits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the handlers that are set, and wakes threads that wait in [`HandlersSet::has`].
    pub fn note(&self, is_set: impl Fn(Handler) -> bool) {
        let bits = LOOKED_AT.into_iter().filter(|handler| is_set(*handler)).map(bit).sum();
        *self.bits() = Some(bits);
        self.known.notify_all();
    }

    /// Waits until the handlers are known for the first time.
    pub fn has(&self, handler: Handler) -> bool {
        let mut bits = self.bits();
        loop {
            match *bits {
                Some(bits) => return bits & bit(handler) != 0,
                None => bits = self.known.wait(bits).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
