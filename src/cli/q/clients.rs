//! Serves clients of the session's port: an event loop on its own thread, whose messages the console evaluates one at a time.

use super::peers::{Client, ConnectionEvent, Dialect, HandlersSet};
use crate::access::{Access, Check, FileError, Grants, Users, Verify};
use crate::config::{Limits, Listen};
use crate::net::client::Incoming;
use crate::net::http;
use crate::net::inbox::{End, Inbox, Message, ReplyOrder};
use crate::net::reactor::Parts;
use crate::net::remote::{self, encoded};
use crate::net::sites::Sites;
use crate::net::tls;
use crate::net::{
    CloseReason, ConnId, Control, Listeners, NetLimits, Reactor, Service, SyncRequest, message, peer, socket_directory,
};
use crate::q::QError;
use crate::q::handlers::{Handler, HandlerEvent, Outcome, Verdict};
use crate::q::handles::{Peer, Reply, Unsent};
use crate::q::session::Door;
use crate::sys::interrupt;
use crate::table::Value;
use bytes::Bytes;
use mio::Waker;
use proto::{Header, MessageKind};
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long the console may take to check a password.
const LOGIN_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for the event loop's answer to [`Command::Unsent`].
const COUNTED_WITHIN: Duration = Duration::from_secs(1);
/// Interval at which `neg[h][]` asks again whether everything is sent.
const LOOK: Duration = Duration::from_millis(5);
/// Messages of one connection that may wait for the console; at the limit the connection is not read further.
const MAX_WAITING: usize = 4096;

/// Sends an event to the console.
pub type ToConsole = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;

/// Command of the console to the loop.
enum Command {
    Send(ConnId, Bytes),
    /// A message has been evaluated, with the response to send.
    Done(ConnId, Option<(SyncRequest, Bytes, ReplyOrder)>),
    Page(ConnId, Result<Bytes, Vec<u8>>),
    Verdict(ConnId, Verdict),
    Close(ConnId),
    /// Requests the number of unsent bytes; the response is `None` if the connection is closed.
    Unsent(ConnId, Sender<Option<usize>>),
    /// The port was closed or changed: accept no more connections, and end the loop when the last one closes.
    StopListening,
    Stop,
}

/// Command channel of the loop.
#[derive(Clone)]
struct Loop {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

impl Loop {
    fn send(&self, command: Command) {
        // An ended loop has already closed its connections.
        let _ = self.commands.send(command);
        let _ = self.waker.wake();
    }

    /// Returns the number of unsent bytes of a connection, `None` if it is closed. Messages sent before this call are included.
    ///
    /// # Errors
    /// `Timeout` if the event loop does not answer within [`COUNTED_WITHIN`].
    fn unsent_bytes(&self, conn: ConnId) -> Result<Option<usize>, RecvTimeoutError> {
        let (to, count) = channel();
        self.send(Command::Unsent(conn, to));
        match count.recv_timeout(COUNTED_WITHIN) {
            // The loop has ended, with its connections.
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            counted => counted,
        }
    }
}

/// Receive state of a connection.
struct Connection {
    inbox: Arc<Inbox>,
    /// Messages not yet evaluated.
    waiting: usize,
}

/// Service of the event loop: forwards connections and messages to the console.
struct Clients {
    to_console: ToConsole,
    handlers: Arc<HandlersSet>,
    own: Loop,
    commands: Receiver<Command>,
    open: HashMap<ConnId, Connection>,
    /// Set by [`Command::StopListening`].
    is_ending: bool,
}

impl Clients {
    fn end_if_idle(&self, ctl: &mut Control) {
        if self.is_ending && self.open.is_empty() {
            ctl.stop();
        }
    }

