//! Identity of a directory's logs, and epochs that never restart.

use super::support::*;
use crate::config::Durability;
use crate::log::{LogError, LogReader, LogWriter, Remembered, log_path, side_path};
use std::path::{Path, PathBuf};
use std::time::Instant;

fn lock(folder: &Folder) -> PathBuf {
    folder.0.join("sym.lock")
}

/// Runs several writers in turn, applies `spoil` to the lock file, and opens the next one; returns that and the id of the one before.
fn after(spoil: impl Fn(&Path)) -> (LogWriter, crate::log::WriterId) {
    let folder = Folder::new();
    (0..3).for_each(|_| folder.open().0.close().unwrap());
    let (mut writer, _) = folder.open();
    writer.append(&update("trade", 0, 3), 1).unwrap();
    let before = writer.writer_id();
    writer.close().unwrap();
    spoil(&lock(&folder));
    (folder.open().0, before)
}

#[test]
fn a_lock_file_that_is_lost_or_spoiled_begins_no_epoch_again() {
    let spoils: [fn(&Path); 4] = [
        |lock| std::fs::remove_file(lock).unwrap(),
        |lock| std::fs::write(lock, "garbage").unwrap(),
        |lock| std::fs::write(lock, "").unwrap(),
        |lock| std::fs::write(lock, vec![0xff; 480]).unwrap(),
    ];
    for spoil in spoils {
        let (writer, before) = after(spoil);
        let now = writer.writer_id();
        assert_eq!((now.epoch, now.log), (before.epoch + 1, before.log));
        assert_eq!(now.look_at(&before), Remembered::Same);
    }
}

#[test]
fn an_older_lock_file_does_not_bring_back_its_epoch() {
    let folder = Folder::new();
    folder.open().0.close().unwrap();
    let old = std::fs::read(lock(&folder)).unwrap();
    (0..4).for_each(|_| folder.open().0.close().unwrap());
    std::fs::write(lock(&folder), old).unwrap();
    assert_eq!(folder.open().0.epoch(), 6);
}

#[test]
fn the_epoch_of_another_days_side_file_counts() {
    let folder = Folder::new();
    let (mut writer, _) = folder.open();
    writer.roll(DAY.tomorrow().unwrap(), |_| Ok(())).unwrap();
    writer.close().unwrap();
    std::fs::remove_file(lock(&folder)).unwrap();
    let today = log_path(&folder.0, "sym", DAY);
    std::fs::remove_file(side_path(&today)).unwrap();
    assert_eq!(folder.open().0.epoch(), 2);
}

#[test]
fn side_files_of_other_sources_and_files_that_are_none_are_passed_over() {
    let folder = Folder::new();
    (0..4).for_each(|_| folder.open().0.close().unwrap());
    let options = crate::log::LogOptions { src: "fx".to_string(), ..folder.options(Durability::Os) };
    std::fs::write(folder.0.join("fx2026.11.20.index"), "garbage").unwrap();
    let (other, _) = LogWriter::open(options, DAY).unwrap();
    assert_eq!(other.epoch(), 1);
    assert_ne!(other.writer_id().log, folder.open().0.writer_id().log);
}

#[test]
fn an_emptied_directory_is_another_log() {
    let (folder, other) = (Folder::new(), Folder::new());
    (0..4).for_each(|_| folder.open().0.close().unwrap());
    let before = folder.open().0.writer_id();
    assert_eq!(other.open().0.writer_id().look_at(&before), Remembered::Other);
}

#[test]
fn a_restored_directory_is_detected_by_its_nodes_and_continues_as_another_log() {
    let folder = Folder::new();
    folder.open().0.close().unwrap();
    let backup = std::fs::read(lock(&folder)).unwrap();
    let side = std::fs::read(side_path(&folder.log())).unwrap();
    let seen = folder.open().0.writer_id();
    let seen_more = folder.open().0.writer_id();
    std::fs::write(lock(&folder), backup).unwrap();
    std::fs::write(side_path(&folder.log()), side).unwrap();
    let (mut writer, _) = folder.open();
    // The same epoch, but another writer.
    assert_eq!(writer.epoch(), seen.epoch);
    for seen in [seen, seen_more] {
        assert_eq!(writer.writer_id().look_at(&seen), Remembered::Later);
    }
    writer.begin_anew(seen_more.epoch).unwrap();
    let now = writer.writer_id();
    assert!(now.epoch > seen_more.epoch);
    assert_eq!(now.look_at(&seen_more), Remembered::Other);
    writer.append(&update("trade", 0, 3), 1).unwrap();
    writer.close().unwrap();
    std::fs::remove_file(lock(&folder)).unwrap();
    let next = folder.open().0.writer_id();
    assert_eq!((next.log, next.epoch), (now.log, now.epoch + 1));
}

