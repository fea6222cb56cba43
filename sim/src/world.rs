//! The simulated environment (`World`): virtual time and the queue of events. One thread, one generator, and no order that depends on
//! anything else.

use super::audit::{Auditor, Broken, Promise};
use super::clients::{Publisher, Watcher};
use super::clock::{Virtual, VirtualClock};
use super::cloud::SharedCloud;
use super::disk::{Storage, TICK_HOST};
use super::line::Line;
use super::mistakes::{Mistake, Mistakes};
use super::node::NodeProcess;
use super::plan::{Faults, Plan};
use super::process::Process;
use super::report::Report;
use super::rng::Rng;
use super::schemas::Schemas;
use super::sleep::Sleeps;
use super::takeover::OldTick;
use super::tick::TickProcess;
use super::trace::Trace;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;
pub const DAY: u64 = proto::time::DAY_NS.unsigned_abs();
/// Unix time at which every simulation starts: 2030.01.01.
const FIRST_WALL: u64 = 1_893_456_000 * SECOND;

/// An instance of one of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Server {
    pub group: usize,
    pub instance: u64,
}

/// A node on an instance, which has one for each queue of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeKey {
    pub server: Server,
    pub queue: usize,
}

/// The client's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    Node(NodeKey),
    Publisher(usize),
    Watcher(usize),
}

/// A scheduled event. An event for a process that is gone has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorldEvent {
    /// Bytes arrive at the tickerplant (`Up`) or at a client (`Down`).
    Up(u64),
    Down(u64),
    Connect(Client),
    Accept(u64),
    Connected(u64),
    /// One end of a connection learns that it is broken.
    ServerLearns(u64),
    ClientLearns(u64),
    TurnEnds(u32),
    TickTimer(u32),
    TickWork(u32),
    TickSync(u32),
    TickStarts,
    NodeTurn(NodeKey, u64),
    Fleet(NodeKey, u64),
    NodeStarts(NodeKey),
    NeverCame(Server),
    Cloud(usize),
    Publish(usize),
    Chaos,
    /// Checks that subscribers make progress.
    Progress,
    /// Fills some node's memory from outside.
    Fill,
    Mistake(Mistake),
    /// A table gets a column.
    Schema,
    /// A client wants to query, or the day is written down up to an update.
    Sleep,
    /// The tickerplant calls its fleet of nodes.
    TickFleet(u32),
    /// Several tickerplants contend for the lease.
    Contention(super::contest::Contention),
    /// A fault ends.
    Over(super::chaos::Passing),
    /// A tickerplant that has lost its log reads the lock file.
    Fence(u32),
    /// A server is taken back.
    ServerGoes(Server),
}

/// The simulated environment of one seed: its processes, disk, network, fleet, faults and auditor.
pub struct World {
    pub rng: Rng,
    /// Random stream of `ahead.rs`; separate, as `fills`.
    pub put_back: Rng,
    /// Random stream of memory faults; separate, so that they change nothing else in a seed.
    pub fills: Rng,
    pub mistakes: Mistakes,
    pub schemas: Schemas,
    /// State of a cluster that sleeps.
    pub sleeps: Option<Sleeps>,
    pub plan: Plan,
    pub now_ns: u64,
    pub clock: Arc<VirtualClock>,
    /// Offset of the wall clock of the tickerplant's host from virtual time, in nanoseconds.
    pub wall_ns: i128,
    pub events: BTreeMap<(u64, u64), WorldEvent>,
    sequence: u64,
    pub storage: Storage,
    pub tick: Option<TickProcess>,
    pub tick_runs: u32,
    pub tick_paused_until_ns: u64,
    /// Host of the tickerplant that writes the log.
    pub tick_host: u32,
    /// A tickerplant that has lost its log.
    pub old: Option<OldTick>,
    /// The tickerplants that share a lease; `None` for a single one.
    pub contest: Option<super::contest::Contest>,
    /// Whether the old tickerplant is swapped in at present.
    pub is_old: bool,
    /// Whether the next start continues a log that another process may still write.
    pub taken_over: bool,
    /// What the last end of a tickerplant could take from the log.
    pub crash: Option<Promise>,
    /// Path and day of the log that the auditor read last.
    pub last_log: Option<(PathBuf, i32)>,
    pub lines: BTreeMap<u64, Line>,
    pub next_line: u64,
    pub nodes: BTreeMap<NodeKey, NodeProcess>,
    pub clouds: Vec<SharedCloud>,
    pub publishers: Vec<Publisher>,
    pub watchers: Vec<Watcher>,
    pub auditor: Auditor,
    pub report: Report,
    pub trace: Trace,
    /// Whether faults occur.
    pub chaotic: bool,
    pub publishing: bool,
    /// Whether the day's end is near.
    pub evening: bool,
    pub surge_until_ns: u64,
    pub slow_net_until_ns: u64,
    pub broken: Option<Broken>,
    /// Next process number; numbers are never reused.
    pub next_process: u32,
    /// How many instances each group needed lately.
    pub needed: super::audit::needed::Needed,
    /// Date of the tickerplant's table when last seen.
    pub table_date: i32,
    /// Start time of each server's first node.
    pub came_ns: BTreeMap<Server, u64>,
    /// When the last day ended.
    pub day_ended_ns: Option<u64>,
    pub progress: super::progress::Watch,
    /// Longest time without progress while everything flowed.
    pub longest_idle_ns: u64,
    /// Faults that explain surplus instances.
    pub surplus: super::audit::surplus::Surplus,
}