    fn forward(&self, conn: ConnId, peer: &crate::net::Peer, event: HandlerEvent, respond: Respond) {
        let (by, gone) = (Client::of(peer), peer.gone.clone());
        (self.to_console)(ConnectionEvent::Request { handle: conn.handle(), by, event, respond, gone });
    }
}

/// Sends the response to an HTTP request.
type Respond = Box<dyn FnOnce(Result<Outcome, Vec<u8>>) + Send>;

impl Service for Clients {
    fn opened(&mut self, conn: ConnId, peer: &crate::net::Peer, ctl: &mut Control) {
        let web = ctl.is_web(conn);
        let inbox = Arc::new(Inbox::default());
        self.open.insert(conn, Connection { inbox: Arc::clone(&inbox), waiting: 0 });
        let is_unix = peer.ip.is_unspecified();
        let accepted = Accepted { conn, to: self.own.clone(), inbox, web, is_unix };
        let dialect = Dialect { web, explains: peer.explains };
        (self.to_console)(ConnectionEvent::Opened { peer: Box::new(accepted), by: Client::of(peer), dialect });
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        let Some(connection) = self.open.get_mut(&conn) else { return };
        if header.kind == MessageKind::Response {
            return connection.inbox.put_answer(Incoming { header: *header, body: body.to_vec() });
        }
        connection.waiting = connection.waiting.saturating_add(1);
        if connection.waiting >= MAX_WAITING {
            ctl.pause(conn);
        }
        let (own, request) = (self.own.clone(), ctl.request());
        let respond = move |bytes: Vec<u8>, turn: ReplyOrder| {
            own.send(Command::Done(conn, request.map(|request| (request, bytes.into(), turn))));
        };
        let message =
            Message { kind: header.kind, body: body.to_vec(), endian: header.endian, answer: Box::new(respond) };
        connection.inbox.put(message);
        (self.to_console)(ConnectionEvent::Received(Arc::clone(&connection.inbox)));
    }

    fn takes_web(&self) -> bool {
        self.handlers.has(Handler::Web)
    }

    fn web_message(&mut self, conn: ConnId, is_text: bool, payload: Vec<u8>, ctl: &mut Control) {
        let Some(connection) = self.open.get_mut(&conn) else { return };
        // One message at a time: the console resumes the connection when it is done.
        ctl.pause(conn);
        let own = self.own.clone();
        let done = Box::new(move || own.send(Command::Done(conn, None)));
        let inbox = Arc::clone(&connection.inbox);
        (self.to_console)(ConnectionEvent::Web { inbox, event: HandlerEvent::Web { is_text, payload }, done });
    }

    fn request(&mut self, conn: ConnId, request: &http::HttpRequest, peer: &crate::net::Peer, _: &mut Control) -> bool {
        if !self.handlers.has(Handler::of_method(request.method)) {
            return false;
        }
        let own = self.own.clone();
        let respond = move |outcome| {
            let page = match outcome {
                Ok(Outcome::Page(page)) => Ok(page.into()),
                Ok(_) => Err(b"type".to_vec()),
                Err(name) => Err(name),
            };
            own.send(Command::Page(conn, page));
        };
        self.forward(conn, peer, HandlerEvent::Page(request.for_handler()), Box::new(respond));
        true
    }

    fn authorise(
        &mut self,
        conn: ConnId,
        request: &http::HttpRequest,
        peer: &crate::net::Peer,
        _: &mut Control,
    ) -> bool {
        if !self.handlers.has(Handler::Authorise) {
            return false;
        }
        let own = self.own.clone();
        let respond = move |outcome| {
            let verdict = match outcome {
                Ok(Outcome::Verdict(verdict)) => verdict,
                _ => Verdict::Refused,
            };
            own.send(Command::Verdict(conn, verdict));
        };
        self.forward(conn, peer, HandlerEvent::Authorise(request.for_handler()), Box::new(respond));
        true
    }

    fn iteration_ended(&mut self, _: &mut Control) {}

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn left(&mut self, conn: ConnId, _: &mut Control) {
        if let Some(connection) = self.open.get(&conn) {
            connection.inbox.gone().set();
        }
    }

    fn closed(&mut self, conn: ConnId, _: &CloseReason, ctl: &mut Control) {
        if let Some(connection) = self.open.remove(&conn) {
            connection.inbox.end(End::Closed);
            (self.to_console)(ConnectionEvent::Received(connection.inbox));
        }
        self.end_if_idle(ctl);
    }

