//! Thread pool that evaluates queries and handlers, each on a snapshot. An evaluation that turns out to assign runs
//! again, alone.
//!
//! Queries have as many threads as configured. Events of the process (logins, connections opened or closed, the timer)
//! have two threads of their own, so that long queries cannot block logins. The owner's `.u.end` has a third kind, as
//! it may take minutes.

use super::asker::{Asker, asker};
use super::day_end::Kept;
use super::deadline_lock::DeadlineLock;
use super::effects::{Effects, Out};
use super::host::QueryHost;
use super::job_queue::JobQueue;
use super::outlet::LoopMessage;
use super::printer::Printer;
use super::scope::NodeScope;
use crate::config::Limit;
use crate::metrics;
use crate::net::account::HeldBytes;
use crate::net::inbox::Respond;
use crate::net::message;
use crate::net::{ConnId, Peer, SyncRequest};
use crate::q::error::QError;
use crate::q::handlers::{HandlerEvent, Outcome, Verdict, evaluate};
use crate::q::host::NEEDS_OWNER;
use crate::q::{self, Limits};
use crate::queue::Date;
use crate::sys::allocated;
use crate::table::symbol;
use bytes::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Niceness of the pool's threads: if cores are short, queries yield to the ingest thread.
const NICE: i32 = 10;
/// Number of threads for events.
const EVENT_THREADS: usize = 2;

/// A connection, whose jobs run one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    Client(ConnId),
    /// A connection opened by this process, by its handle.
    Opened(i32),
}

impl Line {
    pub fn handle(self) -> i32 {
        match self {
            Line::Client(conn) => conn.handle(),
            Line::Opened(handle) => handle,
        }
    }

    /// Returns the owner id of handles opened by this connection's evaluations; unique over both kinds of connection.
    pub fn owner(self) -> u64 {
        const OPENED: u64 = 1 << 63;
        match self {
            Line::Client(conn) => conn.number(),
            Line::Opened(handle) => OPENED | u64::from(handle.unsigned_abs()),
        }
    }
}

/// Something to evaluate, with its origin.
pub struct Job {
    /// `None` for a job that no connection caused.
    pub line: Option<Line>,
    pub peer: Option<Peer>,
    pub event: HandlerEvent,
    /// The sync message to answer.
    pub request: Option<SyncRequest>,
    pub answer: Option<Respond>,
    /// The ended day, for the owner's `.u.end`.
    pub ended: Option<Kept>,
    /// The message's share of the memory of pending messages.
    pub held: Option<HeldBytes>,
}

impl Job {
    /// A job without a caller that waits.
    pub fn of(line: Option<Line>, peer: Option<Peer>, event: HandlerEvent) -> Job {
        Job { line, peer, event, request: None, answer: None, ended: None, held: None }
    }

    /// The call of `.u.end` for a day.
    pub fn of_day(kept: Kept) -> Job {
        Job {
            event: HandlerEvent::DayEnd { date: kept.date },
            ended: Some(kept),
            ..Job::of(None, None, HandlerEvent::Exit)
        }
    }

    /// Size of the message in bytes; 0 for other jobs.
    pub fn body_bytes(&self) -> usize {
        match &self.event {
            HandlerEvent::Message { body, .. } => body.len(),
            _ => 0,
        }
    }

    /// Returns whether the job is an event of the process rather than a request.
    pub fn is_own(&self) -> bool {
        !matches!(self.event, HandlerEvent::Message { .. } | HandlerEvent::Web { .. } | HandlerEvent::Page(_))
    }
}

/// A finished job.
#[derive(Debug)]
pub struct Done {
    pub line: Option<Line>,
    /// Messages to send before the answer.
    pub out: Vec<Out>,
    pub ended: Ended,
    /// The peer sent no valid message: close its connection.
    pub closes: bool,
}

