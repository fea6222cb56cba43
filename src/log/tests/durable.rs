//! Guarantees of each durability, and behaviour when the disk fails.

use super::faulty::{Call, Faulty};
use super::support::*;
use crate::config::Durability;
use crate::env::task::Threads;
use crate::log::appender::{Appender, Mode};
use crate::log::{LogError, Mark, Waker};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const RECORD: &[u8] = b"0123456789";

fn appender(file: &Arc<Faulty>, durability: Durability) -> Appender {
    appender_with(file, durability, None)
}

fn appender_with(file: &Arc<Faulty>, durability: Durability, waker: Option<Waker>) -> Appender {
    let mode = Mode { durability, is_shared: false, buffer_most_bytes: 25 };
    Appender::new(&Threads, Arc::clone(file) as _, Path::new("log"), Mark::default(), mode, waker).unwrap()
}

#[test]
fn none_holds_back_until_its_buffer_is_full_or_flushed() {
    let file = Arc::new(Faulty::default());
    let mut log = appender(&file, Durability::None);
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap();
    assert_eq!((log.tip(), log.acknowledged_tip(), log.written_index(), file.bytes().len()), (2, 2, 0, 0));
    log.append(RECORD, 1).unwrap();
    assert_eq!((log.tip(), log.written_index(), file.bytes().len()), (3, 2, 20));
    log.flush().unwrap();
    assert_eq!((log.written_index(), file.bytes().len()), (3, 30));
}

#[test]
fn none_writes_what_is_longer_than_its_buffer_in_order() {
    let file = Arc::new(Faulty::default());
    let mut log = appender(&file, Durability::None);
    log.append(RECORD, 1).unwrap();
    log.append(&[b'x'; 40], 4).unwrap();
    assert_eq!((log.tip(), log.written_index()), (5, 5));
    assert_eq!(file.bytes(), [RECORD, &[b'x'; 40]].concat());
}

#[test]
fn os_writes_at_once_and_syncs_on_request() {
    let file = Arc::new(Faulty::default());
    let mut log = appender(&file, Durability::Os);
    log.append(RECORD, 1).unwrap();
    assert_eq!((log.written_index(), log.durable_tip(), log.acknowledged_tip()), (1, 0, 1));
    log.sync().unwrap();
    assert_eq!((log.durable_tip(), file.synced_bytes()), (1, 10));
}

#[test]
fn each_is_durable_when_append_returns() {
    let file = Arc::new(Faulty::default());
    let mut log = appender(&file, Durability::Each);
    for count in 1..4 {
        log.append(RECORD, 1).unwrap();
        assert_eq!(
            (log.durable_tip(), log.acknowledged_tip(), file.synced_bytes()),
            (count, count, count as usize * 10)
        );
    }
}

#[test]
fn short_writes_are_completed() {
    let file = Arc::new(Faulty::short(3));
    let mut log = appender(&file, Durability::Os);
    log.append(RECORD, 1).unwrap();
    assert_eq!(file.bytes(), RECORD);
}

#[test]
fn a_full_disk_takes_back_the_unfinished_record_and_ends_the_log() {
    let file = Arc::new(Faulty::full_after(25));
    let mut log = appender(&file, Durability::Os);
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap();
    let error = log.append(RECORD, 1).unwrap_err();
    assert!(error.to_string().contains("write"), "{error}");
    assert_eq!((log.tip(), file.bytes().len()), (2, 20));
    let error = log.append(b"x", 1).unwrap_err();
    assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    assert_eq!((log.tip(), log.acknowledged_tip(), file.bytes().len()), (2, 2, 20));
}

#[test]
fn a_log_whose_disk_was_full_continues_at_the_same_place_once_there_is_room() {
    for durability in [Durability::Os, Durability::Each, Durability::Group(Duration::from_millis(1))] {
        let file = Arc::new(Faulty::full_after(25));
        let mut log = appender(&file, durability);
        assert!(!log.can_resume());
        log.append(RECORD, 1).unwrap();
        log.append(RECORD, 1).unwrap();
        log.append(b"abcdefghij", 1).unwrap_err();
        assert!(log.can_resume());
        log.resume().unwrap();
        log.append(b"abcdefghij", 1).expect_err("it is still full");
        file.make_room();
        log.append(RECORD, 1).expect_err("not before it was resumed");
        log.resume().unwrap();
        log.append(RECORD, 1).unwrap();
        log.sync().unwrap();
        assert_eq!((log.tip(), log.acknowledged_tip(), file.synced_bytes()), (3, 3, 30), "{durability}");
        assert_eq!(file.bytes(), RECORD.repeat(3));
    }
}