    fn woken(&mut self, ctl: &mut Control) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Send(conn, bytes) => match ctl.peer(conn).cloned() {
                    Some(_) if ctl.is_web(conn) => ctl.send(conn, bytes),
                    Some(peer) => ctl.send(conn, message::for_peer(bytes, &peer)),
                    None => continue,
                },
                Command::Done(conn, answer) => {
                    if let (Some((request, bytes, turn)), Some(peer)) = (answer, ctl.peer(conn).cloned()) {
                        ctl.reply_in(request, message::for_peer(bytes, &peer), turn);
                    }
                    if let Some(connection) = self.open.get_mut(&conn) {
                        connection.waiting = connection.waiting.saturating_sub(1);
                    }
                    ctl.resume(conn);
                }
                Command::Page(conn, page) => ctl.answer_page(conn, page),
                Command::Verdict(conn, verdict) => ctl.judge(conn, verdict),
                Command::Close(conn) => ctl.close(conn, "closed by the session"),
                Command::Unsent(conn, to) => {
                    // The receiver is gone if the caller stopped waiting.
                    let _ = to.send(ctl.peer(conn).is_some().then(|| ctl.outbox_bytes(conn)));
                }
                Command::StopListening => {
                    ctl.stop_listening();
                    self.is_ending = true;
                    self.end_if_idle(ctl);
                }
                Command::Stop => ctl.stop(),
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timer(&mut self, _: &mut Control) {}
}

/// A client connection as the session sees it.
struct Accepted {
    conn: ConnId,
    to: Loop,
    inbox: Arc<Inbox>,
    /// The client speaks WebSocket.
    web: bool,
    /// Connected through the port's Unix socket.
    is_unix: bool,
}

impl Peer for Accepted {
    fn send(&mut self, message: &Value, wait: bool, by: Option<Instant>) -> Result<Value, QError> {
        if self.web {
            if wait {
                return Err(QError::with("nyi", "WebSocket clients are sent async messages only"));
            }
            self.to.send(Command::Send(self.conn, remote::frame(message)?));
            return Ok(Value::Null);
        }
        let kind = if wait { MessageKind::Sync } else { MessageKind::Async };
        let message = encoded(kind, message)?;
        self.to.send(Command::Send(self.conn, message.into()));
        if !wait {
            return Ok(Value::Null);
        }
        match self.inbox.answer(by) {
            Ok(answer) => remote::value(&answer),
            Err(end) => remote::ended(end),
        }
    }

    fn request(&mut self, message: &Value, by: Option<Instant>) -> Result<Option<Value>, QError> {
        if self.web {
            return self.send(message, true, by).map(Some);
        }
        self.to.send(Command::Send(self.conn, encoded(MessageKind::Sync, message)?.into()));
        Ok(None)
    }

    fn reply(&mut self, by: Option<Instant>) -> Result<Reply, QError> {
        remote::reply(&self.inbox, by)
    }

    fn poll(&mut self) -> Result<Option<Reply>, QError> {
        remote::poll(&self.inbox)
    }

    fn receive(&mut self, by: Option<Instant>) -> Result<Value, QError> {
        match self.inbox.next(by) {
            Ok(message) => remote::value(&message),
            Err(end) => remote::ended(end),
        }
    }

