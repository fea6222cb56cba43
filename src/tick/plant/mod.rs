//! State of the tickerplant and the operations on it. Owned by the event-loop thread.
//!
//! The updates of one event-loop iteration are collected, logged with one write, and only then published ([`Plant::settle`]). Every
//! operation that reads the state or changes subscriptions settles first, so that every index sent to a peer is exact.

mod arguments;
mod asg;
pub mod calls;
mod figures;
pub mod functions;
mod log_file;
mod publish;
mod queue;
mod roll;
mod schema;
pub mod shape;
mod stats;
mod subscribe;
pub mod values;

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
use super::merge::Merge;
use super::quarantine::Quarantine;
use super::space::Space;
use super::subscriptions::Subscriptions;
use super::verify;
use super::worker::Worker;
use crate::config::units::RollTime;
use crate::config::{Damage, Durability, Limits, RequiredMount};
use crate::lease::Epoch;
use crate::log::{self, LogError, LogOptions, LogSource, LogWriter, Sample, Waker, disk};
use crate::net::{ConnId, Links};
use crate::points::{self, Point};
use crate::protocol::ToNode;
use crate::queue::{Date, Now, Params, Queue};
use crate::sys::clock as time;
use bytes::Bytes;
use queue::encoded;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Poll interval of the wall clock while idle: after the clock is set forward, an idle tickerplant rolls at most that late.
const LOOK_AT_WALL_NS: i64 = 1_000_000_000;

/// How long a log that another thread writes may take to show accepted updates.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// A response held back until the updates it confirms are as durable as promised.
struct Ack {
    /// All updates before this index must be as durable as promised.
    index: u64,
    request: crate::net::Request,
    answer: Bytes,
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
    src: String,
    dir: Option<PathBuf>,
    batch_every: Option<Duration>,
    batch: Batch,
    merge: Option<Merge>,
    next_flush: Option<Instant>,
    log: Option<LogWriter>,
    /// Free space on the log's file system.
    space: Option<Space>,
    /// Set once the log cannot be written any more.
    failure: Option<String>,
    /// Another program has truncated the log.
    is_cut: bool,
    /// Why the day has not ended although it is due.
    roll_held: Option<String>,
    /// Last logged reason why the log's path does not lead to the log.
    elsewhere_told: Option<String>,
    /// Logs of ended days whose paths did not lead to them: a file without a name exists only while it is open.
    ended_elsewhere: Vec<(Date, LogSource)>,
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
    acks: VecDeque<Ack>,
    /// Logs that a subscriber in catch-up may still need, by the feed's day number.
    logs: BTreeMap<u32, LogSource>,
    catchup: Worker<catchup::Job<ConnId>, Option<catchup::Done<ConnId>>>,
    /// A catch-up reader has the log open; close it once no subscriber is in catch-up.
    reads_log: bool,
    verify: Worker<verify::Job, verify::Done>,
    /// Verification jobs to retry, with their retry time.
    unanswered: Vec<(Instant, verify::Job)>,
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
        let (mut log, mut space) = (None, None);
        if let Some(dir) = &dir {
            let dir = std::path::absolute(dir)?;
            let of_space = dir.clone();
            let options = LogOptions {
                dir,
                src: src.clone(),
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
            let (writer, report) = LogWriter::open(options, clock::civil_date(day.date()))?;
            match report.missing {
                0 => tracing::info!("{report}"),
                _ => tracing::error!("{report}"),
            }
            points::reach(Point::StartLogOpened);
            log = Some(writer);
            space = Some(Space::watch(of_space)?);
        }
        let tip = log.as_ref().map_or(0, LogWriter::tip);
        let mut adopted = Adopted { tables, changed: Changed::new() };
        if let Some(log) = &log {
            let reading = Reading { limits: codec, chunk_bytes: size(limits.log_read_chunk_bytes), tip };
            // A past day ends at once: its records need not fit the schema that follows.
            adopted = match due {
                true => logged_schema::go_on_from(log.path(), &adopted, &codec),
                false => logged_schema::adopt(log.path(), &adopted, reading)?,
            };
        }
        let Adopted { tables, changed } = adopted;
        let current = Current::new(Arc::clone(&tables));
        let (mut queue, mut journal, mut restored) = (Queue::new(params.clone(), day.date()), Journal::None, false);
        if let Some(log) = &log {
            let path = log::queue_path(log.path());
            let (file, found, any) = JournalFile::open(&path, params, day.date())?;
            points::reach(Point::StartJournalRead);
            (queue, journal, restored) = (found, Journal::Open(file), any);
        }
        let setup =
            catchup::Setup { tables: current.clone(), limits: codec, chunk_bytes: size(limits.log_read_chunk_bytes) };
        let catchup = catchup::start(setup, Arc::clone(&waker))?;
        let chunk_bytes = size(limits.log_read_chunk_bytes);
        let verify = verify::start(current.clone(), codec, chunk_bytes, waker)?;
        let mut sorted: Vec<usize> = (0..tables.len()).collect();
        sorted.sort_by_key(|table| tables.get(*table).map(|spec| spec.name.clone()));
        let mut plant = Plant {
            sorted,
            stats: Stats::default(),
            quarantine: Quarantine::new(size(limits.quarantine_updates), size(limits.quarantine_bytes)),
            codec,
            src,
            dir,
            batch: Batch::new(tip),
            merge: batch.is_some().then(|| Merge::new(&tables)),
            next_flush: batch.and_then(|every| time::now().checked_add(every)),
            batch_every: batch,
            logs: log.iter().map(|log| (0, log.source())).collect(),
            log,
            space,
            failure: None,
            is_cut: false,
            roll_held: None,
            elsewhere_told: None,
            ended_elsewhere: Vec::new(),
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
            acks: VecDeque::new(),
            catchup,
            reads_log: false,
            verify,
            unanswered: Vec::new(),
            tables,
            current,
            changed,
            operators: Vec::new(),
            limits,
        };
        if restored {
            plant.restored(tip);
            points::reach(Point::StartRestored);
        }
        if let Some(trouble) = plant.clock_trouble() {
            tracing::error!("{trouble}");
        }
        Ok(plant)
    }

