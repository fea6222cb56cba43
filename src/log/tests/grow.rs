//! Reading a log that grows, shrinks, is replaced, or does not exist yet.

use super::faulty::{Faulty, OneFile};
use super::support::*;
use crate::env::Env;
use crate::log::{LogError, LogReader, Next, Reads};
use proto::Limits;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn the_end_of_the_file_is_not_the_end_of_the_log() {
    let folder = Folder::new();
    let updates = updates(6);
    let (mut writer, _) = folder.open();
    let mut reader = reader(&folder.log());
    assert!(matches!(reader.next_chunk(1 << 20, u64::MAX), Ok(Next::NotYet)));
    for (index, update) in updates.iter().enumerate() {
        writer.append(update, 1).unwrap();
        assert_eq!(rest(&mut reader), [(index as u64, update.clone())]);
    }
}

#[test]
fn a_record_that_is_being_written_is_waited_for() {
    let folder = Folder::new();
    let update = update("trade", 1, 2000);
    let path = folder.with(&[]);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let mut reader = reader(&path);
    for part in update.chunks(5000) {
        assert!(matches!(reader.next_chunk(1 << 20, u64::MAX), Ok(Next::NotYet)));
        file.write_all(part).unwrap();
    }
    assert_eq!(rest(&mut reader), [(0, update)]);
}

#[test]
fn a_reader_stops_at_the_announced_tip() {
    let folder = Folder::new();
    let path = folder.with(&updates(10));
    let mut reader = reader(&path);
    let Ok(Next::Chunk(chunk)) = reader.next_chunk(1 << 20, 4) else { panic!("no chunk") };
    assert_eq!((chunk.first_index, chunk.last_index()), (0, 4));
    assert!(matches!(reader.next_chunk(1 << 20, 4), Ok(Next::NotYet)));
    assert_eq!(rest(&mut reader).len(), 6);
}

#[test]
fn chunks_have_about_the_requested_length() {
    let folder = Folder::new();
    let path = folder.with(&updates(200));
    let mut reader = reader(&path);
    let mut next = 0;
    while let Next::Chunk(chunk) = reader.next_chunk(2000, u64::MAX).unwrap() {
        assert_eq!(chunk.first_index, next);
        assert!(chunk.bytes.len() <= 2000 || chunk.ends.len() == 1);
        next = chunk.last_index();
    }
    assert_eq!(next, 200);
}

#[test]
fn a_replay_waits_for_updates_that_another_thread_writes() {
    let folder = Folder::new();
    let updates = updates(300);
    let (mut writer, _) = folder.open();
    let path = folder.log();
    let written = updates.clone();
    let thread = std::thread::spawn(move || {
        for update in &written {
            writer.append(update, 1).unwrap();
        }
        writer
    });
    let mut got = Vec::new();
    let end = reader(&path).replay(100..300, 1000, soon(), |chunk| {
        got.extend(chunk.iter().map(|(_, bytes)| bytes.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(end.unwrap(), 300);
    assert_eq!(got, updates[100..]);
    thread.join().unwrap();
}

#[test]
fn a_replay_can_be_broken_off_and_says_where() {
    let folder = Folder::new();
    let path = folder.with(&updates(100));
    let mut reader = reader(&path);
    let mut taken = 0;
    let end = reader.replay(10..100, 500, soon(), |chunk| {
        taken += chunk.ends.len() as u64;
        if taken > 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(end.unwrap(), 10 + taken);
    assert_eq!(rest(&mut reader).first().map(|(index, _)| *index), Some(10 + taken));
}

#[test]
fn an_announced_tip_that_does_not_come_is_an_error_with_both_numbers() {
    let folder = Folder::new();
    let path = folder.with(&updates(5));
    let error = reader(&path).replay(0..9, 1000, Instant::now(), |_| ControlFlow::Continue(())).unwrap_err();
    let LogError::NotReached { wanted_index: 9, have_index: 5, .. } = error else { panic!("{error}") };
}

#[test]
fn a_log_announced_before_it_is_there_is_waited_for() {
    let folder = Folder::new();
    let path = folder.log();
    let open =
        |path: &Path, by| LogReader::open_until(&Env::system(), path, Limits::default(), CHUNK, Reads::Fresh, by);
    let missing = open(&path, Instant::now() + Duration::from_millis(20));
    assert!(matches!(missing, Err(LogError::Io { .. })));
    let of_thread = path.clone();
    let thread = std::thread::spawn(move || open(&of_thread, soon()).map(drop));
    let (writer, _) = folder.open();
    thread.join().unwrap().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_log_that_shrinks_is_an_error() {
    let folder = Folder::new();
    let path = folder.with(&updates(50));
    let mut reader = reader(&path);
    rest(&mut reader);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    assert!(matches!(reader.next_chunk(1000, u64::MAX), Err(LogError::Shrunk { now_bytes: 100, .. })));
    assert!(matches!(reader.reopen_until(60, soon()), Err(LogError::Shrunk { .. })));
}

#[test]
fn a_log_that_is_replaced_is_an_error() {
    let folder = Folder::new();
    let path = folder.with(&updates(5));
    let mut reader = reader(&path);
    rest(&mut reader);
    let copy = folder.0.join("copy");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::rename(&copy, &path).unwrap();
    assert!(matches!(reader.reopen_until(6, soon()), Err(LogError::Replaced { .. })));
}

#[test]
fn a_log_of_the_same_inode_number_on_another_device_is_an_error() {
    let folder = Folder::new();
    let bytes = std::fs::read(folder.with(&updates(5))).unwrap();
    let file = Arc::new(Faulty::on_device(1, bytes));
    let env = Env { disk: Arc::new(OneFile(Arc::clone(&file))), ..Env::system() };
    let mut reader = LogReader::open(&env, &folder.log(), Limits::default(), CHUNK).unwrap();
    rest(&mut reader);
    let ended = Instant::now();
    let same = reader.reopen_until(6, ended);
    file.move_to(2);
    let other = reader.reopen_until(6, ended);
    assert!(matches!(same, Err(LogError::NotReached { .. })), "{same:?}");
    assert!(matches!(other, Err(LogError::Replaced { .. })), "{other:?}");
}

#[test]
fn a_record_longer_than_the_limit_is_rejected() {
    let folder = Folder::new();
    let path = folder.with(&[update("trade", 0, 10), update("trade", 0, 5000)]);
    let limits = Limits { max_message_bytes: 10_000, ..Limits::default() };
    let mut reader = LogReader::open(&Env::system(), &path, limits, CHUNK).unwrap();
    assert!(matches!(reader.next_chunk(1 << 20, u64::MAX), Ok(Next::Chunk(_))));
    assert!(matches!(reader.next_chunk(1 << 20, u64::MAX), Err(LogError::Damaged { .. })));
}
