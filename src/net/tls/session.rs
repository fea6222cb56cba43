//! TLS of one connection of the event loop. All of its I/O is done on the loop; the steps of its handshake run on the threads of
//! [`super::handshakes`], because they cost a millisecond.

use super::certificate::{self, Certificate};
use super::handshakes::{Job, Step};
use rustls::{ServerConfig, ServerConnection};
use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

/// Header of a TLS record: type, version, length.
const HEADER_BYTES: usize = 5;
/// More than a record and its authentication add to the plain bytes.
const OVERHEAD_BYTES: usize = 40;
const RECORD_BYTES: usize = 16 << 10;
/// Bytes of one read of the socket.
const READ_BYTES: usize = 64 << 10;
/// The longest record that TLS allows. A longer one is passed on unread, to be rejected.
const MAX_RECORD_BYTES: usize = RECORD_BYTES + 2048 + HEADER_BYTES;

thread_local! {
    /// Bytes of one read, before they are decrypted.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Protocol, cipher and peer of an established TLS connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// `TLSv1.2` or `TLSv1.3`.
    pub protocol: &'static str,
    /// OpenSSL's name of the cipher suite.
    pub cipher: String,
    /// The peer's verified certificate, if it sent one.
    pub certificate: Option<Certificate>,
}

/// TLS state of one connection.
#[derive(Debug)]
pub(in crate::net) struct Session {
    /// `None` while a handshake thread works on it.
    tls: Option<Box<ServerConnection>>,
    secured: Option<Arc<Secured>>,
    /// Received and not yet decrypted.
    raw: Vec<u8>,
    /// Upper bound of the bytes decrypted and not yet read.
    plain_bytes: usize,
    /// Estimate of the encrypted bytes to send; 0 if there are none.
    unsent: usize,
    /// The last read of the socket was full, or found its end.
    has_more: bool,
    has_ended: bool,
}

impl Session {
    /// Plain bytes to encrypt before the socket has taken them; bounds what [`Session::unsent_bytes`] returns.
    pub(in crate::net) const WRITE_BYTES: usize = 128 << 10;

    /// Begins a handshake with the bytes already received.
    ///
    /// # Errors
    /// rustls's, for a configuration that cannot work.
    pub(in crate::net) fn new(config: Arc<ServerConfig>, received: &[u8]) -> Result<Session, rustls::Error> {
        let mut tls = ServerConnection::new(config)?;
        tls.set_buffer_limit(Some(Session::WRITE_BYTES));
        Ok(Session {
            tls: Some(Box::new(tls)),
            secured: None,
            raw: received.to_vec(),
            plain_bytes: 0,
            unsent: 0,
            has_more: false,
            has_ended: false,
        })
    }

    /// Protocol, cipher and peer; `None` before the end of the handshake.
    pub(in crate::net) fn secured(&self) -> Option<&Arc<Secured>> {
        self.secured.as_ref()
    }

    pub(in crate::net) fn has_more(&self) -> bool {
        self.has_more || !self.raw.is_empty()
    }

    pub(in crate::net) fn held_bytes(&self) -> usize {
        self.raw.len().saturating_add(self.plain_bytes)
    }

    pub(in crate::net) fn unsent_bytes(&self) -> usize {
        self.unsent
    }

