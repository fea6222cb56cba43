//! Clients' connections: messages and events go to the threads of the pool, one of each connection at a time, answers come
//! back.

use super::effects::Out;
use super::figures;
use super::pool::{Done, Ended, Job, Pool, Task};
use super::report::Constants;
use super::scope::{Handler, NodeScope, Spoken};
use super::shared::{Ending, Shared};
use crate::config::{Limit, Limits};
use crate::metrics;
use crate::net::http::{self, Page};
use crate::net::signals::{self, Asked};
use crate::net::{CloseReason, ConnId, Control, Login, Peer, Service};
use proto::{Header, MessageKind};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Time for running queries to end when the node does.
const DRAIN: Duration = Duration::from_secs(10);

/// What is told to whoever watches the node.
pub struct Watched {
    pub constants: Constants,
    pub limits: Limits,
    /// Those who want the metrics; they wake the loop.
    pub requests: Receiver<metrics::Request>,
}

/// How the process is asked to end.
pub struct Stop {
    asked: Asked,
    /// SIGTERM lets the node hand on what it holds.
    leaves: bool,
    /// The node was told so.
    told: bool,
}

impl Stop {
    pub fn new(asked: Asked, leaves: bool) -> Stop {
        Stop { asked, leaves, told: false }
    }
}

/// What the readiness loop calls.
pub struct Queries {
    pub(super) shared: Arc<Shared>,
    scope: Arc<NodeScope>,
    pub(super) pool: Pool,
    pub(super) done: Receiver<Done>,
    stop: Stop,
    watched: Watched,
    /// When the loop ends whether or not queries have.
    drained_by: Option<Instant>,
    /// Connections of which a job is being done, and those that wait behind it.
    busy: HashMap<ConnId, VecDeque<Job>>,
    timer: Timer,
}

/// When `.z.ts` is called.
#[derive(Default)]
struct Timer {
    next: Option<Instant>,
    period_ms: u64,
    /// It is being evaluated: the next call waits for its end.
    runs: bool,
}

impl Queries {
    pub fn new(scope: Arc<NodeScope>, pool: Pool, done: Receiver<Done>, stop: Stop, watched: Watched) -> Queries {
        let shared = Arc::clone(&scope.shared);
        let mut queries = Queries {
            shared,
            scope,
            pool,
            done,
            stop,
            watched,
            drained_by: None,
            busy: HashMap::new(),
            timer: Timer::default(),
        };
        queries.set_timer(Instant::now());
        queries
    }

    /// Hands a job over; those of one connection are done one after the other.
    fn push(&mut self, job: Job) {
        self.shared.queries_open.fetch_add(1, Ordering::SeqCst);
        if let Some(conn) = job.conn {
            if let Some(waiting) = self.busy.get_mut(&conn) {
                return waiting.push_back(job);
            }
            self.busy.insert(conn, VecDeque::new());
        }
        self.pool.push(job);
    }

    /// A job of this connection is done.
    fn next_of(&mut self, conn: ConnId, ctl: &mut Control) {
        match self.busy.get_mut(&conn).map(VecDeque::pop_front) {
            Some(Some(job)) => self.pool.push(job),
            _ => {
                self.busy.remove(&conn);
                ctl.resume(conn);
            }
        }
    }

    fn finished(&mut self, done: Done, ctl: &mut Control) {
        let Done { conn, out, ended } = done;
        for out in out {
            self.send(out, ctl);
        }
        match (ended, conn) {
            (Ended::Answer(request, answer), _) => ctl.reply(request, answer),
            (Ended::Login(admitted), Some(conn)) => ctl.admit(conn, admitted),
            (Ended::Page(page), Some(conn)) => ctl.answer_page(conn, page),
            (Ended::Timer, _) => {
                self.timer.runs = false;
                self.set_timer(ctl.now());
            }
            _ => {}
        }
        self.shared.queries_open.fetch_sub(1, Ordering::SeqCst);
        if let Some(conn) = conn {
            self.next_of(conn, ctl);
        }
    }

    fn send(&mut self, out: Out, ctl: &mut Control) {
        match out {
            Out::Respond { request, answer } => ctl.reply(request, answer),
            Out::Send { handle, message } => {
                let Some(conn) = ctl.by_handle(handle) else { return };
                let most = usize::try_from(self.watched.limits.outbox_bytes).unwrap_or(usize::MAX);
                if ctl.outbox_bytes(conn).saturating_add(message.len()) > most.saturating_mul(2) {
                    metrics::refused(Limit::outbox_bytes);
                    return ctl.close(conn, "it does not take what is sent to it");
                }
                ctl.send(conn, message);
            }
        }
    }

    /// The next call of `.z.ts` is a period from now, if there is one.
    fn set_timer(&mut self, now: Instant) {
        let period_ms = self.scope.timer_ms.load(Ordering::Relaxed);
        self.timer.period_ms = period_ms;
        self.timer.next = (period_ms > 0).then(|| now.checked_add(Duration::from_millis(period_ms))).flatten();
    }

    /// Something may have set another period.
    fn look_at_timer(&mut self, now: Instant) {
        if !self.timer.runs && self.timer.period_ms != self.scope.timer_ms.load(Ordering::Relaxed) {
            self.set_timer(now);
        }
    }

    fn spoken(&self, conn: ConnId, ctl: &Control) -> Spoken {
        if ctl.is_web(conn) { Spoken::Web } else { Spoken::Ipc }
    }

    fn snapshot(&self, ctl: &Control) -> metrics::Snapshot {
        figures::snapshot(&self.shared, &self.watched.constants, &self.watched.limits, ctl)
    }

