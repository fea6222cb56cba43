//! A tickerplant log and its side file, damaged in any way.

use super::limits;
use elastick::config::{ChangedBlocks, Damage, Durability, RequiredMount};
use elastick::env::Env;
use elastick::log::{
    DamagedRange, FaultKind, LogOptions, LogReader, LogWriter, Next, log_path, rebuild, repair, show, side_path, survey,
};
use jiff::civil::{Date, date};
use proto::{Endian, View};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK_BYTES: usize = 4096;
const DAY: Date = date(2026, 11, 21);
const SRC: &str = "sym";
/// Record appended after a repair.
const RECORD: &[u8] = b"\x00\x00\x03\0\0\0\xf5upd\0\xf5t\0\x07\x00\x01\0\0\0abcdefgh";

/// Temporary directory, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // In memory if possible, for thousands of logs a second.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!("elastick-fuzz-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the log");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A directory left behind in the temporary directory is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Kind of side file.
#[derive(PartialEq)]
enum Side {
    None,
    /// Written with the log, before the damage.
    True,
    /// Invented, with valid checksums.
    MadeUp,
}

/// Target `log`. Byte 0: side file and repair mode; 1: kind of damage; 2 and 3: its offset; 4: number of entries in an invented side file,
/// ten bytes each; then these entries and the log.
pub fn log(bytes: &[u8]) {
    let [choice, accident, low, high, entries, rest @ ..] = bytes else { return };
    let at = usize::from(u16::from_le_bytes([*low, *high]));
    let side = match choice % 4 {
        0 | 1 => Side::None,
        2 => Side::True,
        _ => Side::MadeUp,
    };
    let entries = if side == Side::MadeUp { usize::from(*entries % 8) } else { 0 };
    let (entries, log) = rest.split_at((entries * 10).min(rest.len()));
    let folder = Folder::new();
    let path = log_path(&folder.0, SRC, DAY);
    std::fs::write(&path, log).expect("a log");
    let before = records(&path, 0);
    let was_whole = before.as_ref().is_some_and(|all| 8 + all.concat().len() == log.len());
    match side {
        Side::None => {}
        Side::True => drop(rebuild(&path, limits(), CHUNK_BYTES, &mut |_, _| {})),
        Side::MadeUp => std::fs::write(side_path(&path), made_up(entries, log)).expect("a side file"),
    }
    let mut now = log.to_vec();
    let kept_bytes = befall(&mut now, *accident, at);
    std::fs::write(&path, &now).expect("a log");
    let damage = [Damage::Stop, Damage::KeepBefore, Damage::Skip][usize::from(choice / 4 % 3)];
    let log = Log { folder: &folder.0, path: &path, side, damage };
    log.look(&now);
    // Exempt logs where a torn record contains the beginning of another one, which the reader takes for a record because records carry no
    // length, and updates with columns of different lengths, which no tickerplant logs: their counts may be wrong.
    if let (true, Some(kept_bytes), Some(all)) = (was_whole && log.side != Side::MadeUp, kept_bytes, before)
        && !all.iter().any(|record| hides_another(record, &all) || is_uneven(record))
    {
        let mut end = 8;
        let whole = all.iter().take_while(|record| {
            end += record.len();
            end <= kept_bytes
        });
        let whole: Vec<Vec<u8>> = whole.cloned().collect();
        log.is_prefix(&whole, now.len());
    }
    log.repair();
}

/// Damages a log. Returns the length of the intact prefix if nothing but zeros follows it.
fn befall(log: &mut Vec<u8>, accident: u8, at: usize) -> Option<usize> {
    let place = at % log.len().max(1);
    match accident % 6 {
        0 => return Some(log.len()),
        1 => {
            log.truncate(place);
            return (place >= 8).then_some(place);
        }
        2 => {
            // A file system that kept the new length but lost the written blocks.
            let whole = log.len();
            log.resize(whole + at % 5000, 0);
            return Some(whole);
        }
        3 => {
            if let Some(byte) = log.get_mut(place) {
                *byte ^= 1 << (accident / 6 % 8);
            }
        }
        4 => {
            let hole = log.len().min(place + usize::from(accident / 6) * 16);
            log[place..hole].fill(0);
        }
        _ => {
            log.drain(place..log.len().min(place + 1 + usize::from(accident / 6)));
        }
    }
    None
}

