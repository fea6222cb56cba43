//! A model's node: production's ingest with its store, over successive processes at one place.

use super::parts::Part;
use super::tick::GROUP;
use super::updates::{self, FIRST_DATE, ROWS, Rom, Tips, number};
use super::{Context, TWIN};
use crate::clock::{Virtual, VirtualClock};
use crate::mutants::node as mutants;
use crate::process::Process as Surroundings;
use elastick::config::Limits;
use elastick::config::options::Protocol;
use elastick::config::units::Scale;
use elastick::rdb::capacity::{FleetReply, FleetRequest};
use elastick::rdb::ingest::{Fault, Identity, Ingest};
use elastick::rdb::meter::Meter;
use elastick::rdb::options::NodeOptions;
use elastick::rdb::policy::{self, Phase};
use elastick::rdb::shared::{Ending, Shared};
use elastick::table::store::Store;
use elastick::table::{Items, Value};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// An input of a node. `Tips` are the logs' lengths at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The place's first server starts.
    Begins(u8),
    /// Another server replaces one that is gone.
    Follows,
    /// The process is killed and restarts on its server with empty memory.
    Restarts,
    /// The server is gone.
    Goes,
    Connected,
    Message(u32),
    /// One loop iteration between messages: reads on in the log while it replays.
    Turn(Tips),
    /// The same, with its memory full.
    Full(Tips),
    /// Its memory is filled from outside, or freed again.
    Filled(bool, Tips),
    /// The connection is lost.
    Lost,
    /// The update with this number exceeds what nodes on this server can receive or read in the log.
    CannotTake(i64),
}

/// Output of a step of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    pub sent: Vec<u32>,
    /// The node has closed the connection.
    pub hangs_up: bool,
    /// The process has ended by itself, as its day is over.
    pub ended: bool,
}

/// A window that queries see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub window: Range<u64>,
    pub open: bool,
}

/// State that the rules inspect.
#[derive(Debug, Default)]
pub struct Facts {
    pub name: String,
    pub queue: String,
    pub runs: bool,
    /// It takes updates.
    pub takes: bool,
    /// It replays.
    pub replays: bool,
    /// State that the process reports.
    pub phase: Option<Phase>,
    /// Its memory is filled from outside.
    pub filled: bool,
    /// It must run an iteration before the next message.
    pub comes_round: bool,
    pub day: Option<usize>,
    pub windows: Vec<Held>,
    /// Updates of its windows that were too long for it.
    pub left_out: u64,
    pub broken: Option<String>,
}

const BUDGET_BYTES: u64 = 4 << 20;
/// A node's clock stands still: connections break only by an act of the model, not by timeout.
const TIME: Virtual = Virtual { elapsed: Duration::from_secs(3600), wall: Duration::from_secs(1_795_262_400) };

/// A running node process.
struct Process {
    ingest: Ingest,
    shared: Arc<Shared>,
    requested: Receiver<FleetRequest>,
    answers: Sender<FleetReply>,
    connected: bool,
    comes_round: bool,
    filled: bool,
}

/// A place for a node; `process` is `None` while none runs.
pub struct Node {
    clock: Arc<VirtualClock>,
    rom: Arc<Rom>,
    place: u8,
    life: u8,
    starts: u8,
    /// With a second process of the same name in the model, each start counts as a process of its own; otherwise starts are not distinguished.
    has_twin: bool,
    /// Queues sleep, so that nodes name their fleet.
    sleeps: bool,
    queue: String,
    /// Updates that are too long for the place's server.
    too_long: Vec<i64>,
    process: Option<Process>,
    broken: Option<String>,
}

fn options() -> Result<NodeOptions, String> {
    let policy = policy::Params::new(Scale::At(40.0), 70.0).map_err(|error| error.to_string())?;
    let options = NodeOptions::carried(Protocol::Elastick, BUDGET_BYTES, policy);
    let limits = Limits { log_read_chunk_bytes: 64 << 10, ..Limits::default() };
    Ok(NodeOptions { limits, read_log: crate::reading::stepped, ..options })
}

impl Node {
    fn enter(&self) {
        self.clock.set(TIME);
    }

    fn name(&self) -> String {
        // A process under another node's name takes the name of that node's first server.
        let (place, life) = if self.place == TWIN { (0, 0) } else { (self.place, self.life) };
        format!("{}{place}{}", self.queue, "'".repeat(usize::from(life)))
    }

