//! Named pipes, and devices: `` hopen`:fifo://path ``, then `read1`. They have no size and no offsets, and their reader waits for a writer.

use crate::runtime::error::QError;
use crate::runtime::limits;
use columns::table::{Items, Value};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that `read1 handle` reads at most.
pub const READ_BYTES: usize = 1 << 16;

/// Wait for bytes between two checks of the limits.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The path in an address such as `fifo:///tmp/pipe`; `None` for any other.
pub fn path_of(address: &[u8]) -> Option<&[u8]> {
    address.strip_prefix(b":").unwrap_or(address).strip_prefix(b"fifo://")
}

/// The path of these bytes.
pub fn place(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Opens a pipe for reading, without waiting for a writer.
///
/// # Errors
/// The operating system's.
pub fn open(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    std::fs::OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// Waits for bytes and reads at most so many of them; none at the end, when the last writer has closed the pipe.
///
/// # Errors
/// The limits', the operating system's.
pub fn read(pipe: &mut File, most: usize) -> Result<Value, QError> {
    let failed = |e: std::io::Error| QError::signal(e.to_string().into_bytes());
    limits::room(most)?;
    let mut out = vec![0; most];
    loop {
        limits::check()?;
        let mut polled = [PollFd::new(&*pipe, PollFlags::IN)];
        match poll(&mut polled, Some(&PAUSE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(failed(error.into())),
        }
        match pipe.read(&mut out) {
            Ok(read) => {
                out.truncate(read);
                return Ok(Items::Byte(out.into()).into());
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(failed(error)),
        }
    }
}
