//! The file of the audit log: appends, rotation by size, and a new file after another program has moved it.

use super::ended::Siblings;
use super::names::{PLACEHOLDER, rotated};
use jiff::Timestamp;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Owner and group may read it: it shows what users do.
const MODE: u32 = 0o640;

/// The open file.
pub(super) struct AuditFile {
    path: PathBuf,
    max_bytes: u64,
    keep: usize,
    /// Other processes of the same program, if each has a file of its own.
    siblings: Option<Siblings>,
    file: File,
    id: (u64, u64),
    is_regular: bool,
    length: u64,
    /// The file ends within a line: the next append ends it.
    is_torn: bool,
    /// The last rotation failed, and that was reported.
    is_stuck: bool,
}

struct Opened {
    file: File,
    id: (u64, u64),
    is_regular: bool,
    length: u64,
    is_torn: bool,
}

fn open(path: &Path) -> io::Result<Opened> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(MODE).open(path)?;
    let metadata = file.metadata()?;
    let (is_regular, length) = (metadata.is_file(), metadata.len());
    if is_regular {
        // Two processes would number their records against each other, and rotate the file under each other.
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other(format!("another process writes to it; give each its own file, as with {PLACEHOLDER} in the name, such as audit-{PLACEHOLDER}.jsonl")),
            TryLockError::Error(error) => error,
        })?;
    }
    let mut last = [b'\n'];
    if let Some(at) = length.checked_sub(1).filter(|_| is_regular) {
        file.read_exact_at(&mut last, at)?;
    }
    Ok(Opened { file, id: (metadata.dev(), metadata.ino()), is_regular, length, is_torn: last != *b"\n" })
}

impl AuditFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// The system's, or another process writes to it.
    pub(super) fn open(path: PathBuf, max_bytes: u64, keep: usize) -> io::Result<AuditFile> {
        let Opened { file, id, is_regular, length, is_torn } = open(&path)?;
        Ok(AuditFile { path, max_bytes, keep, siblings: None, file, id, is_regular, length, is_torn, is_stuck: false })
    }

    /// Removes files of other processes that have ended as well, now and at each rotation.
    pub(super) fn with_siblings(mut self, siblings: Option<Siblings>) -> AuditFile {
        self.siblings = siblings;
        self.clean();
        self
    }

    /// Appends whole lines: all of them, or none.
    ///
    /// # Errors
    /// The system's; the lines are to be appended again.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.look_at_path()?;
        let whole = self.length.saturating_add(lines.len() as u64);
        if self.is_regular && self.max_bytes > 0 && self.length > 0 && whole > self.max_bytes {
            self.rotate();
        }
        let written = match self.is_torn {
            true => self.file.write_all(b"\n").and_then(|()| self.file.write_all(lines)),
            false => self.file.write_all(lines),
        };
        if let Err(error) = written {
            // A part of the lines may be there. If it cannot be removed, it must not become the beginning of another line.
            self.is_torn |= self.is_regular && self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length = whole.saturating_add(u64::from(self.is_torn));
        self.is_torn = false;
        Ok(())
    }

    /// Opens the file again if another program has moved or removed it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn look_at_path(&mut self) -> io::Result<()> {
        let is_same = match std::fs::metadata(&self.path) {
            Ok(metadata) => (metadata.dev(), metadata.ino()) == self.id,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if !is_same {
            self.reopen()?;
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Opened {
            file: self.file,
            id: self.id,
            is_regular: self.is_regular,
            length: self.length,
            is_torn: self.is_torn,
        } = open(&self.path)?;
        Ok(())
    }

    /// Moves the file aside and begins a new one. On a failure the file goes on beyond its size: nothing may be lost for that.
    fn rotate(&mut self) {
        let rotated = self.move_aside().and_then(|()| self.reopen());
        match rotated {
            Ok(()) => self.is_stuck = false,
            Err(error) if !self.is_stuck => {
                self.is_stuck = true;
                tracing::error!(path = %self.path.display(), %error, "the audit log cannot be rotated; it grows beyond --audit-max-size");
            }
            Err(_) => {}
        }
        self.clean();
    }

    fn clean(&self) {
        if let Err(error) = self.remove_old() {
            tracing::warn!(path = %self.path.display(), %error, "old audit logs cannot be removed");
        }
    }

    fn move_aside(&self) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(Timestamp::now().strftime(".%Y%m%dT%H%M%S.%9fZ").to_string());
        let aside = PathBuf::from(name);
        if aside.symlink_metadata().is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&self.path, aside)
    }

    /// Removes the oldest rotated files beyond those that are kept, and those of processes that have ended.
    fn remove_old(&self) -> io::Result<()> {
        if self.keep == 0 {
            return Ok(());
        }
        let rotated = rotated(&self.path)?;
        let surplus = rotated.len().saturating_sub(self.keep);
        rotated.into_iter().take(surplus).try_for_each(std::fs::remove_file)?;
        self.siblings.as_ref().map_or(Ok(()), |siblings| siblings.remove_old(&self.path, self.keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("elastick-audit-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn log(&self) -> PathBuf {
            self.0.join("audit")
        }

        fn text(&self) -> String {
            std::fs::read_to_string(self.log()).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_new_file_is_no_business_of_other_users() {
        let folder = Folder::new("mode");
        AuditFile::open(folder.log(), 0, 0).unwrap();
        let mode = std::fs::metadata(folder.log()).unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "{mode:o}");
    }

    #[test]
    fn a_file_has_one_writer() {
        let folder = Folder::new("lock");
        let _first = AuditFile::open(folder.log(), 0, 0).unwrap();
        let error = AuditFile::open(folder.log(), 0, 0).err().unwrap().to_string();
        assert!(error.contains("another process") && error.contains("audit-{process}.jsonl"), "{error}");
    }

    #[test]
    fn a_torn_line_is_ended_before_the_next() {
        let folder = Folder::new("torn");
        std::fs::write(folder.log(), "{}\n{\"n").unwrap();
        let mut file = AuditFile::open(folder.log(), 0, 0).unwrap();
        file.append(b"{1}\n").unwrap();
        file.append(b"{2}\n").unwrap();
        assert_eq!(folder.text(), "{}\n{\"n\n{1}\n{2}\n");
    }

    #[test]
    fn a_full_file_is_moved_aside_and_the_oldest_removed() {
        let folder = Folder::new("rotate");
        let mut file = AuditFile::open(folder.log(), 10, 2).unwrap();
        std::fs::write(folder.0.join("audit.old"), "mine").unwrap();
        for line in 0..5 {
            file.append(format!("line {line}\n").as_bytes()).unwrap();
        }
        assert_eq!(folder.text(), "line 4\n");
        let kept: Vec<String> =
            rotated(&folder.log()).unwrap().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        assert_eq!(kept, ["line 2\n", "line 3\n"]);
        assert!(folder.0.join("audit.old").exists());
    }

    #[test]
    fn a_file_that_was_moved_or_removed_is_created_again() {
        let folder = Folder::new("moved");
        let mut file = AuditFile::open(folder.log(), 0, 0).unwrap();
        file.append(b"1\n").unwrap();
        std::fs::rename(folder.log(), folder.0.join("audit.1")).unwrap();
        file.append(b"2\n").unwrap();
        assert_eq!(folder.text(), "2\n");
        std::fs::remove_file(folder.log()).unwrap();
        file.append(b"3\n").unwrap();
        assert_eq!(folder.text(), "3\n");
        assert_eq!(std::fs::read_to_string(folder.0.join("audit.1")).unwrap(), "1\n");
    }
}
