//! Compares with the log what nodes hold and what watchers received.

use super::record::Kind;
use super::{Auditor, Broken, DayLog};
use std::collections::BTreeMap;
use std::ops::Range;

/// A subscription as the auditor understands it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Tables by number; empty for all.
    pub tables: Vec<usize>,
    /// Symbols by number; empty for all.
    pub syms: Vec<u8>,
}

impl Filter {
    pub fn wants(&self, table: usize, sym: u8) -> bool {
        (self.tables.is_empty() || self.tables.contains(&table)) && (self.syms.is_empty() || self.syms.contains(&sym))
    }

    /// Returns the filter's part for one table.
    pub fn of_table(&self, table: usize) -> Filter {
        match self.tables.is_empty() || self.tables.contains(&table) {
            true => Filter { tables: vec![table], syms: self.syms.clone() },
            // Matches nothing: no table has this number.
            false => Filter { tables: vec![usize::MAX], syms: Vec::new() },
        }
    }

    pub fn is_everything(&self) -> bool {
        self.tables.is_empty() && self.syms.is_empty()
    }
}

/// A row as a node holds it or the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Id of its update.
    pub id: u64,
    /// Its position in the update.
    pub place: i64,
    pub sym: u8,
    pub time_ns: i64,
    /// Number of added columns that its publisher filled; later ones hold nulls.
    pub extras: usize,
}

/// A window as a node shows it, with the rows of each table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holding {
    pub window: Range<usize>,
    pub open: bool,
    pub tables: Vec<Vec<Row>>,
}

impl Auditor {
    /// Checks that a node holds a window as the log has it.
    ///
    /// # Errors
    /// The first row that differs.
    pub fn check_holding(&mut self, who: &str, date: i32, holding: &Holding, filter: &Filter) -> Result<(), Broken> {
        for (table, held) in holding.tables.iter().enumerate() {
            let Some(expected) = self.expected(date, holding.window.clone(), table, filter) else {
                let window = &holding.window;
                return Err(Broken(format!("{who} holds {window:?} of {date}, which the log does not have")));
            };
            let expected: Vec<Row> = expected.collect();
            if expected != *held {
                let at = expected.iter().zip(held).position(|(log, node)| log != node);
                let at = at.unwrap_or(expected.len().min(held.len()));
                let (log, node) = (expected.get(at), held.get(at));
                let place = log.or(node).and_then(|row| self.sent.get(&row.id)?.logged).map(|(_, place)| place);
                let (window, rows, logged) = (&holding.window, held.len(), expected.len());
                let open = if holding.open { " (open)" } else { "" };
                return Err(Broken(format!(
                    "{who} holds {window:?}{open} of {date}, table {table}, with {rows} rows where the log has {logged}: row {at} is {node:?}, logged {log:?} at {place:?}"
                )));
            }
            self.checked_rows = self.checked_rows.saturating_add(held.len() as u64);
        }
        Ok(())
    }