    /// Reads bytes of the handshake, if no step is running: they would not be used yet. 0 is the end of the stream.
    ///
    /// # Errors
    /// The socket's.
    pub(in crate::net) fn receive(&mut self, socket: &mut impl Read) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let read = socket.read(&mut buffer)?;
        self.raw.extend_from_slice(buffer.get(..read).unwrap_or_default());
        self.has_more = read == buffer.len();
        Ok(read)
    }

    /// Whether a handshake thread works on it.
    pub(in crate::net) fn is_away(&self) -> bool {
        self.tls.is_none()
    }

    /// Returns the next step of the handshake, for a handshake thread, once a whole record has been received: a peer that sends byte by
    /// byte occupies no thread.
    pub(in crate::net) fn next_step(&mut self) -> Option<Step> {
        let length = self.raw.get(3..HEADER_BYTES).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok())?;
        let whole = usize::from(u16::from_be_bytes(length)).saturating_add(HEADER_BYTES);
        if self.raw.len() < whole && whole <= MAX_RECORD_BYTES {
            return None;
        }
        Some(Step { tls: self.tls.take()?, raw: std::mem::take(&mut self.raw) })
    }

    /// Takes the state back after a step.
    ///
    /// # Errors
    /// The step's: the handshake has failed.
    pub(in crate::net) fn step_done(&mut self, job: Job) -> Result<(), rustls::Error> {
        let Job { step, outcome, .. } = job;
        self.raw = step.raw;
        // What the step has to send is a few KiB.
        self.unsent = if step.tls.wants_write() { RECORD_BYTES } else { 0 };
        if outcome.is_ok() && !step.tls.is_handshaking() {
            self.secured = Some(Arc::new(secured(&step.tls)));
        }
        self.tls = Some(step.tls);
        outcome
    }

    /// Reads until `room` is full or the socket is empty. 0 is the end of the stream.
    ///
    /// # Errors
    /// The socket's; `InvalidData` for bytes that are not TLS or were changed on the way.
    pub(in crate::net) fn read(&mut self, socket: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
        let raw = std::mem::take(&mut self.raw);
        let mut filled = self.decrypt(&raw, room)?;
        let mut is_empty = false;
        self.has_more = false;
        loop {
            if filled == room.len() || self.has_ended || (is_empty && filled > 0) {
                self.has_more = self.has_ended && filled > 0;
                return Ok(filled);
            }
            match self.refill(socket, room.get_mut(filled..).unwrap_or_default()) {
                Ok((received, read)) => {
                    is_empty = received < READ_BYTES;
                    filled = filled.saturating_add(read);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && filled > 0 => return Ok(filled),
                Err(error) if filled > 0 => {
                    tracing::debug!(%error, "a TLS connection failed after its last bytes");
                    self.has_ended = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the socket once. Returns the bytes received, and the plain bytes.
    fn refill(&mut self, socket: &mut impl Read, room: &mut [u8]) -> io::Result<(usize, usize)> {
        SCRATCH.with_borrow_mut(|scratch| {
            let received = socket.read(scratch)?;
            self.has_ended |= received == 0;
            let read = self.decrypt(scratch.get(..received).unwrap_or_default(), room)?;
            Ok((received, read))
        })
    }

    /// Decrypts received bytes until `room` is full, and keeps the others. Returns the plain bytes.
    fn decrypt(&mut self, received: &[u8], room: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return Err(io::ErrorKind::WouldBlock.into()) };
        let mut filled = 0usize;
        let mut rest = received;
        loop {
            match tls.reader().read(room.get_mut(filled..).unwrap_or_default()) {
                Ok(0) if filled < room.len() => {
                    self.has_ended = true;
                    self.plain_bytes = 0;
                    return Ok(filled);
                }
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if filled == room.len() || rest.is_empty() {
                break;
            }
            tls.read_tls(&mut rest)?;
            if let Err(error) = tls.process_new_packets() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, super::explain(&error)));
            }
        }
        // Nothing to keep in an idle connection.
        self.raw = rest.to_vec();
        self.plain_bytes = if filled < room.len() { 0 } else { RECORD_BYTES };
        Ok(filled)
    }

    /// Encrypts and writes. Returns the plain bytes taken, which are then this session's to send.
    ///
    /// # Errors
    /// The socket's; `WouldBlock` if earlier bytes are still unsent.
    pub(in crate::net) fn write(&mut self, socket: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.push(socket)?;
        if self.unsent > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some(tls) = &mut self.tls else { return Err(io::ErrorKind::WouldBlock.into()) };
        let taken = tls.writer().write_vectored(slices)?;
        let records = taken.div_ceil(RECORD_BYTES);
        self.unsent = taken.saturating_add(records.saturating_mul(OVERHEAD_BYTES));
        self.push(socket)?;
        Ok(taken)
    }

    /// Writes the unsent bytes as far as the socket takes them.
    ///
    /// # Errors
    /// The socket's, except `WouldBlock`.
    pub(in crate::net) fn push(&mut self, socket: &mut impl Write) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            match tls.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.unsent = self.unsent.saturating_sub(written).max(1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent = self.unsent.max(1);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.unsent = 0;
        Ok(())
    }

    /// Ends the stream in the writing direction, if the socket takes it at once.
    pub(in crate::net) fn close(&mut self, socket: &mut impl Write) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // A peer that is gone needs no notice.
            let _ = self.push(socket);
        }
    }
}

fn secured(tls: &ServerConnection) -> Secured {
    let protocol = match tls.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    };
    let cipher = tls.negotiated_cipher_suite().map(|suite| openssl_name(suite.suite()));
    let certificate = tls.peer_certificates().and_then(|chain| chain.first()).and_then(|der| {
        certificate::read(der)
            .map(|read| read.certificate)
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot read the names in a client's certificate");
            })
            .ok()
    });
    Secured { protocol, cipher: cipher.unwrap_or_default(), certificate }
}

/// Returns OpenSSL's name of a cipher suite, as kdb+ shows it.
fn openssl_name(suite: rustls::CipherSuite) -> String {
    let name = suite.as_str().unwrap_or("unknown");
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let name =
        name.strip_prefix("TLS_").unwrap_or(name).replace("_WITH_", "_").replace("AES_", "AES").replace('_', "-");
    match name.strip_suffix("-POLY1305-SHA256") {
        Some(start) => format!("{start}-POLY1305"),
        None => name,
    }
}

#[cfg(test)]
mod tests;
