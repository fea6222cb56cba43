//! Clients of a local session: their connections, messages and requests for pages.

use super::local::{Console, handler};
use super::peers::{Client, ConnectionEvent, Dialect};
use super::signals;
use crate::net::inbox::{Inbox, Message, ReplyOrder};
use crate::net::{message, remote};
use crate::q::handlers::{self, Outcome};
use crate::q::handles::Peer;
use crate::q::host::{Caller, Grants, Host, Setting};
use crate::q::session::Session;
use crate::q::{Limits, QError, Rules, apply};
use crate::sys::interrupt::Cancel;
use crate::table::{Sym, Value, symbol};
use proto::MessageKind;
use std::collections::VecDeque;

/// `-e 2`: the console shows errors of clients' sync messages too.
const SHOWS_ERRORS: i64 = 2;

/// Returns the caller of what a client's connection evaluates.
fn caller(handle: i32, by: Client, remote: bool) -> Caller {
    let grants = Grants { relay: true, ..Grants::default() };
    Caller { handle, user: by.user, address: by.address, tls: by.tls, remote, grants }
}

impl Console {
    pub(super) fn connection_event(&self, session: &mut Session, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Opened { peer, by, dialect } => self.opened(session, peer, by, dialect),
            ConnectionEvent::Login { user, password, address, decision } => {
                // The login may have timed out, which rejects it.
                let _ = decision.send(self.authenticate(session, &user, password, address));
            }
            ConnectionEvent::Received(inbox) => self.received(session, &inbox),
            ConnectionEvent::Web { inbox, event, done } => {
                let handle = inbox.number();
                if handle != 0 {
                    // A WebSocket that the session opened has no entry: its messages are no client's.
                    let known = self.clients.borrow().get(&handle).map(|(caller, _)| caller.clone());
                    let is_client = known.is_some();
                    let caller = known.unwrap_or(Caller { handle, ..Caller::default() });
                    let result = self.event(session, (caller, is_client), &event, None);
                    self.failed(session, result.map(drop));
                }
                done();
            }
            ConnectionEvent::Request { handle, by, event, respond, gone } => {
                let remote = !self.trusts_clients && !matches!(event, handlers::HandlerEvent::Authorise(_));
                let caller = caller(handle, by, remote);
                let result = self.event(session, (caller, true), &event, Some(gone));
                match result {
                    Ok(outcome) => respond(Ok(outcome)),
                    Err(error) => {
                        respond(Err(error.name.to_vec()));
                        self.failed(session, Err(error));
                    }
                }
            }
        }
    }

    /// Calls the handler of an event on behalf of this caller, until `gone` is set.
    fn event(
        &self,
        session: &mut Session,
        (caller, is_client): (Caller, bool),
        event: &handlers::HandlerEvent,
        gone: Option<Cancel>,
    ) -> Result<Outcome, QError> {
        let mut limits = session.limits();
        (limits.deadline, limits.cancel) = (session.client_deadline(), gone);
        let handle = caller.handle;
        session.refresh_tables();
        session.set_caller(caller);
        if is_client && !self.trusts_clients {
            session.serve_caller();
        }
        let result = self.apart(session, handle, |session| {
            signals::evaluating(|| handlers::evaluate(session, &Rules::default(), handle, event, &limits))
        });
        session.set_caller(self.own.clone());
        result
    }

    /// Evaluates the messages received on a connection, and handles its close.
    fn received(&self, session: &mut Session, inbox: &Inbox) {
        while inbox.number() != 0
            && let Some(Message { kind, body, endian, answer }) = inbox.take()
        {
            let handle = inbox.number();
            let mut limits = self.limits_of(session, handle);
            if kind == MessageKind::Sync {
                if inbox.gone().is_set() {
                    // It was sent before its client left.
                    answer(proto::encode::error_message(b"stop"), ReplyOrder::InOrder);
                    continue;
                }
                limits.cancel = Some(inbox.gone().clone());
            }
            session.refresh_tables();
            session.begin_message(kind == MessageKind::Sync);
            let received = limits.within(|| handlers::decoded(&body, endian, limits.message_depth));
            let is_malformed = matches!(&received, Err(error) if error.name.as_ref() == b"badmsg");
            let result = match received {
                Ok(value) => self.request(session, handle, kind, value, &limits),
                Err(error) if is_malformed => {
                    let (is_sync, body) = (kind == MessageKind::Sync, body.clone());
                    let event = handlers::HandlerEvent::Message { is_sync, body, endian };
                    let handled = self.event(session, (self.caller_of(handle), true), &event, None);
                    handled.and(Err(error))
                }
                Err(error) => Err(error),
            };
            if session.exited().is_some() {
                // As in kdb+, a request that ends the process gets no response: its connection closes.
                return;
            }
            let deferred = session.has_deferred();
            // Before the response is sent, so that the loop already has any handlers the message set.
            self.note_handlers(session);
            // A message that deferred its response and then sent it has been answered, even if it failed afterwards.
            if deferred && (result.is_ok() || !session.undefer(handle)) {
                self.deferred.borrow_mut().entry(handle).or_default().push_back(answer);
            } else if kind == MessageKind::Sync {
                if let Err(error) = &result
                    && session.setting(Setting::ErrorTrap) == SHOWS_ERRORS
                {
                    self.failed(session, Err(error.clone()));
                }
                let encoded = |value| limits.within(|| remote::encoded(MessageKind::Response, &value));
                let explains = self.clients.borrow().get(&handle).is_some_and(|(_, dialect)| dialect.explains);
                let failure = |error: QError| message::failure(&error, explains, &body, endian).to_vec();
                answer(result.and_then(encoded).unwrap_or_else(failure), ReplyOrder::InOrder);
            } else {
                self.failed(session, result.map(drop));
                answer(Vec::new(), ReplyOrder::InOrder);
            }
            self.send_deferred(session);
            if is_malformed {
                // The position of the next message is not known any more.
                return self.closed(session, inbox);
            }
        }
        if inbox.is_over() {
            self.closed(session, inbox);
        }
    }

    /// Sends the deferred responses that are available now.
    pub(super) fn send_deferred(&self, session: &mut Session) {
        for (handle, result) in session.take_answers() {
            let Some(answer) = self.deferred.borrow_mut().get_mut(&handle).and_then(VecDeque::pop_front) else {
                continue;
            };
            let limits = session.limits();
            let encoded = match result {
                Ok(value) => limits.within(|| remote::encoded(MessageKind::Response, &value)),
                Err(name) => Ok(proto::encode::error_message(&name)),
            };
            answer(encoded.unwrap_or_else(|error| proto::encode::error_message(&error.name)), ReplyOrder::InOrder);
        }
    }

    /// Returns the limits of a message from a connection.
    fn limits_of(&self, session: &Session, handle: i32) -> Limits {
        let mut limits = session.limits();
        if self.clients.borrow().contains_key(&handle) {
            limits.deadline = session.client_deadline();
        }
        limits
    }

    fn caller_of(&self, handle: i32) -> Caller {
        let caller = self.clients.borrow().get(&handle).map(|(caller, _)| caller.clone());
        caller.unwrap_or(Caller { handle, ..Caller::default() })
    }

    /// Evaluates a message with `.z.pg` or `.z.ps` if set, else directly.
    fn request(
        &self,
        session: &mut Session,
        handle: i32,
        kind: MessageKind,
        message: Value,
        limits: &Limits,
    ) -> Result<Value, QError> {
        let handler = handler(session, if kind == MessageKind::Sync { ".z.pg" } else { ".z.ps" });
        session.set_caller(self.caller_of(handle));
        let result = self.apart(session, handle, |session| {
            signals::evaluating(|| match &handler {
                Some(handler) => apply(session, handler, &[message], limits),
                None => crate::q::eval_message(session, &message, limits),
            })
        });
        session.set_caller(self.own.clone());
        result
    }

    /// Evaluates for a client with the console and in the namespace that it has set by `\c`, `\P` and `\d`, which end with its connection.
    fn apart<R>(&self, session: &mut Session, handle: i32, evaluate: impl FnOnce(&mut Session) -> R) -> R {
        let (space, console) = (session.namespace(), session.console_now());
        let before = self.consoles.borrow().get(&handle).copied().unwrap_or((console, Sym::NULL));
        let _ = session.set_console(before.0);
        let _ = session.set_namespace(before.1);
        let result = evaluate(session);
        let after = (session.console_now(), session.namespace());
        if after != before && self.clients.borrow().contains_key(&handle) {
            self.consoles.borrow_mut().insert(handle, after);
        }
        let _ = session.set_namespace(space);
        let _ = session.set_console(console);
        result
    }

    fn opened(&self, session: &mut Session, peer: Box<dyn Peer>, by: Client, dialect: Dialect) {
        // A connection beyond the limit is closed on drop.
        let reserved = self.admitted.borrow_mut().take(&by.user, by.address);
        let Ok(handle) = session.adopt(peer, reserved) else { return };
        let caller = caller(handle, by, !self.trusts_clients);
        self.clients.borrow_mut().insert(handle, (caller.clone(), dialect));
        session.note_caller(handle, Some(caller.clone()));
        let opened = handlers::HandlerEvent::Opened { web: dialect.web };
        let result = self.event(session, (Caller { remote: false, ..caller }, true), &opened, None);
        self.failed(session, result.map(drop));
    }

    /// Returns the decision of `.z.pw`. As in kdb+, the handle and the address are the client's, and `.z.u` is null: nobody has confirmed the
    /// name yet.
    fn authenticate(&self, session: &mut Session, user: &[u8], password: Vec<u8>, address: i32) -> bool {
        let Some(handler) = handler(session, ".z.pw") else { return true };
        let (written, Ok(user)) = (user, symbol::intern(user)) else { return false };
        let limits = session.limits();
        self.admitted.borrow_mut().forget_late().into_iter().for_each(|late| session.release_handle(late));
        let handle = session.reserve_handle();
        session.set_caller(Caller { handle, address, ..Caller::default() });
        session.begin();
        let arguments = [Value::Sym(user), Value::chars(password)];
        if !self.trusts_clients {
            session.serve_caller();
        }
        let result = signals::evaluating(|| apply(session, &handler, &arguments, &limits));
        session.set_caller(self.own.clone());
        let is_accepted = matches!(result, Ok(Value::Bool(true)));
        match is_accepted {
            true => self.admitted.borrow_mut().put(written, address, handle),
            false => session.release_handle(handle),
        }
        self.failed(session, result.map(drop));
        is_accepted
    }

    fn closed(&self, session: &mut Session, inbox: &Inbox) {
        let handle = inbox.set_number(0);
        if handle == 0 {
            return;
        }
        let is_web = session.socket(handle).is_some_and(|[protocol, _]| protocol == b'w');
        session.forget(handle);
        self.consoles.borrow_mut().remove(&handle);
        session.forget_deferred(handle);
        session.note_caller(handle, None);
        self.deferred.borrow_mut().remove(&handle);
        self.clients.borrow_mut().remove(&handle);
        let name = if is_web { ".z.wc" } else { ".z.pc" };
        if let Some(handler) = handler(session, name) {
            self.call(session, &handler, Value::Int(handle));
        }
    }
}