/// Result of a job.
#[derive(Debug)]
pub enum Ended {
    /// Nobody waits for a result.
    Quietly,
    Answer(SyncRequest, Bytes),
    Login(bool),
    Verdict(Verdict),
    /// HTTP response; `None` if its handler failed.
    Page(Option<Bytes>),
    Timer,
    DayEnd,
}

/// Limits of one evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub time: Duration,
    /// Time limit of `.z.pw`, `.z.po` and similar handlers.
    pub handler_time: Duration,
    /// Time and memory limit of `.u.end`.
    pub day_end_time: Duration,
    pub day_end_memory_bytes: u64,
    pub memory_bytes: u64,
    pub result_bytes: u64,
    /// New symbols of one evaluation.
    pub symbols: u64,
    /// Nesting depth of a message.
    pub message_depth: usize,
}

struct Inner {
    scope: Arc<NodeScope>,
    bounds: Bounds,
    events: JobQueue<Job>,
    day_ends: JobQueue<Job>,
    printer: Printer,
    /// Lock of the evaluations that assign.
    deadline_lock: DeadlineLock,
}

/// The pool. When it is dropped, each thread ends after its current job.
pub struct Pool {
    inner: Arc<Inner>,
}

impl Pool {
    /// Starts the threads. Results go to the scope's outlet.
    ///
    /// # Errors
    /// A thread cannot start.
    pub fn start(scope: Arc<NodeScope>, bounds: Bounds) -> std::io::Result<Pool> {
        let (events, day_ends) = (JobQueue::new(EVENT_THREADS, 0), JobQueue::new(1, 0));
        let printer = Printer::start()?;
        let inner = Inner { scope, bounds, events, day_ends, printer, deadline_lock: DeadlineLock::default() };
        let pool = Pool { inner: Arc::new(inner) };
        type Which = fn(&Inner) -> &JobQueue<Job>;
        let threads = pool.inner.scope.queries.threads();
        let queries = (0..threads).map(|number| (format!("query {number}"), (|all| &all.scope.queries) as Which));
        let events = (0..EVENT_THREADS).map(|number| (format!("handler {number}"), (|all| &all.events) as Which));
        let day_end_threads = usize::from(pool.inner.scope.shared.day_ends.is_wanted());
        let day_ends = (0..day_end_threads).map(|_| ("day end".to_string(), (|all| &all.day_ends) as Which));
        for (name, which) in queries.chain(events).chain(day_ends) {
            let inner = Arc::clone(&pool.inner);
            crate::sys::stack::thread(name).spawn(move || {
                // On Linux this affects only the calling thread. If it fails, queries merely run at normal priority.
                let _ = rustix::process::nice(NICE);
                q::adopt(inner.scope.settings);
                while let Some(job) = which(&inner).next() {
                    let done = inner.run(job);
                    which(&inner).done();
                    inner.scope.outlet.say(LoopMessage::Done(done));
                }
            })?;
        }
        Ok(pool)
    }

    /// Queues a job for its kind of thread.
    pub fn push(&self, job: Job) {
        let queue = match job.event {
            HandlerEvent::DayEnd { .. } => &self.inner.day_ends,
            _ if job.is_own() => &self.inner.events,
            _ => &self.inner.scope.queries,
        };
        queue.push(job);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for queue in [&self.inner.scope.queries, &self.inner.events, &self.inner.day_ends] {
            queue.close();
        }
    }
}

