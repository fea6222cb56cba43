//! Fault: tomorrow's log exists before the day ends, as if it had been written while the clock ran ahead and was then moved back into place.

use super::audit::PUBLISHER_BITS;
use super::audit::record::TABLES;
use super::feeds::columns;
use super::tick::LOG_DIR;
use super::world::{DAY, MS, World};
use elastick::env::{Disk, Open};
use elastick::log::{log_path, write_all};
use elastick::queue::Date;
use elastick::tick::clock;
use std::io;
use std::path::Path;

/// Publisher number of the records in such a log; the date is added, so that each log's ids are distinct.
const FIRST_PUBLISHER: u64 = 1 << 20;
/// The fault is drawn on one evening in this many.
const ONCE_IN: u64 = 6;

impl World {
    /// Writes tomorrow's log just before midnight, where a running tickerplant is about to end the day.
    pub fn log_is_put_back(&mut self) {
        let is_chaotic = self.plan.faults.every_ns().is_some();
        let is_drawn = self.put_back.one_in(ONCE_IN);
        let is_midnight = DAY - self.wall() % DAY <= 2 * MS;
        let is_alone = self.old.is_none() && !self.storage.faults().full && self.tick_paused_until_ns <= self.now_ns;
        if !(is_chaotic && is_drawn && is_midnight && is_alone) {
            return;
        }
        let Some(today) = self.tick.as_ref().map(|tick| tick.service.plant.queue().date()) else { return };
        // 2000.01.01 is day 10957 of the Unix epoch.
        let wall_day = i64::try_from(self.wall() / DAY).unwrap_or(0).saturating_sub(10_957);
        let tomorrow = Date(today.0.saturating_add(1));
        let path = log_path(Path::new(LOG_DIR), "sym", clock::civil_date(tomorrow));
        // A tickerplant whose date differs from the clock's does not end its day now.
        if wall_day != i64::from(today.0) || self.storage.paths().contains(&path) {
            return;
        }
        let updates = self.put_back.from(1, 60);
        let mut bytes = proto::log::FILE_HEAD.to_vec();
        for number in 1..=updates {
            let id = (FIRST_PUBLISHER.saturating_add(u64::from(tomorrow.0.unsigned_abs())) << PUBLISHER_BITS) | number;
            let table = usize::try_from(self.put_back.below(TABLES.len() as u64)).unwrap_or(0);
            let rows = self.put_back.from(1, 40);
            let syms: Vec<u8> = (0..rows).map(|_| u8::try_from(self.put_back.below(10)).unwrap_or(0)).collect();
            let Some(columns) = columns(0, &syms, id, 0) else { return };
            let name = TABLES.get(table).copied().unwrap_or_default();
            proto::log::write_record_head(name.as_bytes(), columns.count, &mut bytes);
            bytes.extend_from_slice(&columns.bytes);
            self.auditor.sends(id, table, syms, 0);
        }
        let files = self.storage.of(self.tick_host, u32::MAX);
        self.enter();
        match put(&*files, &path, &bytes) {
            Ok(()) => self.report.fault("log of tomorrow that is there already"),
            Err(_) => self.storage.remove(&path),
        }
    }
}

fn put(files: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = files.open(path, Open::New)?;
    write_all(&*file, bytes, 0)?;
    file.sync_all()?;
    files.sync_directory_of(path)
}
