//! Deferred responses: `-30!`.

use super::Session;
use crate::runtime::error::QError;

impl Session {
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