impl Inner {
    fn run(&self, mut job: Job) -> Done {
        let _span = tracing::debug_span!("query", handle = job.line.map(Line::handle)).entered();
        let sum = self.scope.shared.query_bytes;
        let asker = asker(&job, &self.scope);
        // A panic is a bug in the evaluator: it fails this one query and leaves the node running.
        let result = allocated::shown_in(sum, || catch_unwind(AssertUnwindSafe(|| self.evaluate(&job, &asker))));
        let fault = || Err(QError::with("internal", "internal error in the evaluator"));
        let (result, mut effects) = result.unwrap_or_else(|_| (fault(), Effects::default()));
        let closes = matches!(result, Ok(Outcome::Malformed(_)));
        let result = match result {
            Ok(Outcome::Malformed(error)) => Err(error),
            other => other,
        };
        self.printer.print(std::mem::take(&mut effects.printed));
        if let (HandlerEvent::Closed { .. }, Some(line)) = (&job.event, job.line) {
            self.scope.forget(line);
        }
        if let Err(error) = &result {
            self.note(error, &job);
        }
        let ended = match (&job.event, result) {
            (HandlerEvent::Message { .. }, result) => self.answered(&mut job, result, &effects),
            (HandlerEvent::Login { .. }, result) => Ended::Login(matches!(result, Ok(Outcome::Admit(true)))),
            (HandlerEvent::Authorise(_), Ok(Outcome::Verdict(verdict))) => Ended::Verdict(verdict),
            (HandlerEvent::Authorise(_), _) => Ended::Verdict(Verdict::Refused),
            (HandlerEvent::Page(_), Ok(Outcome::Page(page))) => Ended::Page(Some(page.into())),
            (HandlerEvent::Page(_), _) => Ended::Page(None),
            (HandlerEvent::Timer, _) => Ended::Timer,
            (HandlerEvent::DayEnd { date }, result) => {
                self.day_ended(*date, result.map(drop), job.ended.take());
                Ended::DayEnd
            }
            _ => Ended::Quietly,
        };
        Done { line: job.line, out: effects.out(), ended, closes }
    }

    /// Releases an ended day after its `.u.end` has returned.
    fn day_ended(&self, date: i32, result: Result<(), QError>, kept: Option<Kept>) {
        let bytes = kept.as_ref().map_or(0, |kept| kept.bytes);
        drop(kept);
        let day = Date(date);
        match &result {
            Ok(()) => tracing::info!(date = %day, ".u.end has returned"),
            Err(error) => tracing::error!(
                ".u.end[{day}] failed: {error}. This node drops the day's rows, maybe unsaved; the tickerplant's \
                 log has them. Correct the start-up file, then replay the log with a node or with elastick q"
            ),
        }
        self.scope.shared.day_ends.done(date, bytes, result.map_err(|error| error.to_string()));
    }

    /// Delivers the result of a message to its caller.
    fn answered(&self, job: &mut Job, result: Result<Outcome, QError>, effects: &Effects) -> Ended {
        if let Some(answer) = job.answer.take() {
            let is_sync = matches!(job.event, HandlerEvent::Message { is_sync: true, .. });
            let bytes = if is_sync { self.answer(result, None).to_vec() } else { Vec::new() };
            answer(bytes);
            return Ended::Quietly;
        }
        let Some(request) = job.request else { return Ended::Quietly };
        if effects.answered {
            return Ended::Quietly;
        }
        let defers = effects.deferred && result.is_ok();
        match (effects.is_registered, defers) {
            // From here on other evaluations may answer the request. This one's messages that make them do so are still
            // held back, or leave after this.
            (false, true) => self.scope.defer(request),
            // Registered before the evaluation has waited for a client; it failed afterwards, or started again and did not defer.
            (true, false) if self.scope.undefer(request) => {
                return Ended::Answer(request, self.answer(result, job.peer.as_ref()));
            }
            (true, _) => {}
            (false, false) => return Ended::Answer(request, self.answer(result, job.peer.as_ref())),
        }
        Ended::Quietly
    }

    fn limits(&self, job: &Job) -> Limits {
        let bounds = &self.bounds;
        let (time, memory_bytes) = match job.event {
            HandlerEvent::DayEnd { .. } => (bounds.day_end_time, bounds.day_end_memory_bytes),
            _ if job.is_own() && !matches!(job.event, HandlerEvent::Timer) => {
                (bounds.handler_time, bounds.memory_bytes)
            }
            _ => (bounds.time, bounds.memory_bytes),
        };
        Limits {
            deadline: Instant::now().checked_add(time),
            memory_bytes,
            message_depth: self.bounds.message_depth,
            symbols: Some(symbol::Budget::new(bounds.symbols)),
            ..Limits::default()
        }
    }