#[test]
fn an_old_writer_does_not_begin_anew() {
    let folder = Folder::new();
    let (mut old, _) = folder.open();
    // As after a server revoked its lock: the lock file names the next writer.
    let line = std::fs::read(lock(&folder)).unwrap();
    let other = Folder::new();
    (0..3).for_each(|_| other.open().0.close().unwrap());
    std::fs::copy(lock(&other), lock(&folder)).unwrap();
    assert!(matches!(old.begin_anew(3), Err(LogError::Lost { .. })));
    std::fs::write(lock(&folder), line).unwrap();
}

#[test]
fn updates_of_todays_log_before_this_writer_are_counted() {
    let folder = Folder::new();
    folder.with(&updates(5));
    let (mut writer, _) = folder.open();
    writer.append(&update("trade", 0, 3), 1).unwrap();
    assert_eq!(writer.began_at(), 5);
    writer.roll(DAY.tomorrow().unwrap(), |_| Ok(())).unwrap();
    assert_eq!(writer.began_at(), 0);
}

#[test]
fn what_was_logged_after_an_epoch_is_found_over_several_ones() {
    let folder = Folder::new();
    for updates in [5, 3, 2] {
        let (mut writer, _) = folder.open();
        (0..updates).for_each(|_| writer.append(&update("trade", 0, 3), 1).unwrap());
        writer.close().unwrap();
    }
    let (writer, _) = folder.open();
    assert_eq!([0, 1, 2, 3].map(|epoch| writer.first_after(epoch)), [0, 5, 8, 10]);
}

/// A reader of the log at `path`, verified to contain these samples.
fn reader_of(path: &Path, samples: &[crate::log::Sample]) -> Result<LogReader, LogError> {
    let mut reader = reader(path);
    reader.wait_for(samples, Instant::now())?;
    Ok(reader)
}

#[test]
fn a_log_is_identified_by_its_first_and_latest_bytes() {
    let folder = Folder::new();
    let (mut writer, _) = folder.open();
    assert!(writer.samples().is_empty(), "an empty log is like any other");
    for (at, update) in updates(900).iter().enumerate() {
        writer.append(update, 1).unwrap();
        if at % 83 == 0 {
            assert!(reader_of(&folder.log(), &writer.samples()).is_ok(), "{at}");
        }
    }
    writer.close().unwrap();
    let (mut writer, _) = folder.open();
    assert!(reader_of(&folder.log(), &writer.samples()).is_ok(), "opened again");
    writer.append(&update("trade", 1, 2), 1).unwrap();
    assert!(reader_of(&folder.log(), &writer.samples()).is_ok());
}

#[test]
fn another_log_a_copy_that_went_its_own_way_and_one_that_ends_early_are_not_taken_for_the_log() {
    let (folder, other) = (Folder::new(), Folder::new());
    let (mut writer, _) = folder.open();
    updates(300).iter().for_each(|update| writer.append(update, 1).unwrap());
    let early = std::fs::read(folder.log()).unwrap();
    writer.append(&update("trade", 7, 9), 1).unwrap();
    let samples = writer.samples();
    let is_other = |bytes: &[u8]| {
        std::fs::write(other.log(), bytes).unwrap();
        matches!(reader_of(&other.log(), &samples), Err(LogError::Other { .. }))
    };
    assert!(is_other(&early), "it ends early");
    assert!(is_other(&[early.as_slice(), &update("trade", 8, 9)].concat()), "it went its own way");
    assert!(
        is_other(&std::fs::read(Folder::new().with(&updates(600)[300..])).unwrap()),
        "it was another from the begin"
    );
    assert!(!is_other(&std::fs::read(folder.log()).unwrap()), "a copy");
}
