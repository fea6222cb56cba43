//! Memory figures of the server, the container and this process, from the files in which Linux tells them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the figures are read; other places serve tests.
#[derive(Clone, Debug)]
pub struct Sources {
    proc: PathBuf,
    cgroup: PathBuf,
    page_bytes: u64,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources { proc: "/proc".into(), cgroup: "/sys/fs/cgroup".into(), page_bytes: rustix::param::page_size() as u64 }
    }
}

/// The memory that this process may use: of its cgroup where one limits it, else of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub total_bytes: u64,
    /// In use by everything that shares the total; page cache that can be dropped is not counted.
    pub used_bytes: u64,
    /// Whether the total is a cgroup's limit.
    pub is_limited: bool,
}

impl Memory {
    /// Share in use, 0 to 100.
    pub fn used_percent(&self) -> f64 {
        if self.total_bytes == 0 { 0.0 } else { 100.0 * self.used_bytes as f64 / self.total_bytes as f64 }
    }
}

fn invalid(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

/// The value of `key` in lines of `key value` or `key: value kB`.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        if name.trim_end_matches(':') != key {
            return None;
        }
        let value: u64 = words.next()?.parse().ok()?;
        if words.next() == Some("kB") { value.checked_mul(1024) } else { Some(value) }
    })
}

impl Sources {
    /// Figures below these directories instead of `/proc` and `/sys/fs/cgroup`.
    pub fn at(proc: impl Into<PathBuf>, cgroup: impl Into<PathBuf>, page_bytes: u64) -> Sources {
        Sources { proc: proc.into(), cgroup: cgroup.into(), page_bytes }
    }

    /// What this process may use and how much of it is used.
    ///
    /// # Errors
    /// `/proc/meminfo` cannot be read or lacks its figures. A missing cgroup is none.
    pub fn memory(&self) -> io::Result<Memory> {
        let path = self.proc.join("meminfo");
        let text = fs::read_to_string(&path)?;
        let total_bytes = field(&text, "MemTotal").ok_or_else(|| invalid(&path, "no MemTotal"))?;
        let available = field(&text, "MemAvailable").ok_or_else(|| invalid(&path, "no MemAvailable"))?;
        let server = Memory { total_bytes, used_bytes: total_bytes.saturating_sub(available), is_limited: false };
        Ok(self.limited(total_bytes).unwrap_or(server))
    }

    /// The figures of the tightest cgroup (version 2) around this process that limits memory below `server_bytes`.
    fn limited(&self, server_bytes: u64) -> Option<Memory> {
        let own = fs::read_to_string(self.proc.join("self/cgroup")).ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_matches('/');
        let mut tightest: Option<Memory> = None;
        // A limit holds for all below it, so each directory up to the root is asked.
        for relative in Path::new(own).ancestors() {
            let directory = self.cgroup.join(relative);
            let number = |name: &str| fs::read_to_string(directory.join(name)).ok()?.trim().parse::<u64>().ok();
            let Some(limit) = number("memory.max").filter(|limit| *limit < server_bytes) else { continue };
            if tightest.is_some_and(|tightest| tightest.total_bytes <= limit) {
                continue;
            }
            let cache = fs::read_to_string(directory.join("memory.stat")).ok();
            let cache = cache.and_then(|text| field(&text, "inactive_file")).unwrap_or(0);
            let used_bytes = number("memory.current").unwrap_or(0).saturating_sub(cache);
            tightest = Some(Memory { total_bytes: limit, used_bytes, is_limited: true });
        }
        tightest
    }

    /// Resident bytes of this process that are its own: without file pages, which the kernel can drop.
    ///
    /// # Errors
    /// `/proc/self/statm` cannot be read.
    pub fn own_bytes(&self) -> io::Result<u64> {
        let path = self.proc.join("self/statm");
        let text = fs::read_to_string(&path)?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok).ok_or_else(|| invalid(&path, "too few numbers"));
        let (_size, resident, shared) = (next()?, next()?, next()?);
        Ok(resident.saturating_sub(shared).saturating_mul(self.page_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture(PathBuf);

    impl Fixture {
        fn new(name: &str) -> Fixture {
            let root = std::env::temp_dir().join(format!("elastick-memory-{}-{name}", std::process::id()));
            let fixture = Fixture(root);
            fixture.write("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   400 kB\n");
            fixture
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            fs::write(path, text).expect("file");
        }

        fn sources(&self) -> Sources {
            Sources::at(self.0.join("proc"), self.0.join("cgroup"), 4096)
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn without_a_cgroup_the_server_counts() {
        let fixture = Fixture::new("server");
        let memory = fixture.sources().memory().expect("figures");
        assert_eq!(memory, Memory { total_bytes: 1_024_000, used_bytes: 614_400, is_limited: false });
        assert!((memory.used_percent() - 60.0).abs() < 1e-9);
    }

    #[test]
    fn the_tightest_limit_around_the_process_counts_without_droppable_cache() {
        let fixture = Fixture::new("limit");
        fixture.write("proc/self/cgroup", "0::/outer/inner\n");
        fixture.write("cgroup/outer/inner/memory.max", "500000\n");
        fixture.write("cgroup/outer/inner/memory.current", "1\n");
        fixture.write("cgroup/outer/memory.max", "400000\n");
        fixture.write("cgroup/outer/memory.current", "300000\n");
        fixture.write("cgroup/outer/memory.stat", "anon 5\ninactive_file 100000\n");
        let memory = fixture.sources().memory().expect("figures");
        assert_eq!(memory, Memory { total_bytes: 400_000, used_bytes: 200_000, is_limited: true });
    }

    #[test]
    fn a_cgroup_without_a_limit_counts_for_nothing() {
        let fixture = Fixture::new("max");
        fixture.write("proc/self/cgroup", "0::/\n");
        fixture.write("cgroup/memory.max", "max\n");
        assert!(!fixture.sources().memory().expect("figures").is_limited);
    }

    #[test]
    fn own_bytes_leave_file_pages_out() {
        let fixture = Fixture::new("own");
        fixture.write("proc/self/statm", "1000 300 100 1 0 200 0\n");
        assert_eq!(fixture.sources().own_bytes().expect("figures"), 200 * 4096);
    }

    #[test]
    fn a_garbled_file_is_an_error_that_names_it() {
        let fixture = Fixture::new("garbled");
        fixture.write("proc/meminfo", "nothing");
        let error = fixture.sources().memory().expect_err("no figures").to_string();
        assert!(error.contains("meminfo") && error.contains("MemTotal"), "{error}");
    }

    #[test]
    fn this_machine_tells_its_figures() {
        let sources = Sources::default();
        assert!(sources.memory().expect("figures").total_bytes > 0);
        assert!(sources.own_bytes().expect("figures") > 0);
    }
}
