//! Compares the event loop with tokio. A relay forwards every publisher's messages to all subscribers and does nothing else: no log, no
//! schema. It runs on `net::Reactor`, then on a single-threaded tokio runtime with one task per connection. The figures are in
//! docs/decisions/7-event-loop.md.
//!
//!     cargo bench --bench fanout [-- ROUNDS]
//!
//! Prints medians of interleaved rounds; asserts nothing. Clients are threads of this process, the same for both. At full speed the
//! publisher stays at most `AHEAD_BYTES` ahead of the slowest subscriber, so that neither relay has to drop or catch up.

use bytes::{Bytes, BytesMut};
use elastick::access::Anyone;
use elastick::config::Limits;
use elastick::net::{CloseReason, ConnId, Control, Listeners, NetLimits, Parts, Peer, Reactor, Service};
use proto::{Header, Items, MessageKind, Value, encode};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const AHEAD_BYTES: u64 = 4 << 20;
const RUN: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(500);
/// How often the publisher wakes to send the messages that are due, in the cells with a fixed rate.
const TICK: Duration = Duration::from_millis(1);
const HEADER_BYTES: usize = 8;
/// Offset of the send time in a message: behind the header and the head of the character vector.
const STAMP_AT: usize = HEADER_BYTES + 6;
/// Chunks that a subscriber's task may have waiting.
const CHUNKS: usize = 1024;
const READ_BYTES: usize = 64 << 10;
/// `::`
const NULL: Value = Value::Unary(0);

/// Message size in bytes, subscribers, messages per second (0: as fast as possible).
const CELLS: [(usize, usize, u64); 8] = [
    (110, 1, 0),
    (110, 4, 0),
    (110, 16, 0),
    (4500, 1, 0),
    (4500, 4, 0),
    (4500, 16, 0),
    (110, 1, 20_000),
    (110, 16, 20_000),
];

struct Relay {
    subscribers: Vec<ConnId>,
    batch: BytesMut,
}

impl Service for Relay {
    fn opened(&mut self, _: ConnId, _: &Peer, _: &mut Control) {}

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        if let Some(request) = ctl.request() {
            self.subscribers.push(conn);
            ctl.reply(request, reply());
            return;
        }
        self.batch.extend_from_slice(&header.write().expect("a message that was read"));
        self.batch.extend_from_slice(body);
    }

    fn iteration_ended(&mut self, ctl: &mut Control) {
        if !self.batch.is_empty() {
            let chunk = self.batch.split().freeze();
            self.subscribers.iter().for_each(|subscriber| ctl.send(*subscriber, chunk.clone()));
        }
    }

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, conn: ConnId, _: &CloseReason, _: &mut Control) {
        self.subscribers.retain(|subscriber| *subscriber != conn);
    }

    fn woken(&mut self, ctl: &mut Control) {
        ctl.stop();
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timer(&mut self, _: &mut Control) {}
}

fn reply() -> Bytes {
    Bytes::from(encode::message(MessageKind::Response, &NULL).expect("a null"))
}

/// A relay that runs: its port, the thread's id, and what ends it.
struct Running {
    port: u16,
    thread: i32,
    end: Box<dyn FnOnce()>,
}

fn own() -> Running {
    let listeners = Listeners::tcp(&"127.0.0.1:0".parse().expect("an address")).expect("a port");
    let parts = Parts::new().expect("a readiness queue");
    let (port, waker) = (listeners.port(), parts.waker());
    let relay = Relay { subscribers: Vec::new(), batch: BytesMut::new() };
    let limits = NetLimits::of(&Limits::default());
    let mut reactor =
        Reactor::new(parts, listeners, Box::new(Anyone::new(BTreeSet::new())), limits, relay).expect("an event loop");
    let (thread, end) = started(move || reactor.run().expect("runs"));
    Running { port, thread, end: Box::new(move || (waker.wake().expect("awake"), end()).1) }
}

fn by_tokio() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let stop = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&stop);
    let (thread, end) = started(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async move {
            tokio::task::spawn_local(accept(listener));
            told.notified().await;
        });
    });
    Running { port, thread, end: Box::new(move || (stop.notify_one(), end()).1) }
}

