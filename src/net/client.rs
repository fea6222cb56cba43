//! The blocking client of a kdb+ process, used by nodes, feeds, tools and tests.

mod socket;
pub mod web;

use super::forward::STAYS;
use super::keepalive;
use crate::config::Address;
use crate::points::{self, Point};
use proto::{
    Compression, DecodeError, EncodeError, FrameReader, Header, Limits, MessageKind, Value, View, Writer, compress,
    decode, encode, handshake,
};
use socket::Socket;
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Queued bytes at which a write happens without a flush.
const BATCH_BYTES: usize = 64 << 10;

/// Error of a connection or a request.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("cannot connect to {to}: {error}")]
    Connect { to: String, error: io::Error },
    #[error("cannot connect to {to} with TLS: {reason}")]
    Tls { to: String, reason: String },
    /// The server closed the connection instead of accepting the handshake.
    #[error("'access: {0} rejected the user or password")]
    Refused(String),
    /// Of several addresses none is that of an active tickerplant.
    #[error("no address is that of an active tickerplant: {0}")]
    NoneActive(String),
    #[error("connection closed")]
    Closed,
    #[error("timed out waiting for a reply")]
    Timeout,
    #[error("connection failed: {0}")]
    Io(io::Error),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// The server's error response, by its kdb+ name.
    #[error("'{}", .0.escape_ascii())]
    Server(Vec<u8>),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Timeout,
            io::ErrorKind::UnexpectedEof => ClientError::Closed,
            _ => ClientError::Io(error),
        }
    }
}

impl ClientError {
    /// Whether the connection remains usable.
    pub fn is_answer(&self) -> bool {
        matches!(self, ClientError::Server(_) | ClientError::Encode(_))
    }

    /// Whether a passive tickerplant refuses the request.
    pub fn is_of_passive(&self) -> bool {
        matches!(self, ClientError::Server(text) if text.starts_with(b"passive:"))
    }
}

/// A received message: its header, and the bytes of its object, decompressed.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub header: Header,
    pub body: Vec<u8>,
}

impl Incoming {
    /// Whether the object is an error.
    pub fn is_error(&self) -> bool {
        self.body.first().is_some_and(|ty| ty.cast_signed() == proto::types::ERROR)
    }

    /// Returns the object, validated; an error object is a [`ClientError::Server`].
    ///
    /// # Errors
    /// If the bytes are not an object, or the object is an error.
    pub fn view(&self, limits: &Limits) -> Result<View<'_>, ClientError> {
        view(&self.header, &self.body, limits)
    }
}

/// Returns the object of a message, validated; an error object is a [`ClientError::Server`].
///
/// # Errors
/// If the bytes are not an object, or the object is an error.
pub fn view<'a>(header: &Header, body: &'a [u8], limits: &Limits) -> Result<View<'a>, ClientError> {
    let (view, _) = View::parse(body, header.endian, limits)?;
    match view.error() {
        Some(text) => Err(ClientError::Server(text.to_vec())),
        None => Ok(view),
    }
}

/// The writing half of a connection, for use by another thread than the reader.
pub struct WriteHalf {
    socket: Socket,
}

impl WriteHalf {
    /// Writes bytes that are whole messages.
    ///
    /// # Errors
    /// `Io`; `Timeout` if the server accepts nothing for too long.
    pub fn send(&mut self, messages: &[u8]) -> Result<(), ClientError> {
        Ok(self.socket.write_all(messages)?)
    }

    /// As [`WriteHalf::send`], but gives up at `by` or on Ctrl-C.
    ///
    /// # Errors
    /// As [`WriteHalf::send`]; after `Timeout` the connection is unusable.
    pub fn send_by(&mut self, messages: &[u8], by: Option<Instant>) -> Result<(), ClientError> {
        Ok(self.socket.write_by(messages, by)?)
    }

