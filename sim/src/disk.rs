//! The simulated disk under the log, as each host sees it. Data that is not synced is in its writer's page cache; a power cut loses it, or
//! part of it, or leaves a hole.
//!
//! A *local* disk is visible to its own host alone. A *shared* disk is a file server, which has only synced data: the writer's host sees
//! its own cache, other hosts see the server, and for some time an old size or a missing name.

mod file;

use self::file::SimFile;
use super::mounts::Mounts;
use super::rng::Rng;
use elastick::env::{Disk, LogFile, Open, WriterProcess};
use elastick::log::date_of;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Host of the tickerplant and its disk.
pub const TICK_HOST: u32 = 0;
/// How long another host may see an old size or a missing name.
const STALE_NS: u64 = 3_000_000_000;
/// Error number of a write that the server rejects.
const EIO: i32 = 5;
/// Error number of an open when the process has too many files open.
const EMFILE: i32 = 24;

/// A change of a file's content.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::Truncate(size) => to.resize(*size, 0),
            Change::Write { offset, bytes } => {
                let end = offset.saturating_add(bytes.len());
                if to.len() < end {
                    to.resize(end, 0);
                }
                if let Some(place) = to.get_mut(*offset..end) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }
}

/// A file: its visible and its durable content.
#[derive(Debug, Default)]
struct Inode {
    /// Content as the writer's host sees it.
    bytes: Vec<u8>,
    /// Content that survives a power cut; on a shared disk, that of the server.
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// End of the last write if it was a short write.
    taken_short: Option<usize>,
    lock: Option<u64>,
    /// Size as a host saw it, and when.
    seen: BTreeMap<u32, (usize, u64)>,
}

/// Active faults of the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFaults {
    pub full: bool,
    /// The next sync of the log fails.
    pub fail_sync: bool,
    /// No file can be opened for reading on the writer's host: too many are open.
    pub no_more_files: bool,
}

/// State of the disk: names, files and active faults.
#[derive(Debug)]
struct State {
    rng: Rng,
    now_ns: u64,
    shared: bool,
    boot: u32,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    inodes: BTreeMap<u64, Inode>,
    /// Names that a host failed to find, with the time.
    missing: BTreeMap<(u32, PathBuf), u64>,
    next: u64,
    faults: DiskFaults,
    /// Time until which a host's file system hangs.
    hangs: BTreeMap<u32, u64>,
    /// Host of the process that may write.
    writer_host: u32,
    /// Processes whose locks the server has revoked, with the content that each still sees of every file.
    given_up: BTreeMap<u32, BTreeMap<u64, Vec<u8>>>,
    counts: DiskCounts,
    /// Hosts that have another volume mounted instead of this disk.
    mounts: Mounts,
}

/// Counts of faults that took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    pub full: u64,
    pub no_more_files: u64,
    pub failed_syncs: u64,
    pub lost_bytes: u64,
    pub torn: u64,
    pub holes: u64,
    pub stale: u64,
    pub other_logs: u64,
}

/// One simulated disk.
#[derive(Clone, Debug)]
pub struct Storage(Arc<Mutex<State>>);

