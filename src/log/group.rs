//! Group commit: a thread that syncs the log at most once in a given time and publishes how far it is durable.

use super::file::LogFile;
use super::writer::Waker;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Updates before this survive a power cut.
    durable_index: AtomicU64,
    /// Why syncing ended.
    failure: OnceLock<io::Error>,
}

struct State {
    /// Updates before this were written to the file.
    written_index: u64,
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Two numbers are whole whatever happened to the one who held them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The syncing thread of one log; dropping it syncs what is left and ends it.
pub(super) struct GroupSync {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl GroupSync {
    /// Begins at `durable_index`. `waker` is called after every step of the durable tip, and after a failure.
    pub fn start(
        file: Arc<dyn LogFile>,
        interval: Duration,
        durable_index: u64,
        waker: Option<Waker>,
    ) -> io::Result<GroupSync> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { written_index: durable_index, stop: false }),
            wake: Condvar::new(),
            durable_index: AtomicU64::new(durable_index),
            failure: OnceLock::new(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("log-sync".to_string())
            .spawn(move || run(&of_thread, file.as_ref(), interval, waker.as_ref()))?;
        Ok(GroupSync { shared, thread: Some(thread) })
    }

    /// Says how far the file is written.
    pub fn written(&self, written_index: u64) {
        let mut state = self.shared.lock();
        let idle = state.written_index <= self.shared.durable_index.load(Ordering::Relaxed);
        state.written_index = written_index;
        drop(state);
        // While a sync is under way the thread looks again by itself.
        if idle {
            self.shared.wake.notify_one();
        }
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
    loop {
        let durable = shared.durable_index.load(Ordering::Relaxed);
        let state = shared.lock();
        let state = shared
            .wake
            .wait_while(state, |state| !state.stop && state.written_index <= durable)
            .unwrap_or_else(PoisonError::into_inner);
        let pause = last_start.map_or(Duration::ZERO, |start| interval.saturating_sub(start.elapsed()));
        let state =
            shared.wake.wait_timeout_while(state, pause, |state| !state.stop).unwrap_or_else(PoisonError::into_inner).0;
        let (target, stop) = (state.written_index, state.stop);
        drop(state);
        if target > durable {
            last_start = Some(Instant::now());
            match file.sync() {
                Ok(()) => shared.durable_index.store(target, Ordering::Release),
                Err(error) => {
                    // Set once: the thread ends here.
                    let _ = shared.failure.set(error);
                }
            }
            if let Some(waker) = waker {
                waker();
            }
        }
        if stop || shared.failure.get().is_some() {
            return;
        }
    }
}
