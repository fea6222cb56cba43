//! The log of updates that `-l` and `-L` keep beside a checkpoint: `NAME.log` and `NAME.qdb`.
//!
//! A checkpoint has a number. To make the next one, the log is renamed to `NAME.log.N`, the checkpoint `N` replaces the one before, and a
//! new log begins. A start that finds `NAME.log.N` therefore knows whether the checkpoint holds its messages, whatever came between.

use crate::io::files::refused;
use crate::io::wire;
use crate::runtime::error::QError;
use columns::sys::fs::sync_directory_of;
use columns::table::Value;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// An open log, to which messages are appended.
pub(crate) struct UpdateLog {
    place: Place,
    file: File,
    bytes: u64,
    /// `-L`: each message is on the disk before its response is sent.
    syncs: bool,
    /// Part of a message may be at its end, so that nothing can follow.
    is_broken: bool,
}

/// The files of a log, as absolute paths.
#[derive(Clone)]
pub(crate) struct Place {
    base: PathBuf,
}

impl Place {
    /// `base` is the path without an extension.
    ///
    /// # Errors
    /// The operating system's, if there is no working directory.
    pub fn new(base: &Path) -> Result<Place, QError> {
        let base = std::path::absolute(base).map_err(|e| refused(base, &e))?;
        Ok(Place { base })
    }

    fn with(&self, extension: &str) -> PathBuf {
        let mut path = self.base.clone().into_os_string();
        path.push(extension);
        path.into()
    }

    pub fn log(&self) -> PathBuf {
        self.with(".log")
    }

    pub fn checkpoint(&self) -> PathBuf {
        self.with(".qdb")
    }

    /// A checkpoint that is being written.
    pub fn new_checkpoint(&self) -> PathBuf {
        self.with(".qdb.new")
    }

    /// The log whose messages checkpoint `number` holds, until it is removed.
    fn covered(&self, number: i64) -> PathBuf {
        self.with(&format!(".log.{number}"))
    }

    /// Ends a checkpoint that was interrupted; `number` is that of the last whole one.
    ///
    /// # Errors
    /// The operating system's; a log and one that was set aside, which the program never leaves behind together.
    pub fn recover(&self, number: i64) -> Result<(), QError> {
        let covered = self.covered(number);
        if covered.exists() {
            std::fs::remove_file(&covered).map_err(|e| refused(&covered, &e))?;
        }
        let aside = self.covered(number.saturating_add(1));
        let log = self.log();
        if !aside.exists() {
            return Ok(());
        }
        if log.exists() {
            let text = format!(
                "{} and {} exist; keep the one that continues {}",
                aside.display(),
                log.display(),
                self.checkpoint().display()
            );
            return Err(QError::with("badtail", text));
        }
        std::fs::rename(&aside, &log).map_err(|e| refused(&aside, &e))
    }
}

impl UpdateLog {
    /// Opens the log, or begins one.
    ///
    /// # Errors
    /// The operating system's; `badtail` for a file that is no log.
    pub fn open(place: Place, syncs: bool) -> Result<UpdateLog, QError> {
        let path = place.log();
        let failed = |e: std::io::Error| refused(&path, &e);
        let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        let mut bytes = file.metadata().map_err(failed)?.len();
        if bytes < proto::log::FILE_HEAD.len() as u64 {
            // A crash may have left a part of the head, which holds nothing.
            file.set_len(0).map_err(failed)?;
            file.write_all(&proto::log::FILE_HEAD).map_err(failed)?;
            bytes = proto::log::FILE_HEAD.len() as u64;
            if syncs {
                file.sync_all().and_then(|()| sync_directory_of(&path)).map_err(failed)?;
            }
        }
        Ok(UpdateLog { place, file, bytes, syncs, is_broken: false })
    }

    /// Appends a message, whole or not at all.
    ///
    /// # Errors
    /// The operating system's; those of serialising the message.
    pub fn append(&mut self, message: &Value) -> Result<(), QError> {
        if self.is_broken {
            return Err(QError::with("badtail", format!("{} could not be written before", self.place.log().display())));
        }
        let record = wire::message(message)?;
        let record = record.get(proto::HEADER_BYTES..).unwrap_or_default();
        let written =
            self.file.write_all(record).and_then(|()| if self.syncs { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.bytes = self.bytes.saturating_add(record.len() as u64);
                Ok(())
            }
            Err(error) => {
                self.is_broken = self.file.set_len(self.bytes).is_err();
                Err(refused(&self.place.log(), &error))
            }
        }
    }

    /// Replaces checkpoint and log: `write` writes the new checkpoint to the path that it is given.
    ///
    /// # Errors
    /// Those of `write`, after which everything is as before; the operating system's.
    pub fn replace(&mut self, number: i64, write: impl FnOnce(&Path) -> Result<(), QError>) -> Result<(), QError> {
        let (log, aside) = (self.place.log(), self.place.covered(number));
        let (new, checkpoint) = (self.place.new_checkpoint(), self.place.checkpoint());
        std::fs::rename(&log, &aside).map_err(|e| refused(&log, &e))?;
        let written = write(&new).and_then(|()| {
            let synced = File::open(&new).and_then(|file| file.sync_all());
            let moved =
                synced.and_then(|()| std::fs::rename(&new, &checkpoint)).and_then(|()| sync_directory_of(&checkpoint));
            moved.map_err(|e| refused(&new, &e))
        });
        if let Err(error) = written {
            let _ = std::fs::remove_file(&new);
            self.is_broken |= std::fs::rename(&aside, &log).is_err();
            return Err(error);
        }
        // From here on the checkpoint holds what the log held.
        match UpdateLog::open(self.place.clone(), self.syncs) {
            Ok(begun) => *self = begun,
            Err(error) => {
                self.is_broken = true;
                return Err(error);
            }
        }
        std::fs::remove_file(&aside).map_err(|e| refused(&aside, &e))
    }
}
