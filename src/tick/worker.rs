//! Worker threads for the event loop.

use crate::env::Spawner;
use crate::env::task::{Due, Running, Task};
use crate::log::Waker;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes jobs, returns results, and wakes the event loop for each result. With one thread, results keep the order of the jobs.
pub struct Worker<J, R> {
    jobs: Sender<J>,
    results: Receiver<R>,
    _running: Vec<Box<dyn Running>>,
}

impl<J: Send + 'static, R: Send + 'static> Worker<J, R> {
    /// Starts `threads` threads, each with its own `work`; they end when the worker is dropped. `yields`: other threads come first if
    /// cores are short.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start<W: FnMut(J) -> R + Send + 'static>(
        spawner: &dyn Spawner,
        name: &str,
        (threads, yields): (usize, bool),
        waker: Waker,
        work: impl Fn() -> W,
    ) -> io::Result<Worker<J, R>> {
        let (jobs, from_loop) = channel::<J>();
        let (done, results) = channel();
        let todo = Arc::new(Mutex::new(Todo { from_loop, next: VecDeque::new() }));
        let start = |_| {
            let (todo, done, waker) = (Arc::clone(&todo), done.clone(), Arc::clone(&waker));
            spawner.spawn(name, Box::new(Jobs { todo, done, waker, work: work(), job: None, yields, is_over: false }))
        };
        let running = (0..threads.max(1)).map(start).collect::<io::Result<_>>()?;
        Ok(Worker { jobs, results, _running: running })
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

/// Jobs that no thread has taken yet.
struct Todo<J> {
    from_loop: Receiver<J>,
    /// Received from there while it was examined.
    next: VecDeque<J>,
}

/// The work of one thread.
struct Jobs<J, R, W> {
    todo: Arc<Mutex<Todo<J>>>,
    done: Sender<R>,
    waker: Waker,
    work: W,
    /// Taken by [`Task::wait`].
    job: Option<J>,
    yields: bool,
    is_over: bool,
}

impl<J, R, W> Jobs<J, R, W> {
    fn todo(&self) -> MutexGuard<'_, Todo<J>> {
        self.todo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Send, R: Send, W: FnMut(J) -> R + Send> Task for Jobs<J, R, W> {
    fn wait(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        // The waiting thread holds the lock; jobs run without it.
        let mut todo = self.todo();
        let job = todo.next.pop_front().or_else(|| todo.from_loop.recv().ok());
        drop(todo);
        self.job = job;
        self.job.is_some()
    }

    fn due(&mut self) -> Due {
        let mut todo = self.todo();
        let Todo { from_loop, next } = &mut *todo;
        next.extend(from_loop.try_iter());
        if next.is_empty() { Due::Later } else { Due::Now }
    }

    fn yields(&self) -> bool {
        self.yields
    }

    fn work(&mut self) {
        let job = self.job.take().or_else(|| {
            let mut todo = self.todo();
            todo.next.pop_front().or_else(|| todo.from_loop.try_recv().ok())
        });
        let Some(job) = job else { return };
        // The worker is dropped, and nobody takes the result.
        self.is_over = self.done.send((self.work)(job)).is_err();
        if !self.is_over {
            // The event loop takes the results in its next iteration.
            (self.waker)();
        }
    }
}
