//! A roll into a log that already exists.

use super::faulty::{Faulty, OnePath};
use super::support::{DAY, Folder, all, flip, updates};
use crate::config::Durability;
use crate::env::Spawner;
use crate::env::task::{Running, Task, Threads};
use crate::log::{LogError, LogWriter, log_path, side_path};
use jiff::civil::Date;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn next() -> Date {
    DAY.tomorrow().unwrap()
}

/// The next day's log, as this directory's tickerplant wrote it while its clock was ahead.
fn written_ahead(folder: &Folder, count: usize) -> PathBuf {
    let (mut writer, _) = LogWriter::open(folder.options(Durability::Os), next()).unwrap();
    updates(count).iter().for_each(|update| writer.append(update, 1).unwrap());
    writer.close().unwrap();
    log_path(&folder.0, "sym", next())
}

/// Contents of the next day's log and its side file.
fn files(folder: &Folder) -> [Option<Vec<u8>>; 2] {
    let log = log_path(&folder.0, "sym", next());
    [&side_path(&log), &log].map(|path| std::fs::read(path).ok())
}

fn assert_refused(writer: &mut LogWriter, folder: &Folder, is_expected: impl Fn(&LogError) -> bool) {
    let before = files(folder);
    let error = writer.roll(next(), |_| Ok(())).unwrap_err();
    assert!(is_expected(&error) && error.to_string().contains("sym2026.11.22"), "{error}");
    assert!(files(folder) == before && writer.date() == DAY);
    let tip = writer.tip();
    writer.append(&updates(1)[0], 1).unwrap();
    assert_eq!(writer.tip(), tip + 1);
}

/// The day's log with two updates.
fn opened(folder: &Folder) -> LogWriter {
    let (mut writer, _) = folder.open();
    writer.append(&updates(2).concat(), 2).unwrap();
    writer
}

#[test]
fn a_log_that_is_there_is_gone_on_with_behind_its_last_update() {
    for durability in
        [Durability::None, Durability::Os, Durability::Group(std::time::Duration::from_millis(1)), Durability::Each]
    {
        let folder = Folder::new();
        let log = written_ahead(&folder, 25);
        let (mut writer, _) = folder.open_with(&|| folder.options(durability), DAY).unwrap();
        writer.append(&updates(4).concat(), 4).unwrap();
        let report = writer.roll(next(), |_| Ok(())).unwrap();
        assert_eq!((report.created, report.updates), (false, 25));
        let tips = (writer.tip(), writer.durable_tip(), writer.acknowledged_tip(), writer.written_tip());
        assert_eq!((tips, writer.began_at()), ((25, 25, 25, 25), 25), "{durability:?}");
        writer.append(&updates(3).concat(), 3).unwrap();
        assert_eq!((writer.tip(), writer.durable_tip() <= 28), (28, true));
        writer.close().unwrap();
        assert_eq!(all(&log), [updates(25), updates(3)].concat());
        assert_eq!(all(&folder.log()), updates(4));
    }
}

#[test]
fn another_tickerplants_log_holds_the_roll_until_it_is_moved_away() {
    let (folder, other) = (Folder::new(), Folder::new());
    let mut writer = opened(&folder);
    let log = log_path(&folder.0, "sym", next());
    let foreign = written_ahead(&other, 5);
    std::fs::copy(&foreign, &log).unwrap();
    std::fs::copy(side_path(&foreign), side_path(&log)).unwrap();
    assert_refused(&mut writer, &folder, |error| matches!(error, LogError::Foreign { .. }));
    std::fs::remove_file(&log).unwrap();
    assert!(writer.roll(next(), |_| Ok(())).unwrap().created, "a side file alone is in nobody's way");
    assert_eq!((writer.tip(), all(&folder.log()).len()), (0, 3));
}

#[test]
fn a_log_of_a_later_writer_of_this_directory_holds_the_roll() {
    let folder = Folder::new();
    let mut writer = opened(&folder);
    let ahead = Folder::new();
    std::fs::copy(folder.0.join("sym.lock"), ahead.0.join("sym.lock")).unwrap();
    let later = written_ahead(&ahead, 5);
    let log = log_path(&folder.0, "sym", next());
    std::fs::copy(&later, &log).unwrap();
    std::fs::copy(side_path(&later), side_path(&log)).unwrap();
    assert_refused(&mut writer, &folder, |error| error.to_string().contains("epoch"));
}

