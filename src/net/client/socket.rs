//! The blocking client's socket: TCP with or without TLS, or Unix.

use super::ClientError;
use crate::config::Address;
use crate::config::address::UNIX;
use crate::net::listener;
use crate::net::tls::{self, TlsSocket};
use crate::sys::interrupt;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::time::{Duration, Instant};

/// Interval at which a wait checks its deadline and Ctrl-C.
pub(super) const LOOK: Duration = Duration::from_millis(50);

pub(super) enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsSocket>),
    Unix(UnixStream),
}

impl Socket {
    /// Connects by `by`, at most for `within`; with TLS, after `mark`, if the address says so. `timeout` bounds each later write.
    pub fn open(
        (address, at): (&Address, Option<SocketAddr>),
        mark: &[u8],
        (within, by): (Duration, Instant),
        timeout: Duration,
    ) -> Result<Socket, ClientError> {
        let to = address.to_string();
        let connect = |error| ClientError::Connect { to: to.clone(), error };
        let directory = match address.host.as_str() {
            UNIX => Some(listener::socket_directory().unwrap_or_else(|| listener::SOCKETS.into())),
            host => host.starts_with('/').then(|| host.into()),
        };
        if let Some(directory) = directory {
            let path = directory.join(format!("kx.{}", address.port));
            let by_name = UnixAddress::from_abstract_name(path.as_os_str().as_encoded_bytes())
                .and_then(|name| UnixStream::connect_addr(&name));
            let mut stream = by_name.or_else(|_| UnixStream::connect(&path)).map_err(connect)?;
            stream.set_write_timeout(Some(timeout)).map_err(connect)?;
            stream.write_all(mark)?;
            return Ok(Socket::Unix(stream));
        }
        let mut stream = tcp(address, at, within).map_err(connect)?;
        stream.set_nodelay(true).map_err(connect)?;
        stream.set_write_timeout(Some(timeout)).map_err(connect)?;
        stream.write_all(mark)?;
        if !address.tls {
            return Ok(Socket::Tcp(stream));
        }
        let secured = tls::connect(stream, &address.host, by);
        Ok(Socket::Tls(Box::new(secured.map_err(|reason| ClientError::Tls { to: to.clone(), reason })?)))
    }

    /// Returns a second handle of the connection, so that one thread can write while another one reads.
    pub fn writer(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
            Socket::Tls(stream) => Socket::Tls(Box::new(stream.writer()?)),
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
        })
    }

    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        // A timeout of zero is invalid for a socket.
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_micros(1)));
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(timeout),
            Socket::Tls(stream) => stream.tcp.set_read_timeout(timeout),
            Socket::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Tls(stream) => stream.read(buffer, false),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }

    /// Reads the available bytes without blocking.
    pub fn poll(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = RecvFlags::DONTWAIT;
        let (read, _) = match self {
            Socket::Tcp(stream) => recv(stream, buffer, flags)?,
            Socket::Tls(stream) => return stream.read(buffer, true),
            Socket::Unix(stream) => recv(stream, buffer, flags)?,
        };
        Ok(read)
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.write_all(bytes),
            Socket::Tls(stream) => stream.write_all(bytes),
            Socket::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// As [`Socket::write_all`], but gives up at `by` or on Ctrl-C.
    ///
    /// # Errors
    /// The socket's; `TimedOut` then, or if the other side accepts nothing for as long as a write may take. The connection is unusable.
    pub fn write_by(&mut self, bytes: &[u8], by: Option<Instant>) -> io::Result<()> {
        let longest = self.write_timeout()?;
        self.set_write_timeout(Some(LOOK))?;
        let until = Until { by, longest };
        let written = match self {
            Socket::Tcp(stream) => until.write_all(stream, bytes),
            Socket::Unix(stream) => until.write_all(stream, bytes),
            Socket::Tls(stream) => stream.write_with(bytes, |tcp, records| until.write_all(tcp, records)),
        };
        written.and(self.set_write_timeout(longest))
    }

    /// Writes as many bytes as the socket takes without blocking, and returns their number; 0 over TLS.
    pub fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let written = match self {
                Socket::Tcp(stream) => send(stream, rest, flags),
                Socket::Unix(stream) => send(stream, rest, flags),
                Socket::Tls(_) => break,
            };
            match written {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// As [`Socket::write_all`], but without a time limit.
    pub fn write_patiently(&mut self, bytes: &[u8]) -> io::Result<()> {
        let longest = self.write_timeout()?;
        self.set_write_timeout(None)?;
        let written = self.write_all(bytes);
        written.and(self.set_write_timeout(longest))
    }

    fn write_timeout(&self) -> io::Result<Option<Duration>> {
        match self {
            Socket::Unix(stream) => stream.write_timeout(),
            Socket::Tcp(stream) => stream.write_timeout(),
            Socket::Tls(stream) => stream.tcp.write_timeout(),
        }
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_write_timeout(timeout),
            Socket::Tls(stream) => stream.tcp.set_write_timeout(timeout),
            Socket::Unix(stream) => stream.set_write_timeout(timeout),
        }
    }

    pub fn as_tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Tcp(stream) => Some(stream),
            Socket::Tls(stream) => Some(&stream.tcp),
            Socket::Unix(_) => None,
        }
    }
}

/// How long a write goes on.
struct Until {
    by: Option<Instant>,
    /// Longest time in which the other side accepts nothing.
    longest: Option<Duration>,
}

impl Until {
    /// Writes to a stream whose writes return after [`LOOK`].
    fn write_all(&self, stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let (mut rest, mut accepted) = (bytes, Instant::now());
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => (rest, accepted) = (rest.get(written..).unwrap_or_default(), Instant::now()),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
            let is_late = self.by.is_some_and(|by| by <= Instant::now());
            let is_stuck = self.longest.is_some_and(|longest| accepted.elapsed() >= longest);
            if !rest.is_empty() && (is_late || is_stuck || interrupt::is_asked()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

/// Connects to one address of the host, or to the first that accepts the connection.
fn tcp(address: &Address, at: Option<SocketAddr>, timeout: Duration) -> io::Result<TcpStream> {
    let timeout = timeout.max(Duration::from_micros(1));
    if let Some(at) = at {
        return TcpStream::connect_timeout(&at, timeout);
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
