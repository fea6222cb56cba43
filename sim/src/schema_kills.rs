//! Tests of `.u.schema` with the tickerplant killed before, during and after each of its writes: the change is whole or absent, and nodes
//! agree with the log. Also a day that has ended before a start, whose log has another schema.

use super::clock::{Virtual, VirtualClock};
use super::disk::{Storage, TICK_HOST};
use super::hosts;
use super::model::links::{LinkAction, ModelLinks, conn};
use super::process::Process;
use super::rng::Rng;
use super::tick::plain;
use elastick::config::options::Protocol;
use elastick::config::units::Scale;
use elastick::config::{Damage, Durability, Limits, RequiredMount, units};
use elastick::env::{Disk, Env, LogFile, Open, WriterProcess};
use elastick::log::Waker;
use elastick::net::{ConnId, message};
use elastick::protocol::tables::schema_record;
use elastick::queue::Params;
use elastick::rdb::capacity::{FleetReply, FleetRequest};
use elastick::rdb::ingest::{Fault, Identity, Ingest};
use elastick::rdb::meter::Meter;
use elastick::rdb::options::NodeOptions;
use elastick::rdb::policy;
use elastick::rdb::shared::Shared;
use elastick::sys::fs::Place;
use elastick::table::schema::{ColumnSchema, Schema};
use elastick::table::store::Store;
use elastick::table::{Attr, Items, Sym, Value as Table, symbol};
use elastick::tick::core::Tables;
use elastick::tick::plant::{Plant, PlantOptions};
use elastick::tick::service::TickService;
use proto::{FrameReader, MessageKind, Value, encode, types};
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const DIR: &str = "/logs";
const NOON: Duration = Duration::from_secs(1_795_262_400);
const DAY: Duration = Duration::from_secs(86_400);
const BATCH: Duration = Duration::from_millis(100);
const BUDGET_BYTES: u64 = 4 << 20;
const PUBLISHER: u8 = 200;
const NEVER: usize = usize::MAX;

/// Disk of a process that is killed: a number of changes arrive, then half of one write, then none.
struct Killed {
    storage: Storage,
    process: u32,
    left: Arc<AtomicUsize>,
}

impl Killed {
    fn disk(&self) -> Arc<dyn Disk> {
        self.storage.of(TICK_HOST, self.process)
    }
}

/// A file on such a disk.
struct KilledFile {
    file: Arc<dyn LogFile>,
    left: Arc<AtomicUsize>,
}

/// Returns whether a change arrives, and whether the process dies in it.
fn arrives(left: &AtomicUsize) -> (bool, bool) {
    match left.load(Ordering::Relaxed) {
        0 => (false, false),
        NEVER => (true, false),
        some => {
            left.store(some - 1, Ordering::Relaxed);
            (some > 1, some == 1)
        }
    }
}

fn unless_killed<T>(left: &AtomicUsize, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if arrives(left).0 { change() } else { Err(io::Error::other("killed")) }
}

