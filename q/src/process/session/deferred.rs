//! Deferred responses: `-30!`.

use super::{Deferred, Session};
use crate::runtime::error::QError;

impl Session {
    /// Starts the evaluation of a message; `waits` if its sender waits for a response.
    pub fn begin_message(&mut self, waits: bool) {
        (self.waiting.needs_response, self.waiting.is_deferred) = (waits, false);
    }

    /// Ends the evaluation of a message; returns whether it deferred the response.
    pub fn has_deferred(&mut self) -> bool {
        self.waiting.needs_response = false;
        std::mem::take(&mut self.waiting.is_deferred)
    }

    /// Withdraws a deferred response after the evaluation failed; returns whether it was still pending.
    pub fn undefer(&mut self, handle: i32) -> bool {
        self.take_deferred(handle)
    }

    /// Drops the deferred responses of a closed connection.
    pub fn forget_deferred(&mut self, handle: i32) {
        self.waiting.handles.remove(&handle);
        self.waiting.answers.retain(|(to, _)| *to != handle);
    }

    /// Takes the responses that `-30!` has given to deferred requests since the last call, in order.
    pub fn take_answers(&mut self) -> Vec<Deferred> {
        std::mem::take(&mut self.waiting.answers)
    }

    /// Defers the response to the message in evaluation.
    ///
    /// # Errors
    /// `access` if no client waits for one.
    pub(super) fn defer_response(&mut self) -> Result<(), QError> {
        if !self.waiting.needs_response {
            return Err(QError::with("access", "no client is waiting for a response here"));
        }
        // Deferring twice has no further effect.
        if !self.waiting.is_deferred {
            self.waiting.is_deferred = true;
            let handle = self.asking.caller().handle;
            let open = self.waiting.handles.entry(handle).or_default();
            *open = open.saturating_add(1);
        }
        Ok(())
    }

    /// Whether a response to a caller was deferred; it is not any more.
    pub(super) fn take_deferred(&mut self, handle: i32) -> bool {
        let Some(open) = self.waiting.handles.get_mut(&handle) else { return false };
        *open = open.saturating_sub(1);
        if *open == 0 {
            self.waiting.handles.remove(&handle);
        }
        true
    }
}
