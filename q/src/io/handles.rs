//! Open handles of a process: files for writing and connections to other processes. Threads share the table; one thread at a time
//! uses a handle.

mod spread;

use super::appending::{FileForm, write, write_items};
use crate::runtime::error::QError;
use columns::sys::interrupt::Cancel;
use columns::table::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A message that arrived while a request on the same connection waits for its response.
pub struct Arrived {
    pub message: Value,
    /// The peer waits for a response.
    pub is_sync: bool,
    /// Set when nobody waits for the response any more.
    pub gone: Cancel,
    /// Called once, with the result of the message.
    pub answer: Box<dyn FnOnce(Result<Value, QError>) + Send>,
}

/// What comes next on a connection whose request waits for its response.
pub enum Reply {
    Response(Value),
    Message(Arrived),
}

/// A connection to another process, implemented by the layer that owns the sockets.
pub trait Peer: Send + Sync {
    /// Sends a message. Returns the response if `wait`, else the generic null.
    ///
    /// # Errors
    /// The error of the other process; a message that cannot be serialised; `close` if the connection is gone (its owner is
    /// notified separately); `stop` at the deadline `by` or on Ctrl-C.
    fn send(&mut self, message: &Value, wait: bool, by: Option<Instant>) -> Result<Value, QError>;

    /// Sends a request. Returns the response if it is there at once, `None` if [`Peer::reply`] returns it.
    ///
    /// # Errors
    /// As [`Peer::send`].
    fn request(&mut self, message: &Value, by: Option<Instant>) -> Result<Option<Value>, QError> {
        self.send(message, true, by).map(Some)
    }

    /// Waits for the response to the last request, or for a message that the peer sends before it.
    ///
    /// # Errors
    /// As [`Peer::send`].
    fn reply(&mut self, _by: Option<Instant>) -> Result<Reply, QError> {
        Err(QError::named("nyi"))
    }

    /// Takes what [`Peer::reply`] waits for. Does not wait: `None` if it has not arrived.
    ///
    /// # Errors
    /// The error of the other process; `close` if the connection is gone.
    fn poll(&mut self) -> Result<Option<Reply>, QError> {
        Err(QError::named("nyi"))
    }

    /// Waits for the next message that is not a response and returns it unevaluated: `h[]`.
    ///
    /// # Errors
    /// The error of the other process; a message that cannot be deserialised; `close` if the connection is gone (its owner is
    /// notified separately); `stop` at the deadline `by` or on Ctrl-C.
    fn receive(&mut self, _by: Option<Instant>) -> Result<Value, QError> {
        Err(QError::named("nyi"))
    }

    /// Waits until all queued messages are sent: `neg[h][]`.
    ///
    /// # Errors
    /// `close`; `stop` at the deadline `by` or on Ctrl-C.
    fn flush(&mut self, _by: Option<Instant>) -> Result<(), QError> {
        Ok(())
    }

    /// Returns a function that returns the number of unsent bytes, or `None` if this kind of connection has no queue.
    fn unsent(&self) -> Option<Unsent> {
        None
    }

    /// Returns a function whose result, while it lives, queues incoming messages for [`Peer::receive`].
    fn holder(&self) -> Option<Holder> {
        None
    }

    /// Closes the connection.
    fn cut(&mut self) {}

    /// Protocol, `q` for IPC, `w` for WebSocket, or `h` for HTTP, whose connection lasts for one request only, and family, `t` for TCP or `u` for a Unix socket: `-38!`.
    fn socket(&self) -> [u8; 2] {
        *b"qt"
    }

    /// Sets the handle number of this connection.
    fn known_as(&mut self, _handle: i32) {}
}

/// A guard: its effect lasts until it is dropped.
pub type Held = Box<dyn std::any::Any + Send + Sync>;
pub type Holder = Box<dyn Fn() -> Held + Send>;
/// Returns the number of unsent bytes of a connection.
pub type Unsent = Arc<dyn Fn() -> usize + Send + Sync>;

