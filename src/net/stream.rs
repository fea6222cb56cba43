//! A connected stream socket, TCP or Unix, with or without TLS.

use super::tls::Session;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    /// Present once the peer has begun TLS.
    pub(super) tls: Option<Box<Session>>,
}

impl Stream {
    pub(super) fn tcp(stream: TcpStream) -> Stream {
        Stream { socket: Socket::Tcp(stream), tls: None }
    }

    pub(super) fn unix(stream: UnixStream) -> Stream {
        Stream { socket: Socket::Unix(stream), tls: None }
    }

    /// Returns the TCP socket, if it is one.
    pub(super) fn as_tcp(&self) -> Option<&TcpStream> {
        match &self.socket {
            Socket::Tcp(stream) => Some(stream),
            Socket::Unix(_) => None,
        }
    }

    /// Reads bytes of a TLS handshake; see [`Session::receive`].
    pub(super) fn receive_handshake(&mut self) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.receive(&mut self.socket),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether a read would find bytes, or the end, that the system reports no more.
    pub(super) fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_more())
    }

    /// Bytes received and not yet returned by a read.
    pub(super) fn held_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.held_bytes())
    }

    /// Bytes accepted by a write that the socket has not taken yet.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.unsent_bytes())
    }

    /// Bytes to offer in one write.
    pub(super) fn write_bytes(&self) -> usize {
        if self.tls.is_some() { Session::WRITE_BYTES } else { usize::MAX }
    }

    /// Writes the unsent bytes as far as the socket takes them.
    pub(super) fn push(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.push(&mut self.socket),
            None => Ok(()),
        }
    }

    /// Shuts down the writing direction.
    pub(super) fn shutdown_write(&mut self) -> io::Result<()> {
        self.say_goodbye();
        match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Sends TLS's own end of stream, which shows the peer that nothing was cut off.
    pub(super) fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.socket);
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write_vectored(slices),
            Socket::Unix(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(tls) => tls.read(&mut self.socket, buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write_vectored(slices),
            Some(tls) => tls.write(&mut self.socket, slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.register(registry, token, interests),
            Socket::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.reregister(registry, token, interests),
            Socket::Unix(stream) => stream.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => stream.deregister(registry),
            Socket::Unix(stream) => stream.deregister(registry),
        }
    }
}
