//! Threads that answer queries, each query on a snapshot. Those that assign run again, one at a time.

use super::host::{NodeScope, QueryHost};
use crate::config::Limit;
use crate::metrics;
use crate::net::message;
use crate::net::{ConnId, Peer, Request};
use crate::q::error::QError;
use crate::q::host::{Caller, Host, NEEDS_OWNER};
use crate::sys::allocated;
use bytes::Bytes;
use proto::Endian;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where cores are short, a query gives way to the thread that ingests.
const NICE: i32 = 10;

/// A message from a client.
#[derive(Debug)]
pub struct Job {
    pub conn: ConnId,
    /// What to answer; none for an async message.
    pub request: Option<Request>,
    pub peer: Peer,
    pub body: Vec<u8>,
    pub endian: Endian,
}

/// A message that has been handled.
#[derive(Debug)]
pub struct Done {
    pub conn: ConnId,
    pub answer: Option<(Request, Bytes)>,
}

/// What one evaluation may use.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// When it ends with `'stop`.
    pub deadline: Option<Instant>,
    /// Bytes that it may hold, else `'wsfull`.
    pub memory_bytes: u64,
}

/// Evaluates a message and answers with the object of its result.
pub type Evaluate = fn(&mut dyn Host, &[u8], Endian, Allowance) -> Result<Vec<u8>, QError>;

/// Bounds of one query.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub time: Duration,
    pub memory_bytes: u64,
    pub result_bytes: u64,
}

struct Work {
    jobs: VecDeque<Job>,
    closed: bool,
}

struct Inner {
    scope: NodeScope,
    bounds: Bounds,
    evaluate: Evaluate,
    work: Mutex<Work>,
    ready: Condvar,
    /// Held by the query that assigns.
    writer: Mutex<()>,
}

/// The threads. They end when the pool is dropped, each after the query that it is at.
pub struct Pool {
    inner: Arc<Inner>,
}

impl Pool {
    /// Starts the threads; `wake` is called after each [`Done`] that is sent.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(
        threads: usize,
        scope: NodeScope,
        bounds: Bounds,
        evaluate: Evaluate,
        done: &Sender<Done>,
        wake: impl Fn() + Clone + Send + 'static,
    ) -> std::io::Result<Pool> {
        let work = Mutex::new(Work { jobs: VecDeque::new(), closed: false });
        let inner = Inner { scope, bounds, evaluate, work, ready: Condvar::new(), writer: Mutex::new(()) };
        let pool = Pool { inner: Arc::new(inner) };
        for number in 0..threads.max(1) {
            let (inner, done, wake) = (Arc::clone(&pool.inner), done.clone(), wake.clone());
            std::thread::Builder::new().name(format!("query {number}")).spawn(move || {
                // On Linux this is the thread's own. Without it queries run as well, only less kindly.
                let _ = rustix::process::nice(NICE);
                while let Some(job) = inner.next() {
                    // A service that is gone wants no answers.
                    let _ = done.send(inner.run(job));
                    wake();
                }
            })?;
        }
        Ok(pool)
    }

    pub fn push(&self, job: Job) {
        let mut work = self.inner.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.jobs.push_back(job);
        self.inner.ready.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.inner.work.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.inner.ready.notify_all();
    }
}

impl Inner {
    fn next(&self) -> Option<Job> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if work.closed {
                return None;
            }
            if let Some(job) = work.jobs.pop_front() {
                return Some(job);
            }
            work = self.ready.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, job: Job) -> Done {
        let sum = self.scope.shared.query_bytes;
        // A query that panics shows a fault of ours; it must cost this one client its answer and nobody else anything.
        let result = allocated::shown_in(sum, || catch_unwind(AssertUnwindSafe(|| self.evaluate(&job))));
        let result = result.unwrap_or_else(|_| Err(QError::with("internal", "the query hit a fault of the evaluator")));
        let answer = job.request.map(|request| (request, self.answer(result, &job.peer)));
        Done { conn: job.conn, answer }
    }

    fn evaluate(&self, job: &Job) -> Result<Vec<u8>, QError> {
        let caller =
            Caller { handle: job.conn.handle(), user: job.peer.user.clone(), address: job.peer.z_a(), remote: true };
        let allowance = || Allowance {
            deadline: Instant::now().checked_add(self.bounds.time),
            memory_bytes: self.bounds.memory_bytes,
        };
        let mut host = QueryHost::reading(&self.scope, caller.clone());
        match (self.evaluate)(&mut host, &job.body, job.endian, allowance()) {
            Err(error) if error == NEEDS_OWNER => {}
            result => return result,
        }
        let _alone = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let before = allocated::thread_bytes();
        let mut host = QueryHost::writing(&self.scope, caller);
        let result = (self.evaluate)(&mut host, &job.body, job.endian, allowance());
        host.finish();
        let result_bytes = result.as_ref().map_or(0, |result| result.capacity() as i64);
        let kept = allocated::thread_bytes().wrapping_sub(before).wrapping_sub(result_bytes);
        self.scope.shared.global_bytes.fetch_add(kept, Ordering::Relaxed);
        result
    }

    fn answer(&self, result: Result<Vec<u8>, QError>, peer: &Peer) -> Bytes {
        let most = self.bounds.result_bytes;
        let result = result.and_then(|object| match object.len() as u64 > most {
            true => Err(QError::with("limit", format!("a result of {} bytes, at most {most} are sent", object.len()))),
            false => Ok(object),
        });
        let encoded = result
            .and_then(|object| message::response(&object).map_err(|error| QError::with("limit", error.to_string())));
        match encoded {
            Ok(response) => message::for_peer(response, peer),
            Err(error) => {
                self.scope.shared.query_errors.fetch_add(1, Ordering::Relaxed);
                match error.name.as_ref() {
                    b"stop" => metrics::refused(Limit::query_time_ns),
                    b"wsfull" => metrics::refused(Limit::query_memory_bytes),
                    _ => {}
                }
                log::debug!("a query of {peer} failed: {error}");
                message::error(&error.name)
            }
        }
    }
}
