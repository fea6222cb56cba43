//! What the log needs of the file system beyond reading and writing.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes the name of a new or renamed file durable: a file survives a power cut only if its directory's entry does.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
