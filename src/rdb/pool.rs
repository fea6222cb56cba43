//! Threads that answer queries and run handlers, each evaluation on a snapshot. Those that assign run again, one at a time.
//!
//! Queries have threads of their own, as many as the node was told. The process's events (logins, connections that come and
//! go, the timer) have two others, so that no number of long queries keeps anyone from logging in. The owner's `.u.end` has one of
//! its own: it may take minutes.

use super::day_end::Kept;
use super::effects::{Effects, Out};
use super::host::{Asker, QueryHost, asker};
use super::outlet::Said;
use super::printer::Printer;
use super::scope::NodeScope;
use super::turn::Turn;
use crate::config::Limit;
use crate::metrics;
use crate::net::inbox::Answer;
use crate::net::message;
use crate::net::{ConnId, Peer, Request};
use crate::q::error::QError;
use crate::q::handlers::{Event, Outcome, Verdict, evaluate};
use crate::q::host::NEEDS_OWNER;
use crate::q::{self, Limits};
use crate::queue::Date;
use crate::sys::allocated;
use bytes::Bytes;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where cores are short, a query gives way to the thread that ingests.
const NICE: i32 = 10;
/// Threads for events.
const EVENT_THREADS: usize = 2;

/// Whose jobs are done one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    Client(ConnId),
    /// A process that this one has connected to, by its handle.
    Opened(i32),
}

impl Line {
    pub fn handle(self) -> i32 {
        match self {
            Line::Client(conn) => conn.handle(),
            Line::Opened(handle) => handle,
        }
    }

    /// Whose handles those are that its evaluations open: a number that no other has.
    pub fn owner(self) -> u64 {
        const OPENED: u64 = 1 << 63;
        match self {
            Line::Client(conn) => conn.number(),
            Line::Opened(handle) => OPENED | u64::from(handle.unsigned_abs()),
        }
    }
}

/// Something to evaluate, and who it comes from.
pub struct Job {
    /// None for what no connection has caused.
    pub line: Option<Line>,
    pub peer: Option<Peer>,
    pub event: Event,
    /// Who waits for the answer to a message.
    pub request: Option<Request>,
    pub answer: Option<Answer>,
    /// The day that has ended, for the owner's `.u.end`.
    pub ended: Option<Kept>,
}

impl Job {
    /// Something that nobody waits for.
    pub fn of(line: Option<Line>, peer: Option<Peer>, event: Event) -> Job {
        Job { line, peer, event, request: None, answer: None, ended: None }
    }

    /// The call of `.u.end` for a day.
    pub fn of_day(kept: Kept) -> Job {
        Job { event: Event::DayEnd { date: kept.date }, ended: Some(kept), ..Job::of(None, None, Event::Exit) }
    }

    /// Bytes of the message that it is.
    pub fn body_bytes(&self) -> usize {
        match &self.event {
            Event::Message { body, .. } => body.len(),
            _ => 0,
        }
    }

    /// Whether it is an event of the process's own.
    fn is_own(&self) -> bool {
        !matches!(self.event, Event::Message { .. } | Event::Web { .. } | Event::Page(_))
    }
}

/// A job that is done.
#[derive(Debug)]
pub struct Done {
    pub line: Option<Line>,
    /// What is to be sent, before the answer.
    pub out: Vec<Out>,
    pub ended: Ended,
    /// What came was no message: its connection is closed.
    pub closes: bool,
}

/// How a job has ended.
#[derive(Debug)]
pub enum Ended {
    /// Nobody waits for anything.
    Quietly,
    Answer(Request, Bytes),
    Login(bool),
    Verdict(Verdict),
    /// The answer of an HTTP request; none where its handler failed.
    Page(Option<Bytes>),
    Timer,
    DayEnd,
}

/// Bounds of one evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub time: Duration,
    /// Of `.z.pw`, `.z.po` and their like.
    pub handler_time: Duration,
    /// Of `.u.end`, and its memory.
    pub day_end_time: Duration,
    pub day_end_memory_bytes: u64,
    pub memory_bytes: u64,
    pub result_bytes: u64,
    /// Nesting of a message.
    pub message_depth: usize,
}

