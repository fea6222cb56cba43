//! A log that other programs remove, move, replace or truncate while it is written.

use super::support::{CHUNK, Folder, rest, updates};
use crate::config::Durability;
use crate::env::{Env, LogFile};
use crate::log::watch::{Harm, Look};
use crate::log::{LogError, LogReader, LogWriter};
use proto::Limits;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

/// A file with a log head and some bytes, and the check that watches it.
struct Scene {
    folder: Folder,
    file: File,
    look: Look,
    written: u64,
}

impl Scene {
    fn new(is_shared: bool) -> Scene {
        let folder = Folder::new();
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(folder.log()).unwrap();
        let look = Look::new(&file, &folder.log(), is_shared).unwrap();
        let mut scene = Scene { folder, file, look, written: 0 };
        scene.write(20_000);
        assert_eq!(scene.look(), None);
        scene
    }

    fn write(&mut self, bytes: usize) {
        self.written += LogFile::write_at(&self.file, &vec![7; bytes], self.written).unwrap() as u64;
    }

    fn look(&mut self) -> Option<Harm> {
        self.look.look(self.written)
    }

    fn elsewhere(&mut self) -> String {
        match self.look() {
            Some(Harm::Elsewhere(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn is_cut(&mut self) -> bool {
        matches!(self.look(), Some(Harm::Cut(_)))
    }

    fn cut_to(&self, bytes: u64) {
        OpenOptions::new().write(true).open(self.folder.log()).unwrap().set_len(bytes).unwrap();
    }
}

#[test]
fn a_log_that_is_removed_is_named_by_the_descriptor_that_has_it() {
    let mut scene = Scene::new(false);
    fs::remove_file(scene.folder.log()).unwrap();
    scene.write(100);
    let reason = scene.elsewhere();
    assert!(
        reason.contains("only this process") && reason.contains(&format!("/proc/{}/fd/", std::process::id())),
        "{reason}"
    );
    let number = scene.file.descriptor().unwrap().number;
    assert_eq!(fs::read(format!("/proc/self/fd/{number}")).unwrap().len() as u64, scene.written);
}

#[test]
fn a_log_that_is_moved_is_named_by_its_new_path_until_it_is_back() {
    let mut scene = Scene::new(false);
    let (log, moved) = (scene.folder.log(), scene.folder.0.join("moved"));
    fs::rename(&log, &moved).unwrap();
    let reason = scene.elsewhere();
    assert!(reason.contains("moved to") && reason.contains(&*moved.to_string_lossy()), "{reason}");
    fs::write(&log, b"another").unwrap();
    assert!(scene.elsewhere().contains("another file"), "replaced");
    fs::rename(&moved, &log).unwrap();
    assert_eq!(scene.look(), None);
}

#[test]
fn a_truncated_log_is_detected_by_its_size() {
    let mut scene = Scene::new(false);
    scene.cut_to(19_999);
    assert!(scene.is_cut());
}

#[test]
fn a_truncated_and_overwritten_log_is_detected_by_its_contents() {
    for bytes in [0, 10, 17_000, 19_999] {
        let mut scene = Scene::new(false);
        scene.cut_to(bytes);
        scene.write(50_000);
        assert_eq!(fs::metadata(scene.folder.log()).unwrap().len(), scene.written);
        assert!(scene.is_cut(), "cut to {bytes}");
    }
}

#[test]
fn a_log_that_is_moved_and_then_cut_is_cut() {
    let mut scene = Scene::new(false);
    let moved = scene.folder.0.join("moved");
    fs::rename(scene.folder.log(), &moved).unwrap();
    OpenOptions::new().write(true).open(&moved).unwrap().set_len(8).unwrap();
    assert!(scene.is_cut());
}

#[test]
fn on_a_network_file_system_a_cut_is_seen_twice() {
    let mut scene = Scene::new(true);
    scene.cut_to(5);
    assert_eq!((scene.look(), scene.is_cut()), (None, true));
}

fn write(writer: &mut LogWriter, count: usize) {
    updates(count).iter().for_each(|update| writer.append(update, 1).unwrap());
}

/// Appends until the watch thread has detected the truncation; returns the error.
fn refusal(writer: &mut LogWriter) -> LogError {
    let by = Instant::now() + Duration::from_secs(20);
    loop {
        match writer.check() {
            Err(error) => return error,
            Ok(()) => assert!(Instant::now() < by, "nobody has noticed"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn nothing_is_accepted_after_a_truncation() {
    for durability in [Durability::None, Durability::Os, Durability::Group(Duration::from_millis(1)), Durability::Each]
    {
        let folder = Folder::new();
        let (mut writer, _) = LogWriter::open(folder.options(durability), super::support::DAY).unwrap();
        write(&mut writer, 40);
        writer.sync().unwrap();
        File::create(folder.log()).unwrap();
        let error = refusal(&mut writer);
        assert!(
            matches!(error, LogError::Cut { .. }) && error.to_string().contains("truncated"),
            "{durability:?}: {error}"
        );
        assert!(writer.append(&updates(1)[0], 1).is_err() && writer.sync().is_err() && writer.tip() == 40);
        assert!(writer.close().is_err());
        assert_eq!(fs::metadata(folder.log()).unwrap().len(), 0, "{durability:?}");
    }
}

/// All records that a reader of the writer's descriptors returns after seeking by the side file.
fn read_through(writer: &LogWriter, from: u64) -> Vec<Vec<u8>> {
    let mut reader = LogReader::of(&Env::system(), &writer.source(), Limits::default(), CHUNK).unwrap();
    reader.seek(from).unwrap();
    rest(&mut reader).into_iter().map(|(_, bytes)| bytes).collect()
}

#[test]
fn a_log_without_a_path_is_read_through_its_writer() {
    let remove: fn(&Path) = |log| fs::remove_file(log).unwrap();
    let remove_all: fn(&Path) = |log| fs::remove_dir_all(log.parent().unwrap()).unwrap();
    let replace: fn(&Path) = |log| {
        fs::remove_file(log).unwrap();
        fs::write(log, b"another file").unwrap();
    };
    for spoil in [remove, remove_all, replace] {
        let folder = Folder::new();
        let (mut writer, _) = folder.open();
        write(&mut writer, 30);
        spoil(&folder.log());
        write(&mut writer, 30);
        assert_eq!(read_through(&writer, 0), [updates(30), updates(30)].concat());
        assert_eq!(read_through(&writer, 45), updates(30).split_off(15));
        writer.check().unwrap();
    }
}

#[test]
fn a_start_says_how_many_updates_the_log_has_lost() {
    let cut: fn(&Path, u64) = |log, bytes| OpenOptions::new().write(true).open(log).unwrap().set_len(bytes).unwrap();
    let remove: fn(&Path, u64) = |log, _| fs::remove_file(log).unwrap();
    for (spoil, bytes) in [(cut, 0), (cut, 8), (cut, 2000), (remove, 0)] {
        let folder = Folder::new();
        let log = folder.with(&updates(40));
        spoil(&log, bytes);
        let (writer, report) = folder.open();
        assert_eq!((report.updates + report.missing, writer.tip()), (40, report.updates));
        assert!(report.missing > 0 && report.to_string().contains("are missing"), "{report}");
        writer.close().unwrap();
        let (_, report) = folder.open();
        assert_eq!(report.missing, 0, "it is said once");
    }
}

#[test]
fn a_torn_end_and_another_logs_side_file_miss_nothing() {
    let folder = Folder::new();
    let (mut writer, _) = folder.open();
    write(&mut writer, 5);
    drop(writer);
    let log = folder.log();
    OpenOptions::new()
        .append(true)
        .open(&log)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &[0, 0, 3, 0]))
        .unwrap();
    assert_eq!(folder.open().1.missing, 0);
    let other = Folder::new();
    let foreign = other.with(&updates(40));
    fs::remove_file(&log).unwrap();
    fs::copy(crate::log::side_path(&foreign), crate::log::side_path(&log)).unwrap();
    let (_, report) = folder.open();
    assert_eq!((report.updates, report.missing), (0, 0));
}
