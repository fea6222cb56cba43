//! A connection to the tickerplant, step by step: what is asked, what is answered, and what is done between two messages. Bytes
//! come in and go out; the socket is the caller's.

use super::{ANSWER_WITHIN, Dialect, Fault, Ingest, PAUSE_FIRST, PAUSE_GREETED, PAUSE_MOST, PAUSE_WITHOUT_LOG};
use crate::net::client::{self, ClientError};
use crate::net::message;
use crate::rdb::capacity::Ask;
use crate::sys::clock;
use proto::{Header, MessageKind, Writer};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What a question is about. Nothing else is done before its answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// elastick's own way into the queue.
    Join,
    /// Whether the tickerplant is the paper's.
    HasQueue,
    /// The tables of the paper's tickerplant.
    Schemas,
    /// The start-up string of a stock tickerplant.
    Subscribe,
    /// Which day it is.
    Date,
}

impl About {
    /// Whether messages that come before the answer count still: the greetings begin anew with the answer.
    fn keeps_earlier(self) -> bool {
        matches!(self, About::Date | About::HasQueue)
    }
}

/// A question that has no answer yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    about: About,
    by: Instant,
}

/// Where a connection stands besides what the node holds.
#[derive(Debug, Default)]
pub(super) struct Session {
    question: Option<Question>,
    /// Messages that came before an answer.
    earlier: VecDeque<(Header, Vec<u8>)>,
    began: Option<Instant>,
    /// Before the next attempt to connect.
    pause: Option<Duration>,
    /// Connections in a row that ended because the log cannot be read.
    pub(super) without_log: u32,
}

impl Session {
    /// What is asked and what waits for the answer, as text.
    pub fn shape(&self) -> String {
        format!("{:?} {:?}", self.question.map(|question| question.about), self.earlier)
    }
}

impl Ingest {
    /// A connection is there; `beside`: to a tickerplant on this host.
    ///
    /// # Errors
    /// Why it is to be given up.
    pub fn opened(&mut self, beside: bool) -> Result<(), Fault> {
        (self.connected, self.greeted) = (true, false);
        self.beside_tickerplant = beside;
        self.session.question = None;
        self.session.earlier.clear();
        self.session.began = Some(clock::now());
        self.greet()
    }

    /// Whether messages are to be read now. A tickerplant in q feeds at once; what it sends waits in the socket until the log
    /// is replayed.
    pub fn listens(&self) -> bool {
        self.replay.is_none() || self.dialect == Some(Dialect::Elastick) || self.session.question.is_some()
    }

    /// Whether there is more to do than to wait for messages.
    pub fn is_busy(&self) -> bool {
        self.replay.is_some() || !self.session.earlier.is_empty()
    }

    /// One message. False if [`Ingest::turn`] is to be called before the next.
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

    /// Whether a day ends in what came before the answer that is being taken in: what the answer says is true behind it.
    pub(super) fn day_ends_earlier(&self) -> bool {
        self.session.earlier.iter().any(|(header, body)| self.is_day_end(header, body))
    }

    /// What is to be done between messages: pieces of the log, questions, memory, the fleet.
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

    /// What is to be done while there is no connection.
    pub fn idle(&mut self) {
        self.watch();
    }

    /// The bytes that are to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The connection is gone. Answers how long to wait before another is tried.
    pub fn ended(&mut self, result: Result<(), Fault>) -> Duration {
        self.connected = false;
        // Who joins meanwhile is not known here.
        self.ask(Ask::Joined(Vec::new()));
        self.session.question = None;
        self.session.earlier.clear();
        let is_without_log = matches!(result, Err(Fault::NoLog(_)));
        self.after_session(result);
        if is_without_log {
            self.next_pause();
            return PAUSE_FIRST.saturating_mul(2u32.saturating_pow(self.session.without_log)).min(PAUSE_WITHOUT_LOG);
        }
        // A connection that ends at once, again and again, is no reason to hurry; nor may the grace run out.
        if self.greeted {
            let lasted = self.session.began.map(clock::since).unwrap_or_default();
            let pause = self.session.pause.unwrap_or(PAUSE_FIRST);
            self.session.pause = Some(if lasted >= PAUSE_GREETED { PAUSE_FIRST } else { pause.min(PAUSE_GREETED) });
        }
        self.next_pause()
    }

    /// How long to wait before the next attempt to connect; it doubles.
    pub fn next_pause(&mut self) -> Duration {
        self.tell_ready();
        self.watch();
        let pause = self.session.pause.unwrap_or(PAUSE_FIRST);
        self.session.pause = Some(pause.saturating_mul(2).min(PAUSE_MOST));
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Asks the tickerplant.
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

    /// A question has been put into the output.
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
