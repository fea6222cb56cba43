//! The auditor: records what publishers sent and which responses they received, and compares that with the log and with nodes' rows. It
//! reads the log with its own reader; the table of the queues, the tip and nodes' windows are what production shows.

pub mod holdings;
pub mod needed;
pub mod queues;
pub mod record;
pub mod surplus;

use super::disk::Storage;
use holdings::{Filter, Row};
use record::{Extras, HEAD_BYTES, Kind, Record, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What an acknowledgement promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing: an acknowledged update may be in memory only.
    Nothing,
    /// The update survives the end of the process.
    Process,
    /// The update survives a power cut.
    Power,
}

/// A broken rule, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

/// An update as its publisher sent it.
#[derive(Clone, Debug)]
struct Sent {
    table: usize,
    syms: Vec<u8>,
    /// Number of added columns.
    extras: usize,
    /// How often it was sent: a feed sends again what it does not find in the log.
    times: usize,
    acknowledged: bool,
    refused: bool,
    /// [`Auditor::log_changes`] when it was last sent.
    log_changes: u64,
    /// Whether the log failed after it was sent, and it was sent again: the log may have continued with later ones of its publisher.
    may_be_late: bool,
    /// Run of the tickerplant that responded to a request sent after the update, and whose log did not fail in between.
    handled_by: Option<u32>,
    /// Day and place in the log.
    logged: Option<(i32, usize)>,
}

/// A day's log, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct DayLog {
    pub records: Vec<Record>,
    path: PathBuf,
    /// Run of the tickerplant that began it.
    begun_by: u32,
    read_bytes: usize,
    /// First place that a crash took from the log; nodes may still hold updates from there on.
    pub lost_from: Option<usize>,
    /// Updates that crashes took, even if they were sent and logged again.
    taken: BTreeSet<u64>,
    /// Number of records without rows that crashes took.
    taken_others: usize,
    /// Set if nodes may hold updates never read here: published before they were in the file, or by a tickerplant that had lost the log.
    unread: bool,
}

/// The auditor's records.
pub struct Auditor {
    promise: Promise,
    /// Updates are published before they are in the file: a crash may take updates that were never read there.
    ahead: bool,
    sent: BTreeMap<u64, Sent>,
    days: BTreeMap<i32, DayLog>,
    /// How often the tickerplant's log has failed or continued: odd while it has failed.
    log_changes: u64,
    /// Tables with the counts of added columns that the operator has requested.
    called_for: BTreeSet<(usize, usize)>,
    /// Updates larger than any node, which nodes leave out.
    too_large: BTreeSet<u64>,
    /// Last logged id of each publisher.
    last_of: BTreeMap<u64, u64>,
    /// Publishers that number their updates.
    numbers: BTreeSet<u64>,
    pub acknowledged: u64,
    /// Acknowledged updates that a crash was allowed to take.
    pub allowed_losses: u64,
    pub checked_rows: u64,
}

/// Bits of an id below the publisher's number.
pub const PUBLISHER_BITS: u32 = 32;

impl Auditor {
    pub fn new(promise: Promise, ahead: bool) -> Auditor {
        Auditor {
            promise,
            ahead,
            sent: BTreeMap::new(),
            days: BTreeMap::new(),
            log_changes: 0,
            called_for: BTreeSet::new(),
            too_large: BTreeSet::new(),
            last_of: BTreeMap::new(),
            numbers: BTreeSet::new(),
            acknowledged: 0,
            allowed_losses: 0,
            checked_rows: 0,
        }
    }

    pub fn day(&self, date: i32) -> Option<&DayLog> {
        self.days.get(&date)
    }

    /// The last day with a log before this date.
    pub fn day_before(&self, date: i32) -> Option<i32> {
        self.days.range(..date).next_back().map(|(before, _)| *before)
    }

    /// Returns whether a place in a day's log may have had another update before a crash, or in the view of a tickerplant that has lost the log.
    pub fn is_behind_loss(&self, date: i32, place: usize) -> bool {
        self.day(date).and_then(|day| day.lost_from).is_some_and(|from| place >= from)
    }

    /// Returns whether a day's log was begun by a later run of the tickerplant.
    pub fn is_begun_after(&self, date: i32, run: u32) -> bool {
        self.day(date).is_some_and(|day| day.begun_by > run)
    }

    /// Records an update that a publisher sends.
    pub fn sends(&mut self, id: u64, table: usize, syms: Vec<u8>, extras: usize) {
        let (acknowledged, refused) = (false, false);
        let sent = Sent {
            table,
            syms,
            extras,
            times: 1,
            acknowledged,
            refused,
            log_changes: self.log_changes,
            may_be_late: false,
            handled_by: None,
            logged: None,
        };
        self.sent.insert(id, sent);
    }

