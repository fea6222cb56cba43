//! Copies the log of the active tickerplant, on a thread of its own.
//!
//! One call confirms what is on this disk and requests what follows. The thread syncs each response before the next call, so a publisher that waits
//! for a follower waits for one round trip and one sync, however many updates they carry.

use super::copy::Copy;
use super::ended::Ended;
use super::joining::{Action, Event, FIRST, Joining, Leader, Own, Refused};
use super::own_copy;
use super::serve::Place;
use super::status::{ClosedLog, SharedStatus, Status};
use super::stop::Stop;
use crate::access::member::ClusterSecret;
use crate::config::{Address, Addresses};
use crate::env::task::{Due, Running, Task};
use crate::log::{self, Locked, LogError, LogId, LogOptions, LogSource, LogWriter, Mark};
use crate::net::client::{Client, ClientError};
use crate::protocol::follow::{Beside, Greeted, Greeting, MAX_SUMS, Sums, read_sums};
use crate::protocol::prove;
use crate::queue::Date;
use crate::tick::clock::{civil_date, day_number};
use crate::tick::core::Tables;
use crate::tick::logged_schema::change_of;
use crate::tick::retention::Retention;
use crate::tick::sequence_state;
use proto::View;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time limit of a call, above the time for which the leader may wait before it responds.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// First and longest pause between two connections.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// What a follower needs to know.
pub struct FollowOptions {
    pub leaders: Addresses,
    /// Where this process is reached.
    pub name: String,
    /// Name of the copy in the record of the lease; empty without a lease.
    pub copy: String,
    pub secret: Option<ClusterSecret>,
    pub tables: Arc<Tables>,
    pub keep_days: Option<u32>,
    pub log: LogOptions,
}

/// The running copy.
pub struct Copier {
    pub status: SharedStatus,
    stop: Arc<Stop>,
    end: Option<Sender<()>>,
    running: Option<Box<dyn Running>>,
}

impl Copier {
    /// Starts the thread, which calls the log's waker once it cannot go on. `locked`: [`Locked::take_to_follow`].
    ///
    /// # Errors
    /// The system's.
    pub fn start(options: FollowOptions, (locked, id): (Locked, Option<LogId>)) -> Result<Copier, LogError> {
        let (env, dir) = (options.log.env.clone(), options.log.dir.clone());
        let thread = |error| LogError::io(&dir, "start a thread for the copy of")(error);
        let keep = |keep| Retention::start(&env, dir.clone(), options.log.src.clone(), keep);
        let retention = options.keep_days.map(keep).transpose().map_err(thread)?;
        let status = SharedStatus::default();
        let stop = Arc::<Stop>::default();
        let (end, ended) = channel();
        let place = Place { dir: dir.clone(), src: options.log.src.clone() };
        let task = Copying {
            options,
            place,
            log: Some(Log::Locked(Box::new(locked), id)),
            retention,
            status: status.clone(),
            stop: Arc::clone(&stop),
            ended,
            pause: Duration::ZERO,
            next: 0,
            is_over: false,
        };
        let running = env.spawner.spawn("follow", Box::new(task)).map_err(thread)?;
        Ok(Copier { status, stop, end: Some(end), running: Some(running) })
    }

    /// Returns a function that says where the leader is, `HOST:PORT`, while it is followed.
    pub fn leader_address(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let status = self.status.clone();
        move || {
            let Status { leader, is_connected, .. } = status.get();
            let leader: Address = leader.parse().ok().filter(|_| is_connected)?;
            Some(format!("{}:{}", leader.host, leader.port))
        }
    }

    /// Ends the copy: syncs and closes the log.
    pub fn finish(&mut self) {
        self.stop.ask();
        self.end = None;
        if let Some(running) = self.running.take() {
            running.join();
        }
    }
}

/// The own log.
enum Log {
    /// The right to write it, and its identity.
    Locked(Box<Locked>, Option<LogId>),
    Open(Box<LogWriter>, LogId),
}

/// The work of the thread.
struct Copying {
    options: FollowOptions,
    place: Place,
    /// `None` after an error of the log.
    log: Option<Log>,
    retention: Option<Retention>,
    status: SharedStatus,
    stop: Arc<Stop>,
    ended: Receiver<()>,
    pause: Duration,
    /// Which of the leader's addresses is next.
    next: usize,
    is_over: bool,
}

impl Task for Copying {
    fn wait(&mut self) -> bool {
        if !self.is_over && !self.stop.is_asked() {
            let waited = self.ended.recv_timeout(self.pause);
            self.is_over = waited != Err(RecvTimeoutError::Timeout);
        }
        if self.is_over || self.stop.is_asked() {
            self.close();
            return false;
        }
        true
    }

