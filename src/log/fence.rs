//! Whether this writer still is the writer, asked again and again where a lock can be lost: on a network file system.
//!
//! A server that does not hear of a host for the time of a lease gives the host's locks to whoever asks. The host is told when
//! it writes to the file next. A tickerplant that has nothing to write is not told, and would go on as if it were the one;
//! so a thread reads in the lock file who is. It may hang with the file system, and nobody waits for it.

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
    thread: Thread,
}

impl Fence {
    /// `waker` is called when another has become the writer.
    pub fn start(path: PathBuf, own: Holder, waker: Option<Waker>) -> std::io::Result<Fence> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("log-fence".to_string()).spawn(move || {
            while !of_thread.over.load(Ordering::Relaxed) {
                // A file that cannot be read says nothing, and the next look may tell.
                if let Ok(Some(holder)) = lock::read_holder(&path)
                    && holder.has_replaced(&own)
                {
                    let _ = of_thread.successor.set(lock::describe(Some(&holder)));
                    if let Some(waker) = &waker {
                        waker();
                    }
                    return;
                }
                std::thread::park_timeout(EVERY);
            }
        })?;
        Ok(Fence { shared, thread: thread.thread().clone() })
    }

    /// Who has become the writer in this one's place.
    pub fn successor(&self) -> Option<&str> {
        self.shared.successor.get().map(String::as_str)
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}
