//! The log of the day: its writer, failures, responses held back until updates are durable, and logs whose paths no longer lead to them.

use super::announce;
use crate::lease::Epoch;
use crate::log::{self, Locked, LogError, LogOptions, LogSource, LogWriter, OpenReport, Sample, WriterId};
use crate::net::SyncRequest;
use crate::queue::Date;
use crate::tick::clock;
use crate::tick::day::RETRY_NS;
use crate::tick::follow::replicas::Position;
use crate::tick::retention::Retention;
use crate::tick::space::Space;
use bytes::Bytes;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Logs of ended days kept open because their paths do not lead to them.
const MAX_ENDED: usize = 8;

/// A response held back until the updates it confirms are as durable as promised.
pub(super) struct Ack {
    /// All updates before this position must be as durable as promised.
    position: Position,
    pub request: SyncRequest,
    pub answer: Bytes,
}

/// What a failure of the log changes.
pub(super) struct Failed {
    /// Responses that become errors.
    pub acks: VecDeque<Ack>,
    /// Updates and rows that were appended and have not reached the file.
    pub unwritten: (u64, u64),
    /// Another tickerplant owns the log, so any further message of this process may contradict it.
    pub is_lost: bool,
}

/// The log side of a tickerplant; without a directory it logs nothing.
#[derive(Default)]
pub(super) struct LogSide {
    src: String,
    dir: Option<PathBuf>,
    writer: Option<LogWriter>,
    /// Free space on the log's file system.
    space: Option<Space>,
    /// Deletes past logs.
    retention: Option<Retention>,
    /// Set once the log cannot be written any more.
    failure: Option<String>,
    /// What the operator must do after a failure that does not end by itself.
    remedy: &'static str,
    /// Another program has truncated the log.
    is_cut: bool,
    /// Why the day has not ended although it is due.
    roll_held: Option<String>,
    /// Last logged reason why the log's path does not lead to the log.
    elsewhere_reported: Option<String>,
    /// Logs of ended days whose paths did not lead to them: a file without a name exists only while it is open.
    ended_elsewhere: Vec<(Date, LogSource)>,
    acks: VecDeque<Ack>,
    /// The day of the log, in days since 2000.01.01; 0 without a log.
    date: i32,
    /// What so many followers as promised have confirmed; `None` if no response waits for them.
    replicated: Option<Position>,
    /// Appended batches that are not in the file yet: the index after each, its updates and rows. Under durability `none`, or while a thread
    /// writes; each takes more bytes of `--limit-log-buffer` than here.
    unwritten: VecDeque<(u64, u64, u64)>,
}

impl LogSide {
    /// Opens the log of a day, and repairs a torn end left by a crash.
    ///
    /// # Errors
    /// Those of the log; those of the system.
    pub fn open(
        locked: Locked,
        options: LogOptions,
        date: Date,
        keep_days: Option<u32>,
    ) -> Result<LogSide, super::StartError> {
        let (env, src, dir) = (options.env.clone(), options.src.clone(), options.dir.clone());
        let is_new = locked.has_made_directory();
        let (writer, report) = LogWriter::open_locked(locked, options, clock::civil_date(date))?;
        if is_new {
            tracing::warn!("created the log directory {}: no earlier days here", dir.display());
        }
        match report.missing {
            0 => tracing::info!("{report}"),
            _ => tracing::error!("{report}"),
        }
        let space = Some(Space::watch(&env, dir.clone())?);
        let start = |keep| Retention::start(&env, dir.clone(), src.clone(), keep);
        let retention = keep_days.map(start).transpose()?;
        if let Some(retention) = &retention {
            retention.begin(clock::civil_date(date));
        }
        Ok(LogSide { dir: Some(dir), writer: Some(writer), space, retention, src, date: date.0, ..LogSide::default() })
    }

    pub fn writer(&self) -> Option<&LogWriter> {
        self.writer.as_ref()
    }

