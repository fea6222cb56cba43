//! The model's tickerplant: production's service with its disk, across crashes and restarts.

use super::links::{LinkAction, ModelLinks, conn, place};
use super::parts::Part;
use super::updates::{self, DAYS, FIRST_DATE, LOG_DIR, TABLE, Tips, log_path};
use super::{Bounds, Context};
use crate::audit::queues;
use crate::clock::{Virtual, VirtualClock};
use crate::disk::{Storage, TICK_HOST};
use crate::hosts;
use crate::mutants::tick as mutants;
use crate::process::Process;
use crate::rng::Rng;
use elastick::config::{Damage, Durability, Limits, RequiredMount, Wake, units};
use elastick::net::message;
use elastick::queue::{self, Date, Params, Queue, State};
use elastick::table::vector::Attr;
use elastick::table::{Schema, Sym, schema::ColumnSchema, symbol};
use elastick::tick::core::schema::Tables;
use elastick::tick::node_fleet::NodeFleet;
use elastick::tick::plant::{Plant, PlantOptions, shape};
use elastick::tick::service::TickService;
use proto::{Endian, Header, MessageKind, Writer};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// An input of the tickerplant. A `u8` is a connection's place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    Starts,
    Opened(u8),
    Message(u8, u32),
    Closed(u8),
    /// The publisher sends the next update.
    Publish,
    DayEnds,
    /// Nothing has happened for as long as lets a group sleep, and each node reports that no client has queried it.
    Idle,
    /// A client announces queries.
    Wake,
    /// A write-down process has all updates before this one.
    Written(u8),
    /// Time passes until the next node's grace period ends.
    TimePasses,
    /// Killed; its disk keeps everything written.
    Dies,
    /// Killed after this input, before any output is sent.
    DiesAfter(Box<Input>),
}

/// An output of the tickerplant; the `u8` is the connection's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TickOutput {
    Message(u8, u32),
    Closes(u8),
}

/// A subscriber's row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub node: String,
    pub queue: String,
    pub place: Option<u8>,
    pub state: State,
    /// Closed windows, and whether their proof agreed.
    pub held: Vec<(Range<u64>, Option<bool>)>,
}

/// State that the rules inspect.
#[derive(Debug, Default)]
pub struct Facts {
    pub up: bool,
    /// A node's grace period is running.
    pub waits: bool,
    pub day: usize,
    pub tips: Tips,
    pub rows: Vec<Row>,
    /// For each queue, start of the open window, and whether it has lost windows.
    pub lines: Vec<(String, u64, bool)>,
    /// Queues that sleep.
    pub asleep: Vec<String>,
    /// Names of live nodes that end once they have finished the day before.
    pub ending: Vec<String>,
    /// The index before which a write-down process has all updates.
    pub written: u64,
    pub broken: Option<String>,
}

/// Origin of messages: the publisher.
const PUBLISHER: u8 = 200;
/// Origin of messages: clients that call `.u.asg.wake[]`, and the process that writes the day to disk.
const OPERATOR: u8 = 201;
/// The group of all nodes, where queues sleep.
pub const GROUP: &str = "g";
/// Time after which an idle group sleeps.
const IDLE: Duration = Duration::from_secs(3600);
const STEP: Duration = Duration::from_millis(1);
/// Noon of the first day.
const NOON: Duration = Duration::from_secs(946_684_800 + 9_821 * 86_400 + 43_200);

/// The tickerplant with its disk and clock; `service` is `None` while it is down.
pub struct Tick {
    storage: Storage,
    service: Option<TickService>,
    links: ModelLinks,
    clock: Arc<VirtualClock>,
    process: Process,
    starts: u32,
    now: Duration,
    /// Updates of each day that were acknowledged to the publisher.
    acknowledged: Tips,
    /// The index before which the write-down process has said that it has all updates, by day.
    said: Tips,
    bounds: Bounds,
    broken: Option<String>,
}