    fn flush(&mut self, by: Option<Instant>) -> Result<(), QError> {
        loop {
            match self.to.unsent_bytes(self.conn) {
                Ok(Some(0)) => return Ok(()),
                Ok(None) => return remote::ended(End::Closed),
                Ok(Some(_)) | Err(_) => {}
            }
            if by.is_some_and(|by| by <= Instant::now()) || interrupt::is_asked() {
                return remote::ended(End::Stopped);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn unsent(&self) -> Option<Unsent> {
        let (to, conn) = (self.to.clone(), self.conn);
        Some(Arc::new(move || to.unsent_bytes(conn).ok().flatten().unwrap_or(0)))
    }

    fn socket(&self) -> [u8; 2] {
        [if self.web { b'w' } else { b'q' }, if self.is_unix { b'u' } else { b't' }]
    }

    fn cut(&mut self) {
        self.to.send(Command::Close(self.conn));
    }

    fn known_as(&mut self, handle: i32) {
        self.inbox.set_number(handle);
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        // A handle that the session itself closes gives no close event.
        self.inbox.set_number(0);
        self.to.send(Command::Close(self.conn));
    }
}

/// Access control: the user file, then `.z.pw`.
struct Gate {
    users: Option<PathBuf>,
    handlers: Arc<HandlersSet>,
    to_console: ToConsole,
}

impl Gate {
    fn read(&self) -> Option<Result<Users, FileError>> {
        self.users.as_ref().map(|path| Users::read(path, &BTreeSet::new()))
    }
}

impl Access for Gate {
    fn check(&self, user: &[u8], password: &[u8]) -> Check {
        self.check_from(user, password, Ipv4Addr::UNSPECIFIED.into())
    }

    fn check_from(&self, user: &[u8], password: &[u8], ip: IpAddr) -> Check {
        // Read for every login, so that changes of the file take effect at once. A session serves a few people: a slow hash may hold its loop.
        let known = match self.read() {
            None => true,
            Some(Ok(users)) => users.check(user, password).decide().is_some(),
            Some(Err(error)) => {
                // To the client this is a login like any that is refused.
                tracing::error!(%error, "every login is refused until the file can be read");
                false
            }
        };
        if !known {
            return Check::Refused;
        }
        if self.handlers.has(Handler::Login) {
            let (decision, decided) = channel();
            let (name, password, address) = (user.to_vec(), password.to_vec(), peer::z_a(ip));
            (self.to_console)(ConnectionEvent::Login { user: name, password, address, decision });
            // The console may itself be waiting for an answer or the end of another connection, which only the loop can bring.
            let grants = self.grants(user);
            let wait = move || grants.filter(|_| decided.recv_timeout(LOGIN_WITHIN).unwrap_or(false));
            return Check::Slow(Verify::Asked(Box::new(wait)));
        }
        self.grants(user).map_or(Check::Refused, Check::Admitted)
    }

    fn grants(&self, _: &[u8]) -> Option<Arc<Grants>> {
        // A session's clients are limited by its options, not by roles.
        Some(Arc::new(Grants::everything()))
    }

    fn is_named(&self, user: &[u8]) -> bool {
        self.read().is_some_and(|users| users.is_ok_and(|users| users.is_named(user)))
    }

    fn is_checked(&self) -> bool {
        self.users.is_some() || self.handlers.has(Handler::Login)
    }
}

/// The session's listening port.
pub struct Port {
    to_console: ToConsole,
    users: Option<PathBuf>,
    sites: Sites,
    /// `-E 1` or `-E 2`.
    tls: Option<Arc<tls::Door>>,
    handlers: Arc<HandlersSet>,
    open: Option<Open>,
}

/// An open port with its running loop.
struct Open {
    /// Negative if the number given was.
    port: i32,
    running: Loop,
    /// Path of its Unix socket, removed on drop in case the process ends before the loop does it.
    socket: Option<PathBuf>,
}

impl Port {
    pub fn new(
        to_console: ToConsole,
        users: Option<PathBuf>,
        sites: Sites,
        tls: Option<Arc<tls::Door>>,
        handlers: Arc<HandlersSet>,
    ) -> Port {
        Port { to_console, users, sites, tls, handlers, open: None }
    }

    /// Closes the port; `how` tells its loop what to do with open connections.
    fn close(&mut self, how: Command) {
        let Some(Open { running, socket, .. }) = self.open.take() else { return };
        running.send(how);
        if let Some(path) = socket {
            // The loop may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Door for Port {
    fn listen(&mut self, text: &[u8]) -> Result<(), QError> {
        let text = String::from_utf8_lossy(text);
        if text == "0" || text == "-0" {
            self.close(Command::StopListening);
            return Ok(());
        }
        let words = |e: &dyn std::fmt::Display| QError::signal(format!("{text}: {e}").into_bytes());
        // A negative port gives each connection a thread in kdb+. The answers are the same; here they are evaluated one at a time.
        let negative = text.strip_prefix('-').filter(|number| number.starts_with(|c: char| c.is_ascii_digit()));
        let (number, sign) = negative.map_or((&*text, 1), |number| (number, -1));
        let listen: Listen = number.parse().map_err(|e: String| QError::signal(e.into_bytes()))?;
        let mut listeners = Listeners::tcp(&listen).map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        if let Some(directory) = socket_directory() {
            listeners.unix(&directory);
        }
        let (port, socket) = (sign * i32::from(listeners.port()), listeners.path().map(Into::into));
        let parts = Parts::new().map_err(|e| words(&e))?;
        let (commands, received) = channel();
        let own = Loop { commands, waker: parts.waker() };
        let gate = Gate {
            users: self.users.clone(),
            handlers: Arc::clone(&self.handlers),
            to_console: Arc::clone(&self.to_console),
        };
        let clients = Clients {
            to_console: Arc::clone(&self.to_console),
            handlers: Arc::clone(&self.handlers),
            own: own.clone(),
            commands: received,
            open: HashMap::new(),
            is_ending: false,
        };
        let limits = NetLimits::of(&Limits::default());
        let mut reactor = Reactor::new(parts, listeners, Box::new(gate), limits, clients).map_err(|e| words(&e))?;
        reactor.set_sites(self.sites.clone());
        if let Some(door) = &self.tls {
            reactor.set_tls(Arc::clone(door)).map_err(|e| words(&e))?;
        }
        let running = crate::sys::stack::thread("clients".into()).spawn(move || {
            if let Err(error) = reactor.run() {
                tracing::error!(%error, "the port's event loop ended");
            }
        });
        running.map_err(|e| words(&e))?;
        // As in kdb+, connections stay open.
        self.close(Command::StopListening);
        self.open = Some(Open { port, running: own, socket });
        Ok(())
    }

    fn tls_settings(&self) -> Vec<(&'static str, String)> {
        tls::shown()
    }

    fn port(&self) -> i32 {
        self.open.as_ref().map_or(0, |open| open.port)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.close(Command::Stop);
    }
}
