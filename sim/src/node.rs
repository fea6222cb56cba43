//! A node's process: production's ingest over a simulated connection, disk and fleet, stepped by events.

use super::audit::Broken;
use super::audit::holdings::{Holding, Row};
use super::audit::record::TABLES;
use super::cloud::SharedCloud;
use super::mutants;
use super::process::Process;
use super::tick::plain;
use super::world::{Client, MS, NodeKey, SECOND, Server, World, WorldEvent};
use bytes::Bytes;
use elastick::env::task::{Due, Running};
use elastick::fleet::group::Instance;
use elastick::rdb::capacity::{self, Link};
use elastick::rdb::ingest::{Fault, Identity, Ingest};
use elastick::rdb::meter::Meter;
use elastick::rdb::shared::{Shared, State};
use elastick::sys::clock::Clock as _;
use elastick::table::store::Store;
use elastick::table::{Items, Sym, Value, symbol};
use proto::FrameReader;
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two rounds of a node's fleet calls.
const LONGEST_FLEET_WAIT: Duration = Duration::from_secs(5);

/// A running node.
pub struct NodeProcess {
    pub key: NodeKey,
    /// Its name in the table.
    pub name: String,
    pub host: u32,
    pub ingest: Ingest,
    pub shared: Arc<Shared>,
    process: Process,
    _fleet: Box<dyn Running>,
    passed_on: mutants::node::Asking,
    pub line: Option<u64>,
    open: bool,
    frames: FrameReader,
    pub turn_at_ns: u64,
    pub fleet_at_ns: u64,
    pub paused_until_ns: u64,
}

impl NodeProcess {
    /// Returns what queries see on this node: its state, and its windows with their rows.
    pub fn shown(&self) -> (Arc<State>, Vec<Holding>) {
        let view = self.shared.view();
        let state = Arc::clone(&view.state);
        let names: Vec<Option<usize>> = state
            .tables
            .iter()
            .map(|name| TABLES.iter().position(|known| known.as_bytes() == symbol::text(*name)))
            .collect();
        let rows: Vec<Vec<Row>> = state
            .tables
            .iter()
            .map(|name| view.table(*name).map(|table| rows_of(&table)).unwrap_or_default())
            .collect();
        let holdings = state.windows.iter().map(|shown| {
            let window = &shown.window;
            let mut held = vec![Vec::new(); TABLES.len()];
            for ((taken, rows), table) in window.tables.iter().zip(&rows).zip(&names) {
                let slot = table.and_then(|table| held.get_mut(table));
                if let (Some(slot), Some(own)) = (slot, rows.get(taken.place.clone())) {
                    *slot = own.to_vec();
                }
            }
            let index = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
            Holding { window: index(window.first)..index(window.next), open: shown.open, tables: held }
        });
        let holdings = holdings.collect();
        (state, holdings)
    }
}

impl NodeProcess {
    /// Returns the node's tables by number, each with its count of columns.
    pub fn columns(&self) -> Vec<(usize, usize)> {
        let view = self.shared.view();
        let of = |name: &Sym| {
            let number = TABLES.iter().position(|known| known.as_bytes() == symbol::text(*name))?;
            let Value::Table(table) = view.table(*name)? else { return None };
            Some((number, table.columns.len()))
        };
        view.state.tables.iter().filter_map(of).collect()
    }
}

/// Returns the rows of a table, from its columns `time`, `sym`, `id` and `row`.
fn rows_of(table: &Value) -> Vec<Row> {
    let Value::Table(table) = table else { return Vec::new() };
    let [times, syms, ids, places, added @ ..] = table.columns.as_slice() else { return Vec::new() };
    let (Items::Timespan(times), Items::Sym(syms)) = (&times.items, &syms.items) else { return Vec::new() };
    let (Items::Long(ids), Items::Long(places)) = (&ids.items, &places.items) else { return Vec::new() };
    let number = |sym| {
        let text = std::str::from_utf8(symbol::text(sym)).ok()?;
        text.strip_prefix('s')?.parse().ok()
    };
    let added: Vec<&[i64]> = added.iter().filter_map(|column| longs(&column.items)).collect();
    // Added columns hold the update's id up to some column and nulls behind it; no publisher sends other rows.
    let extras = |at: usize, id: i64| {
        let mut values = added.iter().filter_map(|column| column.get(at));
        let filled = values.by_ref().take_while(|value| **value == id).count();
        let nulls = added.iter().skip(filled).all(|column| column.get(at) == Some(&i64::MIN));
        if nulls { filled } else { usize::MAX }
    };
    let mut rows = Vec::with_capacity(ids.len());
    for (at, (((id, sym), place), time_ns)) in
        ids.iter().zip(syms.iter()).zip(places.iter()).zip(times.iter()).enumerate()
    {
        rows.push(Row {
            id: id.cast_unsigned(),
            place: *place,
            sym: number(*sym).unwrap_or(u8::MAX),
            time_ns: *time_ns,
            extras: extras(at, *id),
        });
    }
    rows
}

