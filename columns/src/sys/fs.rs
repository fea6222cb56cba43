//! File system operations beyond reading and writing.

use rustix::fs::{NFS_SUPER_MAGIC, OFlags, fstatfs};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Returns whether a file is on NFS, where other hosts write it and this kernel may show its size and pages late.
pub fn is_nfs(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| system.f_type == NFS_SUPER_MAGIC)
}

/// Opens a file for reading; on NFS with `O_DIRECT`, so that each read goes to the server and a stale size hides no data.
pub fn open_fresh(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if !is_nfs(&file) {
        return Ok(file);
    }
    let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
    // Where the client rejects `O_DIRECT`, read through the page cache.
    Ok(direct.unwrap_or(file))
}

/// Renames a file to a name that must be free, by a second link, which NFS makes as one step as well.
///
/// # Errors
/// `AlreadyExists` if another file has that name; the operating system's.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::hard_link(from, to) {
        Ok(()) => {}
        // The answer to the first request may have been lost, and the file have that name since.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && place_at(from)? != place_at(to)? => {
            return Err(error);
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // A file system without links, as those of memory cards, which only this host has mounted.
        Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => {
            return rename_if_free(from, to);
        }
        Err(error) => return Err(error),
    }
    // The file has its name, whether or not it keeps the first one too.
    let _ = std::fs::remove_file(from);
    Ok(())
}

/// As [`rename_new`] where only this host can give the name.
fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    match to.try_exists()? {
        true => Err(io::ErrorKind::AlreadyExists.into()),
        false => std::fs::rename(from, to),
    }
}

/// Identity of a file (device and inode), unique among the files that exist at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub device: u64,
    pub inode: u64,
}

impl Place {
    fn of(metadata: &Metadata) -> Place {
        Place { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Returns the identity of an open file.
///
/// # Errors
/// The operating system's.
pub fn place_of(file: &File) -> io::Result<Place> {
    Ok(Place::of(&file.metadata()?))
}

/// Returns the identity of the file that `path` leads to now.
///
/// # Errors
/// The operating system's; `NotFound` if the path leads nowhere.
pub fn place_at(path: &Path) -> io::Result<Place> {
    Ok(Place::of(&std::fs::metadata(path)?))
}

/// Returns whether an open file has no name left (link count 0).
///
/// # Errors
/// The operating system's.
pub fn is_removed(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() == 0)
}

/// Free and total space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Available to this process.
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// Returns the space of the file system that holds `path`. May block on the server of a network file system.
///
/// # Errors
/// The operating system's.
pub fn room(path: &Path) -> io::Result<Room> {
    let found = rustix::fs::statvfs(path)?;
    Ok(Room {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
    })
}

/// Syncs the directory of a new or renamed file: the file survives a power cut only if its directory entry does.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// Returns the directory of a file: the working directory if the path is only a name.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_reports_its_free_space() {
        let room = room(&std::env::temp_dir()).expect("figures");
        assert!(room.free_bytes <= room.total_bytes && room.total_bytes > 0);
        assert!(super::room(Path::new("/no/such/place")).is_err());
    }

    #[test]
    fn a_file_gets_a_free_name_and_no_other_one() {
        let folder = std::env::temp_dir().join(format!("elastick-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [one, other, name] = ["one", "other", "name"].map(|name| folder.join(name));
        for rename in [rename_new, rename_if_free] {
            std::fs::write(&one, "1").unwrap();
            std::fs::write(&other, "2").unwrap();
            rename(&one, &name).unwrap();
            assert_eq!((std::fs::read(&name).unwrap(), one.exists()), (b"1".to_vec(), false));
            assert_eq!(rename(&other, &name).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!((std::fs::read(&name).unwrap(), other.exists()), (b"1".to_vec(), true));
            std::fs::remove_file(&name).unwrap();
        }
        std::fs::write(&one, "1").unwrap();
        std::fs::hard_link(&one, &name).unwrap();
        rename_new(&one, &name).unwrap();
        assert!(name.exists() && !one.exists(), "the answer to a first request was lost");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