type Subscribers = Rc<RefCell<Vec<tokio::sync::mpsc::Sender<Bytes>>>>;

async fn accept(listener: TcpListener) {
    listener.set_nonblocking(true).expect("set");
    let listener = tokio::net::TcpListener::from_std(listener).expect("registered");
    let subscribers = Subscribers::default();
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).expect("set");
        tokio::task::spawn_local(connection(stream, Rc::clone(&subscribers)));
    }
}

async fn connection(mut stream: tokio::net::TcpStream, subscribers: Subscribers) -> Option<()> {
    let mut input = BytesMut::new();
    while !input.contains(&0) {
        (stream.read_buf(&mut input).await.ok()? > 0).then_some(())?;
    }
    input.clear();
    stream.write_all(&[3]).await.ok()?;
    loop {
        input.reserve(READ_BYTES);
        (stream.read_buf(&mut input).await.ok()? > 0).then_some(())?;
        let (whole, is_request) = frames(&input);
        let chunk = input.split_to(whole).freeze();
        if is_request {
            break;
        }
        let all = subscribers.borrow().clone();
        for subscriber in all.iter().filter(|_| whole > 0) {
            let _ = subscriber.send(chunk.clone()).await;
        }
    }
    let (sender, mut chunks) = tokio::sync::mpsc::channel(CHUNKS);
    subscribers.borrow_mut().push(sender);
    stream.write_all(&reply()).await.ok()?;
    let mut waiting = Vec::with_capacity(CHUNKS);
    while chunks.recv_many(&mut waiting, CHUNKS).await > 0 {
        for chunk in waiting.drain(..) {
            stream.write_all(&chunk).await.ok()?;
        }
    }
    Some(())
}

/// Returns how many bytes of `input` are complete messages, and whether the first message is a sync request.
fn frames(input: &[u8]) -> (usize, bool) {
    let mut at = 0;
    while let Some(header) = input.get(at..at + HEADER_BYTES) {
        let length = u32::from_le_bytes(header[4..].try_into().expect("four bytes")) as usize;
        if input.len() < at + length {
            break;
        }
        at += length;
    }
    (at, at > 0 && input.get(1) == Some(&1))
}

/// Starts a relay's thread. Returns its id and what waits for its end.
fn started(run: impl FnOnce() + Send + 'static) -> (i32, impl FnOnce()) {
    let (sender, id) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("awaited");
        run();
    });
    (id.recv().expect("started"), move || thread.join().expect("ended"))
}

/// CPU time of a thread so far.
fn processor_time(thread: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).expect("a thread");
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
}

fn connect(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("listens");
    stream.set_nodelay(true).expect("set");
    stream.write_all(&proto::handshake::hello(b"bench", b"", 3)).expect("sent");
    stream.read_exact(&mut [0]).expect("admitted");
    stream
}

struct Clients {
    began: Instant,
    ended: AtomicBool,
    /// Bytes that each subscriber has.
    received: Vec<AtomicU64>,
    rate: u64,
    message_bytes: usize,
}

fn subscribe(mut stream: TcpStream, index: usize, clients: &Clients) -> Vec<u64> {
    let (mut latencies, mut at) = (Vec::new(), 0);
    let mut input = vec![0; READ_BYTES + clients.message_bytes];
    loop {
        let count = stream.read(&mut input[at..]).unwrap_or(0);
        if count == 0 {
            return latencies;
        }
        clients.received[index].fetch_add(count as u64, Ordering::Release);
        let (whole, now) = (at + count, clients.began.elapsed().as_nanos() as u64);
        let messages = input[..whole].chunks_exact(clients.message_bytes);
        if clients.rate > 0 {
            latencies.extend(messages.map(|m| {
                now.saturating_sub(u64::from_le_bytes(m[STAMP_AT..STAMP_AT + 8].try_into().expect("eight bytes")))
            }));
        }
        let rest = whole - whole % clients.message_bytes;
        input.copy_within(rest..whole, 0);
        at = whole - rest;
    }
}

