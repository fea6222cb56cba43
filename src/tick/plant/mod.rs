//! The tickerplant's state and what can be done with it. One thread owns it: the loop's.
//!
//! Updates of a turn are gathered, logged with one write, and only then published ([`Plant::settle`]). Everything that looks at
//! the state or changes subscriptions settles first, so that an index that is told to anyone is exact.

mod arguments;
mod asg;
pub mod calls;
mod figures;
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
use super::day::Day;
use super::feed::{Feed, FeedLimits};
use super::journal::{Journal, JournalFile};
use super::logged_schema::{self, Adopted, Changed, LoggedSchemaError, Reading};
use super::merge::Merge;
use super::messages::{self, Place};
use super::quarantine::Quarantine;
use super::space::Space;
use super::subscriptions::Subscriptions;
use super::verify;
use super::worker::Worker;
use crate::config::units::RollTime;
use crate::config::{Damage, Durability, Limits, RequiredMount};
use crate::log::{self, LogError, LogOptions, LogSource, LogWriter, Waker, disk};
use crate::net::{ConnId, Links};
use crate::points::{self, Point};
use crate::queue::{Date, Now, Params, Queue};
use crate::sys::clock as time;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the wall clock is looked at while nothing happens: an idle tickerplant rolls so late at most after a step forward.
const LOOK_AT_WALL_NS: i64 = 1_000_000_000;

