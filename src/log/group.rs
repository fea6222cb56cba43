//! Group commit: a thread that syncs the log at most once per interval and publishes the durable index.
//!
//! On a network file system the thread also writes: a write there may wait for another one to the same page, or as long as the server is
//! silent, and the event loop must not wait with it. Bytes passed to the thread are in memory until written, up to a limit.

use super::file;
use super::writer::Waker;
use crate::env::LogFile;
use crate::env::task::{Due, Running, Spawner, Task};
use crate::points::{self, Point};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Notified after bytes were written or synced, and after a failure.
    moved: Condvar,
    /// Updates before this index are in the file, if this thread writes it.
    written_index: AtomicU64,
    /// Bytes in the file. Raised by the thread that writes: this one, or the appender.
    written_bytes: Arc<AtomicU64>,
    /// Updates before this index survive a power cut.
    durable_index: AtomicU64,
    /// The error that ended syncing.
    failure: OnceLock<io::Error>,
}

struct State {
    /// Updates before this index were written, or queued for this thread to write.
    target_index: u64,
    /// Bytes queued for writing, and their file offset.
    bytes: Vec<u8>,
    offset_bytes: u64,
    /// Bytes taken from the queue that are not in the file yet.
    writing_bytes: usize,
    /// A caller waits: sync without waiting for the interval.
    hurry: bool,
    stop: bool,
}

impl State {
    /// Bytes in memory until they are in the file.
    fn held_bytes(&self) -> usize {
        self.bytes.len().saturating_add(self.writing_bytes)
    }

    /// Whether `more_bytes` exceed the limit. An empty buffer takes a batch of any size.
    fn is_full(&self, more_bytes: usize, most_bytes: usize) -> bool {
        self.held_bytes() > 0 && self.held_bytes().saturating_add(more_bytes) > most_bytes
    }

    /// Takes the queued bytes for writing, and leaves an empty buffer.
    fn take_queue(&mut self, into: &mut Vec<u8>) {
        self.writing_bytes = self.bytes.len();
        std::mem::swap(&mut self.bytes, into);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent at every point where a holder can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the waiters. Takes the lock first, so that no waiter is between its check and its wait.
    fn tell(&self) {
        drop(self.lock());
        self.moved.notify_all();
    }
}

/// Sync thread of one log; on drop it syncs what is pending and ends.
pub(super) struct GroupSync {
    shared: Arc<Shared>,
    /// `None` while it is dropped.
    running: Option<Box<dyn Running>>,
}

impl GroupSync {
    /// Starts with everything before `durable_index` durable. Raises `written_bytes` by what the thread itself writes. Calls `waker` after
    /// every advance of the durable index, and after a failure.
    pub fn start(
        spawner: &dyn Spawner,
        file: Arc<dyn LogFile>,
        interval: Duration,
        durable_index: u64,
        written_bytes: Arc<AtomicU64>,
        waker: Option<Waker>,
    ) -> io::Result<GroupSync> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target_index: durable_index,
                bytes: Vec::new(),
                offset_bytes: 0,
                writing_bytes: 0,
                hurry: false,
                stop: false,
            }),
            wake: Condvar::new(),
            moved: Condvar::new(),
            written_index: AtomicU64::new(durable_index),
            written_bytes,
            durable_index: AtomicU64::new(durable_index),
            failure: OnceLock::new(),
        });
        let sync = SyncTask { shared: Arc::clone(&shared), file, interval, waker, last_start: None, bytes: Vec::new() };
        Ok(GroupSync { shared, running: Some(spawner.spawn("log-sync", Box::new(sync))?) })
    }

    /// Must be called before this thread waits for the sync thread: in the simulator, which has no sync thread, it does that thread's work.
    fn assist(&self) {
        if let Some(running) = &self.running {
            running.assist();
        }
    }

    /// Records that the file contains the updates before `written_index`.
    pub fn written(&self, written_index: u64) {
        self.aim(self.shared.lock(), written_index);
    }

    /// Queues bytes to be written after those queued before. Blocks while these and those that the thread is writing would exceed `most_bytes`,
    /// unless there are none before them or the thread has failed.
    pub fn write(&self, bytes: &[u8], offset_bytes: u64, next_index: u64, most_bytes: usize) {
        let is_full = |state: &mut State| state.is_full(bytes.len(), most_bytes) && self.shared.failure.get().is_none();
        let mut state = self.shared.lock();
        if is_full(&mut state) {
            drop(state);
            self.assist();
            state = self.shared.lock();
        }
        let state = self.shared.moved.wait_while(state, is_full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.bytes.is_empty() {
            state.offset_bytes = offset_bytes;
        }
        state.bytes.extend_from_slice(bytes);
        self.aim(state, next_index);
    }

    fn aim(&self, mut state: MutexGuard<'_, State>, target_index: u64) {
        let idle = state.target_index <= self.shared.durable_index.load(Ordering::Relaxed);
        state.target_index = target_index;
        drop(state);
        // During a sync the thread checks the target again by itself.
        if idle {
            self.shared.wake.notify_one();
        }
    }

    /// Waits until all updates written or queued are durable, or syncing failed. The kernel reports a failed fsync once, so no other thread
    /// may sync the file: the next fsync would return success.
    pub fn settle(&self) {
        self.assist();
        self.shared.lock().hurry = true;
        self.shared.wake.notify_one();
        let is_behind = |state: &mut State| {
            let durable = self.shared.durable_index.load(Ordering::Acquire);
            durable < state.target_index && self.shared.failure.get().is_none()
        };
        drop(self.shared.moved.wait_while(self.shared.lock(), is_behind));
    }

    /// Updates before this index are in the file, if this thread writes it.
    pub fn written_index(&self) -> u64 {
        self.shared.written_index.load(Ordering::Acquire)
    }

    /// Bytes passed to the thread that are not in the file yet.
    pub fn held_bytes(&self) -> usize {
        self.shared.lock().held_bytes()
    }

    pub fn durable_index(&self) -> u64 {
        self.shared.durable_index.load(Ordering::Acquire)
    }

    pub fn failure(&self) -> Option<&io::Error> {
        self.shared.failure.get()
    }
}