fn longs(items: &Items) -> Option<&[i64]> {
    match items {
        Items::Long(longs) => Some(longs),
        _ => None,
    }
}

impl World {
    /// Starts a node's process: its server has come up, or the process restarts.
    pub fn node_starts(&mut self, key: NodeKey) {
        let Server { group, instance } = key.server;
        let Some(cloud) = self.clouds.get(group).cloned() else { return };
        let exists = cloud.lock().group.slots().iter().any(|slot| slot.instance == Instance(instance));
        if !exists || self.nodes.contains_key(&key) {
            return;
        }
        let number = self.next_process;
        self.next_process = number.saturating_add(1);
        let host = match (instance + group as u64) % self.plan.hosts {
            0 => super::disk::TICK_HOST,
            _ => u32::try_from(instance).unwrap_or(1).saturating_mul(8).saturating_add(1 + group as u32),
        };
        self.host_comes_up(host);
        let process = self.process(host, number);
        self.enter();
        match self.make_node(key, host, &cloud, process) {
            Ok(node) => {
                self.nodes.insert(key, node);
                self.report.met("node started");
                self.came_ns.entry(key.server).or_insert(self.now_ns);
                self.after(MS, WorldEvent::Connect(Client::Node(key)));
                self.next_turn(key, MS);
                self.next_fleet(key, MS);
            }
            Err(error) => self.judge(Err(Broken(format!("a node cannot be made: {error}")))),
        }
    }

    fn make_node(
        &self,
        key: NodeKey,
        host: u32,
        cloud: &SharedCloud,
        process: Process,
    ) -> std::io::Result<NodeProcess> {
        let fleet = cloud.of(Instance(key.server.instance));
        let elastick::fleet::Identity { group, instance } = fleet.identity().clone();
        let options = Arc::new(self.plan.node_options(key.queue).map_err(std::io::Error::other)?);
        let queue = self.plan.queues.get(key.queue).map(|queue| queue.name.clone()).unwrap_or_default();
        let name = format!("{instance}-{queue}");
        let identity = Identity { node: name.clone(), queue, port: 6000, group, instance, process: String::new() };
        let budget_bytes = self.plan.budget_bytes;
        let store = Store::of_world(usize::try_from(budget_bytes).unwrap_or(usize::MAX));
        let shared = Arc::new(Shared::new(Arc::clone(&process.env.clock), store.shared()));
        let Link { requests, answers, running, .. } = capacity::start(&process.env, fleet, options.launch_timeout)?;
        let (requests, passed_on) = mutants::node::Asking::to(requests);
        let meter = Meter::of_budget(budget_bytes);
        let ingest = Ingest::new(
            process.env.clone(),
            options,
            identity,
            Arc::clone(&shared),
            store,
            meter,
            (requests, answers),
        )?;
        Ok(NodeProcess {
            key,
            name,
            host,
            ingest,
            shared,
            process,
            _fleet: running,
            passed_on,
            line: None,
            open: false,
            frames: FrameReader::new(proto::Limits::default()),
            turn_at_ns: 0,
            fleet_at_ns: 0,
            paused_until_ns: 0,
        })
    }

    fn next_turn(&mut self, key: NodeKey, in_ns: u64) {
        let at_ns = self.now_ns.saturating_add(in_ns);
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.turn_at_ns <= self.now_ns || at_ns < node.turn_at_ns {
            node.turn_at_ns = at_ns;
            self.at(at_ns, WorldEvent::NodeTurn(key, at_ns));
        }
    }