#[test]
fn a_damaged_log_or_none_holds_the_roll() {
    let folder = Folder::new();
    let log = written_ahead(&folder, 25);
    let mut writer = opened(&folder);
    flip(&log, 1200, 3);
    assert_refused(&mut writer, &folder, |error| matches!(error, LogError::Refused { .. }));
    std::fs::write(&log, "q)hello from another program").unwrap();
    assert_refused(&mut writer, &folder, |error| matches!(error, LogError::NotALog { .. }));
}

#[test]
fn a_log_whose_records_do_not_fit_holds_the_roll() {
    let folder = Folder::new();
    written_ahead(&folder, 25);
    let (mut writer, _) = folder.open();
    let error = writer.roll(next(), |report| Err(format!("{} records do not fit", report.updates))).unwrap_err();
    assert!(error.to_string().contains("25 records do not fit"), "{error}");
    assert_eq!((writer.date(), writer.tip()), (DAY, 0));
}

/// Files of the directory that are named like a log.
fn logs(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.ends_with(".index") && name != "sym.lock");
    names.sort();
    names
}

#[test]
fn a_log_that_cannot_be_begun_leaves_none_that_a_start_would_go_on_with() {
    let folder = Folder::new();
    let full = Arc::new(Faulty::full_after(0));
    let mut options = folder.options(Durability::Os);
    options.env.disk = Arc::new(OnePath(folder.0.join("sym.next"), Arc::clone(&full)));
    let (mut writer, _) = LogWriter::open(options, DAY).unwrap();
    assert!(writer.roll(next(), |_| Ok(())).unwrap_err().to_string().contains("sym.next"));
    writer.append(&updates(1)[0], 1).unwrap();
    drop(writer);
    assert_eq!(logs(&folder), ["sym2026.11.21"]);
}

#[test]
fn what_a_roll_left_that_was_killed_is_in_nobodys_way() {
    let folder = Folder::new();
    let mut writer = opened(&folder);
    std::fs::write(folder.0.join("sym.next"), [0xff, 1, 0]).unwrap();
    assert!(writer.roll(next(), |_| Ok(())).unwrap().created);
    assert_eq!(logs(&folder), ["sym2026.11.21", "sym2026.11.22"]);
}

#[test]
fn a_log_that_another_process_made_meanwhile_is_not_replaced() {
    let folder = Folder::new();
    let mut writer = opened(&folder);
    let log = log_path(&folder.0, "sym", next());
    let error = writer
        .roll(next(), |_| {
            std::fs::write(&log, "of another one").unwrap();
            Ok(())
        })
        .unwrap_err();
    assert!(error.to_string().contains("sym2026.11.22"), "{error}");
    assert_eq!(std::fs::read(&log).unwrap(), b"of another one");
    writer.append(&updates(1)[0], 1).unwrap();
}

/// Starts the thread of the first log, and no other one.
struct OneThread(AtomicBool);

impl Spawner for OneThread {
    fn spawn(&self, name: &str, task: Box<dyn Task>) -> io::Result<Box<dyn Running>> {
        match self.0.swap(true, Ordering::Relaxed) {
            true => Err(io::Error::other("no thread left")),
            false => Threads.spawn(name, task),
        }
    }
}

#[test]
fn from_the_name_of_the_next_log_on_nothing_follows_in_this_one() {
    let folder = Folder::new();
    let mut options = folder.options(Durability::Os);
    options.env.spawner = Arc::new(OneThread(AtomicBool::new(false)));
    let (mut writer, _) = LogWriter::open(options, DAY).unwrap();
    writer.append(&updates(1)[0], 1).unwrap();
    assert!(writer.roll(next(), |_| Ok(())).is_err());
    assert!(writer.append(&updates(1)[0], 1).unwrap_err().to_string().contains("2026-11-22"));
    assert_eq!(logs(&folder), ["sym2026.11.21", "sym2026.11.22"]);
}
