//! Send queue of a connection opened with `hopen`. As in kdb+, `neg[h]x` does not wait for the peer: what the socket does not take at once is queued in
//! memory, and a thread sends it.

use super::client::{Client, ClientError, WriteHalf};
use crate::config::Limit;
use crate::metrics;
use crate::sys::{interrupt, stack};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Interval at which a wait checks its deadline and Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// If a peer reads nothing for this long, a sender no longer waits for it: the connection is closed.
const STUCK: Duration = Duration::from_secs(10);
/// An idle sending thread ends after this time.
const IDLE: Duration = Duration::from_secs(1);
/// Maximum size of one write of the sending thread. The counters are updated after each write.
const PART_BYTES: usize = 256 << 10;
/// Memory of a queued message in addition to its bytes.
const EACH_BYTES: usize = 64;

/// All connections of the process, for [`drain`].
static ALL: Mutex<Vec<Weak<Outgoing>>> = Mutex::new(Vec::new());

/// Called before the process exits: waits until all queued messages are sent, for 10 s at most.
pub fn drain() {
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(PoisonError::into_inner));
    let by = Instant::now() + STUCK;
    for outgoing in all.iter().filter_map(Weak::upgrade) {
        if let Ok(false) = outgoing.flush(Some(by)) {
            tracing::warn!(
                bytes = outgoing.waiting_bytes(),
                "the process ends, and a peer has not read all that was sent to it"
            );
        }
    }
}

/// Sum of `Queue::bytes` over all connections.
static WAITING_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The send queue of a connection, and its socket.
pub(super) struct Outgoing {
    half: Mutex<WriteHalf>,
    /// A second handle of the socket, to close it while `half` is locked by a write that blocks.
    closer: Mutex<WriteHalf>,
    queue: Mutex<Queue>,
    changed: Condvar,
    limits: SendLimits,
}

/// Limits of unsent bytes, for one connection and for all connections together. At a limit, an async send blocks.
#[derive(Clone, Copy, Debug)]
pub struct SendLimits {
    connection_bytes: usize,
    all_bytes: usize,
}

impl SendLimits {
    pub fn new(connection_bytes: u64, all_bytes: u64) -> SendLimits {
        let number = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        SendLimits { connection_bytes: number(connection_bytes), all_bytes: number(all_bytes) }
    }
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    /// Unsent bytes of the queued messages and of the one that the thread is sending.
    bytes: usize,
    /// Whether a thread is writing a message. No other thread may write until it has written the last byte.
    is_busy: bool,
    /// Whether the sending thread is running.
    is_served: bool,
    is_closed: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.messages.is_empty() && !self.is_busy
    }
}

/// Whether the peer reads: the number of unsent bytes, and since when it is the same.
struct Progress {
    bytes: usize,
    since: Instant,
}

impl Progress {
    fn of(queue: &Queue) -> Progress {
        Progress { bytes: queue.bytes, since: Instant::now() }
    }

    /// Returns whether the peer has read nothing for [`STUCK`].
    fn is_stuck(&mut self, queue: &Queue) -> bool {
        if queue.bytes != self.bytes {
            *self = Progress::of(queue);
        }
        self.since.elapsed() >= STUCK
    }
}

