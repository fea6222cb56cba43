//! State of the tickerplant and the operations on it. Owned by the event-loop thread.
//!
//! The updates of one event-loop iteration are collected, logged with one write, and only then published ([`Plant::settle`]). Every
//! operation that reads the state or changes subscriptions settles first, so that every index sent to a peer is exact.

mod arguments;
mod asg;
pub mod calls;
mod catching_up;
mod figures;
pub mod functions;
mod log_side;
mod merging;
mod publish;
mod queue;
mod roll;
mod schema;
pub mod shape;
mod stats;
mod subscribe;
pub mod values;
mod verification;

pub use stats::Stats;

use super::catchup;
use super::clock::{self, Clock, Steady};
use super::core::Stamp;
use super::core::batch::Batch;
use super::core::schema::{Current, Form, Tables};
use super::day::{Believed, Day};
use super::feed::{Feed, FeedLimits};
use super::journal::{Journal, JournalFile};
use super::logged_schema::{self, Adopted, Changed, LoggedSchemaError, Reading};
use super::quarantine::Quarantine;
use super::subscriptions::Subscriptions;
use crate::config::units::RollTime;
use crate::config::{Damage, Durability, Limits, RequiredMount};
use crate::log::{self, LogError, LogOptions, LogWriter, Waker, disk};
use crate::net::{ConnId, Links};
use crate::protocol::ToNode;
use crate::queue::{Date, Now, Params, Queue};
use crate::sys::clock as time;
use bytes::Bytes;
use catching_up::CatchUp;
use log_side::LogSide;
use merging::Merging;
use queue::encoded;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use verification::Verification;

/// Poll interval of the wall clock while idle: after the clock is set forward, an idle tickerplant rolls at most that late.
const LOOK_AT_WALL_NS: i64 = 1_000_000_000;

/// Options of a tickerplant.
pub struct PlantOptions {
    pub src: String,
    /// Directory of the logs; `None` disables logging.
    pub dir: Option<PathBuf>,
    pub durability: Durability,
    pub damage: Damage,
    /// Required mount of the log's directory.
    pub mount: RequiredMount,
    /// Batch mode: publishing interval.
    pub batch: Option<Duration>,
    pub roll: RollTime,
    /// Date confirmed by the operator (`--today`).
    pub today: Option<Date>,
    pub limits: Limits,
    pub queue: Params,
}

/// Why a tickerplant cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Schema(#[from] LoggedSchemaError),
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}

/// State of the tickerplant.
pub struct Plant {
    pub tables: Arc<Tables>,
    /// The same tables, shared with the other threads.
    current: Current,
    /// Tables changed by `.u.schema`.
    changed: Changed,
    /// Users who may call `.u.schema`.
    pub operators: Vec<Vec<u8>>,
    /// `.u.t`: indices of the tables, sorted by name.
    pub sorted: Vec<usize>,
    pub stats: Stats,
    pub quarantine: Quarantine,
    pub limits: Limits,
    codec: proto::Limits,
    batch: Batch,
    merging: Merging,
    log: LogSide,
    feed: Feed<ConnId>,
    subscriptions: Subscriptions<ConnId>,
    queue: Queue,
    journal: Journal,
    members: BTreeMap<ConnId, queue::Member>,
    proofs: queue::Proofs,
    /// Number of waiting nodes as last sent to each live node.
    waiting_told: BTreeMap<ConnId, usize>,
    clock: Clock,
    steady: Steady,
    day: Day,
    /// Time of this event-loop iteration; read when its first message needs it.
    utc_ns: i64,
    stamp: Stamp,
    in_turn: bool,
    catch_up: CatchUp,
    verification: Verification,
}

