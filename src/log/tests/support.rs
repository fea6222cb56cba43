//! Temporary directories, small updates, and readers that collect everything.

use crate::config::{Damage, Durability, RequiredMount};
use crate::env::Env;
use crate::log::{LogError, LogOptions, LogReader, LogWriter, Next, OpenReport};
use jiff::civil::Date;
use proto::Limits;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const DAY: Date = Date::constant(2026, 11, 21);
pub const CHUNK: usize = 4096;

/// A directory that is removed with its contents on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("elastick-log-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    pub fn log(&self) -> PathBuf {
        crate::log::log_path(&self.0, "sym", DAY)
    }

    pub fn lock(&self) -> PathBuf {
        crate::log::name::lock_path(&self.0, "sym")
    }

    pub fn options(&self, durability: Durability) -> LogOptions {
        LogOptions {
            env: Env::system(),
            dir: self.0.clone(),
            src: "sym".to_string(),
            durability,
            damage: Damage::Stop,
            mount: RequiredMount::Any,
            epoch: None,
            address: None,
            limits: Limits::default(),
            chunk_bytes: CHUNK,
            buffer_bytes: 1 << 16,
            waker: None,
        }
    }

    pub fn open(&self) -> (LogWriter, OpenReport) {
        self.try_open(Damage::Stop).unwrap()
    }

    pub fn try_open(&self, damage: Damage) -> Result<(LogWriter, OpenReport), LogError> {
        self.open_with(&|| LogOptions { damage, ..self.options(Durability::Os) }, DAY)
    }

    /// Opens a log, whatever other tests do meanwhile: a child that they start holds a copy of every descriptor, and of the lock of a writer that
    /// is closed meanwhile, until it executes its program.
    pub fn open_with(&self, options: &dyn Fn() -> LogOptions, day: Date) -> Result<(LogWriter, OpenReport), LogError> {
        let deadline = soon();
        loop {
            match LogWriter::open(options(), day) {
                Err(LogError::Held { .. }) if !self.has_writer() && Instant::now() < deadline => {
                    std::thread::yield_now();
                }
                other => return other,
            }
        }
    }

    /// Whether this process has the lock file open, as each writer has.
    fn has_writer(&self) -> bool {
        let lock = self.lock();
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        open.flatten().any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|path| path == lock))
    }

    /// Writes a log of these updates and closes it in order.
    pub fn with(&self, updates: &[Vec<u8>]) -> PathBuf {
        let (mut writer, _) = self.open();
        for update in updates {
            writer.append(update, 1).unwrap();
        }
        writer.close().unwrap();
        self.log()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An update of `rows` rows: a long column counting from `first`, and a symbol column.
pub fn update(table: &str, first: i64, rows: usize) -> Vec<u8> {
    let mut out = Vec::new();
    proto::log::write_record_head(table.as_bytes(), 2, &mut out);
    let count = i32::try_from(rows).unwrap().to_le_bytes();
    out.extend_from_slice(&[7, 0]);
    out.extend_from_slice(&count);
    for row in 0..rows {
        out.extend_from_slice(&(first + row as i64).to_le_bytes());
    }
    out.extend_from_slice(&[11, 0]);
    out.extend_from_slice(&count);
    for row in 0..rows {
        out.extend_from_slice(format!("S{}\0", (first as usize + row) % 7).as_bytes());
    }
    out
}

/// Updates that differ in table and length.
pub fn updates(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| update(["trade", "quote"][i % 2], i as i64 * 1000, 1 + i * 7 % 40)).collect()
}

pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub fn reader(path: &Path) -> LogReader {
    LogReader::open(&Env::system(), path, Limits::default(), CHUNK).unwrap()
}

/// All updates from the reader's position to the end, with their indices.
pub fn rest(reader: &mut LogReader) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    while let Next::Chunk(chunk) = reader.next_chunk(3000, u64::MAX).unwrap() {
        all.extend(chunk.iter().map(|(index, bytes)| (index, bytes.to_vec())));
    }
    all
}

/// All updates of a log.
pub fn all(path: &Path) -> Vec<Vec<u8>> {
    rest(&mut reader(path)).into_iter().map(|(_, bytes)| bytes).collect()
}

/// Flips one bit of a file.
pub fn flip(path: &Path, byte: usize, bit: u8) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[byte] ^= 1 << bit;
    std::fs::write(path, bytes).unwrap();
}