impl Outgoing {
    pub fn new(client: &Client, limits: SendLimits) -> io::Result<Arc<Outgoing>> {
        let (half, closer) = (Mutex::new(client.outgoing()?), Mutex::new(client.outgoing()?));
        let own = Arc::new(Outgoing { half, closer, queue: Mutex::default(), changed: Condvar::new(), limits });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&own));
        Ok(own)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn half(&self) -> MutexGuard<'_, WriteHalf> {
        self.half.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of unsent bytes.
    pub fn waiting_bytes(&self) -> usize {
        self.queue().bytes
    }

    /// Sends a message without blocking, and queues the part that the socket does not take. Blocks only while the queue is full.
    ///
    /// # Errors
    /// `Closed`, also if the queue is full and the peer reads nothing for [`STUCK`]. `Timeout` if the queue is still full at `by` or on Ctrl-C: nothing of
    /// the message was sent, and the connection stays open.
    pub fn send(self: &Arc<Self>, mut message: Vec<u8>, by: Option<Instant>) -> Result<(), ClientError> {
        let mut queue = self.queue();
        // If only a part is sent, the rest must be queued whatever the limit. The queue is empty then, so the loop below does not wait.
        if queue.is_idle() && !queue.is_closed {
            let sent = self.half().send_now(&message).inspect_err(|_| self.shut(&mut queue))?;
            message.drain(..sent);
            if message.is_empty() {
                return Ok(());
            }
        }
        let mut progress = Progress::of(&queue);
        while let Some(limit) = self.refuses(&queue, message.len()).filter(|_| !queue.is_closed) {
            if is_over(by) {
                return Err(ClientError::Timeout);
            }
            if progress.is_stuck(&queue) {
                metrics::refused(limit);
                self.shut(&mut queue);
                return Err(ClientError::Closed);
            }
            queue = self.wait(queue);
        }
        if queue.is_closed {
            return Err(ClientError::Closed);
        }
        queue.bytes = queue.bytes.saturating_add(message.len());
        WAITING_BYTES.fetch_add(message.len(), Ordering::Relaxed);
        queue.messages.push_back(message);
        self.have_served(&mut queue)
    }

    /// Returns the limit at which a message must wait for the peer. One message is always queued, however large.
    fn refuses(&self, queue: &Queue, more_bytes: usize) -> Option<Limit> {
        let held = queue.messages.len().saturating_mul(EACH_BYTES).saturating_add(queue.bytes);
        if queue.bytes == 0 {
            return None;
        }
        if held.saturating_add(more_bytes) > self.limits.connection_bytes {
            return Some(Limit::outbox_bytes);
        }
        let all = WAITING_BYTES.load(Ordering::Relaxed);
        (all.saturating_add(more_bytes) > self.limits.all_bytes).then_some(Limit::outboxes_bytes)
    }

    /// Starts a thread that sends the queued messages, if there are any and none is running. If it cannot be started, the connection is closed:
    /// the caller gets an error, so its message must not be sent later.
    fn have_served(self: &Arc<Self>, queue: &mut Queue) -> Result<(), ClientError> {
        self.changed.notify_all();
        if queue.is_served || queue.messages.is_empty() {
            return Ok(());
        }
        let own = Arc::clone(self);
        let started = stack::thread("outgoing".into()).spawn(move || own.serve());
        queue.is_served = started.is_ok();
        started.map(drop).inspect_err(|_| self.shut(queue)).map_err(ClientError::Io)
    }

    /// Sends the queued messages, then this one, and returns when the socket has taken it. Returns `false`, with nothing of this message sent, if
    /// messages are still queued at `by` or on Ctrl-C.
    ///
    /// # Errors
    /// `Closed`; `Timeout` if the socket does not take the message in time, after which the connection is closed.
    pub fn send_all(self: &Arc<Self>, message: &[u8], by: Option<Instant>) -> Result<bool, ClientError> {
        let Some(mut queue) = self.idle(by)? else { return Ok(false) };
        queue.is_busy = true;
        drop(queue);
        let sent = self.half().send_by(message, by);
        let mut queue = self.queue();
        queue.is_busy = false;
        if sent.is_err() {
            self.shut(&mut queue);
        }
        sent.and(self.have_served(&mut queue)).map(|()| true)
    }

    /// Waits until all queued messages are sent. Returns `false` if some are still queued at `by` or on Ctrl-C.
    ///
    /// # Errors
    /// `Closed`.
    pub fn flush(&self, by: Option<Instant>) -> Result<bool, ClientError> {
        Ok(self.idle(by)?.is_some())
    }

    /// Waits until no message is queued or being sent, and returns the locked queue. `None` at `by` or on Ctrl-C.
    fn idle(&self, by: Option<Instant>) -> Result<Option<MutexGuard<'_, Queue>>, ClientError> {
        let mut queue = self.queue();
        while !queue.is_idle() && !queue.is_closed {
            if is_over(by) {
                return Ok(None);
            }
            queue = self.wait(queue);
        }
        if queue.is_closed { Err(ClientError::Closed) } else { Ok(Some(queue)) }
    }

    /// Closes the connection at once and drops the queued messages.
    pub fn close(&self) {
        self.shut(&mut self.queue());
    }

    /// Closes the connection after the queued messages are sent, in the background. If the peer reads nothing for [`STUCK`], they are dropped.
    pub fn close_after(self: &Arc<Self>) {
        if self.queue().is_idle() {
            return self.close();
        }
        let own = Arc::clone(self);
        let last = move || {
            own.drain();
            own.close();
        };
        if stack::thread("closing".into()).spawn(last).is_err() {
            self.close();
        }
    }

    /// Waits until all queued messages are sent, until the peer has read nothing for [`STUCK`], or until Ctrl-C.
    fn drain(&self) {
        let mut queue = self.queue();
        let mut progress = Progress::of(&queue);
        while !queue.is_idle() && !queue.is_closed && !progress.is_stuck(&queue) && !interrupt::is_asked() {
            queue = self.wait(queue);
        }
    }

    fn shut(&self, queue: &mut Queue) {
        queue.is_closed = true;
        queue.messages.clear();
        WAITING_BYTES.fetch_sub(std::mem::take(&mut queue.bytes), Ordering::Relaxed);
        self.closer.lock().unwrap_or_else(PoisonError::into_inner).close();
        self.changed.notify_all();
    }

    fn wait<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        self.changed.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The sending thread: sends queued messages, and ends after [`IDLE`] without any.
    fn serve(&self) {
        let mut queue = self.queue();
        let mut since = Instant::now();
        while !queue.is_closed && (!queue.messages.is_empty() || since.elapsed() < IDLE) {
            if queue.is_busy || queue.messages.is_empty() {
                queue = self.wait(queue);
                continue;
            }
            // Several small messages are sent with one write.
            let mut message = queue.messages.pop_front().unwrap_or_default();
            while let Some(next) = queue.messages.pop_front_if(|next| message.len() + next.len() <= PART_BYTES) {
                message.extend_from_slice(&next);
            }
            queue.is_busy = true;
            drop(queue);
            let sent = message.chunks(PART_BYTES).try_for_each(|part| {
                self.half().send_patiently(part)?;
                let mut queue = self.queue();
                // If the connection was closed in the meantime, its count is 0 already.
                let sent = part.len().min(queue.bytes);
                queue.bytes -= sent;
                WAITING_BYTES.fetch_sub(sent, Ordering::Relaxed);
                self.changed.notify_all();
                Ok::<(), ClientError>(())
            });
            queue = self.queue();
            queue.is_busy = false;
            self.changed.notify_all();
            if sent.is_err() {
                self.shut(&mut queue);
            }
            since = Instant::now();
        }
        queue.is_served = false;
    }
}