/// Returns the queue's parameters.
fn params(bounds: &Bounds) -> Params {
    // Repeated requests would make the state space infinite.
    let params = Params { need_again_ns: i64::MAX, ..Params::default() };
    if !bounds.sleeps() {
        return params;
    }
    Params {
        groups: vec![GROUP.as_bytes().to_vec()],
        wake: if bounds.wakes > 0 { Wake::FirstQuery } else { Wake::FirstUpdate },
        idle_ns: i64::try_from(IDLE.as_nanos()).unwrap_or(i64::MAX),
        first_again_ns: i64::MAX,
        companions_ns: 0,
        ..params
    }
}

fn codec() -> proto::Limits {
    proto::Limits::default()
}

pub fn tables() -> Arc<Tables> {
    let sym = |text: &str| symbol::intern(text.as_bytes()).unwrap_or(Sym::NULL);
    let column = |(name, ty): &(&str, i8)| ColumnSchema { name: sym(name), ty: *ty, attr: Attr::None };
    let columns = [("time", 16), ("sym", 7)].iter().map(column).collect();
    Arc::new(Tables::new([Schema { name: sym(TABLE), columns, keys: 0 }]).unwrap_or_default())
}

impl Tick {
    fn enter(&self) {
        let wall = NOON.saturating_add(self.now);
        self.clock.set(Virtual { elapsed: self.now, wall });
    }

    fn start(&mut self) -> Result<(), String> {
        self.starts = self.starts.saturating_add(1);
        self.process = Process::new(self.storage.of(TICK_HOST, self.starts), &self.clock);
        self.enter();
        let limits = Limits { log_read_chunk_bytes: 1 << 20, log_buffer_bytes: 64 << 10, ..Limits::default() };
        // Nodes of the model are launched at any time: requests for them go nowhere.
        let nodes = self.bounds.sleeps().then(|| NodeFleet::start(&self.process.env, Vec::new(), IDLE));
        let nodes = nodes.transpose().map_err(|error| error.to_string())?;
        let options = PlantOptions {
            src: "sym".to_string(),
            dir: Some(PathBuf::from(LOG_DIR)),
            address: None,
            lease: None,
            tenure: None,
            copy: None,
            durability: Durability::Os,
            replica_timeout: std::time::Duration::ZERO,
            replica_missing: elastick::config::ReplicaMissing::Continue,
            damage: Damage::Stop,
            keep_days: None,
            mount: RequiredMount::Any,
            batch: None,
            roll: units::roll_time("00:00 UTC")?,
            today: None,
            block_writes: false,
            coerce: false,
            nodes,
            calendar: None,
            secret: None,
            limits,
            queue: params(&self.bounds),
        };
        for path in mutants::lost_files(self.storage.paths()) {
            self.storage.remove(&path);
        }
        let waker: elastick::log::Waker = Arc::new(|| {});
        let plant = Plant::start(self.process.env.clone(), options, tables(), Arc::clone(&waker));
        let plant = plant.map_err(|error| error.to_string())?;
        let (_, watched) = std::sync::mpsc::channel();
        let service =
            TickService::new(&self.process.env, plant, hosts::service_options(codec()), waker, Arc::default(), watched);
        self.service = Some(service.map_err(|error| error.to_string())?);
        self.links = ModelLinks::new(&self.clock);
        self.links.open(conn(PUBLISHER));
        self.links.open(conn(OPERATOR));
        Ok(())
    }

    fn handle(&mut self, from: u8, header: &Header, body: &[u8]) {
        let Some(service) = &mut self.service else { return };
        self.links.asks((header.kind == MessageKind::Sync).then(|| conn(from)));
        mutants::handle(service, conn(from), header, body, &mut self.links);
        self.links.asks(None);
    }

    fn publish(&mut self) {
        let day = self.day();
        let index = self.service.as_ref().map_or(0, |service| service.plant.tip());
        let body = updates::published(day, usize::try_from(index).unwrap_or(0));
        let header = Header {
            endian: Endian::Little,
            kind: MessageKind::Sync,
            compression: proto::Compression::None,
            total_bytes: body.len() as u64,
        };
        self.handle(PUBLISHER, &header, &body);
    }

