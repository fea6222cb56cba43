//! An in-memory file that fails at a chosen call and records what was synced.

use crate::env::{Disk, LogFile, Open, SystemDisk, WriterProcess};
use crate::sys::fs::Place;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Write,
    Sync,
    Truncate,
}

#[derive(Default)]
struct Inside {
    bytes: Vec<u8>,
    /// Length at the last sync.
    synced_bytes: usize,
    calls: usize,
    /// Fails the call with this number (from 0) and all later ones of that kind.
    fail_from: Option<(Call, usize)>,
    /// Maximum number of bytes per write.
    most_bytes: Option<usize>,
    /// Bytes until the disk is full.
    room_bytes: Option<usize>,
    device: u64,
}

#[derive(Default)]
pub struct Faulty(Mutex<Inside>);

impl Faulty {
    pub fn failing(call: Call, at: usize) -> Faulty {
        Faulty(Mutex::new(Inside { fail_from: Some((call, at)), ..Inside::default() }))
    }

    pub fn short(most_bytes: usize) -> Faulty {
        Faulty(Mutex::new(Inside { most_bytes: Some(most_bytes), ..Inside::default() }))
    }

    pub fn full_after(room_bytes: usize) -> Faulty {
        Faulty(Mutex::new(Inside { room_bytes: Some(room_bytes), most_bytes: Some(7), ..Inside::default() }))
    }

    /// Frees space on a full disk.
    pub fn make_room(&self) {
        self.0.lock().unwrap().room_bytes = None;
    }

    /// Changes a byte that was written.
    pub fn change(&self, at: usize) {
        self.0.lock().unwrap().bytes[at] ^= 1;
    }

    /// Appends bytes, as another program would.
    pub fn grow(&self, bytes: &[u8]) {
        self.0.lock().unwrap().bytes.extend_from_slice(bytes);
    }

    /// A file with the same inode number on every device.
    pub fn on_device(device: u64, bytes: Vec<u8>) -> Faulty {
        Faulty(Mutex::new(Inside { device, bytes, ..Inside::default() }))
    }

    /// Moves the file to another device.
    pub fn move_to(&self, device: u64) {
        self.0.lock().unwrap().device = device;
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    pub fn synced_bytes(&self) -> usize {
        self.0.lock().unwrap().synced_bytes
    }

    fn call(&self, call: Call) -> io::Result<std::sync::MutexGuard<'_, Inside>> {
        let mut inside = self.0.lock().unwrap();
        if let Some((kind, at)) = inside.fail_from
            && kind == call
        {
            inside.calls += 1;
            if inside.calls > at {
                return Err(io::Error::from_raw_os_error(5));
            }
        }
        Ok(inside)
    }
}

impl LogFile for Faulty {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        let inside = self.0.lock().unwrap();
        let rest = inside.bytes.get(offset_bytes as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize> {
        let mut inside = self.call(Call::Write)?;
        let offset = offset_bytes as usize;
        let mut count = bytes.len().min(inside.most_bytes.unwrap_or(usize::MAX));
        if let Some(room) = inside.room_bytes {
            count = count.min(room.saturating_sub(offset));
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        if inside.bytes.len() < offset + count {
            inside.bytes.resize(offset + count, 0);
        }
        inside.bytes[offset..offset + count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.call(Call::Truncate)?.bytes.truncate(size_bytes as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inside = self.call(Call::Sync)?;
        inside.synced_bytes = inside.bytes.len();
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn identity(&self) -> io::Result<Place> {
        Ok(Place { device: self.0.lock().unwrap().device, inode: 1 })
    }
}

/// A disk on which every path leads to one file.
pub struct OneFile(pub Arc<Faulty>);

impl Disk for OneFile {
    fn open(&self, _: &Path, _: Open) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::clone(&self.0) as _)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename_new(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory_of(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn who(&self) -> WriterProcess {
        WriterProcess { pid: 1, host: "a".to_string(), boot: "1".to_string() }
    }
}

/// The system's disk, but that one path leads to this file.
pub struct OnePath(pub PathBuf, pub Arc<Faulty>);

impl Disk for OnePath {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
        match path == self.0 {
            true => Ok(Arc::clone(&self.1) as _),
            false => SystemDisk.open(path, how),
        }
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        SystemDisk.create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemDisk.remove(path)
    }

    fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        SystemDisk.sync_directory_of(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(SystemDisk.list(directory)?.into_iter().chain([self.0.clone()]).collect())
    }

    fn who(&self) -> WriterProcess {
        SystemDisk.who()
    }
}
