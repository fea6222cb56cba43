//! State of the tickerplant and the operations on it. Owned by the event-loop thread.
//!
//! The updates of one event-loop iteration are collected, logged with one write, and only then published ([`Plant::settle`]). Every
//! operation that reads the state or changes subscriptions settles first, so that every index sent to a peer is exact.

mod arguments;
mod asg;
pub mod calls;
mod catching_up;
mod change_schema;
mod connection;
mod effects;
mod figures;
pub mod functions;
mod log_side;
mod member;
mod members;
mod merging;
mod messages;
pub mod permit;
mod proofs;
mod publish;
mod queue;
mod roll;
mod schema;
pub mod shape;
mod stats;
mod subscribe;
mod timekeeper;
pub mod values;
pub mod variables;
mod verification;

pub use stats::Stats;

use super::catchup;
use super::clock;
use super::core::batch::Batch;
use super::core::schema::Tables;
use super::day::Believed;
use super::feed::{Feed, FeedLimits};
use super::logged_schema::{LoggedSchemaError, Reading};
use super::quarantine::Quarantine;
use super::subscriptions::Subscriptions;
use crate::access::member::ClusterSecret;
use crate::config::units::RollTime;
use crate::config::{Damage, Durability, Limits, RequiredMount};
use crate::env::{Disk, Env};
use crate::log::{self, LogError, LogOptions, LogWriter, Waker};
use crate::net::{ConnId, Links};
use crate::protocol::ToNode;
use crate::queue::{Date, Params};
use bytes::Bytes;
use catching_up::CatchUp;
use log_side::LogSide;
use members::Members;
use merging::Merging;
use messages::encoded;
use queue::QueueShell;
use schema::Schemas;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use timekeeper::Timekeeper;
use verification::Verification;

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
    /// Clients may not change data, unless a users file says so (`-b`).
    pub block_writes: bool,
    /// The secret that nodes must know to join; `None` if the role is enough.
    pub secret: Option<ClusterSecret>,
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

/// State of the tickerplant. Each part owns its fields; what touches several parts is in the files of the operations.
pub struct Plant {
    env: Env,
    pub stats: Stats,
    pub quarantine: Quarantine,
    pub limits: Limits,
    /// Limits of an update's object.
    codec: proto::Limits,
    time: Timekeeper,
    schemas: Schemas,
    batch: Batch,
    merging: Merging,
    log: LogSide,
    feed: Feed<ConnId>,
    subscriptions: Subscriptions<ConnId>,
    queue: QueueShell,
    catch_up: CatchUp,
    verification: Verification,
    block_writes: bool,
    members: Members,
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

/// Bytes of a log read at once.
fn chunk_bytes(limits: &Limits) -> usize {
    size(limits.log_read_chunk_bytes)
}

fn feed_limits(limits: &Limits) -> FeedLimits {
    let outbox_bytes = size(limits.outbox_bytes);
    FeedLimits {
        outbox_bytes,
        crowded_outbox_bytes: outbox_bytes.min(1 << 20),
        outboxes_bytes: size(limits.outboxes_bytes),
        low_bytes: outbox_bytes / 4,
        chunk_bytes: chunk_bytes(limits).min(outbox_bytes / 2).max(1),
        recent_bytes: outbox_bytes.min(16 << 20),
        marks: 1024,
        lanes: size(limits.lanes),
    }
}

impl PlantOptions {
    /// Returns the limits within which the wall clock is trusted.
    fn believed(&self) -> Believed {
        let ns = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        let Limits { clock_jump_ns, clock_start_ns, .. } = self.limits;
        Believed { jump_ns: ns(clock_jump_ns), pause_ns: ns(clock_start_ns), today: self.today }
    }

