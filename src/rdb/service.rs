//! Clients' connections: messages go to the query threads, one of each connection at a time, answers come back.

use super::figures;
use super::pool::{Done, Job, Pool};
use super::report::Constants;
use super::shared::{Ending, Shared};
use crate::config::Limits;
use crate::metrics;
use crate::net::http::{self, Page};
use crate::net::signals::{self, Asked};
use crate::net::{CloseReason, ConnId, Control, Peer, Service};
use proto::{Header, MessageKind};
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
    pub(super) pool: Pool,
    pub(super) done: Receiver<Done>,
    stop: Stop,
    watched: Watched,
    /// When the loop ends whether or not queries have.
    drained_by: Option<Instant>,
}

impl Queries {
    pub fn new(shared: Arc<Shared>, pool: Pool, done: Receiver<Done>, stop: Stop, watched: Watched) -> Queries {
        Queries { shared, pool, done, stop, watched, drained_by: None }
    }

    fn snapshot(&self, ctl: &Control) -> metrics::Snapshot {
        figures::snapshot(&self.shared, &self.watched.constants, &self.watched.limits, ctl)
    }

    fn end_if_drained(&mut self, ctl: &mut Control) {
        if !self.shared.is_ending() {
            return;
        }
        let by = *self.drained_by.get_or_insert_with(|| ctl.now().checked_add(DRAIN).unwrap_or_else(|| ctl.now()));
        if self.shared.queries_open.load(Ordering::SeqCst) == 0 || ctl.now() >= by {
            ctl.stop();
        }
    }
}

impl Service for Queries {
    fn opened(&mut self, _: ConnId, peer: &Peer, _: &mut Control) {
        log::debug!("{peer} connected");
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        if header.kind == MessageKind::Response || self.shared.is_ending() {
            return;
        }
        let Some(peer) = ctl.peer(conn).cloned() else { return };
        self.shared.queries_open.fetch_add(1, Ordering::SeqCst);
        self.shared.queries.fetch_add(1, Ordering::Relaxed);
        // The next message of this connection may rely on what this one does.
        ctl.pause(conn);
        self.pool.push(Job { conn, request: ctl.request(), peer, body: body.to_vec(), endian: header.endian });
    }

    fn turn_ended(&mut self, _: &mut Control) {}

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, _: ConnId, reason: &CloseReason, _: &mut Control) {
        log::debug!("a connection ended: {reason}");
    }

    fn woken(&mut self, ctl: &mut Control) {
        while let Ok(Done { conn, answer }) = self.done.try_recv() {
            if let Some((request, response)) = answer {
                ctl.reply(request, response);
            }
            self.shared.queries_open.fetch_sub(1, Ordering::SeqCst);
            ctl.resume(conn);
        }
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
        self.drained_by
    }

    fn timer(&mut self, ctl: &mut Control) {
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
