//! What a connection that q opened has yet to send. As in kdb+, bytes of an asynchronous message that the socket does not take at once wait in memory, and
//! a thread sends them on: a peer that does not read stops nobody else.

use super::client::{Client, ClientError, WriteHalf};
use crate::sys::{interrupt, stack};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Longest time between two looks at a deadline and at Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for room, or before a close for the rest to be sent, while the peer reads nothing.
const STUCK: Duration = Duration::from_secs(10);
/// How long the thread that sends waits for more.
const SERVED: Duration = Duration::from_secs(1);

/// All connections of the process, for [`drain`].
static ALL: Mutex<Vec<Weak<Outgoing>>> = Mutex::new(Vec::new());

/// Before the process ends: waits until the peers have all that waits for them, for ten seconds at most.
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

/// Bytes that wait on all connections.
static WAITING_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Memory of a queued message beside its bytes.
const EACH_BYTES: usize = 64;

/// The sending side of a connection.
pub(super) struct Outgoing {
    half: Mutex<WriteHalf>,
    /// A second handle of the connection, which closes it also while a write blocks.
    closer: Mutex<WriteHalf>,
    queue: Mutex<Queue>,
    changed: Condvar,
    most: Most,
}

/// Waiting bytes from which on an asynchronous message waits for room: of its connection, and of all.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    bytes: usize,
    all_bytes: usize,
}

impl Most {
    pub fn new(bytes: u64, all_bytes: u64) -> Most {
        let number = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        Most { bytes: number(bytes), all_bytes: number(all_bytes) }
    }
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    /// Bytes of the messages, with those of the one that the thread is sending.
    bytes: usize,
    /// Whether somebody is writing: one message at a time, from its first byte to its last.
    is_busy: bool,
    /// Whether there is a thread that sends what waits.
    is_served: bool,
    is_closed: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.messages.is_empty() && !self.is_busy
    }
}

impl Outgoing {
    pub fn new(client: &Client, most: Most) -> io::Result<Arc<Outgoing>> {
        let (half, closer) = (Mutex::new(client.outgoing()?), Mutex::new(client.outgoing()?));
        let own = Arc::new(Outgoing { half, closer, queue: Mutex::default(), changed: Condvar::new(), most });
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

    /// Bytes that wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.queue().bytes
    }

    /// Sends a message, or queues what the socket does not take now. Waits only while more than the maximum is queued.
    ///
    /// # Errors
    /// `Closed`, also if the peer reads nothing for ten seconds while the queue is full; `Timeout` at `by` or on Ctrl-C, when nothing of the message was
    /// sent: the connection stays open.
    pub fn send(self: &Arc<Self>, mut message: Vec<u8>, by: Option<Instant>) -> Result<(), ClientError> {
        let mut queue = self.queue();
        // What remains of a message that is sent in part is queued in any case: nothing else is waiting then.
        if queue.is_idle() && !queue.is_closed {
            let sent = self.half().send_now(&message).inspect_err(|_| self.shut(&mut queue))?;
            message.drain(..sent);
            if message.is_empty() {
                return Ok(());
            }
        }
        let (mut bytes_then, mut moved) = (queue.bytes, Instant::now());
        while queue.bytes > 0 && self.is_full(&queue, message.len()) && !queue.is_closed {
            if queue.bytes != bytes_then {
                (bytes_then, moved) = (queue.bytes, Instant::now());
            }
            if is_over(by) {
                return Err(ClientError::Timeout);
            }
            if moved.elapsed() >= STUCK {
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

    fn is_full(&self, queue: &Queue, more_bytes: usize) -> bool {
        let held = queue.messages.len().saturating_mul(EACH_BYTES).saturating_add(queue.bytes);
        let all = WAITING_BYTES.load(Ordering::Relaxed);
        held.saturating_add(more_bytes) > self.most.bytes || all.saturating_add(more_bytes) > self.most.all_bytes
    }

    /// Sees to it that a thread sends what waits. Without one the connection is closed: what is queued must not be sent later, as if nothing were lost.
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

    /// Sends a message after all that waits, and waits until the socket has taken it.
    ///
    /// # Errors
    /// As [`Outgoing::send`]. The connection stays open if the time is up before anything of the message was sent; `false` then.
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

    /// Waits until nothing waits to be sent: `false` if it still does at `by`, or on Ctrl-C.
    ///
    /// # Errors
    /// `Closed`.
    pub fn flush(&self, by: Option<Instant>) -> Result<bool, ClientError> {
        Ok(self.idle(by)?.is_some())
    }

    /// The queue once nothing waits to be sent; `None` at `by`, or on Ctrl-C.
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

    /// Closes the connection. What waits to be sent is lost.
    pub fn close(&self) {
        self.shut(&mut self.queue());
    }

    /// Closes the connection once all is sent, without waiting for it. A peer that reads nothing for ten seconds gets no more.
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

    /// Waits until nothing waits to be sent, while the peer reads, and until Ctrl-C.
    fn drain(&self) {
        let mut queue = self.queue();
        let (mut bytes_then, mut moved) = (queue.bytes, Instant::now());
        while !queue.is_idle() && !queue.is_closed && moved.elapsed() < STUCK && !interrupt::is_asked() {
            queue = self.wait(queue);
            if queue.bytes != bytes_then {
                (bytes_then, moved) = (queue.bytes, Instant::now());
            }
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

    /// Sends what waits, until nothing has waited for a while.
    fn serve(&self) {
        let mut queue = self.queue();
        let mut since = Instant::now();
        while !queue.is_closed && (!queue.messages.is_empty() || since.elapsed() < SERVED) {
            if queue.is_busy || queue.messages.is_empty() {
                queue = self.wait(queue);
                continue;
            }
            // Small messages are sent together.
            let mut message = queue.messages.pop_front().unwrap_or_default();
            while let Some(next) = queue.messages.pop_front_if(|next| message.len() + next.len() <= PART_BYTES) {
                message.extend_from_slice(&next);
            }
            queue.is_busy = true;
            drop(queue);
            let sent = message.chunks(PART_BYTES).try_for_each(|part| {
                self.half().send_patiently(part)?;
                let mut queue = self.queue();
                // A connection that was closed meanwhile has no waiting bytes any more.
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

/// Bytes of one write of the thread, after which the number of waiting bytes is brought up to date.
const PART_BYTES: usize = 256 << 10;

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

    /// Accepts a login, reads all messages, slowly at first, and returns how many of each thread came.
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
            // The head of a byte vector, then bytes that name the thread.
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
        let out = Outgoing::new(&client, Most::new(64 << 20, 1 << 30)).expect("a handle");
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
