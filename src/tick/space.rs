//! The room on the log's file system, looked at by a thread of its own: on a network file system the question may take as long
//! as the server pleases.

use crate::log::disk;
use crate::sys::fs::{self, Room};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pause between two looks.
const EVERY: Duration = Duration::from_secs(5);
/// Older figures are none.
const OLDEST: Duration = Duration::from_secs(60);

type Seen = Mutex<Option<(Room, Instant)>>;

/// The latest figures. Its thread ends when it is dropped; on a virtual disk there is none, and no figures.
pub struct Space {
    seen: Arc<Seen>,
    _end: Sender<()>,
}

impl Space {
    /// Starts to look.
    ///
    /// # Errors
    /// The system's.
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

    /// The room as last seen, unless that was long ago.
    pub fn latest(&self) -> Option<Room> {
        // Held for a copy alone, by either side.
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
                ::log::warn!("cannot tell the room in {}: {error}", directory.display());
            }
            Err(_) => {}
        }
        if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
