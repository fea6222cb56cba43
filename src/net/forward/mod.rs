//! Hands connections through to another process, byte by byte: `--forward` of a passive tickerplant.
//!
//! One thread has all of them. The event loop keeps a connection until its login has arrived and the other process is reached, so that its limits
//! hold until then; from the login on the other process decides. Neither side's bytes are looked at, so TLS is between client and active one.

mod dial;
mod pair;
mod thread;

use super::ConnId;
use super::stream::Stream;
use crate::less;
use mio::{Poll, Waker};
use pair::Pair;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// First bytes of a forwarded connection. A process that forwards serves such a connection itself, which ends a loop at once; every other one skips
/// them. No login begins like this. There are two, neither the beginning of the other: a client on another machine does not become one on this
/// machine by being forwarded. A client that makes one up loses rights only.
pub(super) const MARKS: [&[u8]; 2] = [OF_LOCAL, OF_REMOTE];
/// The client is on the machine of the process that forwards it.
const OF_LOCAL: &[u8] = b"\x01elastick-forwarded-local\n";
/// Of a client that wants the process at the address itself. It says nothing of the client's machine: the kernel knows that.
pub(super) const STAYS: &[u8] = OF_LOCAL;
/// It is on another one.
pub(super) const OF_REMOTE: &[u8] = b"\x01elastick-forwarded\n";

/// Addresses of the process to forward to, in the order in which they are tried; shared with the thread that resolves its name.
pub type Targets = Arc<Mutex<Vec<SocketAddr>>>;

/// A connection that the event loop has let go.
#[derive(Debug)]
pub struct Diverted {
    pub(super) stream: Stream,
    /// What it has sent so far.
    pub(super) bytes: Vec<u8>,
    pub(super) ip: IpAddr,
    pub(super) local: bool,
}

/// A client, and why the other process was not reached for it, if it was not.
pub type Reached = (ConnId, Result<(), String>);

enum Command {
    Dial(ConnId),
    Join(ConnId, Box<Pair>),
    Cancel(ConnId),
}

/// Forwarded connections, and how many of them each address has.
#[derive(Debug, Default)]
struct Open(Mutex<HashMap<IpAddr, usize>>);

/// One forwarded connection in the count.
#[derive(Debug)]
struct Counted {
    open: Arc<Open>,
    ip: IpAddr,
}

impl Counted {
    fn new(open: &Arc<Open>, ip: IpAddr) -> Counted {
        let mut counts = open.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ip).or_default();
        *count = count.saturating_add(1);
        Counted { open: Arc::clone(open), ip }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.ip) {
            *count = less!(*count, 1);
            if *count == 0 {
                counts.remove(&self.ip);
            }
        }
    }
}

/// The thread that forwards; it ends, and closes its connections, on drop.
pub struct Forwarder {
    commands: Option<Sender<Command>>,
    results: Receiver<Reached>,
    waker: Arc<Waker>,
    open: Arc<Open>,
    running: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Starts the thread. It calls `of_loop` when [`Forwarder::reached`] has a result. `held_bytes`: of all connections together, above which it reads
    /// small pieces.
    ///
    /// # Errors
    /// The system's.
    pub fn start(targets: Targets, held_bytes: usize, of_loop: Arc<dyn Fn() + Send + Sync>) -> io::Result<Forwarder> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), thread::WAKER)?);
        let (commands, todo) = channel();
        let (done, results) = channel();
        let forwarding = thread::Forwarding::new(poll, (todo, done), targets, held_bytes, of_loop);
        let running = crate::sys::stack::thread("forward".to_string()).spawn(move || forwarding.run())?;
        Ok(Forwarder { commands: Some(commands), results, waker, open: Arc::default(), running: Some(running) })
    }

    /// Connects to the other process for a client, whose connection is to be taken over when [`Forwarder::reached`] says so.
    pub fn dial(&self, conn: ConnId) {
        self.send(Command::Dial(conn));
    }

    /// Returns the next client for which the other process was reached, or why it was not.
    pub fn reached(&self) -> Option<Reached> {
        self.results.try_recv().ok()
    }

    /// Takes a client's connection over; `None` if it has closed meanwhile.
    pub fn take(&self, conn: ConnId, diverted: Option<Diverted>) {
        self.send(match diverted {
            Some(Diverted { stream, bytes, ip, local }) => {
                let mark = if local { OF_LOCAL } else { OF_REMOTE };
                let pair = Pair::new(stream, [mark, &bytes].concat(), Counted::new(&self.open, ip));
                Command::Join(conn, Box::new(pair))
            }
            None => Command::Cancel(conn),
        });
    }

    /// Number of forwarded connections, and of those from one address.
    pub fn open(&self, ip: IpAddr) -> (usize, usize) {
        let counts = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        (counts.values().sum(), counts.get(&ip).copied().unwrap_or(0))
    }

    fn send(&self, command: Command) {
        // A thread that has ended closed all connections.
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok());
        if sent && let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the thread that forwards connections");
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.commands = None;
        let woken = self.waker.wake().is_ok();
        if let Some(running) = self.running.take().filter(|_| woken) {
            // A panic is already printed.
            let _ = running.join();
        }
    }
}