impl Drop for GroupSync {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_one();
        if let Some(running) = self.running.take() {
            running.join();
        }
    }
}

/// The thread's work.
struct SyncTask {
    shared: Arc<Shared>,
    file: Arc<dyn LogFile>,
    interval: Duration,
    waker: Option<Waker>,
    last_start: Option<Instant>,
    bytes: Vec<u8>,
}

impl Task for SyncTask {
    fn wait(&mut self) -> bool {
        let shared = &*self.shared;
        if shared.failure.get().is_some() {
            return false;
        }
        let durable = shared.durable_index.load(Ordering::Relaxed);
        let state = shared
            .wake
            .wait_while(shared.lock(), |state| !state.stop && state.target_index <= durable)
            .unwrap_or_else(PoisonError::into_inner);
        let pause = self.last_start.map_or(Duration::ZERO, |start| self.interval.saturating_sub(start.elapsed()));
        let (state, _) = shared
            .wake
            .wait_timeout_while(state, pause, |state| !state.stop && !state.hurry)
            .unwrap_or_else(PoisonError::into_inner);
        self.last_start = Some(Instant::now());
        state.target_index > durable
    }

    fn due(&mut self) -> Due {
        let is_behind = self.shared.lock().target_index > self.shared.durable_index.load(Ordering::Acquire);
        if is_behind && self.shared.failure.get().is_none() { Due::Now } else { Due::Later }
    }

    fn work(&mut self) {
        if self.due() != Due::Now {
            return;
        }
        let mut state = self.shared.lock();
        state.hurry = false;
        let (target, offset_bytes) = (state.target_index, state.offset_bytes);
        state.take_queue(&mut self.bytes);
        drop(state);
        commit(&self.shared, &*self.file, &self.bytes, offset_bytes, target, self.waker.as_ref());
        self.bytes.clear();
    }
}

/// Writes the queued bytes and makes all updates before `target` durable.
fn commit(shared: &Shared, file: &dyn LogFile, bytes: &[u8], offset_bytes: u64, target: u64, waker: Option<&Waker>) {
    let done = put(shared, file, bytes, offset_bytes, target).and_then(|()| {
        points::reach(Point::LogBeforeSync);
        file.sync()
    });
    points::reach(Point::LogSynced);
    match done {
        Ok(()) => shared.durable_index.store(target, Ordering::Release),
        Err(error) => {
            // Set once: nothing is written after a failure.
            let _ = shared.failure.set(error);
        }
    }
    shared.tell();
    if let Some(waker) = waker {
        waker();
    }
}

/// Writes the queued bytes; after a failure cuts off the partial write, so that the log ends with a whole record.
fn put(shared: &Shared, file: &dyn LogFile, bytes: &[u8], offset_bytes: u64, target: u64) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    file::write_all(file, bytes, offset_bytes).inspect_err(|_| {
        // The write's error is the one to report.
        let _ = file.truncate(offset_bytes);
    })?;
    shared.written_bytes.store(offset_bytes.saturating_add(bytes.len() as u64), Ordering::Release);
    shared.written_index.store(target, Ordering::Release);
    shared.lock().writing_bytes = 0;
    // Callers blocked in `write` have room; they need not wait for the sync.
    shared.tell();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(queued_bytes: usize) -> State {
        let bytes = vec![0; queued_bytes];
        State { target_index: 0, bytes, offset_bytes: 0, writing_bytes: 0, hurry: false, stop: false }
    }

    #[test]
    fn bytes_that_are_being_written_count_against_the_limit() {
        let mut state = state(60);
        let mut writing = Vec::new();
        state.take_queue(&mut writing);
        assert_eq!((writing.len(), state.held_bytes()), (60, 60));
        assert!(state.is_full(50, 100) && !state.is_full(40, 100));
        state.writing_bytes = 0;
        assert!(!state.is_full(50, 100), "they are in the file");
    }

    #[test]
    fn a_batch_above_the_limit_is_taken_by_an_empty_buffer_only() {
        assert!(!state(0).is_full(500, 100) && state(1).is_full(500, 100));
    }
}
