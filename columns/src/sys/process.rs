//! Limits of this process: file descriptors, address space.

use std::fs;
use std::io;

/// Returns the number of open file descriptors: the directory's size on newer kernels, else its number of entries. A list of all of them, as
/// libraries make it, would cost a system call per connection.
///
/// # Errors
/// `/proc` is unreadable.
pub fn open_fds() -> io::Result<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    match fs::metadata(DIRECTORY)?.len() {
        // Reading the directory opens one more descriptor.
        0 => Ok((fs::read_dir(DIRECTORY)?.count() as u64).saturating_sub(1)),
        open => Ok(open),
    }
}

/// Returns the limit of open file descriptors; `None` if there is none.
pub fn max_fds() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Memory that an evaluation has under `ulimit -v`, where an allocation that the system refuses would end the process; otherwise `bytes`.
pub fn in_address_space(bytes: u64) -> u64 {
    const MIN_BYTES: u64 = 16 << 20;
    address_space_left().map_or(bytes, |left| bytes.min((left / 5 * 4).max(MIN_BYTES)))
}

/// How many bytes the process may still map; `None` without a limit.
fn address_space_left() -> Option<u64> {
    let limit_bytes = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let mapped = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = mapped.split(' ').next()?.parse().ok()?;
    Some(limit_bytes.saturating_sub(pages.saturating_mul(rustix::param::page_size() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_streams_are_open() {
        assert!(open_fds().expect("figures") >= 3);
    }
}