    /// The directory of the logs.
    pub fn directory(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    pub fn exists(&self) -> bool {
        self.writer.is_some()
    }

    pub fn path(&self) -> Option<&Path> {
        self.writer.as_ref().map(LogWriter::path)
    }

    /// Returns the index after the last update in the log; 0 without a log.
    pub fn tip(&self) -> u64 {
        self.writer.as_ref().map_or(0, LogWriter::tip)
    }

    /// Returns the epoch of the log's writer; 0 without a log.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.writer.as_ref().map_or(0, |log| log.writer_id().epoch))
    }

    pub fn writer_id(&self) -> Option<WriterId> {
        self.writer.as_ref().map(LogWriter::writer_id)
    }

    pub fn source(&self) -> Option<LogSource> {
        self.writer.as_ref().map(LogWriter::source)
    }

    /// Returns samples of the log's content, by which a node checks the file that it reads.
    pub fn samples(&self) -> Vec<Sample> {
        self.writer.as_ref().map(LogWriter::samples).unwrap_or_default()
    }

    pub fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    pub fn retention(&self) -> Option<&Retention> {
        self.retention.as_ref()
    }

    /// Appends records, before they are published: their number, and that of the updates among them and of their rows.
    ///
    /// # Errors
    /// The log's.
    pub fn append(&mut self, bytes: &[u8], records: u64, (updates, rows): (u64, u64)) -> Result<(), LogError> {
        let Some(log) = &mut self.writer else { return Ok(()) };
        log.append(bytes, records)?;
        let (tip, written) = (log.tip(), log.written_tip());
        while self.unwritten.pop_front_if(|(next, ..)| *next <= written).is_some() {}
        if written < tip {
            self.unwritten.push_back((tip, updates, rows));
        }
        Ok(())
    }

    /// Writes buffered updates to the file.
    ///
    /// # Errors
    /// The log's.
    pub fn flush(&mut self) -> Result<(), LogError> {
        self.writer.as_mut().map_or(Ok(()), LogWriter::flush)
    }

    /// As [`LogSide::flush`], if the file does not yet show the updates before `until`: with durability `none`, they are buffered.
    ///
    /// # Errors
    /// The log's.
    pub fn flush_until(&mut self, until: u64) -> Result<(), LogError> {
        let Some(log) = self.writer.as_mut().filter(|log| log.written_tip() < until) else { return Ok(()) };
        log.flush()
    }

    /// Makes the logged updates visible to readers on this host, or on others.
    ///
    /// # Errors
    /// The log's.
    pub fn announce(&mut self, is_elsewhere: bool) -> Result<(), LogError> {
        self.writer.as_mut().map_or(Ok(()), |log| log.announce(is_elsewhere))
    }

    /// Checks the threads that write, sync and guard the log.
    ///
    /// # Errors
    /// The log's.
    pub fn check(&mut self) -> Result<(), LogError> {
        self.writer.as_mut().map_or(Ok(()), LogWriter::check)
    }

    /// Continues under a new identity: a node has seen a later epoch than this log's writer.
    ///
    /// # Errors
    /// Another tickerplant writes this log by now.
    pub fn begin_anew(&mut self, seen: u64) -> Result<(), LogError> {
        self.writer.as_mut().map_or(Ok(()), |log| log.begin_anew(seen))
    }

    /// Closes the day's log and opens the next. `accept` checks the new log's schema. After an error the day continues.
    ///
    /// # Errors
    /// Why the next log cannot be written, and the failure of the current one, if it failed.
    pub fn roll(
        &mut self,
        (from, to): (Date, Date),
        accept: impl FnOnce(&OpenReport) -> Result<(), String>,
    ) -> Result<(), Option<LogError>> {
        self.keep_if_elsewhere();
        let Some(log) = &mut self.writer else { return Ok(()) };
        match log.roll(clock::civil_date(to), accept) {
            Ok(report) if report.updates > 0 => tracing::warn!(
                "a log of {to} already existed: {report}. The day continues after its updates, and subscribers receive all of them"
            ),
            Ok(_) => {}
            Err(error) => {
                let failure = log.check().err();
                self.hold_roll(from, to, &error);
                return Err(failure);
            }
        }
        self.roll_held = None;
        self.date = to.0;
        // The ended log was written to its end, and the indices of the new one start at 0.
        self.unwritten.clear();
        if let Some(retention) = &self.retention {
            retention.begin(clock::civil_date(to));
        }
        Ok(())
    }