    fn next_fleet(&mut self, key: NodeKey, in_ns: u64) {
        let at_ns = self.now_ns.saturating_add(in_ns);
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.fleet_at_ns = at_ns;
        self.at(at_ns, WorldEvent::Fleet(key, at_ns));
    }

    pub fn node_connected(&mut self, key: NodeKey) {
        self.enter();
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.open = true;
        node.frames = FrameReader::new(proto::Limits::default());
        let opened = node.ingest.opened(node.host == self.tick_host);
        match opened {
            Ok(()) => self.node_runs(key),
            Err(fault) => self.node_ends_session(key, Err(fault)),
        }
    }

    pub fn node_receives(&mut self, key: NodeKey, bytes: &Bytes) {
        if let Some(node) = self.nodes.get_mut(&key) {
            node.frames.extend(bytes);
            self.node_runs(key);
        }
    }

    pub fn node_turn(&mut self, key: NodeKey, at_ns: u64) {
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.turn_at_ns == at_ns) else { return };
        if node.paused_until_ns > self.now_ns {
            let until_ns = node.paused_until_ns;
            node.turn_at_ns = until_ns;
            return self.at(until_ns, WorldEvent::NodeTurn(key, until_ns));
        }
        self.node_runs(key);
    }

    /// One iteration of the node's loop: messages, then the work between them.
    fn node_runs(&mut self, key: NodeKey) {
        self.enter();
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let mut result = Ok(());
        let mut out = Vec::new();
        let mut rounds = 0;
        loop {
            rounds += 1;
            let mut broke_off = false;
            if node.open && node.ingest.listens() && !mutants::node::dozes(self.now_ns) {
                loop {
                    match node.frames.next() {
                        Ok(Some((header, message))) => {
                            let body = plain(&header, message);
                            let Some(body) = mutants::node::receive(&header, &body, &node.shared) else { continue };
                            if !node.ingest.message(&header, &body) {
                                broke_off = true;
                                break;
                            }
                        }
                        Ok(None) => break,
                        Err(error) => {
                            result = Err(Fault::Unreadable(error.to_string()));
                            break;
                        }
                    }
                }
            }
            if result.is_ok() && node.open {
                out.extend(mutants::node::rolls_in_replay(node.ingest.is_busy(), &node.shared));
                result = node.ingest.turn();
            } else if result.is_ok() {
                node.ingest.idle();
            }
            out.extend(node.ingest.take_output());
            if result.is_err() || !broke_off || rounds > 64 || node.shared.is_ending() {
                break;
            }
        }
        let (line, busy, ending) = (node.line, node.ingest.is_busy(), node.shared.is_ending());
        if let (false, Some(line)) = (out.is_empty(), line) {
            self.send_up(line, out.into());
        }
        if ending {
            return self.node_exits(key);
        }
        if result.is_err() {
            return self.node_ends_session(key, result);
        }
        let in_ns = if busy { self.between(200_000, 8 * MS) } else { self.between(100 * MS, 250 * MS) };
        self.next_turn(key, in_ns);
        self.fleet_soon(key);
    }

    /// In production a request wakes the fleet thread; here it is scheduled a moment later.
    fn fleet_soon(&mut self, key: NodeKey) {
        if self.nodes.get(&key).is_some_and(|node| node.fleet_at_ns > self.now_ns.saturating_add(50 * MS)) {
            self.next_fleet(key, 20 * MS);
        }
    }

    pub fn fleet_step(&mut self, key: NodeKey, at_ns: u64) {
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.fleet_at_ns == at_ns) else { return };
        if node.paused_until_ns > self.now_ns {
            let until_ns = node.paused_until_ns;
            node.fleet_at_ns = until_ns;
            return self.at(until_ns, WorldEvent::Fleet(key, until_ns));
        }
        self.enter();
        if let Some(cloud) = self.clouds.get(key.server.group) {
            cloud.lock().set_now(self.now_ns);
        }
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.passed_on.pass_on();
        let wait = match node.process.call_fleet() {
            Due::At(at) => at.saturating_duration_since(self.clock.now()).min(LONGEST_FLEET_WAIT),
            Due::Now => Duration::ZERO,
            Due::Later => LONGEST_FLEET_WAIT,
        };
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(SECOND).max(20 * MS);
        self.next_fleet(key, wait_ns);
        self.judge_requests(key.server.group);
        self.obey(key.server.group);
    }

    /// Ends the session; the node reconnects after its pause.
    fn node_ends_session(&mut self, key: NodeKey, result: Result<(), Fault>) {
        if let Err(fault) = &result {
            self.trace.say(|| format!("{key:?} ends its session: {fault:?}"));
            match fault {
                // No fault lets the tickerplant send a message that does not follow the ones before.
                Fault::Surprise(why) => {
                    let why = why.clone();
                    self.judge(Err(Broken(format!("{key:?} was surprised: {why}"))));
                }
                Fault::Connection(_) | Fault::JoinsAgain(_) | Fault::NoLog(_) => {
                    self.report.met("node loses its connection")
                }
                Fault::Unreadable(_) => self.report.met("update that a node cannot receive"),
                Fault::Fatal(why) => {
                    let why = why.clone();
                    self.judge(Err(Broken(format!("{key:?} cannot go on: {why}"))));
                }
            }
        }
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.open = false;
        let line = node.line.take();
        let pause = node.ingest.ended(mutants::node::ended(result));
        // Output without a connection is lost.
        drop(node.ingest.take_output());
        if let Some(line) = line {
            self.hang_up(line, false);
        }
        if self.nodes.get(&key).is_some_and(|node| node.shared.is_ending()) {
            return self.node_exits(key);
        }
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(SECOND);
        self.after(pause_ns, WorldEvent::Connect(Client::Node(key)));
        self.next_turn(key, 50 * MS);
    }

    pub fn node_lost_line(&mut self, key: NodeKey, number: u64) {
        let Some(node) = self.nodes.get(&key).filter(|node| node.line == Some(number)) else { return };
        let open = node.open;
        self.enter();
        if open {
            return self.node_ends_session(key, Err(Fault::Connection("connection closed".to_string())));
        }
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.line = None;
        let pause = node.ingest.next_pause();
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(SECOND);
        self.after(pause_ns, WorldEvent::Connect(Client::Node(key)));
    }

    /// The process has ended by itself.
    fn node_exits(&mut self, key: NodeKey) {
        let ending = self.nodes.get(&key).and_then(|node| node.shared.ending());
        self.trace.say(|| format!("{key:?} ends: {ending:?}"));
        if ending == Some(elastick::rdb::shared::Ending::Terminated) {
            let judged = self.holds_nothing(key);
            self.judge(judged);
        }
        self.report.met(match ending {
            Some(elastick::rdb::shared::Ending::Terminated) => "node terminated after its day",
            Some(elastick::rdb::shared::Ending::Left) => "node left",
            Some(elastick::rdb::shared::Ending::Failed(_)) => "node failed",
            _ => "node ended",
        });
        self.node_is_gone(key, false);
        self.ends_if_empty(key.server);
    }

    /// Checks that a node whose work is over holds no rows: its day has ended and it was notified.
    fn holds_nothing(&self, key: NodeKey) -> Result<(), Broken> {
        let Some((state, holdings)) = self.nodes.get(&key).map(NodeProcess::shown) else { return Ok(()) };
        let rows: usize = holdings.iter().flat_map(|holding| &holding.tables).map(Vec::len).sum();
        if rows == 0 {
            return Ok(());
        }
        let windows: Vec<_> = holdings.iter().map(|holding| &holding.window).collect();
        let date = state.date;
        Err(Broken(format!("{key:?} ends as its work is over, and holds {rows} rows of day {date:?} in {windows:?}")))
    }

    /// Removes a process.
    pub fn node_is_gone(&mut self, key: NodeKey, silent: bool) {
        if let Some(line) = self.nodes.remove(&key).and_then(|node| node.line) {
            self.hang_up(line, silent);
        }
    }

    /// Restarts a killed process on the same instance, with empty memory.
    pub fn node_restarts(&mut self, key: NodeKey) {
        if !self.nodes.contains_key(&key) {
            return;
        }
        self.ends_at_night(key.server);
        self.node_is_gone(key, false);
        let ns = self.between(200 * MS, 3 * SECOND);
        self.after(ns, WorldEvent::NodeStarts(key));
    }
}
