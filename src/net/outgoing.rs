//! What a connection that q opened has yet to send. As in kdb+, bytes of an asynchronous message that the socket does not take at once wait in memory, and
//! a thread sends them on: a peer that does not read stops nobody else.

use super::client::{Client, ClientError, WriteHalf};
use crate::sys::{interrupt, stack};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Longest time between two looks at a deadline and at Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for room, or before a close for the rest to be sent, while the peer reads nothing.
const STUCK: Duration = Duration::from_secs(10);

/// All connections of the process, for [`drain`].
static ALL: Mutex<Vec<Weak<Outgoing>>> = Mutex::new(Vec::new());

/// Before the process ends: waits until the peers have all that waits for them, for ten seconds at most.
pub fn drain() {
    let all = std::mem::take(&mut *ALL.lock().unwrap_or_else(PoisonError::into_inner));
    let by = Instant::now() + STUCK;
    all.iter().filter_map(Weak::upgrade).for_each(|outgoing| drop(outgoing.flush(Some(by))));
}

/// The sending side of a connection.
pub(super) struct Outgoing {
    half: Mutex<WriteHalf>,
    /// A second handle of the connection, which closes it also while a write blocks.
    closer: Mutex<WriteHalf>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Waiting bytes from which on an asynchronous message waits for room.
    most_bytes: usize,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    /// Bytes of the messages, with those of the one that is being sent.
    bytes: usize,
    /// Whether a thread sends them.
    is_served: bool,
    is_closed: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.messages.is_empty() && !self.is_served
    }
}

impl Outgoing {
    pub fn new(client: &Client, most_bytes: usize) -> io::Result<Arc<Outgoing>> {
        let (half, closer) = (Mutex::new(client.outgoing()?), Mutex::new(client.outgoing()?));
        let own = Arc::new(Outgoing { half, closer, queue: Mutex::default(), changed: Condvar::new(), most_bytes });
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
        while queue.bytes > 0 && queue.bytes.saturating_add(message.len()) > self.most_bytes && !queue.is_closed {
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
        queue.messages.push_back(message);
        if queue.is_served {
            return Ok(());
        }
        let own = Arc::clone(self);
        stack::thread("outgoing".into()).spawn(move || own.serve()).map_err(ClientError::Io)?;
        queue.is_served = true;
        Ok(())
    }

    /// Sends a message after all that waits, and waits until the socket has taken it.
    ///
    /// # Errors
    /// As [`Outgoing::send`]. The connection stays open if the time is up before anything of the message was sent; `false` then.
    pub fn send_all(&self, message: &[u8], by: Option<Instant>) -> Result<bool, ClientError> {
        if !self.flush(by)? {
            return Ok(false);
        }
        let sent = self.half().send_by(message, by);
        sent.inspect_err(|_| self.close()).map(|()| true)
    }

    /// Waits until nothing waits to be sent: `false` if it still does at `by`, or on Ctrl-C.
    ///
    /// # Errors
    /// `Closed`.
    pub fn flush(&self, by: Option<Instant>) -> Result<bool, ClientError> {
        let mut queue = self.queue();
        while !queue.is_idle() {
            if is_over(by) {
                return Ok(false);
            }
            queue = self.wait(queue);
        }
        if queue.is_closed { Err(ClientError::Closed) } else { Ok(true) }
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
        while !queue.is_idle() && moved.elapsed() < STUCK && !interrupt::is_asked() {
            queue = self.wait(queue);
            if queue.bytes != bytes_then {
                (bytes_then, moved) = (queue.bytes, Instant::now());
            }
        }
    }

    fn shut(&self, queue: &mut Queue) {
        queue.is_closed = true;
        queue.messages.clear();
        queue.bytes = 0;
        self.closer.lock().unwrap_or_else(PoisonError::into_inner).close();
        self.changed.notify_all();
    }

    fn wait<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        self.changed.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sends what waits, until nothing does.
    fn serve(&self) {
        loop {
            let mut queue = self.queue();
            let Some(message) = queue.messages.pop_front() else {
                queue.is_served = false;
                self.changed.notify_all();
                return;
            };
            drop(queue);
            for part in message.chunks(PART_BYTES) {
                let sent = self.half().send_patiently(part);
                let mut queue = self.queue();
                if sent.is_err() {
                    self.shut(&mut queue);
                    break;
                }
                queue.bytes = queue.bytes.saturating_sub(part.len());
                self.changed.notify_all();
            }
        }
    }
}

/// Bytes of one write of the thread, after which the number of waiting bytes is brought up to date.
const PART_BYTES: usize = 256 << 10;

fn is_over(by: Option<Instant>) -> bool {
    by.is_some_and(|by| by <= Instant::now()) || interrupt::is_asked()
}
