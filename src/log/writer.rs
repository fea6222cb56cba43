//! The single writer of a day's log: lock, log, side file, and the roll to the next day.

use super::appender::{Appender, Mode};
use super::error::LogError;
use super::fence::Fence;
use super::file;
use super::holder::{Holder, describe};
use super::identity::{Holds, LogId, Sample, Samples, WriterId};
use super::index::{BlockBuilder, Entry, Head, SideFile, SideWriter};
use super::lock::WriterLock;
use super::name::{log_path, side_path};
use super::next;
use super::open::{self, FIRST, How, OpenReport, Opened};
use super::source::LogSource;
use crate::config::{Damage, Durability, RequiredMount};
use crate::env::{Env, Open};
use crate::points::{self, Point};
use crate::sys::fs::Place;
use crate::sys::mount;
use jiff::civil::Date;
use proto::Limits;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Callback from another thread when the durable tip has advanced, or syncing has failed.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Options of a log writer.
#[derive(Clone)]
pub struct LogOptions {
    pub env: Env,
    pub dir: PathBuf,
    pub src: String,
    pub durability: Durability,
    /// How to treat damage in the middle at start.
    pub damage: Damage,
    /// File system that the directory must be on, checked whenever a log is opened.
    pub mount: RequiredMount,
    /// Fencing token, which must be above every epoch in the directory; `None` takes the next one.
    pub epoch: Option<u64>,
    /// Where this process is reached, `HOST:PORT`, for clients of the processes that wait for the lock.
    pub address: Option<String>,
    /// Limits for records already in the log.
    pub limits: Limits,
    /// Read size when a start walks the log.
    pub chunk_bytes: usize,
    /// Buffer size under durability `none`.
    pub buffer_bytes: usize,
    pub waker: Option<Waker>,
}

/// The right to write the logs of a directory, taken before a log is opened. Held until dropped.
pub struct Locked {
    lock: WriterLock,
    last: Option<Holder>,
    has_made_directory: bool,
}

impl Locked {
    /// Takes the lock.
    ///
    /// # Errors
    /// `Misplaced` if the directory is not on the required file system; nothing is written then. `Held` if another tickerplant writes here,
    /// `StaleEpoch` if a later epoch has written.
    pub fn take(options: &LogOptions) -> Result<Locked, LogError> {
        let LogOptions { env, dir, src, epoch, address, .. } = options;
        check_mount(dir, &options.mount)?;
        let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        let has_made_directory = env.disk.list(dir).is_err_and(is_missing);
        env.disk.create_dir_all(dir).map_err(LogError::io(dir, "create the directory"))?;
        let file = WriterLock::open_file(&*env.disk, dir, src)?;
        let (lock, last) = WriterLock::take(file, &env.disk, dir, src, *epoch, address.as_deref())?;
        Ok(Locked { lock, last, has_made_directory })
    }

    /// Takes the lock for a process that copies the logs of another one: nothing is written, and no epoch is taken, before
    /// [`Locked::adopt`]. Returns the identity of the directory's logs with it, if they have one.
    ///
    /// # Errors
    /// As [`Locked::take`].
    pub fn take_to_follow(options: &LogOptions) -> Result<(Locked, Option<LogId>), LogError> {
        let LogOptions { env, dir, src, .. } = options;
        check_mount(dir, &options.mount)?;
        env.disk.create_dir_all(dir).map_err(LogError::io(dir, "create the directory"))?;
        let file = WriterLock::open_file(&*env.disk, dir, src)?;
        let (lock, last, is_named) = WriterLock::take_to_follow(file, &env.disk, dir, src)?;
        let identity = is_named.then(|| lock.identity());
        Ok((Locked::of(lock, last), identity))
    }

    /// Takes over identity and epoch of the logs that are copied here.
    ///
    /// # Errors
    /// The lock file cannot be written.
    pub fn adopt(&mut self, identity: LogId, epoch: u64) -> Result<(), LogError> {
        self.lock.adopt(identity, epoch)
    }

    /// With a lock that was taken already.
    pub(super) fn of(lock: WriterLock, last: Option<Holder>) -> Locked {
        Locked { lock, last, has_made_directory: false }
    }

    /// The epoch with which the log is written.
    pub fn epoch(&self) -> u64 {
        self.lock.epoch()
    }

    /// Whether the directory did not exist before.
    pub fn has_made_directory(&self) -> bool {
        self.has_made_directory
    }
}