impl Disk for Killed {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
        let file = match how {
            Open::Read | Open::Fresh => self.disk().open(path, how),
            Open::Write | Open::Create | Open::New => unless_killed(&self.left, || self.disk().open(path, how)),
        };
        Ok(Arc::new(KilledFile { file: file?, left: Arc::clone(&self.left) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        unless_killed(&self.left, || self.disk().create_dir_all(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        unless_killed(&self.left, || self.disk().rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        unless_killed(&self.left, || self.disk().rename_new(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        unless_killed(&self.left, || self.disk().remove(path))
    }

    fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        unless_killed(&self.left, || self.disk().sync_directory_of(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk().list(directory)
    }

    fn who(&self) -> WriterProcess {
        self.disk().who()
    }

    fn draw(&self) -> u64 {
        self.disk().draw()
    }
}

impl LogFile for KilledFile {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset_bytes)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize> {
        match arrives(&self.left) {
            (true, _) => self.file.write_at(bytes, offset_bytes),
            (false, is_last) => {
                if is_last {
                    self.file.write_at(&bytes[..bytes.len() / 2], offset_bytes)?;
                }
                Err(io::Error::other("killed"))
            }
        }
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        unless_killed(&self.left, || self.file.truncate(size_bytes))
    }

    fn sync(&self) -> io::Result<()> {
        unless_killed(&self.left, || self.file.sync())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    fn is_shared(&self) -> bool {
        self.file.is_shared()
    }

    fn identity(&self) -> io::Result<Place> {
        self.file.identity()
    }
}

fn trade() -> Sym {
    symbol::intern(b"trade").expect("a symbol")
}

/// Returns `trade` with these columns after time and symbol.
fn tables(columns: &[(&str, i8)]) -> Arc<Tables> {
    let sym = |text: &str| symbol::intern(text.as_bytes()).unwrap_or(Sym::NULL);
    let all = [("time", types::TIMESPAN), ("sym", types::SYMBOL)].iter().chain(columns);
    let columns = all.map(|(name, ty)| ColumnSchema { name: sym(name), ty: *ty, attr: Attr::None }).collect();
    Arc::new(Tables::new([Schema { name: trade(), columns, keys: 0 }]).expect("good tables"))
}

fn before() -> Arc<Tables> {
    tables(&[("id", types::LONG)])
}

fn after() -> Arc<Tables> {
    tables(&[("id", types::LONG), ("x", types::LONG)])
}

/// A node and its connection.
struct Node {
    ingest: Ingest,
    shared: Arc<Shared>,
    place: Option<u8>,
    _fleet: (Receiver<FleetRequest>, Sender<FleetReply>),
}

impl Node {
    fn new(env: Env, name: &str, queue: &str) -> Node {
        let policy = policy::Params::new(Scale::At(40.0), 70.0).expect("good thresholds");
        let options = NodeOptions::carried(Protocol::Elastick, BUDGET_BYTES, policy);
        let options = Arc::new(NodeOptions { read_log: super::reading::stepped, ..options });
        let store = Store::of_world(usize::try_from(BUDGET_BYTES).expect("small"));
        let shared = Arc::new(Shared::new(Arc::clone(&env.clock), store.shared()));
        let (requests, requested) = channel();
        let (answers, answered) = channel();
        let (node, queue) = (name.to_string(), queue.to_string());
        let none = String::new;
        let identity = Identity { node, queue, port: 6000, group: none(), instance: none(), process: none() };
        let meter = Meter::of_budget(BUDGET_BYTES);
        let ingest = Ingest::new(env, options, identity, Arc::clone(&shared), store, meter, (requests, answered));
        Node { ingest: ingest.expect("a node"), shared, place: None, _fleet: (requested, answers) }
    }

    /// Returns its number of columns and the ids of its rows.
    fn holds(&self) -> (usize, Vec<i64>) {
        let Some(Table::Table(table)) = self.shared.view().table(trade()) else { return (0, Vec::new()) };
        let ids = match table.columns.get(2).map(|column| &column.items) {
            Some(Items::Long(ids)) => ids.to_vec(),
            _ => Vec::new(),
        };
        (table.columns.len(), ids)
    }
}

/// A tickerplant with its disk and nodes; nothing happens except on request.
struct World {
    storage: Storage,
    clock: Arc<VirtualClock>,
    process: Process,
    service: Option<TickService>,
    links: ModelLinks,
    nodes: Vec<Node>,
    left: Arc<AtomicUsize>,
    starts: u32,
    batch: Option<Duration>,
    elapsed: Duration,
    connections: u8,
    /// The publisher's last response: null, or the text of an error.
    answer: Option<String>,
}

impl World {
    fn new(batch: Option<Duration>) -> World {
        let storage = Storage::new(Rng::new(1), false);
        let clock = Arc::new(VirtualClock::new(Virtual { elapsed: Duration::ZERO, wall: NOON }));
        World {
            process: Process::new(storage.of(TICK_HOST, 0), &clock),
            links: ModelLinks::new(&clock),
            clock,
            storage,
            service: None,
            nodes: Vec::new(),
            left: Arc::new(AtomicUsize::new(NEVER)),
            starts: 0,
            batch,
            elapsed: Duration::ZERO,
            connections: 0,
            answer: None,
        }
    }

    /// A process on the disk, which is killed once its changes are used up.
    fn process(&self) -> Process {
        let (storage, left) = (self.storage.clone(), Arc::clone(&self.left));
        Process::new(Arc::new(Killed { storage, process: self.starts, left }), &self.clock)
    }

    fn enter(&self) {
        self.clock.set(Virtual { elapsed: self.elapsed, wall: NOON.saturating_add(self.elapsed) });
    }

    fn start(&mut self, tables: Arc<Tables>) {
        self.starts += 1;
        self.left = Arc::new(AtomicUsize::new(NEVER));
        self.process = self.process();
        self.enter();
        let options = PlantOptions {
            src: "sym".to_string(),
            dir: Some(PathBuf::from(DIR)),
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
            batch: self.batch,
            roll: units::roll_time("00:00 UTC").expect("a time"),
            today: None,
            block_writes: false,
            coerce: false,
            nodes: None,
            calendar: None,
            secret: None,
            limits: Limits::default(),
            queue: Params::default(),
        };
        let waker: Waker = Arc::new(|| {});
        let plant = Plant::start(self.process.env.clone(), options, tables, Arc::clone(&waker))
            .expect("the tickerplant starts");
        let (_, watched) = channel();
        let service = hosts::service_options(proto::Limits::default());
        let service = TickService::new(&self.process.env, plant, service, waker, Arc::default(), watched);
        self.service = Some(service.expect("the tickerplant starts"));
        self.links = ModelLinks::new(&self.clock);
        self.links.open(conn(PUBLISHER));
    }

    fn kill(&mut self) {
        self.service = None;
        self.links = ModelLinks::new(&self.clock);
        self.enter();
        for node in &mut self.nodes {
            if node.place.take().is_none() {
                continue;
            }
            node.ingest.ended(Err(Fault::Connection("closed".to_string())));
            drop(node.ingest.take_output());
        }
    }

    fn handle(&mut self, from: ConnId, bytes: &[u8]) {
        let mut frames = FrameReader::new(proto::Limits::default());
        frames.extend(bytes);
        while let Some((header, body)) = frames.next().expect("a message") {
            let body = plain(&header, body);
            let Some(service) = &mut self.service else { return };
            self.links.asks((header.kind == MessageKind::Sync).then_some(from));
            service.handle(from, &header, &body, &mut self.links);
            self.links.asks(None);
        }
    }

    /// Sends a call of the publisher or the operator, in the same event-loop iteration as others before [`World::settle`].
    fn call(&mut self, object: &[u8]) {
        self.enter();
        self.answer = None;
        let bytes = message::message(MessageKind::Sync, |writer| writer.raw(object)).expect("a call");
        self.handle(conn(PUBLISHER), &bytes);
    }

    fn publish(&mut self, id: i64, columns: usize) {
        let longs = (2..columns).map(|_| Value::longs([id]));
        let columns = Value::list(std::iter::once(Value::symbols(["A"])).chain(longs));
        let call = Value::list([Value::symbol(".u.upd"), Value::symbol("trade"), columns]);
        let mut object = Vec::new();
        encode::encode_object(&call, &mut object).expect("a call");
        self.call(&object);
    }

    fn change(&mut self) {
        let tables = after();
        let record = schema_record(&tables.get(0).expect("one table").schema).expect("a call");
        self.call(&record);
    }

    /// Adds a node on the tickerplant's host.
    fn adds(&mut self, name: &str, queue: &str) {
        let process = Process::new(self.storage.of(TICK_HOST, u32::MAX), &self.clock);
        self.nodes.push(Node::new(process.env, name, queue));
    }

    fn joins(&mut self, at: usize) {
        self.enter();
        self.connections += 1;
        let place = self.connections;
        self.links.open(conn(place));
        self.nodes[at].place = Some(place);
        self.nodes[at].ingest.opened(true).expect("it can ask");
        self.settle();
    }

    /// Ends event-loop iterations and delivers messages until none are left.
    fn settle(&mut self) {
        loop {
            self.elapsed += BATCH;
            self.enter();
            let Some(service) = &mut self.service else { return };
            service.plant.begin_iteration(&mut self.links);
            service.plant.timer(&mut self.links);
            service.plant.end_iteration(&mut self.links);
            let mut is_quiet = !self.process.work_is_due();
            if self.process.work_is_due() {
                self.process.work();
                service.come_round(&mut self.links);
            }
            for which in std::mem::take(&mut self.links.notices) {
                service.plant.writable(which, &mut self.links);
            }
            for wish in std::mem::take(&mut self.links.actions) {
                is_quiet = false;
                match wish {
                    LinkAction::Send(to, bytes) => self.receive(to, &bytes),
                    LinkAction::Close(which) => panic!("{which:?} is closed"),
                }
            }
            for at in 0..self.nodes.len() {
                let Some(place) = self.nodes[at].place else { continue };
                self.nodes[at].ingest.turn().expect("the node goes on");
                let sent = self.nodes[at].ingest.take_output();
                is_quiet &= sent.is_empty() && !self.nodes[at].ingest.is_busy();
                self.handle(conn(place), &sent);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn receive(&mut self, to: ConnId, bytes: &[u8]) {
        let mut frames = FrameReader::new(proto::Limits::default());
        frames.extend(bytes);
        while let Some((header, body)) = frames.next().expect("a message") {
            let body = plain(&header, body);
            if to == conn(PUBLISHER) {
                let is_error = body.first() == Some(&128);
                self.answer =
                    Some(if is_error { String::from_utf8_lossy(&body[1..]).into_owned() } else { String::new() });
            } else if let Some(node) = self.nodes.iter_mut().find(|node| node.place.map(conn) == Some(to)) {
                node.ingest.message(&header, &body);
                while node.ingest.is_busy() {
                    node.ingest.turn().expect("the node goes on");
                }
            }
        }
    }

    fn plant(&self) -> &Plant {
        &self.service.as_ref().expect("it runs").plant
    }

    fn columns(&self) -> usize {
        self.plant().tables().find(b"trade").expect("a table").1.columns.len()
    }

    /// Returns whether the log has a record of the change.
    fn is_logged(&self) -> bool {
        let path = self.storage.paths().into_iter().find(|path| path.extension().is_some_and(|end| end == "21"));
        let bytes = self.storage.read(&path.expect("a log"), 0).expect("a log");
        bytes.windows(9).any(|part| part == b".u.schema")
    }
}

/// How much of the change was on disk when the tickerplant died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Nothing,
    Note,
    Record,
}

/// Logs two updates, then publishes one more in the iteration of the change, and kills the tickerplant after a number of changes to its disk.
fn killed_after(changes: usize, batch: Option<Duration>) -> (Written, bool) {
    let mut world = World::new(batch);
    world.start(before());
    world.adds("first", "a");
    world.joins(0);
    for id in 0..2 {
        world.publish(id, 3);
        world.settle();
    }
    assert_eq!(world.nodes[0].holds(), (3, vec![0, 1]));
    // In batch mode this update waits for the timer, and the schema change publishes it first.
    world.publish(2, 3);
    world.left.store(changes, Ordering::Relaxed);
    world.change();
    if let Some(service) = &mut world.service {
        service.plant.end_iteration(&mut world.links);
    }
    let is_dead = world.left.load(Ordering::Relaxed) == 0;
    // None of its output has been sent.
    world.kill();
    assert_eq!(world.nodes[0].holds(), (3, vec![0, 1]));

    world.start(before());
    let (columns, is_logged) = (world.columns(), world.is_logged());
    let written = match (columns - 3, is_logged) {
        (0, false) => Written::Nothing,
        (1, false) => Written::Note,
        (1, true) => Written::Record,
        _ => panic!("the log has the change, and the tables have {columns} columns"),
    };
    world.adds("late", "b");
    world.joins(0);
    world.joins(1);
    // An update with the other number of columns must be rejected.
    world.publish(8, 7 - columns);
    world.settle();
    assert!(world.answer.as_ref().is_some_and(|answer| !answer.is_empty()), "{written:?}: it is rejected");
    world.publish(9, columns);
    world.settle();
    assert_eq!(world.answer.as_deref(), Some(""));

    let records = usize::try_from(world.plant().tip()).expect("small") - usize::from(is_logged);
    let (first, late) = (world.nodes[0].holds(), world.nodes[1].holds());
    assert_eq!((first.0, first.1.len()), (columns, records), "{written:?}: what a node holds is what the log has");
    assert_eq!(first, late, "{written:?}: one that was there and one that comes late");
    assert_eq!((first.1.first(), first.1.last()), (Some(&0), Some(&9)));
    if let Some(service) = &mut world.service {
        service.plant.end_of_day(true, &mut world.links).expect("the day ends");
    }
    world.settle();
    let stats = &world.plant().stats;
    assert_eq!((stats.verified, stats.differing), (2, 0), "{written:?}");
    assert!(world.plant().health(&[]).is_ok());
    (written, is_dead)
}

/// Kills the tickerplant after each disk change, until it survives.
fn killed_everywhere(batch: Option<Duration>) {
    let mut met = Vec::new();
    for changes in 1.. {
        let (written, is_dead) = killed_after(changes, batch);
        met.push(written);
        if !is_dead {
            break;
        }
    }
    met.dedup();
    assert_eq!(met, [Written::Nothing, Written::Note, Written::Record]);
}

#[test]
fn a_change_is_whole_or_absent_wherever_the_tickerplant_is_killed() {
    killed_everywhere(None);
}

#[test]
fn a_change_is_whole_or_absent_wherever_a_tickerplant_in_batch_mode_is_killed() {
    killed_everywhere(Some(BATCH));
}

#[test]
fn a_day_that_is_over_at_the_start_ends_whatever_the_schema_is_now() {
    for (now, columns) in [
        (tables(&[("id", types::FLOAT)]), 3),
        (tables(&[("n", types::LONG)]), 3),
        (tables(&[]), 2),
        (tables(&[("x", types::LONG), ("id", types::LONG), ("y", types::LONG)]), 5),
    ] {
        let mut world = World::new(None);
        world.start(before());
        world.adds("first", "a");
        world.joins(0);
        world.publish(0, 3);
        world.settle();
        world.kill();
        world.elapsed += DAY;
        world.start(Arc::clone(&now));
        world.joins(0);
        assert_eq!((world.columns(), world.plant().tip()), (columns, 0), "today begins with the tables of today");
        assert_eq!(world.nodes[0].holds(), (columns, vec![]), "and the node is in it");
        assert!(world.plant().health(&[]).is_ok());
        world.kill();
        world.start(now);
        assert_eq!((world.columns(), world.plant().tip()), (columns, 0), "also at the next start");
    }
}
