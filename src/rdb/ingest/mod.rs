//! The ingest thread: the only writer of the store. It runs the connection to the tickerplant and the scaling policy.
//!
//! It never waits for a query, and no query waits for it: queries read snapshots, and fleet calls run on the fleet thread.

mod deciding;
mod dialect;
#[cfg(test)]
mod full_tests;
mod greet;
mod leave;
mod link;
mod memory;
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
use super::shared::{Ending, Shared};
use crate::lease::Fence;
use crate::log::WriterId;
use crate::net::client::{Client, ClientError};
use crate::points::{self, Point};
use crate::sys::clock;
use crate::table::store::Store;
use dialect::Dialect;
use leave::Departure;
use link::Link;
use memory::MemoryWatch;
use replay::Replay;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use stuck::Stuck;
use tracing::Span;

/// Longest wait for a message per event-loop iteration.
const POLL: Duration = Duration::from_millis(20);
/// Time for the tickerplant to accept a connection, and to answer a call.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// TCP keepalive timeout: the connection fails after the tickerplant's host has been silent for this long.
const SILENCE_MOST: Duration = Duration::from_secs(20);
/// Maximum number of consecutive resumes without a taken update; then the node drops everything and joins empty.
const RESYNCS_MOST: u32 = 3;
/// Why a connection is given up.
#[derive(Debug)]
pub enum Fault {
    /// The connection broke, or the tickerplant is shutting down.
    Connection(String),
    /// A message cannot be received: it exceeds a limit or is malformed.
    Unreadable(String),
    /// The log cannot be read, and the tickerplant cannot stream it.
    NoLog(String),
    /// A message contradicts the ones before it: resume on a new connection.
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

/// Identity of this node.
#[derive(Clone, Debug)]
pub struct Identity {
    pub node: String,
    pub queue: String,
    /// Port of its queries.
    pub port: u16,
    /// The fleet's group and this instance's name; empty without a fleet.
    pub group: String,
    pub instance: String,
    /// Unique process name if the node's name was configured, as another process may have the same; otherwise empty.
    pub process: String,
}

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    updates_taken: u64,
    updates_refused: u64,
    resyncs: u64,
    /// Windows given back before their first update because memory was at the roll level.
    windows_declined: u64,
    /// Windows passed to the next node because this one made no progress.
    windows_given_up: u64,
    /// Updates left out because no node of this size can hold or receive them.
    updates_left_out: u64,
}

/// The log whose updates this node takes.
#[derive(Debug)]
struct KnownLog {
    /// Its directory; identifies the log of a tickerplant that sends no writer id.
    directory: PathBuf,
    writer: Option<WriterId>,
    /// The highest epoch seen.
    fence: Fence,
}

