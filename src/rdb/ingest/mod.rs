//! The thread that ingests: it alone writes the store, talks to the tickerplant and asks the policy.
//!
//! It never waits for a query, and a query never waits for it: queries read snapshots, fleet calls have a thread of their own.

mod dialect;
mod leave;
mod react;
mod reading;
mod replay;
mod session;
mod shape;
#[cfg(test)]
mod tests;

use super::capacity::{Answer, Ask};
use super::intake::{Intake, TakeError, Took};
use super::messages::{self, Status};
use super::meter::Meter;
use super::options::NodeOptions;
use super::policy::{Action, Event, Phase, Policy};
use super::shared::{Ending, MemoryState, Shared, ShownWindow, State};
use super::update::{self, Update};
use crate::config::options::Protocol;
use crate::config::units::Scale;
use crate::defect::{Defect, is_planted};
use crate::lease::Fence;
use crate::net::client::{Client, ClientError};
use crate::points::{self, Point};
use crate::sys::clock;
use crate::table::store::{Store, Usage};
use dialect::Dialect;
use leave::Departure;
use proto::{Header, Limits, View};
use replay::Replay;
use session::Session;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Longest wait for a message before other things are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Time for the tickerplant to accept a connection and to answer a call.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A tickerplant whose host has been silent for so long is looked for anew.
const SILENCE_MOST: Duration = Duration::from_secs(20);
/// First and longest pause between attempts to connect; it doubles in between.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(5);
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
    /// What came does not follow what came before: resume on a new connection.
    Surprise(String),
    /// The node cannot go on.
    Fatal(String),
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Fault {
        Fault::Connection(error.to_string())
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
}

