//! Holes that begin inside a record: its last bytes read as zeros, which may or may not be the values written.

use super::damage::{look, make_hole, offsets, power_cut};
use super::support::*;
use crate::config::{ChangedBlocks, Damage};
use crate::log::{FaultKind, LogError, LogWriter, repair, side_path};
use proto::Limits;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Length of the column at the end of each update.
const LAST_BYTES: usize = 8 * ROWS;
const ROWS: usize = 300;

/// An update whose last column is longs, all equal to `long`.
fn ending_in(long: i64) -> Vec<u8> {
    let count = i32::try_from(ROWS).unwrap().to_le_bytes();
    let mut out = Vec::new();
    proto::log::write_record_head(b"trade", 2, &mut out);
    out.extend_from_slice(&[11, 0]);
    out.extend_from_slice(&count);
    out.extend_from_slice(&b"A\0".repeat(ROWS));
    out.extend_from_slice(&[7, 0]);
    out.extend_from_slice(&count);
    out.extend_from_slice(&long.to_le_bytes().repeat(ROWS));
    out
}

/// A log of these updates without a side file, and their offsets.
fn alone(folder: &Folder, updates: &[Vec<u8>]) -> (PathBuf, Vec<usize>) {
    let path = folder.with(updates);
    std::fs::remove_file(side_path(&path)).unwrap();
    (path, offsets(updates))
}

/// Returns the first update, from the third on, whose last column contains a boundary of `piece` bytes, and that boundary.
fn begun_inside(offsets: &[usize], piece: usize) -> (usize, usize) {
    let begin = |at: usize| (offsets[at + 1] - LAST_BYTES).next_multiple_of(piece);
    (3..offsets.len() - 1).map(|at| (at, begin(at))).find(|(at, begin)| *begin < offsets[at + 1]).unwrap()
}

fn refusal(folder: &Folder) -> crate::log::DamagedRange {
    match folder.try_open(Damage::Stop) {
        Err(LogError::Refused { damage, .. }) => *damage,
        Err(error) => panic!("{error}"),
        Ok((_, report)) => panic!("opened: {report}"),
    }
}

/// A log with a hole that begins at a boundary inside an update and ends `piece` bytes later. Returns the log, its updates, the index of
/// that update, and the hole.
fn hole_inside(folder: &Folder, piece: usize) -> (PathBuf, Vec<Vec<u8>>, usize, Range<usize>) {
    let updates = vec![ending_in(0x0101_0101_0101_0101); 14];
    let (path, offsets) = alone(folder, &updates);
    let (at, begin) = begun_inside(&offsets, piece);
    let hole = begin..(offsets[at + 1] + 1).next_multiple_of(piece);
    make_hole(&path, hole.clone());
    power_cut(folder);
    (path, updates, at, hole)
}

#[test]
fn a_record_whose_end_lies_in_a_hole_is_part_of_the_damage() {
    for piece in [512, 4096] {
        let folder = Folder::new();
        let (path, updates, at, hole) = hole_inside(&folder, piece);
        let offsets = offsets(&updates);
        let next = offsets.iter().position(|offset| *offset >= hole.end).unwrap();
        let damage = refusal(&folder);
        assert_eq!((damage.first_index, damage.first_byte), (at as u64, offsets[at] as u64), "{piece}");
        assert_eq!((damage.last_byte, damage.fault.kind), (offsets[next] as u64, FaultKind::EndsInZeros), "{piece}");
        let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
        assert_eq!(report.updates, at as u64, "{piece}");
        writer.close().unwrap();
        assert_eq!(all(&path), updates[..at], "{piece}");
    }
}

#[test]
fn a_repair_leaves_out_the_record_whose_end_lies_in_a_hole() {
    let folder = Folder::new();
    let (path, updates, ..) = hole_inside(&folder, 512);
    let out = folder.0.join("repaired");
    let done = repair::rewrite(&path, &out, Limits::default(), ChangedBlocks::Keep).unwrap();
    assert_eq!(done.damage.len(), 1);
    assert_eq!(all(&out), updates[..done.updates as usize], "all that is left is as it was");
}

#[test]
fn a_record_whose_end_lies_in_zeros_to_the_end_is_damage() {
    let folder = Folder::new();
    let updates = vec![ending_in(-1); 8];
    let (path, offsets) = alone(&folder, &updates);
    let (at, begin) = begun_inside(&offsets, 512);
    make_hole(&path, begin..offsets[8]);
    power_cut(&folder);
    let damage = refusal(&folder);
    assert_eq!((damage.first_index, damage.first_byte), (at as u64, offsets[at] as u64));
    assert_eq!((damage.last_byte, damage.fault.kind), (offsets[8] as u64, FaultKind::EndsInZeros));
    let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
    assert_eq!(report.updates, at as u64);
    writer.close().unwrap();
    assert_eq!(all(&path), updates[..at]);
}

#[test]
fn a_record_that_zeros_to_the_end_have_made_whole_is_damage() {
    let folder = Folder::new();
    let updates = vec![ending_in(-1); 5];
    let (path, offsets) = alone(&folder, &updates);
    // The zeros parse as an empty list in place of the last column.
    let begin = offsets[5] - LAST_BYTES - 6;
    assert_ne!(begin % 512, 0, "what stands before it shows that the sector was written");
    make_hole(&path, begin..offsets[5]);
    power_cut(&folder);
    let damage = refusal(&folder);
    assert_eq!((damage.first_index, damage.first_byte), (4, offsets[4] as u64));
    let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
    assert_eq!(report.updates, 4);
    writer.close().unwrap();
    assert_eq!(all(&path), updates[..4]);
}