    fn due(&mut self) -> Due {
        if self.is_over { Due::Later } else { Due::Now }
    }

    fn work(&mut self) {
        let leaders: Vec<Address> = self.options.leaders.iter().cloned().collect();
        let Some(leader) = leaders.get(self.next % leaders.len().max(1)) else { return };
        let ended = self.session(leader);
        self.stop.closed();
        let was_copying = self.status.change(|status| std::mem::replace(&mut status.is_connected, false));
        self.pause = if was_copying { MIN_PAUSE } else { self.pause.saturating_mul(2).clamp(MIN_PAUSE, MAX_PAUSE) };
        match ended {
            Ok(()) | Err(Ended::Stopped) => {}
            Err(Ended::Lost(reason)) => {
                self.status.trouble(format!("{leader}: {reason}"));
                self.next = self.next.wrapping_add(1);
            }
            Err(Ended::Refused(reason)) => {
                self.status.trouble(format!("{leader}: {reason}"));
                self.next = self.next.wrapping_add(1);
                self.pause = MAX_PAUSE;
            }
            Err(Ended::Broken(error)) => {
                self.status.trouble(format!("the copy in {} cannot go on: {error}", self.place.dir.display()));
                if let Some(Log::Open(mut log, _)) = self.log.take() {
                    log.note_failure();
                }
                self.status.change(|status| status.failure = Some(error.to_string()));
                self.is_over = true;
                if let Some(waker) = &self.options.log.waker {
                    waker();
                }
            }
        }
    }
}

impl Copying {
    fn close(&mut self) {
        if let Some(Log::Open(log, _)) = self.log.take() {
            let (path, bytes) = (log.path().to_path_buf(), log.written_bytes());
            match log.place() {
                Ok(place) => self.status.change(|status| status.closed = Some(ClosedLog { path, place, bytes })),
                Err(error) => self.status.change(|status| status.failure = Some(error.to_string())),
            }
            match log.close() {
                Ok(()) => tracing::info!("the copy is synced and closed"),
                Err(error) => tracing::error!("{error}"),
            }
        }
    }

    /// Follows a leader until one of both ends.
    fn session(&mut self, leader: &Address) -> Result<(), Ended> {
        let limits = self.options.log.limits;
        let spawner = Arc::clone(&self.options.log.env.spawner);
        let mut client = self.stop.connect(&*spawner, leader, (ANSWER_WITHIN, limits), &self.place.dir)?;
        if let Some(secret) = &self.options.secret {
            let name = self.options.name.as_bytes();
            prove::exchange(&mut client, secret, name).map_err(|refused| Ended::Refused(refused.to_string()))?;
        }
        let greeting = {
            let FollowOptions { name, copy, log, .. } = &self.options;
            let bytes = |text: &String| text.clone().into_bytes();
            Greeting { src: bytes(&log.src), name: bytes(name), copy: bytes(copy) }
        };
        let greeted = call(&mut client, &greeting.encode().map_err(ClientError::from)?, &limits, Greeted::decode)?;
        self.fits(&greeted)?;
        self.join(&mut client, &greeted)?;
        let Some(Log::Open(log, _)) = &mut self.log else { return Err(Ended::Stopped) };
        tracing::info!(%leader, update = log.tip(), "following the tickerplant");
        self.status.change(|status| {
            (status.is_connected, status.trouble) = (true, None);
            (status.leader, status.epoch) = (leader.to_string(), Some(greeted.epoch));
        });
        own_copy::mark(&self.options.log, true)?;
        let mut copy = Copy::new(&self.options.log, &self.place, log, greeted.epoch, &self.status);
        while !self.stop.is_asked() {
            let told = call(&mut client, &copy.ask()?, &limits, crate::protocol::follow::Told::decode)?;
            if let Some(date) = copy.take(told)?
                && let Some(retention) = &self.retention
            {
                retention.begin(civil_date(date));
            }
        }
        Err(Ended::Stopped)
    }

    /// Checks that the tables of the leader are those of the own schema file, but for columns that were added today.
    fn fits(&self, greeted: &Greeted) -> Result<(), Ended> {
        let refused = |why: String| Ended::Refused(format!("the leader has another schema: {why}"));
        let theirs = Tables::new(greeted.tables.clone()).map_err(|error| refused(error.to_string()))?;
        let own = &self.options.tables;
        if let Some(change) = own.iter().find_map(|table| change_of(&table.schema, &theirs)) {
            return Err(refused(change));
        }
        let name = |table: &crate::table::Schema| crate::table::symbol::text(table.name);
        match greeted.tables.iter().find(|table| own.find(name(table)).is_none()) {
            Some(table) => Err(refused(format!("this one's has no table {}", name(table).escape_ascii()))),
            None => Ok(()),
        }
    }

