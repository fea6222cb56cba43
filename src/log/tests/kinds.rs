//! Every kind of damage against every way to continue with a damaged log. The reference is the list of updates written: the resulting log
//! must contain a subsequence of it, or mark what is not.

use super::damage::{look, offsets};
use super::support::{Folder, all, update};
use crate::config::{ChangedBlocks, Damage};
use crate::log::index::ENTRY_BYTES;
use crate::log::{rebuild, repair, side_path};
use proto::Limits;
use std::ops::Range;
use std::path::Path;

/// A log of several blocks with its side file, to be damaged.
struct Case {
    offsets: Vec<usize>,
    log: Vec<u8>,
    side: Option<Vec<u8>>,
    /// The side file as of half of the updates.
    half: Vec<u8>,
}

impl Case {
    /// Flips a bit inside a value of an update.
    fn flip_value(&mut self, at: usize) {
        let byte = (self.offsets[at] + self.offsets[at + 1]) / 2;
        self.log[byte] ^= 1 << 2;
    }

    fn flip(&mut self, byte: usize, bit: u8) {
        self.log[byte] ^= 1 << bit;
    }

    /// Byte range of these updates.
    fn bytes(&self, updates: Range<usize>) -> Range<usize> {
        self.offsets[updates.start]..self.offsets[updates.end]
    }

    fn cut_out(&mut self, updates: Range<usize>) {
        self.log.drain(self.bytes(updates));
    }

    fn twice(&mut self, updates: Range<usize>) {
        let bytes = self.bytes(updates);
        let again = self.log[bytes.clone()].to_vec();
        self.log.splice(bytes.end..bytes.end, again);
    }

    fn side(&mut self) -> &mut Vec<u8> {
        self.side.as_mut().unwrap()
    }

    /// Flips a bit of an entry of the side file; the head is entry 0.
    fn flip_side(&mut self, entry: usize, byte: usize) {
        self.side()[entry * ENTRY_BYTES + byte] ^= 1 << 4;
    }
}

const UPDATES: usize = 400;

