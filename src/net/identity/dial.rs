//! Blocking connections to identity services, with one deadline for everything that happens on them.

use crate::access::Url;
use crate::net::tls::{self, TlsSocket};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsSocket>),
}

/// A connection.
pub(in crate::net) struct Stream {
    socket: Socket,
    by: Instant,
    late: Late,
}

/// What is said when time is up.
type Late = fn() -> String;

impl Stream {
    /// Connects before `by`, with TLS if the address has it. `authorities` replaces the trusted certificates of the process.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) fn open(url: &Url, authorities: Option<&Path>, by: Instant) -> Result<Stream, String> {
        let stream = Stream { socket: Socket::Tcp(tcp(url, by, late)?), by, late };
        match url.is_secure {
            true => stream.secure(&url.host, authorities),
            false => Ok(stream),
        }
    }

    /// As [`Stream::open`], to a service that is none for identities, with the process's trusted certificates.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(in crate::net) fn open_for(url: &Url, by: Instant, late: Late) -> Result<Stream, String> {
        let stream = Stream { socket: Socket::Tcp(tcp(url, by, late)?), by, late };
        if url.is_secure { stream.secure(&url.host, None) } else { Ok(stream) }
    }

    /// Starts TLS on a plain connection.
    ///
    /// # Errors
    /// The server has no certificate that is trusted and has this name.
    pub(super) fn secure(self, host: &str, authorities: Option<&Path>) -> Result<Stream, String> {
        let Socket::Tcp(tcp) = self.socket else { return Ok(self) };
        let tls =
            tls::connect_to_service(tcp, host, authorities, self.by).map_err(|reason| format!("TLS: {reason}"))?;
        Ok(Stream { socket: Socket::Tls(Box::new(tls)), by: self.by, late: self.late })
    }

    /// Reads available bytes, waiting for some. 0 is the end of the stream.
    ///
    /// # Errors
    /// The socket's, or that time is up.
    pub(in crate::net) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        loop {
            let left = left(self.by, self.late)?;
            let read = match &mut self.socket {
                Socket::Tcp(tcp) => tcp.set_read_timeout(Some(left)).and_then(|()| tcp.read(buffer)),
                Socket::Tls(tls) => tls.tcp.set_read_timeout(Some(left)).and_then(|()| tls.read(buffer, false)),
            };
            match read {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(words(&error, self.late)),
            }
        }
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// The socket's, or that time is up.
    pub(in crate::net) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let left = left(self.by, self.late)?;
        let written = match &mut self.socket {
            Socket::Tcp(tcp) => tcp.set_write_timeout(Some(left)).and_then(|()| tcp.write_all(bytes)),
            Socket::Tls(tls) => tls.tcp.set_write_timeout(Some(left)).and_then(|()| tls.write_all(bytes)),
        };
        written.map_err(|error| words(&error, self.late))
    }
}

fn left(by: Instant, late: Late) -> Result<Duration, String> {
    let left = by.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left.max(Duration::from_micros(1))) }
}

fn words(error: &io::Error, late: Late) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(),
        _ => error.to_string(),
    }
}

fn late() -> String {
    crate::metrics::refused(crate::config::Limit::identity_ns);
    "no answer in time (--limit-identity-time)".to_string()
}

/// Tries each address of the host.
fn tcp(url: &Url, by: Instant, late: Late) -> Result<TcpStream, String> {
    let addresses = (url.host.as_str(), url.port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut last = "the host has no address".to_string();
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(by, late)?) {
            Ok(tcp) => {
                // A request is one small write; nothing is gained by waiting for more.
                tcp.set_nodelay(true).map_err(|error| error.to_string())?;
                return Ok(tcp);
            }
            Err(error) => last = words(&error, late),
        }
    }
    Err(last)
}