    /// Takes up the copy where both logs are the same; afterwards the log is open.
    fn join(&mut self, client: &mut Client, greeted: &Greeted) -> Result<(), Ended> {
        let Greeted { id, epoch, began, date, ref dates, .. } = *greeted;
        let leader = Leader { id, epoch, began, date, dates: dates.clone() };
        let mut joining = Joining::new(self.own()?, leader.clone());
        let mut event = Event::Start;
        loop {
            event = match joining.step(event)? {
                Action::Begin(day) => return self.open(Date(day), Some((greeted.id, greeted.epoch))),
                Action::Copy => return Ok(self.log()?.adopt(greeted.epoch)?),
                Action::Skip(day) => {
                    let log = self.log()?;
                    log.adopt(greeted.epoch)?;
                    let last = log.date();
                    tracing::warn!(
                        "the leader has no log of {last} any more: what this copy lacks of that day is not copied"
                    );
                    log.roll(civil_date(Date(day)), |_| Ok(()))?;
                    return Ok(());
                }
                Action::Compare(day, offsets) => self.compare(client, Date(day), &offsets)?,
                Action::ListBlocks => {
                    let log = self.log()?;
                    log.flush()?;
                    let source = log.source();
                    Event::Ends(log::block_ends(&*self.options.log.env.disk, &source))
                }
                Action::ListRecords(from, to) => {
                    let path = self.log()?.path().to_path_buf();
                    let (disk, limits) = (&*self.options.log.env.disk, &self.options.log.limits);
                    Event::Ends(log::record_ends(disk, &path, from, to, limits)?)
                }
                Action::CutBack(at) => return self.cut_back(at, greeted),
                Action::SetAside => {
                    self.set_aside(greeted)?;
                    joining = Joining::new(self.own()?, leader.clone());
                    Event::Start
                }
            };
        }
    }

    fn log(&mut self) -> Result<&mut LogWriter, Ended> {
        match &mut self.log {
            Some(Log::Open(log, _)) => Ok(log),
            _ => Err(Ended::Refused("the log is not open".to_string())),
        }
    }

    /// Describes the own logs, the newest of which it opens.
    fn own(&mut self) -> Result<Own, Ended> {
        let disk = Arc::clone(&self.options.log.env.disk);
        let dates = self.place.dates(&*disk).map_err(LogError::io(&self.place.dir, "list"))?;
        if let (Some(Log::Locked(_, id)), Some(newest)) = (&self.log, dates.last()) {
            if id.is_none() {
                return Err(Refused::NoIdentity.into());
            }
            self.open(Date(*newest), None)?;
        }
        let earlier = dates.iter().rev().nth(1).and_then(|date| {
            let path = self.path(Date(*date));
            let size = disk.open(&path, crate::env::Open::Read).and_then(|file| file.size_bytes()).ok()?;
            Some((*date, size))
        });
        match &self.log {
            Some(Log::Open(log, id)) => {
                let end = Mark { offset_bytes: log.written_bytes(), index: log.tip() };
                let newest = Some((day_number(log.date()).0, end));
                Ok(Own { id: Some(*id), epoch: log.epoch(), newest, earlier })
            }
            Some(Log::Locked(locked, id)) => Ok(Own { id: *id, epoch: locked.epoch(), newest: None, earlier: None }),
            None => Err(Ended::Stopped),
        }
    }

    fn path(&self, date: Date) -> PathBuf {
        log::log_path(&self.place.dir, &self.place.src, civil_date(date))
    }

    /// Opens the log of a day; `of`: identity and epoch that the directory takes over before.
    fn open(&mut self, date: Date, of: Option<(LogId, u64)>) -> Result<(), Ended> {
        let Some(Log::Locked(mut locked, id)) = self.log.take() else { return Err(Ended::Stopped) };
        if let Some((id, epoch)) = of {
            locked.adopt(id, epoch)?;
        }
        let id = of.map(|(id, _)| id).or(id).ok_or(Ended::Stopped)?;
        let (log, report) = LogWriter::open_locked(*locked, self.options.log.clone(), civil_date(date))?;
        tracing::info!("copy: {report}");
        self.log = Some(Log::Open(Box::new(log), id));
        if let Some(retention) = &self.retention {
            retention.begin(civil_date(date));
        }
        Ok(())
    }

