//! A log on a network file system: appends must not wait for hanging writes, and a lost lock ends the log.

use super::faulty::{Call, Faulty};
use super::support::*;
use crate::config::Durability;
use crate::env::task::Threads;
use crate::env::{Env, LogFile};
use crate::log::appender::{Appender, Mode};
use crate::log::fence::Fence;
use crate::log::lock::WriterLock;
use crate::log::{LogError, Mark, Waker};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

const RECORD: &[u8] = b"0123456789";
/// Limit of the bytes queued for writing.
const MAX_BYTES: usize = 25;

/// A file whose writes block until the gate opens.
#[derive(Default)]
struct Gated {
    file: Faulty,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl LogFile for Gated {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset_bytes)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize> {
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        self.file.write_at(bytes, offset_bytes)
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.file.truncate(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }
}

fn appender(file: Arc<dyn LogFile>, durability: Durability, waker: Option<Waker>) -> Appender {
    let mode = Mode { durability, is_shared: true, buffer_most_bytes: MAX_BYTES };
    Appender::new(&Threads, file, Path::new("log"), Mark::default(), mode, waker).unwrap()
}

fn group(file: Arc<dyn LogFile>) -> Appender {
    appender(file, Durability::Group(Duration::from_millis(1)), None)
}

/// A waker that sends to a channel.
fn waker() -> (Waker, mpsc::Receiver<()>) {
    let (send, receive) = mpsc::channel();
    let send = Mutex::new(send);
    (Arc::new(move || _ = send.lock().unwrap().send(())), receive)
}

#[test]
fn under_group_an_append_does_not_wait_for_a_write_that_hangs() {
    let file = Arc::new(Gated::default());
    let mut log = group(Arc::clone(&file) as _);
    log.append(RECORD, 1).unwrap();
    log.append(RECORD, 1).unwrap();
    assert_eq!((log.tip(), log.written_index(), log.acknowledged_tip()), (2, 0, 0));
    file.open();
    log.sync().unwrap();
    assert_eq!((log.written_index(), log.acknowledged_tip(), file.file.synced_bytes()), (2, 2, 20));
}

#[test]
fn buffered_writes_are_bounded() {
    let file = Arc::new(Gated::default());
    let mut log = group(Arc::clone(&file) as _);
    let (progress, appended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for _ in 0..100 {
            log.append(RECORD, 1).unwrap();
            progress.send(()).unwrap();
        }
        log.sync().unwrap();
        log
    });
    // One batch may be with the sync thread, and two records fit in the queue.
    let held_back = std::iter::from_fn(|| appended.recv_timeout(Duration::from_millis(200)).ok()).count();
    assert!(held_back <= 5, "{held_back} records of 10 bytes in memory, {MAX_BYTES} bytes allowed");
    file.open();
    let log = thread.join().unwrap();
    assert_eq!((log.tip(), log.durable_tip()), (100, 100));
    assert_eq!(file.file.bytes(), RECORD.repeat(100));
}

#[test]
fn a_batch_longer_than_the_limit_is_written_all_the_same() {
    let file = Arc::new(Faulty::default());
    let mut log = group(Arc::clone(&file) as _);
    log.append(&[b'x'; 100], 7).unwrap();
    log.sync().unwrap();
    assert_eq!((log.durable_tip(), file.bytes().len()), (7, 100));
}

#[test]
fn a_write_that_fails_is_taken_back_and_ends_the_log() {
    let file = Arc::new(Faulty::full_after(24));
    let mut log = group(Arc::clone(&file) as _);
    for _ in 0..2 {
        log.append(RECORD, 1).unwrap();
        log.sync().unwrap();
    }
    log.append(RECORD, 1).unwrap();
    assert!(matches!(log.sync(), Err(LogError::Poisoned { .. })));
    assert_eq!((log.acknowledged_tip(), file.bytes()), (2, RECORD.repeat(2)));
    log.append(RECORD, 1).unwrap_err();
}

#[test]
fn an_input_output_error_says_that_the_log_is_lost() {
    for durability in [Durability::Group(Duration::from_millis(1)), Durability::Each, Durability::Os] {
        let mut log = appender(Arc::new(Faulty::failing(Call::Sync, 0)), durability, None);
        let _ = log.append(RECORD, 1);
        let _ = log.sync();
        assert!(log.check().unwrap_err().is_lost(), "{durability:?}");
        assert!(log.append(RECORD, 1).unwrap_err().is_lost(), "{durability:?}");
    }
}

#[test]
fn under_os_the_log_is_synced_in_the_background() {
    let file = Arc::new(Faulty::default());
    let (waker, wakes) = waker();
    let mut log = appender(Arc::clone(&file) as _, Durability::Os, Some(waker));
    log.append(RECORD, 1).unwrap();
    assert_eq!((log.written_index(), log.acknowledged_tip()), (1, 1));
    wakes.recv_timeout(Duration::from_secs(20)).expect("a sync");
    assert_eq!(log.durable_tip(), 1);
}

#[test]
fn a_writer_detects_that_another_has_taken_the_lock() {
    let folder = Folder::new();
    let env = Env::system();
    let take = || {
        let file = WriterLock::open_file(&*env.disk, &folder.0, "sym")?;
        WriterLock::take(file, &env.disk, &folder.0, "sym", None, None)
    };
    let (first, _) = take().unwrap();
    let (path, own) = (first.path().to_path_buf(), first.holder().clone());
    let (told, wakes) = waker();
    let fence = Fence::start(&env, path, own, Some(told)).unwrap();
    assert_eq!(fence.successor(), None);
    drop(first);
    let (second, _) = take().unwrap();
    wakes.recv_timeout(Duration::from_secs(20)).expect("the fence looks again and again");
    let text = fence.successor().expect("a successor");
    assert!(text.contains(&format!("epoch {}", second.epoch())), "{text}");
}
