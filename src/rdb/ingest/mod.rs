//! The thread that ingests: it alone writes the store, talks to the tickerplant and asks the policy.
//!
//! It never waits for a query, and a query never waits for it: queries read snapshots, fleet calls have a thread of their own.

mod deciding;
mod dialect;
#[cfg(test)]
mod full_tests;
mod leave;
mod react;
mod reading;
mod replay;
mod session;
mod shape;
mod showing;
mod stuck;
mod taking;
#[cfg(test)]
mod tests;

use super::capacity::{Answer, Ask};
use super::intake::Intake;
use super::meter::Meter;
use super::options::NodeOptions;
use super::policy::{Event, Phase, Policy};
use super::shared::{Ending, MemoryState, Shared};
use crate::config::options::Protocol;
use crate::lease::Fence;
use crate::log::WriterId;
use crate::net::client::{Client, ClientError};
use crate::points::{self, Point};
use crate::sys::clock;
use crate::table::store::{Store, Usage};
use dialect::Dialect;
use leave::Departure;
use proto::Limits;
use replay::Replay;
use session::Session;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use stuck::Stuck;

/// Longest wait for a message before other things are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Time for the tickerplant to accept a connection and to answer a call.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A tickerplant whose host has been silent for so long is looked for anew.
const SILENCE_MOST: Duration = Duration::from_secs(20);
/// First and longest pause between attempts to connect; it doubles in between.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(5);
/// Longest pause while the tickerplant answers and its log cannot be read; it may have been moved away for good.
const PAUSE_WITHOUT_LOG: Duration = Duration::from_secs(60);
/// Longest pause while the tickerplant answers; a connection that lasts longer is worth another at once.
const PAUSE_GREETED: Duration = Duration::from_millis(500);
/// Resumes in a row without an update taken in before the node starts anew, with nothing.
const RESYNCS_MOST: u32 = 3;
/// Memory is looked at after so much of the budget has come in, and at these sizes at least and at most.
const WATCH_PARTS: u64 = 256;
const WATCH_LEAST_BYTES: u64 = 16 << 10;
const WATCH_MOST_BYTES: u64 = 4 << 20;

/// Why a connection is given up.
#[derive(Debug)]
pub enum Fault {
    /// It broke, or the tickerplant is going down.
    Connection(String),
    /// What came cannot be received: it is over a limit, or no message.
    Unreadable(String),
    /// The log of a tickerplant that streams none cannot be read.
    NoLog(String),
    /// What came does not follow what came before: resume on a new connection.
    Surprise(String),
    /// The node cannot go on.
    Fatal(String),
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Fault {
        match error {
            ClientError::Decode(error) => Fault::Unreadable(error.to_string()),
            error => Fault::Connection(error.to_string()),
        }
    }
}

/// Who this node is.
#[derive(Clone, Debug)]
pub struct Identity {
    pub node: String,
    pub queue: String,
    /// Where it answers queries.
    pub port: u16,
    /// The fleet's group and this instance; empty without a fleet.
    pub group: String,
    pub instance: String,
    /// This process, where the node's name was given to it and another may have it as well; else empty.
    pub process: String,
}

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    updates_taken: u64,
    updates_refused: u64,
    resyncs: u64,
    /// Windows given back before an update was taken, as memory was at the roll level.
    windows_declined: u64,
    /// Windows that went to the next node because this one made no progress.
    windows_given_up: u64,
    /// Updates left out because no node of this size can hold or receive them.
    updates_left_out: u64,
}

/// The log that this node takes updates of.
#[derive(Debug)]
struct KnownLog {
    /// Where it is, for a tickerplant that does not say whose it is.
    directory: PathBuf,
    writer: Option<WriterId>,
    /// The latest epoch.
    fence: Fence,
}

