//! Whether this writer still is the writer, asked again and again where a lock can be lost: on a network file system.
//!
//! A server that does not hear of a host for the time of a lease gives the host's locks to whoever asks. The host is told when
//! it writes to the file next. A tickerplant that has nothing to write is not told, and would go on as if it were the one;
//! so a thread reads in the lock file who is. It may hang with the file system, and nobody waits for it.

use super::disk;
use super::lock::{self, Holder};
use super::writer::Waker;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// How often the lock file is read.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Shared {
    /// Who writes now, in words.
    successor: OnceLock<String>,
    over: AtomicBool,
}

/// The thread that asks; dropping it ends it.
pub(super) struct Fence {
    shared: Arc<Shared>,
    look: Look,
    /// None where a world steps.
    thread: Option<Thread>,
}

/// What is looked at, and whom to tell.
#[derive(Clone)]
struct Look {
    path: PathBuf,
    own: Holder,
    waker: Option<Waker>,
}

impl Look {
    /// True once another has become the writer.
    fn finds_successor(&self, shared: &Shared) -> bool {
        // A file that cannot be read says nothing, and the next look may tell.
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
    /// `waker` is called when another has become the writer.
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

    /// Where a world steps: looks once, as the thread would.
    pub fn step(&self) {
        if self.thread.is_none() && self.successor().is_none() {
            self.look.finds_successor(&self.shared);
        }
    }

    /// Who has become the writer in this one's place.
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