fn publish(mut stream: TcpStream, clients: &Clients) {
    let items = Items::Char(vec![b'x'; clients.message_bytes - STAMP_AT]);
    let mut message = encode::message(MessageKind::Async, &Value::Vector { attr: 0, items }).expect("text");
    assert_eq!(message.len(), clients.message_bytes);
    let at_once = if clients.rate == 0 { (32 << 10) / message.len() } else { 1 };
    let (mut sent, mut messages) = (0_u64, 0_u64);
    while !clients.ended.load(Ordering::Relaxed) {
        let slowest = clients.received.iter().map(|bytes| bytes.load(Ordering::Acquire)).min().unwrap_or(0);
        if clients.rate == 0 && sent > slowest + AHEAD_BYTES {
            std::thread::yield_now();
            continue;
        }
        let due = clients.began.elapsed().as_nanos() as u64 * clients.rate / 1_000_000_000;
        if clients.rate > 0 && messages >= due {
            std::thread::sleep(TICK);
            continue;
        }
        let now = clients.began.elapsed().as_nanos() as u64;
        message[STAMP_AT..STAMP_AT + 8].copy_from_slice(&now.to_le_bytes());
        let chunk = message.repeat(at_once);
        if stream.write_all(&chunk).is_err() {
            return;
        }
        sent += chunk.len() as u64;
        messages += at_once as u64;
    }
}

/// What one run measures.
struct Figures {
    messages_per_s: f64,
    processor_ns: f64,
    p50_us: f64,
    p99_us: f64,
}

fn measure(relay: Running, (message_bytes, subscribers, rate): (usize, usize, u64)) -> Figures {
    let clients = Arc::new(Clients {
        began: Instant::now(),
        ended: AtomicBool::new(false),
        received: (0..subscribers).map(|_| AtomicU64::new(0)).collect(),
        rate,
        message_bytes,
    });
    let request = encode::message(MessageKind::Sync, &NULL).expect("a null");
    let readers: Vec<_> = (0..subscribers)
        .map(|index| {
            let mut stream = connect(relay.port);
            stream.write_all(&request).expect("sent");
            stream.read_exact(&mut vec![0; reply().len()]).expect("subscribed");
            let clients = Arc::clone(&clients);
            std::thread::spawn(move || subscribe(stream, index, &clients))
        })
        .collect();
    let (publisher, of_publisher) = (connect(relay.port), Arc::clone(&clients));
    let publishing = std::thread::spawn(move || publish(publisher, &of_publisher));
    let read = || {
        let bytes: u64 = clients.received.iter().map(|bytes| bytes.load(Ordering::Acquire)).sum();
        (Instant::now(), processor_time(relay.thread), bytes)
    };
    std::thread::sleep(WARM_UP);
    let first = read();
    std::thread::sleep(RUN);
    let last = read();
    clients.ended.store(true, Ordering::Relaxed);
    publishing.join().expect("ended");
    (relay.end)();
    let mut latencies: Vec<u64> = readers.into_iter().flat_map(|reader| reader.join().expect("ended")).collect();
    latencies.sort_unstable();
    let at = |part: usize| latencies.get(latencies.len() * part / 100).map_or(f64::NAN, |ns| *ns as f64 / 1e3);
    let messages = (last.2 - first.2) as f64 / (message_bytes * subscribers) as f64;
    Figures {
        messages_per_s: messages / (last.0 - first.0).as_secs_f64(),
        processor_ns: (last.1 - first.1).as_nanos() as f64 / messages,
        p50_us: at(50),
        p99_us: at(99),
    }
}

fn median(rounds: &[Figures], of: fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds: usize = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(5);
    println!("medians of {rounds} rounds; CPU is the relay's thread; latency from before the write to after the read");
    println!("bytes subscribers    rate  relay  messages/s  CPU ns/message  p50 us  p99 us");
    for cell in CELLS {
        let mut all: [Vec<Figures>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            all[0].push(measure(own(), cell));
            all[1].push(measure(by_tokio(), cell));
        }
        for (name, figures) in ["own", "tokio"].iter().zip(&all) {
            println!(
                "{:5} {:11} {:7}  {name:5}  {:10.0}  {:14.0}  {:6.0}  {:6.0}",
                cell.0,
                cell.1,
                cell.2,
                median(figures, |f| f.messages_per_s),
                median(figures, |f| f.processor_ns),
                median(figures, |f| f.p50_us),
                median(figures, |f| f.p99_us),
            );
        }
    }
}
