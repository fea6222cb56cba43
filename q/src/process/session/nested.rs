//! Messages that arrive while an evaluation waits for a response on the same handle.

use super::Session;
use crate::io::handles::Arrived;
use crate::process::entry::{apply, eval_message};
use crate::runtime::host::{Caller, Host, Setting};
use crate::runtime::limits;
use crate::runtime::values::symbol;
use columns::table::Sym;
use columns::table::Value;
use std::time::{Duration, Instant};

impl Session {
    /// Records who is connected on a handle, for messages that arrive while an evaluation waits for its response.
    pub fn note_caller(&mut self, handle: i32, caller: Option<Caller>) {
        match caller {
            Some(caller) => drop(self.callers.insert(handle, caller)),
            None => drop(self.callers.remove(&handle)),
        }
    }

    /// Called with each response to a sync message that the evaluation has sent. If a client has sent it, as to `x"f"` in `.z.po`, a function in it gets the
    /// client's rights.
    pub(super) fn received(&self, handle: i64, response: &Value) {
        let client = i32::try_from(handle).ok().and_then(|handle| self.callers.get(&handle));
        if client.is_some_and(|client| client.remote) {
            self.asking.received(response);
        }
    }

    /// Returns when an evaluation for a client that begins now must end: `\T`.
    pub fn client_deadline(&self) -> Option<Instant> {
        let seconds = u64::try_from(self.setting(Setting::QueryTime)).unwrap_or(0);
        (seconds > 0).then(|| Instant::now().checked_add(Duration::from_secs(seconds))).flatten()
    }

    /// Evaluates a message that arrived while an evaluation waits for a response on the same handle, with its sender's rights and within the
    /// limits of that evaluation.
    pub(super) fn serve(&mut self, handle: i32, arrived: Arrived) {
        let client = self.callers.get(&handle).cloned();
        let mut limits = self.limits();
        limits.deadline = client.as_ref().and_then(|_| self.client_deadline());
        limits.cancel = arrived.is_sync.then_some(arrived.gone);
        let limits = limits::innermost().inside(limits);
        let caller = client.unwrap_or(Caller { handle, ..Caller::default() });
        // `-30!` needs the loop of the console, which waits.
        let waiting = std::mem::take(&mut self.waiting.needs_response);
        let (space, console) = (std::mem::replace(&mut self.namespace, Sym::NULL), self.console);
        let result = self.apart(|session| {
            session.set_caller(caller);
            let handler: &[u8] = if arrived.is_sync { b".z.pg" } else { b".z.ps" };
            let handler = symbol(handler).ok().and_then(|name| session.globals.get(&name).cloned());
            match handler {
                Some(handler) => apply(session, &handler, &[arrived.message], &limits),
                None => eval_message(session, &arrived.message, &limits),
            }
        });
        self.waiting.needs_response = waiting;
        (self.namespace, self.console) = (space, console);
        if let (Err(error), false) = (&result, arrived.is_sync) {
            // An async message has no response.
            let _ = self.print_error(&error.shown());
        }
        (arrived.answer)(result);
    }
}
