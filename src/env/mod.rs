//! What a process takes from its surroundings ([`Env`]): the time, the file system of its logs, and threads for
//! background work.
//!
//! It is handed in at the start, and nothing else reaches for it: production passes [`Env::system`], the simulator an environment of its
//! own for each simulated process. `README.md` beside this file has an example.

pub mod disk;
mod file;
pub mod job_queue;
pub mod task;

pub use disk::{Disk, Open, SystemDisk, WriterProcess};
pub use file::{Descriptor, LogFile};
pub use task::Spawner;

use crate::sys::clock::{Clock, SystemClock};
use std::fmt;
use std::sync::Arc;

/// Environment of one process. A copy refers to the same environment.
#[derive(Clone)]
pub struct Env {
    pub clock: Arc<dyn Clock>,
    pub disk: Arc<dyn Disk>,
    pub spawner: Arc<dyn Spawner>,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

impl Env {
    /// The operating system's environment.
    pub fn system() -> Env {
        Env { clock: Arc::new(SystemClock), disk: Arc::new(SystemDisk), spawner: Arc::new(task::Threads) }
    }
}
