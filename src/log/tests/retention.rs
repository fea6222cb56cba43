//! The days of a directory, and their deletion.

use super::support::*;
use crate::env::SystemDisk;
use crate::log::days::{DayState, days};
use crate::log::retention::{Fate, delete, fates};
use crate::log::side_path;
use jiff::civil::Date;
use std::fs;

/// Writes logs of the first days of November.
fn write(folder: &Folder, last: i8) {
    for at in 1..=last {
        let options = || folder.options(crate::config::Durability::Os);
        let (mut writer, _) = folder.open_with(&options, Date::constant(2026, 11, at)).unwrap();
        updates(3).iter().for_each(|update| writer.append(update, 1).unwrap());
        writer.close().unwrap();
    }
}

fn states(folder: &Folder) -> Vec<DayState> {
    days(&SystemDisk, &folder.0, Some("sym")).unwrap().into_iter().map(|day| day.state).collect()
}

#[test]
fn a_closed_log_is_whole_and_anything_else_is_named() {
    let folder = Folder::new();
    write(&folder, 5);
    assert_eq!(states(&folder), vec![DayState::Whole; 5]);
    let log = |at| crate::log::log_path(&folder.0, "sym", Date::constant(2026, 11, at));
    fs::remove_file(side_path(&log(1))).unwrap();
    let longer = [fs::read(log(2)).unwrap(), vec![0; 5]].concat();
    fs::write(log(2), longer).unwrap();
    let bytes = fs::read(log(3)).unwrap();
    fs::write(log(3), &bytes[..bytes.len() - 1]).unwrap();
    fs::write(format!("{}.cut-100", log(4).display()), "x").unwrap();
    fs::remove_file(log(5)).unwrap();
    let found =
        [DayState::Unchecked, DayState::Unfinished(5), DayState::Shortened, DayState::Repaired, DayState::Missing];
    assert_eq!(states(&folder), found);
}

#[test]
fn other_files_are_no_days() {
    let folder = Folder::new();
    write(&folder, 1);
    fs::create_dir(folder.0.join("2026.10.01")).unwrap();
    fs::create_dir(folder.0.join("hdb2026.10.01")).unwrap();
    for name in ["sym2026.10.01.gz", "sym2026.13.01", "notes", "sym.lock", "db2026.10.01"] {
        fs::write(folder.0.join(name), "text").unwrap();
    }
    let found = days(&SystemDisk, &folder.0, None).unwrap();
    assert_eq!(found.iter().map(|day| day.date.day()).collect::<Vec<_>>(), [1]);
    assert_eq!(found[0].records, Some(3));
}

#[test]
fn a_day_goes_with_its_side_files_and_nothing_else_does() {
    let folder = Folder::new();
    write(&folder, 3);
    let beside = folder.0.join("sym2026.11.01.queue");
    fs::write(&beside, "queue").unwrap();
    let other = folder.0.join("sym2026.11.01.gz");
    fs::write(&other, "archive").unwrap();
    let found = days(&SystemDisk, &folder.0, Some("sym")).unwrap();
    let decided = fates(&found, Date::constant(2026, 11, 3), 1, false);
    assert_eq!(decided[0], Fate::Delete);
    delete(&SystemDisk, &found[0]).unwrap();
    assert!(other.exists() && !beside.exists() && !found[0].log.exists() && !side_path(&found[0].log).exists());
    assert_eq!(days(&SystemDisk, &folder.0, Some("sym")).unwrap().len(), 2);
}

#[test]
fn what_an_interrupted_deletion_leaves_is_deleted_by_the_next() {
    let folder = Folder::new();
    write(&folder, 3);
    fs::remove_file(crate::log::log_path(&folder.0, "sym", Date::constant(2026, 11, 1))).unwrap();
    let found = days(&SystemDisk, &folder.0, Some("sym")).unwrap();
    assert_eq!(fates(&found, Date::constant(2026, 11, 3), 1, false)[0], Fate::Delete);
}