/// State of the ingest thread.
pub struct Ingest {
    options: Arc<NodeOptions>,
    identity: Identity,
    link: Link,
    intake: Intake,
    policy: Policy,
    memory: MemoryWatch,
    shared: Arc<Shared>,
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
    started: Instant,
    date: Option<i32>,
    /// The node's day if it joined on a later one: the end of that day may still arrive.
    missed_date: Option<i32>,
    tip: Option<u64>,
    /// The tip when this node became live, and that time; `None` once the node has reached it.
    catching_up: Option<(u64, Instant)>,
    /// When the node last became live.
    live_since: Option<Instant>,
    /// Standbys behind this node, as reported by the tickerplant.
    waiting: Option<u64>,
    /// Duration of the last catch-up.
    catch_up: Option<Duration>,
    /// Desired capacity to request for this node's successor.
    desired: Option<u32>,
    /// Desired capacity to request for nodes missing in the queue; `None` once granted.
    missing: Option<u32>,
    asked_to_end: Option<leave::AskedToEnd>,
    replay: Option<Replay>,
    /// Number of threads that read the log, including those that hang in the file system.
    readings: Arc<AtomicUsize>,
    fence: Option<KnownLog>,
    /// Why the node takes no updates from a tickerplant that it can reach.
    refused: Option<String>,
    /// Request the date: a day has ended.
    ask_date: bool,
    counters: Counters,
    /// Consecutive resumes without a taken update.
    resyncs_in_a_row: u32,
    /// Consecutive connections that ended at the same update.
    stuck: Option<Stuck>,
    /// Set while leaving.
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
        Ok(Ingest {
            link: Link::new(options.limits.codec()),
            intake: Intake::new(store, options.subscription.is_everything()),
            policy: Policy::new(options.policy.clone()),
            options,
            identity,
            memory: MemoryWatch::new(meter)?,
            shared,
            asks,
            answers,
            started: clock::now(),
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
            replay: None,
            readings: Arc::default(),
            fence: None,
            refused: None,
            ask_date: false,
            counters: Counters::default(),
            resyncs_in_a_row: 0,
            stuck: None,
            departure: None,
            ready: None,
        })
    }

    /// Span of this node's log lines.
    pub fn span(&self) -> Span {
        tracing::info_span!("node", queue = %self.identity.queue, node = %self.identity.node)
    }

    /// Runs until the node ends. Calls `ready` once: after the first join, when the tables are known, or as soon as the
    /// tickerplant turns out to be unreachable.
    pub fn run(&mut self, ready: impl FnOnce() + Send + 'static) {
        self.ready = Some(Box::new(ready));
        let mut told = false;
        while !self.shared.is_ending() {
            let address = &self.options.tickerplant;
            let pause = match Client::connect(address, ANSWER_WITHIN, *self.link.limits()) {
                Ok(mut client) => {
                    tracing::info!(tickerplant = %address, "connected to the tickerplant");
                    told = false;
                    client.end_after_silence(SILENCE_MOST);
                    let result = self.session(&mut client);
                    self.ended(result)
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%error, "waiting for the tickerplant");
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

    /// Sleeps until the next connection attempt, unless the node ends.
    fn wait(&mut self, pause: Duration) {
        let Some(by) = clock::now().checked_add(pause) else { return };
        while !self.shared.is_ending() && clock::now() < by {
            clock::sleep(POLL.min(by.saturating_duration_since(clock::now())));
            self.watch();
        }
    }

    fn after_session(&mut self, result: Result<(), Fault>, had_joined: bool) {
        self.replay = None;
        self.link.drop_output();
        if let Err(fault) = &result {
            self.note_progress(fault, had_joined);
        }
        match result {
            Ok(()) => return,
            Err(Fault::Connection(reason) | Fault::Unreadable(reason)) => {
                tracing::warn!(%reason, "the connection to the tickerplant ended");
            }
            Err(Fault::NoLog(reason)) => {
                if self.link.lacks_log() {
                    tracing::error!(
                        "{reason}. It is tried again, more and more rarely: put the log back where the tickerplant says it is"
                    );
                }
            }
            Err(Fault::Surprise(reason)) => {
                self.counters.resyncs = self.counters.resyncs.saturating_add(1);
                self.resyncs_in_a_row = self.resyncs_in_a_row.saturating_add(1);
                tracing::warn!(%reason, "resuming on a new connection");
                if self.resyncs_in_a_row >= RESYNCS_MOST {
                    tracing::error!(
                        "resumed {RESYNCS_MOST} times without success: all rows are dropped, and this node starts empty"
                    );
                    self.resyncs_in_a_row = 0;
                    self.step(Event::Dropped);
                }
            }
            Err(Fault::Fatal(reason)) => {
                tracing::error!("{reason}");
                return self.shared.end(Ending::Failed(reason));
            }
        }
        // A partly rebuilt window is useless. A tickerplant in q gives a disconnected node's rows to the next node, so
        // they must not stay here as well.
        if self.policy.phase() == Phase::Rebuilding || self.link.dialect().is_some_and(|dialect| !dialect.resumes()) {
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
        if self.link.has_output() {
            points::reach(Point::NodeBeforeSend);
            client.send_raw(&self.take_output())?;
            client.flush()?;
            points::reach(Point::NodeSent);
        }
        Ok(())
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(clock::since(self.started).as_nanos()).unwrap_or(i64::MAX)
    }

    /// The fleet thread lives as long as this one. If it died, no reply comes and the policy repeats the request.
    fn ask(&self, ask: Ask) {
        let _ = self.asks.send(ask);
    }
}