    /// A client or a node sends a call.
    fn call(&mut self, from: u8, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), String> {
        let call = message::message(MessageKind::Async, write).map_err(|error| error.to_string())?;
        let body = call.get(proto::HEADER_BYTES..).unwrap_or_default().to_vec();
        let header = Header {
            endian: Endian::Little,
            kind: MessageKind::Async,
            compression: proto::Compression::None,
            total_bytes: call.len() as u64,
        };
        self.handle(from, &header, &body);
        Ok(())
    }

    fn written(&mut self, next: u8) -> Result<(), String> {
        let day = self.day();
        if let Some(said) = self.said.get_mut(day) {
            *said = next.max(*said);
        }
        let date = FIRST_DATE.saturating_add(i32::try_from(day).unwrap_or(0));
        self.call(OPERATOR, |writer| {
            writer.list_head(3);
            writer.symbol(b".u.asg.written");
            writer.atom_date(date);
            writer.atom_long(i64::from(next));
        })
    }

    /// All nodes report, after a time in which nothing happened, that no client has queried them.
    fn idle(&mut self, context: &mut Context) -> Result<(), String> {
        self.now = self.now.saturating_add(IDLE);
        self.enter();
        let places: Vec<u8> = self.links.places().filter(|place| self.has_subscriber(*place)).collect();
        for place in places {
            let (header, body) = context.messages.status()?;
            self.handle(place, &header, &body);
        }
        Ok(())
    }

    /// Ends the event-loop iteration and runs the work of other threads.
    fn settle(&mut self, context: &mut Context) -> Vec<TickOutput> {
        let mut outputs = Vec::new();
        while let Some(service) = &mut self.service {
            service.plant.end_iteration(&mut self.links);
            let (actions, notices) = (std::mem::take(&mut self.links.actions), std::mem::take(&mut self.links.notices));
            let is_done = actions.is_empty() && notices.is_empty() && !self.process.work_is_due();
            for wish in actions {
                match wish {
                    LinkAction::Send(to, bytes) if place(to) == PUBLISHER => self.acknowledged_by(&bytes),
                    LinkAction::Send(to, _) if place(to) == OPERATOR => {}
                    LinkAction::Send(to, bytes) => {
                        outputs.extend(
                            context.messages.cut(&bytes).into_iter().map(|m| TickOutput::Message(place(to), m)),
                        );
                    }
                    LinkAction::Close(which) => {
                        if self.links.remove(which)
                            && let Some(service) = &mut self.service
                        {
                            mutants::closed(&mut service.plant, which, &mut self.links);
                            outputs.push(TickOutput::Closes(place(which)));
                        }
                    }
                }
            }
            let Some(service) = &mut self.service else { break };
            notices.into_iter().for_each(|which| service.plant.writable(which, &mut self.links));
            if is_done {
                break;
            }
            if self.process.work_is_due() {
                self.process.work();
                service.come_round(&mut self.links);
            }
        }
        // Output on different connections has no order.
        outputs.sort_by_key(|output| match output {
            TickOutput::Message(place, _) | TickOutput::Closes(place) => *place,
        });
        outputs
    }

    /// Handles a response to the publisher: an error has type -128.
    fn acknowledged_by(&mut self, answer: &[u8]) {
        let day = self.day();
        if answer.get(8) == Some(&128) {
            self.broken.get_or_insert_with(|| "a good update was refused".to_string());
        } else if let Some(count) = self.acknowledged.get_mut(day) {
            *count = count.saturating_add(1);
        }
    }

    fn day_of(date: Date) -> usize {
        usize::try_from(date.0.saturating_sub(FIRST_DATE)).unwrap_or(0)
    }

    fn day(&self) -> usize {
        self.service.as_ref().map_or(0, |service| Tick::day_of(service.plant.queue().date()))
    }

    fn has_subscriber(&self, which: u8) -> bool {
        let handle = queue::Handle(conn(which).handle());
        self.service.as_ref().is_some_and(|service| service.plant.queue().by_handle(handle).is_some())
    }

