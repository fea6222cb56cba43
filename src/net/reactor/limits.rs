//! Limits of the event loop.

use crate::config::{Limit, Limits};
use crate::net::account::Account;
use crate::net::identity::Bounds;
use std::sync::Arc;
use std::time::Duration;

/// Limits of the event loop; see `config::limits` for their meaning.
#[derive(Clone, Debug)]
pub struct NetLimits {
    pub message_bytes: u64,
    /// The configuration limit that `message_bytes` comes from.
    pub message_limit: Limit,
    pub decompressed_bytes: u64,
    pub compression_ratio: u64,
    /// Received messages that are not handled yet.
    pub pending: Arc<Account>,
    pub depth: usize,
    pub connections: usize,
    /// Connections of one address, of one user, and those that have not logged in.
    pub address_connections: usize,
    pub user_connections: usize,
    pub half_open: usize,
    /// Bytes that wait to be sent to one user.
    pub user_outbox_bytes: usize,
    /// Time after which an idle client is disconnected; 0 for never.
    pub idle: Duration,
    /// Of all connections, those that only nodes and operators may use.
    pub reserved_connections: usize,
    pub handshake_bytes: usize,
    pub handshake_time: Duration,
    /// Steps of TLS handshakes that may wait for a thread.
    pub tls_handshakes: usize,
    pub inboxes_bytes: usize,
    pub outbox_bytes: usize,
    pub outboxes_bytes: usize,
    /// Pending sync requests per connection; at the limit it is not read until one has its response.
    pub open_requests: usize,
    pub http_connections: usize,
    pub http_request_bytes: usize,
    pub http_body_bytes: usize,
    /// Logins whose password hash waits to be computed.
    pub logins: usize,
    /// Requests to identity services.
    pub(in crate::net) identity: Bounds,
    pub web_message_bytes: usize,
    pub http_time: Duration,
    pub http_idle: Duration,
}

impl NetLimits {
    pub fn of(limits: &Limits) -> NetLimits {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        NetLimits {
            message_bytes: limits.message_bytes.min(limits.inbox_bytes),
            message_limit: if limits.inbox_bytes < limits.message_bytes {
                Limit::inbox_bytes
            } else {
                Limit::message_bytes
            },
            decompressed_bytes: limits.decompressed_bytes,
            compression_ratio: limits.compression_ratio,
            pending: Account::new(limits.pending_bytes),
            depth: size(limits.depth),
            connections: size(limits.connections),
            address_connections: size(limits.address_connections),
            user_connections: size(limits.user_connections),
            half_open: size(limits.half_open),
            user_outbox_bytes: size(limits.user_outbox_bytes),
            idle: Duration::from_nanos(limits.idle_ns),
            reserved_connections: size(limits.reserved_connections),
            handshake_bytes: size(limits.handshake_bytes),
            handshake_time: Duration::from_nanos(limits.handshake_ns),
            tls_handshakes: size(limits.tls_handshakes),
            inboxes_bytes: size(limits.inboxes_bytes),
            outbox_bytes: size(limits.outbox_bytes),
            outboxes_bytes: size(limits.outboxes_bytes),
            open_requests: 1 << 16,
            http_connections: size(limits.http_connections),
            http_request_bytes: size(limits.http_request_bytes),
            http_body_bytes: size(limits.http_body_bytes),
            logins: size(limits.logins),
            identity: Bounds {
                waiting: size(limits.identity_logins),
                time: Duration::from_nanos(limits.identity_ns),
                bytes: size(limits.identity_bytes),
            },
            web_message_bytes: size(limits.web_message_bytes),
            http_time: Duration::from_nanos(limits.http_time_ns),
            http_idle: Duration::from_nanos(limits.http_idle_ns),
        }
    }

    /// The limits that apply to the codec.
    pub fn codec(&self) -> proto::Limits {
        proto::Limits {
            max_message_bytes: self.message_bytes,
            max_decompressed_bytes: self.decompressed_bytes,
            max_depth: self.depth,
        }
    }
}
