//! State of the tickerplant and the operations on it. Owned by the event-loop thread.
//!
//! The updates of one event-loop iteration are collected, logged with one write, and only then published ([`Plant::settle`]). Every
//! operation that reads the state or changes subscriptions settles first, so that every index sent to a peer is exact.

mod announce;
mod arguments;
mod asg;
pub mod calls;
mod catching_up;
mod change_schema;
mod confirm;
mod connection;
mod conns;
mod copies;
mod effects;
mod figures;
mod followers;
mod full_disk;
pub mod functions;
mod health;
mod held;
mod leaving;
mod log_side;
mod member;
mod members;
mod merging;
mod messages;
mod options;
mod owners;
pub mod permit;
mod proofs;
mod publish;
mod queue;
pub mod reader;
mod rejected;
mod roll;
mod schema;
mod sequenced;
pub mod shape;
mod slow;
mod state;
mod stats;
mod subscribe;
mod timekeeper;
mod trading;
pub mod values;
pub mod variables;
mod verification;
mod wake;
mod written;

pub use copies::OwnLease;
pub use options::{PlantOptions, StartError};
pub use state::HandOver;
pub use stats::Stats;

use super::catchup;
use super::core::batch::Batch;
use super::core::schema::Tables;
use super::feed::{Feed, FeedLimits};
use super::follow::serve::Place;
use super::logged_schema::Reading;
use super::node_fleet::NodeFleet;
use super::publishers::{PublisherLimits, Publishers};
use super::quarantine::Quarantine;
use super::quarantine::keeper::Keeper;
use super::rejections::Rejections;
use super::sequence_state::{self, Restored, SequenceState};
use super::subscriptions::Subscriptions;
use crate::access::member::ClusterSecret;
use crate::audit::{Entry, Sums, readable};
use crate::config::Limits;
use crate::election::Tenure;
use crate::env::Env;
use crate::log::{self, Locked, LogWriter, Waker};
use crate::net::{ConnId, Links};
use crate::queue::Date;
use bytes::Bytes;
use catching_up::CatchUp;
use followers::Followers;
use held::HeldResponses;
use leaving::Departure;
use log_side::LogSide;
use members::Members;
use merging::Merging;
use queue::QueueShell;
use schema::Schemas;
use slow::SlowConsumers;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use timekeeper::Timekeeper;
use trading::MarketOpen;
use verification::Verification;

/// State of the tickerplant. Each part owns its fields; what touches several parts is in the files of the operations.
pub struct Plant {
    env: Env,
    pub stats: Stats,
    pub quarantine: Quarantine,
    /// Keeps the quarantine over a restart.
    keeper: Keeper,
    /// Responses that wait for it.
    held: HeldResponses,
    /// Rejected updates whose numbers are accepted in this iteration, once they are logged.
    accepted_since: Vec<u64>,
    pub limits: Limits,
    /// Limits of an update's object.
    codec: proto::Limits,
    time: Timekeeper,
    schemas: Schemas,
    batch: Batch,
    merging: Merging,
    log: LogSide,
    retry: full_disk::Retry,
    feed: Feed<ConnId>,
    slow: SlowConsumers,
    subscriptions: Subscriptions<ConnId>,
    queue: QueueShell,
    catch_up: CatchUp,
    verification: Verification,
    block_writes: bool,
    coerce: bool,
    members: Members,
    followers: Followers,
    /// What each connection has published, for the audit log; `None` without one.
    published: Option<Sums<ConnId>>,
    rejections: Rejections<ConnId>,
    publishers: Publishers<ConnId>,
    /// `None` without a log.
    sequences: Option<SequenceState>,
    /// Where this process is reached, and its lease, as its options say.
    address: Option<String>,
    lease: Option<String>,
    tenure: Option<Arc<Tenure>>,
    /// The lease was over at the beginning of this iteration.
    is_over: bool,
    departure: Departure,
    /// Requests the first nodes of queues without nodes.
    nodes: Option<NodeFleet>,
    market: MarketOpen,
}

