//! What exists before the event loop: its readiness queue and waker, which the service needs.

use super::WAKER;
use mio::{Poll, Waker};
use std::io;
use std::sync::Arc;

/// Parts needed before the service exists: the waker.
pub struct Parts {
    pub(super) poll: Poll,
    pub(super) waker: Arc<Waker>,
}

impl Parts {
    /// Creates the readiness queue.
    ///
    /// # Errors
    /// The system's, if it has no readiness queue left.
    pub fn new() -> io::Result<Parts> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Parts { poll, waker })
    }

    /// The waker, usable from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }
}
