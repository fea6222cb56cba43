//! Worker threads for the event loop.

use crate::log::{Waker, disk};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Takes jobs, returns results, and wakes the event loop for each result. With one thread, results keep the order of the jobs.
pub struct Worker<J, R> {
    jobs: Sender<J>,
    results: Receiver<R>,
    stepped: Option<Stepped<J, R>>,
}

/// Replaces the threads in a simulated environment, which decides when a job runs.
struct Stepped<J, R> {
    todo: Receiver<J>,
    done: Sender<R>,
    work: RefCell<Box<dyn FnMut(J) -> R>>,
    /// Taken from `todo` and not yet run.
    next: RefCell<VecDeque<J>>,
}

impl<J: Send + 'static, R: Send + 'static> Worker<J, R> {
    /// Starts `threads` threads, each with its own `work`; they end when the worker is dropped.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start<W: FnMut(J) -> R + Send + 'static>(
        name: &str,
        threads: usize,
        waker: Waker,
        work: impl Fn() -> W,
    ) -> io::Result<Worker<J, R>> {
        let (jobs, todo) = channel::<J>();
        let (done, results) = channel();
        if disk::is_virtual() {
            let (work, next) = (RefCell::new(Box::new(work()) as _), RefCell::default());
            return Ok(Worker { jobs, results, stepped: Some(Stepped { todo, done, work, next }) });
        }
        let todo = Arc::new(Mutex::new(todo));
        for _ in 0..threads.max(1) {
            let (todo, done, waker, mut work) = (Arc::clone(&todo), done.clone(), Arc::clone(&waker), work());
            crate::sys::stack::thread(name.into()).spawn(move || {
                loop {
                    // The waiting thread holds the lock; jobs run without it.
                    let job = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    if done.send(work(job)).is_err() {
                        return;
                    }
                    // The event loop takes the results in its next iteration.
                    waker();
                }
            })?;
        }
        Ok(Worker { jobs, results, stepped: None })
    }

    /// Simulation hook: whether there is a job.
    pub fn is_due(&self) -> bool {
        let Some(stepped) = &self.stepped else { return false };
        let mut next = stepped.next.borrow_mut();
        next.extend(stepped.todo.try_iter());
        !next.is_empty()
    }

    /// Simulation hook: runs one job.
    pub fn step(&self) {
        if self.is_due()
            && let Some(stepped) = &self.stepped
            && let Some(job) = stepped.next.borrow_mut().pop_front()
        {
            let result = (stepped.work.borrow_mut())(job);
            // Cannot fail: this worker owns the receiver.
            let _ = stepped.done.send(result);
        }
    }

    /// Submits a job. Returns false if all threads have ended.
    pub fn submit(&self, job: J) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// Returns a result, if there is one.
    pub fn result(&self) -> Option<R> {
        self.results.try_recv().ok()
    }
}