impl Storage {
    pub fn new(rng: Rng, shared: bool) -> Storage {
        Storage(Arc::new(Mutex::new(State {
            rng,
            now_ns: 0,
            shared,
            boot: 1,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            inodes: BTreeMap::new(),
            missing: BTreeMap::new(),
            next: 1,
            faults: DiskFaults::default(),
            hangs: BTreeMap::new(),
            writer_host: TICK_HOST,
            given_up: BTreeMap::new(),
            counts: DiskCounts::default(),
            mounts: Mounts::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_now(&self, now_ns: u64) {
        self.lock().now_ns = now_ns;
    }

    pub fn faults(&self) -> DiskFaults {
        self.lock().faults
    }

    pub fn set_faults(&self, faults: DiskFaults) {
        self.lock().faults = faults;
    }

    /// The server's lease of a process has expired: its locks become free, and its unsynced data never arrives.
    pub fn give_up(&self, process: u32, next_host: u32) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut seen = BTreeMap::new();
        for (number, inode) in &mut state.inodes {
            seen.insert(*number, std::mem::replace(&mut inode.bytes, inode.durable.clone()));
            inode.unsynced.clear();
            inode.lock = None;
        }
        // A process that lost its log earlier has ended, or keeps its own view.
        state.given_up.insert(process, seen);
        state.writer_host = next_host;
    }

    /// Hangs a host's file system until that time.
    pub fn hang(&self, host: u32, until_ns: u64) {
        self.lock().hangs.insert(host, until_ns);
    }

    /// Mounts another volume on a host in place of this disk until that time.
    pub fn mount(&self, host: u32, until_ns: u64, rng: &mut Rng) {
        self.lock().mounts.mount(host, until_ns, rng);
    }

    pub fn hangs_until_ns(&self, host: u32) -> u64 {
        self.lock().hangs.get(&host).copied().unwrap_or(0)
    }

    /// Ends all hangs.
    pub fn wake(&self) {
        self.lock().hangs.clear();
    }

    pub fn counts(&self) -> DiskCounts {
        let state = self.lock();
        DiskCounts { other_logs: state.mounts.opened, ..state.counts }
    }

    /// Returns the disk as a process on a host uses it.
    pub fn of(&self, host: u32, process: u32) -> Arc<dyn Disk> {
        super::mutants::disk::of(HostDisk { storage: self.clone(), host, process })
    }

    /// Returns a file as its writer sees it, from a byte on; for the auditor.
    pub fn read(&self, path: &Path, from: usize) -> Option<Vec<u8>> {
        let state = self.lock();
        let inode = state.inodes.get(state.names.get(path)?)?;
        Some(inode.bytes.get(from..).unwrap_or_default().to_vec())
    }

    /// Returns how many bytes of a file survive any power cut: those before the first unsynced change.
    #[cfg(test)]
    pub fn durable_bytes(&self, path: &Path) -> usize {
        let state = self.lock();
        let Some(inode) = state.names.get(path).and_then(|inode| state.inodes.get(inode)) else { return 0 };
        if state.durable_names.contains_key(path) { inode.durable.len() } else { 0 }
    }

    /// Returns whether a range of a file survives any power cut: a failed sync may have left a hole before later bytes that were synced.
    pub fn is_durable(&self, path: &Path, range: std::ops::Range<usize>) -> bool {
        let state = self.lock();
        let Some(inode) = state.names.get(path).and_then(|inode| state.inodes.get(inode)) else { return false };
        let durable = inode.durable.get(range.clone());
        state.durable_names.contains_key(path) && durable.is_some() && durable == inode.bytes.get(range)
    }

    /// Returns all files; for the auditor.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().names.keys().cloned().collect()
    }

    /// Removes a file of an old day.
    pub fn remove(&self, path: &Path) {
        let mut state = self.lock();
        if let Some(inode) = state.names.remove(path) {
            state.inodes.remove(&inode);
        }
        state.durable_names.remove(path);
    }

    /// Cuts the power of the disk's host. Its processes must have ended before.
    pub fn power_cut(&self) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.boot = state.boot.saturating_add(1);
        let counts = &mut state.counts;
        for inode in state.inodes.values_mut() {
            let unsynced = std::mem::take(&mut inode.unsynced);
            // The kernel had written part of the cache by itself, mostly in order; the last change may be torn.
            let kept = usize::try_from(state.rng.below(unsynced.len() as u64 + 1)).unwrap_or(0);
            let holes = state.rng.one_in(4);
            let before = inode.bytes.len();
            for (at, change) in unsynced.iter().enumerate().take(kept) {
                let last = at.saturating_add(1) == kept;
                match change {
                    Change::Write { offset, bytes } if last && state.rng.percent(60) => {
                        counts.torn = counts.torn.saturating_add(1);
                        let half = usize::try_from(state.rng.below(bytes.len() as u64)).unwrap_or(0);
                        let bytes = bytes.get(..half).unwrap_or_default().to_vec();
                        Change::Write { offset: *offset, bytes }.apply(&mut inode.durable);
                    }
                    Change::Write { .. } if holes && state.rng.one_in(3) => {
                        counts.holes = counts.holes.saturating_add(1);
                    }
                    change => change.apply(&mut inode.durable),
                }
            }
            counts.lost_bytes = counts.lost_bytes.saturating_add(before.saturating_sub(inode.durable.len()) as u64);
            inode.bytes.clone_from(&inode.durable);
            inode.lock = None;
        }
        let mut names = state.durable_names.clone();
        for (name, inode) in &state.names {
            if !names.contains_key(name) && state.rng.percent(50) {
                names.insert(name.clone(), *inode);
            }
        }
        state.durable_names.clone_from(&names);
        state.names = names;
    }
}

/// The disk as one process on one host sees it.
struct HostDisk {
    storage: Storage,
    host: u32,
    process: u32,
}

impl State {
    fn is_writer(&self, host: u32) -> bool {
        host == self.writer_host
    }

    /// Returns a file's bytes as a process on this host sees them.
    fn view(&self, inode: u64, host: u32, process: u32) -> &[u8] {
        if let Some(seen) = self.given_up.get(&process).and_then(|files| files.get(&inode)) {
            return seen;
        }
        let Some(inode) = self.inodes.get(&inode) else { return &[] };
        if self.is_writer(host) { &inode.bytes } else { &inode.durable }
    }
}

impl Disk for HostDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn LogFile>> {
        let mut guard = self.storage.lock();
        let state = &mut *guard;
        let is_writer = state.is_writer(self.host);
        if !is_writer && matches!(how, Open::Read | Open::Fresh) {
            let State { names, inodes, mounts, .. } = state;
            let bytes = |inode| inodes.get(inode).map(|inode: &Inode| inode.durable.as_slice());
            let logs = || {
                let before = names.range(..path.to_path_buf()).rev().find(|(name, _)| date_of(name).is_some());
                (names.get(path).and_then(bytes), before.and_then(|(_, inode)| bytes(inode)))
            };
            if let Some(opened) = mounts.open((self.host, path), state.now_ns, logs) {
                return opened;
            }
        }
        if !is_writer && !state.shared {
            return Err(io::ErrorKind::NotFound.into());
        }
        if is_writer && state.faults.no_more_files && how == Open::Read {
            state.counts.no_more_files = state.counts.no_more_files.saturating_add(1);
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        if state.given_up.contains_key(&self.process) && !matches!(how, Open::Read | Open::Fresh) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let now_ns = state.now_ns;
        if !is_writer && state.hangs.get(&self.host).is_some_and(|until_ns| *until_ns > now_ns) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !is_writer {
            let key = (self.host, path.to_path_buf());
            let stale = state.missing.get(&key).is_some_and(|at| now_ns.saturating_sub(*at) < STALE_NS);
            if stale && state.rng.percent(50) {
                state.counts.stale = state.counts.stale.saturating_add(1);
                return Err(io::ErrorKind::NotFound.into());
            }
            if !state.names.contains_key(path) {
                state.missing.insert(key, now_ns);
            }
        }
        let inode = match (state.names.get(path).copied(), how) {
            (Some(_), Open::New) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(inode), _) => inode,
            (None, Open::Create | Open::New) => {
                if state.faults.full {
                    state.counts.full = state.counts.full.saturating_add(1);
                    return Err(io::ErrorKind::StorageFull.into());
                }
                let inode = state.next;
                state.next = state.next.saturating_add(1);
                state.inodes.insert(inode, Inode::default());
                state.names.insert(path.to_path_buf(), inode);
                if state.shared {
                    // A server makes names durable at once.
                    state.durable_names.insert(path.to_path_buf(), inode);
                }
                inode
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        if !is_writer {
            let size = state.view(inode, self.host, self.process).len();
            let keep_old = state.rng.percent(30);
            if let Some(file) = state.inodes.get_mut(&inode) {
                let old = file.seen.get(&self.host).filter(|(_, at)| now_ns.saturating_sub(*at) < STALE_NS);
                match old {
                    Some((seen, _)) if keep_old && *seen < size => {
                        state.counts.stale = state.counts.stale.saturating_add(1);
                    }
                    _ => _ = file.seen.insert(self.host, (size, now_ns)),
                }
            }
        }
        let token = state.next;
        state.next = state.next.saturating_add(1);
        let fresh = how == Open::Fresh;
        drop(guard);
        let (host, process) = (self.host, self.process);
        Ok(Arc::new(SimFile { storage: self.storage.clone(), inode, host, process, token, fresh }))
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.storage.lock();
        if state.given_up.contains_key(&self.process) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_path_buf(), inode);
        state.durable_names.remove(from);
        state.durable_names.insert(to.to_path_buf(), inode);
        Ok(())
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut guard = self.storage.lock();
        let state = &mut *guard;
        if state.given_up.contains_key(&self.process) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.faults.full {
            state.counts.full = state.counts.full.saturating_add(1);
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_path_buf(), inode);
        if state.shared {
            state.durable_names.remove(from);
            state.durable_names.insert(to.to_path_buf(), inode);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.storage.lock();
        if state.given_up.contains_key(&self.process) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.durable_names.remove(path);
        Ok(())
    }

    fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        let mut state = self.storage.lock();
        let directory = path.parent();
        let here: Vec<(PathBuf, u64)> = state
            .names
            .iter()
            .filter(|(name, _)| name.parent() == directory)
            .map(|(name, inode)| (name.clone(), *inode))
            .collect();
        state.durable_names.extend(here);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.storage.lock();
        Ok(state.names.keys().filter(|name| name.parent() == Some(directory)).cloned().collect())
    }

    fn who(&self) -> WriterProcess {
        let boot = self.storage.lock().boot;
        WriterProcess {
            pid: self.process,
            host: format!("host{}", self.host),
            boot: format!("boot{boot}-{}", self.host),
        }
    }

    fn draw(&self) -> u64 {
        let mut state = self.storage.lock();
        let drawn = state.next;
        state.next = state.next.saturating_add(1);
        drawn
    }
}
