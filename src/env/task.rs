//! Background work as tasks, so that one piece of code runs on a thread in production and in steps in the simulator.
//!
//! A thread calls [`Task::wait`] and [`Task::work`] in turn. A simulator never calls `wait`: it asks [`Task::due`] and calls `work` when it
//! decides that the thread would have run.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When a task has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    /// At this time, unless an event makes it due before.
    At(Instant),
    /// Not before an event.
    Later,
}

/// Work beside the event loop. It ends by itself, for example when the sender of its jobs is dropped.
pub trait Task: Send {
    /// Blocks until there is work. Returns false once the task is over.
    fn wait(&mut self) -> bool;
    /// Returns when there is work, without blocking.
    fn due(&mut self) -> Due;
    /// Does one piece of work, if there is any.
    fn work(&mut self);
    /// Whether a thread of its own yields to others if cores are short.
    fn yields(&self) -> bool {
        false
    }
}

/// Niceness of the threads of tasks that yield.
const NICE: i32 = 10;

/// A started task. Its owner keeps this for as long as it needs the task's work; dropping it does not wait for the task.
pub trait Running: Send {
    /// Called before blocking on the task's results: works in the caller's place where no thread does.
    fn assist(&self);
    /// Waits until the task is over.
    fn join(self: Box<Self>);
}

/// Starts tasks.
pub trait Spawner: Send + Sync {
    /// Starts a task under a name.
    ///
    /// # Errors
    /// The system has no thread left.
    fn spawn(&self, name: &str, task: Box<dyn Task>) -> io::Result<Box<dyn Running>>;
}

/// Runs each task on a thread of its own.
pub struct Threads;

impl Spawner for Threads {
    fn spawn(&self, name: &str, mut task: Box<dyn Task>) -> io::Result<Box<dyn Running>> {
        let run = move || {
            if task.yields() {
                // On Linux this affects only the calling thread. If it fails, the task merely runs at normal priority.
                let _ = rustix::process::nice(NICE);
            }
            while task.wait() {
                task.work();
            }
        };
        Ok(Box::new(Thread(crate::sys::stack::thread(name.to_string()).spawn(run)?)))
    }
}

struct Thread(JoinHandle<()>);

impl Running for Thread {
    fn assist(&self) {}

    fn join(self: Box<Self>) {
        // A panic is already printed, and there is no caller to report it to.
        let _ = self.0.join();
    }
}

/// A periodic task; dropping it ends the task, without waiting for a call in progress.
pub struct Every {
    _end: Sender<()>,
    _running: Box<dyn Running>,
}

impl Every {
    /// Calls `look` at once and then every `interval`, until it breaks.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        spawner: &dyn Spawner,
        name: &str,
        interval: Duration,
        look: impl FnMut() -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Every> {
        let (end, ended) = mpsc::channel();
        let task = Periodic { look, interval, ended, is_first: true, is_over: false };
        Ok(Every { _end: end, _running: spawner.spawn(name, Box::new(task))? })
    }
}

struct Periodic<F> {
    look: F,
    interval: Duration,
    ended: Receiver<()>,
    is_first: bool,
    is_over: bool,
}

impl<F: FnMut() -> ControlFlow<()> + Send> Task for Periodic<F> {
    fn wait(&mut self) -> bool {
        if std::mem::take(&mut self.is_first) {
            return true;
        }
        !self.is_over && self.ended.recv_timeout(self.interval) == Err(RecvTimeoutError::Timeout)
    }

    fn due(&mut self) -> Due {
        if self.is_over { Due::Later } else { Due::Now }
    }

    fn work(&mut self) {
        self.is_over = self.is_over || (self.look)().is_break();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_periodic_task_looks_at_once_and_until_it_breaks() {
        let (seen, looks) = mpsc::channel();
        let mut left = 3;
        let look = move || {
            left -= 1;
            seen.send(left).map_or(ControlFlow::Break(()), |()| match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        };
        let every = Every::start(&Threads, "test", Duration::from_millis(1), look).unwrap();
        assert_eq!(looks.iter().collect::<Vec<_>>(), [2, 1, 0]);
        drop(every);
    }

    #[test]
    fn a_periodic_task_ends_with_its_owner() {
        let (seen, looks) = mpsc::channel();
        let look = move || seen.send(()).map_or(ControlFlow::Break(()), ControlFlow::Continue);
        let every = Every::start(&Threads, "test", Duration::from_secs(3600), look).unwrap();
        looks.recv().unwrap();
        drop(every);
        assert!(looks.recv().is_err(), "the thread has ended and dropped its sender");
    }
}
