//! The files of rejected updates: one that grows, and the one before it. Together they hold at least what the quarantine may hold, and
//! never more than twice as much.

use super::record::{self, Change, Contents};
use super::{Quarantine, Refused};
use crate::env::{Disk, LogFile, Open};
use crate::log::{whole, write_all};
use std::collections::BTreeSet;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Smallest size at which a file is replaced: a limit of some kilobytes must not rename files all the time.
const MIN_SEGMENT_BYTES: u64 = 64 << 10;

/// The files, written by one process.
pub(super) struct Segments {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Opened by the first write.
    file: Option<Arc<dyn LogFile>>,
    /// End of the whole records.
    length_bytes: u64,
    segment_bytes: u64,
}

/// What was found at the start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub restored: usize,
    /// Records and bytes that could not be read.
    pub damaged: usize,
    pub lost_bytes: usize,
}

impl Segments {
    /// Path of the file in a log's directory.
    pub(super) fn path(dir: &Path, src: &str) -> PathBuf {
        dir.join(format!("{src}.rejected"))
    }

    fn earlier(path: &Path) -> PathBuf {
        path.with_extension("rejected.1")
    }

    /// Reads both files into the quarantine. A file that is missing or damaged costs its own updates only.
    pub(super) fn read(disk: Arc<dyn Disk>, path: PathBuf, quarantine: &mut Quarantine) -> (Segments, Found) {
        let mut found = Found::default();
        let mut length_bytes = 0;
        let mut updates: Vec<Arc<Refused>> = Vec::new();
        let (mut gone, mut accepted) = (BTreeSet::new(), BTreeSet::new());
        for name in [Segments::earlier(&path), path.clone()] {
            let bytes = match disk.open(&name, Open::Read).and_then(|file| whole(&*file)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => {
                    tracing::warn!(path = %name.display(), %error, "cannot read the updates rejected before; starting without them");
                    Vec::new()
                }
            };
            let Contents { changes, good_bytes, damaged } = record::read(&bytes);
            found.damaged = found.damaged.saturating_add(damaged);
            found.lost_bytes = found.lost_bytes.saturating_add(bytes.len().saturating_sub(good_bytes));
            length_bytes = good_bytes as u64;
            for change in changes {
                match change {
                    Change::Added(refused) => updates.push(refused),
                    Change::Gone(ids) => gone.extend(ids),
                    Change::Accepted(ids) => accepted.extend(ids),
                }
            }
        }
        for refused in updates {
            match gone.contains(&refused.id) {
                true => quarantine.skip_to(refused.id.saturating_add(1)),
                false => quarantine.restore(Arc::unwrap_or_clone(refused)),
            }
        }
        quarantine.mark_accepted(accepted);
        if let Some(last) = gone.last() {
            quarantine.skip_to(last.saturating_add(1));
        }
        found.restored = quarantine.iter().len();
        let segment_bytes = (quarantine.bytes_most() as u64).max(MIN_SEGMENT_BYTES);
        (Segments { disk, path, file: None, length_bytes, segment_bytes }, found)
    }

