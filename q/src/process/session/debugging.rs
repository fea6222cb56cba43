//! The debugger of a session: what it evaluates while another evaluation is suspended.

use super::Session;
use crate::process::entry;
use crate::runtime::error::{Locals, Origin, QError};
use crate::runtime::host::Resume;
use columns::table::Value;
use std::sync::Arc;

/// Where a person decides how an evaluation that failed continues.
pub trait Debugger: Send + Sync {
    /// Called at an error, in the midst of the evaluation; it may evaluate other text with the session, and change the locals.
    fn suspended(&self, session: &mut Session, error: &mut QError) -> Resume;
}

impl Session {
    /// Suspends evaluations at an error while [`Session::set_debugs`] is on.
    pub fn set_debugger(&mut self, debugger: Arc<dyn Debugger>) {
        self.debugger = Some(debugger);
    }

    /// Sets whether evaluations are suspended at an error.
    pub fn set_debugs(&mut self, on: bool) {
        self.debugs = on;
    }

    /// Runs `work` apart from an evaluation that is suspended or waits: with rights of its own, without a debugger, and not as part of a
    /// script. An evaluation that has read a client's code has fewer rights than its caller, and continues with as few.
    pub fn apart<R>(&mut self, work: impl FnOnce(&mut Session) -> R) -> R {
        let debugs = std::mem::take(&mut self.debugs);
        let asking = std::mem::take(&mut self.asking);
        let loading = self.loading.take();
        let result = work(self);
        (self.debugs, self.asking, self.loading) = (debugs, asking, loading);
        result
    }

    /// Evaluates a line with the locals of a suspended lambda in scope, and prints the result.
    ///
    /// # Errors
    /// The error of the line, which is not printed.
    pub fn line_among(&mut self, line: &[u8], locals: &mut Locals) -> Result<(), QError> {
        match self.among(line, locals)? {
            (value, true) => self.display(&value, &self.own_limits()),
            _ => Ok(()),
        }
    }

    /// Returns the value of a text with the locals of a suspended lambda in scope.
    ///
    /// # Errors
    /// Those of the text.
    pub fn value_among(&mut self, text: &[u8], locals: &mut Locals) -> Result<Value, QError> {
        self.among(text, locals).map(|(value, _)| value)
    }

    /// With the rights of the suspended evaluation: its locals may be a client's code.
    fn among(&mut self, text: &[u8], locals: &mut Locals) -> Result<(Value, bool), QError> {
        let loading: Option<Origin> = self.loading.take();
        let limits = self.own_limits();
        let result = entry::eval_among(self, text, locals, &limits);
        self.loading = loading;
        result
    }
}
