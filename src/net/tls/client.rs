//! TLS of a blocking connection to another process. One thread may read while another one writes.

use super::explain::explain;
use super::process;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of one read of the socket.
const READ_BYTES: usize = 64 << 10;
/// Plain bytes encrypted for one write.
const WRITE_BYTES: usize = 64 << 10;

struct Shared {
    tls: Mutex<ClientConnection>,
    /// Held from encrypting to the end of the write, because records must leave in order. The state is not held during the write: a reader
    /// that waited for it could not empty the socket of a peer that reads no more before its own writes are read.
    writing: Mutex<()>,
}

impl Shared {
    fn tls(&self) -> MutexGuard<'_, ClientConnection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A TCP connection with TLS.
pub struct TlsSocket {
    pub(in crate::net) tcp: TcpStream,
    shared: Arc<Shared>,
    /// Received and not yet decrypted: from `used` to `end`.
    raw: Vec<u8>,
    used: usize,
    end: usize,
    is_reader: bool,
}

/// Completes the TLS handshake before `by`.
///
/// # Errors
/// Why there is no connection, in words.
pub(in crate::net) fn connect(tcp: TcpStream, host: &str, by: Instant) -> Result<TlsSocket, String> {
    handshake(process::client_config()?, tcp, host, by)
}

/// As [`connect`], to an identity service: its certificate is always verified, by the authorities of a file if there is one, and the
/// process's own certificate is not sent.
///
/// # Errors
/// Why there is no connection, in words.
pub(in crate::net) fn connect_to_service(
    tcp: TcpStream,
    host: &str,
    authorities: Option<&Path>,
    by: Instant,
) -> Result<TlsSocket, String> {
    handshake(Arc::new(process::service_config(authorities)?), tcp, host, by)
}

fn handshake(config: Arc<ClientConfig>, tcp: TcpStream, host: &str, by: Instant) -> Result<TlsSocket, String> {
    let name = ServerName::try_from(host.to_string()).map_err(|_| format!("{host:?} is no host name"))?;
    let mut tls = ClientConnection::new(config, name).map_err(|error| explain(&error))?;
    let mut tcp = tcp;
    while tls.is_handshaking() {
        if let Err(error) = step(&mut tls, &mut tcp, by) {
            return Err(match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no TLS handshake in time".to_string(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                    "the server closed the connection; does it listen with TLS (-E 1 or -E 2)?".to_string()
                }
                _ => error.to_string(),
            });
        }
    }
    let shared = Arc::new(Shared { tls: Mutex::new(tls), writing: Mutex::new(()) });
    let mut socket = TlsSocket { tcp, shared, raw: vec![0; READ_BYTES], used: 0, end: 0, is_reader: true };
    // The last message of the handshake.
    socket.write_all(&[]).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Writes what the handshake has to send, then reads once.
fn step(tls: &mut ClientConnection, tcp: &mut TcpStream, by: Instant) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(tcp)?;
    }
    let left = by.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    tcp.set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
    match tls.read_tls(tcp) {
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Err(error) = tls.process_new_packets() {
        // The alert tells the server why.
        let _ = tls.write_tls(tcp);
        return Err(io::Error::new(io::ErrorKind::InvalidData, explain(&error)));
    }
    Ok(())
}

impl TlsSocket {
    /// Reads, waiting for bytes unless `now`. 0 is the end of the stream.
    ///
    /// # Errors
    /// The socket's; `Interrupted` after a part of a record, so that the caller can look at its deadline; `InvalidData` for bytes that are
    /// not TLS or were changed on the way.
    pub(in crate::net) fn read(&mut self, buffer: &mut [u8], now: bool) -> io::Result<usize> {
        if let Some(read) = self.decrypt(buffer)? {
            return Ok(read);
        }
        let read = match now {
            true => recv(&self.tcp, self.raw.as_mut_slice(), RecvFlags::DONTWAIT)?.0,
            false => self.tcp.read(&mut self.raw)?,
        };
        (self.used, self.end) = (0, read);
        if read == 0 {
            return Ok(0);
        }
        self.decrypt(buffer)?.ok_or_else(|| io::ErrorKind::Interrupted.into())
    }

    /// Decrypts received bytes until some can be read. Returns `None` if more must be received first.
    fn decrypt(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut tls = self.shared.tls();
        let mut filled = 0usize;
        loop {
            match tls.reader().read(buffer.get_mut(filled..).unwrap_or_default()) {
                Ok(0) if filled < buffer.len() => return Ok(Some(filled)),
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let mut rest = self.raw.get(self.used..self.end).unwrap_or_default();
            if rest.is_empty() || filled == buffer.len() {
                return Ok((filled > 0).then_some(filled));
            }
            self.used = self.used.saturating_add(tls.read_tls(&mut rest)?);
            if let Err(error) = tls.process_new_packets() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, explain(&error)));
            }
        }
    }

    /// Encrypts and writes all bytes.
    ///
    /// # Errors
    /// The socket's, after which the connection is unusable.
    pub(in crate::net) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_with(bytes, |tcp, records| tcp.write_all(records))
    }

    /// As [`TlsSocket::write_all`], where `write` writes all of the encrypted records.
    ///
    /// # Errors
    /// As [`TlsSocket::write_all`].
    pub(in crate::net) fn write_with(
        &mut self,
        bytes: &[u8],
        write: impl Fn(&mut TcpStream, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let _writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = bytes;
        loop {
            let (part, after) = rest.split_at(rest.len().min(WRITE_BYTES));
            write(&mut self.tcp, &encrypt(&shared, part)?)?;
            rest = after;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Returns a second handle for writing by another thread.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::net) fn writer(&self) -> io::Result<TlsSocket> {
        let tcp = self.tcp.try_clone()?;
        Ok(TlsSocket { tcp, shared: Arc::clone(&self.shared), raw: Vec::new(), used: 0, end: 0, is_reader: false })
    }
}

/// Returns everything that is to be sent, with these plain bytes at its end.
fn encrypt(shared: &Shared, plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut tls = shared.tls();
    // Nothing is left unsent from before, so the limit of its buffer is not reached by one part.
    tls.set_buffer_limit(None);
    tls.writer().write_all(plain)?;
    let mut records = Vec::with_capacity(plain.len().saturating_add(1024));
    while tls.wants_write() {
        tls.write_tls(&mut records)?;
    }
    Ok(records)
}

impl Drop for TlsSocket {
    fn drop(&mut self) {
        if self.is_reader {
            self.shared.tls().send_close_notify();
            if let Ok(records) = encrypt(&self.shared, &[]) {
                // Only if the socket has room: a peer that does not read must not hold up the end.
                let _ = send(&self.tcp, &records, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
        }
    }
}