/// Connects to `:host:port:user:password` within a timeout in milliseconds; 0 is the connector's default.
pub type Connector = Arc<dyn Fn(&[u8], u64) -> Result<Box<dyn Peer>, QError> + Send + Sync>;

enum Open {
    /// Text, bytes, or the items of a vector as in memory are appended.
    File(std::fs::File, FileForm),
    /// A file of a general list, such as a tickerplant's log: items are appended in kdb+'s format.
    List(std::fs::File),
    /// A named pipe, which is read.
    Pipe(std::fs::File),
    Peer(Box<dyn Peer>),
}

/// An entry of the handle table; `open` is `None` while a thread uses the handle.
struct Slot {
    open: Option<Open>,
    /// Connection of the caller that opened it; 0 is the process itself.
    owner: u64,
    /// A connection to another process that stays open, neither a file nor HTTP.
    is_peer: bool,
    /// As [`Peer::socket`].
    socket: [u8; 2],
    holder: Option<Holder>,
    unsent: Option<Unsent>,
}

/// Table of open handles by number.
pub struct Handles {
    slots: Mutex<BTreeMap<i32, Slot>>,
    /// Next number, if numbers are never reused.
    next: Option<AtomicI32>,
    /// Numbers of connections that are still being accepted.
    reserved: Mutex<BTreeSet<i32>>,
    /// Signals that a thread returned a handle, or that a handle closed.
    freed: Condvar,
    connector: Option<Connector>,
    first: i32,
}

impl Default for Handles {
    fn default() -> Handles {
        Handles::new(None, FIRST)
    }
}

/// Lowest handle number; smaller ones are the standard streams.
pub const FIRST: i32 = 3;
/// Limit of open handles.
const MAX: usize = 1024;
/// Longest wait for a handle in use by another thread, if the evaluation has no deadline.
const PATIENCE: Duration = Duration::from_secs(3600);

impl Handles {
    /// Handles are numbered from `first`; as in kdb+, the lowest free number is reused.
    pub fn new(connector: Option<Connector>, first: i32) -> Handles {
        Handles {
            slots: Mutex::default(),
            next: None,
            reserved: Mutex::default(),
            freed: Condvar::new(),
            connector,
            first,
        }
    }