    fn start(&mut self) -> Result<(), String> {
        self.starts = self.starts.saturating_add(u8::from(self.has_twin));
        let store = Store::of_world(usize::try_from(BUDGET_BYTES).unwrap_or(usize::MAX));
        let env = Surroundings::new(Arc::<Rom>::clone(&self.rom), &self.clock).env;
        let shared = Arc::new(Shared::new(Arc::clone(&env.clock), store.shared()));
        let (requests, requested) = channel();
        let (answers, answered) = channel();
        let identity = Identity {
            node: self.name(),
            queue: self.queue.clone(),
            port: 6000,
            group: if self.sleeps { GROUP.to_string() } else { String::new() },
            instance: if self.sleeps { self.name() } else { String::new() },
            process: if self.has_twin {
                format!("{}-{}-{}", self.place, self.life, self.starts)
            } else {
                String::new()
            },
        };
        let meter = Meter::of_budget(BUDGET_BYTES);
        let link = (requests, answered);
        let ingest = Ingest::new(env, Arc::new(options()?), identity, Arc::clone(&shared), store, meter, link);
        let ingest = ingest.map_err(|error| error.to_string())?;
        self.process =
            Some(Process { ingest, shared, requested, answers, connected: false, comes_round: false, filled: false });
        Ok(())
    }

    fn acts(&mut self, input: &Input, context: &mut Context) -> Result<Output, String> {
        self.enter();
        match input {
            Input::Begins(place) => {
                self.place = *place;
                self.queue = context.queue_of(*place);
                self.start()?;
            }
            Input::Follows | Input::Restarts => self.start()?,
            Input::CannotTake(number) => {
                self.too_long.push(*number);
                self.rom.cannot_read(&self.too_long);
            }
            Input::Goes => {
                self.process = None;
                self.too_long.clear();
                self.rom.cannot_read(&self.too_long);
                self.life = self.life.saturating_add(1);
            }
            Input::Connected => {
                let Some(process) = &mut self.process else { return Ok(Output::default()) };
                process.connected = true;
                let opened = process.ingest.opened(true);
                return Ok(self.after(opened, context));
            }
            Input::Message(number) => {
                let (header, body) = context.messages.get(*number).ok_or("no such message")?;
                if updates::number_of(&body).is_some_and(|number| self.too_long.contains(&number)) {
                    // In production the connection's reader finds this before the node gets the message.
                    return Ok(self.after(Err(Fault::Unreadable("a message is too long".to_string())), context));
                }
                let Some(process) = &mut self.process else { return Ok(Output::default()) };
                let Some(body) = mutants::receive(&header, &body, &process.shared) else {
                    return Ok(Output::default());
                };
                let goes_on = process.ingest.message(&header, &body);
                // A replaying node reads on in an iteration of its own, which may come later.
                process.comes_round = !goes_on && process.ingest.is_busy();
                let result = if process.ingest.is_busy() { Ok(()) } else { process.ingest.turn() };
                return Ok(self.after(result, context));
            }
            Input::Filled(is, tips) => {
                let Some(process) = &mut self.process else { return Ok(Output::default()) };
                process.filled = *is;
                let bytes = if *is { BUDGET_BYTES.cast_signed() } else { 0 };
                process.shared.global_bytes.store(bytes, Ordering::Relaxed);
                return Ok(self.turn(tips, 0, context));
            }
            Input::Turn(tips) => return Ok(self.turn(tips, 0, context)),
            Input::Full(tips) => return Ok(self.turn(tips, BUDGET_BYTES, context)),
            Input::Lost => {
                let lost = Err(Fault::Connection("connection closed".to_string()));
                let mut output = self.after(lost, context);
                output.hangs_up = false;
                return Ok(output);
            }
        }
        Ok(Output::default())
    }

    /// One iteration of the node's loop, during which clients' variables take `more_bytes`.
    fn turn(&mut self, tips: &Tips, more_bytes: u64, context: &mut Context) -> Output {
        self.rom.set(tips);
        let Some(process) = &mut self.process else { return Output::default() };
        process.comes_round = false;
        process.shared.global_bytes.fetch_add(more_bytes.cast_signed(), Ordering::Relaxed);
        let result = if process.connected {
            process.ingest.turn()
        } else {
            process.ingest.idle();
            Ok(())
        };
        process.shared.global_bytes.fetch_sub(more_bytes.cast_signed(), Ordering::Relaxed);
        if more_bytes > 0 {
            // The memory is free again; the node notices at its next check.
            process.ingest.idle();
        }
        self.after(result, context)
    }

    /// After each input: collects output, and answers requests to the fleet.
    fn after(&mut self, result: Result<(), Fault>, context: &mut Context) -> Output {
        let Some(process) = &mut self.process else { return Output::default() };
        let sent = context.messages.cut(&process.ingest.take_output());
        let mut output = Output { sent, hangs_up: result.is_err(), ended: false };
        match &result {
            // No event of the model lets the tickerplant send a message that does not follow the ones before.
            Err(Fault::Surprise(text)) => {
                _ = self.broken.get_or_insert_with(|| format!("a node was surprised: {text}"))
            }
            Err(Fault::Fatal(text)) => _ = self.broken.get_or_insert_with(|| format!("a node cannot go on: {text}")),
            Ok(()) | Err(Fault::Connection(_) | Fault::JoinsAgain(_) | Fault::Unreadable(_) | Fault::NoLog(_)) => {}
        }
        if result.is_err() {
            process.connected = false;
            process.ingest.ended(mutants::ended(result));
            drop(process.ingest.take_output());
        }
        while let Ok(request) = process.requested.try_recv() {
            if request == FleetRequest::Terminate {
                // Whether the node may end is a rule (`rules::may_end`). Sending fails only if the node has ended.
                let _ = process.answers.send(FleetReply::Terminated);
                process.ingest.idle();
            }
        }
        match process.shared.ending() {
            None => {}
            Some(Ending::Terminated) => {
                output.ended = true;
                self.process = None;
                self.life = self.life.saturating_add(1);
            }
            Some(ending) => _ = self.broken.get_or_insert_with(|| format!("a node ends by itself: {ending:?}")),
        }
        output
    }