impl super::feed::Outboxes<ConnId> for dyn Links + '_ {
    fn waiting_bytes(&self, subscriber: ConnId) -> usize {
        self.outbox_bytes(subscriber)
    }

    fn all_waiting_bytes(&self) -> usize {
        self.outboxes_bytes()
    }

    fn is_user_full(&self, subscriber: ConnId) -> bool {
        Links::is_user_full(self, subscriber)
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

impl Plant {
    /// Opens the log and journal of the day, repairs a torn end left by a crash, and starts the threads.
    ///
    /// # Errors
    /// Those of the log, if another tickerplant has it open or it is damaged before its end; those of the system.
    pub fn start(env: Env, options: PlantOptions, tables: Arc<Tables>, waker: Waker) -> Result<Plant, StartError> {
        let locked = match &options.dir {
            Some(dir) => Some(Locked::take(&options.log(&env, dir, &waker)?)?),
            None => None,
        };
        Plant::start_locked(locked, env, options, tables, waker)
    }

    /// As [`Plant::start`], with the right to write the log; `None` for a tickerplant without a log.
    ///
    /// # Errors
    /// Those of the log and of the system.
    pub fn start_locked(
        locked: Option<Locked>,
        env: Env,
        options: PlantOptions,
        tables: Arc<Tables>,
        waker: Waker,
    ) -> Result<Plant, StartError> {
        let place = |dir: &PathBuf| Place { dir: dir.clone(), src: options.src.clone() };
        let newest = options.dir.as_ref().and_then(|dir| Some(Date(*place(dir).dates(&*env.disk).ok()?.last()?)));
        let time = Timekeeper::start(&env.clock, options.clock(), newest, options.clock_limits());
        let is_past = time.is_due();
        let log = match (&options.dir, locked) {
            (Some(dir), Some(locked)) => {
                LogSide::open(locked, options.log(&env, dir, &waker)?, time.date(), options.keep_days)?
            }
            _ => LogSide::default(),
        };
        let reading =
            Reading { limits: options.limits.codec(), chunk_bytes: chunk_bytes(&options.limits), tip: log.tip() };
        let schemas = Schemas::adopt(&env, tables, log.path(), reading, is_past)?;
        let (queue, is_restored) = QueueShell::open(&env.disk, options.queue, time.date(), log.path())?;
        let (coerce, src, dir) = (options.coerce, options.src, options.dir);
        let (address, lease, tenure) = (options.address, options.lease, options.tenure);
        let place = log.directory().map(|dir| Place { dir: dir.to_path_buf(), src: src.clone() });
        let replicas = (options.durability, options.replica_timeout, options.replica_missing);
        let followers = Followers::new(Arc::clone(&waker), place, replicas, options.copy);
        let mut plant = Plant::with(
            env,
            options.limits,
            (options.batch, options.block_writes, options.secret),
            Arc::clone(&waker),
            (time, log, schemas, queue),
            followers,
        )?;
        (plant.coerce, plant.address, plant.lease, plant.tenure) = (coerce, address, lease, tenure);
        plant.nodes = options.nodes;
        plant.keeper = Keeper::open(&plant.env, dir.as_deref(), &src, &mut plant.quarantine, waker);
        if is_restored {
            plant.restored();
        }
        plant.continue_market_day();
        if let Some(dir) = &dir {
            let reading = sequence_state::Reading { limits: plant.codec, chunk_bytes: chunk_bytes(&plant.limits) };
            let today = (plant.time.date(), plant.log.tip());
            let at = (dir.as_path(), src.as_str());
            let mut restored = Restored::new(&mut plant.publishers, &mut plant.quarantine);
            plant.sequences = Some(SequenceState::open(&plant.env, at, reading, today, &mut restored)?);
            let accepted = restored.accepted;
            plant.keep_accepted(accepted);
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
        followers: Followers,
    ) -> io::Result<Plant> {
        let (codec, chunk_bytes, tip) = (limits.codec(), chunk_bytes(&limits), log.tip());
        let setup = catchup::Setup { env: env.clone(), tables: schemas.current(), limits: codec, chunk_bytes };
        let tables = Arc::clone(schemas.tables());
        Ok(Plant {
            catch_up: CatchUp::start(setup, Arc::clone(&waker), log.source())?,
            verification: Verification::start(&env, schemas.current(), codec, chunk_bytes, waker)?,
            stats: Stats::default(),
            quarantine: Quarantine::new(size(limits.quarantine_updates), size(limits.quarantine_bytes)),
            keeper: Keeper::default(),
            held: HeldResponses::new(size(limits.held_responses_bytes)),
            accepted_since: Vec::new(),
            batch: Batch::new(tip),
            merging: Merging::new(batch, &tables, env.clock.now()),
            feed: Feed::new(Arc::clone(&tables), feed_limits(&limits), tip),
            slow: SlowConsumers::default(),
            subscriptions: Subscriptions::new(tables.len()),
            publishers: Publishers::new(PublisherLimits {
                ids: size(limits.publishers),
                id_bytes: size(limits.publisher_id_bytes),
            }),
            limits,
            codec,
            env,
            time,
            schemas,
            log,
            retry: full_disk::Retry::default(),
            queue,
            block_writes,
            coerce: false,
            members: Members::new(secret),
            followers,
            published: None,
            rejections: Rejections::default(),
            sequences: None,
            address: None,
            lease: None,
            tenure: None,
            is_over: false,
            departure: Departure::default(),
            nodes: None,
            market: MarketOpen::default(),
        })
    }

    /// Sums what connections publish, for the audit log.
    pub fn sum_published(&mut self) {
        self.published = Some(Sums::default());
    }

    /// Returns when the sums are to be recorded.
    pub fn sums_due(&self) -> Option<Instant> {
        self.published.as_ref()?.due()
    }

    /// Leaves the sums where they are, for a while.
    pub fn postpone_sums(&mut self) {
        self.published.iter_mut().for_each(Sums::postpone);
    }

    /// Returns the sums as records: those of a connection that has closed, or all.
    pub fn take_sums(&mut self, closed: Option<ConnId>) -> Vec<Entry> {
        let tables = Arc::clone(self.schemas.tables());
        let name = |at: usize| tables.iter().nth(at).map_or_else(String::new, |table| readable(&table.name));
        match (&mut self.published, closed) {
            (None, _) => Vec::new(),
            (Some(sums), Some(conn)) => sums.closed(conn, name),
            (Some(sums), None) => sums.take(name),
        }
    }

    /// Whether a connection has a subscription or is a node.
    pub fn serves(&self, conn: ConnId) -> bool {
        self.feed.is_subscribed(conn) || self.is_member(conn).is_ok() || self.followers.has(conn)
    }

    /// Returns the environment in which it was started.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Takes the time of this event-loop iteration, and rolls the day if it is due.
    pub fn begin_iteration(&mut self, ctl: &mut dyn Links) {
        if !self.time.begin_iteration() {
            return;
        }
        self.is_over = self.tenure.as_ref().is_some_and(|tenure| tenure.is_over());
        if let Some(event) = self.time.check_clock(self.log.path()) {
            self.drive_day(event, ctl);
        }
    }

    /// Ends the event-loop iteration: logs and publishes its updates.
    pub fn end_iteration(&mut self, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.wake_for_updates(ctl);
        self.catch_up.close_unused(self.feed.behind());
        self.time.end_iteration();
    }

    /// Returns the next time at which [`Plant::timer`] has work: the roll of the day, a batch, a grace period, or a verification to
    /// retry.
    pub fn deadline(&self) -> Option<Instant> {
        let roll = self.env.clock.now().checked_add(self.time.left());
        let (asked, replicas) = self.followers.deadlines();
        let replicas =
            replicas.into_iter().chain(self.leaving_due_ns()).min().and_then(|at_ns| self.time.instant(at_ns));
        let others = [
            self.queue_deadline(),
            self.merging.deadline(),
            self.verification.deadline(),
            self.retry.at(),
            asked,
            replicas,
        ];
        roll.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Returns the clock of the queue's grace periods.
    pub fn steady_ns(&self) -> i64 {
        self.time.steady_ns()
    }

    /// Runs everything that is due.
    pub fn timer(&mut self, ctl: &mut dyn Links) {
        self.begin_iteration(ctl);
        self.resume_if_due(ctl);
        if self.merging.is_due(ctl.now()) {
            self.flush_merged(ctl);
            self.merging.flushed(ctl.now());
        }
        self.wake_for_market(ctl);
        if self.queue_is_due() {
            self.queue_tick(ctl);
        }
        self.verification.retry(self.env.clock.now());
        self.serve_followers(ctl);
        self.acknowledge(ctl);
    }

    /// Takes the results of other threads.
    pub fn woken(&mut self, ctl: &mut dyn Links) {
        self.begin_iteration(ctl);
        if let Err(error) = self.log.check() {
            self.fail(&error, ctl);
        }
        self.log.look_at_path();
        self.look_at_copies(ctl);
        self.serve_followers(ctl);
        self.acknowledge(ctl);
        self.send_held(ctl);
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
        let Some(read) = self.feed.pump(conn, ctl) else {
            self.note_caught_up(conn, ctl);
            return self.catch_up.close_unused(self.feed.behind());
        };
        let Some(log) = self.catch_up.log_of(read.from.day) else {
            return ctl.close(conn, "too slow, and there is no log for catch-up");
        };
        if let Err(error) = self.log.flush_until(read.until) {
            self.fail(&error, ctl);
            // A log that waits for room on a full disk has all before the buffer, and no other read of this subscriber follows.
            if !self.can_resume() {
                return;
            }
        }
        let writes_behind = self.log.writer().is_some_and(LogWriter::writes_behind);
        self.catch_up.read(read, log, writes_behind);
    }

    fn caught_up(&mut self, done: catchup::Done<ConnId>, ctl: &mut dyn Links) {
        match done.outcome {
            Ok(read) => {
                if self.feed.chunk(done.subscriber, done.serial, read, ctl) {
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
        self.slow.closed(conn);
        self.subscriptions.remove_everywhere(conn);
        self.members.closed(conn);
        self.follower_left(conn, ctl);
        self.rejections.closed(conn);
        self.publishers.closed(conn);
        self.forget_old_logs();
        self.leave_queue(conn, ctl);
    }

    /// Clean shutdown: flushes everything, makes it durable, and notifies the nodes.
    pub fn stop(&mut self, reason: &str, ctl: &mut dyn Links) {
        self.flush_merged(ctl);
        self.log_stop(reason);
        self.announce_end(reason, ctl);
        self.save_sequences();
        let acks = self.log.close();
        self.keeper.close();
        acks.into_iter().for_each(|ack| ctl.reply(ack.request, ack.answer));
        // It is settled, or was not in time.
        while let Some((request, answer)) = self.held.next(|_| true) {
            ctl.reply(request, answer);
        }
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