    fn compare(&mut self, client: &mut Client, date: Date, offsets: &[u64]) -> Result<Event, Ended> {
        let disk = Arc::clone(&self.options.log.env.disk);
        let path = self.path(date);
        let log = self.log()?;
        log.flush()?;
        let source = if log.path() == path { log.source() } else { LogSource::at(path) };
        let own = log::prefix_sums(&*disk, &source, offsets)?;
        debug_assert!(offsets.len() <= MAX_SUMS, "the limits of both sides agree");
        let sums = Sums { date: date.0, offsets: offsets.to_vec() };
        let limits = self.options.log.limits;
        let theirs = call(client, &sums.encode().map_err(ClientError::from)?, &limits, read_sums)?;
        Ok(Event::Sums(own.into_iter().zip(theirs).collect()))
    }

    /// Cuts the newest log back to where it is the leader's, and keeps what is cut off beside it.
    fn cut_back(&mut self, at: Mark, greeted: &Greeted) -> Result<(), Ended> {
        let Some(Log::Open(log, id)) = self.log.take() else { return Err(Ended::Stopped) };
        let (date, path, updates) =
            (day_number(log.date()), log.path().to_path_buf(), log.tip().saturating_sub(at.index));
        let (own_epoch, mut locked) = (log.epoch(), log.release()?);
        let disk = Arc::clone(&self.options.log.env.disk);
        self.forget_numbers(date, at)?;
        let kept = log::cut_back(&*disk, &path, at)?;
        locked.adopt(id, greeted.epoch)?;
        self.log = Some(Log::Locked(Box::new(locked), Some(id)));
        let note = format!(
            "{updates} updates that this log had from update {} on under epoch {own_epoch} are not in the leader's (epoch {}): they are cut off, and \
             kept in {}",
            at.index,
            greeted.epoch,
            kept.display()
        );
        tracing::warn!("{note}");
        self.status.change(|status| status.note = note);
        self.open(date, None)
    }

    /// Keeps the newest log aside: the leader went on with the day before.
    fn set_aside(&mut self, greeted: &Greeted) -> Result<(), Ended> {
        let Some(Log::Open(log, id)) = self.log.take() else { return Err(Ended::Stopped) };
        let (date, path, updates, epoch) = (day_number(log.date()), log.path().to_path_buf(), log.tip(), log.epoch());
        let locked = log.release()?;
        let disk = Arc::clone(&self.options.log.env.disk);
        self.forget_numbers(date, FIRST)?;
        let beside = [Beside::Queue, Beside::Schema].map(|file| self.place.beside(file, &path));
        let kept = log::set_aside(&*disk, &path, &beside)?;
        self.log = Some(Log::Locked(Box::new(locked), Some(id)));
        let note = format!(
            "this log of {} ({updates} updates under epoch {epoch}) is not the leader's (epoch {}), which went on with the day before: kept in {}",
            civil_date(date),
            greeted.epoch,
            kept.display()
        );
        tracing::warn!("{note}");
        self.status.change(|status| status.note = note);
        Ok(())
    }

    /// Forgets the file of publishers' numbers if it has numbers of updates that are to be cut off: as duplicates of these, updates would be lost.
    /// The numbers are then those in the logs.
    fn forget_numbers(&self, date: Date, at: Mark) -> Result<(), Ended> {
        let disk = &*self.options.log.env.disk;
        let path = sequence_state::path(&self.place.dir, &self.place.src);
        let Ok(file) = disk.open(&path, crate::env::Open::Read) else { return Ok(()) };
        let bytes = log::whole(&*file).map_err(LogError::io(&path, "read"))?;
        let position = sequence_state::position(&bytes, &self.options.log.limits);
        if position.is_some_and(|position| position <= (date, at.index)) {
            return Ok(());
        }
        let dates = self.place.dates(disk).map_err(LogError::io(&self.place.dir, "list"))?;
        let first = dates.first().copied().map_or(date, Date);
        Ok(sequence_state::begin(disk, &path, first).map_err(LogError::io(&path, "write"))?)
    }
}

/// Sends a call and decodes its response.
fn call<T>(
    client: &mut Client,
    message: &[u8],
    limits: &proto::Limits,
    decode: impl FnOnce(&View<'_>) -> Result<T, crate::protocol::Malformed>,
) -> Result<T, Ended> {
    let answer = client.request_raw(message, drop)?;
    let view = answer.view(limits)?;
    Ok(decode(&view)?)
}
