//! The auditor: keeps its own books of what publishers were told, what the log has, and what nodes hold, and says what does not
//! agree. The log it reads with a reader of its own; the table of the queues, the tip and the windows of nodes are what production shows.

pub mod holdings;
pub mod queues;
pub mod record;
pub mod wanted;

use super::disk::Storage;
use holdings::{Filter, Row};
use record::{Extras, HEAD_BYTES, Record, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What the operator was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing: what is acknowledged may be in memory.
    Nothing,
    /// Survives the end of the process.
    Process,
    /// Survives a power cut.
    Power,
}

/// A rule that was broken, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

/// An update as its publisher made it.
#[derive(Clone, Debug)]
struct Sent {
    table: usize,
    syms: Vec<u8>,
    /// Columns beyond the first ones.
    extras: usize,
    /// How often: a feed sends again what it does not find in the log.
    times: usize,
    acknowledged: bool,
    refused: bool,
    /// The run of the tickerplant that answered what its publisher asked behind it.
    handled_by: Option<u32>,
    /// Day and place in the log.
    logged: Option<(i32, usize)>,
}

/// A day's log, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct DayLog {
    pub records: Vec<Record>,
    path: PathBuf,
    read_bytes: usize,
    /// The first update that a crash took out of the log after it had been there; others may hold it still.
    pub lost_from: Option<usize>,
    /// What crashes took, whether it was sent and logged again or not.
    taken: BTreeSet<u64>,
    /// How many of those were changes of a table.
    taken_changes: usize,
    /// Others may hold what was told and never read here: told before it was in the file, or by a tickerplant that had lost the log.
    unread: bool,
}

/// The auditor's books.
pub struct Auditor {
    promise: Promise,
    /// Updates are published before they are in the file: a crash may take some that nobody ever read there.
    ahead: bool,
    sent: BTreeMap<u64, Sent>,
    days: BTreeMap<i32, DayLog>,
    /// Tables with so many columns added as the operator has called for.
    called_for: BTreeSet<(usize, usize)>,
    /// Of each publisher, the last number that was logged.
    last_of: BTreeMap<u64, u64>,
    pub acknowledged: u64,
    /// Acknowledged updates that a crash was allowed to take.
    pub allowed_losses: u64,
    pub checked_rows: u64,
}

/// Numbers of one publisher are in one block.
pub const PUBLISHER_BITS: u32 = 32;

impl Auditor {
    pub fn new(promise: Promise, ahead: bool) -> Auditor {
        Auditor {
            promise,
            ahead,
            sent: BTreeMap::new(),
            days: BTreeMap::new(),
            called_for: BTreeSet::new(),
            last_of: BTreeMap::new(),
            acknowledged: 0,
            allowed_losses: 0,
            checked_rows: 0,
        }
    }

    pub fn day(&self, date: i32) -> Option<&DayLog> {
        self.days.get(&date)
    }

    /// Whether a place in a day's log may have been another update's before a crash, or for a tickerplant that has lost the log.
    pub fn is_behind_loss(&self, date: i32, place: usize) -> bool {
        self.day(date).and_then(|day| day.lost_from).is_some_and(|from| place >= from)
    }

    /// A publisher sends.
    pub fn sends(&mut self, id: u64, table: usize, syms: Vec<u8>, extras: usize) {
        let (acknowledged, refused) = (false, false);
        let sent = Sent { table, syms, extras, times: 1, acknowledged, refused, handled_by: None, logged: None };
        self.sent.insert(id, sent);
    }

    /// The operator calls for a table with so many columns beyond the first ones.
    pub fn calls_for_columns(&mut self, table: usize, extras: usize) {
        self.called_for.insert((table, extras));
    }

    /// A feed did not find them in the log, and sends them once more.
    pub fn sends_again(&mut self, ids: impl Iterator<Item = u64>) {
        for id in ids {
            if let Some(sent) = self.sent.get_mut(&id) {
                sent.times = sent.times.saturating_add(1);
            }
        }
    }