/// How long a log that a thread writes may take to show what was accepted.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a tickerplant is started with.
pub struct PlantOptions {
    pub src: String,
    /// Directory of the logs; nothing is logged without one.
    pub dir: Option<PathBuf>,
    pub durability: Durability,
    pub damage: Damage,
    /// What the log must be on.
    pub mount: RequiredMount,
    /// Batch mode: how often to publish.
    pub batch: Option<Duration>,
    pub roll: RollTime,
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

/// An answer that is held back until what it confirms is as durable as promised.
struct Ack {
    /// Updates before this one must be.
    index: u64,
    request: crate::net::Request,
    answer: Bytes,
}

/// The tickerplant.
pub struct Plant {
    pub tables: Arc<Tables>,
    /// The same, for the threads beside the loop.
    current: Current,
    /// Tables that `.u.schema` has changed.
    changed: Changed,
    /// Users who may call `.u.schema`.
    pub operators: Vec<Vec<u8>>,
    /// `.u.t`: tables by name.
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
    /// Of the log's file system.
    space: Option<Space>,
    /// Set once nothing can be logged any more.
    failure: Option<String>,
    /// Because another program has cut the log.
    is_cut: bool,
    /// Why the day has not ended though its time has come.
    roll_held: Option<String>,
    /// Why the log's path does not lead to the log, as the alarm had it last.
    elsewhere_told: Option<String>,
    /// Logs of ended days whose paths did not lead to them: what has no name any more is there as long as it is open.
    ended_elsewhere: Vec<(Date, LogSource)>,
    feed: Feed<ConnId>,
    subscriptions: Subscriptions<ConnId>,
    queue: Queue,
    journal: Journal,
    members: BTreeMap<ConnId, queue::Member>,
    proofs: queue::Proofs,
    /// How many wait behind a live node, as it was last told.
    waiting_told: BTreeMap<ConnId, usize>,
    clock: Clock,
    steady: Steady,
    day: Day,
    /// Time of this turn; taken when the first message of a turn needs it.
    utc_ns: i64,
    stamp: Stamp,
    in_turn: bool,
    acks: VecDeque<Ack>,
    /// Logs that someone may still be fed from, by the feed's count of days.
    logs: BTreeMap<u32, LogSource>,
    catchup: Worker<catchup::Job<ConnId>, Option<catchup::Done<ConnId>>>,
    /// The log was read for someone who was behind since nobody was.
    reads_log: bool,
    verify: Worker<verify::Job, verify::Done>,
    /// What the log could not be asked, and when it is asked again.
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
    /// Opens log and journal of the day, repairs what a crash tore, and starts the threads.
    ///
    /// # Errors
    /// The log's, if another tickerplant has it or it is damaged in its middle; the system's.
    pub fn start(options: PlantOptions, tables: Arc<Tables>, waker: Waker) -> Result<Plant, StartError> {
        let PlantOptions { src, dir, durability, damage, mount, batch, roll, limits, queue: params } = options;
        let codec = proto::Limits {
            max_message_bytes: limits.message_bytes,
            max_decompressed_bytes: limits.decompressed_bytes,
            max_depth: size(limits.depth),
        };
        let clock = Clock::new(roll);
        let utc_ns = clock::utc_now_ns();
        let newest = dir.as_ref().and_then(|dir| newest_log(dir, &src));
        let (now, calendar) = (clock::of_day(), clock.calendar(utc_ns));
        let day = Day::start(newest, calendar, now, i64::try_from(limits.clock_jump_ns).unwrap_or(i64::MAX));
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
                // The loop looks at the durable tip whenever it turns.
                waker: Some(Arc::clone(&waker)),
            };
            let (writer, report) = LogWriter::open(options, clock::civil_date(day.date()))?;
            ::log::log!(if report.missing > 0 { ::log::Level::Error } else { ::log::Level::Info }, "{report}");
            points::reach(Point::StartLogOpened);
            log = Some(writer);
            space = Some(Space::watch(of_space)?);
        }
        let tip = log.as_ref().map_or(0, LogWriter::tip);
        let mut adopted = Adopted { tables, changed: Changed::new() };
        if let Some(log) = &log {
            let reading = Reading { limits: codec, chunk_bytes: size(limits.log_read_chunk_bytes), tip };
            // A day that is over ends at once: its records need not fit what comes after it.
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
            ::log::error!("{trouble}");
        }
        Ok(plant)
    }

    /// The moment of this turn, nanoseconds from 2000.01.01 UTC. Rolls the day if it is due.
    pub fn begin_turn(&mut self, ctl: &mut dyn Links) {
        if self.in_turn {
            return;
        }
        self.in_turn = true;
        self.utc_ns = clock::utc_now_ns();
        self.stamp = self.clock.stamp(self.utc_ns);
        self.look_at_clock(ctl);
    }

    /// The turn is over: its updates are logged and published.
    pub fn end_turn(&mut self, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.let_go_of_logs();
        self.in_turn = false;
    }

    /// Has the logs closed that were read, once nobody is behind.
    fn let_go_of_logs(&mut self) {
        if self.reads_log && self.feed.behind() == 0 {
            self.reads_log = false;
            self.catchup.submit(catchup::Job::LetGo);
        }
    }

    /// When something is to be done without a message: the day's roll, the batch, a node's grace, a question to the log.
    pub fn deadline(&self) -> Option<Instant> {
        // The wall clock may be set forward while nothing happens.
        let left_ns = self.day.left_ns(clock::of_day()).clamp(0, LOOK_AT_WALL_NS);
        let roll = time::now().checked_add(Duration::from_nanos(left_ns.unsigned_abs()));
        let again = self.unanswered.iter().map(|(at, _)| *at).min();
        roll.into_iter().chain(self.queue_deadline()).chain(self.next_flush).chain(again).min()
    }

    /// When the queue has something to do without a message.
    pub fn queue_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline_ns().and_then(|at_ns| self.steady.instant(at_ns))
    }

    /// The time of a step of the queue.
    fn moment(&self) -> Now {
        Now { wall_ns: clock::utc_now_ns(), steady_ns: self.steady.now_ns() }
    }

    /// What times of the queue's graces are compared with.
    pub fn steady_ns(&self) -> i64 {
        self.steady.now_ns()
    }

    /// Does what is due.
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

    /// Another thread has finished something.
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

    /// Where a world steps: whether a thread beside the loop has a job.
    pub fn work_is_due(&self) -> bool {
        self.catchup.is_due() || self.verify.is_due()
    }

    /// Where a world steps: one job of each thread beside the loop.
    pub fn step_work(&self) {
        self.catchup.step();
        self.verify.step();
    }

    /// The day's log.
    pub fn log(&self) -> Option<&LogWriter> {
        self.log.as_ref()
    }

    /// Index of the next update.
    pub fn tip(&self) -> u64 {
        self.feed.tip().index
    }

    /// The queues, as they are.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// A subscriber that is behind has room.
    pub fn writable(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        let Some(read) = self.feed.pump(conn, ctl) else { return self.let_go_of_logs() };
        let Some(log) = self.logs.get(&read.from.day).cloned() else {
            return ctl.close(conn, "too slow, and there is no log to feed it from");
        };
        // What durability `none` holds back is not in the file yet.
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
                ::log::error!("cannot feed {} from the log: {error}", done.subscriber.handle());
                ctl.close(done.subscriber, "its part of the log cannot be read");
            }
        }
    }

    fn forget_old_logs(&mut self) {
        let oldest = self.feed.oldest_day();
        self.logs.retain(|day, _| *day >= oldest);
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: ConnId, ctl: &mut dyn Links) {
        self.settle(ctl);
        self.feed.remove(conn);
        self.subscriptions.remove_everywhere(conn);
        self.forget_old_logs();
        self.leave_queue(conn, ctl);
    }

    /// Clean end: everything flushed and durable, nodes told.
    pub fn stop(&mut self, reason: &str, ctl: &mut dyn Links) {
        self.flush_merged(ctl);
        self.say_bye(reason, ctl);
        points::reach(Point::ByeSaid);
        if let Some(log) = self.log.take() {
            if let Some(why) = log.elsewhere() {
                ::log::error!("{why}");
            }
            match log.close() {
                Ok(()) => {
                    let all = std::mem::take(&mut self.acks);
                    all.into_iter().for_each(|ack| ctl.reply(ack.request, ack.answer));
                }
                Err(error) => ::log::error!("{error}"),
            }
        }
    }

    /// Tells nodes to look for a tickerplant anew.
    fn say_bye(&mut self, reason: &str, ctl: &mut dyn Links) {
        let bye = messages::bye(reason);
        let natives: Vec<ConnId> =
            self.members.iter().filter(|(_, member)| member.form == Form::Indexed).map(|(conn, _)| *conn).collect();
        natives.into_iter().for_each(|conn| ctl.send(conn, bye.clone()));
    }

    /// The log's file handle as kdb+ has it; empty without a log.
    pub fn log_handle(&self) -> Vec<u8> {
        self.log.as_ref().map(|log| log::handle(log.path()).into_bytes()).unwrap_or_default()
    }

    /// The file that the day's updates are logged in.
    pub fn log_path(&self) -> Option<&Path> {
        self.log.as_ref().map(LogWriter::path)
    }

    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    fn place<'a>(&self, log: &'a [u8]) -> Place<'a> {
        Place {
            log,
            date: self.queue.date().0,
            writer: self.log.as_ref().map(LogWriter::writer_id),
            samples: self.log.as_ref().map(LogWriter::samples).unwrap_or_default(),
            tip: self.feed.tip().index,
        }
    }
}

/// The newest day that has a log in this directory.
fn newest_log(dir: &std::path::Path, src: &str) -> Option<Date> {
    let dates = disk::list(dir).ok()?.into_iter().filter_map(|path| {
        let date = log::date_of(&path)?;
        (path == log::log_path(dir, src, date)).then(|| clock::day_number(date))
    });
    dates.max()
}
