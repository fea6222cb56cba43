//! Group commit: a thread that syncs the log at most once in a given time and publishes how far it is durable.
//!
//! On a network file system it writes as well: a write there may wait for one under way to the same page, and for as long as
//! the server is silent, and the loop must not wait with it. What is handed over is in memory until then, up to a limit.
//!
//! On a virtual disk there is no thread: the world calls [`GroupSync::step`] when it pleases.

use super::disk;
use super::file::{self, LogFile};
use super::writer::Waker;
use crate::defect::{Defect, is_planted};
use crate::points::{self, Point};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Told whenever bytes have been written or synced, or failed to be.
    moved: Condvar,
    /// Updates before this are in the file, where this thread writes it.
    written_index: AtomicU64,
    /// Bytes that are in the file, as far as this thread writes it.
    written_bytes: Arc<AtomicU64>,
    /// Updates before this survive a power cut.
    durable_index: AtomicU64,
    /// Why syncing ended.
    failure: OnceLock<io::Error>,
}

struct State {
    /// Updates before this were written to the file, or handed over to be.
    target_index: u64,
    /// What was handed over, and where it goes.
    bytes: Vec<u8>,
    offset_bytes: u64,
    /// Somebody waits: the next sync comes at once.
    hurry: bool,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What is in it is whole whatever happened to the one who held it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever waits looks again. The lock is taken so that nobody is between looking and waiting.
    fn tell(&self) {
        drop(self.lock());
        self.moved.notify_all();
    }
}

/// The syncing thread of one log; dropping it syncs what is left and ends it.
pub(super) struct GroupSync {
    shared: Arc<Shared>,
    file: Arc<dyn LogFile>,
    waker: Option<Waker>,
    /// None where a world steps.
    thread: Option<JoinHandle<()>>,
}

impl GroupSync {
    /// Begins at `durable_index`; counts in `written_bytes` what it writes itself. `waker` is called after every step of the durable tip, and after a failure.
    pub fn start(
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
        let thread = if disk::is_virtual() {
            None
        } else {
            let (of_thread, file, waker) = (Arc::clone(&shared), Arc::clone(&file), waker.clone());
            let run = move || run(&of_thread, file.as_ref(), interval, waker.as_ref());
            Some(crate::sys::stack::thread("log-sync".to_string()).spawn(run)?)
        };
        Ok(GroupSync { shared, file, waker, thread })
    }

    /// Where a world steps: whether there is anything to write or to sync.
    pub fn is_due(&self) -> bool {
        let behind = self.shared.lock().target_index > self.durable_index();
        self.thread.is_none() && behind && self.shared.failure.get().is_none()
    }

    /// Where a world steps: writes and syncs what the thread would.
    pub fn step(&self) {
        if !self.is_due() {
            return;
        }
        let mut bytes = Vec::new();
        let mut state = self.shared.lock();
        let (target, offset_bytes) = (state.target_index, state.offset_bytes);
        std::mem::swap(&mut state.bytes, &mut bytes);
        drop(state);
        commit(&self.shared, &*self.file, &bytes, offset_bytes, target, self.waker.as_ref());
    }

    /// Says how far the file is written.
    pub fn written(&self, written_index: u64) {
        self.aim(self.shared.lock(), written_index);
    }

    /// Hands bytes over that go behind those handed over before. Waits while more than `most_bytes` would be in memory.
    pub fn write(&self, bytes: &[u8], offset_bytes: u64, next_index: u64, most_bytes: usize) {
        let is_full = |state: &mut State| {
            let too_many = state.bytes.len().saturating_add(bytes.len()) > most_bytes;
            too_many && !state.bytes.is_empty() && self.shared.failure.get().is_none()
        };
        let mut state = self.shared.lock();
        if self.thread.is_none() && is_full(&mut state) {
            drop(state);
            self.step();
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
        // While a sync is under way the thread looks again by itself.
        if idle {
            self.shared.wake.notify_one();
        }
    }

    /// Waits until all that was written or handed over is durable, or has failed. Nobody else syncs the file: the system tells of a
    /// failure once, and whoever syncs after that would take it for done.
    pub fn settle(&self) {
        self.step();
        self.shared.lock().hurry = true;
        self.shared.wake.notify_one();
        let is_behind = |state: &mut State| {
            let durable = self.shared.durable_index.load(Ordering::Acquire);
            durable < state.target_index && self.shared.failure.get().is_none()
        };
        drop(self.shared.moved.wait_while(self.shared.lock(), is_behind));
    }

    /// How far the file is written, where this thread writes it.
    pub fn written_index(&self) -> u64 {
        self.shared.written_index.load(Ordering::Acquire)
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
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nobody to hand it to.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, file: &dyn LogFile, interval: Duration, waker: Option<&Waker>) {
    let mut last_start: Option<Instant> = None;
    let mut bytes = Vec::new();
    loop {
        let durable = shared.durable_index.load(Ordering::Relaxed);
        let state = shared.lock();
        let state = shared
            .wake
            .wait_while(state, |state| !state.stop && state.target_index <= durable)
            .unwrap_or_else(PoisonError::into_inner);
        let pause = last_start.map_or(Duration::ZERO, |start| interval.saturating_sub(start.elapsed()));
        let mut state = shared
            .wake
            .wait_timeout_while(state, pause, |state| !state.stop && !state.hurry)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        state.hurry = false;
        let (target, stop, offset_bytes) = (state.target_index, state.stop, state.offset_bytes);
        std::mem::swap(&mut state.bytes, &mut bytes);
        drop(state);
        if target > durable {
            last_start = Some(Instant::now());
            commit(shared, file, &bytes, offset_bytes, target, waker);
            bytes.clear();
        }
        if stop || shared.failure.get().is_some() {
            return;
        }
    }
}

/// Writes what was handed over, and makes everything up to the target durable.
fn commit(shared: &Shared, file: &dyn LogFile, bytes: &[u8], offset_bytes: u64, target: u64, waker: Option<&Waker>) {
    let done = put(shared, file, bytes, offset_bytes, target).and_then(|()| {
        points::reach(Point::LogBeforeSync);
        file.sync()
    });
    points::reach(Point::LogSynced);
    match done {
        Ok(()) => shared.durable_index.store(target, Ordering::Release),
        Err(_) if is_planted(Defect::SyncErrorIgnored) => shared.durable_index.store(target, Ordering::Release),
        Err(error) => {
            // Set once: nothing is written after it.
            let _ = shared.failure.set(error);
        }
    }
    shared.tell();
    if let Some(waker) = waker {
        waker();
    }
}

/// Writes what was handed over; what cannot be written whole is taken back, so that the log ends with a whole record.
fn put(shared: &Shared, file: &dyn LogFile, bytes: &[u8], offset_bytes: u64, target: u64) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    // There is room again for whoever hands over.
    shared.tell();
    file::write_all(file, bytes, offset_bytes).inspect_err(|_| {
        // The write's own error is the one that counts.
        let _ = file.truncate(offset_bytes);
    })?;
    shared.written_bytes.store(offset_bytes.saturating_add(bytes.len() as u64), Ordering::Release);
    shared.written_index.store(target, Ordering::Release);
    Ok(())
}
