//! The thread that forwards: its readiness queue and all sockets.

use super::dial::{Dial, Step};
use super::pair::{Pair, Progress, Side};
use super::{Command, Reached, Targets};
use crate::less;
use crate::net::stream::Stream;
use crate::net::{ConnId, keepalive};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(super) const WAKER: Token = Token(0);

/// Bytes read at once, and while all connections together hold too many.
const PIECE_BYTES: usize = 64 << 10;
const SMALL_PIECE_BYTES: usize = 4 << 10;
/// Time for a client to take what is left when the other process has closed.
const LINGER: Duration = Duration::from_secs(10);
/// Time for the other process to answer a login: the kernel of one that hangs accepts connections.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Silence after which the host of the other process counts as gone.
const MAX_SILENCE: Duration = Duration::from_secs(20);

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

enum Stage {
    Dialing(Dial, Option<TcpStream>),
    /// Connected; the event loop has not handed over the client yet.
    Reached(TcpStream),
    Forwarding(Box<Pair>),
}

struct Entry {
    conn: ConnId,
    stage: Stage,
    due: Option<Instant>,
}

pub(super) struct Forwarding {
    poll: Poll,
    todo: Receiver<Command>,
    done: Sender<Reached>,
    targets: Targets,
    of_loop: Arc<dyn Fn() + Send + Sync>,
    entries: HashMap<usize, Entry>,
    /// Entries whose client the event loop has.
    waiting: HashMap<ConnId, usize>,
    due: BTreeSet<(Instant, usize)>,
    /// Entries with work that needs no event.
    ready: BTreeSet<usize>,
    last: usize,
    /// Bytes that wait in all connections, and their limit.
    held_bytes: usize,
    most_held_bytes: usize,
}

/// Which socket a token is of.
fn socket_of(token: Token) -> (usize, Side) {
    (token.0 / 2, if token.0.is_multiple_of(2) { Side::Client } else { Side::Active })
}

fn token_of(number: usize, side: Side) -> Token {
    let first = number.saturating_mul(2);
    Token(if side == Side::Client { first } else { first.saturating_add(1) })
}

impl Forwarding {
    pub fn new(
        poll: Poll,
        (todo, done): (Receiver<Command>, Sender<Reached>),
        targets: Targets,
        most_held_bytes: usize,
        of_loop: Arc<dyn Fn() + Send + Sync>,
    ) -> Forwarding {
        Forwarding {
            poll,
            todo,
            done,
            targets,
            of_loop,
            entries: HashMap::new(),
            waiting: HashMap::new(),
            due: BTreeSet::new(),
            ready: BTreeSet::new(),
            last: 0,
            held_bytes: 0,
            most_held_bytes,
        }
    }

