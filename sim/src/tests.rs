//! Regression tests of defects that the simulator found, on its disk alone; and tests of when a simulation has settled.

use super::clock::{Virtual, VirtualClock};
use super::disk::{DiskFaults, Storage, TICK_HOST};
use super::line;
use super::plan::{Faults, Plan};
use super::process::Process;
use super::rng::Rng;
use super::trace::Trace;
use super::world::{SECOND, World};
use elastick::config::{Damage, Durability, RequiredMount};
use elastick::env::Open;
use elastick::feed::ledger::{FeedAudit, Place};
use elastick::feed::update::Update;
use elastick::log::{LogOptions, LogReader, LogWriter, columns_of, parts, update_hash};
use elastick::queue::journal::{Change, Record};
use elastick::queue::{Date, Line, Lost, Params, QueueName, UpdateIndex, Window};
use elastick::tick::journal::JournalFile;
use proto::{Value, encode};
use std::path::Path;
use std::sync::Arc;

/// A disk with test processes on its host.
struct Bench(Storage, Arc<VirtualClock>);

impl Bench {
    fn new() -> Bench {
        Bench::of(Storage::new(Rng::new(1), false))
    }

    fn of(storage: Storage) -> Bench {
        Bench(storage, Arc::new(VirtualClock::new(Virtual::default())))
    }

    /// Runs `act` as a process of its own.
    fn process<T>(&self, number: u32, act: impl FnOnce(&Process) -> T) -> T {
        act(&Process::new(self.0.of(TICK_HOST, number), &self.1))
    }

    fn open_log(process: &Process, durability: Durability) -> LogWriter {
        let options = Bench::options(process, durability);
        LogWriter::open(options, jiff::civil::date(2030, 1, 1)).expect("the log can be opened").0
    }

    /// Runs a process that appends many blocks to a new log and then does `act`. Returns the size of the log, far more of which than the last
    /// few blocks is not durable.
    fn leaves_in_doubt(&self, durability: Durability, act: impl FnOnce(&Process, LogWriter)) -> usize {
        self.process(1, |process| {
            let mut log = Bench::open_log(process, durability);
            append_blocks(&mut log);
            act(process, log);
        });
        self.blocks_in_doubt(Path::new(LOG))
    }

    /// Runs a process whose second update is not synced. Returns the size of the log, which the system still shows whole.
    fn leaves_one_in_doubt(&self) -> usize {
        self.process(1, |process| {
            let mut log = Bench::open_log(process, Durability::Each);
            log.append(&record(), 1).expect("there is room");
            self.fails_sync();
            assert!(log.append(&record(), 1).is_err());
            log.note_failure();
        });
        let written = self.0.read(Path::new(LOG), 0).map_or(0, |bytes| bytes.len());
        assert!(self.0.durable_bytes(Path::new(LOG)) < written, "the cache shows more than the disk has");
        written
    }

    /// Starts a tickerplant again; asserts that it makes the log of that size durable.
    fn next_start_makes_durable(&self, durability: Durability, written: usize) {
        self.process(3, |process| drop(Bench::open_log(process, durability)));
        assert_eq!(self.0.durable_bytes(Path::new(LOG)), written);
    }

    fn fails_sync(&self) {
        self.0.set_faults(DiskFaults { fail_sync: true, ..DiskFaults::default() });
    }

    /// Returns the log's visible size; asserts that far more of it than the last few blocks is not durable.
    fn blocks_in_doubt(&self, path: &Path) -> usize {
        let written = self.0.read(path, 0).map_or(0, |bytes| bytes.len());
        assert!(self.0.durable_bytes(path) + (3 << 20) < written, "more than a few blocks");
        written
    }

    fn options(process: &Process, durability: Durability) -> LogOptions {
        LogOptions {
            env: process.env.clone(),
            dir: "/logs".into(),
            src: "sym".to_string(),
            durability,
            damage: Damage::Stop,
            mount: RequiredMount::Any,
            epoch: None,
            address: None,
            limits: proto::Limits::default(),
            chunk_bytes: 1 << 16,
            buffer_bytes: 1 << 16,
            waker: None,
        }
    }
}

/// Log of the test processes.
const LOG: &str = "/logs/sym2030.01.01";
const GROUP: Durability = Durability::Group(std::time::Duration::from_millis(10));

/// Appends 80,000 updates, many blocks of the side file.
fn append_blocks(log: &mut LogWriter) {
    let batch: Vec<u8> = record().repeat(2_000);
    for _ in 0..40 {
        log.append(&batch, 2_000).expect("there is room");
    }
}

fn record() -> Vec<u8> {
    record_of([1, 2])
}

