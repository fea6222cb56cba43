//! One connection to the tickerplant as a state machine over bytes: requests, responses, and the work between messages.
//! The caller owns the socket.

use super::link::{Received, RequestKind};
use super::{Fault, Ingest};
use crate::net::client::{self, ClientError};
use crate::rdb::capacity::FleetRequest;
use proto::Header;
use std::time::Duration;

impl Ingest {
    /// Starts a session on a new connection; `beside`: the tickerplant runs on this host.
    ///
    /// # Errors
    /// Why the connection is to be given up.
    pub fn opened(&mut self, beside: bool) -> Result<(), Fault> {
        self.link.opened(beside, self.env.clock.now());
        self.greet()
    }

    /// Returns whether to read messages now. A tickerplant in q sends the feed at once; it stays in the socket until
    /// the log is replayed.
    pub fn listens(&self) -> bool {
        !self.replays.is_on() || self.link.is_native() || self.link.awaits_response()
    }

    /// Returns whether there is work besides waiting for messages.
    pub fn is_busy(&self) -> bool {
        self.replays.is_on() || self.link.has_earlier()
    }

    /// Handles one message. Returns false if [`Ingest::turn`] must run before the next.
    pub fn message(&mut self, header: &Header, body: &[u8]) -> bool {
        match self.link.receive(header, body) {
            Received::Object => self.object(header, body),
            Received::Passed => true,
            Received::Behind => false,
            Received::Response(kind) => {
                if let Err(fault) = self.answer(kind, header, body) {
                    self.link.fail(fault);
                }
                false
            }
        }
    }

    /// Returns whether a day ends in the messages queued before the response being handled, so that the response is
    /// about a later day.
    pub(super) fn day_ends_earlier(&self) -> bool {
        self.link.earlier().any(|(header, body)| self.is_day_end(header, body))
    }

    /// One event-loop iteration between messages: queued messages, replay, requests, memory, fleet.
    ///
    /// # Errors
    /// Why the connection is to be given up.
    pub fn turn(&mut self) -> Result<(), Fault> {
        self.shared.ingest_comes_round();
        while self.listens() {
            let Some((header, body)) = self.link.next_earlier() else { break };
            if !self.object(&header, &body) {
                break;
            }
        }
        if let Some(fault) = self.link.take_fault() {
            return Err(fault);
        }
        if self.link.awaits_response() {
            return match self.link.is_overdue(self.env.clock.now()) {
                true => Err(ClientError::Timeout.into()),
                false => Ok(()),
            };
        }
        if self.shared.has_stalled() {
            match self.link.is_native() {
                true => {
                    return Err(Fault::JoinsAgain(
                        "this process stood still for longer than its lease lasts".to_string(),
                    ));
                }
                // A tickerplant in q evicts nobody.
                false => self.shared.settle_doubt(),
            }
        }
        self.replay_on()?;
        if self.day.takes_unknown() {
            return self.link.request(RequestKind::Date, self.env.clock.now(), |writer| writer.chars(".u.d"));
        }
        if self.link.rejoins() {
            // A window was assigned while the fleet refused to end this node: what is under way for it belongs to the join before.
            return match self.intake.open_window() {
                Some(_) => {
                    Err(Fault::JoinsAgain("the fleet keeps this node, which got a window meanwhile".to_string()))
                }
                None => self.greet(),
            };
        }
        self.watch();
        Ok(())
    }

    /// One iteration without a connection.
    pub fn idle(&mut self) {
        self.watch();
    }

    /// Returns the bytes to send, and clears the send buffer.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.link.take_output()
    }

    /// Ends the session. Returns the pause before the next connection attempt.
    pub fn ended(&mut self, result: Result<(), Fault>) -> Duration {
        let closed = self.link.close(self.env.clock.now());
        // Without a connection the node does not know which instances have joined.
        self.requests.send(FleetRequest::Joined(Vec::new()));
        let is_without_log = matches!(result, Err(Fault::NoLog(_)));
        self.after_session(result, closed.had_joined);
        if is_without_log {
            self.next_pause();
            return self.link.pause_without_log();
        }
        self.link.ease(closed);
        self.next_pause()
    }

    /// Returns the pause before the next connection attempt, with jitter.
    pub fn next_pause(&mut self) -> Duration {
        self.notify_ready();
        self.watch();
        self.link.next_pause(0.5 + fastrand::f64() / 2.0)
    }

    fn answer(&mut self, kind: RequestKind, header: &Header, body: &[u8]) -> Result<(), Fault> {
        let limits = *self.link.limits();
        let answer = client::view(header, body, &limits);
        match kind {
            RequestKind::Join => self.join_answered(answer),
            RequestKind::HasQueue => self.has_queue_answered(answer),
            RequestKind::Schemas => self.schemas_answered(answer),
            RequestKind::Subscribe => self.subscribe_answered(answer),
            RequestKind::Date => self.date_answered(answer),
        }
    }
}