    /// Records that a publisher numbers its updates.
    pub fn numbers(&mut self, publisher: u64) {
        self.numbers.insert(publisher);
    }

    /// Returns the id of the last update of a publisher that is in a log.
    pub fn last_logged_of(&self, publisher: u64) -> Option<u64> {
        self.last_of.get(&publisher).copied()
    }

    /// Records an update that no node can hold.
    pub fn is_too_large(&mut self, id: u64) {
        self.too_large.insert(id);
    }

    /// Returns whether nodes with this filter leave out an update of a window.
    pub fn leaves_out(&self, date: i32, window: std::ops::Range<usize>, filter: &Filter) -> bool {
        let records = self.days.get(&date).map(|day| day.records.as_slice()).unwrap_or_default();
        let window = window.start.min(records.len())..window.end.min(records.len());
        let records = records.get(window).unwrap_or_default();
        let wants = |record: &Record| record.syms.first().is_some_and(|sym| filter.wants(record.table, *sym));
        !self.too_large.is_empty() && records.iter().any(|record| self.too_large.contains(&record.id) && wants(record))
    }

    /// Records the operator's request for added columns of a table.
    pub fn calls_for_columns(&mut self, table: usize, extras: usize) {
        self.called_for.insert((table, extras));
    }

    /// Records that a feed sends these updates once more, as it did not find them in the log.
    pub fn sends_again(&mut self, ids: impl Iterator<Item = u64>) {
        for id in ids {
            if let Some(sent) = self.sent.get_mut(&id) {
                sent.times = sent.times.saturating_add(1);
                sent.may_be_late |= sent.log_changes != self.log_changes;
                sent.log_changes = self.log_changes;
            }
        }
    }

    /// Records an acknowledgement.
    ///
    /// # Errors
    /// The update is less safe than promised.
    pub fn acknowledges(&mut self, id: u64, storage: &Storage) -> Result<(), Broken> {
        self.acknowledged = self.acknowledged.saturating_add(1);
        let Some(sent) = self.sent.get_mut(&id) else { return Err(Broken(format!("update {id} was never sent"))) };
        sent.acknowledged = true;
        match (self.promise, sent.logged) {
            (Promise::Nothing, _) => Ok(()),
            (_, None) => Err(Broken(format!("update {id} was acknowledged, but is in no log"))),
            (Promise::Process, Some(_)) => Ok(()),
            (Promise::Power, Some((date, place))) => {
                let day = self.days.get(&date);
                let end = |place: usize| day.and_then(|day| day.records.get(place)).map(|record| record.end);
                let begin = place.checked_sub(1).map_or(Some(HEAD_BYTES), end);
                let is_safe = |day: &DayLog| {
                    let range = begin.zip(end(place)).map(|(begin, end)| begin..end);
                    range.is_some_and(|range| storage.is_durable(&day.path, range))
                };
                if day.is_some_and(is_safe) {
                    return Ok(());
                }
                Err(Broken(format!("update {id} was acknowledged, but a power cut would take it from the log")))
            }
        }
    }

    /// Records an acknowledgement by a tickerplant that has lost its log without noticing. Only a sync reveals that, so durabilities that
    /// promise less than `Promise::Power` may lose the update.
    pub fn acknowledged_by_old(&mut self) {
        self.acknowledged = self.acknowledged.saturating_add(1);
        self.allowed_losses = self.allowed_losses.saturating_add(1);
    }