fn record_of(longs: [i64; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let columns = Value::list([Value::longs(longs.to_vec())]);
    encode::encode_object(&Value::list([Value::symbol("upd"), Value::symbol("trade"), columns]), &mut bytes)
        .expect("it can be encoded");
    bytes
}

#[test]
fn the_next_writer_makes_durable_what_a_failed_sync_may_have_dropped() {
    let bench = Bench::new();
    let written = bench.leaves_one_in_doubt();
    let tip = bench.process(2, |process| Bench::open_log(process, Durability::Each).durable_tip());
    let durable = bench.0.durable_bytes(Path::new(LOG));
    assert_eq!((tip, durable), (2, written));
    bench.0.power_cut();
    assert_eq!(bench.process(3, |process| Bench::open_log(process, Durability::Each).tip()), 2);
}

#[test]
fn however_much_a_failed_sync_may_have_dropped_is_written_again() {
    let bench = Bench::new();
    // The sync thread hangs meanwhile.
    let written = bench.leaves_in_doubt(GROUP, |process, mut log| {
        bench.fails_sync();
        process.sync();
        assert!(log.check().is_err());
        log.note_failure();
    });
    let tip = bench.process(2, |process| Bench::open_log(process, GROUP).durable_tip());
    assert_eq!((tip, bench.0.durable_bytes(Path::new(LOG))), (80_000, written));
}

#[test]
fn after_a_failed_sync_and_a_full_disk_the_log_is_rewritten() {
    let bench = Bench::new();
    let written = bench.leaves_in_doubt(GROUP, |process, mut log| {
        log.flush().expect("there is room");
        bench.0.set_faults(DiskFaults { full: true, ..DiskFaults::default() });
        while log.append(&record().repeat(2_000), 2_000).is_ok() {}
        log.note_failure();
        bench.fails_sync();
        process.sync();
    });
    bench.next_start_makes_durable(GROUP, written);
}

#[test]
fn after_a_failed_sync_at_start_the_next_start_rewrites_the_log() {
    let bench = Bench::new();
    // The writer is killed before any sync.
    let written = bench.leaves_in_doubt(GROUP, |_, mut log| log.flush().expect("there is room"));
    // The next start gets as far as its own sync, which fails.
    bench.process(2, |process| {
        bench.fails_sync();
        let log = process.env.disk.open(Path::new(LOG), Open::Read).expect("it is there");
        assert!(log.sync().is_err());
    });
    bench.next_start_makes_durable(GROUP, written);
}

#[test]
fn after_a_failed_last_sync_the_log_is_rewritten() {
    let bench = Bench::new();
    let written = bench.leaves_in_doubt(Durability::Os, |_, log| {
        bench.fails_sync();
        assert!(log.close().is_err());
    });
    bench.next_start_makes_durable(Durability::Os, written);
}

#[test]
fn after_a_failed_sync_a_start_on_the_next_day_makes_the_day_before_durable() {
    let bench = Bench::new();
    let written = bench.leaves_one_in_doubt();
    bench.process(2, |process| {
        let next_day = jiff::civil::date(2030, 1, 2);
        LogWriter::open(Bench::options(process, Durability::Each), next_day).expect("the next day's log can be made");
    });
    assert_eq!(bench.0.durable_bytes(Path::new(LOG)), written);
}

#[test]
fn a_log_whose_making_failed_is_on_the_disk_before_anything_is_written_to_it() {
    let bench = Bench::new();
    let (path, next_day) = (Path::new("/logs/sym2030.01.02"), jiff::civil::date(2030, 1, 2));
    bench.process(1, |process| {
        let mut log = Bench::open_log(process, Durability::Each);
        bench.fails_sync();
        assert!(log.roll(next_day, |_| Ok(())).is_err(), "the day goes on");
        log.roll(next_day, |_| Ok(())).expect("the day ends");
        log.append(&record(), 1).expect("there is room");
    });
    let written = bench.0.read(path, 0).map(|bytes| bytes.len());
    assert_eq!(Some(bench.0.durable_bytes(path)), written);
    bench.0.power_cut();
    let (_, report) = bench
        .process(2, |process| LogWriter::open(Bench::options(process, Durability::Each), next_day))
        .expect("the log can be opened");
    assert_eq!((report.created, report.updates), (false, 1));
}

#[test]
fn entries_of_a_truncated_tail_do_not_come_back() {
    let bench = Bench::new();
    let (path, side) = (Path::new(LOG), Path::new("/logs/sym2030.01.01.index"));
    let batch = record().repeat(5_000);
    let kept = bench.process(1, |process| {
        let mut log = Bench::open_log(process, Durability::Each);
        log.append(&batch, 5_000).expect("there is room");
        let kept = log.written_bytes();
        log.append(&batch, 5_000).expect("there is room");
        log.close().expect("it can be synced");
        // The kernel writes everything back in time, the side file too. Then the end of the log is lost.
        process.env.disk.open(side, Open::Write).and_then(|side| side.sync()).expect("it can be synced");
        process.env.disk.sync_directory_of(side).expect("it can be synced");
        let log = process.env.disk.open(path, Open::Write).expect("it is there");
        log.truncate(kept.saturating_add(5)).and_then(|()| log.sync()).expect("it can be cut");
        kept
    });
    let before = bench.0.durable_bytes(side);
    bench.process(2, |process| {
        let mut log = Bench::open_log(process, Durability::Each);
        assert_eq!((log.tip(), log.written_bytes()), (5_000, kept));
        assert!(bench.0.durable_bytes(side) < before, "an entry is gone, whatever happens now");
        log.append(&record_of([3, 4]).repeat(5_000), 5_000).expect("there is room");
    });
    bench.0.power_cut();
    assert_eq!(bench.process(3, |process| Bench::open_log(process, Durability::Each).tip()), 10_000);
}

#[test]
fn a_line_of_the_journal_that_was_written_in_part_is_no_damage_in_the_middle() {
    let bench = Bench::new();
    let path = Path::new("/logs/sym2030.01.01.queue");
    let (today, params) = (Date(10_957), Params::default());
    let line = |first: u64| {
        let lost = Window::new(UpdateIndex(0), UpdateIndex(first)).map(|window| Lost { window, rejections: 0 });
        let line = Line { open: UpdateIndex(first), lost: lost.into_iter().collect(), ..Line::default() };
        Record { tip: UpdateIndex(first), changes: vec![Change::Line { queue: QueueName(b"rdb".to_vec()), line }] }
    };
    bench.process(1, |process| {
        let (mut journal, ..) = JournalFile::open(&*process.env.disk, path, params.clone(), today).expect("a new one");
        let reset = Change::Reset { date: today, next_id: Default::default() };
        journal.append(&Record { tip: UpdateIndex(0), changes: vec![reset] }).expect("there is room");
        bench.0.set_faults(DiskFaults { full: true, ..DiskFaults::default() });
        // Until part of a line was written.
        let before = bench.0.read(path, 0).map_or(0, |bytes| bytes.len());
        while bench.0.read(path, 0).map_or(0, |bytes| bytes.len()) == before {
            assert!(journal.append(&line(1)).is_err());
        }
        bench.0.set_faults(DiskFaults::default());
        journal.append(&line(2)).expect("there is room again");
        journal.append(&line(3)).expect("there is room again");
    });
    let (_, queue, restored) =
        bench.process(2, |process| JournalFile::open(&*process.env.disk, path, params, today).expect("it can be read"));
    assert!(restored);
    let open: Vec<UpdateIndex> = queue.lines().values().map(|line| line.open).collect();
    assert_eq!(open, [UpdateIndex(3)]);
}

/// Leaves in doubt the last update of a day and looks it up from another host of a shared file system, which has cached the log's size from
/// before that update.
fn look_up_behind_the_days_end(seed: u64) -> (FeedAudit, Result<(), String>) {
    let bench = Bench::of(Storage::new(Rng::new(seed), true));
    let (path, next_path) = ("/logs/sym2030.01.01", "/logs/sym2030.01.02");
    let (limits, chunk_bytes) = (proto::Limits::default(), 1 << 16);
    let elsewhere = Process::new(bench.0.of(TICK_HOST + 1, 2), &bench.1).env;
    let mut log = bench.process(1, |process| {
        let mut log = Bench::open_log(process, Durability::Each);
        log.append(&record(), 1).expect("there is room");
        log
    });
    let mut ledger = FeedAudit::new(Place { tip: 1, log: path.into() });
    drop(LogReader::open(&elsewhere, Path::new(path), limits, chunk_bytes).expect("it can be read"));
    let in_doubt = record_of([3, 4]);
    let found = parts(&in_doubt, &limits).expect("it is an update");
    let hash = update_hash(columns_of(&found.columns).0);
    ledger.sends(Update { table: b"trade".to_vec(), rows: 2, hash, message: Vec::new() });
    bench.process(1, |_| {
        log.append(&in_doubt, 1).expect("there is room");
        log.roll(jiff::civil::date(2030, 1, 2), |_| Ok(())).expect("the day ends");
    });
    let settled = ledger.settle(&elsewhere, Place { tip: 0, log: next_path.into() }, limits, chunk_bytes);
    (ledger, settled)
}

#[test]
fn a_feed_does_not_resend_updates_of_a_closed_log_that_its_host_does_not_see_yet() {
    let mut found = 0;
    for seed in 0..40 {
        let (ledger, settled) = look_up_behind_the_days_end(seed);
        match settled {
            Ok(()) => {
                assert_eq!(ledger.unconfirmed(), [], "seed {seed}");
                found += 1;
            }
            Err(_) => assert_eq!(ledger.unconfirmed().len(), 1, "it stays in doubt"),
        }
    }
    assert!(found > 0);
}

#[test]
fn a_feed_finds_updates_logged_on_a_day_in_between() {
    let bench = Bench::new();
    let (limits, chunk_bytes) = (proto::Limits::default(), 1 << 16);
    let mut ledger = FeedAudit::new(Place { tip: 0, log: "/logs/sym2030.01.01".into() });
    let in_doubt = record_of([3, 4]);
    let found = parts(&in_doubt, &limits).expect("it is an update");
    let hash = update_hash(columns_of(&found.columns).0);
    ledger.sends(Update { table: b"trade".to_vec(), rows: 2, hash, message: Vec::new() });
    let settled = bench.process(1, |process| {
        let mut log = Bench::open_log(process, Durability::Each);
        log.roll(jiff::civil::date(2030, 1, 4), |_| Ok(())).expect("the day ends");
        log.append(&in_doubt, 1).expect("there is room");
        log.roll(jiff::civil::date(2030, 1, 5), |_| Ok(())).expect("the day ends");
        ledger.settle(&process.env, Place { tip: 0, log: "/logs/sym2030.01.05".into() }, limits, chunk_bytes)
    });
    assert_eq!((settled, ledger.unconfirmed()), (Ok(()), &[][..]));
}

/// Returns a simulation without faults in which every process has started.
fn world() -> World {
    world_of(Plan::of(1, Faults::None).expect("a plan"))
}

fn world_of(plan: Plan) -> World {
    let mut world = World::new(1, plan, Trace::default());
    world.run_until(60 * SECOND).map_err(|broken| broken.0).expect("nothing goes wrong");
    assert_eq!(world.held_up(), None);
    world
}

#[test]
fn a_world_does_not_rest_while_a_node_is_paused() {
    let mut world = world();
    let until_ns = world.now_ns + 8 * SECOND;
    world.nodes.values_mut().next().expect("a node is up").paused_until_ns = until_ns;
    assert!(world.held_up().is_some_and(|what| what.contains("NodeKey") && what.contains("paused")));
    world.now_ns = until_ns;
    assert_eq!(world.held_up(), None);
}

#[test]
fn a_world_does_not_rest_while_the_tickerplant_is_paused() {
    let mut world = world();
    world.tick_paused_until_ns = world.now_ns + 8 * SECOND;
    assert_eq!(world.held_up().as_deref(), Some("the tickerplant is paused"));
    world.now_ns = world.tick_paused_until_ns;
    assert_eq!(world.held_up(), None);
}

#[test]
fn a_world_does_not_rest_while_nothing_passes_on_a_connection() {
    let mut world = world();
    let until_ns = world.now_ns + 8 * SECOND;
    // A direction is stalled, or a packet is still on its way.
    let held: [fn(&mut line::Line) -> &mut u64; 4] = [
        |line| &mut line.down_stalled_until_ns,
        |line| &mut line.up_stalled_until_ns,
        |line| &mut line.down_at_ns,
        |line| &mut line.up_at_ns,
    ];
    for until in held {
        let line = world.lines.values_mut().next().expect("someone is connected");
        let before = std::mem::replace(until(line), until_ns);
        assert!(world.held_up().is_some_and(|what| what.contains("held up")));
        *until(world.lines.values_mut().next().expect("it is still there")) = before;
        assert_eq!(world.held_up(), None);
    }
}

#[test]
fn a_world_does_not_rest_while_the_log_waits_for_its_file_system() {
    let durability = Durability::Group(std::time::Duration::from_millis(10));
    let mut world = world_of(Plan { durability, ..Plan::of(1, Faults::None).expect("a plan") });
    let hangs_until_ns = world.now_ns + 8 * SECOND;
    world.storage.hang(TICK_HOST, hangs_until_ns);
    world.publishing = true;
    world.run_until(world.now_ns + 2 * SECOND).map_err(|broken| broken.0).expect("nothing goes wrong");
    world.publishing = false;
    world.storage.wake();
    world.run_until(world.now_ns + SECOND).map_err(|broken| broken.0).expect("nothing goes wrong");
    assert!(world.held_up().is_some_and(|what| what.contains("log")));
    world.run_until(hangs_until_ns + SECOND).map_err(|broken| broken.0).expect("nothing goes wrong");
    assert_eq!(world.held_up(), None);
}
