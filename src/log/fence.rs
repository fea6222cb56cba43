//! Detects on a network file system that another process has become the log's writer.
//!
//! A server that receives nothing from a host for a lease period grants the host's locks to others. The host learns this only at its next
//! write, so an idle tickerplant would continue as if it were the writer. A thread therefore reads the lock file. It may hang with the file
//! system, so nothing waits for it.

use super::holder::{Holder, describe};
use super::lock;
use super::writer::Waker;
use crate::env::task::Every;
use crate::env::{Disk, Env};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Interval between reads of the lock file.
const EVERY: Duration = Duration::from_secs(1);

/// Polls the lock file; ends on drop.
pub(super) struct Fence {
    /// Description of the process that writes now.
    successor: Arc<OnceLock<String>>,
    _task: Every,
}

/// The lock file to read, and the callback for a change of writer.
struct Look {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    own: Holder,
    waker: Option<Waker>,
}

impl Look {
    /// Breaks once another process has become the writer.
    fn look(&self, successor: &OnceLock<String>) -> ControlFlow<()> {
        // An unreadable file is no evidence; the next poll decides.
        let Ok(Some(holder)) = lock::read_holder(&*self.disk, &self.path) else { return ControlFlow::Continue(()) };
        if !holder.has_replaced(&self.own) {
            return ControlFlow::Continue(());
        }
        let _ = successor.set(describe(Some(&holder)));
        if let Some(waker) = &self.waker {
            waker();
        }
        ControlFlow::Break(())
    }
}

impl Fence {
    /// Starts polling. Calls `waker` when another process has become the writer.
    pub fn start(env: &Env, path: PathBuf, own: Holder, waker: Option<Waker>) -> std::io::Result<Fence> {
        let look = Look { disk: Arc::clone(&env.disk), path, own, waker };
        let successor = Arc::<OnceLock<String>>::default();
        let found = Arc::clone(&successor);
        let task = Every::start(&*env.spawner, "log-fence", EVERY, move || look.look(&found))?;
        Ok(Fence { successor, _task: task })
    }

    /// Description of the process that replaced this writer.
    pub fn successor(&self) -> Option<&str> {
        self.successor.get().map(String::as_str)
    }
}