    /// Records why the day continues. A retry follows every few seconds; each reason is logged once.
    fn hold_roll(&mut self, from: Date, to: Date, error: &LogError) {
        let reason = format!("day {from} continues, because the log of {to} cannot be written: {error}");
        if self.roll_held.as_ref() != Some(&reason) {
            tracing::error!(%reason, retry_s = RETRY_NS / 1_000_000_000, "the day cannot end yet");
            self.roll_held = Some(reason);
        }
    }

    /// Returns why the day has not ended although it is due.
    pub fn roll_held(&self) -> Option<&String> {
        self.roll_held.as_ref()
    }

    /// Returns why updates are no longer accepted; `None` if they are.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Records a failure: from here on nothing is acknowledged. Returns what follows; `None` if it had already failed, unless another
    /// tickerplant takes over the log.
    pub fn fail(&mut self, error: &LogError) -> Option<Failed> {
        let (is_lost, has_failed) = (error.is_lost(), self.failure.is_some());
        if has_failed && !is_lost {
            return None;
        }
        let written = self.writer.as_ref().map_or(0, LogWriter::written_tip);
        while self.unwritten.pop_front_if(|(next, ..)| *next <= written).is_some() {}
        // A full disk has left them for when it has room, and they do not count since.
        let unwritten = if has_failed { (0, 0) } else { self.all_unwritten() };
        if !self.can_resume() {
            self.unwritten.clear();
        }
        self.remedy = error.remedy();
        self.failure = Some(error.to_string());
        self.is_cut = matches!(error, LogError::Cut { .. });
        if let Some(log) = self.writer.as_mut().filter(|_| !is_lost) {
            log.note_failure();
        }
        Some(Failed { acks: self.take_acks(), is_lost, unwritten })
    }

    /// Returns the updates and rows that were appended and have not reached the file.
    fn all_unwritten(&self) -> (u64, u64) {
        self.unwritten.iter().fold((0, 0), |(all, all_rows), (_, updates, rows)| {
            (u64::saturating_add(all, *updates), u64::saturating_add(all_rows, *rows))
        })
    }

    /// Whether the log has failed only because its disk was full.
    pub fn can_resume(&self) -> bool {
        self.writer.as_ref().is_some_and(LogWriter::can_resume)
    }

    /// Index after the last update that is in the file, or will be once a full disk has room: what durability `none` has buffered.
    pub fn tip_after_failure(&self) -> u64 {
        let tip = if self.can_resume() { LogWriter::tip } else { LogWriter::written_tip };
        self.writer.as_ref().map_or(0, tip)
    }