/// Writer of `DIR/SRCyyyy.mm.dd`. Dropping it without `close` is like a crash: the buffer of durability `none` is lost.
pub struct LogWriter {
    options: LogOptions,
    lock: WriterLock,
    /// Present where the lock can be lost, on a network file system.
    fence: Option<Fence>,
    date: Date,
    path: PathBuf,
    appender: Appender,
    builder: BlockBuilder,
    side: SideWriter,
    began: Began,
    samples: Samples,
}

/// Where this writer's epoch began.
#[derive(Clone, Copy, Debug)]
struct Began {
    date: Date,
    /// Updates in that day's log before this writer.
    index: u64,
    /// Drawn by every writer; distinguishes it from another writer of the same epoch in a state of the directory that was lost.
    writer: LogId,
}

impl LogWriter {
    /// Takes the lock and opens the log of `date`.
    ///
    /// # Errors
    /// As [`Locked::take`] and [`LogWriter::open_locked`].
    pub fn open(options: LogOptions, date: Date) -> Result<(LogWriter, OpenReport), LogError> {
        let locked = Locked::take(&options)?;
        LogWriter::open_locked(locked, options, date)
    }

    /// Opens or creates the log of `date`, counts its updates, and repairs a torn tail.
    ///
    /// # Errors
    /// `Refused` with the exact range if the middle of the log is damaged and the options say stop.
    pub fn open_locked(locked: Locked, options: LogOptions, date: Date) -> Result<(LogWriter, OpenReport), LogError> {
        let Locked { mut lock, last, .. } = locked;
        points::reach(Point::StartLocked);
        let how = How {
            disk: Arc::clone(&options.env.disk),
            damage: options.damage,
            limits: options.limits,
            chunk_bytes: options.chunk_bytes,
            identity: lock.identity(),
            epoch: lock.epoch(),
            last_epoch: last.as_ref().map_or(0, |holder| holder.epoch),
            suspicious: lock.holder().unchecked,
            unclean: last.as_ref().is_some_and(|holder| !holder.clean && lock.same_boot(holder)),
            unsynced_from: lock.holder().unsynced_from,
        };
        let path = log_path(&options.dir, &options.src, date);
        let day = continue_at(&options, &path, find(&path, &path, &how)?, &how)?;
        open::sync_log_before(&how, &path);
        lock.mark_accepted()?;
        let fence = if lock.is_on_nfs() {
            let (path, own, waker) = (lock.path().to_path_buf(), lock.holder().clone(), options.waker.clone());
            let started = Fence::start(&options.env, path, own, waker);
            Some(started.map_err(LogError::io(lock.path(), "start a thread to watch"))?)
        } else {
            None
        };
        let Day { appender, builder, side, samples, report } = day;
        let began = Began { date, index: report.updates, writer: LogId(options.env.disk.draw()) };
        points::reach(Point::StartLogOpened);
        Ok((LogWriter { options, lock, fence, date, path, appender, builder, side, began, samples }, report))
    }

    /// Process, host and epoch, in words.
    pub fn process(&self) -> String {
        describe(Some(self.lock.holder()))
    }

    /// Appends a batch of `updates` whole records with one write. After an error nothing more is accepted, and none of the batch counts.
    ///
    /// Under `each` they are durable when this returns; under `group` once [`LogWriter::durable_tip`] has passed them.
    pub fn append(&mut self, batch: &[u8], updates: u64) -> Result<(), LogError> {
        self.check()?;
        self.appender.append(batch, updates)?;
        if let Some(entry) = self.builder.add(batch, updates) {
            self.note_block(entry);
        }
        Ok(())
    }

