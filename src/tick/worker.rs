//! Threads that do jobs for the reactor.

use crate::log::{Waker, disk};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Jobs go in, results come out, and the loop is woken for each. With one thread, results keep the order of the jobs.
pub struct Worker<J, R> {
    jobs: Sender<J>,
    results: Receiver<R>,
    stepped: Option<Stepped<J, R>>,
}

/// Instead of the threads where a world runs this one: a job is done when the world says so.
struct Stepped<J, R> {
    todo: Receiver<J>,
    done: Sender<R>,
    work: RefCell<Box<dyn FnMut(J) -> R>>,
    /// Taken from `todo` and not done yet.
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
                    // Whoever waits holds the lock; a job is worked on without it.
                    let job = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    if done.send(work(job)).is_err() {
                        return;
                    }
                    // The loop looks at the results whenever it turns.
                    waker();
                }
            })?;
        }
        Ok(Worker { jobs, results, stepped: None })
    }

    /// Where a world steps: whether there is a job.
    pub fn is_due(&self) -> bool {
        let Some(stepped) = &self.stepped else { return false };
        let mut next = stepped.next.borrow_mut();
        next.extend(stepped.todo.try_iter());
        !next.is_empty()
    }

    /// Where a world steps: does one job.
    pub fn step(&self) {
        if self.is_due()
            && let Some(stepped) = &self.stepped
            && let Some(job) = stepped.next.borrow_mut().pop_front()
        {
            let result = (stepped.work.borrow_mut())(job);
            // The other end is this worker's own.
            let _ = stepped.done.send(result);
        }
    }

    /// Hands over a job. False if all threads have died.
    pub fn submit(&self, job: J) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// A result, if there is one.
    pub fn result(&self) -> Option<R> {
        self.results.try_recv().ok()
    }
}