/// Returns a side file with these entries, each number from two bytes. The checksum of a block is valid if the log is long enough.
fn made_up(entries: &[u8], log: &[u8]) -> Vec<u8> {
    let sealed = |mut bytes: Vec<u8>| {
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    };
    let mut head = b"elkindex\x02\0\0\0\x38\0\0\0".to_vec();
    head.resize(52, 0);
    let mut side = sealed(head);
    for entry in entries.chunks_exact(10) {
        let words: Vec<u64> = entry.chunks_exact(2).map(|w| u64::from(u16::from_le_bytes([w[0], w[1]]))).collect();
        // Any synced length will do: the epoch's number once more.
        let mut bytes: Vec<u8> = words.iter().chain(words.last()).flat_map(|word| word.to_le_bytes()).collect();
        let first = usize::try_from(words[0]).expect("two bytes");
        let last = first + usize::try_from(words[1]).expect("two bytes");
        let block = log.get(first..last).unwrap_or_default();
        bytes.extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
        side.extend(sealed(bytes));
    }
    side
}

/// Returns whether this record contains the beginning of another record of the log.
fn hides_another(record: &[u8], all: &[Vec<u8>]) -> bool {
    let head = |other: &Vec<u8>| {
        let name = other.get(6..)?.iter().position(|byte| *byte == 0)?;
        other.get(..7 + name).filter(|_| other[0] == 0).map(<[u8]>::to_vec)
    };
    let inside = record.get(1..).unwrap_or_default();
    all.iter().filter_map(head).chain([RECORD[..11].to_vec()]).any(|head| inside.windows(head.len()).any(|w| w == head))
}

/// Returns whether an update has no columns, or columns of different lengths.
fn is_uneven(record: &[u8]) -> bool {
    let Ok((view, _)) = View::parse(record, Endian::Little, &limits()) else { return false };
    let columns = view.list().and_then(|parts| parts.iter().nth(2)).and_then(|data| data.list());
    let Some(columns) = columns else { return false };
    let counts: Vec<usize> =
        columns.iter().filter(|column| column.type_code() >= 0).map(|column| column.count()).collect();
    columns.count == 0 || counts.windows(2).any(|pair| pair[0] != pair[1])
}

/// Returns every record from an update on; `None` if the log cannot be read.
fn records(path: &Path, first: u64) -> Option<Vec<Vec<u8>>> {
    let mut reader = LogReader::open(&Env::system(), path, limits(), CHUNK_BYTES).ok()?;
    reader.seek(first).ok()?;
    let mut records = Vec::new();
    while let Next::Chunk(chunk) = reader.next_chunk(CHUNK_BYTES, u64::MAX).ok()? {
        assert_eq!(chunk.first_index, first + records.len() as u64);
        records.extend(chunk.iter().map(|(_, bytes)| bytes.to_vec()));
    }
    Some(records)
}

struct Log<'a> {
    folder: &'a Path,
    path: &'a Path,
    side: Side,
    damage: Damage,
}

