//! Another volume where a host should have the log's directory: files of a different log stand at this log's paths.

use super::audit::record;
use super::rng::Rng;
use elastick::env::LogFile;
use elastick::sys::fs::Place;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Device number of other volumes. Their inodes count from 1, as those of `Storage` do, so that inode numbers collide across devices.
const DEVICE: u64 = 1;

/// Content of the other volume at the path of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// All records but the first, followed by all of them: each is at another's place, and the log is longer.
    Shifted,
    /// An older copy that went on without one record of this log.
    Branched,
    /// A byte copy of an earlier day's log.
    DayBefore,
}

/// Another volume, mounted in place of the log's.
#[derive(Debug)]
struct Mount {
    until_ns: u64,
    other: Other,
    /// Each log as it was first opened, so that reopening it finds the same file.
    files: BTreeMap<PathBuf, Option<Arc<OtherFile>>>,
}

/// Hosts with another volume.
#[derive(Debug, Default)]
pub struct Mounts {
    hosts: BTreeMap<u32, Mount>,
    next: u64,
    /// How often a log of another volume was opened.
    pub opened: u64,
}

impl Mounts {
    pub fn mount(&mut self, host: u32, until_ns: u64, rng: &mut Rng) {
        let other = rng.pick(&[Other::Shifted, Other::Branched, Other::DayBefore]).copied().unwrap_or(Other::Shifted);
        self.hosts.insert(host, Mount { until_ns, other, files: BTreeMap::new() });
    }

    /// Opens a file on a host with another volume; `None` if the host has the log's own volume. `log` returns the bytes of this log and of
    /// the newest one before it.
    pub fn open<'a>(
        &mut self,
        (host, path): (u32, &Path),
        now_ns: u64,
        log: impl Fn() -> (Option<&'a [u8]>, Option<&'a [u8]>),
    ) -> Option<io::Result<Arc<dyn LogFile>>> {
        if self.hosts.get(&host).is_some_and(|mount| mount.until_ns <= now_ns) {
            self.hosts.remove(&host);
        }
        let Mount { other, files, .. } = self.hosts.get_mut(&host)?;
        let file = files.entry(path.to_path_buf()).or_insert_with(|| {
            // The other volume has no side file.
            let bytes = match (elastick::log::date_of(path).is_some(), log()) {
                (true, (Some(own), before)) => of_another_log(*other, own, before)?,
                _ => return None,
            };
            self.next = self.next.saturating_add(1);
            Some(Arc::new(OtherFile { place: Place { device: DEVICE, inode: self.next }, bytes }))
        });
        Some(match file {
            Some(file) => {
                self.opened = self.opened.saturating_add(1);
                Ok(Arc::<OtherFile>::clone(file))
            }
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }
}

/// Builds a log that resembles this one and differs. Returns `None` if this log is too short.
fn of_another_log(other: Other, own: &[u8], before: Option<&[u8]>) -> Option<Vec<u8>> {
    let head = own.get(..record::HEAD_BYTES)?;
    let mut ends = vec![record::HEAD_BYTES];
    while let Ok(record) = record::read(own, *ends.last()?) {
        ends.push(record.end);
    }
    let [first, second, .., last] = ends.as_slice() else { return None };
    let of = |from: usize, to: usize| own.get(from..to);
    Some(match (other, before) {
        (Other::DayBefore, Some(before)) => before.to_vec(),
        (Other::Branched, _) => {
            let half = ends.len() / 2;
            let (left_out, next) = (*ends.get(half)?, *ends.get(half.saturating_add(1)).unwrap_or(last));
            [of(0, left_out)?, of(next, *last)?, of(*first, *last)?].concat()
        }
        _ => [head, of(*second, *last)?, of(*first, *last)?].concat(),
    })
}

/// A file of another volume; no simulated process writes it.
#[derive(Debug)]
struct OtherFile {
    place: Place,
    bytes: Vec<u8>,
}

impl LogFile for OtherFile {
    fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
        let from = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let found = self.bytes.get(from..).unwrap_or_default();
        let count = found.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), found.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn identity(&self) -> io::Result<Place> {
        Ok(self.place)
    }
}