impl World {
    pub fn new(seed: u64, plan: Plan, trace: Trace) -> World {
        let mut rng = Rng::new(seed ^ 0x0065_6c61_7374_6963);
        fastrand::seed(rng.next());
        let storage = Storage::new(rng.split(), plan.shared_disk);
        let clouds: Vec<SharedCloud> =
            plan.groups.iter().map(|group| SharedCloud::new(rng.split(), &group.name, group.rules)).collect();
        let mut auditor = Auditor::new(plan.promise(), plan.publishes_ahead());
        let publishers: Vec<Publisher> = (0..plan.publishers).map(|at| Publisher::new(at, plan.ledger(at))).collect();
        let numbered = publishers.iter().filter(|publisher| publisher.numbered.is_some());
        numbered.for_each(|publisher| auditor.numbers(publisher.number));
        let watchers = plan.watchers.iter().map(|filter| Watcher::new(filter.clone())).collect();
        let mut world = World {
            rng,
            fills: Rng::new(seed ^ 0x6d65_6d6f_7279),
            put_back: Rng::new(seed ^ 0x0061_6865_6164),
            mistakes: Mistakes::of(seed, matches!(plan.faults, Faults::Some | Faults::Hell)),
            schemas: Schemas::of(seed, matches!(plan.faults, Faults::Some | Faults::Hell)),
            sleeps: Sleeps::of(seed, &plan),
            now_ns: SECOND,
            clock: Arc::new(VirtualClock::new(Virtual::default())),
            wall_ns: i128::from(FIRST_WALL),
            events: BTreeMap::new(),
            sequence: 0,
            storage,
            tick: None,
            tick_runs: 0,
            tick_paused_until_ns: 0,
            tick_host: TICK_HOST,
            old: None,
            contest: super::contest::Contest::of(seed, &plan),
            is_old: false,
            taken_over: false,
            crash: None,
            last_log: None,
            lines: BTreeMap::new(),
            next_line: 1,
            nodes: BTreeMap::new(),
            clouds,
            publishers,
            watchers,
            auditor,
            report: Report::default(),
            trace,
            chaotic: false,
            publishing: false,
            evening: false,
            surge_until_ns: 0,
            slow_net_until_ns: 0,
            broken: None,
            next_process: 1,
            needed: super::audit::needed::Needed::default(),
            table_date: 0,
            came_ns: BTreeMap::new(),
            day_ended_ns: None,
            progress: super::progress::Watch::default(),
            longest_idle_ns: 0,
            surplus: super::audit::surplus::Surplus::default(),
            plan,
        };
        match world.contest {
            Some(_) => world.after(0, WorldEvent::Contention(super::contest::Contention::Second)),
            None => world.after(0, WorldEvent::TickStarts),
        }
        for group in 0..world.clouds.len() {
            world.after(MS, WorldEvent::Cloud(group));
        }
        for publisher in 0..world.publishers.len() {
            world.after(100 * MS, WorldEvent::Connect(Client::Publisher(publisher)));
            world.after(200 * MS, WorldEvent::Publish(publisher));
        }
        for watcher in 0..world.watchers.len() {
            world.after(150 * MS, WorldEvent::Connect(Client::Watcher(watcher)));
        }
        world.after(SECOND, WorldEvent::Chaos);
        world.after(SECOND, WorldEvent::Progress);
        if world.plan.fills {
            world.after(2 * SECOND, WorldEvent::Fill);
        }
        if world.schemas.change() {
            world.after(2 * SECOND, WorldEvent::Schema);
        }
        for kind in world.mistakes.kinds() {
            world.after(2 * SECOND, WorldEvent::Mistake(kind));
        }
        world.starts_sleeping();
        world
    }

