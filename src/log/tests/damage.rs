//! Torn tails, damage in the middle, and what a repair leaves.

use super::support::*;
use crate::config::{ChangedBlocks, Damage};
use crate::log::holder::Holder;
use crate::log::{FaultKind, LogError, queue_path, repair, side_path, survey};
use proto::Limits;
use std::path::Path;

pub(super) fn look(path: &Path) -> crate::log::Survey {
    survey(path, Limits::default(), CHUNK, true, &mut |_, _| {}).unwrap()
}

/// Offsets of the records, and of the end.
pub(super) fn offsets(updates: &[Vec<u8>]) -> Vec<usize> {
    let mut offsets = vec![8];
    for update in updates {
        offsets.push(offsets.last().unwrap() + update.len());
    }
    offsets
}

#[test]
fn a_log_cut_at_any_byte_is_repaired_to_its_last_whole_record() {
    let folder = Folder::new();
    let updates = updates(5);
    let path = folder.with(&updates);
    let (whole, side) = (std::fs::read(&path).unwrap(), std::fs::read(side_path(&path)).unwrap());
    let offsets = offsets(&updates);
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        // With a side file that is ahead of the log, and without one.
        if length % 2 == 0 {
            std::fs::write(side_path(&path), &side).unwrap();
        } else {
            std::fs::remove_file(side_path(&path)).unwrap();
        }
        let (writer, report) = folder.open();
        let kept = offsets.iter().filter(|offset| **offset <= length).count().saturating_sub(1);
        assert_eq!(report.updates, kept as u64, "cut at {length}");
        let cut = report.cut.as_ref().map(|cut| (cut.offset_bytes as usize, cut.bytes as usize));
        let torn = length.saturating_sub(offsets[kept]);
        assert_eq!(cut, (torn > 0).then_some((offsets[kept], torn)), "cut at {length}");
        writer.close().unwrap();
        assert_eq!(all(&path), updates[..kept], "cut at {length}");
    }
}

#[test]
fn zeros_after_the_last_record_are_a_torn_tail() {
    let folder = Folder::new();
    let updates = updates(4);
    let path = folder.with(&updates);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.resize(bytes.len() + 10_000, 0);
    std::fs::write(&path, bytes).unwrap();
    let (_, report) = folder.open();
    assert_eq!((report.updates, report.cut.map(|cut| cut.bytes)), (4, Some(10_000)));
}

#[test]
fn damage_in_the_middle_stops_the_start_with_its_exact_range() {
    let folder = Folder::new();
    let updates = updates(20);
    let path = folder.with(&updates);
    let offsets = offsets(&updates);
    // Changes the list count of record 7, and then a type code: neither parses.
    for (byte, bit) in [(2, 1), (2, 6), (0, 6), (6, 0), (11, 3)] {
        let before = std::fs::read(&path).unwrap();
        flip(&path, offsets[7] + byte, bit);
        let Err(LogError::Refused { damage, .. }) = folder.try_open(Damage::Stop) else {
            panic!("byte {byte} bit {bit}: opened")
        };
        assert_eq!((damage.first_byte, damage.last_byte), (offsets[7] as u64, offsets[8] as u64), "byte {byte}");
        assert_eq!((damage.first_index, damage.last_index), (7, Some(8)), "byte {byte}");
        std::fs::write(&path, before).unwrap();
    }
}

#[test]
fn without_a_side_file_the_damaged_range_is_known_but_not_its_updates() {
    let folder = Folder::new();
    let updates = updates(20);
    let path = folder.with(&updates);
    let offsets = offsets(&updates);
    std::fs::remove_file(side_path(&path)).unwrap();
    flip(&path, offsets[3], 5);
    flip(&path, offsets[4], 5);
    let survey = look(&path);
    let [damage] = &survey.damage[..] else { panic!("{:?}", survey.damage) };
    assert_eq!((damage.first_byte, damage.last_byte), (offsets[3] as u64, offsets[5] as u64));
    assert_eq!((damage.first_index, damage.last_index), (3, None));
}