    fn dies(&mut self) {
        self.service = None;
        self.links = ModelLinks::new(&self.clock);
    }

    fn acts(&mut self, input: &Input, context: &mut Context) -> Result<Vec<TickOutput>, String> {
        // No two grace periods end at once, unless they began with a restart. A connection without a subscriber begins none: otherwise a
        // name that is rejected repeatedly would let time pass without end.
        if matches!(input, Input::Closed(which) if self.has_subscriber(*which)) {
            self.now = self.now.saturating_add(STEP);
        }
        self.enter();
        match input {
            Input::Starts => self.start()?,
            Input::Opened(which) => self.links.open(conn(*which)),
            Input::Message(from, number) => {
                let (header, body) = context.messages.get(*number).ok_or("no such message")?;
                self.handle(*from, &header, &body);
            }
            Input::Closed(which) => {
                if let Some(service) = self.service.as_mut().filter(|_| self.links.remove(conn(*which))) {
                    mutants::closed(&mut service.plant, conn(*which), &mut self.links);
                }
            }
            Input::Publish => self.publish(),
            Input::DayEnds => {
                if let Some(service) = &mut self.service {
                    service.plant.begin_iteration(&mut self.links);
                    // Rejected only far ahead of the clock; the model ends fewer days.
                    service.plant.end_of_day(true, &mut self.links).map_err(|error| error.to_string())?;
                }
            }
            Input::Idle => self.idle(context)?,
            Input::Wake => self.call(OPERATOR, |writer| {
                writer.list_head(2);
                writer.symbol(b".u.asg.wake");
                writer.null();
            })?,
            Input::Written(next) => self.written(*next)?,
            Input::TimePasses => {
                let deadline = self.service.as_ref().and_then(|service| service.plant.queue_deadline());
                let wait =
                    deadline.map(|at| at.saturating_duration_since(self.process.env.clock.now())).unwrap_or_default();
                self.now = self.now.saturating_add(wait);
                self.enter();
                if let Some(service) = &mut self.service {
                    service.plant.timer(&mut self.links);
                }
            }
            Input::Dies => self.dies(),
            Input::DiesAfter(last) => {
                self.acts(last, context)?;
                self.dies();
                return Ok(Vec::new());
            }
        }
        Ok(self.settle(context))
    }

    /// Returns the number of updates in each day's log, counted from its bytes.
    fn tips(&mut self, context: &Context) -> Tips {
        let mut tips = Tips::default();
        for (day, (tip, acknowledged)) in tips.iter_mut().zip(self.acknowledged).enumerate() {
            let Some(bytes) = self.storage.read(&log_path(day), 0).filter(|bytes| !bytes.is_empty()) else { continue };
            match context.logs.count(day, &bytes) {
                Ok(count) if count < usize::from(acknowledged) => {
                    let text = format!("{acknowledged} updates of day {day} were acknowledged, the log has {count}");
                    self.broken.get_or_insert(text);
                }
                Ok(count) => *tip = u8::try_from(count).unwrap_or(u8::MAX),
                Err(text) => _ = self.broken.get_or_insert(text),
            }
        }
        tips
    }

    /// Returns the table as the newest journal has it.
    fn journalled(&self) -> Result<Option<Queue>, String> {
        for day in (0..DAYS).rev() {
            let path = elastick::log::queue_path(&log_path(day));
            let Some(bytes) = self.storage.read(&path, 0).filter(|bytes| !bytes.is_empty()) else { continue };
            let journal = queue::journal::read(&bytes).map_err(|error| error.to_string())?;
            let date = Date(FIRST_DATE.saturating_add(i32::try_from(day).unwrap_or(0)));
            let restored = Queue::restore(params(&self.bounds), date, &journal.records);
            return restored.map(Some).map_err(|error| error.to_string());
        }
        Ok(None)
    }