    /// Schedules an event after a delay.
    pub fn after(&mut self, ns: u64, event: WorldEvent) {
        self.at(self.now_ns.saturating_add(ns), event);
    }

    pub fn at(&mut self, at_ns: u64, event: WorldEvent) {
        self.sequence = self.sequence.saturating_add(1);
        self.events.insert((at_ns.max(self.now_ns), self.sequence), event);
    }

    /// Draws a duration between two bounds, in nanoseconds.
    pub fn between(&mut self, first_ns: u64, last_ns: u64) -> u64 {
        self.rng.from(first_ns, last_ns)
    }

    /// Wall clock of the tickerplant's host, as Unix time in nanoseconds.
    pub fn wall(&self) -> u64 {
        u64::try_from(self.wall_ns.saturating_add(i128::from(self.now_ns))).unwrap_or(0)
    }

    /// Makes a process on a host.
    pub fn process(&self, host: u32, number: u32) -> Process {
        Process::new(self.storage.of(host, number), &self.clock)
    }

    /// Enters a process: its code sees the time of the event.
    pub fn enter(&self) {
        let wall = Duration::from_nanos(self.wall());
        self.clock.set(Virtual { elapsed: Duration::from_nanos(self.now_ns), wall });
        self.storage.set_now(self.now_ns);
    }

    /// Runs until a time, or until a rule is broken.
    ///
    /// # Errors
    /// The rule.
    pub fn run_until(&mut self, end_ns: u64) -> Result<(), Broken> {
        while let Some(entry) = self.events.first_entry() {
            let (at_ns, _) = *entry.key();
            if at_ns > end_ns {
                break;
            }
            let event = entry.remove();
            self.now_ns = at_ns;
            self.trace.event(at_ns, &event, self.wall());
            self.report.events = self.report.events.saturating_add(1);
            self.happen(event);
            if let Some(broken) = self.broken.take() {
                return Err(broken);
            }
        }
        self.now_ns = end_ns;
        Ok(())
    }

    /// Skips time: every pending event is postponed by the same amount.
    pub fn skip(&mut self, ns: u64) {
        let later = std::mem::take(&mut self.events);
        self.events = later.into_iter().map(|((at, number), event)| ((at.saturating_add(ns), number), event)).collect();
        self.now_ns = self.now_ns.saturating_add(ns);
        self.needed.skip(ns);
        self.contest.iter_mut().for_each(|contest| contest.skip(ns));
        self.came_ns.values_mut().for_each(|at_ns| *at_ns = at_ns.saturating_add(ns));
        self.day_ended_ns = self.day_ended_ns.map(|at_ns| at_ns.saturating_add(ns));
        for line in self.lines.values_mut() {
            line.skip(ns);
        }
        if let Some(tick) = &mut self.tick {
            tick.timer_at_ns = tick.timer_at_ns.map(|at| at.saturating_add(ns));
        }
        // The wall clock went on, so wall-clock timers may be due before the postponed events.
        self.after_tick();
    }

