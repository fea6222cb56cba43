//! Leases as files of a directory, for processes of one host or of hosts that share it.

use super::{OwnerStore, Renewed, StoreError};
use crate::lease::owner::StoredLease;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest file of a lease that is read.
const MAX_BYTES: u64 = 4096;
/// First word of such a file.
const MARK: &str = "elastick-owner-lease";

/// A directory of leases. A lease is over once its file has not changed for the time in it.
pub struct Directory {
    path: PathBuf,
    lasts: Duration,
    renewals: u64,
}

impl Directory {
    /// Leases in this directory, each for the time `lasts`.
    pub fn new(path: PathBuf, lasts: Duration) -> Directory {
        Directory { path, lasts, renewals: 0 }
    }

    fn file(&self, owner: &str) -> PathBuf {
        self.path.join(format!("{owner}.lease"))
    }

    fn failed(path: &Path, error: &std::io::Error) -> StoreError {
        StoreError::Failed(format!("{}: {error}", path.display()))
    }

    /// Replaces the file in one step, so that no reader sees half of it.
    fn write(&mut self, owner: &str) -> Result<(), StoreError> {
        self.renewals = self.renewals.wrapping_add(1);
        let nanoseconds = u64::try_from(self.lasts.as_nanos()).unwrap_or(u64::MAX);
        let text = format!("{MARK} {nanoseconds} {owner}-{}\n", self.renewals);
        let (file, draft) = (self.file(owner), self.path.join(format!("{owner}.draft")));
        std::fs::write(&draft, text).map_err(|error| Directory::failed(&draft, &error))?;
        std::fs::rename(&draft, &file).map_err(|error| Directory::failed(&file, &error))
    }
}

impl OwnerStore for Directory {
    fn acquire(&mut self, owner: &str, _: Duration) -> Result<(), StoreError> {
        self.write(owner)
    }

    fn renew(&mut self, owner: &str, _: Duration) -> Result<Renewed, StoreError> {
        match self.file(owner).try_exists() {
            Ok(true) => self.write(owner).map(|()| Renewed::Done),
            Ok(false) => Ok(Renewed::Gone),
            Err(error) => Err(Directory::failed(&self.path, &error)),
        }
    }

    fn release(&mut self, owner: &str, _: Duration) -> Result<(), StoreError> {
        let file = self.file(owner);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Directory::failed(&file, &error)),
            _ => Ok(()),
        }
    }

    fn look(&mut self, owner: &str, _: Duration) -> Result<StoredLease, StoreError> {
        if !self.path.is_dir() {
            let text = format!("{} is not a directory: nothing says which owners are there", self.path.display());
            return Err(StoreError::Unfit(text));
        }
        let path = self.file(owner);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(StoredLease::Absent),
            Err(error) => return Err(Directory::failed(&path, &error)),
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| Directory::failed(&path, &error))?;
        let mut words = text.split_whitespace();
        let wrong = || StoreError::Unfit(format!("{} is not an owner's lease", path.display()));
        let (Some(MARK), Some(lasts), Some(version)) = (words.next(), words.next(), words.next()) else {
            return Err(wrong());
        };
        Ok(StoredLease::Recorded { version: version.to_string(), lasts_ns: lasts.parse().map_err(|_| wrong())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_there_until_it_is_given_back() {
        let path = std::env::temp_dir().join(format!("elastick-owners-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let (mut own, mut other) =
            (Directory::new(path.clone(), Duration::from_secs(2)), Directory::new(path.clone(), Duration::ZERO));
        let now = Duration::ZERO;
        assert_eq!((other.look("a1", now), own.renew("a1", now)), (Ok(StoredLease::Absent), Ok(Renewed::Gone)));
        own.acquire("a1", now).unwrap();
        let seen = |n: u64| Ok(StoredLease::Recorded { version: format!("a1-{n}"), lasts_ns: 2_000_000_000 });
        assert_eq!(other.look("a1", now), seen(1));
        assert_eq!((own.renew("a1", now), other.look("a1", now)), (Ok(Renewed::Done), seen(2)));
        own.release("a1", now).unwrap();
        assert_eq!((own.release("a1", now), other.look("a1", now)), (Ok(()), Ok(StoredLease::Absent)));
        std::fs::write(path.join("a2.lease"), "nonsense").unwrap();
        assert!(matches!(other.look("a2", now), Err(StoreError::Unfit(_))));
        std::fs::remove_dir_all(&path).unwrap();
        assert!(
            matches!(other.look("a1", now), Err(StoreError::Unfit(_))),
            "a directory that is away says nothing about owners"
        );
    }
}
