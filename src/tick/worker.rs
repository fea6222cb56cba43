//! Threads that do jobs for the reactor.

use mio::Waker;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Jobs go in, results come out, and the loop is woken for each. With one thread, results keep the order of the jobs.
pub struct Worker<J, R> {
    jobs: Sender<J>,
    results: Receiver<R>,
}

impl<J: Send + 'static, R: Send + 'static> Worker<J, R> {
    /// Starts `threads` threads, each with its own `work`; they end when the worker is dropped.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start<W: FnMut(J) -> R + Send + 'static>(
        name: &str,
        threads: usize,
        waker: Arc<Waker>,
        work: impl Fn() -> W,
    ) -> io::Result<Worker<J, R>> {
        let (jobs, todo) = channel::<J>();
        let (done, results) = channel();
        let todo = Arc::new(Mutex::new(todo));
        for _ in 0..threads.max(1) {
            let (todo, done, waker, mut work) = (Arc::clone(&todo), done.clone(), Arc::clone(&waker), work());
            std::thread::Builder::new().name(name.into()).spawn(move || {
                loop {
                    // Whoever waits holds the lock; a job is worked on without it.
                    let job = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    if done.send(work(job)).is_err() {
                        return;
                    }
                    // The loop looks at the results whenever it turns.
                    let _ = waker.wake();
                }
            })?;
        }
        Ok(Worker { jobs, results })
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
