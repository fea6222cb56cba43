//! A side file on a failing disk: which failures end the side file, and which reject the start.

use super::faulty::{Call, Faulty, OneFile};
use crate::log::index::{BlockBuilder, ENTRY_BYTES, Head, SideWriter};
use crate::log::{LogError, Mark};
use std::path::Path;
use std::sync::Arc;

/// Opens `file` as a side file, keeping `keep` of its entries.
fn open(file: &Arc<Faulty>, keep: u64) -> Result<SideWriter, LogError> {
    SideWriter::open(&OneFile(Arc::clone(file)), Path::new("log.index"), keep, Head::default())
}

/// Writes two entries.
fn write_two(side: &mut SideWriter) {
    let mut builder = BlockBuilder::new(Mark::default(), 1);
    for _ in 0..2 {
        builder.add(b"0123456789", 1);
        side.push(&builder.close().unwrap());
    }
    side.flush();
}

/// A side file with two entries whose next call of this kind fails.
fn failing(call: Call) -> Arc<Faulty> {
    let file = Arc::new(Faulty::failing(call, 1));
    write_two(&mut open(&file, 0).unwrap());
    assert_eq!(file.bytes().len(), 3 * ENTRY_BYTES);
    file
}

#[test]
fn a_side_file_of_a_new_log_that_cannot_be_synced_is_given_up() {
    let file = Arc::new(Faulty::failing(Call::Sync, 0));
    let mut side = open(&file, 0).unwrap();
    write_two(&mut side);
    assert_eq!(file.bytes(), b"");
    assert!(side.finish().is_err());
}

#[test]
fn a_side_file_of_which_all_is_kept_and_that_cannot_be_synced_is_given_up_as_it_is() {
    for call in [Call::Sync, Call::Truncate] {
        let file = failing(call);
        let before = file.bytes();
        write_two(&mut open(&file, 2).unwrap());
        assert_eq!(file.bytes(), before, "{call:?}");
    }
}

#[test]
fn entries_that_cannot_be_cut_off_for_good_reject_the_log() {
    for call in [Call::Sync, Call::Truncate] {
        for keep in [0, 1] {
            let Err(error) = open(&failing(call), keep) else { panic!("{call:?}, keeping {keep}: opened") };
            assert!(error.to_string().contains("entries"), "{error}");
        }
    }
}
