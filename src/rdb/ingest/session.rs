//! One connection to the tickerplant as a state machine over bytes: requests, responses, and the work between messages.
//! The caller owns the socket.

use super::{ANSWER_WITHIN, Dialect, Fault, Ingest, PAUSE_FIRST, PAUSE_GREETED, PAUSE_MOST, PAUSE_WITHOUT_LOG};
use crate::defect::{Defect, is_planted};
use crate::net::client::{self, ClientError};
use crate::net::message;
use crate::rdb::capacity::Ask;
use crate::sys::clock;
use proto::{Header, MessageKind, Writer};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Subject of a sync request. Nothing else is done until its response has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// elastick's join.
    Join,
    /// Whether the tickerplant is the paper's.
    HasQueue,
    /// The tables of the paper's tickerplant.
    Schemas,
    /// The start-up call of a stock tickerplant.
    Subscribe,
    /// The current date.
    Date,
}

impl About {
    /// Returns whether messages before the response stay valid. A join does not keep them, as its response starts the
    /// feed anew.
    fn keeps_earlier(self) -> bool {
        matches!(self, About::Date | About::HasQueue)
    }
}

/// A request without a response yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    about: About,
    by: Instant,
}

/// Connection state apart from windows and rows.
#[derive(Debug, Default)]
pub(super) struct Session {
    question: Option<Question>,
    /// Messages received before a response.
    earlier: VecDeque<(Header, Vec<u8>)>,
    began: Option<Instant>,
    /// Pause before the next connection attempt.
    pause: Option<Duration>,
    /// Consecutive connections that ended because the log is unreadable.
    pub(super) without_log: u32,
}

impl Session {
    /// Returns the pending request and queued messages as text, for the state fingerprint.
    pub fn shape(&self) -> String {
        format!("{:?} {:?}", self.question.map(|question| question.about), self.earlier)
    }
}

impl Ingest {
    /// Starts a session on a new connection; `beside`: the tickerplant runs on this host.
    ///
    /// # Errors
    /// Why the connection is to be given up.
    pub fn opened(&mut self, beside: bool) -> Result<(), Fault> {
        (self.connected, self.greeted) = (true, false);
        self.beside_tickerplant = beside;
        self.session.question = None;
        self.session.earlier.clear();
        self.session.began = Some(clock::now());
        self.greet()
    }

    /// Returns whether to read messages now. A tickerplant in q sends the feed at once; it stays in the socket until
    /// the log is replayed.
    pub fn listens(&self) -> bool {
        if is_planted(Defect::NodeDozes) && self.now_ns() / 1_000_000_000 % 100 >= 20 {
            return false;
        }
        self.replay.is_none() || self.dialect == Some(Dialect::Elastick) || self.session.question.is_some()
    }

    /// Returns whether there is work besides waiting for messages.
    pub fn is_busy(&self) -> bool {
        self.replay.is_some() || !self.session.earlier.is_empty()
    }

    /// Handles one message. Returns false if [`Ingest::turn`] must run before the next.
    pub fn message(&mut self, header: &Header, body: &[u8]) -> bool {
        if header.kind == MessageKind::Response {
            let Some(question) = self.session.question.take() else { return true };
            if let Err(fault) = self.answer(question.about, header, body) {
                self.fail(fault);
            }
            return false;
        }
        match &self.session.question {
            Some(question) if question.about.keeps_earlier() => {
                self.session.earlier.push_back((*header, body.to_vec()));
                true
            }
            Some(_) => true,
            None if self.session.earlier.is_empty() => self.object(header, body),
            None => {
                self.session.earlier.push_back((*header, body.to_vec()));
                false
            }
        }
    }

    /// Returns whether a day ends in the messages queued before the response being handled, so that the response is
    /// about a later day.
    pub(super) fn day_ends_earlier(&self) -> bool {
        self.session.earlier.iter().any(|(header, body)| self.is_day_end(header, body))
    }

    /// One event-loop iteration between messages: queued messages, replay, requests, memory, fleet.
    ///
    /// # Errors
    /// Why the connection is to be given up.
    pub fn turn(&mut self) -> Result<(), Fault> {
        self.shared.ingest_comes_round();
        while self.session.question.is_none() && self.fault.is_none() && self.listens() {
            let Some((header, body)) = self.session.earlier.pop_front() else { break };
            if !self.object(&header, &body) {
                break;
            }
        }
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if let Some(question) = &self.session.question {
            return match clock::now() >= question.by {
                true => Err(ClientError::Timeout.into()),
                false => Ok(()),
            };
        }
        self.replay_on()?;
        if std::mem::take(&mut self.ask_date) {
            return self.ask_tickerplant(About::Date, |writer| writer.chars(".u.d"));
        }
        if self.rejoin {
            return self.greet();
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
        std::mem::take(&mut self.out)
    }

    /// Ends the session. Returns the pause before the next connection attempt.
    pub fn ended(&mut self, result: Result<(), Fault>) -> Duration {
        self.connected = false;
        // Without a connection the node does not know which instances have joined.
        self.ask(Ask::Joined(Vec::new()));
        self.session.question = None;
        self.session.earlier.clear();
        let is_without_log = matches!(result, Err(Fault::NoLog(_)));
        self.after_session(result);
        if is_without_log {
            self.next_pause();
            return PAUSE_FIRST.saturating_mul(2u32.saturating_pow(self.session.without_log)).min(PAUSE_WITHOUT_LOG);
        }
        // Reconnecting at once to a connection that keeps failing is pointless, but pauses must stay below the grace period.
        if self.greeted {
            let lasted = self.session.began.map(clock::since).unwrap_or_default();
            let pause = self.session.pause.unwrap_or(PAUSE_FIRST);
            self.session.pause = Some(if lasted >= PAUSE_GREETED { PAUSE_FIRST } else { pause.min(PAUSE_GREETED) });
        }
        self.next_pause()
    }

    /// Returns the pause before the next connection attempt, with jitter; it doubles each time.
    pub fn next_pause(&mut self) -> Duration {
        self.tell_ready();
        self.watch();
        let pause = self.session.pause.unwrap_or(PAUSE_FIRST);
        self.session.pause = Some(pause.saturating_mul(2).min(PAUSE_MOST));
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Sends a sync request to the tickerplant.
    pub(super) fn ask_tickerplant(
        &mut self,
        about: About,
        question: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), Fault> {
        let request = message::message(MessageKind::Sync, question);
        let request = request.map_err(|error| Fault::Fatal(format!("cannot ask the tickerplant: {error}")))?;
        self.out.extend_from_slice(&request);
        self.expect_answer(about);
        Ok(())
    }

    /// Starts waiting for the response to a request in the send buffer.
    pub(super) fn expect_answer(&mut self, about: About) {
        let now = clock::now();
        self.session.question = Some(Question { about, by: now.checked_add(ANSWER_WITHIN).unwrap_or(now) });
    }

    fn answer(&mut self, about: About, header: &Header, body: &[u8]) -> Result<(), Fault> {
        let limits = self.limits;
        let answer = client::view(header, body, &limits);
        match about {
            About::Join => self.join_answered(answer),
            About::HasQueue => self.has_queue_answered(answer),
            About::Schemas => self.schemas_answered(answer),
            About::Subscribe => self.subscribe_answered(answer),
            About::Date => self.date_answered(answer),
        }
    }
}