/// The ingest thread's state.
pub struct Ingest {
    options: Arc<NodeOptions>,
    identity: Identity,
    limits: Limits,
    intake: Intake,
    policy: Policy,
    meter: Meter,
    shared: Arc<Shared>,
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
    started: Instant,
    dialect: Option<Dialect>,
    connected: bool,
    session: Session,
    /// It has joined or subscribed over this connection.
    greeted: bool,
    date: Option<i32>,
    /// The day that this node was in when it joined on a later one: its end may still be told.
    missed_date: Option<i32>,
    tip: Option<u64>,
    /// The tip when this node was made live, and when that was; none once it has been reached.
    catching_up: Option<(u64, Instant)>,
    /// When it became live last.
    live_since: Option<Instant>,
    /// Nodes that wait behind it, as it was told.
    waiting: Option<u64>,
    /// How long that took.
    catch_up: Option<Duration>,
    /// Instances to ask the fleet for when this node wants its successor.
    desired: Option<u32>,
    /// Instances to ask the fleet for because nodes are missing in the queue; none since they were granted.
    missing: Option<u32>,
    asked_to_end: Option<leave::AskedToEnd>,
    /// Messages to be sent.
    out: Vec<u8>,
    replay: Option<Replay>,
    /// Threads that read the log, those among them that hang.
    readings: Arc<AtomicUsize>,
    fence: Option<KnownLog>,
    /// Why nothing is taken from the tickerplant that answers.
    refused: Option<String>,
    /// The tickerplant of this connection is on this host.
    beside_tickerplant: bool,
    /// The date has to be asked for: a day has ended.
    ask_date: bool,
    rejoin: bool,
    fault: Option<Fault>,
    counters: Counters,
    /// Resumes since an update was taken in.
    resyncs_in_a_row: u32,
    /// Connections that ended at the same update.
    stuck: Option<Stuck>,
    /// Bytes of updates since memory was looked at, and what the store held then.
    unwatched_bytes: u64,
    watched: Usage,
    watch_bytes: u64,
    budget_bytes: u64,
    full_warned: bool,
    memory: MemoryState,
    /// Since it is about to leave.
    departure: Option<Departure>,
    ready: Option<Box<dyn FnOnce() + Send>>,
}

impl Ingest {
    /// # Errors
    /// The system's memory figures cannot be read.
    pub fn new(
        options: Arc<NodeOptions>,
        identity: Identity,
        shared: Arc<Shared>,
        store: Store,
        meter: Meter,
        (asks, answers): (Sender<Ask>, Receiver<Answer>),
    ) -> std::io::Result<Ingest> {
        let budget_bytes = meter.budget_bytes()?;
        Ok(Ingest {
            limits: options.limits.codec(),
            intake: Intake::new(store, options.subscription.is_everything()),
            policy: Policy::new(options.policy.clone()),
            watch_bytes: (budget_bytes / WATCH_PARTS).clamp(WATCH_LEAST_BYTES, WATCH_MOST_BYTES),
            options,
            identity,
            meter,
            shared,
            asks,
            answers,
            started: clock::now(),
            dialect: None,
            connected: false,
            session: Session::default(),
            greeted: false,
            date: None,
            missed_date: None,
            tip: None,
            catching_up: None,
            catch_up: None,
            live_since: None,
            waiting: None,
            desired: None,
            missing: None,
            asked_to_end: None,
            out: Vec::new(),
            replay: None,
            readings: Arc::default(),
            fence: None,
            refused: None,
            beside_tickerplant: false,
            ask_date: false,
            rejoin: false,
            fault: None,
            counters: Counters::default(),
            resyncs_in_a_row: 0,
            stuck: None,
            unwatched_bytes: 0,
            watched: Usage::default(),
            budget_bytes,
            full_warned: false,
            memory: MemoryState::default(),
            departure: None,
            ready: None,
        })
    }

