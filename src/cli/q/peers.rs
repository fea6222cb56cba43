//! Events of the session's connections for the console.

use crate::net::{self, inbox::Inbox};
use crate::q::handlers::{Handler, HandlerEvent, Outcome};
use crate::q::handles::Peer;
use crate::sys::interrupt::Cancel;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a client speaks.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// WebSocket.
    pub web: bool,
    /// It requested errors with a reason.
    pub explains: bool,
}

/// Who has connected, for `.z.u`, `.z.a` and `.z.e`.
#[derive(Clone, Debug)]
pub struct Client {
    pub user: Vec<u8>,
    pub address: i32,
    /// Cipher and protocol.
    pub tls: Option<(String, &'static str)>,
}

impl Client {
    pub fn of(peer: &net::Peer) -> Client {
        Client { user: peer.user.clone(), address: peer.z_a(), tls: peer.z_e() }
    }
}

/// An event of a connection.
pub enum ConnectionEvent {
    /// A client has connected.
    Opened { peer: Box<dyn Peer>, by: Client, dialect: Dialect },
    /// A client wants to connect, and `.z.pw` decides.
    Login { user: Vec<u8>, password: Vec<u8>, address: i32, decision: Sender<bool> },
    /// Messages have arrived, or the connection has closed.
    Received(Arc<Inbox>),
    /// A WebSocket message.
    Web { inbox: Arc<Inbox>, event: HandlerEvent, done: Box<dyn FnOnce() + Send> },
    /// An HTTP request to authorise or to serve, and the callback for the outcome, or the name of the handler's error.
    Request {
        handle: i32,
        by: Client,
        event: HandlerEvent,
        respond: Box<dyn FnOnce(Result<Outcome, Vec<u8>>) + Send>,
        /// Set when nobody waits for the outcome any more.
        gone: Cancel,
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
const BEFORE_EVALUATION: [Handler; 6] =
    [Handler::Login, Handler::Authorise, Handler::Page, Handler::Post, Handler::Methods, Handler::Web];

fn bit(handler: Handler) -> u32 {
    BEFORE_EVALUATION.iter().position(|known| *known == handler).map_or(0, |at| 1 << at)
}

impl HandlersSet {
    fn bits(&self) -> MutexGuard<'_, Option<u32>> {
        self.bits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the handlers that are set, and wakes threads that wait in [`HandlersSet::has`].
    pub fn note(&self, is_set: impl Fn(Handler) -> bool) {
        let bits = BEFORE_EVALUATION.into_iter().filter(|handler| is_set(*handler)).map(bit).sum();
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
