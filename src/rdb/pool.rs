//! Thread pool that evaluates queries and handlers, each on a snapshot. An evaluation that turns out to assign runs
//! again, alone.
//!
//! Queries have as many threads as configured. Events of the process (logins, connections opened or closed, the timer)
//! have two threads of their own, so that long queries cannot block logins. The owner's `.u.end` has a third kind, as
//! it may take minutes.

use super::day_end::Kept;
use super::deadline_lock::DeadlineLock;
use super::effects::{Effects, Out};
use super::host::QueryHost;
use super::outlet::LoopMessage;
use super::printer::{Printer, marked};
use super::requester::{Requester, requester};
use super::scope::NodeScope;
use crate::audit::Ticket;
use crate::config::Limit;
use crate::env::job_queue::JobQueue;
use crate::metrics;
use crate::net::account::HeldBytes;
use crate::net::departed;
use crate::net::inbox::{ReplyOrder, Respond};
use crate::net::message;
use crate::net::shares::{Share, bounds_of, explained};
use crate::net::{ConnId, Peer, SyncRequest};
use crate::q::error::QError;
use crate::q::handlers::{HandlerEvent, Outcome, Verdict, evaluate};
use crate::q::host::NEEDS_OWNER;
use crate::q::{self, Host, Limits};
use crate::queue::Date;
use crate::sys::allocated;
use crate::sys::interrupt::Cancel;
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
    /// What its user may have running and add.
    pub share: Option<Share>,
    /// Its record of the audit log.
    pub ticket: Option<Ticket>,
    /// Set when nobody reads its response any more; `None` if it runs to its end in any case.
    pub gone: Option<Cancel>,
}

impl Job {
    /// A job without a caller that waits.
    pub fn of(line: Option<Line>, peer: Option<Peer>, event: HandlerEvent) -> Job {
        Job {
            line,
            peer,
            event,
            request: None,
            answer: None,
            ended: None,
            held: None,
            share: None,
            ticket: None,
            gone: None,
        }
    }

    /// The call of `.u.end` for a day.
    pub fn of_day(kept: Kept) -> Job {
        Job {
            event: HandlerEvent::DayEnd { date: kept.date },
            ended: Some(kept),
            ..Job::of(None, None, HandlerEvent::Exit)
        }
    }

    /// Whether nobody reads its response any more.
    pub fn is_abandoned(&self) -> bool {
        self.gone.as_ref().is_some_and(Cancel::is_set)
    }

    /// Size of the message in bytes; 0 for other jobs.
    pub fn body_bytes(&self) -> usize {
        match &self.event {
            HandlerEvent::Message { body, .. } => body.len(),
            _ => 0,
        }
    }