/// Counters since the process started.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    updates_taken: u64,
    updates_refused: u64,
    resyncs: u64,
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
    /// Nodes to ask the fleet for.
    desired: Option<u32>,
    /// Messages to be sent.
    out: Vec<u8>,
    replay: Option<Replay>,
    /// Threads that read the log, those among them that hang.
    readings: Arc<AtomicUsize>,
    /// The directory of the log, and the latest epoch seen of it.
    fence: Option<(PathBuf, Fence)>,
    /// The tickerplant of this connection is on this host.
    beside_tickerplant: bool,
    /// The date has to be asked for: a day has ended.
    ask_date: bool,
    rejoin: bool,
    fault: Option<Fault>,
    counters: Counters,
    /// Resumes since an update was taken in.
    resyncs_in_a_row: u32,
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
            out: Vec::new(),
            replay: None,
            readings: Arc::default(),
            fence: None,
            beside_tickerplant: false,
            ask_date: false,
            rejoin: false,
            fault: None,
            counters: Counters::default(),
            resyncs_in_a_row: 0,
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
        match result {
            Ok(()) => return,
            Err(Fault::Connection(reason)) => log::warn!("the connection to the tickerplant ended: {reason}"),
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

    /// One message that is no answer. False if something is to be done before the next.
    fn object(&mut self, header: &Header, body: &[u8]) -> bool {
        let object = match update::little(body, header.endian, &self.limits) {
            Ok(object) => object,
            Err(error) => return self.fail(Fault::Connection(error)),
        };
        if let Some(update) = update::update(&object) {
            return self.feed(&update);
        }
        match View::parse(&object, proto::Endian::Little, &self.limits) {
            Ok((view, _)) => match messages::told(&view) {
                Ok(told) => self.react(told),
                Err(reason) => self.fail(Fault::Surprise(format!("the tickerplant said {reason}"))),
            },
            Err(error) => self.fail(Fault::Connection(error.to_string())),
        }
    }

    fn fail(&mut self, fault: Fault) -> bool {
        self.fault = Some(fault);
        false
    }

    /// An update of the feed. False if memory is to be looked at, or something is wrong.
    fn feed(&mut self, update: &Update<'_>) -> bool {
        if !self.policy.takes_updates() {
            return true;
        }
        let index = match (self.dialect, update.index) {
            (Some(Dialect::Elastick), None) => {
                return self.fail(Fault::Surprise("an update came without its index".to_string()));
            }
            (Some(Dialect::Elastick), index) => index,
            // Under a tickerplant in q a node counts messages, as the paper's does.
            _ => None,
        };
        if self.replay.is_some() {
            return self.fail(Fault::Surprise("an update came that was not asked for yet".to_string()));
        }
        match self.take(update, index) {
            Ok(()) => {
                points::reach(Point::NodeFed);
                self.unwatched_bytes < self.watch_bytes
            }
            Err(fault) => self.fail(fault),
        }
    }

    /// Takes an update, or says why the connection cannot go on. A full store rolls the node.
    fn take(&mut self, update: &Update<'_>, index: Option<u64>) -> Result<(), Fault> {
        match self.intake.take(update, index) {
            Ok(took) => {
                if took == Took::Nothing && self.intake.lacks(update.table) {
                    self.refuse(&format!("there is no table {}", update.table.escape_ascii()));
                    return Ok(());
                }
                self.counters.updates_taken = self.counters.updates_taken.saturating_add(1);
                self.resyncs_in_a_row = 0;
                self.unwatched_bytes = self.unwatched_bytes.saturating_add(update.objects.len() as u64);
                Ok(())
            }
            Err(error @ TakeError::Index { .. }) => Err(Fault::Surprise(error.to_string())),
            Err(TakeError::Full { index, refused }) => self.full(index, &refused.to_string()),
            // A log of another schema, or a tickerplant in q that checks nothing. The window goes on without the update; under
            // elastick's tickerplant its proof will tell that something is missing.
            Err(error) => {
                self.refuse(&error.to_string());
                self.intake.skip();
                Ok(())
            }
        }
    }

    /// Counts an update that is not taken; the first ones are told, and then ever fewer.
    fn refuse(&mut self, reason: &str) {
        self.counters.updates_refused = self.counters.updates_refused.saturating_add(1);
        let count = self.counters.updates_refused;
        if count <= 10 || count.is_power_of_two() {
            log::error!("not taken: {reason} ({count} in all)");
        }
    }

    /// A table has no room: whatever the thresholds say, the window ends before this update.
    fn full(&mut self, index: u64, reason: &str) -> Result<(), Fault> {
        let has_taken = self.intake.open_window().is_some_and(|open| !open.window.is_empty());
        if !has_taken && self.intake.rows() == 0 {
            return Err(Fault::Fatal(format!("update {index} alone is more than this node can hold: {reason}")));
        }
        if self.dialect == Some(Dialect::Stock) {
            return Err(Fault::Fatal(format!("no room, and the tickerplant has no queue: {reason}")));
        }
        log::warn!("update {index} is for the successor: {reason}");
        self.step(Event::Memory { used_bytes: u64::MAX, budget_bytes: self.budget_bytes.max(1) });
        Ok(())
    }

    /// Looks at memory, answers of the fleet and queries, and does what the policy says. Then shows the state.
    fn watch(&mut self) {
        if let Some((tip, since)) = self.catching_up
            && self.intake.next().is_some_and(|next| next >= tip)
        {
            self.catching_up = None;
            self.catch_up = Some(clock::since(since));
        }
        self.watch_as(self.replay.is_some());
    }

    fn watch_as(&mut self, replaying: bool) {
        self.shared.ingest_comes_round();
        let usage = self.intake.store().usage();
        let grown = (usage.total_bytes() as u64).saturating_sub(self.watched.total_bytes() as u64);
        self.watched = usage;
        self.unwatched_bytes = 0;
        let buffers = (self.out.capacity() as u64).saturating_add(if replaying { self.replay_bytes() } else { 0 });
        let shared = &self.shared;
        let queries = [shared.query_bytes.load(Ordering::Relaxed), shared.global_bytes.load(Ordering::Relaxed)];
        let queries = queries.iter().filter_map(|bytes| u64::try_from(*bytes).ok()).sum();
        let memory = self.meter.read(usage, buffers, queries, clock::now());
        // Without a queue nobody takes over: there is nothing to decide.
        if self.dialect != Some(Dialect::Stock) {
            if grown > 0 {
                self.step(if replaying { Event::Replayed { bytes: grown } } else { Event::Taken { bytes: grown } });
            }
            self.step(Event::Memory { used_bytes: memory.used, budget_bytes: memory.budget });
        } else if percent(memory.used, memory.budget).is_some_and(|used| used >= self.options.policy.roll_percent())
            && !std::mem::replace(&mut self.full_warned, true)
        {
            log::warn!("memory is above the roll threshold, but the tickerplant has no queue: nobody can take over");
        }
        while let Ok(answer) = self.answers.try_recv() {
            match answer {
                Answer::Scaled(answer) => self.step(Event::ScaleAnswer(answer)),
                Answer::LeadTime { lead_ns } => self.step(Event::LeadTime { lead_ns }),
                Answer::TerminateRefused => {
                    self.step(Event::TerminateRefused);
                    // It was made live while it waited for its end.
                    if self.intake.open_window().is_some_and(|open| open.last.is_none()) {
                        self.step(Event::BecameLive);
                    }
                }
                Answer::Leave { by, reason } => self.noticed(by, reason),
                Answer::Released => self.step(Event::Released),
                Answer::Late { .. } => {}
                Answer::Terminated if self.policy.is_leaving() => self.shared.end(Ending::Left),
                Answer::Terminated => self.shared.end(Ending::Terminated),
            }
        }
        if self.shared.take_leave() {
            self.asked_to_leave();
        }
        if let Phase::Ending { .. } = self.policy.phase() {
            self.count_queries();
        }
        self.memory = memory;
        self.show();
    }

    fn count_queries(&mut self) {
        self.step(Event::QueriesInFlight(self.shared.queries_open.load(Ordering::SeqCst)));
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(clock::since(self.started).as_nanos()).unwrap_or(i64::MAX)
    }

    /// Tells the policy, and does what it says.
    fn step(&mut self, event: Event) {
        let was_live = self.policy.phase() == Phase::Live;
        let mut todo: std::collections::VecDeque<Action> = self.policy.step(event, self.now_ns()).into();
        while let Some(action) = todo.pop_front() {
            match action {
                Action::ScaleOut => {
                    log::info!("asking for a successor");
                    points::reach(Point::NodeScales);
                    self.ask(Ask::AtLeast(self.desired));
                }
                Action::Roll => self.roll(),
                Action::Clear if is_planted(Defect::DayEndForgetsNothing) && event == Event::DayEnd => {
                    todo.extend(self.policy.step(Event::RowsLeft(0), self.now_ns()));
                }
                Action::Clear if is_planted(Defect::DropNotHeeded) && event == Event::Dropped => {
                    todo.extend(self.policy.step(Event::RowsLeft(0), self.now_ns()));
                }
                Action::Clear => {
                    if let Err(error) = self.intake.clear().and_then(|()| self.intake.set_hidden(false)) {
                        self.fault = Some(Fault::Fatal(format!("cannot clear the tables: {error}")));
                    }
                    self.watched = self.intake.store().usage();
                    self.show();
                    todo.extend(self.policy.step(Event::RowsLeft(0), self.now_ns()));
                }
                Action::Rejoin => self.rejoin = true,
                Action::Terminate => self.ask(Ask::Terminate),
                Action::Protect(on) => self.ask(Ask::Protect(on)),
                Action::Announce => todo.extend(self.announce()),
                Action::Forsake => self.forsake(),
                Action::Release => self.ask(Ask::Released),
                Action::End => self.shared.end(Ending::Left),
                Action::Report => self.report(),
            }
        }
        if was_live && self.policy.phase() != Phase::Live && !is_planted(Defect::RolledNodeReplacesOthers) {
            // Only a live node is told who has joined: what this one knows of it grows old, and who comes later is not late.
            self.ask(Ask::Joined(Vec::new()));
        }
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

    fn roll(&mut self) {
        if is_planted(Defect::RollInReplayUndone)
            && self.replay.is_some()
            && let Some(window) = self.intake.open_window().map(|open| open.window.clone())
        {
            let (proof, date) = (self.intake.proof(&window), self.date.unwrap_or(proto::types::NULL_INT));
            return self.write(|out| messages::rolling(out, window.next, &proof, date));
        }
        self.replay = None;
        let Some(window) = self.intake.close() else { return };
        let why = if self.policy.is_leaving() { "leaving" } else { "full" };
        log::info!("{why}: window [{},{}) ends", window.first, window.next);
        points::reach(Point::NodeRolls);
        match self.dialect {
            Some(Dialect::Paper) => self.write(|out| messages::paper_roll(out, window.next)),
            _ => {
                let (proof, date) = (self.intake.proof(&window), self.date.unwrap_or(proto::types::NULL_INT));
                self.write(|out| messages::rolling(out, window.next, &proof, date));
            }
        }
    }

    fn report(&mut self) {
        if !self.connected || self.dialect != Some(Dialect::Elastick) {
            return;
        }
        let status = Status {
            memory_percent: self.policy.memory_percent().unwrap_or(0.0),
            scale_percent: match self.options.policy.scale() {
                Scale::At(percent) => percent,
                Scale::Auto => f64::NAN,
            },
            roll_percent: self.options.policy.roll_percent(),
            rows: self.intake.rows(),
            bytes: self.watched.total_bytes() as u64,
            next: self.intake.next(),
            scaled: self.policy.has_scaled(),
            lead_ns: self.policy.lead_ns(),
        };
        self.write(|out| messages::status(out, &status));
    }

    fn show(&self) {
        let memory = self.memory;
        let shown = |window: &super::windows::Window, open| ShownWindow { window: window.clone(), open };
        let held = self.intake.held().iter().map(|window| shown(window, false));
        let open = self.intake.open_window().map(|open| shown(&open.window, true));
        self.shared.show(State {
            tables: self.intake.store().schemas().map(|schema| schema.name).collect(),
            windows: held.chain(open).filter(|_| !self.intake.is_hidden()).collect(),
            changes: self.intake.store().changes(),
            phase: self.policy.phase(),
            connected: self.connected,
            shown_at: clock::now(),
            live_since: self.live_since.filter(|_| self.policy.phase() == Phase::Live),
            waiting: self.waiting,
            protocol: self.dialect.map_or("", Dialect::name),
            date: self.date,
            next: self.intake.next(),
            tip: self.tip,
            memory,
            memory_percent: percent(memory.used, memory.budget),
            scaled: self.policy.has_scaled(),
            lead_ns: self.policy.lead_ns(),
            catch_up_ns: self.catch_up.and_then(|time| i64::try_from(time.as_nanos()).ok()),
            cushion: self.policy.cushion(self.now_ns()),
            bytes_per_second: self.policy.bytes_per_second(),
            rows: self.intake.rows(),
            updates_taken: self.counters.updates_taken,
            updates_refused: self.counters.updates_refused,
            resyncs: self.counters.resyncs,
        });
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

fn percent(used: u64, budget: u64) -> Option<f64> {
    (budget > 0).then(|| used as f64 * 100.0 / budget as f64)
}