#[test]
fn every_flipped_bit_is_found() {
    let folder = Folder::new();
    let updates = updates(12);
    let path = folder.with(&updates);
    let whole = std::fs::read(&path).unwrap();
    for byte in 8..whole.len() {
        let bit = (byte * 5 % 8) as u8;
        flip(&path, byte, bit);
        let survey = look(&path);
        assert!(!survey.is_whole(), "bit {bit} of byte {byte}");
        let covers = survey.damage.iter().any(|range| (range.first_byte..range.last_byte).contains(&(byte as u64)));
        assert!(covers, "bit {bit} of byte {byte}: {:?}", survey.damage);
        if byte % 16 == 0 {
            assert!(folder.try_open(Damage::Stop).is_err(), "bit {bit} of byte {byte}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_changed_value_shows_by_the_checksum_of_its_block() {
    let folder = Folder::new();
    let updates: Vec<_> = (0..300).map(|i| update("trade", i, 60)).collect();
    let path = folder.with(&updates);
    let offsets = offsets(&updates);
    // Inside the long column of an update in a middle block.
    flip(&path, offsets[150] + 40, 0);
    let survey = look(&path);
    let [damage] = &survey.damage[..] else { panic!("{:?}", survey.damage) };
    assert_eq!(damage.fault.kind, FaultKind::Checksum);
    assert!((damage.first_index..damage.last_index.unwrap()).contains(&150));
    assert!(damage.last_index.unwrap() - damage.first_index < 150, "a block, not the log: {damage}");
}

#[test]
fn keep_before_cuts_at_the_damage_and_keeps_the_rest_beside() {
    let folder = Folder::new();
    let updates = updates(20);
    let path = folder.with(&updates);
    let offsets = offsets(&updates);
    flip(&path, offsets[7] + 2, 6);
    let damaged = std::fs::read(&path).unwrap();
    let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
    writer.close().unwrap();
    assert_eq!(all(&path), updates[..7]);
    let cut = report.cut.unwrap();
    assert_eq!(std::fs::read(cut.kept_in.unwrap()).unwrap(), damaged[offsets[7]..]);
}

#[test]
fn a_side_file_that_cannot_be_read_rejects_the_start_until_it_can() {
    let folder = Folder::new();
    let updates = updates(20);
    let path = folder.with(&updates);
    let (side, away) = (side_path(&path), folder.0.join("away"));
    std::fs::rename(&side, &away).unwrap();
    std::fs::create_dir(&side).unwrap();
    let error = folder.try_open(Damage::Stop).map(drop).unwrap_err();
    assert!(error.to_string().contains("index"), "{error}");
    std::fs::remove_dir(&side).unwrap();
    std::fs::rename(&away, &side).unwrap();
    assert_eq!(folder.try_open(Damage::Stop).unwrap().1.updates, 20);
}

#[test]
fn skip_leaves_out_the_damage_and_keeps_the_damaged_log_beside() {
    let folder = Folder::new();
    let updates = updates(20);
    let path = folder.with(&updates);
    flip(&path, offsets(&updates)[7] + 2, 6);
    let damaged = std::fs::read(&path).unwrap();
    std::fs::write(queue_path(&path), "who holds what").unwrap();
    let (mut writer, report) = folder.try_open(Damage::Skip).unwrap();
    assert_eq!((report.updates, report.damage.len()), (19, 1));
    let replaced = report.replaced.unwrap();
    assert_eq!(std::fs::read(&replaced).unwrap(), damaged);
    assert!(
        queue_path(&replaced).exists() && !queue_path(&path).exists(),
        "it names updates by numbers that have changed"
    );
    writer.append(&updates[7], 1).unwrap();
    writer.close().unwrap();
    let mut expected = updates.clone();
    let moved = expected.remove(7);
    expected.push(moved);
    assert_eq!(all(&path), expected);
    // The rest of that block has no checksum to confirm it; the appended records are another block.
    let marked = look(&path).damage;
    assert_eq!(marked.len(), 1, "{marked:?}");
    assert_eq!((marked[0].fault.kind, marked[0].last_index), (FaultKind::Unconfirmed, Some(19)));
}

#[test]
fn a_repair_keeps_all_that_can_be_read_and_names_what_cannot() {
    let folder = Folder::new();
    let updates = updates(30);
    let path = folder.with(&updates);
    let offsets = offsets(&updates);
    flip(&path, offsets[4], 6);
    flip(&path, offsets[20] + 6, 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(&path, bytes).unwrap();
    let out = folder.0.join("repaired");
    let done = repair::rewrite(&path, &out, Limits::default(), ChangedBlocks::Keep).unwrap();
    let ranges: Vec<_> =
        done.damage.iter().map(|range| (range.first_byte as usize, range.last_byte as usize)).collect();
    assert_eq!(ranges, [(offsets[4], offsets[5]), (offsets[20], offsets[21])]);
    assert_eq!(done.torn_bytes as usize, offsets[30] - 3 - offsets[29]);
    let kept: Vec<_> = (0..29).filter(|i| *i != 4 && *i != 20).map(|i| updates[i].clone()).collect();
    assert_eq!(all(&out), kept);
}

#[test]
fn a_reader_names_the_place_where_it_cannot_go_on() {
    let folder = Folder::new();
    let updates = updates(10);
    let path = folder.with(&updates);
    let offsets = offsets(&updates);
    flip(&path, offsets[6], 6);
    let mut reader = reader(&path);
    let mut read = 0;
    let error = loop {
        match reader.next_chunk(1 << 20, u64::MAX) {
            Ok(crate::log::Next::Chunk(chunk)) => read += chunk.iter().count(),
            Ok(crate::log::Next::NotYet) => panic!("the damage was not seen"),
            Err(error) => break error,
        }
    };
    assert_eq!(read, 6);
    let LogError::Damaged { damage, .. } = error else { panic!("{error}") };
    assert_eq!((damage.first_byte, damage.first_index), (offsets[6] as u64, 6));
}

#[test]
fn a_file_that_is_no_log_is_rejected() {
    let folder = Folder::new();
    std::fs::write(folder.log(), b"time,sym,price\n").unwrap();
    assert!(matches!(folder.try_open(Damage::Skip), Err(LogError::NotALog { .. })));
    assert_eq!(std::fs::read(folder.log()).unwrap(), b"time,sym,price\n");
}

/// Sixteen updates, each ending with a column of zeros.
fn with_zeros(folder: &Folder) -> (std::path::PathBuf, Vec<Vec<u8>>) {
    let with_zeros = |first: i64| {
        let mut update = update("quote", first, 5);
        let columns = 6 + b"\xf5upd\0\xf5quote\0".len() + 2;
        update[columns] = 3;
        update.extend_from_slice(&[7, 0, 5, 0, 0, 0]);
        update.resize(update.len() + 5 * 8, 0);
        update
    };
    let updates: Vec<_> = (0..16).map(with_zeros).collect();
    (folder.with(&updates), updates)
}

#[test]
fn a_record_before_a_hole_of_zeros_is_kept() {
    for with_side in [false, true] {
        let folder = Folder::new();
        let (path, updates) = with_zeros(&folder);
        let offsets = offsets(&updates);
        if !with_side {
            std::fs::remove_file(side_path(&path)).unwrap();
        }
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[offsets[5]..offsets[7]].fill(0);
        std::fs::write(&path, bytes).unwrap();
        power_cut(&folder);
        let Err(LogError::Refused { damage, .. }) = folder.try_open(Damage::Stop) else { panic!("opened") };
        assert_eq!((damage.first_byte, damage.last_byte), (offsets[5] as u64, offsets[7] as u64));
        assert_eq!((damage.first_index, damage.last_index), (5, with_side.then_some(7)));
        let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
        assert_eq!((report.updates, report.bytes), (5, offsets[5] as u64));
        writer.close().unwrap();
        assert_eq!(all(&path), updates[..5]);
    }
}

#[test]
fn a_record_that_ends_before_zeros_where_nothing_is_missing_is_damage() {
    let folder = Folder::new();
    let (path, updates) = with_zeros(&folder);
    let offsets = offsets(&updates);
    // Turns the last column's longs into as many ints.
    flip(&path, offsets[5] - 5 * 8 - 6, 0);
    let survey = look(&path);
    let [damage] = &survey.damage[..] else { panic!("{:?}", survey.damage) };
    assert_eq!((damage.first_byte, damage.last_byte), (offsets[4] as u64, offsets[5] as u64));
    assert_eq!((damage.first_index, damage.last_index), (4, Some(5)));
}

/// Rewrites the lock file as if the machine had rebooted after the last writer.
pub(super) fn power_cut(folder: &Folder) {
    let last = Holder {
        epoch: 40,
        pid: 1,
        host: "a".into(),
        boot: "other".into(),
        clean: false,
        unsynced_from: None,
        unchecked: false,
    };
    std::fs::write(folder.0.join("sym.lock"), last.encode()).unwrap();
}

/// A log of dozens of blocks in which a power cut zeroed values of an early block, as an unwritten page would. Returns the offset of the
/// update that lost them.
fn hole_of_a_power_cut(folder: &Folder) -> usize {
    let updates = many_blocks();
    let path = folder.with(&updates);
    let at = offsets(&updates)[30];
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at + 100..at + 300].fill(0);
    std::fs::write(&path, bytes).unwrap();
    power_cut(folder);
    at
}

/// Updates for dozens of blocks.
fn many_blocks() -> Vec<Vec<u8>> {
    (0..1500).map(|i| update("trade", i, 90)).collect()
}

#[test]
fn after_a_power_cut_every_block_is_compared() {
    let folder = Folder::new();
    hole_of_a_power_cut(&folder);
    let Err(LogError::Refused { damage, .. }) = folder.try_open(Damage::Stop) else { panic!("opened") };
    assert!((damage.first_index..damage.last_index.unwrap()).contains(&30), "{damage}");
}

#[test]
fn a_log_that_a_power_cut_left_whole_is_opened() {
    let folder = Folder::new();
    folder.with(&many_blocks());
    power_cut(&folder);
    assert_eq!(folder.open().1.updates, 1500);
}

#[test]
fn a_start_that_is_rejected_does_not_hide_from_the_next_what_a_power_cut_did() {
    let folder = Folder::new();
    hole_of_a_power_cut(&folder);
    // A supervisor restarts it repeatedly: every attempt is a process of the same boot, as was the one before.
    for _ in 0..3 {
        assert!(matches!(folder.try_open(Damage::Stop), Err(LogError::Refused { .. })));
    }
}

#[test]
fn after_a_start_that_is_rejected_the_log_is_kept_up_to_what_a_power_cut_did() {
    let folder = Folder::new();
    let at = hole_of_a_power_cut(&folder);
    folder.try_open(Damage::Stop).err().expect("rejected");
    let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
    assert!(report.updates <= 30 && report.bytes <= at as u64, "{report}");
    writer.close().unwrap();
    // It was compared, and need not be again.
    assert_eq!(folder.open().1.updates, report.updates);
}

#[test]
fn after_a_power_cut_an_end_that_was_not_written_is_cut_off() {
    let folder = Folder::new();
    let updates = many_blocks();
    let path = folder.with(&updates);
    let offsets = offsets(&updates);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[offsets[1400]..].fill(0);
    std::fs::write(&path, bytes).unwrap();
    power_cut(&folder);
    let (_, report) = folder.open();
    assert_eq!((report.updates, report.cut.map(|cut| cut.offset_bytes)), (1400, Some(offsets[1400] as u64)));
}

/// Zeroes a range of a log, as a power cut does if later bytes reached the disk.
pub(super) fn make_hole(path: &Path, range: std::ops::Range<usize>) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[range].fill(0);
    std::fs::write(path, bytes).unwrap();
}

/// Index of the first record that ends after this byte.
fn record_around(offsets: &[usize], byte: usize) -> usize {
    offsets.iter().position(|offset| *offset > byte).unwrap() - 1
}

#[test]
fn the_record_before_a_hole_is_kept() {
    let updates = updates(200);
    let offsets = offsets(&updates);
    let end_of_sector = |byte: usize| (byte + 1).next_multiple_of(512);
    // To the start of a record; to the end of a sector inside another record; from a sector boundary inside a record's prefix.
    let begun = (20..150).find(|at| (1..11).contains(&(end_of_sector(offsets[*at]) - offsets[*at]))).unwrap();
    let holes = [
        (7, offsets[7]..offsets[9]),
        (31, offsets[31]..end_of_sector(offsets[31])),
        (begun, end_of_sector(offsets[begun])..end_of_sector(offsets[begun]) + 512),
    ];
    for (kept, hole) in holes {
        let folder = Folder::new();
        let path = folder.with(&updates);
        std::fs::remove_file(side_path(&path)).unwrap();
        make_hole(&path, hole.clone());
        power_cut(&folder);
        let Err(LogError::Refused { damage, .. }) = folder.try_open(Damage::Stop) else { panic!("{hole:?}: opened") };
        let next = offsets[record_around(&offsets, hole.end - 1) + 1];
        assert_eq!((damage.first_index, damage.first_byte), (kept as u64, offsets[kept] as u64), "{hole:?}");
        assert_eq!(damage.last_byte, next as u64, "{hole:?}");
        let (writer, report) = folder.try_open(Damage::KeepBefore).unwrap();
        assert_eq!(report.updates, kept as u64, "{hole:?}");
        writer.close().unwrap();
        assert_eq!(all(&path), updates[..kept], "{hole:?}");
    }
}

#[test]
fn a_record_that_a_wrong_count_has_made_shorter_is_no_record_before_a_hole() {
    let folder = Folder::new();
    // Its column of symbols comes first; the other one, all zeros, is longer than a sector.
    let mut even = Vec::new();
    proto::log::write_record_head(b"trade", 2, &mut even);
    even.extend_from_slice(&[11, 0, 200, 0, 0, 0]);
    even.extend_from_slice(&b"A\0".repeat(200));
    even.extend_from_slice(&[7, 0, 200, 0, 0, 0]);
    even.extend_from_slice(&[0; 1600]);
    let updates = vec![even; 5];
    let path = folder.with(&updates);
    std::fs::remove_file(side_path(&path)).unwrap();
    let offsets = offsets(&updates);
    // 200 longs become 72.
    flip(&path, offsets[3] - 1600 - 4, 7);
    let survey = look(&path);
    let [damage] = &survey.damage[..] else { panic!("{:?}", survey.damage) };
    assert_eq!((damage.first_byte, damage.last_byte), (offsets[2] as u64, offsets[3] as u64));
}

/// The log's path with a suffix, as a repair names the files beside it.
fn beside(path: &Path, ending: &str) -> std::path::PathBuf {
    crate::log::name::beside(path, ending)
}

#[test]
fn a_repair_that_was_cut_short_is_undone() {
    let folder = Folder::new();
    let updates: Vec<_> = (0..300).map(|i| update("trade", i, 60)).collect();
    let path = folder.with(&updates);
    // Changes a value, which only the side file shows.
    flip(&path, offsets(&updates)[150] + 40, 0);
    let side = std::fs::read(side_path(&path)).unwrap();
    std::fs::hard_link(&path, beside(&path, ".damaged-2")).unwrap();
    std::fs::rename(side_path(&path), beside(&path, ".damaged-2.index")).unwrap();
    // Left by another repair, long ago.
    std::fs::write(beside(&path, ".damaged"), b"x").unwrap();
    std::fs::write(beside(&path, ".damaged.index"), b"y").unwrap();
    let Err(LogError::Refused { damage, .. }) = folder.try_open(Damage::Stop) else { panic!("opened") };
    assert_eq!(damage.fault.kind, FaultKind::Checksum);
    assert_eq!(std::fs::read(side_path(&path)).unwrap(), side);
}

#[test]
fn a_repair_that_came_to_its_end_is_not_undone() {
    let folder = Folder::new();
    let updates = updates(20);
    let path = folder.with(&updates);
    flip(&path, offsets(&updates)[7] + 2, 6);
    drop(folder.try_open(Damage::Skip).unwrap());
    std::fs::remove_file(side_path(&path)).unwrap();
    assert_eq!(folder.open().1.updates, 19);
    assert!(beside(&path, ".damaged.index").exists());
}