    /// Appends records: all of them, or none.
    ///
    /// # Errors
    /// The file system's; the records are to be appended again.
    pub(super) fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let end = self.length_bytes.saturating_add(records.len() as u64);
        if self.length_bytes > 0 && end > self.segment_bytes {
            self.file = None;
            self.disk.rename(&self.path, &Segments::earlier(&self.path))?;
            self.length_bytes = 0;
        }
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => self.open()?,
        };
        if let Err(error) = write_all(&*file, records, self.length_bytes) {
            // A part of them may be there: whatever is written next begins at the same place.
            self.file = None;
            return Err(error);
        }
        self.file = Some(file);
        self.length_bytes = self.length_bytes.saturating_add(records.len() as u64);
        Ok(())
    }

    /// Opens the file for writing and drops what is no whole record.
    fn open(&self) -> io::Result<Arc<dyn LogFile>> {
        let file = self.disk.open(&self.path, Open::Create)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other("another process writes to it"),
            TryLockError::Error(error) => error,
        })?;
        file.truncate(self.length_bytes)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::refused;
    use super::*;
    use crate::env::SystemDisk;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("elastick-rejected-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn path(&self) -> PathBuf {
            Segments::path(&self.0, "sym")
        }

        fn read(&self) -> (Segments, Quarantine, Found) {
            let mut quarantine = Quarantine::new(100, 100 << 10);
            let (segments, found) = Segments::read(Arc::new(SystemDisk), self.path(), &mut quarantine);
            (segments, quarantine, found)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn records(changes: &[Change]) -> Vec<u8> {
        let mut bytes = Vec::new();
        changes.iter().for_each(|change| change.write(&mut bytes));
        bytes
    }

    fn added(id: u64, bytes: usize) -> Change {
        Change::Added(Arc::new(Refused { id, ..refused(0, bytes) }))
    }

    fn ids(quarantine: &Quarantine) -> Vec<u64> {
        quarantine.iter().map(|refused| refused.id).collect()
    }

    #[test]
    fn updates_are_there_again_without_those_that_are_gone() {
        let folder = Folder::new("again");
        let (mut segments, ..) = folder.read();
        segments.append(&records(&[added(0, 10), added(1, 10), added(2, 10)])).unwrap();
        segments.append(&records(&[Change::Gone(vec![1, 2]), Change::Accepted(vec![0, 2])])).unwrap();
        drop(segments);
        let (_, mut quarantine, found) = folder.read();
        assert_eq!((ids(&quarantine), found.restored, found.lost_bytes), (vec![0], 1, 0));
        assert!(quarantine.is_accepted(0) && !quarantine.is_accepted(2));
        assert_eq!(quarantine.add(refused(0, 1)).0.id, 3, "an id is used once");
    }

    #[test]
    fn files_stay_below_twice_the_limit_and_hold_the_latest() {
        let folder = Folder::new("ring");
        let (mut segments, ..) = folder.read();
        for id in 0..100 {
            segments.append(&records(&[added(id, 4000)])).unwrap();
        }
        drop(segments);
        let size = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(size(&folder.path()) + size(&Segments::earlier(&folder.path())) <= 200 << 10);
        let (_, quarantine, _) = folder.read();
        let kept = ids(&quarantine);
        assert_eq!((kept.last(), kept.len()), (Some(&99), 24), "as many as fit into the limit: {kept:?}");
    }

    #[test]
    fn what_follows_a_torn_record_is_read_again() {
        let folder = Folder::new("torn");
        let (mut segments, ..) = folder.read();
        segments.append(&records(&[added(0, 10)])).unwrap();
        drop(segments);
        let mut bytes = std::fs::read(folder.path()).unwrap();
        bytes.extend_from_slice(&records(&[added(1, 10)])[..40]);
        std::fs::write(folder.path(), bytes).unwrap();
        let (mut segments, quarantine, found) = folder.read();
        assert_eq!((ids(&quarantine), found.lost_bytes), (vec![0], 40));
        segments.append(&records(&[added(2, 10)])).unwrap();
        drop(segments);
        let (_, quarantine, found) = folder.read();
        assert_eq!((ids(&quarantine), found.lost_bytes), (vec![0, 2], 0));
    }

    #[test]
    fn a_file_has_one_writer() {
        let folder = Folder::new("lock");
        let (mut first, ..) = folder.read();
        first.append(&records(&[added(0, 10)])).unwrap();
        let (mut second, ..) = folder.read();
        assert!(second.append(&records(&[added(1, 10)])).is_err());
    }

    #[test]
    fn anything_may_stand_at_its_path() {
        let folder = Folder::new("odd");
        std::fs::create_dir(folder.path()).unwrap();
        std::fs::write(Segments::earlier(&folder.path()), "no records").unwrap();
        let (mut segments, quarantine, found) = folder.read();
        assert_eq!((ids(&quarantine).len(), found.restored), (0, 0));
        assert!(segments.append(&records(&[added(0, 10)])).is_err());
    }
}