    /// For concurrent evaluations: numbers are never reused, so that a stale number cannot reach another evaluation's connection.
    pub fn numbered_once(connector: Option<Connector>, first: i32) -> Handles {
        Handles { next: Some(AtomicI32::new(first)), ..Handles::new(connector, first) }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<i32, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a number lies in the range assigned by this table.
    pub fn is_own(&self, handle: i64) -> bool {
        handle.unsigned_abs() >= u64::from(self.first.unsigned_abs())
    }

    /// Opens a file or a connection on behalf of `owner` and returns its handle.
    ///
    /// # Errors
    /// `conn` if the table is full; `access` without a connector; those of the connector (`hop`, `timeout`, `access` for a rejected login);
    /// for a file, the operating system's error.
    pub fn open(&self, target: &[u8], timeout_ms: u64, owner: u64) -> Result<i32, QError> {
        let address = target.strip_prefix(b":").unwrap_or(target);
        if self.slots().len() >= MAX {
            return Err(QError::named("conn"));
        }
        let open = if is_process(address) {
            let connect =
                self.connector.as_ref().ok_or(QError::with("access", "cannot connect to other processes here"))?;
            Open::Peer(connect(address, timeout_ms)?)
        } else {
            let pipe = super::pipe::path_of(address);
            let path = super::pipe::place(pipe.unwrap_or(address));
            let file = match pipe {
                Some(_) => super::pipe::open(path),
                None => appended(path),
            };
            let file = file.map_err(|error| QError::reported(path.display(), &error))?;
            // To look at the form of a pipe would take bytes from it.
            match pipe.map_or_else(|| Some(FileForm::of(path)), |_| None) {
                None => Open::Pipe(file),
                Some(FileForm::List) => Open::List(file),
                Some(holds) => Open::File(file, holds),
            }
        };
        Ok(self.insert(open, owner, None))
    }

    /// Adds a connection accepted from another process, under the number reserved for it, and returns its handle.
    ///
    /// # Errors
    /// `conn` if the table is full.
    pub fn adopt(&self, peer: Box<dyn Peer>, reserved: Option<i32>) -> Result<i32, QError> {
        if let Some(number) = reserved {
            self.release(number);
        }
        if self.slots().len() >= MAX {
            return Err(QError::named("conn"));
        }
        Ok(self.insert(Open::Peer(peer), 0, reserved))
    }

    /// Returns the number of a connection that is about to be accepted; no other handle gets it before [`Handles::adopt`] or [`Handles::release`].
    pub fn reserve(&self) -> i32 {
        let number = self.free_among(&self.slots());
        self.reserved().insert(number);
        number
    }

    pub fn release(&self, number: i32) {
        self.reserved().remove(&number);
    }

    fn reserved(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free_among(&self, slots: &BTreeMap<i32, Slot>) -> i32 {
        let from = self.next.as_ref().map_or(self.first, |next| next.load(Ordering::SeqCst));
        let reserved = self.reserved();
        (from..).find(|n| !slots.contains_key(n) && !reserved.contains(n)).unwrap_or(from)
    }

    fn insert(&self, mut open: Open, owner: u64, reserved: Option<i32>) -> i32 {
        let mut slots = self.slots();
        let number = reserved.filter(|n| !slots.contains_key(n)).unwrap_or_else(|| self.free_among(&slots));
        if let Some(next) = &self.next {
            next.store(number.checked_add(1).unwrap_or(self.first), Ordering::SeqCst);
        }
        let (mut is_peer, mut holder, mut unsent, mut socket) = (false, None, None, *b"  ");
        if let Open::Peer(peer) = &mut open {
            peer.known_as(number);
            holder = peer.holder();
            unsent = peer.unsent();
            socket = peer.socket();
            is_peer = !matches!(socket, [b'h', _]);
        }
        slots.insert(number, Slot { open: Some(open), owner, is_peer, socket, holder, unsent });
        number
    }

    /// Closes a handle.
    ///
    /// # Errors
    /// If the handle is not open.
    pub fn close(&self, handle: i32) -> Result<(), QError> {
        let closed = self.slots().remove(&handle);
        self.freed.notify_all();
        closed.map(|_| ()).ok_or_else(|| unknown(i64::from(handle)))
    }

    /// Owner of an open handle.
    pub fn owner_of(&self, handle: i32) -> Option<u64> {
        self.slots().get(&handle).map(|slot| slot.owner)
    }

    /// Queues messages arriving on a connection for `h[]` while the result lives.
    pub fn hold(&self, handle: i64) -> Option<Held> {
        let number = i32::try_from(handle.unsigned_abs()).ok()?;
        Some(self.slots().get(&number)?.holder.as_ref()?())
    }

    /// Closes the connection of a handle, which then ends like one closed by the peer. Does nothing while a thread uses the handle.
    pub fn cut(&self, handle: i32) {
        if let Some(Slot { open: Some(Open::Peer(peer)), .. }) = self.slots().get_mut(&handle) {
            peer.cut();
        }
    }

    /// Closes the handles opened by this caller.
    pub fn close_those_of(&self, owner: u64) {
        self.slots().retain(|_, slot| slot.owner != owner);
        self.freed.notify_all();
    }

    /// Handles of connections to other processes.
    pub fn peers(&self) -> Vec<i32> {
        self.slots().iter().filter(|(_, slot)| slot.is_peer).map(|(number, _)| *number).collect()
    }

    /// Returns the handles that have unsent bytes, and their number: `.z.W`.
    pub fn unsent(&self) -> Vec<(i32, i64)> {
        let counts = |(number, slot): (&i32, &Slot)| Some((*number, Arc::clone(slot.unsent.as_ref()?)));
        // Call the counters after the lock is released: they may wait for another thread.
        let counts: Vec<(i32, Unsent)> = self.slots().iter().filter_map(counts).collect();
        let counted = counts.into_iter().map(|(number, count)| (number, i64::try_from(count()).unwrap_or(i64::MAX)));
        counted.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Protocol and family of a connection's socket.
    pub fn socket(&self, handle: i32) -> Option<[u8; 2]> {
        self.slots().get(&handle).filter(|slot| slot.is_peer).map(|slot| slot.socket)
    }

    /// Sends on a handle; a negative one does not wait for the response. The generic null is no message: a positive handle waits
    /// for the next incoming message, a negative one until all queued messages are sent.
    ///
    /// # Errors
    /// `stop` at the deadline, on Ctrl-C, and, without a deadline, after an hour's wait for another thread that uses the handle; the error
    /// of the other process; a handle that is not open.
    pub fn send(&self, handle: i64, message: &Value, by: Option<Instant>) -> Result<Value, QError> {
        let number = i32::try_from(handle.unsigned_abs()).unwrap_or(0);
        // A number that is no handle cannot be read from, like any other atom.
        if matches!(message, Value::Null) && handle > 0 && !self.slots().contains_key(&number) {
            return Err(QError::named("type"));
        }
        let mut open = self.take(number, by)?;
        let result = match &mut open {
            Open::File(file, holds) => write(file, *holds, handle, message),
            Open::List(file) => write_items(file, handle, message),
            Open::Pipe(_) => Err(QError::named("type")),
            Open::Peer(peer) => match (message, handle > 0) {
                (Value::Null, true) => peer.receive(by),
                (Value::Null, false) => peer.flush(by).map(|()| Value::Null),
                (message, wait) => peer.send(message, wait, by),
            },
        };
        self.put(number, open);
        result
    }

    /// Reads at most so many bytes of a named pipe.
    ///
    /// # Errors
    /// `type` for another handle; those of reading.
    pub fn read_pipe(&self, handle: i64, bytes: usize) -> Result<Value, QError> {
        let number = i32::try_from(handle).unwrap_or(0);
        let mut open = self.take(number, None)?;
        let read = match &mut open {
            Open::Pipe(file) => super::pipe::read(file, bytes),
            _ => Err(QError::with("type", "the handle is no named pipe")),
        };
        self.put(number, open);
        read
    }

    /// As [`Handles::send`]. While a request waits for its response, messages of the same peer are given to `serve`: as in kdb+, two
    /// processes may ask each other.
    ///
    /// # Errors
    /// As [`Handles::send`].
    pub fn request(
        &self,
        handle: i64,
        message: &Value,
        by: Option<Instant>,
        serve: &mut dyn FnMut(i32, Arrived),
    ) -> Result<Value, QError> {
        let number = i32::try_from(handle).unwrap_or(0);
        if handle <= 0 || matches!(message, Value::Null) || self.socket(number).is_none() {
            return self.send(handle, message, by);
        }
        let mut is_sent = false;
        loop {
            let mut open = self.take(number, by)?;
            let reply = match &mut open {
                Open::Peer(peer) if is_sent => peer.reply(by),
                Open::Peer(peer) => match peer.request(message, by) {
                    Ok(Some(response)) => Ok(Reply::Response(response)),
                    Ok(None) => peer.reply(by),
                    Err(error) => Err(error),
                },
                _ => Err(unknown(handle)),
            };
            is_sent = true;
            // The message may use the handle as well.
            self.put(number, open);
            match reply? {
                Reply::Response(response) => return Ok(response),
                Reply::Message(arrived) => serve(number, arrived),
            }
        }
    }

    /// Returns a handle to the table after use; another thread may have closed it meanwhile.
    fn put(&self, number: i32, open: Open) {
        if let Some(slot) = self.slots().get_mut(&number) {
            slot.open = Some(open);
        }
        self.freed.notify_all();
    }

    fn take(&self, number: i32, by: Option<Instant>) -> Result<Open, QError> {
        let by = by.or_else(|| Instant::now().checked_add(PATIENCE));
        let mut slots = self.slots();
        loop {
            let slot = slots.get_mut(&number).ok_or_else(|| unknown(i64::from(number)))?;
            if let Some(open) = slot.open.take() {
                return Ok(open);
            }
            let left = by.map_or(PATIENCE, |by| by.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(QError::with("stop", "time limit"));
            }
            slots = self.freed.wait_timeout(slots, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Opens a file to append to it. Creates missing directories of its path, as `set` does.
fn appended(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    let open = || std::fs::OpenOptions::new().append(true).create(true).open(path);
    open().or_else(|error| match path.parent() {
        Some(folder) if error.kind() == std::io::ErrorKind::NotFound && path.file_name().is_some() => {
            std::fs::create_dir_all(folder)?;
            open()
        }
        _ => Err(error),
    })
}

fn unknown(handle: i64) -> QError {
    QError::signal(format!("Cannot write to handle {handle}. OS reports: Bad file descriptor").into_bytes())
}

/// Whether an address is that of an HTTP server: `http[s]://host[:port]`, or `ws[s]://host[:port]` for a WebSocket.
pub fn is_web(address: &[u8]) -> bool {
    has_scheme(address, &["http", "https"]) || is_websocket(address)
}

/// Whether an address is that of a WebSocket.
pub(crate) fn is_websocket(address: &[u8]) -> bool {
    has_scheme(address, &["ws", "wss"])
}

fn has_scheme(address: &[u8], schemes: &[&str]) -> bool {
    let end = address.iter().position(|byte| *byte == b':').unwrap_or(0);
    let (own, rest) = address.split_at(end);
    rest.starts_with(b"://") && schemes.iter().any(|scheme| own.eq_ignore_ascii_case(scheme.as_bytes()))
}

/// Whether an address is `host:port`, `:port`, `port`, `unix://port` or `tcps://host:port`, with optional user and password, or that of
/// an HTTP server; anything else is a file.
pub(crate) fn is_process(address: &[u8]) -> bool {
    let digits = |t: &[u8]| !t.is_empty() && t.iter().all(u8::is_ascii_digit);
    let mut parts = address.split(|c| *c == b':');
    let first = parts.next().unwrap_or_default();
    digits(first)
        || address.starts_with(b"unix://")
        || address.starts_with(b"tcps://")
        || is_web(address)
        || parts.next().is_some_and(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    static SENT: AtomicUsize = AtomicUsize::new(0);

    struct Fake;

    impl Peer for Fake {
        fn send(&mut self, message: &Value, _: bool, _: Option<Instant>) -> Result<Value, QError> {
            SENT.fetch_add(1, Ordering::SeqCst);
            match message.as_long() {
                Some(0) => Err(QError::named("type")),
                _ => Ok(message.clone()),
            }
        }
    }

    fn handles() -> Handles {
        Handles::new(Some(Arc::new(|_, _| Ok(Box::new(Fake)))), 100)
    }

    #[test]
    fn a_handle_lives_until_it_is_closed() {
        let handles = handles();
        let h = i64::from(handles.open(b":host:5010", 0, 0).expect("opened"));
        assert_eq!(h, 100);
        assert_eq!(handles.send(h, &Value::Long(7), None).expect("answered").as_long(), Some(7));
        assert_eq!(handles.send(h, &Value::Long(0), None).expect_err("an answer").name.as_ref(), b"type");
        assert!(handles.send(h, &Value::Long(7), None).is_ok());
        handles.close(100).expect("it is open");
        assert!(handles.peers().is_empty());
        assert!(handles.send(h, &Value::Long(7), None).is_err());
    }

    #[test]
    fn a_number_that_is_used_once_is_never_anothers() {
        let handles = Handles::numbered_once(handles().connector, 100);
        for expected in [100, 101, 102] {
            let handle = handles.open(b"5010", 0, 0).expect("opened");
            assert_eq!(handle, expected);
            handles.close(handle).expect("it is open");
        }
    }

    #[test]
    fn handles_of_a_caller_close_with_the_caller() {
        let handles = handles();
        for owner in [0, 7, 8, 7] {
            handles.open(b"5010", 0, owner).expect("opened");
        }
        handles.close_those_of(7);
        assert_eq!(handles.peers(), [100, 102]);
    }
}
