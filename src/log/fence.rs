//! Detects on a network file system that another process has become the log's writer.
//!
//! A server that receives nothing from a host for a lease period grants the host's locks to others. The host learns this only at its next
//! write, so an idle tickerplant would continue as if it were the writer. A thread therefore reads the lock file. It may hang with the file
//! system, so nothing waits for it.

use super::disk;
use super::lock::{self, Holder};
use super::writer::Waker;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// Interval between reads of the lock file.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Shared {
    /// Description of the process that writes now.
    successor: OnceLock<String>,
    over: AtomicBool,
}

/// The polling thread; it ends on drop.
pub(super) struct Fence {
    shared: Arc<Shared>,
    look: Look,
    /// `None` in the simulator, which calls `step`.
    thread: Option<Thread>,
}

/// The lock file to read, and the callback for a change of writer.
#[derive(Clone)]
struct Look {
    path: PathBuf,
    own: Holder,
    waker: Option<Waker>,
}

impl Look {
    /// Returns true once another process has become the writer.
    fn finds_successor(&self, shared: &Shared) -> bool {
        // An unreadable file is no evidence; the next poll decides.
        let Ok(Some(holder)) = lock::read_holder(&self.path) else { return false };
        if !holder.has_replaced(&self.own) {
            return false;
        }
        let _ = shared.successor.set(lock::describe(Some(&holder)));
        if let Some(waker) = &self.waker {
            waker();
        }
        true
    }
}

impl Fence {
    /// Starts polling. Calls `waker` when another process has become the writer.
    pub fn start(path: PathBuf, own: Holder, waker: Option<Waker>) -> std::io::Result<Fence> {
        let (shared, look) = (Arc::new(Shared::default()), Look { path, own, waker });
        if disk::is_virtual() {
            return Ok(Fence { shared, look, thread: None });
        }
        let (of_thread, looks) = (Arc::clone(&shared), look.clone());
        let thread = crate::sys::stack::thread("log-fence".to_string()).spawn(move || {
            while !of_thread.over.load(Ordering::Relaxed) && !looks.finds_successor(&of_thread) {
                std::thread::park_timeout(EVERY);
            }
        })?;
        Ok(Fence { shared, look, thread: Some(thread.thread().clone()) })
    }

    /// Simulation hook: one poll.
    pub fn step(&self) {
        if self.thread.is_none() && self.successor().is_none() {
            self.look.finds_successor(&self.shared);
        }
    }

    /// Description of the process that replaced this writer.
    pub fn successor(&self) -> Option<&str> {
        self.shared.successor.get().map(String::as_str)
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}
