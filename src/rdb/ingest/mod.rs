//! The ingest thread: the only writer of the store. It runs the connection to the tickerplant and the scaling policy.
//!
//! It never waits for a query, and no query waits for it: queries read snapshots, and fleet calls run on the fleet thread.

mod day;
mod deciding;
mod dialect;
#[cfg(test)]
mod full_tests;
mod greet;
mod known_log;
mod leave;
mod link;
mod membership;
mod memory;
mod progress;
mod react;
pub mod reading;
mod replay;
mod requests;
mod session;
mod shape;
mod showing;
mod stuck;
mod taking;
#[cfg(test)]
mod tests;

use super::capacity::{FleetReply, FleetRequest};
use super::intake::Intake;
use super::meter::Meter;
use super::options::NodeOptions;
use super::policy::{Phase, Policy, PolicyEvent};
use super::shared::{Ending, Shared};
use crate::env::Env;
use crate::net::candidates::{Candidates, Terms};
use crate::net::client::{Client, ClientError};
use crate::protocol::check_serving;
use crate::table::store::Store;
use day::Day;
use dialect::Dialect;
use known_log::KnownLog;
use leave::Leave;
use link::Link;
use memory::MemoryWatch;
use progress::{MAX_RESYNCS, Progress};
use replay::Replays;
use requests::Requests;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use tracing::Span;

/// Longest wait for a message per event-loop iteration.
const POLL: Duration = Duration::from_millis(20);
/// Time for the tickerplant to accept a connection, and to answer a call.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// TCP keepalive timeout: the connection fails after the tickerplant's host has been silent for this long.
const MAX_SILENCE: Duration = Duration::from_secs(20);

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
    /// The node joins again, on a new connection, as messages of the last join may be in flight on this one.
    JoinsAgain(String),
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
    /// Random id of this process, which tells it apart from another one of the same name; empty in a simulation in which names are unique.
    pub process: String,
}

/// State of the ingest thread.
pub struct Ingest {
    env: Env,
    options: Arc<NodeOptions>,
    identity: Identity,
    shared: Arc<Shared>,
    started: Instant,
    policy: Policy,
    intake: Intake,
    link: Link,
    memory: MemoryWatch,
    requests: Requests,
    day: Day,
    log: KnownLog,
    replays: Replays,
    progress: Progress,
    leave: Leave,
    ready: Option<Box<dyn FnOnce() + Send>>,
}

impl Ingest {
    /// # Errors
    /// The system's memory figures cannot be read.
    pub fn new(
        env: Env,
        options: Arc<NodeOptions>,
        identity: Identity,
        shared: Arc<Shared>,
        store: Store,
        meter: Meter,
        fleet: (Sender<FleetRequest>, Receiver<FleetReply>),
    ) -> std::io::Result<Ingest> {
        let memory = MemoryWatch::new(meter)?;
        Ok(Ingest {
            shared,
            started: env.clock.now(),
            policy: Policy::new(options.policy.clone()),
            intake: Intake::new(store, options.subscription.is_everything()),
            link: Link::new(options.limits.codec()),
            requests: Requests::new(fleet),
            day: Day::default(),
            log: KnownLog::default(),
            replays: Replays::new(
                env.clone(),
                options.read_log,
                memory.budget_bytes(),
                options.limits.log_read_chunk_bytes,
            ),
            progress: Progress::default(),
            leave: Leave::default(),
            ready: None,
            env,
            memory,
            options,
            identity,
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
        let mut is_logged = false;
        let mut candidates = Candidates::new(self.options.tickerplant.clone(), check_serving);
        let terms = Terms { timeout: ANSWER_WITHIN, limits: *self.link.limits(), explains: false };
        while !self.shared.is_ending() {
            let pause = match candidates.connect(terms) {
                Ok(mut client) => {
                    tracing::info!(tickerplant = %candidates, "connected to the tickerplant");
                    is_logged = false;
                    client.set_keepalive(MAX_SILENCE);
                    let result = self.prove(&mut client).and_then(|()| self.session(&mut client));
                    self.ended(result)
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_logged, true) {
                        tracing::warn!(%error, "waiting for the tickerplant");
                    }
                    self.next_pause()
                }
            };
            self.wait(pause);
        }
    }

    pub(super) fn notify_ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready();
        }
    }

    /// Sleeps until the next connection attempt, unless the node ends.
    fn wait(&mut self, pause: Duration) {
        let Some(by) = self.env.clock.now().checked_add(pause) else { return };
        while !self.shared.is_ending() && self.env.clock.now() < by {
            self.env.clock.sleep(POLL.min(by.saturating_duration_since(self.env.clock.now())));
            self.watch();
        }
    }

    fn after_session(&mut self, result: Result<(), Fault>, had_joined: bool) {
        self.replays.stop();
        self.link.drop_output();
        if let Err(fault) = &result {
            self.note_progress(fault, had_joined);
        }
        match result {
            Ok(()) => return,
            Err(Fault::Connection(reason) | Fault::Unreadable(reason)) => {
                tracing::warn!(%reason, "lost the connection to the tickerplant");
            }
            Err(Fault::JoinsAgain(reason)) => {
                tracing::info!(%reason, "joining the tickerplant again on a new connection")
            }
            Err(Fault::NoLog(reason)) => {
                if self.link.lacks_log() {
                    tracing::error!(
                        "{reason}. Retrying at growing intervals: make the log available at the path that the \
                         tickerplant reports"
                    );
                }
            }
            Err(Fault::Surprise(reason)) => {
                tracing::warn!(%reason, "resuming on a new connection");
                if self.progress.resyncs() {
                    tracing::error!("{MAX_RESYNCS} resumptions failed: dropping all rows and starting empty");
                    self.step(PolicyEvent::Dropped);
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
            self.step(PolicyEvent::Dropped);
        }
    }

    fn session(&mut self, client: &mut Client) -> Result<(), Fault> {
        self.opened(client.is_on_this_host())?;
        self.send(client)?;
        while !self.shared.is_ending() {
            if self.listens() {
                let now = self.env.clock.now();
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
            client.send_raw(&self.take_output())?;
            client.flush()?;
        }
        Ok(())
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(self.env.clock.since(self.started).as_nanos()).unwrap_or(i64::MAX)
    }
}
