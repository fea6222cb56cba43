//! Worker threads for the event loop.

use crate::env::Spawner;
use crate::env::job_queue::JobQueue;
use crate::env::task::{Due, Running, Task};
use crate::log::Waker;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Takes jobs, returns results, and wakes the event loop for each result. With one thread, results keep the order of the jobs of each user.
pub struct Worker<J, R> {
    jobs: Arc<JobQueue<J>>,
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
        let jobs = Arc::new(JobQueue::new(threads, 0));
        let (done, results) = channel();
        let start = |_| {
            let (jobs, done, waker) = (Arc::clone(&jobs), done.clone(), Arc::clone(&waker));
            spawner.spawn(name, Box::new(Jobs { jobs, done, waker, work: work(), job: None, yields, is_over: false }))
        };
        let running = (0..jobs.threads()).map(start).collect::<io::Result<_>>()?;
        Ok(Worker { jobs, results, _running: running })
    }

    /// Submits a job of the process itself.
    pub fn submit(&self, job: J) {
        self.submit_for(b"", job);
    }

    /// Submits a user's job. Users take turns.
    pub fn submit_for(&self, user: &[u8], job: J) {
        self.jobs.push(user, job);
    }

    /// Removes the waiting jobs that `is_it` picks.
    pub fn withdraw(&self, is_it: impl Fn(&J) -> bool) -> Vec<J> {
        self.jobs.withdraw(is_it)
    }

    /// Returns a result, if there is one.
    pub fn result(&self) -> Option<R> {
        self.results.try_recv().ok()
    }
}

impl<J, R> Drop for Worker<J, R> {
    fn drop(&mut self) {
        self.jobs.close();
    }
}

/// The work of one thread.
struct Jobs<J, R, W> {
    jobs: Arc<JobQueue<J>>,
    done: Sender<R>,
    waker: Waker,
    work: W,
    /// Taken by [`Task::wait`], with its user.
    job: Option<(Vec<u8>, J)>,
    yields: bool,
    is_over: bool,
}

impl<J: Send, R: Send, W: FnMut(J) -> R + Send> Task for Jobs<J, R, W> {
    fn wait(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        self.job = self.jobs.next();
        self.job.is_some()
    }

    fn due(&mut self) -> Due {
        if self.jobs.is_empty() { Due::Later } else { Due::Now }
    }

    fn yields(&self) -> bool {
        self.yields
    }

    fn work(&mut self) {
        let Some((user, job)) = self.job.take().or_else(|| self.jobs.try_next()) else { return };
        let result = (self.work)(job);
        self.jobs.done(&user);
        // The worker is dropped, and nobody takes the result.
        self.is_over = self.done.send(result).is_err();
        if !self.is_over {
            // The event loop takes the results in its next iteration.
            (self.waker)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex};

    /// A spawner that keeps its tasks for the test to run.
    #[derive(Default)]
    struct Kept(Mutex<Vec<Box<dyn Task>>>);

    struct Idle;

    impl Running for Idle {
        fn assist(&self) {}
        fn join(self: Box<Self>) {}
    }

    impl Spawner for Kept {
        fn spawn(&self, _: &str, task: Box<dyn Task>) -> io::Result<Box<dyn Running>> {
            self.0.lock().unwrap().push(task);
            Ok(Box::new(Idle))
        }
    }

    #[test]
    fn a_user_with_many_jobs_does_not_make_others_wait_for_all() {
        let kept = Kept::default();
        let worker = Worker::start(&kept, "test", (1, false), Arc::new(|| {}), || |job: u32| job).unwrap();
        (0..9).for_each(|job| worker.submit_for(b"bob", job));
        worker.submit_for(b"ann", 100);
        let mut tasks = kept.0.lock().unwrap();
        while tasks[0].due() == Due::Now {
            tasks[0].work();
        }
        let order: Vec<u32> = std::iter::from_fn(|| worker.result()).collect();
        assert_eq!(order, [0, 100, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn jobs_run_side_by_side_and_threads_end_with_the_worker() {
        let both = Arc::new(Barrier::new(2));
        let work = move || {
            let both = Arc::clone(&both);
            move |job: u32| {
                both.wait();
                job
            }
        };
        let (woken, wakes) = channel();
        let waker: Waker = Arc::new(move || woken.send(()).unwrap());
        let mut worker = Worker::start(&crate::env::task::Threads, "test", (2, false), waker, work).unwrap();
        worker.submit(1);
        worker.submit(2);
        (0..2).for_each(|_| wakes.recv().unwrap());
        let mut results: Vec<u32> = std::iter::from_fn(|| worker.result()).collect();
        results.sort_unstable();
        assert_eq!(results, [1, 2]);
        let running = std::mem::take(&mut worker._running);
        drop(worker);
        running.into_iter().for_each(|task| task.join());
    }
}