    /// Runs until the other end of the commands is dropped.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            if let Err(error) = self.poll.poll(&mut events, self.timeout())
                && error.kind() != io::ErrorKind::Interrupted
            {
                return tracing::error!(%error, "connections are not forwarded any more");
            }
            for event in &events {
                if event.token() == WAKER {
                    continue;
                }
                let (number, side) = socket_of(event.token());
                let is_readable = event.is_readable() || event.is_read_closed() || event.is_error();
                let is_writable = event.is_writable() || event.is_error();
                self.reported(number, side, is_readable, is_writable);
            }
            loop {
                match self.todo.try_recv() {
                    Ok(command) => self.obey(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.timers();
            for number in std::mem::take(&mut self.ready) {
                self.step(number, &mut piece);
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.due.first().map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Dial(conn) => {
                self.last = self.last.saturating_add(1);
                let number = self.last;
                let dial = Dial::new(Instant::now());
                self.entries.insert(number, Entry { conn, stage: Stage::Dialing(dial, None), due: None });
                self.waiting.insert(conn, number);
                self.dial_on(number);
            }
            Command::Join(conn, pair) => self.join(conn, pair),
            Command::Cancel(conn) => {
                if let Some(number) = self.waiting.remove(&conn) {
                    self.remove(number);
                }
            }
        }
    }

    /// Takes over the client of a connection to the other process.
    fn join(&mut self, conn: ConnId, mut pair: Box<Pair>) {
        let Some(number) = self.waiting.remove(&conn) else { return };
        let Some(Entry { stage: Stage::Reached(active), .. }) = self.remove(number) else { return };
        if let Err(error) = self.poll.registry().register(pair.client(), token_of(number, Side::Client), BOTH) {
            return tracing::warn!(%error, "cannot forward a connection");
        }
        pair.join(Stream::tcp(active));
        self.held_bytes = self.held_bytes.saturating_add(pair.held_bytes());
        self.entries.insert(number, Entry { conn, stage: Stage::Forwarding(pair), due: None });
        self.plan(number, Instant::now().checked_add(ANSWER_WITHIN));
        self.ready.insert(number);
    }

    fn reported(&mut self, number: usize, side: Side, is_readable: bool, is_writable: bool) {
        match self.entries.get_mut(&number).map(|entry| &mut entry.stage) {
            Some(Stage::Forwarding(pair)) => {
                pair.reported(side, is_readable, is_writable);
                self.ready.insert(number);
            }
            Some(Stage::Dialing(_, Some(active))) => match outcome(active) {
                Ok(true) => self.reached(number),
                Ok(false) => {}
                Err(error) => self.failed(number, error.to_string()),
            },
            _ => {}
        }
    }

    fn reached(&mut self, number: usize) {
        self.plan(number, None);
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let Stage::Dialing(_, active) = &mut entry.stage else { return };
        let Some(active) = active.take() else { return };
        // Failure only costs latency, or the notice of a host that is gone.
        let _ = active.set_nodelay(true);
        keepalive::set(&active, MAX_SILENCE);
        entry.stage = Stage::Reached(active);
        let conn = entry.conn;
        self.report(conn, Ok(()));
    }

    /// Begins the next attempt for a client.
    fn dial_on(&mut self, number: usize) {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Stage::Dialing(dial, _)) = self.entries.get_mut(&number).map(|entry| &mut entry.stage) else { return };
        let step = dial.next(&targets, Instant::now());
        self.follow(number, step);
    }

    fn failed(&mut self, number: usize, reason: String) {
        let Some(Stage::Dialing(dial, active)) = self.entries.get_mut(&number).map(|entry| &mut entry.stage) else {
            return;
        };
        *active = None;
        let step = dial.failed(reason, Instant::now());
        self.follow(number, step);
    }

    fn follow(&mut self, number: usize, mut step: Step) {
        while let Step::Connect(target) = step {
            let connected = self.connect(number, target);
            let Some(Stage::Dialing(dial, active)) = self.entries.get_mut(&number).map(|entry| &mut entry.stage) else {
                return;
            };
            match connected {
                Ok(stream) => {
                    *active = Some(stream);
                    step = Step::Wait;
                }
                Err(error) => step = dial.failed(error.to_string(), Instant::now()),
            }
        }
        let Some(entry) = self.entries.get(&number) else { return };
        let Stage::Dialing(dial, _) = &entry.stage else { return };
        match step {
            Step::GiveUp => {
                let (conn, reason) = (entry.conn, dial.reason().to_string());
                self.waiting.remove(&conn);
                self.remove(number);
                self.report(conn, Err(reason));
            }
            _ => self.plan(number, Some(dial.due())),
        }
    }

    fn connect(&self, number: usize, target: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(target)?;
        self.poll.registry().register(&mut stream, token_of(number, Side::Active), BOTH)?;
        Ok(stream)
    }

    fn report(&self, conn: ConnId, result: Result<(), String>) {
        // If the loop has ended, so does this thread.
        if self.done.send((conn, result)).is_ok() {
            (self.of_loop)();
        }
    }

    fn timers(&mut self) {
        let now = Instant::now();
        while let Some((at, number)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, number));
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            entry.due = None;
            match &entry.stage {
                Stage::Dialing(_, Some(_)) => self.failed(number, "it does not accept the connection".to_string()),
                Stage::Dialing(_, None) => self.dial_on(number),
                Stage::Reached(_) => {}
                Stage::Forwarding(_) => drop(self.remove(number)),
            }
        }
    }

    /// Sets when an entry is due next.
    fn plan(&mut self, number: usize, due: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Some(before) = std::mem::replace(&mut entry.due, due) {
            self.due.remove(&(before, number));
        }
        if let Some(due) = due {
            self.due.insert((due, number));
        }
    }

    /// Removes an entry; its sockets close when it is dropped.
    fn remove(&mut self, number: usize) -> Option<Entry> {
        self.plan(number, None);
        let entry = self.entries.remove(&number)?;
        if let Stage::Forwarding(pair) = &entry.stage {
            self.held_bytes = less!(self.held_bytes, pair.held_bytes());
        }
        Some(entry)
    }

    fn step(&mut self, number: usize, piece: &mut [u8]) {
        let Some(Entry { stage: Stage::Forwarding(pair), due, .. }) = self.entries.get_mut(&number) else { return };
        let size = if self.held_bytes > self.most_held_bytes { SMALL_PIECE_BYTES } else { PIECE_BYTES };
        let (before, had_answered) = (pair.held_bytes(), pair.has_answered());
        let progress = pair.step(piece.get_mut(..size).unwrap_or_default());
        self.held_bytes = less!(self.held_bytes.saturating_add(pair.held_bytes()), before);
        let (is_due, has_answered) = (due.is_some(), pair.has_answered());
        if has_answered && !had_answered {
            self.plan(number, None);
        }
        match progress {
            Ok(Progress::Waits) => {}
            Ok(Progress::More) => drop(self.ready.insert(number)),
            Ok(Progress::Lingers) => {
                if !is_due || has_answered != had_answered {
                    self.plan(number, Instant::now().checked_add(LINGER));
                }
            }
            Ok(Progress::Over) => drop(self.remove(number)),
            Err(error) => {
                tracing::debug!(%error, "forwarded connection closed");
                self.remove(number);
            }
        }
    }
}

/// Whether a socket is connected by now.
fn outcome(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}
