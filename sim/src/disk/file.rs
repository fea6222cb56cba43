//! A file of the simulated disk.

use super::{Change, EIO, Storage};
use elastick::env::LogFile;
use elastick::sys::fs::Place;
use std::fs::TryLockError;
use std::io;

/// A file opened by one process on one host.
pub(super) struct SimFile {
    pub storage: Storage,
    pub inode: u64,
    pub host: u32,
    pub process: u32,
    pub token: u64,
    /// Reads bypass this host's cache.
    pub fresh: bool,
}

impl SimFile {
    fn change(&self, change: Change) {
        let mut state = self.storage.lock();
        if let Some(seen) = state.given_up.get_mut(&self.process).and_then(|files| files.get_mut(&self.inode)) {
            return change.apply(seen);
        }
        if let Some(inode) = state.inodes.get_mut(&self.inode) {
            change.apply(&mut inode.bytes);
            match (inode.unsynced.last_mut(), change) {
                // The pieces of a short write share a page, so no disk persists one without the other.
                (Some(Change::Write { offset, bytes }), Change::Write { offset: at, bytes: more })
                    if inode.taken_short == Some(at) && offset.saturating_add(bytes.len()) == at =>
                {
                    bytes.extend_from_slice(&more);
                }
                (_, change) => inode.unsynced.push(change),
            }
            inode.taken_short = None;
        }
    }
}

impl LogFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        let state = self.storage.lock();
        if !state.is_writer(self.host) && state.hangs.get(&self.host).is_some_and(|until_ns| *until_ns > state.now_ns) {
            // A production thread would block here; the simulation retries.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // A read that bypasses the cache sees the server's content, even in a process whose lock was revoked.
        let process = if self.fresh { 0 } else { self.process };
        let mut bytes = state.view(self.inode, self.host, process);
        if !state.is_writer(self.host)
            && !self.fresh
            && !state.given_up.contains_key(&self.process)
            && let Some((seen, _)) = state.inodes.get(&self.inode).and_then(|inode| inode.seen.get(&self.host))
        {
            bytes = bytes.get(..*seen).unwrap_or(bytes);
        }
        let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let found = bytes.get(from..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), found.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<usize> {
        let given_bytes = bytes.len();
        let mut bytes = bytes;
        {
            let mut guard = self.storage.lock();
            let state = &mut *guard;
            if state.faults.full {
                state.counts.full = state.counts.full.saturating_add(1);
                // A disk that fills up accepts part of the write first.
                let part = usize::try_from(state.rng.below(bytes.len() as u64 + 1)).unwrap_or(0);
                if part == 0 || state.rng.percent(50) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                bytes = bytes.get(..part).unwrap_or_default();
            }
        }
        let offset = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
        if let Some(inode) = self.storage.lock().inodes.get_mut(&self.inode).filter(|_| bytes.len() < given_bytes) {
            inode.taken_short = Some(offset.saturating_add(bytes.len()));
        }
        Ok(bytes.len())
    }

    fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.change(Change::Truncate(usize::try_from(size_bytes).unwrap_or(usize::MAX)));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut guard = self.storage.lock();
        let state = &mut *guard;
        if state.given_up.contains_key(&self.process) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let fails = std::mem::take(&mut state.faults.fail_sync);
        let Some(inode) = state.inodes.get_mut(&self.inode) else { return Ok(()) };
        let unsynced = std::mem::take(&mut inode.unsynced);
        if fails {
            state.counts.failed_syncs = state.counts.failed_syncs.saturating_add(1);
            // The kernel has dropped the dirty pages: a later sync returns success and proves nothing.
            return Err(io::Error::from_raw_os_error(28));
        }
        unsynced.iter().for_each(|change| change.apply(&mut inode.durable));
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        let state = self.storage.lock();
        let process = if self.fresh { 0 } else { self.process };
        let size = state.view(self.inode, self.host, process).len();
        let seen = state.inodes.get(&self.inode).and_then(|inode| inode.seen.get(&self.host)).map(|(size, _)| *size);
        let cached = state.is_writer(self.host) || state.given_up.contains_key(&self.process);
        let size = if cached { size } else { seen.map_or(size, |seen| seen.min(size)) };
        Ok(size as u64)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        let mut state = self.storage.lock();
        if state.given_up.contains_key(&self.process) {
            return Err(TryLockError::Error(io::Error::from_raw_os_error(EIO)));
        }
        let Some(inode) = state.inodes.get_mut(&self.inode) else { return Ok(()) };
        match inode.lock {
            Some(holder) if holder != self.token => Err(TryLockError::WouldBlock),
            _ => {
                inode.lock = Some(self.token);
                Ok(())
            }
        }
    }

    fn is_shared(&self) -> bool {
        self.storage.lock().shared
    }

    fn identity(&self) -> io::Result<Place> {
        Ok(Place { device: 0, inode: self.inode })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.storage.lock();
        if let Some(inode) = state.inodes.get_mut(&self.inode)
            && inode.lock == Some(self.token)
        {
            inode.lock = None;
        }
    }
}