#[test]
fn zeros_at_the_end_of_records_that_follow_each_other_are_values() {
    let folder = Folder::new();
    let updates = vec![ending_in(0); 8];
    let (path, _) = alone(&folder, &updates);
    power_cut(&folder);
    assert_eq!(folder.open().1.updates, 8);
    assert_eq!(all(&path), updates);
}

#[test]
fn zeros_at_the_end_of_a_record_before_one_that_was_cut_off_are_values() {
    let updates = vec![ending_in(0); 4];
    let folder = Folder::new();
    let (path, offsets) = alone(&folder, &updates);
    let whole = std::fs::read(&path).unwrap();
    for left in (1..20).chain([600, 601, 612, 1000, updates[3].len() - 1]) {
        std::fs::write(&path, &whole[..offsets[3] + left]).unwrap();
        std::fs::remove_file(side_path(&path)).ok();
        let (writer, report) = folder.open();
        assert_eq!((report.updates, report.cut.map(|cut| cut.bytes)), (3, Some(left as u64)), "{left}");
        drop(writer);
    }
}

/// Writes an update whose last column has these items of type `ty` and which ends `tail` bytes after a sector boundary; then a hole, then
/// another update. Returns the number of updates before the first damage.
fn before_a_hole(ty: i8, items: &[i64], tail: usize) -> u64 {
    let update = |symbol: usize| {
        let mut out = Vec::new();
        proto::log::write_record_head(b"trade", 2, &mut out);
        out.extend_from_slice(&[11, 0]);
        out.extend_from_slice(&i32::try_from(items.len()).unwrap().to_le_bytes());
        for at in 0..items.len() {
            out.extend_from_slice(&b"A".repeat(if at == 0 { symbol } else { 1 }));
            out.push(0);
        }
        out.extend_from_slice(&[ty.cast_unsigned(), 0]);
        out.extend_from_slice(&i32::try_from(items.len()).unwrap().to_le_bytes());
        items.iter().for_each(|item| out.extend_from_slice(&item.to_le_bytes()));
        out
    };
    let short = update(1).len() + 8;
    let padded = update(1 + (short.next_multiple_of(512) + 512 + tail - short));
    let end = 8 + padded.len();
    assert_eq!(end % 512, tail);
    let folder = Folder::new();
    let (path, _) = alone(&folder, &[padded, vec![update(3); 60].concat(), update(3)]);
    make_hole(&path, end..end.next_multiple_of(512));
    power_cut(&folder);
    first_damage(&path)
}

#[test]
fn upper_bytes_of_small_numbers_before_a_hole_are_values() {
    let (long, float, timespan) = (7, 9, 16);
    let float_of = |x: f64| x.to_bits().cast_signed();
    for tail in 1..=12 {
        // From the eighth byte on, the lowest byte shows that the sector was written.
        assert_eq!(before_a_hole(long, &[0x0100, 0xff, 0x80], tail), u64::from(tail != 7), "{tail}");
        assert_eq!(before_a_hole(long, &[100], tail), 1, "{tail}");
        assert_eq!(before_a_hole(long, &[i64::MAX, 5], tail), u64::from(tail >= 8), "{tail}");
        assert_eq!(before_a_hole(float, &[float_of(1.5), float_of(0.0)], tail), u64::from(tail > 8), "{tail}");
        assert_eq!(before_a_hole(timespan, &[0], tail), u64::from(tail == 12), "{tail}");
    }
}

/// A log whose first four updates are one block; a hole begins after them, inside a sector.
fn hole_behind_a_block(folder: &Folder) -> (PathBuf, Vec<usize>) {
    let updates = vec![ending_in(0); 8];
    folder.with(&updates[..4]);
    let mut writer: LogWriter = folder.open().0;
    for update in &updates[4..] {
        writer.append(update, 1).unwrap();
    }
    writer.close().unwrap();
    let offsets = offsets(&updates);
    make_hole(&folder.log(), offsets[4]..(offsets[4] + 1).next_multiple_of(512));
    power_cut(folder);
    (folder.log(), offsets)
}

fn first_damage(path: &Path) -> u64 {
    look(path).damage.first().map(|damage| damage.first_index).unwrap()
}

#[test]
fn a_record_before_a_hole_that_the_side_file_knows_is_believed() {
    let folder = Folder::new();
    let (path, offsets) = hole_behind_a_block(&folder);
    assert_eq!(first_damage(&path), 4);
    let damage = refusal(&folder);
    assert_eq!((damage.first_index, damage.first_byte), (4, offsets[4] as u64));
    let done = repair::rewrite(&path, &folder.0.join("repaired"), Limits::default(), ChangedBlocks::Keep).unwrap();
    assert_eq!((done.damage[0].first_index, done.updates), (4, 7));
}

#[test]
fn a_record_before_a_hole_that_ends_in_zeros_which_nothing_knows_is_damage() {
    let folder = Folder::new();
    let (path, offsets) = hole_behind_a_block(&folder);
    std::fs::remove_file(side_path(&path)).unwrap();
    assert_eq!(first_damage(&path), 3);
    let damage = refusal(&folder);
    assert_eq!((damage.first_index, damage.first_byte), (3, offsets[3] as u64));
    assert_eq!(damage.fault.kind, FaultKind::EndsInZeros);
}