    /// Writes the buffer of durability `none` to the log, and closed blocks to the side file. Call it on a timer, and before another
    /// process on this host is notified of a tip.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.appender.flush()?;
        self.side.flush();
        Ok(())
    }

    /// Makes all updates before the tip visible to a reader on this host or, if `elsewhere`, on another one. Call it before sending the
    /// tip. Where the sync thread writes the log this does not block: the updates become visible within the time that a reader waits.
    pub fn announce(&mut self, elsewhere: bool) -> Result<(), LogError> {
        if self.appender.writes_behind() {
            self.check()
        } else if elsewhere {
            self.sync()
        } else {
            self.flush()
        }
    }

    /// Whether a thread writes updates to the file after they were accepted.
    pub fn writes_behind(&self) -> bool {
        self.appender.writes_behind()
    }

    /// Makes all updates durable before it returns. On a network file system nothing else makes them visible on another host in bounded
    /// time.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.appender.sync()?;
        self.side.flush();
        Ok(())
    }

    /// Syncs and closes the day's log and opens that of `date`. The epoch stays. An existing log of that date is continued after its last
    /// update, as at a start.
    ///
    /// # Errors
    /// As [`LogWriter::open`]; `Foreign` if another tickerplant, or a later epoch of this directory, has written that log; `Unfit` if `accept`
    /// rejects it. The current day's log then continues.
    pub fn roll(
        &mut self,
        date: Date,
        accept: impl FnOnce(&OpenReport) -> Result<(), String>,
    ) -> Result<OpenReport, LogError> {
        check_mount(&self.options.dir, &self.options.mount)?;
        points::reach(Point::LogBeforeRoll);
        self.finish_day()?;
        let path = log_path(&self.options.dir, &self.options.src, date);
        let is_there = self.check_owner(&path)?;
        let disk = Arc::clone(&self.options.env.disk);
        let epoch = self.lock.epoch();
        let how = How {
            disk: Arc::clone(&disk),
            damage: self.options.damage,
            limits: self.options.limits,
            chunk_bytes: self.options.chunk_bytes,
            identity: self.lock.identity(),
            epoch,
            last_epoch: epoch,
            // How an existing log's writer ended is unknown.
            suspicious: true,
            unclean: true,
            unsynced_from: None,
        };
        let at = match is_there {
            true => path.clone(),
            false => next::place(&*disk, (&self.options.dir, &self.options.src), &path)?,
        };
        let found = find(&at, &path, &how)?;
        accept(&found.0.report).map_err(|reason| LogError::Unfit { path: path.clone(), reason })?;
        points::reach(Point::LogBeforeName);
        let named = if is_there { Ok(()) } else { next::name(&*disk, &at, &path)? };
        let day = named.and_then(|()| continue_at(&self.options, &path, found, &how)).inspect_err(|error| {
            self.appender.give_up(format!("a start would go on with the log of {date}, which cannot be used: {error}"));
        })?;
        let Day { appender, builder, side, samples, report } = day;
        (self.began.date, self.began.index) = (date, report.updates);
        (self.date, self.path, self.appender, self.side, self.builder) = (date, path, appender, side, builder);
        self.samples = samples;
        points::reach(Point::LogRolled);
        Ok(report)
    }

    /// Makes everything durable, records in the lock file that the log was closed in order, and releases the lock.
    pub fn close(mut self) -> Result<(), LogError> {
        if let Err(error) = self.finish_day() {
            if !error.is_lost() {
                self.note_failure();
            }
            return Err(error);
        }
        self.lock.mark_clean()
    }

    /// Whether the log has failed only because its disk was full, so that [`LogWriter::resume`] may succeed.
    pub fn can_resume(&self) -> bool {
        self.appender.can_resume()
    }

    /// After the disk was full: continues if the log is proved to be whole, that is, if it ends where the last accepted write did, with
    /// the bytes that were written, and can be synced. Writes what durability `none` has buffered.
    ///
    /// # Errors
    /// The log stays as it is. If the disk is still full, another call may succeed; after a failed proof or sync none does.
    pub fn resume(&mut self) -> Result<(), LogError> {
        // Another tickerplant may have taken over meanwhile.
        if let Err(error @ (LogError::Lost { .. } | LogError::Cut { .. })) = self.check() {
            return Err(error);
        }
        self.appender.resume()?;
        if let Err(reason) = self.prove_end() {
            self.appender.give_up(reason);
            return self.appender.check();
        }
        self.sync()?;
        // If this fails, the next start compares and rewrites more than it needs to.
        let _ = self.lock.mark_accepted();
        Ok(())
    }

    /// Compares the beginning of the file, its last block and what follows with what was written.
    fn prove_end(&self) -> Result<(), String> {
        for Sample { offset_bytes, length_bytes, crc } in self.samples() {
            let mut bytes = vec![0; usize::try_from(length_bytes).unwrap_or(0)];
            let read = file::read_full(&**self.appender.file(), &mut bytes, offset_bytes);
            let read = read.map_err(|error| format!("cannot read back the log: {error}"))?;
            if read as u64 != length_bytes || crc32c::crc32c(&bytes) != crc {
                return Err(format!("the log's bytes from {offset_bytes} on differ from what was written"));
            }
        }
        Ok(())
    }

    /// Records in the lock file, after an error, from which update on the next writer on this machine must not assume that readable bytes
    /// are on disk. If this fails too, for example on a full disk, the side file has that index as of the last closed block.
    pub fn note_failure(&mut self) {
        let durable = self.appender.durable_tip();
        if durable < self.appender.tip() {
            let _ = self.lock.mark_unsynced(durable);
        }
    }

    /// Index of the next update.
    pub fn tip(&self) -> u64 {
        self.appender.tip()
    }

    /// Updates before this index are in the file, visible to readers on this host. Under `group` on a network file system it follows the
    /// tip asynchronously.
    pub fn written_tip(&self) -> u64 {
        self.appender.written_index()
    }

    /// Size of the log, with the bytes queued for the sync thread and without the buffer of durability `none`.
    pub fn written_bytes(&self) -> u64 {
        self.appender.end().offset_bytes
    }

    /// Bytes in memory that are not in the file yet.
    pub fn held_bytes(&self) -> u64 {
        self.appender.held_bytes()
    }

    /// Updates before this index survive a power cut.
    pub fn durable_tip(&self) -> u64 {
        self.appender.durable_tip()
    }

    /// Updates before this index may be acknowledged: they are as durable as the options promise.
    pub fn acknowledged_tip(&self) -> u64 {
        self.appender.acknowledged_tip()
    }

    /// Fails if an error ended this log, including one in the sync, watch or fence thread, which call the waker for that.
    pub fn check(&mut self) -> Result<(), LogError> {
        if let Some(successor) = self.fence.as_ref().and_then(Fence::successor) {
            let reason = format!("another tickerplant has taken over ({successor})");
            return Err(LogError::Lost { path: self.path.clone(), reason });
        }
        self.appender.check()
    }

    pub fn epoch(&self) -> u64 {
        self.lock.epoch()
    }

    /// Identity of the log, and its writer.
    pub fn writer_id(&self) -> WriterId {
        WriterId { log: self.lock.identity(), epoch: self.lock.epoch(), writer: self.began.writer }
    }

    /// State that determines the samples from now on, as text.
    pub fn sampled(&self) -> String {
        format!("{:?} {:?}", self.samples, self.builder.sample())
    }

    /// Checksums of parts of today's log, up to the tip.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.with(self.builder.sample())
    }

    /// Updates in today's log when this writer began. A node that holds more than these from an earlier writer holds updates that the log
    /// lost.
    pub fn began_at(&self) -> u64 {
        if self.date == self.began.date { self.began.index } else { 0 }
    }

    /// Index of the first update of today that was logged under a later epoch than this one, as far as the side file tells; where this writer
    /// began at the latest. A node that remembers the epoch, and holds more, holds updates that the log lost since, or that another copy of
    /// it had.
    pub fn first_after(&self, epoch: u64) -> u64 {
        let side = SideFile::open(&*self.options.env.disk, &side_path(&self.path));
        let later = side.and_then(|side| {
            let mut entries = (0..side.entries()).filter_map(|at| side.entry(at));
            entries.find(|entry| entry.epoch > epoch)
        });
        later.map_or(self.began_at(), |entry| entry.first_index.min(self.began_at()))
    }

    /// Gives the log a new identity, and this writer an epoch above `seen`: for a directory restored to an earlier state than one that a
    /// node has seen.
    ///
    /// # Errors
    /// `Lost` if another process writes here.
    pub fn begin_anew(&mut self, seen: u64) -> Result<(), LogError> {
        self.lock.begin_anew(seen)?;
        self.begin_epoch();
        Ok(())
    }

    /// Starts a block of the lock's identity and epoch.
    fn begin_epoch(&mut self) {
        if let Some(block) = self.builder.close() {
            self.note_block(block);
        }
        self.builder.set_epoch(self.lock.epoch());
        self.side.set_head(Head { identity: Some(self.lock.identity()), epoch: self.lock.epoch() });
    }

    /// Takes over the epoch under which another process writes the log that is copied here.
    ///
    /// # Errors
    /// The lock file's.
    pub fn adopt(&mut self, epoch: u64) -> Result<(), LogError> {
        if epoch != self.lock.epoch() {
            self.lock.adopt(self.lock.identity(), epoch)?;
            self.begin_epoch();
        }
        Ok(())
    }

    /// Whether the log has these bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn has(&self, sample: &Sample) -> Result<bool, LogError> {
        Ok(sample.look(&**self.appender.file(), &self.path)? == Holds::Yes)
    }

    /// Makes everything durable and closes the log, and keeps the lock.
    ///
    /// # Errors
    /// The log's.
    pub fn release(mut self) -> Result<Locked, LogError> {
        self.finish_day()?;
        let last = Holder { clean: true, ..self.lock.holder().clone() };
        Ok(Locked::of(self.lock, Some(last)))
    }

    /// Which file is open.
    ///
    /// # Errors
    /// The system's.
    pub fn place(&self) -> Result<Place, LogError> {
        self.appender.file().identity().map_err(LogError::io(&self.path, "look at"))
    }

    /// Where this process reads the log, whatever the log's path leads to.
    pub fn source(&self) -> LogSource {
        LogSource::of_writer(self.path.clone(), Arc::clone(self.appender.file()), self.side.file().map(Arc::clone))
    }

    /// Why the log's path does not lead to the open file, while that lasts.
    pub fn elsewhere(&self) -> Option<String> {
        Some(format!("{}: {}", self.path.display(), self.appender.elsewhere()?))
    }

    pub fn durability(&self) -> Durability {
        self.options.durability
    }

    pub fn date(&self) -> Date {
        self.date
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rejects a log that another tickerplant, or a later epoch of this directory, has written; returns whether there is one.
    fn check_owner(&self, path: &Path) -> Result<bool, LogError> {
        match self.options.env.disk.open(path, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(LogError::io(path, "open"))?,
        };
        let side = side_path(path);
        let found = SideFile::open_if_there(&*self.options.env.disk, &side).map_err(LogError::io(&side, "read"))?;
        let Some(Head { identity: Some(identity), epoch }) = found.map(|side| side.head()) else { return Ok(true) };
        let (own_identity, own_epoch) = (self.lock.identity(), self.lock.epoch());
        let reason = if identity != own_identity {
            format!("its identity is {identity}, and this tickerplant's is {own_identity}")
        } else if epoch > own_epoch {
            format!("its epoch is {epoch}, and this tickerplant's is {own_epoch}")
        } else {
            return Ok(true);
        };
        Err(LogError::Foreign { path: path.to_path_buf(), reason })
    }

    fn finish_day(&mut self) -> Result<(), LogError> {
        self.appender.sync()?;
        if let Some(block) = self.builder.close() {
            self.samples.block(&block);
            self.side.push(&Entry { synced_index: block.end().index, ..block });
        }
        self.side.flush();
        Ok(())
    }

    /// Adds a block to the side file, with the index up to which the log is on disk. If nothing syncs the log, only this block counts as
    /// doubtful: otherwise a start after a kill would rewrite the day from its first byte.
    fn note_block(&mut self, block: Entry) {
        self.samples.block(&block);
        let synced_index = self.appender.synced_index().unwrap_or(block.first_index);
        self.side.push(&Entry { synced_index, ..block });
    }
}