impl Log<'_> {
    /// Surveys the log, reads it from several updates on, and shows it.
    fn look(&self, log: &[u8]) {
        let checked = survey(self.path, limits(), CHUNK_BYTES, true, &mut |_, _| {});
        let all = records(self.path, 0);
        let Ok(found) = checked else { return };
        if self.side != Side::MadeUp && found.is_whole() {
            let all = all.as_ref().expect("what is whole can be read");
            assert_eq!(all.len() as u64, found.records);
            assert_eq!(all.concat(), log.get(8..).unwrap_or_default());
            for first in [all.len() / 2, all.len()] {
                assert_eq!(records(self.path, first as u64).as_deref(), all.get(first..), "from update {first} on");
            }
        }
        if self.side == Side::MadeUp {
            // With a side file from elsewhere, the log reads as that file says or not at all.
            let _ = (records(self.path, 1), records(self.path, 5));
        }
        for record in all.iter().flatten() {
            let (view, length) = View::parse(record, Endian::Little, &limits()).expect("a record");
            assert_eq!(length, record.len());
            let mut text = String::new();
            show::text(&view, 3, &mut text);
            assert!(!text.is_empty() && !show::json(&view).to_string().is_empty());
        }
    }

    /// Checks a log after a crash: exactly the intact records are read, and the rest is reported as torn.
    fn is_prefix(&self, whole: &[Vec<u8>], size: usize) {
        let found = survey(self.path, limits(), CHUNK_BYTES, false, &mut |_, _| {}).expect("a log");
        let end = 8 + whole.concat().len();
        assert!(found.damage.is_empty(), "{:?}", found.damage);
        assert_eq!(found.records, whole.len() as u64);
        assert_eq!(found.torn, (end < size).then_some((end as u64, (size - end) as u64)));
        let out = self.folder.join("whole");
        repair::rewrite(self.path, &out, limits(), ChangedBlocks::Keep).expect("a repaired log");
        assert_eq!(records(&out, 0).as_deref(), Some(whole));
    }

    /// Repairs the log into another file, and in place by opening it to append.
    fn repair(&self) {
        let (once, twice) = (self.folder.join("once"), self.folder.join("twice"));
        let Ok(repaired) = repair::rewrite(self.path, &once, limits(), ChangedBlocks::Keep) else { return };
        let found = survey(&once, limits(), CHUNK_BYTES, false, &mut |_, _| {}).expect("a repaired log can be read");
        let is_marked = |damage: &DamagedRange| damage.fault.kind == FaultKind::Unconfirmed;
        assert!(found.torn.is_none() && found.damage.iter().all(is_marked), "a repaired log can be read: {found:?}");
        assert_eq!((found.records, found.bytes), (repaired.updates, repaired.bytes));
        let again = repair::rewrite(&once, &twice, limits(), ChangedBlocks::Keep).expect("and repaired again");
        assert!(again.damage.is_empty() && again.torn_bytes == 0);
        assert_eq!(std::fs::read(&once).expect("a log"), std::fs::read(&twice).expect("a log"));

        let before = records(self.path, 0).unwrap_or_default();
        let Some((tip, _)) = self.append() else { return };
        if self.side == Side::MadeUp {
            return;
        }
        let after = records(self.path, 0).expect("a log that was opened to append can be read");
        assert_eq!(after.len() as u64, tip);
        assert_eq!(after.last().map(Vec::as_slice), Some(RECORD));
        // The last readable record may be given up, since a wrong count turns a long record into a shorter one. So may a block with a wrong
        // checksum.
        assert!(self.side == Side::True || after.len() >= before.len(), "what was whole is kept");
        let both = before.len().saturating_sub(1).min(after.len() - 1);
        assert_eq!(after.get(..both), before.get(..both), "and in its place");
        assert_eq!(self.append(), Some((tip + 1, true)), "opened again: nothing is left to repair");
    }

    /// Opens the log, appends a record, closes it. Returns the number of updates and whether the log was intact; `None` if it was rejected.
    fn append(&self) -> Option<(u64, bool)> {
        let options = LogOptions {
            env: Env::system(),
            dir: self.folder.to_path_buf(),
            src: SRC.to_string(),
            durability: Durability::Os,
            damage: self.damage,
            mount: RequiredMount::Any,
            epoch: None,
            address: None,
            limits: limits(),
            chunk_bytes: CHUNK_BYTES,
            buffer_bytes: CHUNK_BYTES,
            waker: None,
        };
        let (mut writer, report) = LogWriter::open(options, DAY).ok()?;
        writer.append(RECORD, 1).expect("a record");
        let tip = writer.tip();
        writer.close().expect("a log");
        Some((tip, report.cut.is_none() && report.damage.is_empty() && !report.created))
    }
}