    /// Records a broken rule; the first one counts.
    pub fn judge(&mut self, result: Result<(), Broken>) {
        if let Err(broken) = result {
            self.broken.get_or_insert(broken);
        }
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Up(line) => self.at_run(self.line_run(line), |world| world.arrives_up(line)),
            WorldEvent::Down(line) => self.arrives_down(line),
            WorldEvent::Connect(client) => self.connects(client),
            WorldEvent::Accept(line) => self.accept_at(line),
            WorldEvent::Connected(line) => self.connected(line),
            WorldEvent::ServerLearns(line) => self.server_learns_at(line),
            WorldEvent::ClientLearns(line) => self.client_learns(line),
            WorldEvent::TurnEnds(run) => self.at_run(run, |world| world.turn_ends(run)),
            WorldEvent::TickTimer(run) => self.at_run(run, |world| world.tick_timer(run)),
            WorldEvent::TickWork(run) => self.at_run(run, |world| world.tick_works(run)),
            WorldEvent::TickSync(run) => self.at_run(run, |world| world.tick_syncs(run)),
            WorldEvent::Fence(run) if run == self.tick_runs => {}
            WorldEvent::Fence(run) => self.at_run(run, |world| world.check_writer(run)),
            WorldEvent::TickStarts => self.tick_starts(),
            WorldEvent::Contention(event) => self.contends(event),
            WorldEvent::NodeTurn(key, at_ns) => self.node_turn(key, at_ns),
            WorldEvent::Fleet(key, at_ns) => self.fleet_step(key, at_ns),
            WorldEvent::NodeStarts(key) => self.node_starts(key),
            WorldEvent::NeverCame(server) => self.server_goes(server, "launch given up by the provider"),
            WorldEvent::Cloud(group) => self.cloud_ticks(group),
            WorldEvent::Publish(publisher) => self.publishes(publisher),
            WorldEvent::Chaos => self.chaos(),
            WorldEvent::Progress => self.judge_progress(),
            WorldEvent::Fill => self.fill_some_node(),
            WorldEvent::Mistake(kind) => self.mistake(kind),
            WorldEvent::Schema => self.column_is_added(),
            WorldEvent::Sleep => self.sleep_event(),
            WorldEvent::TickFleet(run) => self.at_run(run, |world| world.tick_calls_fleet(run)),
            WorldEvent::Over(passing) => self.passes(passing),
            WorldEvent::ServerGoes(server) => self.server_goes(server, "server gone"),
        }
    }
}

impl World {
    /// Ends the run: adds counts kept elsewhere to the report, and drops processes while their environment still exists.
    pub fn close(&mut self) {
        let disk = self.storage.counts();
        self.report.fault_times("write to a full disk", disk.full);
        self.report.fault_times("log that could not be opened to be read", disk.no_more_files);
        self.report.fault_times("sync that failed", disk.failed_syncs);
        self.report.fault_times("torn last write", disk.torn);
        self.report.fault_times("hole in what was not synced", disk.holes);
        self.report.fault_times("bytes lost at power cuts", disk.lost_bytes);
        self.report.fault_times("old size or missing name on another host", disk.stale);
        self.report.fault_times("another log at the path of a node's log", disk.other_logs);
        for cloud in &self.clouds {
            let counts = cloud.lock().counts;
            self.report.fault_times("fleet call throttled", counts.busy);
            self.report.fault_times("fleet call without an answer", counts.unsure);
            self.report.fault_times("group at its maximum", counts.at_maximum);
        }
        if self.plan.groups.len() < self.plan.queues.len() {
            self.report.met("several queues on the servers of one group");
        }
        if self.plan.queues.iter().all(|queue| !queue.filter.is_everything()) {
            self.report.met("queues with a part of the tables each");
        }
        let told = self.watchers.iter().map(|watcher| watcher.updates).sum();
        self.report.met_times("update received by a watcher", told);
        self.report.longest_idle_ns = self.longest_idle_ns;
        self.report.allowed_losses = self.auditor.allowed_losses;
        self.report.checked_rows = self.auditor.checked_rows;
        self.old = None;
        if let Some(tick) = self.tick.take() {
            self.report.add(&tick.service.plant.stats);
        }
        self.nodes.clear();
    }
}
