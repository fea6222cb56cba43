//! What the event loop does with connections: opens, finds, writes and removes them.

use super::{Control, FIRST_CONNECTION, Slot, SyncRequest};
use crate::config::Limit;
use crate::less;
use crate::metrics;
use crate::net::connection::Connection;
use crate::net::message;
use crate::net::peer::{CloseReason, ConnId};
use crate::net::stream::Stream;
use mio::{Interest, Token};
use proto::MessageKind;
use std::cmp::Reverse;
use std::io;
use std::net::IpAddr;

impl Control {
    pub(in crate::net) fn open(&self) -> usize {
        self.open
    }

    /// Number of open connections from an address.
    pub(in crate::net) fn open_from(&self, ip: IpAddr) -> usize {
        self.addresses.get(&ip).copied().unwrap_or(0)
    }

    /// Registers a new socket.
    pub(in crate::net) fn insert(&mut self, mut stream: Stream, ip: IpAddr, local: bool) -> io::Result<ConnId> {
        let number = match self.free.pop() {
            Some(Reverse(number)) => number,
            None => {
                let number = u32::try_from(self.slots.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
                self.slots.push(Slot::default());
                number
            }
        };
        let token = Token((number as usize).saturating_add(FIRST_CONNECTION));
        // Register for both: edge-triggered readiness reports room only after a write that found none, so this costs no wake-ups.
        if let Err(error) = self.registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE) {
            self.free.push(Reverse(number));
            return Err(error);
        }
        let Some(slot) = self.slots.get_mut(number as usize) else { return Err(io::ErrorKind::NotFound.into()) };
        slot.generation = slot.generation.wrapping_add(1);
        slot.connection = Some(Box::new(Connection::new(stream, slot.generation, ip, local, self.now, &self.limits)));
        self.open = self.open.saturating_add(1);
        let from_here = self.addresses.entry(ip).or_default();
        *from_here = from_here.saturating_add(1);
        Ok(ConnId { slot: number, generation: slot.generation })
    }

    pub(in crate::net) fn by_token(&self, token: Token) -> Option<ConnId> {
        let slot = u32::try_from(token.0.checked_sub(FIRST_CONNECTION)?).ok()?;
        let generation = self.slots.get(slot as usize)?.connection.as_ref()?.generation;
        Some(ConnId { slot, generation })
    }

    /// Adds a connection to the list of those to read.
    pub(in crate::net) fn queue_read(&mut self, conn: ConnId) {
        if let Some(connection) = self.get_mut(conn)
            && !std::mem::replace(&mut connection.queued, true)
        {
            self.ready.push_back(conn);
        }
    }

    /// Continues a stalled connection if it may.
    pub(in crate::net) fn go_on(&mut self, conn: ConnId) {
        if self.may_go_on(conn)
            && let Some(connection) = self.get_mut(conn)
            && std::mem::take(&mut connection.stalled)
        {
            self.queue_read(conn);
        }
    }

    /// Closes the connections that hold the most bytes of unfinished messages until the total is within its limit, rather than whichever
    /// received last. If the unfinished message is sync, it gets an error response first.
    pub(in crate::net) fn relieve_inboxes(&mut self) {
        let most = self.limits.inboxes_bytes;
        while self.inboxes_bytes > most {
            let held = self.slots.iter().zip(0u32..).filter_map(|(slot, number)| {
                let connection = slot.connection.as_deref()?;
                Some((connection.inbox_bytes, ConnId { slot: number, generation: connection.generation }))
            });
            let Some((bytes @ 1.., conn)) = held.max_by_key(|(bytes, _)| *bytes) else { return };
            metrics::refused(Limit::inboxes_bytes);
            let why = format!("the receive buffers of all connections exceed {most} bytes (--limit-inboxes)");
            let Some(connection) = self.get_mut(conn) else { return };
            connection.inbox_bytes = 0;
            let asks = connection.frames.pending_header().is_some_and(|header| header.kind == MessageKind::Sync);
            self.inboxes_bytes = less!(self.inboxes_bytes, bytes);
            if asks && let Some(request) = self.ask(conn) {
                self.reply(request, message::error(format!("limit: {why}").as_bytes()));
            }
            self.close_with(conn, CloseReason::Limit(why));
        }
    }

    pub(in crate::net) fn close_with(&mut self, conn: ConnId, reason: CloseReason) {
        if let Some(connection) = self.get_mut(conn)
            && connection.closing.is_none()
        {
            connection.closing = Some(reason);
            self.closing.push(conn);
        }
    }

    /// Writes the send buffer as far as the socket accepts. Returns true if the threshold of [`Control::notify_below`] was reached.
    pub(in crate::net) fn write(&mut self, conn: ConnId) -> bool {
        let now = self.now;
        let Some(connection) = self.get_mut(conn) else { return false };
        let most = connection.stream.write_bytes();
        let result =
            connection.send_buffer.write_to(&mut connection.stream, most).and_then(|()| connection.stream.push());
        connection.blocked = connection.unsent_bytes() > 0;
        let left = connection.outbox_bytes();
        if left < connection.counted_bytes {
            connection.active_at = now;
        }
        let before = connection.recount(left);
        let notify = connection.notify_below.is_some_and(|below| left <= below);
        if notify {
            connection.notify_below = None;
        }
        // Also after a partial write that then failed.
        self.outboxes_bytes = less!(self.outboxes_bytes, before).saturating_add(left);
        if let Err(error) = result {
            self.close_with(conn, CloseReason::Socket(error));
        }
        self.go_on(conn);
        notify
    }

    /// Removes a connection; dropping what is returned closes its socket. Its slot is reused after [`Control::close_reported`].
    pub(in crate::net) fn remove(&mut self, conn: ConnId) -> Option<Box<Connection>> {
        self.get(conn)?;
        let mut connection = self.slots.get_mut(conn.slot as usize)?.connection.take()?;
        if let Some(session) = &connection.http {
            self.sessions.remove(&(session.by, conn));
        }
        self.open = less!(self.open, 1);
        if let Some(from_there) = self.addresses.get_mut(&connection.ip) {
            *from_there = less!(*from_there, 1);
            if *from_there == 0 {
                self.addresses.remove(&connection.ip);
            }
        }
        self.outboxes_bytes = less!(self.outboxes_bytes, connection.recount(0));
        if let (Some(peer), Some(own)) = (&connection.peer, connection.user_outbox.take()) {
            self.users.left(peer, own);
        }
        self.inboxes_bytes = less!(self.inboxes_bytes, connection.inbox_bytes);
        // The socket closes in any case, so a failure to deregister it is harmless.
        let _ = self.registry.deregister(&mut connection.stream);
        Some(connection)
    }

    pub(in crate::net) fn ask(&mut self, conn: ConnId) -> Option<SyncRequest> {
        let number = self.get_mut(conn)?.replies.ask();
        Some(SyncRequest { conn, number })
    }
}