    fn evaluate(&self, job: &Job, asker: &Asker) -> (Result<Outcome, QError>, Effects) {
        let limits = self.limits(job);
        let handle = job.line.map_or(0, Line::handle);
        if let Some(kept) = &job.ended {
            self.scope.shared.day_ends.begun(kept.date);
            let mut host = QueryHost::of_ended_day(&self.scope, asker, limits.deadline, &kept.moment);
            let result = evaluate(&mut host, &self.scope.rules, handle, &job.event, &limits);
            let Some(_alone) = self.deadline_lock.take(Instant::now().checked_add(self.bounds.time)) else {
                return (
                    Err(QError::with("stop", "time limit: still waiting for another client's query that assigns")),
                    Effects::default(),
                );
            };
            return match host.merge() {
                Ok(effects) => (result, effects),
                Err(error) => (result.and(Err(error)), Effects::default()),
            };
        }
        let mut host = QueryHost::reading(&self.scope, asker, limits.deadline);
        let result = evaluate(&mut host, &self.scope.rules, handle, &job.event, &limits);
        let effects = host.finish();
        match result {
            Err(error) if error == NEEDS_OWNER => {}
            result => return (result, effects),
        }
        let Some(_alone) = self.deadline_lock.take(limits.deadline) else {
            self.scope.defer_again(effects.again().unanswered());
            return (
                Err(QError::with("stop", "time limit: still waiting for another client's query that assigns")),
                Effects::default(),
            );
        };
        let limits = self.limits(job);
        let before = allocated::thread_bytes();
        let mut host = QueryHost::writing(&self.scope, asker, limits.deadline, effects);
        let result = evaluate(&mut host, &self.scope.rules, handle, &job.event, &limits);
        let mut effects = host.finish();
        self.scope.defer_again(effects.unanswered());
        let result_bytes = match &result {
            Ok(Outcome::Object(object)) => object.capacity() as i64,
            _ => 0,
        };
        let kept = allocated::thread_bytes().wrapping_sub(before).wrapping_sub(result_bytes);
        self.scope.shared.global_bytes.fetch_add(kept, Ordering::Relaxed);
        (result, effects)
    }

    fn answer(&self, result: Result<Outcome, QError>, peer: Option<&Peer>) -> Bytes {
        let most = self.bounds.result_bytes;
        let object = result.and_then(|outcome| match outcome {
            Outcome::Object(object) if object.len() as u64 > most => {
                Err(QError::with("limit", format!("the result has {} bytes, the limit is {most}", object.len())))
            }
            Outcome::Object(object) => Ok(object),
            _ => Ok(Vec::new()),
        });
        let encoded = object
            .and_then(|object| message::response(&object).map_err(|error| QError::with("limit", error.to_string())));
        match (encoded, peer) {
            (Ok(response), Some(peer)) => message::for_peer(response, peer),
            (Ok(response), None) => response,
            (Err(error), _) => message::error(&error.name),
        }
    }

    fn note(&self, error: &QError, job: &Job) {
        match error.name.as_ref() {
            b"stop" if matches!(job.event, HandlerEvent::DayEnd { .. }) => metrics::refused(Limit::day_end_time_ns),
            b"stop" if job.is_own() && !matches!(job.event, HandlerEvent::Timer) => {
                metrics::refused(Limit::handler_time_ns);
            }
            b"stop" => metrics::refused(Limit::query_time_ns),
            b"wsfull" => metrics::refused(Limit::query_memory_bytes),
            _ => {}
        }
        let who = job.peer.as_ref().map_or_else(|| "this process".to_string(), Peer::to_string);
        match job.event {
            HandlerEvent::Message { .. } | HandlerEvent::Web { .. } => {
                self.scope.shared.query_errors.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(peer = %who, %error, "a query failed");
            }
            HandlerEvent::DayEnd { .. } => {}
            _ => tracing::warn!(peer = %who, %error, "a handler failed"),
        }
    }
}
