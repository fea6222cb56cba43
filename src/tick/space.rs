//! Free space on the log's file system, polled by its own thread: on a network file system the call may block for long.

use crate::env::Env;
use crate::env::task::Every;
use crate::sys::fs::Room;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Polling interval: a fast feed fills the last per cent of a disk within seconds.
const EVERY: Duration = Duration::from_secs(1);
/// Age above which figures are not reported.
const OLDEST: Duration = Duration::from_secs(10);

/// Latest figures and the time of the poll.
type Seen = Mutex<Option<(Room, Instant)>>;

/// Latest figures. Polling ends when this is dropped.
pub struct Space {
    seen: Arc<Seen>,
    _task: Every,
}

impl Space {
    /// Starts polling.
    ///
    /// # Errors
    /// The operating system's, if no thread can be started.
    pub fn watch(env: &Env, directory: PathBuf) -> io::Result<Space> {
        let seen = Arc::<Seen>::default();
        let (disk, of_task, mut warned) = (Arc::clone(&env.disk), Arc::clone(&seen), false);
        let poll = move || {
            match disk.room(&directory) {
                Ok(room) => *of_task.lock().unwrap_or_else(PoisonError::into_inner) = Some((room, Instant::now())),
                Err(error) if !std::mem::replace(&mut warned, true) => {
                    tracing::warn!(path = %directory.display(), %error, "cannot read the free space of the log's file system");
                }
                Err(_) => {}
            }
            ControlFlow::Continue(())
        };
        Ok(Space { seen, _task: Every::start(&*env.spawner, "space", EVERY, poll)? })
    }

    /// Returns the latest figures, unless they are too old.
    pub fn latest(&self) -> Option<Room> {
        // Both sides hold the lock only for a copy.
        let (room, at) = (*self.seen.lock().unwrap_or_else(PoisonError::into_inner))?;
        (at.elapsed() < OLDEST).then_some(room)
    }
}