    /// Runs until the node ends. `ready` is called once: when the node has joined, so that its tables are known, or when the
    /// tickerplant turns out not to be there yet.
    pub fn run(&mut self, ready: impl FnOnce() + Send + 'static) {
        self.ready = Some(Box::new(ready));
        let mut told = false;
        while !self.shared.is_ending() {
            let address = &self.options.tickerplant;
            let pause = match Client::connect(address, ANSWER_WITHIN, self.limits) {
                Ok(mut client) => {
                    log::info!("connected to the tickerplant at {address}");
                    told = false;
                    client.end_after_silence(SILENCE_MOST);
                    let result = self.session(&mut client);
                    self.ended(result)
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        log::warn!("waiting for the tickerplant: {error}");
                    }
                    self.next_pause()
                }
            };
            self.wait(pause);
        }
    }

    pub(super) fn tell_ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready();
        }
    }

    /// Pauses, unless the node ends.
    fn wait(&mut self, pause: Duration) {
        let Some(by) = clock::now().checked_add(pause) else { return };
        while !self.shared.is_ending() && clock::now() < by {
            clock::sleep(POLL.min(by.saturating_duration_since(clock::now())));
            self.watch();
        }
    }

    fn after_session(&mut self, result: Result<(), Fault>) {
        self.replay = None;
        self.out.clear();
        if let Err(fault) = &result {
            self.note_progress(fault);
        }
        match result {
            Ok(()) => return,
            Err(Fault::Connection(reason) | Fault::Unreadable(reason)) => {
                log::warn!("the connection to the tickerplant ended: {reason}");
            }
            Err(Fault::NoLog(reason)) => {
                if self.session.without_log == 0 {
                    log::error!(
                        "{reason}. It is tried again, more and more rarely: put the log back where the tickerplant says it is"
                    );
                }
                self.session.without_log = self.session.without_log.saturating_add(1);
            }
            Err(Fault::Surprise(reason)) => {
                self.counters.resyncs = self.counters.resyncs.saturating_add(1);
                self.resyncs_in_a_row = self.resyncs_in_a_row.saturating_add(1);
                log::warn!("resuming on a new connection: {reason}");
                if self.resyncs_in_a_row >= RESYNCS_MOST {
                    log::error!("resumed {RESYNCS_MOST} times in vain: starting anew with nothing");
                    self.resyncs_in_a_row = 0;
                    self.step(Event::Dropped);
                }
            }
            Err(Fault::Fatal(reason)) => {
                log::error!("{reason}");
                return self.shared.end(Ending::Failed(reason));
            }
        }
        // A window that was being rebuilt is not whole. And a tickerplant in q gives the rows of whoever was disconnected to
        // the next, so they must not stay here as well.
        if self.policy.phase() == Phase::Rebuilding || self.dialect.is_some_and(|dialect| !dialect.resumes()) {
            self.step(Event::Dropped);
        }
    }

    fn session(&mut self, client: &mut Client) -> Result<(), Fault> {
        self.opened(client.is_on_this_host())?;
        self.send(client)?;
        while !self.shared.is_ending() {
            if self.listens() {
                let now = clock::now();
                let by = if self.is_busy() { now } else { now.checked_add(POLL).unwrap_or(now) };
                client.next_messages(Some(by), |header, body| self.message(header, body))?;
            }
            self.turn()?;
            self.send(client)?;
        }
        Ok(())
    }

    fn send(&mut self, client: &mut Client) -> Result<(), Fault> {
        if !self.out.is_empty() {
            points::reach(Point::NodeBeforeSend);
            client.send_raw(&self.take_output())?;
            client.flush()?;
            points::reach(Point::NodeSent);
        }
        Ok(())
    }

    fn fail(&mut self, fault: Fault) -> bool {
        self.fault = Some(fault);
        false
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(clock::since(self.started).as_nanos()).unwrap_or(i64::MAX)
    }

    /// The fleet's thread lives as long as this one; should it be gone, no answer comes and the policy asks again.
    fn ask(&self, ask: Ask) {
        let _ = self.asks.send(ask);
    }

    /// Encoding these messages fails only for names that cannot travel; those were refused when they came in.
    fn write(&mut self, put: impl FnOnce(&mut Vec<u8>) -> Result<(), proto::EncodeError>) {
        if let Err(error) = put(&mut self.out) {
            log::error!("cannot tell the tickerplant: {error}");
        }
    }

    fn forced(&self) -> Option<Dialect> {
        match self.options.protocol {
            Protocol::Auto => None,
            Protocol::Elastick => Some(Dialect::Elastick),
            Protocol::Paper => Some(Dialect::Paper),
            Protocol::Stock => Some(Dialect::Stock),
        }
    }
}