    /// Writes as many bytes as the socket takes without blocking, and returns their number; 0 over TLS, as a TLS record must be written whole.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn send_now(&mut self, messages: &[u8]) -> Result<usize, ClientError> {
        Ok(self.socket.write_now(messages)?)
    }

    /// As [`WriteHalf::send`], but without a time limit: returns when everything is written or the connection fails.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn send_patiently(&mut self, messages: &[u8]) -> Result<(), ClientError> {
        Ok(self.socket.write_patiently(messages)?)
    }

    /// As [`WriteHalf::send`] before a close, which a server that does not read must not delay.
    ///
    /// # Errors
    /// As [`WriteHalf::send`].
    pub fn send_last(&mut self, message: &[u8]) -> Result<(), ClientError> {
        /// Longest wait for room in the send buffer.
        const MOMENT: Duration = Duration::from_millis(100);
        if let Some(stream) = self.socket.as_tcp() {
            stream.set_write_timeout(Some(MOMENT))?;
        }
        self.send(message)
    }

    /// Ends the reads of the other half, also one that blocks, without a word to the server: its connection stays open.
    pub fn stop_reading(&mut self) {
        // It may be closed already.
        let _ = match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Socket::Tls(stream) => stream.tcp.shutdown(Shutdown::Read),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Closes the connection in both directions.
    pub fn close(&mut self) {
        // It may be closed already.
        let _ = match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tls(stream) => stream.tcp.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// Where to connect.
pub(super) struct Target<'a> {
    pub address: &'a Address,
    /// One address of the host; `None` for the first that accepts the connection.
    pub at: Option<SocketAddr>,
    /// Time for the connection and the handshake.
    pub within: Duration,
    /// Bytes before TLS and login: empty, or a mark of [`super::forward`].
    pub mark: &'static [u8],
}

/// A connection to a kdb+ process, for one thread at a time.
pub struct Client {
    socket: Socket,
    frames: FrameReader,
    limits: Limits,
    capability: u8,
    out: Vec<u8>,
    /// Messages received while waiting for a response.
    early: VecDeque<Incoming>,
    timeout: Option<Duration>,
    /// Timeout currently set on the socket.
    armed: Option<Duration>,
}

impl Client {
    /// Connects, with TLS if the address says so, and completes the handshake within `timeout`, which also bounds each later request and write. The host `unix://` means a
    /// Unix socket of this machine, in the directory `QUDSPATH` or `/tmp`; a host that starts with `/` is such a directory.
    ///
    /// # Errors
    /// `Connect`, `Tls`, `Refused`, `Timeout`, `Io`.
    pub fn connect(address: &Address, timeout: Duration, limits: Limits) -> Result<Client, ClientError> {
        let target = Target { address, at: None, within: timeout, mark: &[] };
        Client::open(target, timeout, limits, handshake::CAPABILITY)
    }

    /// As [`Client::connect`], to the process at the address itself: one that hands connections through to another process serves this one.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_directly(address: &Address, timeout: Duration, limits: Limits) -> Result<Client, ClientError> {
        let target = Target { address, at: None, within: timeout, mark: STAYS };
        Client::open(target, timeout, limits, handshake::CAPABILITY)
    }

    /// As [`Client::connect`], for a console: error responses then have a reason behind kdb+'s name ([`proto::Explained`]).
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_explained(address: &Address, timeout: Duration, limits: Limits) -> Result<Client, ClientError> {
        let target = Target { address, at: None, within: timeout, mark: &[] };
        Client::open(target, timeout, limits, handshake::CAPABILITY | handshake::EXPLAINS)
    }

    /// Connects to `target`, offering this capability; `timeout` bounds later requests and writes.
    pub(super) fn open(
        target: Target<'_>,
        timeout: Duration,
        limits: Limits,
        offered: u8,
    ) -> Result<Client, ClientError> {
        let Target { address, at, within, mark } = target;
        let to = address.to_string();
        let by = deadline(within);
        let socket = Socket::open((address, at), mark, (within, by), timeout)?;
        let mut client = Client {
            socket,
            frames: FrameReader::new(limits),
            limits,
            capability: 0,
            out: Vec::new(),
            early: VecDeque::new(),
            timeout: Some(timeout),
            armed: None,
        };
        let hello = handshake::hello(address.user.as_bytes(), address.password.as_bytes(), offered);
        client.socket.write_all(&hello)?;
        // Read one byte only: messages follow it.
        let mut answer = [0; 1];
        let refused = |_: io::Error| ClientError::Refused(to.clone());
        loop {
            client.arm(Some(by))?;
            match client.socket.read(&mut answer) {
                Ok(0) => return Err(ClientError::Refused(to)),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(refused(error)),
                Err(error) => return Err(error.into()),
            }
        }
        client.capability = handshake::accepted(&answer).unwrap_or(0);
        points::reach(Point::ClientConnected);
        Ok(client)
    }

    /// Returns the writing half; afterwards use this client only for reading.
    ///
    /// # Errors
    /// The system's.
    pub fn outgoing(&self) -> io::Result<WriteHalf> {
        Ok(WriteHalf { socket: self.socket.writer()? })
    }

    /// The agreed capability.
    pub fn capability(&self) -> u8 {
        self.capability
    }

    /// Makes the connection fail after the server's host has been silent for about `most`: a host that disappears sends nothing.
    pub fn set_keepalive(&self, most: Duration) {
        if let Some(stream) = self.socket.as_tcp() {
            keepalive::set(stream, most);
        }
    }

    /// Returns whether the connection uses a Unix domain socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.socket, Socket::Unix(_))
    }

    /// Whether the server is on this host.
    pub fn is_on_this_host(&self) -> bool {
        match self.socket.as_tcp() {
            None => true,
            Some(stream) => match (stream.local_addr(), stream.peer_addr()) {
                (Ok(own), Ok(peer)) => own.ip() == peer.ip(),
                _ => false,
            },
        }
    }

    /// Sets the timeout of later requests; `None` waits without limit.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Queues an async message. It is written with [`Client::flush`], with the next request, or once enough bytes are queued.
    ///
    /// # Errors
    /// `Encode`, `Io`; `Timeout` if the server accepts nothing for too long.
    pub fn send_async(&mut self, value: &Value) -> Result<(), ClientError> {
        self.send_with(MessageKind::Async, |writer| {
            let mut object = Vec::new();
            encode::encode_object(value, &mut object)?;
            writer.raw(&object);
            Ok(())
        })
    }

    /// Queues a message whose object `write` encodes.
    ///
    /// # Errors
    /// As [`Client::send_async`].
    pub fn send_with(
        &mut self,
        kind: MessageKind,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), ClientError> {
        let start = encode::begin_message(kind, &mut self.out);
        let mut writer = Writer::new(&mut self.out);
        let written = write(&mut writer);
        let written = writer.finish().and(written).and_then(|()| encode::finish_message(&mut self.out, start));
        if let Err(error) = written {
            self.out.truncate(start);
            return Err(error.into());
        }
        if self.out.len() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Queues bytes that are whole messages.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub fn send_raw(&mut self, messages: &[u8]) -> Result<(), ClientError> {
        self.out.extend_from_slice(messages);
        if self.out.len() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Bytes queued and not written.
    pub fn queued_bytes(&self) -> usize {
        self.out.len()
    }

    /// Writes the queued bytes.
    ///
    /// # Errors
    /// `Io`, `Timeout`.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if self.out.is_empty() {
            return Ok(());
        }
        points::reach(Point::ClientBeforeWrite);
        let result = self.write_queued();
        self.out.clear();
        points::reach(Point::ClientWritten);
        Ok(result?)
    }

    /// Writes the queued bytes, in two parts at the failpoint between them.
    fn write_queued(&mut self) -> io::Result<()> {
        let half = points::half(Point::ClientHalfWritten, self.out.len());
        let (first, rest) = self.out.split_at_checked(half).unwrap_or((&[], &self.out));
        self.socket.write_all(first)?;
        points::reach(Point::ClientHalfWritten);
        self.socket.write_all(rest)
    }

    /// Sends a sync message and waits for its response. Messages that arrive before it are kept for [`Client::next_message`].
    ///
    /// # Errors
    /// `Server` with the error response; otherwise the connection's error, after which the client is unusable.
    pub fn request(&mut self, value: &Value) -> Result<Value, ClientError> {
        let message = encode::message(MessageKind::Sync, value)?;
        let mut early = Vec::new();
        let answer = self.request_raw(&message, |incoming| early.push(incoming));
        self.early.extend(early);
        let answer = answer?;
        let (value, _) = decode::object(&answer.body, answer.header.endian, &self.limits)?;
        match value.as_error() {
            Some(text) => Err(ClientError::Server(text.to_vec())),
            None => Ok(value),
        }
    }

    /// [`Client::request`] with a q expression.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn query(&mut self, expression: &str) -> Result<Value, ClientError> {
        self.request(&Value::chars(expression))
    }

    /// Sends one whole sync message and waits for the response; `other` receives the messages that arrive before it.
    ///
    /// # Errors
    /// The connection's.
    pub fn request_raw(&mut self, message: &[u8], mut other: impl FnMut(Incoming)) -> Result<Incoming, ClientError> {
        self.out.extend_from_slice(message);
        self.flush()?;
        let by = self.timeout.map(deadline);
        loop {
            let incoming = self.receive(by)?.ok_or(ClientError::Timeout)?;
            if incoming.header.kind == MessageKind::Response {
                points::reach(Point::ClientAnswered);
                return Ok(incoming);
            }
            other(incoming);
        }
    }

    /// Returns the next message, or `None` at the deadline; without a deadline waits without limit.
    ///
    /// # Errors
    /// The connection's; `Closed` when the server has closed it.
    pub fn next_message(&mut self, by: Option<Instant>) -> Result<Option<Incoming>, ClientError> {
        match self.early.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.receive(by),
        }
    }

    /// Waits for the first message as [`Client::next_message`] does, then passes every message already received to `handle` without
    /// copying. Returns their number. Stops early if `handle` returns false.
    ///
    /// # Errors
    /// The connection's.
    pub fn next_messages(
        &mut self,
        by: Option<Instant>,
        mut handle: impl FnMut(&Header, &[u8]) -> bool,
    ) -> Result<usize, ClientError> {
        let mut handled = 0usize;
        while let Some(message) = self.early.pop_front() {
            handled = handled.saturating_add(1);
            if !handle(&message.header, &message.body) {
                return Ok(handled);
            }
        }
        loop {
            while let Some((header, message)) = self.frames.next()? {
                handled = handled.saturating_add(1);
                let plain;
                let message = if header.compression == Compression::None {
                    message
                } else {
                    plain = compress::decompress(message, &self.limits)?;
                    &plain
                };
                if !handle(&header, message.get(proto::HEADER_BYTES..).unwrap_or_default()) {
                    return Ok(handled);
                }
            }
            if handled > 0 || !self.fill(by)? {
                return Ok(handled);
            }
        }
    }

    fn receive(&mut self, by: Option<Instant>) -> Result<Option<Incoming>, ClientError> {
        loop {
            if let Some((header, message)) = self.frames.next()? {
                let plain = |message: &[u8]| message.get(proto::HEADER_BYTES..).unwrap_or_default().to_vec();
                let body = match header.compression {
                    Compression::None => plain(message),
                    _ => plain(&compress::decompress(message, &self.limits)?),
                };
                return Ok(Some(Incoming { header, body }));
            }
            if !self.fill(by)? {
                return Ok(None);
            }
        }
    }

    /// Reads once. Returns false if nothing arrives before the deadline.
    fn fill(&mut self, by: Option<Instant>) -> Result<bool, ClientError> {
        loop {
            // The kernel rounds the shortest receive timeout up to its tick (4 to 8 ms); a poll must not sleep that long.
            let read = match by.is_some_and(|by| by <= Instant::now()) {
                true => self.socket.poll(self.frames.spare()),
                false => {
                    self.arm(by)?;
                    self.socket.read(self.frames.spare())
                }
            };
            match read {
                Ok(0) => return Err(ClientError::Closed),
                Ok(read) => {
                    self.frames.filled(read);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if by.is_some_and(|by| by <= Instant::now()) {
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(ClientError::Closed),
                Err(error) => return Err(ClientError::Io(error)),
            }
        }
    }

    /// Bounds later reads by a deadline.
    ///
    /// # Errors
    /// The system's.
    pub fn arm(&mut self, by: Option<Instant>) -> Result<(), ClientError> {
        let left = by.map(|by| by.saturating_duration_since(Instant::now()));
        if left != self.armed || left.is_some() {
            self.socket.set_timeout(left).map_err(ClientError::Io)?;
            self.armed = left;
        }
        Ok(())
    }
}

fn deadline(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::{Client, Socket};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    /// Even the shortest receive timeout sleeps until the kernel's next tick: a replay that polls between chunks would sleep after each.
    #[test]
    fn a_poll_whose_deadline_has_passed_takes_what_is_there_and_arms_no_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port()).parse().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [1];
            while byte != [0] {
                stream.read_exact(&mut byte).unwrap();
            }
            stream.write_all(&[3]).unwrap();
            stream
        });
        let mut client = Client::connect(&address, Duration::from_secs(60), proto::Limits::default()).unwrap();
        let mut stream = server.join().unwrap();
        client.arm(None).unwrap();
        let passed = Some(Instant::now());
        assert_eq!(client.next_messages(passed, |_, _| true).unwrap(), 0);
        let Socket::Tcp(socket) = &client.socket else { panic!("not TCP") };
        assert_eq!((socket.read_timeout().unwrap(), client.armed), (None, None));

        stream.write_all(&[1, 0, 0, 0, 10, 0, 0, 0, 0xff, 1]).unwrap();
        let mut came = 0;
        while came == 0 {
            came = client.next_messages(passed, |_, body| body == [0xff, 1]).unwrap();
        }
        assert_eq!(came, 1);
    }
}