    fn end_if_drained(&mut self, ctl: &mut Control) {
        if !self.shared.is_ending() {
            return;
        }
        if self.drained_by.is_none() {
            self.drained_by = Some(ctl.now().checked_add(DRAIN).unwrap_or_else(|| ctl.now()));
            if self.scope.handler(Handler::Exit).is_some() {
                self.push(Job { conn: None, peer: None, task: Task::Exit });
            }
        }
        let by = self.drained_by.unwrap_or_else(|| ctl.now());
        if self.shared.queries_open.load(Ordering::SeqCst) == 0 || ctl.now() >= by {
            ctl.stop();
        }
    }
}

impl Service for Queries {
    fn login(&mut self, conn: ConnId, user: &[u8], password: &[u8], _: &mut Control) -> Login {
        if self.scope.handler(Handler::Login).is_none() {
            return Login::Admitted;
        }
        let task = Task::Login { user: user.to_vec(), password: password.to_vec() };
        self.push(Job { conn: Some(conn), peer: None, task });
        Login::Later
    }

    fn opened(&mut self, conn: ConnId, peer: &Peer, ctl: &mut Control) {
        log::debug!("{peer} connected");
        let spoken = self.spoken(conn, ctl);
        self.scope.connections().insert(conn.handle(), spoken);
        let web = spoken == Spoken::Web;
        if self.scope.handler(if web { Handler::WebOpened } else { Handler::Opened }).is_some() {
            // Its first message finds done what the handler does.
            ctl.pause(conn);
            self.push(Job { conn: Some(conn), peer: Some(peer.clone()), task: Task::Opened { web } });
        }
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        if header.kind == MessageKind::Response || self.shared.is_ending() {
            return;
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return };
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        // The next message of this connection may rely on what this one does.
        ctl.pause(conn);
        let task = Task::Message { request: ctl.request(), body: body.to_vec(), endian: header.endian };
        self.push(Job { conn: Some(conn), peer: Some(peer), task });
    }

    fn takes_web(&self) -> bool {
        self.scope.handler(Handler::Web).is_some()
    }

    fn web_message(&mut self, conn: ConnId, is_text: bool, payload: Vec<u8>, ctl: &mut Control) {
        if self.shared.is_ending() {
            return;
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return };
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        ctl.pause(conn);
        self.push(Job { conn: Some(conn), peer: Some(peer), task: Task::Web { is_text, payload } });
    }

    fn request(&mut self, conn: ConnId, request: &http::Request, peer: &Peer, _: &mut Control) -> bool {
        let is_post = request.is_post;
        if self.scope.handler(if is_post { Handler::Post } else { Handler::Page }).is_none() || self.shared.is_ending()
        {
            return false;
        }
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        let text = if is_post { request.body.clone() } else { request.target.clone().into_bytes() };
        let task = Task::Page { text, fields: request.fields.clone(), is_post };
        self.push(Job { conn: Some(conn), peer: Some(peer.clone()), task });
        true
    }

    fn turn_ended(&mut self, _: &mut Control) {}

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, conn: ConnId, reason: &CloseReason, _: &mut Control) {
        log::debug!("a connection ended: {reason}");
        let web = self.scope.connections().remove(&conn.handle()) == Some(Spoken::Web);
        let handler = if web { Handler::WebClosed } else { Handler::Closed };
        if self.scope.handler(handler).is_some() || self.busy.contains_key(&conn) {
            // What is still being done for it ends first.
            self.push(Job { conn: Some(conn), peer: None, task: Task::Closed { web } });
        } else {
            self.scope.forget(conn);
        }
    }

    fn woken(&mut self, ctl: &mut Control) {
        while let Ok(done) = self.done.try_recv() {
            self.finished(done, ctl);
        }
        self.look_at_timer(ctl.now());
        while let Ok(request) = self.watched.requests.try_recv() {
            // Whoever asked may have given up.
            let _ = request.send(self.snapshot(ctl));
        }
        let leave = signals::is_asked(&self.stop.asked.leave);
        if signals::is_asked(&self.stop.asked.end) || (leave && !self.stop.leaves) {
            self.shared.end(Ending::Asked);
        } else if leave && !std::mem::replace(&mut self.stop.told, true) {
            self.shared.ask_to_leave();
        }
        self.end_if_drained(ctl);
    }

    fn deadline(&self) -> Option<Instant> {
        [self.drained_by, self.timer.next].into_iter().flatten().min()
    }

    fn timer(&mut self, ctl: &mut Control) {
        if self.timer.next.is_some_and(|at| at <= Instant::now()) {
            self.timer.next = None;
            if !self.shared.is_ending() && self.scope.handler(Handler::Timer).is_some() {
                self.timer.runs = true;
                self.push(Job { conn: None, peer: None, task: Task::Timer });
            }
        }
        self.end_if_drained(ctl);
    }

    fn page(&mut self, path: &str, ctl: &mut Control) -> Option<Page> {
        match path {
            http::METRICS => Some(Page::metrics(&self.snapshot(ctl))),
            http::HEALTH => Some(Page::health(figures::health(&self.shared))),
            _ => None,
        }
    }

    /// The loop serves queries while the ingest thread alone takes updates: neither is of use without the other. A node that
    /// ends has a deadline of its own.
    fn vital_signs(&mut self) -> Option<String> {
        (self.shared.has_ingest_come_round() || self.shared.is_ending()).then(|| {
            let state = self.shared.state();
            let memory = state.memory_percent.unwrap_or(0.0);
            let lost = if state.connected { "" } else { ", waiting for the tickerplant" };
            format!("{}{lost}, {} rows, memory {memory:.1} %", state.phase.name(), state.rows)
        })
    }
}