/// Rejects a directory on another file system than the required one.
pub(super) fn check_mount(dir: &Path, required: &RequiredMount) -> Result<(), LogError> {
    if *required == RequiredMount::Any {
        return Ok(());
    }
    let mount = mount::mount_of(dir).map_err(LogError::io(dir, "find the file system of the directory"))?;
    let is_there = match required {
        RequiredMount::Any => true,
        RequiredMount::Kind(kind) => mount.is_kind(kind),
        RequiredMount::At(point) => mount.is_at(point).map_err(LogError::io(point, "examine the mount point"))?,
    };
    let (path, required) = (dir.to_path_buf(), required.to_string());
    if is_there { Ok(()) } else { Err(LogError::Misplaced { path, required, found: mount.to_string() }) }
}

/// A day's log, ready for appending.
struct Day {
    appender: Appender,
    side: SideWriter,
    builder: BlockBuilder,
    samples: Samples,
    report: OpenReport,
}

/// Opens the log `path`, whose file is at `at`, and reads what a writer needs.
fn find(at: &Path, path: &Path, how: &How) -> Result<(Opened, Samples), LogError> {
    let opened = open::open(at, path, how)?;
    let samples = Samples::of(&*opened.file, path, FIRST.offset_bytes, opened.end.offset_bytes)?;
    Ok((opened, samples))
}

/// Starts the threads of a log that was found.
fn continue_at(options: &LogOptions, path: &Path, found: (Opened, Samples), how: &How) -> Result<Day, LogError> {
    let (Opened { file, end, side, report }, samples) = found;
    let mode =
        Mode { durability: options.durability, is_shared: file.is_shared(), buffer_most_bytes: options.buffer_bytes };
    let appender = Appender::new(&*options.env.spawner, file, path, end, mode, options.waker.clone())?;
    Ok(Day { appender, side, builder: BlockBuilder::new(end, how.epoch), samples, report })
}