    /// Takes the time of this event-loop iteration, and rolls the day if it is due.
    pub fn begin_turn(&mut self, ctl: &mut dyn Links) {
        if self.in_turn {
            return;
        }
        self.in_turn = true;
        self.utc_ns = clock::utc_now_ns();
        self.stamp = self.clock.stamp(self.utc_ns);
        self.look_at_clock(ctl);
    }

    /// Ends the event-loop iteration: logs and publishes its updates.
    pub fn end_turn(&mut self, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.let_go_of_logs();
        self.in_turn = false;
    }

    /// Closes the logs opened for catch-up once no subscriber is in catch-up.
    fn let_go_of_logs(&mut self) {
        if self.reads_log && self.feed.behind() == 0 {
            self.reads_log = false;
            self.catchup.submit(catchup::Job::LetGo);
        }
    }

    /// Returns the next time at which [`Plant::timer`] has work: the roll of the day, a batch, a grace period, or a verification to
    /// retry.
    pub fn deadline(&self) -> Option<Instant> {
        // The wall clock may be set forward while the loop is idle.
        let left_ns = self.day.left_ns(clock::of_day()).clamp(0, LOOK_AT_WALL_NS);
        let roll = time::now().checked_add(Duration::from_nanos(left_ns.unsigned_abs()));
        let again = self.unanswered.iter().map(|(at, _)| *at).min();
        roll.into_iter().chain(self.queue_deadline()).chain(self.next_flush).chain(again).min()
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
        self.begin_turn(ctl);
        if self.next_flush.is_some_and(|at| at <= ctl.now()) {
            self.flush_merged(ctl);
            self.next_flush = self.batch_every.and_then(|every| ctl.now().checked_add(every));
        }
        if self.queue.next_deadline_ns().is_some_and(|at_ns| at_ns <= self.steady.now_ns()) {
            self.queue_tick(ctl);
        }
        self.ask_log_again();
    }