    /// What follows a failure: what the operator must do, unless it ends by itself.
    pub fn remedy(&self) -> &'static str {
        match self.can_resume() {
            true => "updates are accepted again, without a restart, once its file system has room",
            false => self.remedy,
        }
    }

    /// Continues after the disk was full, if the log is proved to be whole. Returns the updates and rows that have reached the file only now.
    ///
    /// # Errors
    /// The log's. Another call may succeed while [`LogSide::can_resume`].
    pub fn resume(&mut self) -> Result<(u64, u64), LogError> {
        let Some(log) = &mut self.writer else { return Ok((0, 0)) };
        if let Err(error) = log.resume() {
            if !log.can_resume() {
                (self.failure, self.remedy) = (Some(error.to_string()), error.remedy());
            }
            return Err(error);
        }
        self.failure = None;
        let written = self.all_unwritten();
        self.unwritten.clear();
        Ok(written)
    }

    /// Holds back a response until all updates before `index` are as durable as promised.
    pub fn acknowledge_later(&mut self, index: u64, request: SyncRequest, answer: Bytes) {
        self.acks.push_back(Ack { position: Position { date: self.date, index }, request, answer });
    }

    /// Lets responses wait for followers, or sets what these have confirmed.
    pub fn set_replicated(&mut self, replicated: Option<Position>) {
        self.replicated = replicated;
    }

    /// Position after the last update in the file.
    pub fn position(&self) -> Position {
        Position { date: self.date, index: self.tip() }
    }

    /// Returns the next response whose updates are as durable as promised; `tip`: the tip where there is no log.
    pub fn next_ack(&mut self, tip: u64) -> Option<Ack> {
        let safe = match &self.writer {
            _ if self.failure.is_some() => return None,
            Some(log) => log.acknowledged_tip(),
            None => tip,
        };
        // A day that has ended was synced to its end.
        let (own, replicated) = (Position { date: self.date, index: safe }, self.replicated);
        self.acks.pop_front_if(|ack| ack.position <= own && replicated.is_none_or(|of| ack.position <= of))
    }

    /// Index after the last update in the file, also after a failure; 0 without a log.
    pub fn written_tip(&self) -> u64 {
        self.writer.as_ref().map_or(0, LogWriter::written_tip)
    }

    /// Makes everything durable before it returns.
    ///
    /// # Errors
    /// The log's.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.writer.as_mut().map_or(Ok(()), LogWriter::sync)
    }

    /// Index after the last update that is as durable as promised, also after a failure; 0 without a log.
    pub fn acknowledged_tip(&self) -> u64 {
        self.writer.as_ref().map_or(0, LogWriter::acknowledged_tip)
    }

    /// Returns all responses held back.
    pub fn take_acks(&mut self) -> VecDeque<Ack> {
        std::mem::take(&mut self.acks)
    }

    pub fn acks(&self) -> usize {
        self.acks.len()
    }

    /// Makes everything durable and closes the log. Returns the responses that are due then.
    pub fn close(&mut self) -> VecDeque<Ack> {
        let Some(mut log) = self.writer.take() else { return VecDeque::new() };
        if log.can_resume() {
            // What is buffered may fit by now; if not, closing it says so.
            let _ = log.resume();
        }
        if let Some(why) = log.elsewhere() {
            tracing::error!("{why}");
        }
        let closed = announce::closed(&log);
        match log.close() {
            Ok(()) => {
                tracing::info!("{closed}");
                let mut acks = self.take_acks();
                // Nobody is left to whom a follower could confirm the others.
                acks.retain(|ack| self.replicated.is_none_or(|of| ack.position <= of));
                acks
            }
            Err(error) => {
                tracing::error!("{error}");
                VecDeque::new()
            }
        }
    }

    /// Describes why the log's path does not lead to the log; `None` if it does.
    pub fn elsewhere(&self) -> Option<String> {
        self.writer.as_ref().and_then(LogWriter::elsewhere)
    }

    /// Returns whether the log was truncated, or its path does not lead to it.
    pub fn is_harmed(&self) -> bool {
        self.is_cut || self.elsewhere().is_some()
    }

    /// Logs when the path stops leading to the log, or leads to it again.
    pub fn look_at_path(&mut self) {
        let elsewhere = self.elsewhere();
        if elsewhere == self.elsewhere_reported {
            return;
        }
        match (&elsewhere, &self.writer) {
            (Some(why), _) => tracing::error!(
                "{why}. Updates are still logged to the open file, and nodes are fed from it, but the next start \
                 would not find it"
            ),
            (None, Some(log)) => tracing::info!(path = %log.path().display(), "the path is the open log again"),
            (None, None) => {}
        }
        self.elsewhere_reported = elsewhere;
    }

    /// Before a roll closes the day's log: keeps it open if its path does not lead to it, because it could not be opened again.
    fn keep_if_elsewhere(&mut self) {
        let Some((log, why)) = self.writer.as_ref().and_then(|log| Some((log, log.elsewhere()?))) else { return };
        let date = clock::day_number(log.date());
        if self.ended_elsewhere.len() < MAX_ENDED && self.ended_elsewhere.iter().all(|(of, _)| *of != date) {
            tracing::error!("{why}. It stays open as long as this process runs");
            self.ended_elsewhere.push((date, log.source()));
        }
    }

    /// Returns where to read the log of a date, even if no file exists.
    pub fn source_of(&self, date: Date) -> Option<LogSource> {
        if let Some(log) = self.writer.as_ref().filter(|log| clock::day_number(log.date()) == date) {
            return Some(log.source());
        }
        let held = self.ended_elsewhere.iter().find(|(of, _)| *of == date).map(|(_, source)| source.clone());
        held.or_else(|| self.path_of(date).map(LogSource::at))
    }

    /// Returns the path of the log of a date, whether it exists or not.
    fn path_of(&self, date: Date) -> Option<PathBuf> {
        Some(log::log_path(self.dir.as_ref()?, &self.src, clock::civil_date(date)))
    }

    /// Returns the state that decides on further behaviour as text, for the state fingerprint.
    pub fn shape(&self) -> String {
        // Nodes receive the samples, which depend on where a writer began.
        let log = self.writer.as_ref().map(|log| (log.tip(), log.epoch(), log.sampled()));
        format!("acks {} log {log:?} failed {:?}", self.acks.len(), self.failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::ConnId;

    fn side() -> LogSide {
        LogSide::default()
    }

    fn request(number: u64) -> SyncRequest {
        SyncRequest::new(ConnId::new(5, 1), number)
    }

    fn failed() -> LogError {
        LogError::Cut { path: PathBuf::from("/logs/sym2030.01.01"), reason: "truncated".to_string() }
    }

    fn lost() -> LogError {
        LogError::Lost { path: PathBuf::from("/logs/sym2030.01.01"), reason: "taken over".to_string() }
    }

    #[test]
    fn responses_wait_in_order_until_their_updates_are_durable() {
        let mut log = side();
        (1..4).for_each(|index| log.acknowledge_later(index, request(index), Bytes::new()));
        let mut due = |tip| std::iter::from_fn(|| log.next_ack(tip)).map(|ack| ack.request).collect::<Vec<_>>();
        assert_eq!((due(0), due(2), due(9)), (vec![], vec![request(1), request(2)], vec![request(3)]));
    }

    #[test]
    fn after_a_failure_nothing_is_acknowledged_and_all_who_wait_get_the_error() {
        let mut log = side();
        log.acknowledge_later(1, request(1), Bytes::new());
        let what = log.fail(&failed()).expect("it is the first");
        assert_eq!((what.acks.len(), what.is_lost, log.is_harmed()), (1, false, true));
        log.acknowledge_later(1, request(2), Bytes::new());
        assert!(log.next_ack(9).is_none() && log.has_failed());
    }

    #[test]
    fn a_log_that_failed_already_can_still_be_lost_to_another_tickerplant() {
        let mut log = side();
        assert!(log.fail(&failed()).is_some() && log.fail(&failed()).is_none());
        assert!(log.fail(&lost()).is_some_and(|what| what.is_lost));
    }

    #[test]
    fn what_a_full_disk_left_unwritten_is_taken_back_once() {
        let mut log = LogSide { unwritten: [(5, 3, 30)].into(), ..side() };
        assert_eq!(log.fail(&failed()).map(|what| what.unwritten), Some((3, 30)));
        log.unwritten = [(5, 3, 30)].into();
        assert_eq!(log.fail(&lost()).map(|what| what.unwritten), Some((0, 0)), "with room it would be written");
    }

    #[test]
    fn a_day_that_cannot_end_says_why_until_it_does() {
        let mut log = side();
        log.hold_roll(Date(1), Date(2), &failed());
        assert!(log.roll_held().is_some_and(|reason| reason.contains("truncated")));
    }
}