type Kind = (&'static str, fn(&mut Case));

const KINDS: &[Kind] = &[
    ("nothing", |_| {}),
    ("bit of a list head", |case| case.flip(case.offsets[120] + 2, 3)),
    ("bit of the first list head", |case| case.flip(8, 5)),
    ("bit of the function's name", |case| case.flip(case.offsets[120] + 7, 1)),
    ("bit of a table's name", |case| case.flip(case.offsets[120] + 12, 1)),
    ("bit of a value", |case| case.flip_value(120)),
    ("bit of the first value", |case| case.flip_value(0)),
    ("bit of the last value", |case| case.flip_value(UPDATES - 1)),
    ("bit of a length", |case| case.flip(case.offsets[120] + 28, 4)),
    ("length beyond the file", |case| case.flip(case.offsets[390] + 29, 6)),
    ("length above the limit", |case| case.flip(case.offsets[120] + 30, 6)),
    ("zeros in one update", |case| {
        let at = case.offsets[120] + 60;
        case.log[at..at + 200].fill(0);
    }),
    ("zeros over some updates", |case| {
        let bytes = case.bytes(200..215);
        case.log[bytes].fill(0);
    }),
    ("hole of some pages", |case| case.log[40 << 10..48 << 10].fill(0)),
    ("hole to the end", |case| case.log[60 << 10..].fill(0)),
    ("block cut out", |case| case.cut_out(150..250)),
    ("first block cut out", |case| case.cut_out(0..90)),
    ("one update cut out", |case| case.cut_out(1..2)),
    ("last updates cut out", |case| case.cut_out(UPDATES - 5..UPDATES)),
    ("bytes cut out", |case| drop(case.log.drain(30_000..30_007))),
    ("block twice", |case| case.twice(150..250)),
    ("first update twice", |case| case.twice(0..1)),
    ("end twice", |case| case.twice(300..UPDATES)),
    ("blocks swapped", |case| {
        let bytes = case.bytes(50..150);
        let moved: Vec<_> = case.log.drain(bytes).collect();
        let at = case.offsets[250] - moved.len();
        case.log.splice(at..at, moved);
    }),
    ("torn end", |case| case.log.truncate(case.log.len() - 17)),
    ("garbage behind the end", |case| {
        case.log.extend((0..3000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8))
    }),
    ("zeros behind the end", |case| case.log.resize(case.log.len() + 9000, 0)),
    ("side file missing", |case| case.side = None),
    ("side file older", |case| case.side = Some(case.half.clone())),
    ("side file older, value before its end", |case| {
        case.side = Some(case.half.clone());
        case.flip_value(20);
    }),
    ("side file empty", |case| case.side().clear()),
    ("side file cut", |case| case.side().truncate(2 * ENTRY_BYTES + 9)),
    ("side file's head damaged", |case| case.flip_side(0, 20)),
    ("side file's head and a value damaged", |case| {
        case.flip_side(0, 20);
        case.flip_value(120);
    }),
    ("first entry damaged", |case| case.flip_side(1, 9)),
    ("first entry and a later value damaged", |case| {
        case.flip_side(1, 9);
        case.flip_value(250);
    }),
    ("middle entry and its values damaged", |case| {
        case.flip_side(2, 33);
        case.flip_value(160);
    }),
    ("last entry damaged", |case| {
        let last = case.side().len() / ENTRY_BYTES - 1;
        case.flip_side(last, 50);
    }),
    ("every entry damaged", |case| (1..case.side().len() / ENTRY_BYTES).for_each(|at| case.flip_side(at, 3))),
    ("every block damaged", |case| (0..UPDATES).step_by(20).for_each(|at| case.flip_value(at))),
    ("update cut out, later value", |case| {
        case.flip_value(250);
        case.cut_out(0..1);
    }),
    // A block without its end cannot be compared.
    ("values, a head, a hole, a torn end", |case| {
        case.flip_value(10);
        case.flip_value(260);
        case.flip(case.offsets[120] + 2, 3);
        let hole = case.bytes(200..215);
        case.log[hole].fill(0);
        case.log.truncate(case.log.len() - 30);
    }),
    ("first value and a block twice", |case| {
        case.flip_value(0);
        case.twice(30..60);
    }),
];

/// Whether checksums of all changed blocks exist to detect changed values.
fn can_tell(kind: &str) -> bool {
    // Updates after the side file's end may just have been written.
    !matches!(kind, "side file missing" | "side file empty" | "end twice")
}

struct Written {
    updates: Vec<Vec<u8>>,
    half: Vec<u8>,
}

fn written() -> Written {
    let updates: Vec<_> =
        (0..UPDATES).map(|i| update(["trade", "quote"][i % 2], i as i64 * 1000, 60 + i * 7 % 25)).collect();
    let folder = Folder::new();
    let path = folder.with(&updates[..UPDATES / 2]);
    Written { half: std::fs::read(side_path(&path)).unwrap(), updates }
}

/// A folder with a log damaged this way.
fn damaged(written: &Written, damage: fn(&mut Case)) -> Folder {
    let folder = Folder::new();
    let path = folder.with(&written.updates);
    let mut case = Case {
        offsets: offsets(&written.updates),
        log: std::fs::read(&path).unwrap(),
        side: Some(std::fs::read(side_path(&path)).unwrap()),
        half: written.half.clone(),
    };
    assert!(case.side().len() >= 5 * ENTRY_BYTES, "some blocks");
    damage(&mut case);
    std::fs::write(&path, &case.log).unwrap();
    match &case.side {
        Some(side) => std::fs::write(side_path(&path), side).unwrap(),
        None => std::fs::remove_file(side_path(&path)).unwrap(),
    }
    folder
}

/// Faults of the resulting log: unmarked updates that are not a subsequence of those written.
fn faults(written: &Written, path: &Path, kind: &str) -> Vec<String> {
    let survey = look(path);
    let marked = |at: usize| {
        let at = at as u64;
        survey.damage.iter().any(|range| range.first_index <= at && range.last_index.is_none_or(|last| at < last))
    };
    let mut faults = Vec::new();
    let mut next = 0;
    for (at, update) in all(path).iter().enumerate().filter(|(at, _)| !marked(*at)) {
        match written.updates.iter().skip(next).position(|other| other == update) {
            Some(place) => next += place + 1,
            None if can_tell(kind) => faults.push(format!("update {at} is none of those written, and not marked")),
            None => {}
        }
    }
    if survey.torn.is_some() {
        faults.push("its end is torn".to_string());
    }
    faults
}

/// Fails with all faults, by kind of damage.
fn check(way: &str, of: impl Fn(&Written, &str, fn(&mut Case)) -> Vec<String>) {
    let written = written();
    let wrong: Vec<String> = KINDS
        .iter()
        .filter_map(|(kind, damage)| {
            let faults = of(&written, kind, *damage);
            (!faults.is_empty())
                .then(|| format!("{way}, {kind}: {} faults: {:?}", faults.len(), &faults[..faults.len().min(3)]))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_repair_to_another_file_vouches_for_nothing_that_was_not_written() {
    for changed_blocks in [ChangedBlocks::Keep, ChangedBlocks::Cut] {
        check("repair --out", |written, kind, damage| {
            let folder = damaged(written, damage);
            let out = folder.0.join("out");
            repair::rewrite(&folder.log(), &out, Limits::default(), changed_blocks).unwrap();
            let mut wrong = faults(written, &out, kind);
            if changed_blocks == ChangedBlocks::Cut && !look(&out).is_whole() {
                wrong.push("what is marked was left out, and it is not whole".to_string());
            }
            wrong
        });
    }
}

#[test]
fn a_repair_in_place_vouches_for_nothing_that_was_not_written() {
    check("repair --in-place", |written, kind, damage| {
        let folder = damaged(written, damage);
        repair::replace(&folder.log(), Limits::default(), ChangedBlocks::Keep).unwrap();
        faults(written, &folder.log(), kind)
    });
}

#[test]
fn a_new_side_file_vouches_for_nothing_that_was_not_written() {
    check("index", |written, kind, damage| {
        let folder = damaged(written, damage);
        match rebuild(&folder.log(), Limits::default(), 4096, &mut |_, _| {}) {
            Ok(_) if look(&folder.log()).torn.is_none() => faults(written, &folder.log(), kind),
            _ => Vec::new(),
        }
    });
}

#[test]
fn a_start_vouches_for_nothing_that_was_not_written() {
    for how in [Damage::Stop, Damage::KeepBefore, Damage::Skip] {
        check(&format!("start, {how:?}"), |written, kind, damage| {
            let folder = damaged(written, damage);
            match folder.try_open(how) {
                Ok((writer, _)) => writer.close().unwrap(),
                Err(_) if how == Damage::Stop => return Vec::new(),
                Err(error) => return vec![format!("refused: {error}")],
            }
            faults(written, &folder.log(), kind)
        });
    }
}

#[test]
fn a_start_that_keeps_what_is_before_damage_keeps_all_of_it() {
    check("start, keep-before", |written, _, damage| {
        let folder = damaged(written, damage);
        let before = std::fs::read(folder.log()).unwrap();
        let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
        writer.close().unwrap();
        let kept = std::fs::read(folder.log()).unwrap();
        if !before.starts_with(&kept) {
            return vec!["it is no beginning of what was there".to_string()];
        }
        match report.cut.and_then(|cut| cut.kept_in) {
            Some(rest) if std::fs::read(&rest).unwrap() != before[kept.len()..] => {
                vec!["the rest is not beside it".to_string()]
            }
            _ => Vec::new(),
        }
    });
}

#[test]
fn a_damaged_log_is_never_called_whole() {
    check("verify", |written, kind, damage| {
        let folder = damaged(written, damage);
        let survey = look(&folder.log());
        let mut bytes = std::fs::read(folder.log()).unwrap();
        bytes.drain(..8);
        let is_as_written = written.updates.concat().starts_with(&bytes);
        let wrong = survey.is_whole() && !is_as_written && can_tell(kind);
        if wrong { vec!["called whole".to_string()] } else { Vec::new() }
    });
}
