//! Messages that arrive while an evaluation waits for a response on the same handle.

use super::Session;
use crate::io::handles::Arrived;
use crate::process::entry::{apply, eval_message};
use crate::runtime::host::{Caller, Host};
use crate::runtime::values::symbol;
use columns::table::Sym;

impl Session {
    /// Records who is connected on a handle, for messages that arrive while an evaluation waits for its response.
    pub fn note_caller(&mut self, handle: i32, caller: Option<Caller>) {
        match caller {
            Some(caller) => drop(self.callers.insert(handle, caller)),
            None => drop(self.callers.remove(&handle)),
        }
    }

    /// Evaluates a message that arrived while an evaluation waits for a response on the same handle, with its sender's rights.
    pub(super) fn serve(&mut self, handle: i32, arrived: Arrived) {
        let caller = self.callers.get(&handle).cloned().unwrap_or(Caller { handle, ..Caller::default() });
        // `-30!` needs the loop of the console, which waits.
        let waiting = std::mem::take(&mut self.waiting.needs_response);
        let (space, console) = (std::mem::replace(&mut self.namespace, Sym::NULL), self.console);
        let result = self.apart(|session| {
            session.set_caller(caller);
            let limits = session.limits();
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
