//! Seeking to an update, with and without the side file.

use super::support::*;
use crate::log::{Proof, columns_of, parts, side_path, update_hash};
use proto::Limits;

/// More than a few blocks.
fn many() -> Vec<Vec<u8>> {
    (0..600).map(|i| update("trade", i * 100, 1 + (i as usize * 13) % 90)).collect()
}

#[test]
fn seeking_to_every_update_equals_walking() {
    let folder = Folder::new();
    let updates = many();
    let path = folder.with(&updates);
    let mut with = reader(&path);
    let hidden = folder.0.join("hidden");
    for index in (0..updates.len()).chain((0..updates.len()).rev().step_by(17)) {
        with.seek(index as u64).unwrap();
        assert_eq!(with.position(), index as u64);
        match with.next_chunk(1, u64::MAX).unwrap() {
            crate::log::Next::Chunk(chunk) => {
                assert_eq!((chunk.first_index, chunk.bytes), (index as u64, &updates[index][..]))
            }
            crate::log::Next::NotYet => panic!("update {index} not found"),
        }
    }
    std::fs::rename(side_path(&path), hidden).unwrap();
    let mut without = reader(&path);
    for index in [0, 599, 300, 301, 5] {
        without.seek(index).unwrap();
        let found = rest(&mut without);
        assert_eq!(found.first(), Some(&(index, updates[index as usize].clone())));
    }
}

#[test]
fn a_side_file_of_another_log_is_not_believed() {
    let (one, other) = (Folder::new(), Folder::new());
    let path = one.with(&many());
    let different: Vec<_> = (0..600).map(|i| update("quote", i, 50)).collect();
    std::fs::copy(side_path(&other.with(&different)), side_path(&path)).unwrap();
    let mut reader = reader(&path);
    reader.seek(450).unwrap();
    assert_eq!(rest(&mut reader).first(), Some(&(450, many()[450].clone())));
}

#[test]
fn a_torn_side_file_is_used_as_far_as_it_goes() {
    let folder = Folder::new();
    let path = folder.with(&many());
    let side = std::fs::read(side_path(&path)).unwrap();
    for length in [0, 10, 48, 49, 100, side.len() - 1] {
        std::fs::write(side_path(&path), &side[..length]).unwrap();
        let mut reader = reader(&path);
        reader.seek(599).unwrap();
        assert_eq!(rest(&mut reader).len(), 1, "side file of {length} bytes");
    }
}

#[test]
fn opening_to_append_rebuilds_a_side_file_that_is_lost_torn_or_stale() {
    let folder = Folder::new();
    let path = folder.with(&many());
    let good = std::fs::read(side_path(&path)).unwrap();
    let mut flipped = good.clone();
    flipped[48 * 3 + 5] ^= 1;
    let mut cases = vec![Vec::new(), good[..100].to_vec(), vec![7; 300], flipped];
    cases.push(good[..48].to_vec());
    for (case, side) in cases.into_iter().enumerate() {
        std::fs::write(side_path(&path), side).unwrap();
        let (writer, report) = folder.open();
        assert_eq!(report.updates, 600, "case {case}");
        assert!(report.walked_bytes > 0, "case {case}");
        writer.close().unwrap();
        let (writer, report) = folder.open();
        assert_eq!((report.updates, report.walked_bytes), (600, 0), "case {case}");
        writer.close().unwrap();
        let mut reader = reader(&path);
        reader.seek(333).unwrap();
        assert_eq!(rest(&mut reader).len(), 267, "case {case}");
    }
}

#[test]
fn opening_to_append_rebuilds_the_side_file_of_another_log() {
    let (one, other) = (Folder::new(), Folder::new());
    let path = one.with(&many());
    let different: Vec<_> = (0..600).map(|i| update("quote", i, 50)).collect();
    std::fs::copy(side_path(&other.with(&different)), side_path(&path)).unwrap();
    let (writer, report) = one.open();
    assert_eq!(report.updates, 600);
    writer.close().unwrap();
    assert_eq!(one.open().1.walked_bytes, 0);
}

#[test]
fn proofs_of_windows_add_up() {
    let folder = Folder::new();
    let updates = many();
    let path = folder.with(&updates);
    let limits = Limits::default();
    let mut reader = reader(&path);
    let mut prove =
        |window| crate::log::window_proof(&mut reader, window, soon(), |_, _, _| crate::log::Keep::Whole).unwrap();
    let whole = prove(0..600);
    let mut sum = Proof::new();
    for window in [0..0, 0..1, 1..250, 250..251, 251..600] {
        sum.merge(&prove(window));
    }
    assert_eq!(sum, whole);
    let mut by_hand = Proof::new();
    for update in &updates {
        let record = parts(update, &limits).unwrap();
        let (bytes, rows) = columns_of(&record.columns);
        by_hand.add(record.table, rows, update_hash(bytes));
    }
    assert_eq!(by_hand, whole);
    sum.subtract(&prove(1..600));
    assert_eq!(sum, prove(0..1));
}

#[test]
fn a_proof_depends_on_the_table_and_on_every_byte() {
    let mut one = Proof::new();
    one.add(b"trade", 1, update_hash(b"\x07\x00\x01\x00\x00\x0012345678"));
    let mut other = Proof::new();
    other.add(b"trade", 1, update_hash(b"\x07\x00\x01\x00\x00\x0012345679"));
    assert_ne!(one, other);
    let mut third = Proof::new();
    third.add(b"quote", 1, update_hash(b"\x07\x00\x01\x00\x00\x0012345678"));
    assert_ne!(one, third);
}
