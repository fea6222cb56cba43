//! Finds the file system that a directory is on, in the kernel's mount table.

use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub point: PathBuf,
    /// File system type, as the kernel names it: `ext4`, `nfs4`.
    pub kind: String,
    /// Mounted source: a device, `server:/path`.
    pub source: String,
}

/// Returns the mount that holds `path`; if `path` does not exist, that of its nearest existing ancestor.
///
/// # Errors
/// The operating system's; `Unsupported` on kernels before 5.8, which do not number mounts.
pub fn mount_of(path: &Path) -> io::Result<Mount> {
    let path = std::path::absolute(path)?;
    let is_there = |path: &&Path| !matches!(path.try_exists(), Ok(false));
    let there = path.ancestors().find(is_there).unwrap_or(Path::new("/"));
    let found = rustix::fs::statx(CWD, there, AtFlags::empty(), StatxFlags::MNT_ID)?;
    if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel does not report the mount of a file"));
    }
    let table = std::fs::read("/proc/self/mountinfo")?;
    by_id(&table, found.stx_mnt_id).ok_or_else(|| {
        let text = format!("mount {} of {} is not in /proc/self/mountinfo", found.stx_mnt_id, there.display());
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Returns the mount with this id in the kernel's table, whose lines are `36 35 98:0 /root /point options [optional ...] - type source options`.
fn by_id(table: &[u8], id: u64) -> Option<Mount> {
    table.split(|byte| *byte == b'\n').find_map(|line| {
        let mut words = line.split(|byte| *byte == b' ');
        let number: u64 = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        if number != id {
            return None;
        }
        let point = PathBuf::from(unescaped(words.nth(3)?));
        let mut after_dash = words.skip_while(|word| *word != b"-").skip(1);
        let kind = String::from_utf8_lossy(after_dash.next()?).into_owned();
        let source = unescaped(after_dash.next()?).to_string_lossy().into_owned();
        Some(Mount { point, kind, source })
    })
}

/// Undoes the octal escapes of the table: `\040` is a space.
fn unescaped(word: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out)
}

impl Mount {
    /// Returns whether the file system is of this type; `nfs` matches any version of NFS.
    pub fn is_kind(&self, kind: &str) -> bool {
        self.kind == kind || (kind == "nfs" && self.kind == "nfs4")
    }

    /// Returns whether the file system is mounted at `point`.
    ///
    /// # Errors
    /// `point` does not exist or cannot be resolved.
    pub fn is_at(&self, point: &Path) -> io::Result<bool> {
        let point = std::fs::canonicalize(point)?;
        Ok(point == self.point)
    }
}

impl std::fmt::Display for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} mounted at {})", self.kind, self.source, self.point.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"21 28 0:20 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw\n\
        40 21 0:44 / /efs rw,relatime shared:9 master:2 - nfs4 127.0.0.1:/ rw,vers=4.1\n\
        41 21 0:45 / /a\\040b rw - tmpfs none rw\nnonsense\n42 21\n";

    #[test]
    fn a_mount_is_found_by_its_number() {
        let efs = by_id(TABLE, 40).expect("mount 40");
        assert_eq!(efs.to_string(), "nfs4 (127.0.0.1:/ mounted at /efs)");
        assert!(efs.is_kind("nfs") && efs.is_kind("nfs4") && !efs.is_kind("ext4"));
    }

    #[test]
    fn a_name_with_a_space_is_read() {
        assert_eq!(by_id(TABLE, 41).expect("mount 41").point, Path::new("/a b"));
    }

    #[test]
    fn a_missing_or_truncated_mount_entry_is_none() {
        assert_eq!((by_id(TABLE, 39), by_id(TABLE, 42)), (None, None));
    }

    #[test]
    fn a_directory_to_be_made_is_on_the_file_system_of_the_one_above() {
        let proc = mount_of(Path::new("/proc/self")).expect("the kernel tells");
        assert!(proc.is_kind("proc") && proc.is_at(Path::new("/proc")).expect("there"), "{proc}");
        let inside = mount_of(Path::new("/proc/no/such/directory")).expect("the kernel tells");
        assert_eq!(inside, proc);
    }
}