    /// Checks whether a node may hold a window that differs from the log. The rows must equal the log's up to the first update that a crash
    /// took. From there the node may hold other updates that were sent and lost, if they are whole and no more frequent than they were
    /// sent.
    ///
    /// # Errors
    /// The row or update that the node must not hold.
    pub fn check_stale(&self, date: i32, holding: &Holding, filter: &Filter) -> Result<(), Broken> {
        let window = &holding.window;
        let day = self.days.get(&date);
        let lost = day.and_then(|day| Some((day, day.lost_from.filter(|from| *from < window.end)?)));
        let Some((day, from)) = lost else { return Err(Broken("no crash took any of it from the log".to_string())) };
        let from = from.max(window.start);
        let mut copies = BTreeMap::new();
        for (table, held) in holding.tables.iter().enumerate() {
            let before: Vec<Row> =
                self.expected(date, window.start..from, table, filter).map(Iterator::collect).unwrap_or_default();
            if held.get(..before.len()) != Some(before.as_slice()) {
                return Err(Broken(format!("table {table} differs before {from}, where none was taken")));
            }
            copies.extend(before.iter().map(|row| (row.id, 1usize)));
            let rest = held.get(before.len()..).unwrap_or_default();
            let mut last = None;
            for update in rest.chunk_by(|one, other| one.id == other.id && one.place < other.place) {
                let Some(id) = update.first().map(|row| row.id) else { continue };
                self.check_update(id, table, update, filter)?;
                let copies = copies.entry(id).or_insert(0usize);
                *copies = copies.saturating_add(1);
                if self.sent.get(&id).is_none_or(|sent| *copies > sent.times) {
                    return Err(Broken(format!("update {id} is held {copies} times, and was sent less often")));
                }
                if self.may_be_taken(day, id) {
                    continue;
                }
                let place = self.place_of(id).filter(|(of, place)| *of == date && (from..window.end).contains(place));
                let Some((_, place)) = place else {
                    return Err(Broken(format!("update {id} is held, not logged there, and no crash took it")));
                };
                if last.replace(place).is_some_and(|last| last >= place) {
                    return Err(Broken(format!("update {id} is held in another order than the log has")));
                }
            }
        }
        let held = copies.values().fold(0, |all: usize, own| all.saturating_add(*own));
        // Schema changes and numbers are updates without rows; a crash may have taken some that the node had received.
        let others = day
            .records
            .get(window.clone())
            .unwrap_or_default()
            .iter()
            .filter(|record| record.kind != Kind::Update)
            .count();
        let most_others = others.saturating_add(day.taken_others);
        let counts = held.saturating_add(most_others) >= window.len() && held <= window.len();
        if filter.is_everything() && !counts {
            return Err(Broken(format!("{held} updates are held of a window of {}", window.len())));
        }
        Ok(())
    }

    /// Returns whether a node may hold an update at another's place: a crash took it from the log, or the auditor never read it there, and
    /// it is in no log or was sent again.
    fn may_be_taken(&self, day: &DayLog, id: u64) -> bool {
        let unread = || self.sent.get(&id).is_some_and(|sent| sent.logged.is_none() || sent.times > 1);
        day.taken.contains(&id) || (day.unread && unread())
    }

    /// Checks that a held update has the rows that were sent, as far as they match the filter.
    fn check_update(&self, id: u64, table: usize, held: &[Row], filter: &Filter) -> Result<(), Broken> {
        let Some(sent) = self.sent.get(&id) else {
            return Err(Broken(format!("update {id} is held, and was never sent")));
        };
        let sent_rows = (0i64..).zip(&sent.syms).filter(|(_, sym)| filter.wants(table, **sym));
        let is_whole = sent_rows.map(|(place, sym)| (place, *sym)).eq(held.iter().map(|row| (row.place, row.sym)));
        let one_moment = held.iter().all(|row| held.first().is_some_and(|first| first.time_ns == row.time_ns));
        let as_sent = held.iter().all(|row| row.extras == sent.extras);
        if is_whole && one_moment && as_sent && sent.table == table {
            return Ok(());
        }
        Err(Broken(format!("update {id} is held with other rows than were sent")))
    }

    /// Returns the next update at or behind `from` that a subscriber receives, and the place behind it.
    pub fn next_received(&self, date: i32, from: usize, filter: &Filter) -> Option<(u64, usize)> {
        let records = self.days.get(&date)?.records.get(from..)?;
        let wanted = |syms: &[u8], table| syms.iter().any(|sym| filter.wants(table, *sym));
        let at = records.iter().position(|record| wanted(&record.syms, record.table))?;
        records.get(at).map(|record| (record.id, from.saturating_add(at).saturating_add(1)))
    }

    /// Returns the day of an update's log and its place in it.
    pub fn place_of(&self, id: u64) -> Option<(i32, usize)> {
        self.sent.get(&id)?.logged
    }
}