#[derive(Default)]
struct Queue {
    work: Mutex<Work>,
    ready: Condvar,
}

#[derive(Default)]
struct Work {
    jobs: VecDeque<Job>,
    closed: bool,
}

struct Inner {
    scope: Arc<NodeScope>,
    bounds: Bounds,
    queries: Queue,
    events: Queue,
    day_ends: Queue,
    printer: Printer,
    /// Taken by the evaluation that assigns.
    turn: Turn,
}

/// The threads. They end when the pool is dropped, each after the job that it is at.
pub struct Pool {
    inner: Arc<Inner>,
}

impl Pool {
    /// Starts the threads; what they have done is said to the scope's loop.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(threads: usize, scope: Arc<NodeScope>, bounds: Bounds) -> std::io::Result<Pool> {
        let (queries, events, day_ends) = (Queue::default(), Queue::default(), Queue::default());
        let printer = Printer::start()?;
        let inner = Inner { scope, bounds, queries, events, day_ends, printer, turn: Turn::default() };
        let pool = Pool { inner: Arc::new(inner) };
        type Which = fn(&Inner) -> &Queue;
        let queries = (0..threads.max(1)).map(|number| (format!("query {number}"), (|all| &all.queries) as Which));
        let events = (0..EVENT_THREADS).map(|number| (format!("handler {number}"), (|all| &all.events) as Which));
        let wanted = usize::from(pool.inner.scope.shared.day_ends.is_wanted());
        let day_ends = (0..wanted).map(|_| ("day end".to_string(), (|all| &all.day_ends) as Which));
        for (name, which) in queries.chain(events).chain(day_ends) {
            let inner = Arc::clone(&pool.inner);
            crate::sys::stack::thread(name).spawn(move || {
                // On Linux this is the thread's own. Without it queries run as well, only less kindly.
                let _ = rustix::process::nice(NICE);
                q::adopt(inner.scope.settings);
                while let Some(job) = which(&inner).next() {
                    let done = inner.run(job);
                    inner.scope.outlet.say(Said::Done(done));
                }
            })?;
        }
        Ok(pool)
    }

    pub fn push(&self, job: Job) {
        let queue = match job.event {
            Event::DayEnd { .. } => &self.inner.day_ends,
            _ if job.is_own() => &self.inner.events,
            _ => &self.inner.queries,
        };
        queue.work.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        queue.ready.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for queue in [&self.inner.queries, &self.inner.events, &self.inner.day_ends] {
            queue.work.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
            queue.ready.notify_all();
        }
    }
}

impl Queue {
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
}

impl Inner {
    fn run(&self, mut job: Job) -> Done {
        let sum = self.scope.shared.query_bytes;
        let asker = asker(&job, &self.scope);
        // An evaluation that panics shows a fault of ours; it must cost this one client its answer and nobody else anything.
        let result = allocated::shown_in(sum, || catch_unwind(AssertUnwindSafe(|| self.evaluate(&job, &asker))));
        let fault = || Err(QError::with("internal", "the query hit a fault of the evaluator"));
        let (result, mut effects) = result.unwrap_or_else(|_| (fault(), Effects::default()));
        let closes = matches!(result, Ok(Outcome::Malformed(_)));
        let result = match result {
            Ok(Outcome::Malformed(error)) => Err(error),
            other => other,
        };
        self.printer.print(std::mem::take(&mut effects.printed));
        if let (Event::Closed { .. }, Some(line)) = (&job.event, job.line) {
            self.scope.forget(line);
        }
        if let Err(error) = &result {
            self.note(error, &job);
        }
        let ended = match (&job.event, result) {
            (Event::Message { .. }, result) => self.answered(&mut job, result, &effects),
            (Event::Login { .. }, result) => Ended::Login(matches!(result, Ok(Outcome::Admit(true)))),
            (Event::Authorise(_), Ok(Outcome::Verdict(verdict))) => Ended::Verdict(verdict),
            (Event::Authorise(_), _) => Ended::Verdict(Verdict::Refused),
            (Event::Page(_), Ok(Outcome::Page(page))) => Ended::Page(Some(page.into())),
            (Event::Page(_), _) => Ended::Page(None),
            (Event::Timer, _) => Ended::Timer,
            (Event::DayEnd { date }, result) => {
                self.day_ended(*date, result.map(drop), job.ended.take());
                Ended::DayEnd
            }
            _ => Ended::Quietly,
        };
        Done { line: job.line, out: effects.out(), ended, closes }
    }