    /// Records a rejected update.
    ///
    /// The log may have it nevertheless: a failed write may or may not have been undone. Nothing is promised.
    pub fn refuses(&mut self, id: u64) {
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.refused = true;
        }
    }

    /// Records whether the tickerplant's log has failed. It may continue by itself, and has rejected what came meanwhile.
    pub fn log_has_failed(&mut self, has_failed: bool) {
        if has_failed == self.log_changes.is_multiple_of(2) {
            self.log_changes = self.log_changes.saturating_add(1);
        }
    }

    /// Records that this run of the tickerplant responded to a request sent after these async updates, and so has handled them. Its log has
    /// them, unless it failed in between.
    pub fn handled(&mut self, ids: &[u64], run: u32) {
        for id in ids {
            if let Some(sent) = self.sent.get_mut(id) {
                let is_sound = self.log_changes.is_multiple_of(2) && sent.log_changes == self.log_changes;
                sent.handled_by = is_sound.then_some(run);
            }
        }
    }

    /// Reads what was appended to a day's log, now by this run of the tickerplant.
    ///
    /// # Errors
    /// An update that was never sent, is logged twice, or is out of order.
    pub fn follow(&mut self, storage: &Storage, path: &Path, date: i32, run: u32) -> Result<(), Broken> {
        let day = self.days.entry(date).or_insert_with(|| DayLog {
            path: path.to_path_buf(),
            begun_by: run,
            read_bytes: HEAD_BYTES,
            ..DayLog::default()
        });
        let begin = day.read_bytes;
        let Some(bytes) = storage.read(path, begin) else { return Ok(()) };
        let mut at = 0;
        while at < bytes.len() {
            let mut record = match record::read(&bytes, at) {
                Ok(record) => record,
                Err(Unread::Short) => break,
                Err(Unread::Strange(what)) => return Err(Broken(format!("{}: {what} (from {begin})", path.display()))),
            };
            at = record.end;
            record.end = record.end.saturating_add(begin);
            let place = day.records.len();
            let before = day.records.iter().rev().find(|before| before.table == record.table);
            if before.is_some_and(|before| before.extras > record.extras) {
                let (table, extras) = (record.table, record.extras);
                return Err(Broken(format!(
                    "table {table} has {extras} columns added at {place} of {date}, fewer than before"
                )));
            }
            if record.kind == Kind::Number {
                day.records.push(record);
                continue;
            }
            if record.kind == Kind::Change {
                if !self.called_for.contains(&(record.table, record.extras)) {
                    let (table, extras) = (record.table, record.extras);
                    return Err(Broken(format!(
                        "table {table} gets column {extras} in the log, which nobody called for"
                    )));
                }
                day.records.push(record);
                continue;
            }
            let Some(sent) = self.sent.get_mut(&record.id) else {
                return Err(Broken(format!("the log has update {}, which nobody sent", record.id)));
            };
            if let Some((before, at)) = sent.logged.replace((date, place)) {
                let id = record.id;
                return Err(Broken(format!(
                    "update {id} is in the log twice: {before} at {at}, and {date} at {place}"
                )));
            }
            if (sent.table, &sent.syms, sent.extras) != (record.table, &record.syms, record.extras) {
                return Err(Broken(format!("the log has update {} with other rows", record.id)));
            }
            let publisher = record.id >> PUBLISHER_BITS;
            let number = day.records.last().filter(|before| before.kind == Kind::Number).map(|before| before.id);
            if self.numbers.contains(&publisher) && number != Some(record.id) {
                return Err(Broken(format!("update {} stands in the log without its number", record.id)));
            }
            let last = self.last_of.entry(publisher).or_insert(0);
            let is_late = *last >= record.id;
            *last = (*last).max(record.id);
            if is_late && (!sent.may_be_late || self.numbers.contains(&publisher)) {
                return Err(Broken(format!("update {} was logged behind a later one of its publisher", record.id)));
            }
            day.records.push(record);
        }
        day.read_bytes = begin.saturating_add(at);
        Ok(())
    }

    /// Compares the log with the records after the tickerplant has restarted. `taken_over` means that the former tickerplant lost its log
    /// but still runs, and publishes updates that are in no log. `today` is the day of the new one's log.
    ///
    /// # Errors
    /// An acknowledged update is gone that must not be.
    pub fn restarted(
        &mut self,
        storage: &Storage,
        crash: Promise,
        taken_over: bool,
        today: Option<i32>,
    ) -> Result<(), Broken> {
        let dates: Vec<i32> = self.days.keys().copied().collect();
        for date in dates.iter().rev().take(2) {
            let Some(day) = self.days.get_mut(date) else { continue };
            let (path, run) = (day.path.clone(), day.begun_by);
            let size = storage.read(&path, 0).map_or(0, |bytes| bytes.len());
            let bytes = storage.read(&path, 0).unwrap_or_default();
            // Record by record, so that a hole is found as well as a lost end.
            let mut kept = 0;
            let mut at = HEAD_BYTES;
            while let Some(known) = day.records.get(kept)
                && known.end <= size
                && record::read(&bytes, at).is_ok_and(|found| found == *known)
            {
                at = known.end;
                kept += 1;
            }
            let gone = day.records.split_off(kept);
            day.read_bytes = at;
            if !gone.is_empty() || self.ahead || taken_over {
                day.lost_from = Some(day.lost_from.map_or(kept, |before| before.min(kept)));
            }
            day.unread |= self.ahead || taken_over;
            day.taken.extend(gone.iter().filter(|record| record.kind == Kind::Update).map(|record| record.id));
            let others = gone.iter().filter(|record| record.kind != Kind::Update).count();
            day.taken_others = day.taken_others.saturating_add(others);
            for record in gone.into_iter().filter(|record| record.kind == Kind::Update) {
                let Some(sent) = self.sent.get_mut(&record.id) else { continue };
                sent.logged = None;
                if sent.acknowledged {
                    let allowed = match self.promise {
                        Promise::Nothing => true,
                        Promise::Process => crash == Promise::Power,
                        Promise::Power => false,
                    };
                    if !allowed {
                        return Err(Broken(format!("update {} was acknowledged and is gone after a crash", record.id)));
                    }
                    sent.acknowledged = false;
                    self.allowed_losses = self.allowed_losses.saturating_add(1);
                }
            }
            // What is gone says nothing about the order of what the file has in its place.
            self.find_last_of();
            // No tickerplant opens the log of a day that is over, so its end is not repaired.
            if today == Some(*date) {
                self.follow(storage, &path, *date, run)?;
            }
        }
        if self.promise == Promise::Nothing {
            // Buffered updates are lost.
            for sent in self.sent.values_mut().filter(|sent| sent.logged.is_none()) {
                if std::mem::take(&mut sent.acknowledged) {
                    self.allowed_losses = self.allowed_losses.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    /// Finds the last id of each publisher among the known records.
    fn find_last_of(&mut self) {
        self.last_of.clear();
        for record in self.days.values().flat_map(|day| &day.records).filter(|record| record.kind == Kind::Update) {
            let last = self.last_of.entry(record.id >> PUBLISHER_BITS).or_insert(record.id);
            *last = (*last).max(record.id);
        }
    }

    /// Checks at rest that a log has every acknowledged update, and every update that this run of the tickerplant has handled. A handled
    /// update may have been rejected only if its table had other columns then than now.
    ///
    /// # Errors
    /// An update that is in no log.
    pub fn at_rest(&self, run: u32, extras: Extras) -> Result<(), Broken> {
        for (id, sent) in self.sent.iter().filter(|(_, sent)| sent.logged.is_none()) {
            if sent.acknowledged {
                return Err(Broken(format!("update {id} was acknowledged, but is in no log")));
            }
            let table_changed = extras.get(sent.table) != Some(&sent.extras);
            if sent.handled_by == Some(run) && !table_changed {
                return Err(Broken(format!("update {id} came before what was answered, but is in no log")));
            }
        }
        Ok(())
    }

    /// Returns the rows that a subscriber gets of one table in a window, in order.
    pub fn expected<'a>(
        &'a self,
        date: i32,
        window: std::ops::Range<usize>,
        table: usize,
        filter: &'a Filter,
    ) -> Option<impl Iterator<Item = Row> + 'a> {
        let records = self.days.get(&date)?.records.get(window)?;
        let held = move |record: &&Record| record.table == table && !self.too_large.contains(&record.id);
        Some(records.iter().filter(held).flat_map(move |record| {
            let requested = (0..).zip(&record.syms).filter(move |(_, sym)| filter.wants(record.table, **sym));
            requested.map(move |(place, sym)| Row {
                id: record.id,
                place,
                sym: *sym,
                time_ns: record.time_ns,
                extras: record.extras,
            })
        }))
    }

    /// Drops records of days before this one.
    pub fn forget_before(&mut self, date: i32) {
        let old: Vec<i32> = self.days.range(..date).map(|(date, _)| *date).collect();
        for date in old {
            if let Some(day) = self.days.remove(&date) {
                day.records.iter().for_each(|record| drop(self.sent.remove(&record.id)));
            }
        }
        // Updates in no log are kept as long as a node may hold them.
        let (days, ahead) = (&self.days, self.ahead);
        let may_be_held = |id: &u64| ahead || days.values().any(|day| day.unread || day.taken.contains(id));
        self.sent.retain(|id, sent| sent.logged.is_some() || sent.acknowledged || may_be_held(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the verdict at rest on an async update that was handled; `has_failed`: the log's state before, when it was sent, and after.
    fn verdict(has_failed: [bool; 3]) -> Result<(), Broken> {
        let mut auditor = Auditor::new(Promise::Process, false);
        let [before, between, after] = has_failed;
        auditor.log_has_failed(before);
        auditor.sends(1, 0, vec![1], 0);
        auditor.log_has_failed(between);
        auditor.log_has_failed(after);
        auditor.handled(&[1], 7);
        auditor.at_rest(7, Extras::default())
    }

    #[test]
    fn only_a_failed_log_excuses_an_update_that_was_handled_and_is_in_no_log() {
        assert!(verdict([false; 3]).is_err());
        for failed in [[true, false, false], [false, true, false], [false, false, true], [true; 3]] {
            assert_eq!(verdict(failed), Ok(()), "{failed:?}");
        }
    }
}
