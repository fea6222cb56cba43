//! What nodes hold, and what watchers were told, against the log.

use super::{Auditor, Broken};
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

    /// The part of it that is of one table.
    pub fn of_table(&self, table: usize) -> Filter {
        match self.tables.is_empty() || self.tables.contains(&table) {
            true => Filter { tables: vec![table], syms: self.syms.clone() },
            // Nothing: no table has this number.
            false => Filter { tables: vec![usize::MAX], syms: Vec::new() },
        }
    }

    pub fn is_everything(&self) -> bool {
        self.tables.is_empty() && self.syms.is_empty()
    }
}

/// A window as a node shows it: the rows of each table as update number and symbol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    pub window: Range<usize>,
    pub open: bool,
    pub tables: Vec<Vec<(u64, u8)>>,
}

impl Auditor {
    /// Whether a node holds a window as the log has it.
    ///
    /// # Errors
    /// The first row that differs.
    pub fn check_holding(
        &mut self,
        who: &str,
        date: i32,
        holding: &Holding,
        filter: &Filter,
    ) -> Result<(), (Broken, Option<usize>)> {
        for (table, held) in holding.tables.iter().enumerate() {
            let Some(expected) = self.expected(date, holding.window.clone(), table, filter) else {
                let window = &holding.window;
                return Err((Broken(format!("{who} holds {window:?} of {date}, which the log does not have")), None));
            };
            let expected: Vec<(u64, u8)> = expected.collect();
            if expected != *held {
                let at = expected.iter().zip(held).position(|(log, node)| log != node);
                let at = at.unwrap_or(expected.len().min(held.len()));
                let (log, node) = (expected.get(at), held.get(at));
                let place = log.or(node).and_then(|(id, _)| self.sent.get(id)?.logged).map(|(_, place)| place);
                let (window, rows, logged) = (&holding.window, held.len(), expected.len());
                let open = if holding.open { " (open)" } else { "" };
                return Err((
                    Broken(format!(
                        "{who} holds {window:?}{open} of {date}, table {table}, with {rows} rows where the log has {logged}: row {at} is {node:?}, logged {log:?} at {place:?}"
                    )),
                    place,
                ));
            }
            self.checked_rows = self.checked_rows.saturating_add(held.len() as u64);
        }
        Ok(())
    }

    /// The next update behind `from` that a subscriber is told of, with the symbols of its rows; and the place behind it.
    pub fn next_told(&self, date: i32, from: usize, filter: &Filter) -> Option<(u64, usize)> {
        let records = self.days.get(&date)?.records.get(from..)?;
        let wanted = |syms: &[u8], table| syms.iter().any(|sym| filter.wants(table, *sym));
        let at = records.iter().position(|record| wanted(&record.syms, record.table))?;
        records.get(at).map(|record| (record.id, from.saturating_add(at).saturating_add(1)))
    }

    /// Where an update is in a day's log.
    pub fn place_of(&self, id: u64) -> Option<(i32, usize)> {
        self.sent.get(&id)?.logged
    }
}

/// Whether closed windows and the open one follow one another from 0 to the tip.
///
/// # Errors
/// The first gap or overlap.
pub fn tile(queue: &str, mut windows: Vec<(String, Range<usize>, bool)>, tip: usize) -> Result<(), Broken> {
    windows.retain(|(_, window, open)| *open || !window.is_empty());
    windows.sort_by_key(|(_, window, open)| (window.start, window.end, *open));
    let mut next = 0;
    for (at, (who, window, open)) in windows.iter().enumerate() {
        if window.start != next {
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
