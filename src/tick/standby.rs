//! Clients of a tickerplant that is not active: they learn its state, or are handed through to the active one.
//!
//! A client that sends an update or a query gets as its error where the active tickerplant is. An async message has no response, so its connection is
//! closed: a publisher must not believe that it was heard.

pub mod service;

use super::forward::Forward;
use super::globals::SharedGlobals;
use super::program::{self, Logins};
use crate::net::forward::Diverted;
use crate::net::{ConnId, Control, Login, message};
use crate::protocol::{TickState, names};
use proto::{Header, Limits, MessageKind, View};
use std::net::IpAddr;
use std::sync::Arc;

/// What a passive tickerplant and one that copies a log do with their clients.
pub struct Standby {
    codec: Limits,
    /// Decides on users by the owner's `.z.pw`, with the globals that it needs.
    logins: Option<(Logins, Arc<SharedGlobals>)>,
    has_secret: bool,
    /// Hands clients through to the active tickerplant.
    forward: Option<Forward>,
}

impl Standby {
    pub fn new(
        codec: Limits,
        (logins, has_secret): (Option<(Logins, Arc<SharedGlobals>)>, bool),
        forward: Option<Forward>,
    ) -> Standby {
        Standby { codec, logins, has_secret, forward }
    }

    fn login(&self, conn: ConnId, user: &[u8], password: &[u8]) -> Login {
        let Some((logins, globals)) = &self.logins else { return Login::Admitted };
        if program::is_cluster(user, self.has_secret) {
            return Login::Admitted;
        }
        logins.submit(conn, user, password, globals.current());
        Login::Later
    }

    /// Answers a call of `.u.state` with the state, and every other message with the refusal.
    fn answer(
        &self,
        conn: ConnId,
        (header, body): (&Header, &[u8]),
        ctl: &mut Control,
        refusal: impl FnOnce() -> String,
        state: impl FnOnce() -> TickState,
    ) {
        if header.kind == MessageKind::Response {
            return;
        }
        let Some(request) = ctl.request() else {
            let refusal = refusal();
            // A client can cause one for each connection that it opens.
            tracing::debug!(handle = conn.handle(), "async message rejected, connection closed: {refusal}");
            return ctl.close(conn, refusal);
        };
        let asks = match View::parse(body, header.endian, &self.codec) {
            Ok((view, used)) if used == body.len() => asks_for_state(&view),
            Ok(_) => return ctl.reply(request, message::error(b"badmsg: bytes after the object")),
            Err(error) => return ctl.no_object(conn, error),
        };
        if !asks {
            return ctl.reply(request, message::error(refusal().as_bytes()));
        }
        let answer = message::message(MessageKind::Response, |writer| state().put(writer));
        let answer = answer.unwrap_or_else(|error| message::error(error.to_string().as_bytes()));
        ctl.reply(request, answer);
    }

    /// Why the active tickerplant could not be reached for the last client.
    fn unreached(&self) -> Option<&str> {
        self.forward.as_ref().and_then(Forward::unreached)
    }

    /// Whether a new client is handed through.
    fn diverts(&self, conn: ConnId) -> bool {
        self.forward.as_ref().is_some_and(|forward| forward.dial(conn))
    }

    fn take(&self, conn: ConnId, diverted: Option<Diverted>) {
        if let Some(forward) = &self.forward {
            forward.take(conn, diverted);
        }
    }

    /// Number of forwarded connections, and of those from one address.
    fn forwarded(&self, ip: IpAddr) -> (usize, usize) {
        self.forward.as_ref().map_or((0, 0), |forward| forward.open(ip))
    }

    /// Passes on what the threads of logins and of forwarding have decided.
    fn woken(&mut self, ctl: &mut Control) {
        while let Some((conn, admitted)) = self.logins.as_ref().and_then(|(logins, _)| logins.decided()) {
            ctl.admit(conn, admitted);
        }
        while let Some((conn, is_reached)) = self.forward.as_mut().and_then(Forward::reached) {
            ctl.divert(conn, is_reached);
        }
    }
}

/// Whether a message is a call of `.u.state`, as text or as a list.
fn asks_for_state(view: &View<'_>) -> bool {
    if let Some(text) = view.chars() {
        let text = text.trim_ascii();
        return [b".u.state[]".as_slice(), b".u.state"].contains(&text);
    }
    let first = view.list().and_then(|items| items.iter().next());
    first.unwrap_or(*view).text() == Some(names::STATE.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Writer};

    fn asks(put: impl FnOnce(&mut Writer<'_>)) -> bool {
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        put(&mut writer);
        writer.finish().unwrap();
        asks_for_state(&View::parse(&object, Endian::Little, &Limits::default()).unwrap().0)
    }

    #[test]
    fn the_state_is_asked_for_in_text_or_by_name() {
        assert!(asks(|w| w.chars(" .u.state[] ")) && asks(|w| w.chars(".u.state")) && asks(|w| w.symbol(".u.state")));
        assert!(asks(|w| {
            w.list_head(2);
            w.symbol(".u.state");
            w.null();
        }));
        assert!(!asks(|w| w.chars(".u.state[];1")) && !asks(|w| w.symbol(".u.sub")) && !asks(|w| w.atom_long(1)));
    }
}