    /// Takes the results of other threads.
    pub fn woken(&mut self, ctl: &mut dyn Links) {
        self.begin_turn(ctl);
        if let Some(Err(error)) = self.log.as_mut().map(LogWriter::check) {
            self.fail(&error, ctl);
        }
        self.look_at_log_file();
        self.acknowledge(ctl);
        while let Some(done) = self.catchup.result() {
            if let Some(done) = done {
                self.caught_up(done, ctl);
            }
        }
        while let Some(done) = self.verify.result() {
            self.verified(done, ctl);
        }
    }

    /// Simulation hook: whether a background thread has a job.
    pub fn work_is_due(&self) -> bool {
        self.catchup.is_due() || self.verify.is_due()
    }

    /// Simulation hook: runs one job of each background thread.
    pub fn step_work(&self) {
        self.catchup.step();
        self.verify.step();
    }

    /// Returns the log of the day.
    pub fn log(&self) -> Option<&LogWriter> {
        self.log.as_ref()
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
        let Some(read) = self.feed.pump(conn, ctl) else { return self.let_go_of_logs() };
        let Some(log) = self.logs.get(&read.from.day).cloned() else {
            return ctl.close(conn, "too slow, and there is no log to feed it from");
        };
        // With durability `none`, buffered updates are not in the file yet.
        if self.log.as_ref().is_some_and(|log| log.written_tip() < read.until)
            && let Some(Err(error)) = self.log.as_mut().map(LogWriter::flush)
        {
            return self.fail(&error, ctl);
        }
        let is_behind = self.log.as_ref().is_some_and(LogWriter::writes_behind);
        let patience = if is_behind { PATIENCE } else { Duration::ZERO };
        self.reads_log = true;
        self.catchup.submit(catchup::Job::Read(catchup::Part { read, log, patience }));
    }

    fn caught_up(&mut self, done: catchup::Done<ConnId>, ctl: &mut dyn Links) {
        match done.outcome {
            Ok((messages, reached)) => {
                points::reach(Point::CatchUpRead);
                if self.feed.chunk(done.subscriber, done.serial, messages, reached, ctl) {
                    self.writable(done.subscriber, ctl);
                }
                self.forget_old_logs();
            }
            Err(error) => {
                tracing::error!(handle = done.subscriber.handle(), %error, "cannot feed the subscriber from the log");
                ctl.close(done.subscriber, "its part of the log cannot be read");
            }
        }
    }

    fn forget_old_logs(&mut self) {
        let oldest = self.feed.oldest_day();
        self.logs.retain(|day, _| *day >= oldest);
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
        points::reach(Point::ByeSaid);
        if let Some(log) = self.log.take() {
            if let Some(why) = log.elsewhere() {
                tracing::error!("{why}");
            }
            match log.close() {
                Ok(()) => {
                    let all = std::mem::take(&mut self.acks);
                    all.into_iter().for_each(|ack| ctl.reply(ack.request, ack.answer));
                }
                Err(error) => tracing::error!("{error}"),
            }
        }
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
        self.log.as_ref().map(|log| log::handle(log.path()).into_bytes()).unwrap_or_default()
    }

    /// Returns the path of the day's log.
    pub fn log_path(&self) -> Option<&Path> {
        self.log.as_ref().map(LogWriter::path)
    }

    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Returns samples of the log's content, by which a node checks the file that it reads.
    fn samples(&self) -> Vec<Sample> {
        self.log.as_ref().map(LogWriter::samples).unwrap_or_default()
    }

    /// Returns the epoch of the log's writer; 0 without a log.
    fn epoch(&self) -> Epoch {
        Epoch(self.log.as_ref().map_or(0, |log| log.writer_id().epoch))
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