/// Checks that the closed windows and the open one follow one another from 0 to the tip. What is written down may be missing.
///
/// # Errors
/// The first gap or overlap.
pub fn tile(
    queue: &str,
    mut windows: Vec<(String, Range<usize>, bool)>,
    written: usize,
    tip: usize,
) -> Result<(), Broken> {
    windows.retain(|(_, window, open)| *open || !window.is_empty());
    windows.sort_by_key(|(_, window, open)| (window.start, window.end, *open));
    let mut next = 0;
    for (at, (who, window, open)) in windows.iter().enumerate() {
        let is_written = window.start > next && window.start <= written;
        if window.start != next && !is_written {
            let what = if window.start > next { "nobody holds" } else { "two hold" };
            return Err(Broken(format!("queue {queue}: {what} what lies between {next} and {} ({who})", window.start)));
        }
        let last = at.saturating_add(1) == windows.len();
        if *open != last {
            return Err(Broken(format!("queue {queue}: the open window of {who} is not the last one, or not there")));
        }
        next = window.end;
    }
    if next != tip {
        return Err(Broken(format!("queue {queue}: nodes hold updates up to {next}, the log has {tip}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::record::{Kind, Record};
    use super::super::{Auditor, DayLog, Promise};
    use super::{Filter, Holding, Row};

    const DAY: i32 = 1;

    fn rows(id: u64) -> Vec<Row> {
        [(0, 1), (1, 2)].map(|(place, sym)| Row { id, place, sym, time_ns: 0, extras: 0 }).to_vec()
    }

    /// Updates 1 to 4 were sent; 1 and 3 are logged; a crash took 2 from the place that 3 now has.
    fn auditor() -> Auditor {
        let mut auditor = Auditor::new(Promise::Nothing, false);
        (1..=4).for_each(|id| auditor.sends(id, 0, vec![1, 2], 0));
        let record = |id| Record { id, table: 0, syms: vec![1, 2], time_ns: 0, extras: 0, kind: Kind::Update, end: 0 };
        let day =
            DayLog { records: vec![record(1), record(3)], lost_from: Some(1), taken: [2].into(), ..DayLog::default() };
        auditor.days.insert(DAY, day);
        for (place, id) in [1, 3].into_iter().enumerate() {
            auditor.sent.get_mut(&id).expect("it was sent").logged = Some((DAY, place));
        }
        auditor
    }

    /// Returns the verdict on an open window of two updates with these rows.
    fn error_of(auditor: &Auditor, held: Vec<Vec<Row>>) -> String {
        let holding = Holding { window: 0..2, open: true, tables: vec![held.concat(), Vec::new()] };
        let result = auditor.check_stale(DAY, &holding, &Filter::default());
        result.err().map(|broken| broken.0).unwrap_or_default()
    }

    #[test]
    fn updates_lost_in_a_crash_may_be_held_at_the_place_of_logged_ones() {
        assert_eq!(error_of(&auditor(), vec![rows(1), rows(2)]), "");
    }

    #[test]
    fn nothing_else_may() {
        let auditor = auditor();
        let cases = [
            (vec![rows(2), rows(3)], "table 0 differs before 1, where none was taken"),
            (vec![rows(1), rows(4)], "update 4 is held, not logged there, and no crash took it"),
            (vec![rows(1), rows(5)], "update 5 is held, and was never sent"),
            (vec![rows(1), rows(1)], "update 1 is held 2 times, and was sent less often"),
            (vec![rows(1), rows(2), rows(2)], "update 2 is held 2 times, and was sent less often"),
            (vec![rows(1), rows(2)[..1].to_vec()], "update 2 is held with other rows than were sent"),
            (vec![rows(1)], "1 updates are held of a window of 2"),
            (vec![rows(1), rows(2), rows(3)], "3 updates are held of a window of 2"),
        ];
        for (held, why) in cases {
            assert_eq!(error_of(&auditor, held), why);
        }
    }

    #[test]
    fn a_window_in_front_of_a_loss_is_the_logs() {
        let mut auditor = auditor();
        auditor.days.get_mut(&DAY).expect("it is there").lost_from = Some(2);
        assert_eq!(error_of(&auditor, vec![rows(1), rows(2)]), "no crash took any of it from the log");
    }
}
