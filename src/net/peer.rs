//! The remote end of a connection, and the reason a connection ended.

use super::tls::{Certificate, Secured};
use crate::access::Grants;
use crate::audit::Who;
use crate::sys::interrupt::Cancel;
use proto::DecodeError;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Identity of a connection. Never reused, unlike its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// kdb+ uses 0, 1 and 2 for the console; files and listeners come next.
const FIRST_HANDLE: i32 = 5;

impl ConnId {
    /// For other networks (the simulator's); in the event loop the slots assign them.
    pub const fn new(slot: u32, generation: u32) -> ConnId {
        ConnId { slot, generation }
    }

    /// The handle as q sees it (`.z.w`): small, and reused after the connection closes.
    pub fn handle(self) -> i32 {
        i32::try_from(self.slot).unwrap_or(i32::MAX).saturating_add(FIRST_HANDLE)
    }

    /// A number unique among all connections of the process; never 0.
    pub fn number(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.slot)
    }

    /// The slot of a handle.
    pub(super) fn slot_of(handle: i32) -> Option<u32> {
        u32::try_from(handle.checked_sub(FIRST_HANDLE)?).ok()
    }
}

/// The remote end, after its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// As given in the handshake; may be empty.
    pub user: Vec<u8>,
    /// Its address; 0.0.0.0 for a Unix socket.
    pub ip: std::net::IpAddr,
    /// The agreed capability, 0 to 6.
    pub capability: u8,
    /// Its error responses give a reason: a console has requested it.
    pub explains: bool,
    /// On this machine: messages are not compressed.
    pub local: bool,
    /// What it may do.
    pub grants: Arc<Grants>,
    /// Its TLS; `None` on a plain connection.
    pub tls: Option<Arc<Secured>>,
    /// Set once it reads no more responses: its sync queries stop.
    pub gone: Cancel,
}

impl Peer {
    /// The verified certificate that it sent; only with `SSL_VERIFY_CLIENT=YES`.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.tls.as_ref()?.certificate.as_ref()
    }

    /// Returns the peer as the audit log names it.
    pub fn who(&self, conn: ConnId) -> Who {
        Who {
            user: self.user.clone(),
            address: Some(self.ip),
            handle: Some(conn.handle()),
            certificate: self.certificate().map(|certificate| certificate.subject.clone()),
        }
    }

    /// `.z.e`: cipher and protocol.
    pub fn z_e(&self) -> Option<(String, &'static str)> {
        self.tls.as_ref().map(|tls| (tls.cipher.clone(), tls.protocol))
    }

    /// `.z.a`: an IPv4 address as an int, 0 for anything else.
    pub fn z_a(&self) -> i32 {
        z_a(self.ip)
    }
}

/// `.z.a` of an address.
pub fn z_a(ip: IpAddr) -> i32 {
    match ip {
        IpAddr::V4(ip) => i32::from_be_bytes(ip.octets()),
        IpAddr::V6(_) => 0,
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user.is_empty() {
            true => write!(f, "{}", self.ip),
            false => write!(f, "{}@{}", self.user.escape_ascii(), self.ip),
        }
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub enum CloseReason {
    /// The peer closed it.
    Peer,
    /// The socket failed.
    Socket(io::Error),
    /// Bytes that are not a message, or a message over a limit.
    Malformed(DecodeError),
    /// A failed TLS handshake.
    Tls(String),
    /// A missing, rejected or late handshake.
    Handshake(&'static str),
    /// A limit of this process.
    Limit(String),
    /// Closed by the service.
    Service(String),
    /// The process is shutting down.
    Shutdown,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Peer => f.write_str("closed by the peer"),
            CloseReason::Socket(error) => write!(f, "socket: {error}"),
            CloseReason::Malformed(error) => write!(f, "{error}"),
            CloseReason::Tls(what) => write!(f, "TLS: {what}"),
            CloseReason::Handshake(what) => write!(f, "'access: {what}"),
            CloseReason::Limit(what) => write!(f, "'limit: {what}"),
            CloseReason::Service(what) => f.write_str(what),
            CloseReason::Shutdown => f.write_str("shutting down"),
        }
    }
}
