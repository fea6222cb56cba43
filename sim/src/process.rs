//! What the simulation hands to one process: its environment, and its background tasks, which run when the simulation decides.

use super::clock::VirtualClock;
use elastick::env::task::{Due, Running, Spawner, Task};
use elastick::env::{Disk, Env};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The tickerplant's tasks that take jobs of its event loop, or whose work its responses wait for.
const WORKERS: [&str; 4] = ["catch-up", "verify", "query", "rejected"];
/// Syncs the log.
const SYNC: &str = "log-sync";
/// Reads the lock file.
const FENCE: &str = "log-fence";
/// Makes the calls of a node, or of the tickerplant, to the fleet.
const FLEET: &str = "fleet";

/// A process's environment and its handle on the tasks that the process has started in it.
#[derive(Clone)]
pub struct Process {
    pub env: Env,
    tasks: Tasks,
}

impl Process {
    /// A process with this disk and clock, and no task so far.
    pub fn new(disk: Arc<dyn Disk>, clock: &Arc<VirtualClock>) -> Process {
        let tasks = Tasks::default();
        let clock = Arc::<VirtualClock>::clone(clock);
        Process { env: Env { clock, disk, spawner: Arc::new(tasks.clone()) }, tasks }
    }

    /// Whether a job waits for one of the tickerplant's workers.
    pub fn work_is_due(&self) -> bool {
        WORKERS.iter().any(|name| self.tasks.is_due(name))
    }

    /// Runs the next job of each background thread of the tickerplant.
    pub fn work(&self) {
        WORKERS.iter().for_each(|name| self.tasks.work(name));
    }

    /// Whether the log has to be synced.
    pub fn sync_is_due(&self) -> bool {
        self.tasks.is_due(SYNC)
    }

    /// Syncs the log and reads the lock file, each if that is due.
    pub fn sync(&self) {
        self.tasks.work(SYNC);
        self.tasks.work(FENCE);
    }

    /// Returns when a fleet call is due.
    pub fn fleet_due(&self) -> Due {
        self.tasks.due(FLEET)
    }

    /// Makes the fleet calls that are due. Returns when the next one is due.
    pub fn call_fleet(&self) -> Due {
        self.tasks.work(FLEET);
        self.tasks.due(FLEET)
    }
}

type Started = Mutex<Box<dyn Task>>;
type Named = (String, Weak<Started>);

/// Background tasks by name, in the order of their start. They are gone with their owners.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Vec<Named>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tasks {
    fn find(&self, name: &str) -> Option<Arc<Started>> {
        let tasks = lock(&self.0);
        tasks.iter().filter(|(own, _)| own == name).find_map(|(_, task)| task.upgrade())
    }

    fn due(&self, name: &str) -> Due {
        self.find(name).map_or(Due::Later, |task| lock(&task).due())
    }

    fn is_due(&self, name: &str) -> bool {
        self.due(name) == Due::Now
    }

    fn work(&self, name: &str) {
        if let Some(task) = self.find(name) {
            work(&task);
        }
    }
}

/// Does a task's work; a task that has none ignores the call.
fn work(task: &Started) {
    let mut task = lock(task);
    if task.due() != Due::Later {
        task.work();
    }
}

impl Spawner for Tasks {
    fn spawn(&self, name: &str, task: Box<dyn Task>) -> io::Result<Box<dyn Running>> {
        let task = Arc::new(Mutex::new(task));
        let mut tasks = lock(&self.0);
        tasks.retain(|(_, task)| task.strong_count() > 0);
        tasks.push((name.to_string(), Arc::downgrade(&task)));
        Ok(Box::new(Kept(task)))
    }
}

/// Keeps a task for its owner. Dropping it ends the task as a kill of the process would.
struct Kept(Arc<Started>);

impl Running for Kept {
    fn assist(&self) {
        work(&self.0);
    }

    fn join(self: Box<Self>) {}
}