    /// Checks that the windows hold their updates, row by row, and nothing else, except updates that are too long.
    fn check(&mut self, facts: &mut Facts) {
        let Some(process) = &self.process else { return };
        let view = process.shared.view();
        let state = &view.state;
        let table = state.tables.first().and_then(|name| view.table(*name));
        let rows = table.as_ref().and_then(numbers).unwrap_or_default();
        let mut expected = Vec::new();
        for shown in state.windows.iter() {
            let day = facts.day.unwrap_or(0);
            let whole = shown.window.first..shown.window.next;
            let indices = whole.filter_map(|index| usize::try_from(index).ok());
            expected.extend(indices.map(|index| number(day, index)).flat_map(|number| [number; ROWS]));
        }
        // Rows stand in order of arrival.
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        expected.sort_unstable();
        let lacks = |number: &i64| self.too_long.contains(number) && sorted.binary_search(number).is_err();
        let left_out = expected.chunk_by(|one, next| one == next).filter(|rows| rows.first().is_some_and(lacks));
        facts.left_out = u64::try_from(left_out.count()).unwrap_or(u64::MAX);
        expected.retain(|number| !lacks(number));
        if facts.left_out > state.updates_missing {
            let text = format!("{} updates are left out, and it says {}", facts.left_out, state.updates_missing);
            self.broken.get_or_insert(text);
        }
        if sorted != expected {
            let distinct = |mut of: Vec<i64>| {
                of.dedup();
                of
            };
            let text = format!("holds the updates {:?} where its windows say {:?}", distinct(rows), distinct(expected));
            self.broken.get_or_insert(text);
        }
        let mut windows: Vec<&Held> = facts.windows.iter().filter(|held| !held.window.is_empty()).collect();
        windows.sort_by_key(|held| held.window.start);
        let meet = windows.iter().zip(windows.iter().skip(1)).any(|(one, next)| one.window.end > next.window.start);
        if meet {
            self.broken.get_or_insert_with(|| format!("its windows share updates: {windows:?}"));
        }
    }
}

/// Returns the number in each row.
fn numbers(table: &Value) -> Option<Vec<i64>> {
    let Value::Table(table) = table else { return None };
    match &table.columns.get(1)?.items {
        Items::Long(numbers) => Some(numbers.to_vec()),
        _ => None,
    }
}

impl Part for Node {
    type Input = Input;
    type Output = Output;
    type Facts = Facts;

    fn new(context: &Context) -> Node {
        Node {
            clock: Arc::new(VirtualClock::new(TIME)),
            rom: Arc::new(Rom::new(Arc::clone(&context.logs))),
            place: 0,
            life: 0,
            starts: 0,
            has_twin: context.bounds.twins > 0,
            sleeps: context.bounds.sleeps(),
            queue: String::new(),
            too_long: Vec::new(),
            process: None,
            broken: None,
        }
    }

    fn tell(&mut self, input: &Input, context: &mut Context) -> Output {
        match self.acts(input, context) {
            Ok(output) => output,
            Err(text) => {
                self.broken.get_or_insert(text);
                Output::default()
            }
        }
    }

    fn look(&mut self, _: &Context) -> (String, Facts) {
        self.enter();
        let mut facts = Facts { name: self.name(), queue: self.queue.clone(), ..Facts::default() };
        let mut text = format!("{} {} of {} ", facts.name, self.starts, self.place);
        if let Some(process) = &self.process {
            let state = process.shared.view().state;
            let held = |shown: &elastick::rdb::shared::ShownWindow| Held {
                window: shown.window.first..shown.window.next,
                open: shown.open,
            };
            facts.runs = true;
            facts.takes = matches!(state.phase, Phase::Live | Phase::Rebuilding);
            facts.replays = process.ingest.is_busy();
            facts.comes_round = process.comes_round;
            facts.filled = process.filled;
            facts.phase = Some(state.phase);
            facts.day = state.date.and_then(|date| usize::try_from(date.checked_sub(FIRST_DATE)?).ok());
            facts.windows = state.windows.iter().map(held).collect();
            text.push_str(&process.ingest.shape());
            text.push_str(&format!(
                " shows {:?} {:?} {} {} {} {:?}",
                state.phase, facts.windows, facts.comes_round, facts.filled, state.updates_missing, self.too_long
            ));
        }
        self.check(&mut facts);
        facts.broken.clone_from(&self.broken);
        text.push_str(&format!(" {:?}", self.broken));
        (text, facts)
    }
}