#[test]
fn what_none_has_buffered_when_the_disk_is_full_is_written_once_there_is_room() {
    let file = Arc::new(Faulty::full_after(15));
    let mut log = appender(&file, Durability::None);
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap_err();
    assert_eq!((log.tip(), log.acknowledged_tip(), file.bytes().len()), (2, 0, 0));
    log.resume().expect_err("it is still full");
    assert!(log.can_resume());
    file.make_room();
    log.resume().unwrap();
    assert_eq!((log.tip(), log.acknowledged_tip(), file.bytes()), (2, 2, RECORD.repeat(2)));
}

#[test]
fn a_log_that_another_program_has_changed_meanwhile_does_not_continue() {
    let file = Arc::new(Faulty::full_after(25));
    let mut log = appender(&file, Durability::Os);
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap_err();
    file.make_room();
    file.grow(b"x");
    let error = log.resume().unwrap_err().to_string();
    assert!(error.contains("21 bytes, and 20 were written") && !log.can_resume(), "{error}");
    log.append(RECORD, 1).unwrap_err();
}

#[test]
fn a_failed_sync_is_never_retried_also_if_the_disk_was_full() {
    let file = Arc::new(Faulty::failing(Call::Sync, 0));
    let mut log = appender(&file, Durability::Each);
    log.append(RECORD, 1).unwrap_err();
    assert!(!log.can_resume());
    log.resume().unwrap_err();
    assert_eq!(log.acknowledged_tip(), 0);
}

#[test]
fn a_failed_write_that_cannot_be_taken_back_says_so() {
    struct Stuck(Faulty);
    impl crate::env::LogFile for Stuck {
        fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> std::io::Result<usize> {
            self.0.read_at(buffer, offset_bytes)
        }
        fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
        fn truncate(&self, _: u64) -> std::io::Result<()> {
            Err(std::io::Error::other("stuck"))
        }
        fn sync(&self) -> std::io::Result<()> {
            Ok(())
        }
        fn size_bytes(&self) -> std::io::Result<u64> {
            Ok(0)
        }
    }
    let file = Arc::new(Stuck(Faulty::default()));
    let mode = Mode { durability: Durability::Os, is_shared: false, buffer_most_bytes: 25 };
    let mut log = Appender::new(&Threads, file, Path::new("log"), Mark::default(), mode, None).unwrap();
    log.append(RECORD, 1).unwrap_err();
    let error = log.check().unwrap_err().to_string();
    assert!(error.contains("broken") && error.contains("stuck"), "{error}");
}

#[test]
fn under_each_a_failed_sync_ends_the_log_and_acknowledges_nothing_more() {
    let file = Arc::new(Faulty::failing(Call::Sync, 1));
    let mut log = appender(&file, Durability::Each);
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap_err();
    assert_eq!((log.tip(), log.acknowledged_tip(), log.durable_tip()), (1, 1, 1));
    assert!(matches!(log.append(RECORD, 1), Err(LogError::Poisoned { .. })));
    assert!(matches!(log.sync(), Err(LogError::Poisoned { .. })));
}

/// An appender under group commit, and a channel that receives its wake-ups.
fn group(file: &Arc<Faulty>) -> (Appender, mpsc::Receiver<()>) {
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    let waker: Waker = Arc::new(move || _ = send.lock().unwrap().send(()));
    (appender_with(file, Durability::Group(Duration::from_millis(1)), Some(waker)), receive)
}