    /// The owner's `.u.end` has returned: lets the day go.
    fn day_ended(&self, date: i32, result: Result<(), QError>, kept: Option<Kept>) {
        let bytes = kept.as_ref().map_or(0, |kept| kept.bytes);
        drop(kept);
        let day = Date(date);
        match &result {
            Ok(()) => log::info!(".u.end[{day}] has returned"),
            Err(error) => log::error!(
                ".u.end[{day}] failed: {error}. The day's rows are dropped here, maybe unsaved; the tickerplant's log has them: \
                 mend the start-up file and load the log into a node, or replay it with elastick q"
            ),
        }
        self.scope.shared.day_ends.done(date, bytes, result.map_err(|error| error.to_string()));
    }

    /// Has whoever waits for the answer to a message get it.
    fn answered(&self, job: &mut Job, result: Result<Outcome, QError>, effects: &Effects) -> Ended {
        if let Some(answer) = job.answer.take() {
            let is_sync = matches!(job.event, Event::Message { is_sync: true, .. });
            let bytes = if is_sync { self.answer(result, None).to_vec() } else { Vec::new() };
            answer(bytes);
            return Ended::Quietly;
        }
        let Some(request) = job.request else { return Ended::Quietly };
        if effects.answered {
            return Ended::Quietly;
        }
        // From now on others may answer. What this evaluation has asked of them is held until it has ended, or leaves after this.
        if effects.deferred && result.is_ok() {
            self.scope.defer(request);
            return Ended::Quietly;
        }
        Ended::Answer(request, self.answer(result, job.peer.as_ref()))
    }

    fn limits(&self, job: &Job) -> Limits {
        let bounds = &self.bounds;
        let (time, memory_bytes) = match job.event {
            Event::DayEnd { .. } => (bounds.day_end_time, bounds.day_end_memory_bytes),
            _ if job.is_own() && !matches!(job.event, Event::Timer) => (bounds.handler_time, bounds.memory_bytes),
            _ => (bounds.time, bounds.memory_bytes),
        };
        Limits {
            deadline: Instant::now().checked_add(time),
            memory_bytes,
            message_depth: self.bounds.message_depth,
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
            let Some(_alone) = self.turn.take(Instant::now().checked_add(self.bounds.time)) else {
                return (Err(QError::with("stop", "time limit: a query that assigns went on")), Effects::default());
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
        let Some(_alone) = self.turn.take(limits.deadline) else {
            self.scope.defer_again(effects.again().unanswered());
            return (Err(QError::with("stop", "time limit: another query that assigns went on")), Effects::default());
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
                Err(QError::with("limit", format!("a result of {} bytes, at most {most} are sent", object.len())))
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
            b"stop" if matches!(job.event, Event::DayEnd { .. }) => metrics::refused(Limit::day_end_time_ns),
            b"stop" if job.is_own() && !matches!(job.event, Event::Timer) => {
                metrics::refused(Limit::handler_time_ns);
            }
            b"stop" => metrics::refused(Limit::query_time_ns),
            b"wsfull" => metrics::refused(Limit::query_memory_bytes),
            _ => {}
        }
        let who = job.peer.as_ref().map_or_else(|| "this process".to_string(), Peer::to_string);
        match job.event {
            Event::Message { .. } | Event::Web { .. } => {
                self.scope.shared.query_errors.fetch_add(1, Ordering::Relaxed);
                log::debug!("a query of {who} failed: {error}");
            }
            Event::DayEnd { .. } => {}
            _ => log::warn!("a handler failed for {who}: {error}"),
        }
    }
}