    /// Returns the beginning of the lines that the evaluation prints for its client; `None` for an event of the process.
    fn client(&self) -> Option<String> {
        let handle = self.line?.handle();
        match &self.peer {
            _ if self.is_own() => None,
            Some(peer) => Some(format!("client {handle} {peer}: ")),
            None => Some(format!("handle {handle}: ")),
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
    /// HTTP response, or the name of the error of its handler.
    Page(Result<Bytes, Vec<u8>>),
    Timer,
    DayEnd,
}

impl Ended {
    /// Length of the response.
    fn bytes(&self) -> usize {
        match self {
            Ended::Answer(_, answer) | Ended::Page(Ok(answer)) => answer.len(),
            _ => 0,
        }
    }
}

/// Adds to a record what was asked. On the query thread: reading a long message takes its time.
fn show(event: &HandlerEvent, ticket: &mut Ticket) {
    let showing = ticket.showing();
    let shown = match event {
        HandlerEvent::Message { body, endian, .. } => showing.bytes(body, *endian),
        HandlerEvent::Web { payload, .. } => showing.text(payload),
        _ => return,
    };
    ticket.edit(|entry| entry.call.shown = shown);
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
    /// Maximum number of new symbols of one evaluation.
    pub symbols: u64,
    /// Maximum nesting depth of a message.
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
                while let Some((user, job)) = which(&inner).next() {
                    let done = inner.run(job);
                    which(&inner).done(&user);
                    inner.scope.outlet.send(LoopMessage::Done(done));
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
        let user = job.peer.as_ref().map(|peer| peer.user.clone()).unwrap_or_default();
        queue.push(&user, job);
    }

    /// Ends what abandoned jobs of a connection wait for: those not begun are returned with their error, one that waits for the write lock gives up.
    pub fn abandon(&self, line: Line) -> Vec<Done> {
        let withdrawn = self.inner.scope.queries.withdraw(|job| job.line == Some(line) && job.is_abandoned());
        self.inner.deadline_lock.look_again();
        withdrawn.into_iter().map(|job| self.abandoned(job)).collect()
    }

    /// Ends an abandoned job that has not begun.
    pub fn abandoned(&self, job: Job) -> Done {
        self.inner.ended(job, Err(departed::abandoned()), Effects::default())
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
    fn run(&self, job: Job) -> Done {
        let _span = tracing::debug_span!("query", handle = job.line.map(Line::handle)).entered();
        let sum = self.scope.shared.query_bytes;
        if job.is_abandoned() {
            return self.ended(job, Err(departed::abandoned()), Effects::default());
        }
        let requester = requester(&job, &self.scope);
        // A panic is a bug in the evaluator: it fails this one query and leaves the node running.
        let result = allocated::shown_in(sum, || catch_unwind(AssertUnwindSafe(|| self.evaluate(&job, &requester))));
        let fault = || Err(QError::with("internal", "internal error in the evaluator"));
        let (result, effects) = result.unwrap_or_else(|_| (fault(), Effects::default()));
        let result = result.map_err(|error| departed::reason(error, job.gone.as_ref()));
        self.ended(job, result, effects)
    }

    /// Delivers the result of a job, and records it.
    fn ended(&self, mut job: Job, result: Result<Outcome, QError>, mut effects: Effects) -> Done {
        let closes = matches!(result, Ok(Outcome::Malformed(_)));
        let result = match result {
            Ok(Outcome::Malformed(error)) => Err(error),
            other => other,
        };
        let printed = std::mem::take(&mut effects.printed);
        self.printer.print(match job.client() {
            Some(client) => marked(&printed, &client),
            None => printed,
        });
        if let (HandlerEvent::Closed { .. }, Some(line)) = (&job.event, job.line) {
            self.scope.forget(line);
        }
        if let Err(error) = &result {
            self.note(error, &job);
        }
        let result = result.map_err(|error| match &job.peer {
            Some(peer) if !job.is_own() => explained(error, peer, self.bounds.time, self.bounds.memory_bytes),
            _ => error,
        });
        let error = result.as_ref().err().map(ToString::to_string);
        let ended = match (&job.event, result) {
            (HandlerEvent::Message { .. }, result) => self.answered(&mut job, result, &effects),
            (HandlerEvent::Login { .. }, result) => Ended::Login(matches!(result, Ok(Outcome::Admit(true)))),
            (HandlerEvent::Authorise(_), Ok(Outcome::Verdict(verdict))) => Ended::Verdict(verdict),
            (HandlerEvent::Authorise(_), _) => Ended::Verdict(Verdict::Refused),
            (HandlerEvent::Page(_), Ok(Outcome::Page(page))) => Ended::Page(Ok(page.into())),
            (HandlerEvent::Page(_), Err(error)) => Ended::Page(Err(error.name.into_owned())),
            (HandlerEvent::Page(_), Ok(_)) => Ended::Page(Err(b"type".to_vec())),
            (HandlerEvent::Timer, _) => Ended::Timer,
            (HandlerEvent::DayEnd { date }, result) => {
                self.day_ended(*date, result.map(drop), job.ended.take());
                Ended::DayEnd
            }
            _ => Ended::Quietly,
        };
        if let Some(mut ticket) = job.ticket.take() {
            show(&job.event, &mut ticket);
            ticket.end(error, ended.bytes());
        }
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
            let bytes = if is_sync { self.answer(result, job).to_vec() } else { Vec::new() };
            answer(bytes, ReplyOrder::InOrder);
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
                return Ended::Answer(request, self.answer(result, job));
            }
            (true, _) => {}
            (false, false) => return Ended::Answer(request, self.answer(result, job)),
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
            _ => bounds_of(job.peer.as_ref(), bounds.time, bounds.memory_bytes),
        };
        let is_client = !job.is_own() || matches!(job.event, HandlerEvent::Timer);
        let shared_memory = is_client.then(|| Arc::clone(&self.scope.shared.query_memory));
        let share = job.share.as_ref();
        let symbols = share.map_or_else(|| symbol::Budget::new(bounds.symbols), |share| share.budget(bounds.symbols));
        Limits {
            deadline: Instant::now().checked_add(time),
            memory_bytes,
            shared_memory,
            message_depth: self.bounds.message_depth,
            symbols: Some(symbols),
            cancel: job.gone.clone(),
            ..Limits::default()
        }
    }

    fn evaluate(&self, job: &Job, requester: &Requester) -> (Result<Outcome, QError>, Effects) {
        let limits = self.limits(job);
        let handle = job.line.map_or(0, Line::handle);
        if let Some(kept) = &job.ended {
            self.scope.shared.day_ends.call_begins(kept.date);
            let mut host = QueryHost::of_ended_day(&self.scope, requester, limits.deadline, &kept.moment);
            let result = evaluate(&mut host, &self.scope.rules, handle, &job.event, &limits);
            let Some(_alone) = self.deadline_lock.take(Instant::now().checked_add(self.bounds.time), None) else {
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
        let mut host = QueryHost::reading(&self.scope, requester, limits.deadline);
        let result = evaluate(&mut host, &self.scope.rules, handle, &job.event, &limits);
        let namespace = host.namespace();
        let (effects, _) = host.finish();
        match result {
            Err(error) if error == NEEDS_OWNER => {}
            result => {
                self.scope.set_namespace_of(handle, namespace);
                return (result, effects);
            }
        }
        let Some(_alone) = self.deadline_lock.take(limits.deadline, job.gone.as_ref()) else {
            self.scope.defer_again(effects.again().unanswered());
            return (
                Err(QError::with("stop", "time limit: still waiting for another client's query that assigns")),
                Effects::default(),
            );
        };
        let limits = self.limits(job);
        let before = allocated::thread_bytes();
        let mut host = QueryHost::writing(&self.scope, requester, limits.deadline, effects);
        let result = evaluate(&mut host, &self.scope.rules, handle, &job.event, &limits);
        self.scope.set_namespace_of(handle, host.namespace());
        let (mut effects, own_grown) = host.finish();
        self.scope.defer_again(effects.unanswered());
        let result_bytes = match &result {
            Ok(Outcome::Object(object)) => object.capacity() as i64,
            _ => 0,
        };
        let kept = allocated::thread_bytes().wrapping_sub(before).wrapping_sub(result_bytes);
        // Globals of the caller's own are counted apart.
        let kept = kept.wrapping_sub(own_grown);
        self.scope.shared.global_bytes.fetch_add(kept, Ordering::Relaxed);
        (result, effects)
    }

    fn answer(&self, result: Result<Outcome, QError>, job: &Job) -> Bytes {
        let (peer, most) = (job.peer.as_ref(), self.bounds.result_bytes);
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
            (Err(error), peer) => {
                let explains = peer.is_some_and(|peer| peer.explains);
                match &job.event {
                    HandlerEvent::Message { body, endian, .. } => message::failure(&error, explains, body, *endian),
                    _ => message::error(&error.wire_text(explains, None)),
                }
            }
        }
    }

    fn note(&self, error: &QError, job: &Job) {
        match error.name.as_ref() {
            b"stop" if matches!(job.event, HandlerEvent::DayEnd { .. }) => metrics::refused(Limit::day_end_time_ns),
            b"stop" if job.is_own() && !matches!(job.event, HandlerEvent::Timer) => {
                metrics::refused(Limit::handler_time_ns);
            }
            b"stop" if departed::is_abandoned(error) => {}
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