#[test]
fn under_group_the_durable_tip_follows_and_never_leads_what_was_synced() {
    let file = Arc::new(Faulty::default());
    let (mut log, wakes) = group(&file);
    for _ in 0..200 {
        log.append(RECORD, 1).unwrap();
        // Read the durable tip first: everything before it must already be synced.
        let durable = log.durable_tip() as usize;
        assert!(durable * RECORD.len() <= file.synced_bytes());
    }
    while log.durable_tip() < 200 {
        wakes.recv_timeout(Duration::from_secs(20)).expect("the durable tip moves on");
    }
    assert_eq!((log.acknowledged_tip(), file.synced_bytes()), (200, 2000));
}

#[test]
fn under_group_a_failed_sync_wakes_the_writer_and_ends_the_log() {
    let file = Arc::new(Faulty::failing(Call::Sync, 0));
    let (mut log, wakes) = group(&file);
    log.append(RECORD, 1).unwrap();
    wakes.recv_timeout(Duration::from_secs(20)).expect("the failure is reported");
    let error = log.check().unwrap_err();
    assert!(error.to_string().contains("sync"), "{error}");
    assert!(matches!(log.append(RECORD, 1), Err(LogError::Poisoned { .. })));
    assert_eq!((log.acknowledged_tip(), log.durable_tip()), (0, 0));
}

#[test]
fn an_awaited_sync_is_not_delayed_and_reports_its_failure() {
    let file = Arc::new(Faulty::failing(Call::Sync, 2));
    let mut log = appender(&file, Durability::Group(Duration::from_secs(3600)));
    for updates in 1..=2 {
        log.append(RECORD, 1).unwrap();
        log.sync().unwrap();
        assert_eq!((log.durable_tip(), file.synced_bytes()), (updates, 10 * updates as usize));
    }
    log.append(RECORD, 1).unwrap();
    assert!(log.sync().is_err());
    assert_eq!(log.durable_tip(), 2);
}

#[test]
fn dropping_a_group_log_syncs_what_is_left() {
    let file = Arc::new(Faulty::default());
    let mut log = appender(&file, Durability::Group(Duration::from_secs(3600)));
    for _ in 0..5 {
        log.append(RECORD, 1).unwrap();
    }
    drop(log);
    assert_eq!(file.synced_bytes(), 50);
}

#[test]
fn buffered_updates_lost_under_none_are_no_longer_claimed() {
    let file = Arc::new(Faulty::failing(Call::Write, 0));
    let mut log = appender(&file, Durability::None);
    log.append(RECORD, 1).unwrap();
    log.flush().unwrap_err();
    assert_eq!(log.tip(), 0);
}

#[test]
fn every_durability_leaves_the_same_log() {
    let updates = updates(50);
    for text in ["none", "os", "group(1ms)", "each"] {
        let folder = Folder::new();
        let options = folder.options(text.parse().unwrap());
        let (mut writer, _) = crate::log::LogWriter::open(options, DAY).unwrap();
        for pair in updates.chunks(2) {
            writer.append(&pair.concat(), pair.len() as u64).unwrap();
        }
        assert_eq!(writer.tip(), 50);
        writer.sync().unwrap();
        assert_eq!((writer.written_tip(), writer.durable_tip()), (50, 50), "{text}");
        assert_eq!(all(&folder.log()), updates, "{text}");
    }
}

/// A file system of 1 MiB, unmounted on drop; `None` where mounting is not permitted.
struct SmallDisk(Folder);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = Folder::new();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&folder.0).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(folder));
        }
        println!("skipped: a small file system cannot be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
fn a_disk_that_fills_up_ends_the_log_and_with_room_again_it_is_continued() {
    let Some(SmallDisk(folder)) = &SmallDisk::mount() else { return };
    let (mut writer, _) = folder.open();
    let update = update("trade", 1, 100);
    let mut accepted = 0;
    let error = loop {
        match writer.append(&update.repeat(5), 5) {
            Ok(()) => accepted += 5,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("space"), "{error}");
    assert!(matches!(writer.append(&update, 1), Err(LogError::Poisoned { .. })));
    assert_eq!((writer.tip(), all(&folder.log()).len()), (accepted, accepted as usize));
    drop(writer);
    let remount = Command::new("mount").args(["-o", "remount,size=2m"]).arg(&folder.0).status();
    assert!(remount.unwrap().success());
    let (mut writer, report) = folder.open();
    assert_eq!((report.updates, &report.cut), (accepted, &None));
    writer.append(&update, 1).unwrap();
}
