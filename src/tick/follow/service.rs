//! What a follower answers to clients: its state, and to everything else where the active tickerplant is.

use super::copier::Copier;
use crate::metrics::{self, Health, Id, Process, Snapshot};
use crate::net::http::{self, Page};
use crate::net::{CloseReason, ConnId, Control, Login, Peer, Service, message, signals};
use crate::protocol::{LeaseState, Standing, TickState};
use crate::tick::globals::SharedGlobals;
use crate::tick::passive::asks_for_state;
use crate::tick::program::{self, Logins};
use proto::{Header, Limits, MessageKind, View};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The follower as the event loop drives it.
pub struct FollowService {
    pub copier: Copier,
    dir: PathBuf,
    codec: Limits,
    /// Decides on users by the owner's `.z.pw`, with the globals that it needs.
    logins: Option<(Logins, Arc<SharedGlobals>)>,
    has_secret: bool,
    /// Set when the process was asked to stop.
    end: Arc<AtomicBool>,
}

impl FollowService {
    pub fn new(
        copier: Copier,
        dir: PathBuf,
        codec: Limits,
        (logins, has_secret): (Option<(Logins, Arc<SharedGlobals>)>, bool),
        end: Arc<AtomicBool>,
    ) -> FollowService {
        FollowService { copier, dir, codec, logins, has_secret, end }
    }

    fn state(&self) -> TickState {
        let status = self.copier.status.get();
        let record = LeaseState { trouble: status.trouble.clone().unwrap_or_default(), ..LeaseState::default() };
        TickState {
            role: Standing::Passive,
            epoch: status.epoch,
            tip: status.tip,
            lag: status.lag(),
            late_ns: status.late().map(|late| i64::try_from(late.as_nanos()).unwrap_or(i64::MAX)),
            note: status.note.clone(),
            record,
            active: status.leader,
            ..TickState::default()
        }
    }

    /// Error for a client that wants the active tickerplant.
    fn refusal(&self) -> String {
        match self.copier.status.get().leader.as_str() {
            "" => "passive: this tickerplant follows another one, and has not found it yet".to_string(),
            leader => format!("passive: this tickerplant follows {leader}"),
        }
    }

    /// One line for pages and the service manager.
    fn words(&self) -> String {
        let status = self.copier.status.get();
        let mut words = self.refusal();
        if let (Some(tip), Some(lag), Some(late)) = (status.tip, status.lag(), status.late()) {
            words.push_str(&format!("; {tip} updates of today, {lag} behind, {} ms late", late.as_millis()));
        }
        if let Some(trouble) = status.trouble {
            words.push_str(&format!("; nothing is copied: {trouble}"));
        }
        if !status.note.is_empty() {
            words.push_str(&format!("; {}", status.note));
        }
        words
    }

    fn answer(&self, conn: ConnId, body: &[u8], header: &Header, ctl: &mut Control) {
        let Some(request) = ctl.request() else {
            let refusal = self.refusal();
            // A client can cause one for each connection that it opens.
            tracing::debug!(handle = conn.handle(), "async message rejected, connection closed: {refusal}");
            return ctl.close(conn, refusal);
        };
        let asks = match View::parse(body, header.endian, &self.codec) {
            Ok((view, used)) if used == body.len() => asks_for_state(&view),
            Ok(_) => return ctl.reply(request, message::error(b"badmsg: bytes after the object")),
            Err(error) => return ctl.no_object(conn, error),
        };
        if !asks {
            return ctl.reply(request, message::error(self.refusal().as_bytes()));
        }
        let answer = message::message(MessageKind::Response, |writer| self.state().put(writer));
        let answer = answer.unwrap_or_else(|error| message::error(error.to_string().as_bytes()));
        ctl.reply(request, answer);
    }
}

impl Service for FollowService {
    fn login(&mut self, conn: ConnId, user: &[u8], password: &[u8], _: &mut Control) -> Login {
        let Some((logins, globals)) = &self.logins else { return Login::Admitted };
        if program::is_cluster(user, self.has_secret) {
            return Login::Admitted;
        }
        logins.submit(conn, user, password, globals.current());
        Login::Later
    }

    fn opened(&mut self, conn: ConnId, peer: &Peer, _: &mut Control) {
        tracing::debug!(handle = conn.handle(), %peer, "connection opened while following");
    }

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        if header.kind != MessageKind::Response {
            self.answer(conn, body, header, ctl);
        }
    }

    fn iteration_ended(&mut self, _: &mut Control) {}

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, _: ConnId, _: &CloseReason, _: &mut Control) {}

    fn woken(&mut self, ctl: &mut Control) {
        while let Some((conn, admitted)) = self.logins.as_ref().and_then(|(logins, _)| logins.decided()) {
            ctl.admit(conn, admitted);
        }
        if signals::is_asked(&self.end) || self.copier.status.get().failure.is_some() {
            ctl.stop();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timer(&mut self, _: &mut Control) {}

    fn page(&mut self, path: &str, query: &str, ctl: &mut Control) -> Option<Page> {
        let status = self.copier.status.get();
        match path {
            http::METRICS => {
                let mut snapshot = Snapshot::new(Process::Tick);
                metrics::process::put(&mut snapshot);
                ctl.put_metrics(&mut snapshot, &mut Vec::new());
                snapshot.set(Id::TickUp, false);
                snapshot.set(Id::TickActive, false);
                snapshot.set(Id::FollowConnected, status.is_connected);
                snapshot.set(Id::FollowLag, status.lag());
                snapshot.set(Id::FollowLate, status.late().map(|late| late.as_secs_f64()));
                snapshot.set(Id::LogUpdates, status.tip);
                snapshot.set(Id::LogDurable, status.tip);
                Some(Page::metrics(&snapshot))
            }
            http::HEALTH if http::asks_for_passive(query) => {
                let is_sound = status.is_connected && status.trouble.is_none();
                Some(Page::text(if is_sound { 200 } else { 503 }, &self.words()))
            }
            http::HEALTH => {
                let mut health = Health::new(format!("copies a log into {}", self.dir.display()));
                health.fail("passive", self.words());
                Some(Page::health(&health))
            }
            _ => None,
        }
    }

    fn liveness(&mut self) -> Option<String> {
        Some(self.words())
    }
}