fn is_over(by: Option<Instant>) -> bool {
    by.is_some_and(|by| by <= Instant::now()) || interrupt::is_asked()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Limits, MessageKind, Value, encode};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    const THREADS: u8 = 4;
    const MESSAGES: usize = 60;

    /// Accepts a login and reads messages until the connection ends. Returns how many came from each thread.
    fn count(listener: &TcpListener) -> Vec<usize> {
        let (mut peer, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(peer.try_clone().expect("a handle"));
        reader.read_until(0, &mut Vec::new()).expect("a login");
        peer.write_all(&[3]).expect("accepted");
        let (mut counts, mut head) = (vec![0; usize::from(THREADS)], [0; 8]);
        while reader.read_exact(&mut head).is_ok() {
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let mut body = vec![0; length - head.len()];
            reader.read_exact(&mut body).expect("a whole message");
            // A body is type, attribute and count (6 bytes), then the items: each is the number of the sending thread.
            let (from, bytes) = (body[6], &body[6..]);
            assert!(head[0] == 1 && body[0] == 4 && bytes.iter().all(|byte| *byte == from), "messages are mixed");
            counts[usize::from(from)] += 1;
        }
        counts
    }

    #[test]
    fn messages_of_several_threads_arrive_whole_and_are_sent_before_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("127.0.0.1:{}:a:b", listener.local_addr().expect("bound").port());
        let peer = std::thread::spawn(move || count(&listener));
        let address = address.parse().expect("an address");
        let client = Client::connect(&address, Duration::from_secs(10), Limits::default()).expect("connected");
        let out = Outgoing::new(&client, SendLimits::new(64 << 20, 1 << 30)).expect("a handle");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let out = &out;
                scope.spawn(move || {
                    for i in 0..MESSAGES {
                        let items = proto::Items::Byte(vec![thread; 1 + i * 9_973]);
                        let message =
                            encode::message(MessageKind::Async, &Value::Vector { attr: 0, items }).expect("encodes");
                        match i % 3 {
                            0 => assert!(out.send_all(&message, None).expect("sent")),
                            _ => out.send(message, None).expect("queued"),
                        }
                    }
                });
            }
        });
        out.close_after();
        assert_eq!(peer.join().expect("counted"), vec![MESSAGES; usize::from(THREADS)]);
    }
}
