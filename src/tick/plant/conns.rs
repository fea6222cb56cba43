//! `.u.conns`: the connections by name, and what waits for each.

use super::Plant;
use super::connection::handle;
use super::reader::Reader;
use crate::metrics::{Id, Snapshot};
use crate::net::{ConnId, Links};
use crate::protocol::long;
use crate::tick::feed::Progress;
use proto::{Writer, types};
use std::time::Duration;

/// Columns of `.u.conns`. None is a reserved word of q.
const COLUMNS: [&str; 9] = ["handle", "user", "ip", "node", "kind", "rows", "bytes", "lag", "slow"];

/// Bytes shown of a user's name, which a handshake bounds only loosely.
const MAX_USER_BYTES: usize = 64;

/// Connections with metrics of their own: those that are furthest behind.
const SHOWN: usize = 10;

/// One connection.
#[derive(Debug)]
pub(super) struct Conn {
    conn: ConnId,
    user: Vec<u8>,
    ip: String,
    /// Name of a node; empty for others.
    node: Vec<u8>,
    kind: &'static str,
    /// `None` without a subscription.
    progress: Option<Progress>,
    /// Bytes in its send buffer.
    bytes: usize,
    /// Since when it does not keep up, in local time, and for how long.
    slow: Option<(i64, Duration)>,
}

impl Plant {
    /// Returns the connections that the reader sees.
    pub(super) fn connections(&self, reader: Option<Reader<'_>>, ctl: &dyn Links) -> Vec<Conn> {
        let seen = |conn: &ConnId| reader.is_none_or(|reader| reader.sees_connection(*conn));
        ctl.connections().into_iter().filter(seen).filter_map(|conn| self.connection(conn, ctl)).collect()
    }

    fn connection(&self, conn: ConnId, ctl: &dyn Links) -> Option<Conn> {
        let peer = ctl.peer(conn)?;
        let node = self.node_name(conn);
        let progress = self.feed.progress(conn);
        let kind = match (&node, progress) {
            (Some(_), _) => "node",
            (None, Some(_)) => "subscriber",
            (None, None) => "client",
        };
        let mut user = peer.user.clone();
        user.truncate(MAX_USER_BYTES);
        let slow = self.slow.since(conn).map(|(at_ns, since)| (at_ns, ctl.now().saturating_duration_since(since)));
        let (ip, node, bytes) = (peer.ip.to_string(), node.unwrap_or_default(), ctl.outbox_bytes(conn));
        Some(Conn { conn, user, ip, node, kind, progress, bytes, slow })
    }

    fn node_name(&self, conn: ConnId) -> Option<Vec<u8>> {
        self.queue.core().by_handle(handle(conn))?.node.as_ref().map(|node| node.0.clone())
    }

    /// Returns a connection in words for the log: user and address, handle, and the node's name.
    pub(super) fn label(&self, conn: ConnId, ctl: &dyn Links) -> String {
        let handle = conn.handle();
        let peer = match ctl.peer(conn) {
            Some(peer) if peer.user.is_empty() => format!("a client without a user name at {}", peer.ip),
            Some(peer) => {
                let user = peer.user.get(..MAX_USER_BYTES).unwrap_or(&peer.user);
                format!("{}@{}", user.escape_ascii(), peer.ip)
            }
            None => "a closed connection".to_string(),
        };
        match self.node_name(conn) {
            Some(node) => format!("{peer} (handle {handle}, node {})", node.escape_ascii()),
            None => format!("{peer} (handle {handle})"),
        }
    }

    /// Notes the subscribers that have stopped keeping up.
    pub(super) fn note_slow(&mut self, ctl: &dyn Links) {
        for conn in self.feed.take_slow() {
            if self.slow.began(conn, self.time.stamp().timestamp_ns, ctl.now()) {
                let bytes = crate::metrics::health::mebibytes(ctl.outbox_bytes(conn) as u64);
                tracing::warn!(
                    "{} does not keep up: {bytes} wait for it. It is fed from the log until it has caught up (.u.conns \
                     shows its lag)",
                    self.label(conn, ctl)
                );
            }
        }
    }

    /// Notes that a subscriber has caught up, if it has.
    pub(super) fn note_caught_up(&mut self, conn: ConnId, ctl: &dyn Links) {
        if self.feed.is_at_tip(conn)
            && let Some(time) = self.slow.ended(conn, ctl.now())
        {
            tracing::info!("{} has caught up after {:.1} s", self.label(conn, ctl), time.as_secs_f64());
        }
    }

    /// Writes the metrics of the connections that are furthest behind.
    pub(super) fn put_connections(&self, ctl: &dyn Links, snapshot: &mut Snapshot) {
        let ids = [Id::ConnectionWaiting, Id::ConnectionLag, Id::ConnectionSlow];
        ids.into_iter().for_each(|id| snapshot.none(id));
        let mut waiting = ctl.connections();
        waiting.retain(|conn| ctl.outbox_bytes(*conn) > 0 || self.slow.since(*conn).is_some());
        waiting
            .sort_by_cached_key(|conn| std::cmp::Reverse((self.slow.since(*conn).is_some(), ctl.outbox_bytes(*conn))));
        for conn in waiting.into_iter().take(SHOWN).filter_map(|conn| self.connection(conn, ctl)) {
            let (user, node) = (conn.user.escape_ascii().to_string(), conn.node.escape_ascii().to_string());
            let handle = conn.conn.handle().to_string();
            let labels = [handle.as_str(), &user, &conn.ip, &node];
            snapshot.add(Id::ConnectionWaiting, &labels, conn.bytes);
            snapshot.add(Id::ConnectionLag, &labels, conn.progress.map(|progress| progress.lag));
            snapshot.add(Id::ConnectionSlow, &labels, conn.slow.map(|(_, time)| time.as_secs_f64()));
        }
    }
}

/// Writes `.u.conns`.
pub(super) fn put(conns: &[Conn], writer: &mut Writer<'_>) {
    fn longs(writer: &mut Writer<'_>, ty: i8, values: impl Iterator<Item = Option<i64>>) {
        let values: Vec<i64> = values.map(|value| value.unwrap_or(types::NULL_LONG)).collect();
        writer.vector(ty, types::ATTR_NONE, &values);
    }
    writer.table_head(COLUMNS);
    let handles: Vec<i32> = conns.iter().map(|conn| conn.conn.handle()).collect();
    writer.vector(types::INT, types::ATTR_NONE, &handles);
    writer.symbols(conns.iter().map(|conn| &conn.user));
    writer.symbols(conns.iter().map(|conn| &conn.ip));
    writer.symbols(conns.iter().map(|conn| &conn.node));
    writer.symbols(conns.iter().map(|conn| conn.kind));
    longs(writer, types::LONG, conns.iter().map(|conn| conn.progress.map(|progress| long(progress.rows))));
    longs(writer, types::LONG, conns.iter().map(|conn| Some(long(conn.bytes as u64))));
    longs(writer, types::LONG, conns.iter().map(|conn| conn.progress.map(|progress| long(progress.lag))));
    longs(writer, types::TIMESTAMP, conns.iter().map(|conn| conn.slow.map(|(at_ns, _)| at_ns)));
}