    /// A publisher was told that its update was accepted.
    ///
    /// # Errors
    /// Where it is not as safe as was promised.
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
                let end = day.and_then(|day| day.records.get(place)).map_or(usize::MAX, |record| record.end);
                let safe = day.map_or(0, |day| storage.durable_bytes(&day.path));
                if end <= safe {
                    return Ok(());
                }
                Err(Broken(format!("update {id} was acknowledged, but a power cut would take it from the log")))
            }
        }
    }

    /// A publisher was told that its update was accepted, by a tickerplant that has lost its log and has not noticed yet. Only a sync
    /// tells it, so that what promises less may lose it.
    pub fn acknowledged_by_old(&mut self) {
        self.acknowledged = self.acknowledged.saturating_add(1);
        self.allowed_losses = self.allowed_losses.saturating_add(1);
    }

    /// A publisher was told that its update was refused.
    ///
    /// A log that failed may have it all the same: its write was taken back, or it was not. Nothing is promised.
    pub fn refuses(&mut self, id: u64) {
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.refused = true;
        }
    }

    /// A publisher has an answer to what it asked behind updates that ask for none themselves: this run of the tickerplant has
    /// handled them.
    pub fn handled(&mut self, ids: &[u64], run: u32) {
        for id in ids {
            if let Some(sent) = self.sent.get_mut(id) {
                sent.handled_by = Some(run);
            }
        }
    }

    /// Reads what has been added to a day's log.
    ///
    /// # Errors
    /// What no publisher sent, what came twice, what came in another order.
    pub fn follow(&mut self, storage: &Storage, path: &Path, date: i32) -> Result<(), Broken> {
        let day = self.days.entry(date).or_insert_with(|| DayLog {
            path: path.to_path_buf(),
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
            if record.is_change {
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
            if self.last_of.insert(publisher, record.id).is_some_and(|before| before >= record.id) {
                return Err(Broken(format!("update {} was logged behind a later one of its publisher", record.id)));
            }
            day.records.push(record);
        }
        day.read_bytes = begin.saturating_add(at);
        Ok(())
    }

    /// The tickerplant has started again after a crash, or, `taken_over`, while another goes on that has lost its log and tells its
    /// subscribers what is in none. `today` is the day whose log it has.
    ///
    /// # Errors
    /// An acknowledged update is gone that should not be.
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
            let path = day.path.clone();
            let size = storage.read(&path, 0).map_or(0, |bytes| bytes.len());
            let bytes = storage.read(&path, 0).unwrap_or_default();
            // What is there still, record by record: a hole is found as well as an end.
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
            day.taken.extend(gone.iter().filter(|record| !record.is_change).map(|record| record.id));
            let changes = gone.iter().filter(|record| record.is_change).count();
            day.taken_changes = day.taken_changes.saturating_add(changes);
            for record in gone {
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
            // Nobody has opened the log of a day that was over by then, and put its end right.
            if today == Some(*date) {
                self.follow(storage, &path, *date)?;
            }
        }
        self.last_of.clear();
        for record in self.days.values().flat_map(|day| &day.records).filter(|record| !record.is_change) {
            let last = self.last_of.entry(record.id >> PUBLISHER_BITS).or_insert(record.id);
            *last = (*last).max(record.id);
        }
        if self.promise == Promise::Nothing {
            // What was held back is gone.
            for sent in self.sent.values_mut().filter(|sent| sent.logged.is_none()) {
                if std::mem::take(&mut sent.acknowledged) {
                    self.allowed_losses = self.allowed_losses.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    /// Everything has come to rest: what was acknowledged is in a log, and what this run of the tickerplant has handled. It refuses
    /// nothing but what was under way while its table changed to the columns that it has now.
    ///
    /// # Errors
    /// What is not.
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

    /// Which of a day's updates a subscriber gets from a window, in order.
    pub fn expected<'a>(
        &'a self,
        date: i32,
        window: std::ops::Range<usize>,
        table: usize,
        filter: &'a Filter,
    ) -> Option<impl Iterator<Item = Row> + 'a> {
        let records = self.days.get(&date)?.records.get(window)?;
        Some(records.iter().filter(move |record| record.table == table).flat_map(move |record| {
            let wanted = (0..).zip(&record.syms).filter(move |(_, sym)| filter.wants(record.table, **sym));
            wanted.map(move |(place, sym)| Row {
                id: record.id,
                place,
                sym: *sym,
                time_ns: record.time_ns,
                extras: record.extras,
            })
        }))
    }

    /// Days before this one need not be remembered.
    pub fn forget_before(&mut self, date: i32) {
        let old: Vec<i32> = self.days.range(..date).map(|(date, _)| *date).collect();
        for date in old {
            if let Some(day) = self.days.remove(&date) {
                day.records.iter().for_each(|record| drop(self.sent.remove(&record.id)));
            }
        }
        // What nodes may hold of a day that is not over stays known, also where no log has it.
        let (days, ahead) = (&self.days, self.ahead);
        let may_be_held = |id: &u64| ahead || days.values().any(|day| day.unread || day.taken.contains(id));
        self.sent.retain(|id, sent| sent.logged.is_some() || sent.acknowledged || may_be_held(id));
    }
}
