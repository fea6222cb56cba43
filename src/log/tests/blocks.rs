//! Blocks whose bytes are not those written: a repair, a start and a new side file preserve the mark.

use super::damage::look;
use super::support::{Folder, all, flip, update};
use crate::config::{ChangedBlocks, Damage};
use crate::log::{FaultKind, LogError, damaged_in, rebuild, repair, side_path};
use proto::Limits;
use std::path::{Path, PathBuf};

/// A log of several blocks, with one bit flipped in a value of the second block.
fn with_changed_value(folder: &Folder) -> (PathBuf, Vec<Vec<u8>>) {
    let mut updates: Vec<_> = (0..400).map(|i| update("trade", i * 1000, 40)).collect();
    let path = folder.with(&updates);
    assert!(look(&path).is_whole());
    let at = (80 << 10) / updates[0].len();
    let before: usize = updates[..at].iter().map(Vec::len).sum();
    // In the upper bytes of an item of the first column.
    let byte = updates[at].len() / 3;
    flip(&path, 8 + before + byte, 3);
    updates[at][byte] ^= 1 << 3;
    (path, updates)
}

/// The fault of the only damaged block.
fn kind(path: &Path) -> FaultKind {
    let damage = look(path).damage;
    assert_eq!(damage.len(), 1, "{damage:?}");
    damage[0].fault.kind
}

#[test]
fn a_repair_to_another_file_keeps_a_changed_block_and_its_mark() {
    let folder = Folder::new();
    let (path, updates) = with_changed_value(&folder);
    let named = look(&path).damage;
    let out = folder.0.join("y.log");
    let done = repair::rewrite(&path, &out, Limits::default(), ChangedBlocks::Keep).unwrap();
    assert_eq!((&done.blocks, done.damage.len()), (&named, 0));
    assert_eq!(all(&out), updates);
    assert_eq!(kind(&out), FaultKind::Unconfirmed);
    let marked = &look(&out).damage[0];
    assert_eq!((marked.first_index, marked.last_index), (named[0].first_index, named[0].last_index));
    // Windows outside the block give no warning.
    assert_eq!(damaged_in(&out, marked.first_index + 1..marked.first_index + 2).unwrap().len(), 1);
    assert_eq!(damaged_in(&out, 0..marked.first_index).unwrap().len(), 0);
    // Nor does a repair of the repaired log, or a new side file, remove the mark.
    let again = folder.0.join("z.log");
    repair::rewrite(&out, &again, Limits::default(), ChangedBlocks::Keep).unwrap();
    assert_eq!(kind(&again), FaultKind::Unconfirmed);
    rebuild(&again, Limits::default(), 4096, &mut |_, _| {}).unwrap();
    assert_eq!(kind(&again), FaultKind::Unconfirmed);
}

#[test]
fn a_repair_drops_changed_blocks_on_request() {
    let folder = Folder::new();
    let (path, updates) = with_changed_value(&folder);
    let named = look(&path).damage.remove(0);
    let out = folder.0.join("y.log");
    let done = repair::rewrite(&path, &out, Limits::default(), ChangedBlocks::Cut).unwrap();
    let (first, last) = (named.first_index as usize, named.last_index.unwrap() as usize);
    let expected: Vec<_> = updates[..first].iter().chain(&updates[last..]).cloned().collect();
    assert_eq!(all(&out), expected);
    assert_eq!(done.updates as usize, expected.len());
    assert!(look(&out).is_whole());
}

#[test]
fn a_start_that_keeps_a_changed_block_marks_it_and_the_next_one_needs_no_word() {
    let folder = Folder::new();
    let (path, updates) = with_changed_value(&folder);
    assert!(matches!(folder.try_open(Damage::Stop), Err(LogError::Refused { .. })));
    let (writer, report) = folder.try_open(Damage::Skip).unwrap();
    assert_eq!((report.kept.len(), report.damage.len(), report.replaced), (1, 0, None));
    writer.close().unwrap();
    assert_eq!(kind(&path), FaultKind::Unconfirmed);
    let (writer, report) = folder.open();
    assert_eq!((report.updates as usize, report.kept.len()), (updates.len(), 0));
    writer.close().unwrap();
    assert_eq!(kind(&path), FaultKind::Unconfirmed);
}

#[test]
fn a_start_that_leaves_damage_out_marks_the_changed_blocks_that_it_keeps() {
    let folder = Folder::new();
    let (path, updates) = with_changed_value(&folder);
    let late: usize = updates[..300].iter().map(Vec::len).sum();
    flip(&path, 8 + late, 6);
    let (writer, report) = folder.try_open(Damage::Skip).unwrap();
    assert_eq!((report.updates, report.damage.len(), report.kept.len()), (399, 1, 2));
    assert!(report.replaced.is_some());
    writer.close().unwrap();
    let kinds: Vec<_> = look(&path).damage.iter().map(|damage| damage.fault.kind).collect();
    assert_eq!(kinds, [FaultKind::Unconfirmed; 2]);
}

#[test]
fn a_repair_that_was_cut_short_before_its_side_file_was_in_place_is_finished_by_the_next_start() {
    let folder = Folder::new();
    let (path, _) = with_changed_value(&folder);
    repair::replace(&path, Limits::default(), ChangedBlocks::Keep).unwrap();
    let mut early = path.clone().into_os_string();
    early.push(".repaired.index");
    std::fs::rename(side_path(&path), &early).unwrap();
    folder.open().0.close().unwrap();
    assert_eq!(kind(&path), FaultKind::Unconfirmed);
}

#[test]
fn with_the_side_file_of_another_log_every_block_is_marked_until_that_is_removed() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (path, _) = with_changed_value(&folder);
    let updates: Vec<_> = (0..400).map(|i| update("quote", i, 31)).collect();
    std::fs::copy(side_path(&other.with(&updates)), side_path(&path)).unwrap();
    let rebuilt = || rebuild(&path, Limits::default(), 4096, &mut |_, _| {}).unwrap();
    assert!(!rebuilt().damage.is_empty());
    assert!(!look(&path).is_whole());
    std::fs::remove_file(side_path(&path)).unwrap();
    assert!(rebuilt().damage.is_empty());
    assert!(look(&path).is_whole());
}

#[test]
fn a_new_side_file_that_cannot_be_made_leaves_the_one_before() {
    let folder = Folder::new();
    let (path, updates) = with_changed_value(&folder);
    let late: usize = updates[..300].iter().map(Vec::len).sum();
    flip(&path, 8 + late, 6);
    let side = std::fs::read(side_path(&path)).unwrap();
    assert!(matches!(rebuild(&path, Limits::default(), 4096, &mut |_, _| {}), Err(LogError::Damaged { .. })));
    assert_eq!(std::fs::read(side_path(&path)).unwrap(), side);
}

#[test]
fn a_log_that_has_changed_from_its_start_on_is_rejected() {
    let folder = Folder::new();
    let (path, updates) = with_changed_value(&folder);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.drain(8..8 + updates[0].len());
    std::fs::write(&path, bytes).unwrap();
    let Err(LogError::Refused { damage, .. }) = folder.try_open(Damage::Stop) else { panic!("opened") };
    assert_eq!((damage.fault.kind, damage.first_byte), (FaultKind::NoBlockAgrees, 8));
}
