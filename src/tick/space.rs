//! Free space on the log's file system, polled by its own thread: on a network file system the call may block for long.

use crate::log::disk;
use crate::sys::fs::{self, Room};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Polling interval.
const EVERY: Duration = Duration::from_secs(5);
/// Age above which figures are not reported.
const OLDEST: Duration = Duration::from_secs(60);

/// Latest figures and the time of the poll.
type Seen = Mutex<Option<(Room, Instant)>>;

/// Latest figures. The thread ends when this is dropped; on a simulated disk there is no thread and no figures.
pub struct Space {
    seen: Arc<Seen>,
    _end: Sender<()>,
}

impl Space {
    /// Starts polling.
    ///
    /// # Errors
    /// The system's, if it has no thread left.
    pub fn watch(directory: PathBuf) -> io::Result<Space> {
        let (end, ended) = mpsc::channel();
        let seen = Arc::<Seen>::default();
        if disk::is_virtual() {
            return Ok(Space { seen, _end: end });
        }
        let of_thread = Arc::clone(&seen);
        crate::sys::stack::thread("space".into()).spawn(move || look(&directory, &of_thread, &ended))?;
        Ok(Space { seen, _end: end })
    }

    /// Returns the latest figures, unless they are too old.
    pub fn latest(&self) -> Option<Room> {
        // Both sides hold the lock only for a copy.
        let (room, at) = (*self.seen.lock().unwrap_or_else(PoisonError::into_inner))?;
        (at.elapsed() < OLDEST).then_some(room)
    }
}

fn look(directory: &std::path::Path, seen: &Seen, ended: &Receiver<()>) {
    let mut warned = false;
    loop {
        match fs::room(directory) {
            Ok(room) => *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((room, Instant::now())),
            Err(error) if !std::mem::replace(&mut warned, true) => {
                tracing::warn!(path = %directory.display(), %error, "cannot read the free space of the log's file system");
            }
            Err(_) => {}
        }
        if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
