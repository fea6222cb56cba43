//! Files of processes that have ended, where each process has a file of its own: a fleet's instance has a new name at each start, so nothing
//! else would ever remove what its predecessors wrote.

use super::names::{PLACEHOLDER, before_rotation, plain};
use crate::sys::fs::directory_of;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the first line of each audit log begins with.
const BEGIN: &[u8] = b"{\"n\":";

/// Where the files of the processes of one program are.
pub(super) struct Siblings {
    directory: PathBuf,
    /// Names are `before`, the rest of a process's name, `after`, and for a rotated file its time.
    before: String,
    after: String,
}

impl Siblings {
    /// Returns where the files of all processes of a program are. `path` is the option; `process` begins with the program, as `rdb` in `rdb
    /// rdb-3f2a1c-1`. `None` if the processes share no directory, or have no file each.
    pub fn of(path: &Path, process: &str) -> Option<Siblings> {
        let (before, after) = path.file_name()?.to_str()?.split_once(PLACEHOLDER)?;
        let program = process.split(' ').next()?;
        let directory = directory_of(path);
        let is_fixed = !after.contains(PLACEHOLDER) && !directory.to_str()?.contains(PLACEHOLDER);
        is_fixed.then(|| Siblings {
            directory: directory.to_path_buf(),
            before: format!("{before}{}-", plain(program)),
            after: after.to_string(),
        })
    }

    /// Removes the files of ended processes but the `keep` newest files of all. Those of running processes stay, as `own` and its rotated files
    /// do.
    ///
    /// # Errors
    /// The directory cannot be read, or a file not removed.
    pub fn remove_old(&self, own: &Path, keep: usize) -> io::Result<()> {
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let is_other = entry.file_name().to_str().is_some_and(|name| self.has(name) && !is_of(name, own));
            // Another process may remove it at the same time.
            let metadata = entry.metadata().ok().filter(|metadata| is_other && metadata.is_file());
            found.extend(metadata.and_then(|metadata| Some((metadata.modified().ok()?, entry.path()))));
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        for (_, path) in found.into_iter().skip(keep) {
            if is_ended(&path)? {
                std::fs::remove_file(&path).or_else(gone)?;
            }
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        let name = before_rotation(name).unwrap_or(name);
        let process = name.strip_prefix(&self.before).and_then(|rest| rest.strip_suffix(&self.after));
        process.is_some_and(|process| !process.is_empty())
    }
}

/// Whether a file is the process's own, or one that it has rotated.
fn is_of(name: &str, own: &Path) -> bool {
    own.file_name().and_then(|own| own.to_str()) == Some(before_rotation(name).unwrap_or(name))
}

/// Whether a file is an audit log that no running process has open for writing.
fn is_ended(path: &Path) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return gone(error).map(|()| false),
    };
    let mut begin = [0; BEGIN.len()];
    let is_log = file.read_exact(&mut begin).is_ok() && begin == *BEGIN;
    Ok(is_log && file.try_lock_shared().is_ok())
}

/// Another process has removed a file: no failure.
fn gone(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::names::path_of;
    use std::fs::FileTimes;
    use std::time::Duration;

    #[test]
    fn the_newest_files_of_ended_processes_stay_and_those_of_running_ones() {
        let folder = std::env::temp_dir().join(format!("elastick-audit-ended-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let option = folder.join("audit-{process}.jsonl");
        let mut age = 0;
        let mut make = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            age += 1;
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            File::options().write(true).open(&path).unwrap().set_times(FileTimes::new().set_modified(at)).unwrap();
            path
        };
        // From the newest to the oldest.
        let line = "{\"n\":1}\n";
        let stamp = "20261124T035510.123456789Z";
        make("audit-rdb-g-7.jsonl", line);
        let rotated = make(&format!("audit-rdb-g-6.jsonl.{stamp}"), line);
        let old = [
            make("audit-rdb-g-5.jsonl", line),
            make(&format!("audit-rdb-g-4.jsonl.{stamp}"), line),
            make("audit-rdb-g-3.jsonl.20261124T035510.223456789Z", line),
        ];
        make("audit-rdb-notes.jsonl", "mine");
        make("audit-tick-sym.jsonl", line);
        make("audit-rdb-g-4.jsonl.gz", line);
        make(&format!("audit-rdb-g-9.jsonl.{stamp}"), line);
        let running = make("audit-rdb-g-1.jsonl", line);
        let writer = File::open(&running).unwrap();
        writer.try_lock().unwrap();
        let own = path_of(&option, "rdb g-9");
        let before = std::fs::read_dir(&folder).unwrap().count();
        let siblings = Siblings::of(&option, "rdb g-9").unwrap();
        siblings.remove_old(&own, 2).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), before - 3);
        assert!(old.iter().all(|path| !path.exists()) && rotated.exists() && running.exists());
        siblings.remove_old(&own, 2).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), before - 3);
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn processes_without_a_file_each_have_no_siblings() {
        let is_some = |path: &str| Siblings::of(Path::new(path), "rdb g-1").is_some();
        assert_eq!(["audit-{process}", "/a/{process}.jsonl"].map(is_some), [true, true]);
        assert_eq!(["/a/audit.jsonl", "/a/{process}/audit", "{process}-{process}"].map(is_some), [false; 3]);
    }
}