impl super::feed::Outboxes<ConnId> for dyn Links + '_ {
    fn waiting_bytes(&self, subscriber: ConnId) -> usize {
        self.outbox_bytes(subscriber)
    }

    fn all_waiting_bytes(&self) -> usize {
        self.outboxes_bytes()
    }

    fn send(&mut self, subscriber: ConnId, messages: Bytes) {
        Links::send(self, subscriber, messages);
    }

    fn notify_below(&mut self, subscriber: ConnId, bytes: usize) {
        Links::notify_below(self, subscriber, bytes);
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn feed_limits(limits: &Limits) -> FeedLimits {
    let outbox_bytes = size(limits.outbox_bytes);
    FeedLimits {
        outbox_bytes,
        crowded_outbox_bytes: outbox_bytes.min(1 << 20),
        outboxes_bytes: size(limits.outboxes_bytes),
        low_bytes: outbox_bytes / 4,
        chunk_bytes: size(limits.log_read_chunk_bytes).min(outbox_bytes / 2).max(1),
        recent_bytes: outbox_bytes.min(16 << 20),
        marks: 1024,
        lanes: size(limits.lanes),
    }
}

impl Plant {
    /// Opens the log and journal of the day, repairs a torn end left by a crash, and starts the threads.
    ///
    /// # Errors
    /// Those of the log, if another tickerplant has it open or it is damaged before its end; those of the system.
    pub fn start(options: PlantOptions, tables: Arc<Tables>, waker: Waker) -> Result<Plant, StartError> {
        let PlantOptions { src, dir, durability, damage, mount, batch, roll, today, limits, queue: params } = options;
        let codec = proto::Limits {
            max_message_bytes: limits.message_bytes,
            max_decompressed_bytes: limits.decompressed_bytes,
            max_depth: size(limits.depth),
        };
        let clock = Clock::new(roll);
        let utc_ns = clock::utc_now_ns();
        let newest = dir.as_ref().and_then(|dir| newest_log(dir, &src));
        let (now, calendar) = (clock::of_day(), clock.calendar(utc_ns));
        let ns = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        let (jump_ns, pause_ns) = (ns(limits.clock_jump_ns), ns(limits.clock_start_ns));
        let day = Day::start(newest, calendar, now, Believed { jump_ns, pause_ns, today });
        let due = day.is_due(now);
        let log = match dir {
            Some(dir) => {
                let options = LogOptions {
                    dir: std::path::absolute(dir)?,
                    src,
                    durability,
                    damage,
                    mount,
                    epoch: None,
                    limits: codec,
                    chunk_bytes: size(limits.log_read_chunk_bytes),
                    buffer_bytes: size(limits.log_buffer_bytes),
                    // The event loop checks the durable tip in every iteration.
                    waker: Some(Arc::clone(&waker)),
                };
                LogSide::open(options, day.date())?
            }
            None => LogSide::default(),
        };
        let tip = log.tip();
        let mut adopted = Adopted { tables, changed: Changed::new() };
        if let Some(path) = log.path() {
            let reading = Reading { limits: codec, chunk_bytes: size(limits.log_read_chunk_bytes), tip };
            // A past day ends at once: its records need not fit the schema that follows.
            adopted = match due {
                true => logged_schema::go_on_from(path, &adopted, &codec),
                false => logged_schema::adopt(path, &adopted, reading)?,
            };
        }
        let Adopted { tables, changed } = adopted;
        let current = Current::new(Arc::clone(&tables));
        let (mut queue, mut journal, mut restored) = (Queue::new(params.clone(), day.date()), Journal::None, false);
        if let Some(path) = log.path() {
            let path = log::queue_path(path);
            let (file, found, any) = JournalFile::open(&path, params, day.date())?;
            (queue, journal, restored) = (found, Journal::Open(file), any);
        }
        let setup =
            catchup::Setup { tables: current.clone(), limits: codec, chunk_bytes: size(limits.log_read_chunk_bytes) };
        let catch_up = CatchUp::start(setup, Arc::clone(&waker), log.source())?;
        let chunk_bytes = size(limits.log_read_chunk_bytes);
        let verification = Verification::start(current.clone(), codec, chunk_bytes, waker)?;
        let mut sorted: Vec<usize> = (0..tables.len()).collect();
        sorted.sort_by_key(|table| tables.get(*table).map(|spec| spec.name.clone()));
        let mut plant = Plant {
            sorted,
            stats: Stats::default(),
            quarantine: Quarantine::new(size(limits.quarantine_updates), size(limits.quarantine_bytes)),
            codec,
            batch: Batch::new(tip),
            merging: Merging::new(batch, &tables, time::now()),
            log,
            feed: Feed::new(Arc::clone(&tables), feed_limits(&limits), tip),
            subscriptions: Subscriptions::new(tables.len()),
            queue,
            journal,
            members: BTreeMap::new(),
            proofs: queue::Proofs::default(),
            waiting_told: BTreeMap::new(),
            clock,
            steady: Steady::start(),
            day,
            utc_ns,
            stamp: Stamp::default(),
            in_turn: false,
            catch_up,
            verification,
            tables,
            current,
            changed,
            operators: Vec::new(),
            limits,
        };
        if restored {
            plant.restored(tip);
        }
        if let Some(trouble) = plant.clock_trouble() {
            tracing::error!("{trouble}");
        }
        Ok(plant)
    }

    /// Takes the time of this event-loop iteration, and rolls the day if it is due.
    pub fn begin_iteration(&mut self, ctl: &mut dyn Links) {
        if self.in_turn {
            return;
        }
        self.in_turn = true;
        self.utc_ns = clock::utc_now_ns();
        self.stamp = self.clock.stamp(self.utc_ns);
        self.look_at_clock(ctl);
    }

    /// Ends the event-loop iteration: logs and publishes its updates.
    pub fn end_iteration(&mut self, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.catch_up.let_go(self.feed.behind());
        self.in_turn = false;
    }

    /// Returns the next time at which [`Plant::timer`] has work: the roll of the day, a batch, a grace period, or a verification to
    /// retry.
    pub fn deadline(&self) -> Option<Instant> {
        // The wall clock may be set forward while the loop is idle.
        let left_ns = self.day.left_ns(clock::of_day()).clamp(0, LOOK_AT_WALL_NS);
        let roll = time::now().checked_add(Duration::from_nanos(left_ns.unsigned_abs()));
        let others = [self.queue_deadline(), self.merging.deadline(), self.verification.deadline()];
        roll.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Returns the next time at which the queue has work without a message.
    pub fn queue_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline_ns().and_then(|at_ns| self.steady.instant(at_ns))
    }

    /// Returns the time for a step of the queue.
    fn moment(&self) -> Now {
        Now { wall_ns: clock::utc_now_ns(), steady_ns: self.steady.now_ns() }
    }

    /// Returns the clock of the queue's grace periods.
    pub fn steady_ns(&self) -> i64 {
        self.steady.now_ns()
    }

    /// Runs everything that is due.
    pub fn timer(&mut self, ctl: &mut dyn Links) {
        self.begin_iteration(ctl);
        if self.merging.is_due(ctl.now()) {
            self.flush_merged(ctl);
            self.merging.flushed(ctl.now());
        }
        if self.queue.next_deadline_ns().is_some_and(|at_ns| at_ns <= self.steady.now_ns()) {
            self.queue_tick(ctl);
        }
        self.verification.retry(time::now());
    }

    /// Takes the results of other threads.
    pub fn woken(&mut self, ctl: &mut dyn Links) {
        self.begin_iteration(ctl);
        if let Err(error) = self.log.check() {
            self.fail(&error, ctl);
        }
        self.log.look_at_path();
        self.acknowledge(ctl);
        while let Some(done) = self.catch_up.result() {
            self.caught_up(done, ctl);
        }
        while let Some(done) = self.verification.result() {
            self.verified(done, ctl);
        }
    }

    /// Simulation hook: whether a background thread has a job.
    pub fn work_is_due(&self) -> bool {
        self.catch_up.is_due() || self.verification.is_due()
    }

    /// Simulation hook: runs one job of each background thread.
    pub fn step_work(&self) {
        self.catch_up.step();
        self.verification.step();
    }

    /// Returns the log of the day.
    pub fn log(&self) -> Option<&LogWriter> {
        self.log.writer()
    }

    /// Returns the index of the next update.
    pub fn tip(&self) -> u64 {
        self.feed.tip().index
    }

    /// Returns the queues.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Feeds a subscriber in catch-up whose send buffer has room.
    pub fn writable(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let Some(read) = self.feed.pump(conn, ctl) else { return self.catch_up.let_go(self.feed.behind()) };
        let Some(log) = self.catch_up.log_of(read.from.day) else {
            return ctl.close(conn, "too slow, and there is no log for catch-up");
        };
        if let Err(error) = self.log.flush_until(read.until) {
            return self.fail(&error, ctl);
        }
        let writes_behind = self.log.writer().is_some_and(LogWriter::writes_behind);
        self.catch_up.read(read, log, writes_behind);
    }

    fn caught_up(&mut self, done: catchup::Done<ConnId>, ctl: &mut dyn Links) {
        match done.outcome {
            Ok((messages, reached)) => {
                if self.feed.chunk(done.subscriber, done.serial, messages, reached, ctl) {
                    self.writable(done.subscriber, ctl);
                }
                self.forget_old_logs();
            }
            Err(error) => {
                tracing::error!(handle = done.subscriber.handle(), %error, "cannot feed the subscriber from the log");
                ctl.close(done.subscriber, "the log cannot be read for its catch-up");
            }
        }
    }

    fn forget_old_logs(&mut self) {
        self.catch_up.forget_before(self.feed.oldest_day());
    }

    /// Removes a closed connection.
    pub fn closed(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.feed.remove(conn);
        self.subscriptions.remove_everywhere(conn);
        self.forget_old_logs();
        self.leave_queue(conn, ctl);
    }

    /// Clean shutdown: flushes everything, makes it durable, and notifies the nodes.
    pub fn stop(&mut self, reason: &str, ctl: &mut dyn Links) {
        self.flush_merged(ctl);
        self.say_bye(reason, ctl);
        self.log.close().into_iter().for_each(|ack| ctl.reply(ack.request, ack.answer));
    }

    /// Sends nodes `Bye`, on which they look for a tickerplant again.
    fn say_bye(&mut self, reason: &str, ctl: &mut dyn Links) {
        let bye = encoded(&ToNode::Bye { reason: reason.to_string() });
        let natives: Vec<ConnId> =
            self.members.iter().filter(|(_, member)| member.form == Form::Indexed).map(|(conn, _)| *conn).collect();
        natives.into_iter().for_each(|conn| ctl.send(conn, bye.clone()));
    }

    /// Returns the log's file handle as kdb+ has it; empty without a log.
    pub fn log_handle(&self) -> Vec<u8> {
        self.log.path().map(|path| log::handle(path).into_bytes()).unwrap_or_default()
    }

    /// Returns the path of the day's log.
    pub fn log_path(&self) -> Option<&Path> {
        self.log.path()
    }

    pub fn has_log(&self) -> bool {
        self.log.exists()
    }
}

/// Returns the newest day that has a log in this directory.
fn newest_log(dir: &std::path::Path, src: &str) -> Option<Date> {
    let dates = disk::list(dir).ok()?.into_iter().filter_map(|path| {
        let date = log::date_of(&path)?;
        (path == log::log_path(dir, src, date)).then(|| clock::day_number(date))
    });
    dates.max()
}