    fn check(&mut self, journalled: &Result<Option<Queue>, String>) {
        let Some(service) = &self.service else { return };
        let queue = service.plant.queue();
        let said = self.said.get(Tick::day_of(queue.date())).copied().map_or(0, u64::from);
        let broken = match journalled {
            _ if queue.written().0 > said => Some(format!("{} count as written down, and {said} are", queue.written())),
            _ if !service.plant.is_settled() => Some("the log is behind what was published".to_string()),
            Err(error) => Some(format!("the journal cannot be read: {error}")),
            Ok(None) if !queue.subscribers().is_empty() => Some("there is no journal".to_string()),
            Ok(Some(kept)) if kept.snapshot().changes != queue.snapshot().changes => {
                Some("the journal does not hold the table".to_string())
            }
            _ => {
                let health = queues::check_health(queue, service.plant.tip(), mutants::is_healthy(&service.plant));
                queues::check(queue).and(health).err().map(|broken| broken.0)
            }
        };
        if let Some(text) = broken {
            self.broken.get_or_insert(text);
        }
    }
}

fn row(sub: &queue::Subscriber) -> Row {
    let held = sub.held.iter().map(|held| (held.window.first().0..held.window.last().0, held.verified));
    Row {
        node: sub.label(),
        queue: sub.queue.to_string(),
        place: sub.handle.and_then(|handle| u8::try_from(handle.0.saturating_sub(conn(0).handle())).ok()),
        state: sub.state,
        held: held.collect(),
    }
}

impl Part for Tick {
    type Input = Input;
    type Output = Vec<TickOutput>;
    type Facts = Facts;

    fn new(context: &Context) -> Tick {
        let storage = Storage::new(Rng::new(1), false);
        let clock = Arc::new(VirtualClock::new(Virtual { elapsed: Duration::ZERO, wall: NOON }));
        Tick {
            process: Process::new(storage.of(TICK_HOST, 0), &clock),
            links: ModelLinks::new(&clock),
            clock,
            storage,
            service: None,
            starts: 0,
            now: Duration::ZERO,
            acknowledged: Tips::default(),
            said: Tips::default(),
            bounds: context.bounds,
            broken: None,
        }
    }

    fn tell(&mut self, input: &Input, context: &mut Context) -> Vec<TickOutput> {
        match self.acts(input, context) {
            Ok(outputs) => outputs,
            Err(text) => {
                self.broken.get_or_insert(format!("the tickerplant does not start: {text}"));
                Vec::new()
            }
        }
    }

    fn look(&mut self, context: &Context) -> (String, Facts) {
        self.enter();
        let tips = self.tips(context);
        let journalled = self.journalled();
        self.check(&journalled);
        let mut facts = Facts { tips, broken: self.broken.clone(), ..Facts::default() };
        let open: Vec<u8> = self.links.places().collect();
        let said = self.bounds.sleeps().then_some(self.said);
        let mut text = format!("{} {tips:?} {:?} {:?} {open:?} {said:?} ", self.starts, self.acknowledged, self.broken);
        match &self.service {
            Some(service) => {
                let queue = service.plant.queue();
                text.push_str(&service.plant.shape());
                facts.up = true;
                facts.waits = queue.next_deadline_ns().is_some();
                facts.day = Tick::day_of(queue.date());
                facts.rows = queue.subscribers().iter().filter(|sub| sub.state != State::Lost).map(row).collect();
                let lines = queue.lines().iter();
                facts.lines =
                    lines.map(|(name, line)| (name.to_string(), line.open.0, !line.lost.is_empty())).collect();
                let asleep = queue.lines().iter().filter(|(_, line)| queue.is_asleep(line));
                facts.asleep = asleep.map(|(name, _)| name.to_string()).collect();
                facts.ending = queue.ending().map(queue::Subscriber::label).collect();
                facts.written = queue.written().0;
            }
            None => {
                if let Ok(Some(queue)) = &journalled {
                    shape::put_queue(queue, None, &mut text);
                    facts.day = Tick::day_of(queue.date());
                }
            }
        }
        (text, facts)
    }
}