    /// Returns the options of the log in this directory.
    fn log(&self, env: &Env, dir: &Path, waker: &Waker) -> io::Result<LogOptions> {
        Ok(LogOptions {
            env: env.clone(),
            dir: std::path::absolute(dir)?,
            src: self.src.clone(),
            durability: self.durability,
            damage: self.damage,
            mount: self.mount.clone(),
            epoch: None,
            limits: self.limits.codec(),
            chunk_bytes: chunk_bytes(&self.limits),
            buffer_bytes: size(self.limits.log_buffer_bytes),
            // The event loop checks the durable tip in every iteration.
            waker: Some(Arc::clone(waker)),
        })
    }
}

impl Plant {
    /// Opens the log and journal of the day, repairs a torn end left by a crash, and starts the threads.
    ///
    /// # Errors
    /// Those of the log, if another tickerplant has it open or it is damaged before its end; those of the system.
    pub fn start(env: Env, options: PlantOptions, tables: Arc<Tables>, waker: Waker) -> Result<Plant, StartError> {
        let newest = options.dir.as_ref().and_then(|dir| newest_log(&*env.disk, dir, &options.src));
        let time = Timekeeper::start(&env.clock, options.roll.clone(), newest, options.believed());
        let is_past = time.is_due();
        let log = match &options.dir {
            Some(dir) => LogSide::open(options.log(&env, dir, &waker)?, time.date())?,
            None => LogSide::default(),
        };
        let reading =
            Reading { limits: options.limits.codec(), chunk_bytes: chunk_bytes(&options.limits), tip: log.tip() };
        let schemas = Schemas::adopt(&env, tables, log.path(), reading, is_past)?;
        let (queue, is_restored) = QueueShell::open(&env.disk, options.queue, time.date(), log.path())?;
        let mut plant = Plant::with(
            env,
            options.limits,
            (options.batch, options.block_writes, options.secret),
            waker,
            (time, log, schemas, queue),
        )?;
        if is_restored {
            plant.restored();
        }
        if let Some(trouble) = plant.clock_trouble() {
            tracing::error!("{trouble}");
        }
        Ok(plant)
    }

    /// Starts the threads and puts the parts together.
    fn with(
        env: Env,
        limits: Limits,
        (batch, block_writes, secret): (Option<Duration>, bool, Option<ClusterSecret>),
        waker: Waker,
        (time, log, schemas, queue): (Timekeeper, LogSide, Schemas, QueueShell),
    ) -> io::Result<Plant> {
        let (codec, chunk_bytes, tip) = (limits.codec(), chunk_bytes(&limits), log.tip());
        let setup = catchup::Setup { env: env.clone(), tables: schemas.current(), limits: codec, chunk_bytes };
        let tables = Arc::clone(schemas.tables());
        Ok(Plant {
            catch_up: CatchUp::start(setup, Arc::clone(&waker), log.source())?,
            verification: Verification::start(&env, schemas.current(), codec, chunk_bytes, waker)?,
            stats: Stats::default(),
            quarantine: Quarantine::new(size(limits.quarantine_updates), size(limits.quarantine_bytes)),
            batch: Batch::new(tip),
            merging: Merging::new(batch, &tables, env.clock.now()),
            feed: Feed::new(Arc::clone(&tables), feed_limits(&limits), tip),
            subscriptions: Subscriptions::new(tables.len()),
            limits,
            codec,
            env,
            time,
            schemas,
            log,
            queue,
            block_writes,
            members: Members::new(secret),
        })
    }

    /// Returns the environment in which it was started.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Takes the time of this event-loop iteration, and rolls the day if it is due.
    pub fn begin_iteration(&mut self, ctl: &mut dyn Links) {
        if self.time.begin_iteration()
            && let Some(event) = self.time.look(self.log.path())
        {
            self.drive_day(event, ctl);
        }
    }

    /// Ends the event-loop iteration: logs and publishes its updates.
    pub fn end_iteration(&mut self, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.catch_up.let_go(self.feed.behind());
        self.time.end_iteration();
    }

    /// Returns the next time at which [`Plant::timer`] has work: the roll of the day, a batch, a grace period, or a verification to
    /// retry.
    pub fn deadline(&self) -> Option<Instant> {
        let roll = self.env.clock.now().checked_add(self.time.left());
        let others = [self.queue_deadline(), self.merging.deadline(), self.verification.deadline()];
        roll.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Returns the clock of the queue's grace periods.
    pub fn steady_ns(&self) -> i64 {
        self.time.steady_ns()
    }

    /// Runs everything that is due.
    pub fn timer(&mut self, ctl: &mut dyn Links) {
        self.begin_iteration(ctl);
        if self.merging.is_due(ctl.now()) {
            self.flush_merged(ctl);
            self.merging.flushed(ctl.now());
        }
        if self.queue_is_due() {
            self.queue_tick(ctl);
        }
        self.verification.retry(self.env.clock.now());
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

    /// Returns the log of the day.
    pub fn log(&self) -> Option<&LogWriter> {
        self.log.writer()
    }

    /// Returns the index of the next update.
    pub fn tip(&self) -> u64 {
        self.feed.tip().index
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
        self.members.closed(conn);
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
        let nodes = self.queue.nodes().filter_map(|(handle, _)| ctl.by_handle(handle.0));
        nodes.collect::<Vec<_>>().into_iter().for_each(|conn| ctl.send(conn, bye.clone()));
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
fn newest_log(disk: &dyn Disk, dir: &std::path::Path, src: &str) -> Option<Date> {
    let dates = disk.list(dir).ok()?.into_iter().filter_map(|path| {
        let date = log::date_of(&path)?;
        (path == log::log_path(dir, src, date)).then(|| clock::day_number(date))
    });
    dates.max()
}
