//! One writer per log, epochs, days.

use super::faulty::{Faulty, OnePath};
use super::support::*;
use crate::config::{Damage, Durability, RequiredMount};
use crate::env::Env;
use crate::log::{Active, Contender, Locked, LogError, LogOptions, LogWriter, log_path};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

#[test]
fn a_second_writer_is_rejected_with_the_name_of_the_first() {
    let folder = Folder::new();
    let (first, _) = folder.open();
    let Err(error) = folder.try_open(Damage::Stop) else { panic!("two writers") };
    let text = error.to_string();
    assert!(matches!(error, LogError::Held { .. }), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    first.close().unwrap();
    folder.open();
}

#[test]
fn a_child_that_holds_a_copy_of_the_lock_is_waited_for() {
    let folder = Folder::new();
    let lock = std::fs::File::create(folder.lock()).unwrap();
    lock.lock().unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(lock).spawn().unwrap();
    let held = LogWriter::open(folder.options(Durability::Os), DAY);
    assert!(matches!(held, Err(LogError::Held { .. })));
    // It ends, and the test support waits for that.
    drop(child.stdin.take());
    folder.open();
    child.wait().unwrap();
}

#[test]
fn a_contender_that_is_late_keeps_the_lock_for_its_next_attempt_and_can_give_it_up() {
    let folder = Folder::new();
    folder.open().0.close().unwrap();
    let contender = || Contender::open(folder.options(Durability::Os)).unwrap();
    let (late, other) = (contender(), contender());
    // A child of another test may hold a copy of a lock for a moment.
    let until = |of: &Contender, epoch: u64, is_wanted: fn(&Result<Locked, LogError>) -> bool| {
        let deadline = soon();
        loop {
            let attempt = of.attempt(Some(epoch));
            if is_wanted(&attempt) {
                return attempt;
            }
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    };
    let stale = until(&late, 1, |attempt| matches!(attempt, Err(LogError::StaleEpoch { .. })));
    assert!(stale.is_err());
    assert!(matches!(other.attempt(Some(2)), Err(LogError::Held { .. })), "nobody comes in between");
    // Another process has its lease now.
    late.release();
    let taken = until(&other, 2, Result::is_ok);
    assert!(matches!(late.attempt(Some(3)), Err(LogError::Held { .. })));
    drop(taken);
    assert_eq!(until(&late, 3, Result::is_ok).unwrap().epoch(), 3, "it may try again");
}

#[test]
fn who_is_active_is_read_without_the_lock() {
    let folder = Folder::new();
    let disk = Env::system().disk;
    let active = || Active::read(&*disk, &folder.0, "sym").unwrap();
    assert_eq!(active(), None);
    let with = |address: Option<&str>| {
        let options = || LogOptions { address: address.map(String::from), ..folder.options(Durability::Os) };
        folder.open_with(&options, DAY).unwrap().0
    };
    let first = with(Some("tick-a:5010"));
    let read = active().unwrap();
    assert_eq!((read.epoch, read.address.as_deref(), read.is_closed), (1, Some("tick-a:5010"), false));
    assert!(read.process.contains(&std::process::id().to_string()), "{}", read.process);
    assert_eq!(read.log, Some(folder.log()));
    first.close().unwrap();
    assert!(active().unwrap().is_closed);
    let _second = with(None);
    let read = active().unwrap();
    assert_eq!((read.epoch, read.address), (2, None), "the address of a process before is not this one's");
}

#[test]
fn a_log_that_was_locked_before_it_is_opened_is_locked_once() {
    let folder = Folder::new();
    let locked = Locked::take(&folder.options(Durability::Os)).unwrap();
    assert!(matches!(Locked::take(&folder.options(Durability::Os)), Err(LogError::Held { .. })));
    let epoch = locked.epoch();
    let (log, report) = LogWriter::open_locked(locked, folder.options(Durability::Os), DAY).unwrap();
    assert_eq!((report.epoch, log.writer_id().epoch), (epoch, epoch));
}

#[test]
fn a_writer_of_another_day_is_rejected_too() {
    let folder = Folder::new();
    let (_first, _) = folder.open();
    let other = LogWriter::open(folder.options(Durability::Os), DAY.tomorrow().unwrap());
    assert!(matches!(other, Err(LogError::Held { .. })));
}

#[test]
fn another_source_in_the_same_directory_is_another_log() {
    let folder = Folder::new();
    let (_first, _) = folder.open();
    let options = LogOptions { src: "fx".to_string(), ..folder.options(Durability::Os) };
    let (other, _) = LogWriter::open(options, DAY).unwrap();
    assert_eq!(other.path(), log_path(&folder.0, "fx", DAY));
}

#[test]
fn a_tool_cannot_cut_a_log_under_its_writer() {
    let folder = Folder::new();
    let (_writer, _) = folder.open();
    assert!(matches!(crate::log::repair::cut_tail(&folder.log(), 8), Err(LogError::Held { .. })));
}

#[test]
fn the_epoch_grows_with_every_writer_also_after_a_crash() {
    let folder = Folder::new();
    for expected in 1..6 {
        let (writer, report) = folder.open();
        assert_eq!((writer.epoch(), report.epoch), (expected, expected));
        if expected % 2 == 0 {
            writer.close().unwrap();
        }
    }
}

#[test]
fn an_epoch_given_must_be_above_the_one_that_has_written() {
    let folder = Folder::new();
    let with = |epoch| folder.open_with(&|| LogOptions { epoch: Some(epoch), ..folder.options(Durability::Os) }, DAY);
    drop(with(7).unwrap());
    assert!(matches!(with(7), Err(LogError::StaleEpoch { given: 7, stored: 7, .. })));
    assert!(matches!(with(6), Err(LogError::StaleEpoch { .. })));
    assert_eq!(with(8).unwrap().0.epoch(), 8);
}

#[test]
fn a_torn_line_in_the_lock_file_leaves_the_epoch_before() {
    let folder = Folder::new();
    folder.open().0.close().unwrap();
    folder.open().0.close().unwrap();
    // Remove the side file, which also has the epoch.
    std::fs::remove_file(crate::log::side_path(&folder.log())).unwrap();
    // Epoch 2 is in the first line.
    flip(&folder.0.join("sym.lock"), 3, 0);
    assert_eq!(folder.open().0.epoch(), 2);
}

#[test]
fn a_restart_on_the_same_day_continues_the_log() {
    let folder = Folder::new();
    let updates = updates(40);
    for (part, batch) in updates.chunks(10).enumerate() {
        let (mut writer, report) = folder.open();
        assert_eq!((report.updates, report.created), (part as u64 * 10, part == 0));
        assert_eq!(writer.durable_tip(), report.updates);
        writer.append(&batch.concat(), 10).unwrap();
        // Every other time it is killed.
        if part % 2 == 0 {
            writer.close().unwrap();
        }
    }
    assert_eq!(all(&folder.log()), updates);
}

#[test]
fn the_day_rolls_to_a_new_log_and_counts_from_zero() {
    let folder = Folder::new();
    let updates = updates(4);
    let (mut writer, _) = folder.open();
    writer.append(&updates[..3].concat(), 3).unwrap();
    let next = DAY.tomorrow().unwrap();
    let report = writer.roll(next, |_| Ok(())).unwrap();
    assert!(report.created);
    assert_eq!((writer.tip(), writer.date()), (0, next));
    writer.append(&updates[3], 1).unwrap();
    assert_eq!(all(&folder.log()), updates[..3]);
    assert_eq!(all(&log_path(&folder.0, "sym", next)), updates[3..]);
}

#[test]
fn a_log_of_kdb_is_continued() {
    let folder = Folder::new();
    let updates = updates(8);
    // As kdb+ leaves it: no side file, no lock file.
    std::fs::write(folder.log(), [&proto::log::FILE_HEAD[..], &updates[..5].concat()].concat()).unwrap();
    let (mut writer, report) = folder.open();
    assert_eq!((report.updates, report.created), (5, false));
    writer.append(&updates[5..].concat(), 3).unwrap();
    writer.close().unwrap();
    assert_eq!(all(&folder.log()), updates);
}

#[test]
fn an_empty_log_is_the_eight_bytes_of_kdb() {
    let folder = Folder::new();
    let path = folder.with(&[]);
    assert_eq!(std::fs::read(path).unwrap(), [0xff, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_directory_on_another_file_system_than_required_is_not_written() {
    let folder = Folder::new();
    let dir = folder.0.join("not-made");
    for mount in ["nfs", "/proc"] {
        let mount: RequiredMount = mount.parse().unwrap();
        let expected = mount.to_string();
        let options = LogOptions { dir: dir.clone(), mount, ..folder.options(Durability::Os) };
        let Err(error) = LogWriter::open(options, DAY) else { panic!("a log on the wrong disk") };
        let text = error.to_string();
        assert!(matches!(error, LogError::Misplaced { .. }) && text.contains(&expected), "{text}");
        assert!(!dir.exists());
    }
}

#[test]
fn a_directory_where_it_must_be_is_taken() {
    let folder = Folder::new();
    let mount = crate::sys::mount::mount_of(&folder.0).unwrap();
    for required in [RequiredMount::Kind(mount.kind), RequiredMount::At(mount.point)] {
        let options = LogOptions { mount: required, ..folder.options(Durability::Os) };
        LogWriter::open(options, DAY).unwrap().0.close().unwrap();
    }
}

/// The log's directory is a link to a volume that is removed: the name then leads to the disk below.
#[test]
fn a_volume_that_is_gone_when_the_day_rolls_leaves_the_days_log_going() {
    let folder = Folder::new();
    let (dir, below) = (folder.0.join("log"), folder.0.join("below"));
    let volume = Path::new("/dev/shm").join(format!("elastick-volume-{}", std::process::id()));
    let kind_of = |path: &Path| crate::sys::mount::mount_of(path).unwrap().kind;
    if kind_of(&volume) != "tmpfs" || kind_of(&folder.0) == "tmpfs" {
        return eprintln!("skipped: /dev/shm is no file system of its own here");
    }
    std::fs::create_dir(&volume).unwrap();
    std::fs::create_dir(&below).unwrap();
    symlink(&volume, &dir).unwrap();
    let mount = RequiredMount::Kind("tmpfs".to_string());
    let options = LogOptions { dir: dir.clone(), mount, ..folder.options(Durability::Os) };
    let (mut writer, _) = LogWriter::open(options, DAY).unwrap();
    std::fs::remove_file(&dir).unwrap();
    symlink(&below, &dir).unwrap();
    let rolled = writer.roll(DAY.tomorrow().unwrap(), |_| Ok(()));
    std::fs::remove_dir_all(&volume).unwrap();
    assert!(matches!(rolled, Err(LogError::Misplaced { .. })));
    assert_eq!((writer.date(), std::fs::read_dir(&below).unwrap().count()), (DAY, 0));
    writer.check().unwrap();
}

#[test]
fn the_log_before_is_durable_once_a_day_has_started() {
    let folder = Folder::new();
    let before = Arc::new(Faulty::on_device(1, vec![0; 40]));
    let path = log_path(&folder.0, "sym", DAY.yesterday().unwrap());
    let mut options = folder.options(Durability::Os);
    options.env.disk = Arc::new(OnePath(path, Arc::clone(&before)));
    assert_eq!(before.synced_bytes(), 0);
    LogWriter::open(options, DAY).unwrap();
    assert_eq!(before.synced_bytes(), 40);
}

/// A log with updates up to where its disk is full, and the file.
fn full(folder: &Folder) -> (LogWriter, Arc<Faulty>, usize) {
    let file = Arc::new(Faulty::full_after(500));
    let mut options = folder.options(Durability::Os);
    options.env.disk = Arc::new(OnePath(folder.log(), Arc::clone(&file)));
    let (mut log, _) = LogWriter::open(options, DAY).unwrap();
    let taken = updates(100).iter().take_while(|update| log.append(update, 1).is_ok()).count();
    assert!(taken > 0 && log.can_resume() && log.tip() == taken as u64);
    (log, file, taken)
}

#[test]
fn a_log_whose_disk_was_full_has_all_updates_after_it_continues() {
    let folder = Folder::new();
    let (mut log, file, taken) = full(&folder);
    file.make_room();
    log.resume().unwrap();
    assert_eq!(file.synced_bytes(), file.bytes().len());
    let all_updates = updates(100);
    all_updates[taken..].iter().for_each(|update| log.append(update, 1).unwrap());
    log.close().unwrap();
    std::fs::write(folder.log(), file.bytes()).unwrap();
    assert_eq!(all(&folder.log()), all_updates);
    let (_, report) = folder.open();
    assert_eq!((report.updates, report.damage.len(), report.missing), (100, 0, 0), "the side file agrees");
}

#[test]
fn a_log_that_has_other_bytes_than_were_written_does_not_continue() {
    let folder = Folder::new();
    let (mut log, file, taken) = full(&folder);
    file.make_room();
    file.change(30);
    let error = log.resume().unwrap_err().to_string();
    assert!(error.contains("differ from what was written") && !log.can_resume(), "{error}");
    file.change(30);
    assert!(log.resume().is_err(), "a failed proof is final");
    assert!(log.append(&updates(1)[0], 1).is_err() && log.tip() == taken as u64);
}
