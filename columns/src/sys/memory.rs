//! Memory figures of the host, the container and this process, from `/proc` and the cgroup file system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directories that the figures are read from; tests substitute their own.
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

/// Memory that this process may use: that of its cgroup if one limits it, else that of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub total_bytes: u64,
    /// Used by everything that shares the total, without page cache that the kernel can drop.
    pub used_bytes: u64,
    /// Whether the total is a cgroup's limit.
    pub is_limited: bool,
}

impl Memory {
    /// Used share in percent, 0 to 100.
    pub fn used_percent(&self) -> f64 {
        if self.total_bytes == 0 { 0.0 } else { 100.0 * self.used_bytes as f64 / self.total_bytes as f64 }
    }
}

/// File names and fields of one cgroup version.
struct Version {
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// Memory that the kernel reclaims before it fails an allocation, as `MemAvailable` counts it: file pages and reclaimable slabs.
    droppable: &'static [&'static str],
}

const V2: Version = Version {
    mount: "",
    limit: "memory.max",
    usage: "memory.current",
    droppable: &["inactive_file", "active_file", "slab_reclaimable"],
};

const V1: Version = Version {
    mount: "memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    droppable: &["total_inactive_file", "total_active_file"],
};

fn invalid(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

/// Returns the value of `key` in lines of `key value` or `key: value kB`.
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
    /// Reads below these directories instead of `/proc` and `/sys/fs/cgroup`.
    pub fn at(proc: impl Into<PathBuf>, cgroup: impl Into<PathBuf>, page_bytes: u64) -> Sources {
        Sources { proc: proc.into(), cgroup: cgroup.into(), page_bytes }
    }

    /// Returns the memory that this process may use, and how much of it is used.
    ///
    /// # Errors
    /// `/proc/meminfo` is unreadable or lacks a figure. A missing cgroup is not an error.
    pub fn memory(&self) -> io::Result<Memory> {
        let path = self.proc.join("meminfo");
        let text = fs::read_to_string(&path)?;
        let total_bytes = field(&text, "MemTotal").ok_or_else(|| invalid(&path, "no MemTotal"))?;
        let available = field(&text, "MemAvailable").ok_or_else(|| invalid(&path, "no MemAvailable"))?;
        // Huge pages serve only processes that request them: count their pool neither as total nor as used.
        let pool = || Some(field(&text, "HugePages_Total")?.saturating_mul(field(&text, "Hugepagesize")?));
        let reserved = field(&text, "Hugetlb").or_else(pool).unwrap_or(0);
        let total_bytes = total_bytes.saturating_sub(reserved);
        let server = Memory { total_bytes, used_bytes: total_bytes.saturating_sub(available), is_limited: false };
        Ok(self.limited(total_bytes).unwrap_or(server))
    }

    /// Returns the figures of the tightest cgroup around this process with a limit below `server_bytes`.
    fn limited(&self, server_bytes: u64) -> Option<Memory> {
        let own = fs::read_to_string(self.proc.join("self/cgroup")).ok()?;
        let mut tightest: Option<Memory> = None;
        for line in own.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let version = match controllers {
                "" => &V2,
                controllers if controllers.split(',').any(|name| name == "memory") => &V1,
                _ => continue,
            };
            let found = self.limited_by(version, group.trim_matches('/'), server_bytes);
            tightest = [tightest, found].into_iter().flatten().min_by_key(|memory| memory.total_bytes);
        }
        tightest
    }

    fn limited_by(&self, version: &Version, group: &str, server_bytes: u64) -> Option<Memory> {
        let mut tightest: Option<Memory> = None;
        // A limit applies to all descendants, so check each directory up to the root. In a container the root may be the only one.
        for relative in Path::new(group).ancestors() {
            let directory = self.cgroup.join(version.mount).join(relative);
            let number = |name: &str| fs::read_to_string(directory.join(name)).ok()?.trim().parse::<u64>().ok();
            let Some(limit) = number(version.limit).filter(|limit| *limit < server_bytes) else { continue };
            if tightest.is_some_and(|tightest| tightest.total_bytes <= limit) {
                continue;
            }
            let stat = fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
            let droppable = version.droppable.iter().filter_map(|key| field(&stat, key)).fold(0, u64::saturating_add);
            let used_bytes = number(version.usage).unwrap_or(0).saturating_sub(droppable);
            tightest = Some(Memory { total_bytes: limit, used_bytes, is_limited: true });
        }
        tightest
    }

    /// Returns the resident bytes of this process without file pages, which the kernel can drop.
    ///
    /// # Errors
    /// `/proc/self/statm` is unreadable.
    pub fn own_bytes(&self) -> io::Result<u64> {
        let path = self.proc.join("self/statm");
        let text = fs::read_to_string(&path)?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok).ok_or_else(|| invalid(&path, "too few numbers"));
        let (_size, resident, shared) = (next()?, next()?, next()?);
        Ok(resident.saturating_sub(shared).saturating_mul(self.page_bytes))
    }
}

/// Most resident bytes that this process has had, file pages included; 0 where the system does not tell.
pub fn peak_bytes() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_ascii_whitespace().next()).and_then(|kib| kib.parse::<i64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Resident bytes of this process without file pages, as q programs read them; 0 where the system does not tell.
pub fn own_bytes() -> i64 {
    Sources::default().own_bytes().map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
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
    fn all_page_cache_and_slabs_that_can_be_reclaimed_count_as_free() {
        let fixture = Fixture::new("cache");
        fixture.write("proc/self/cgroup", "0::/\n");
        fixture.write("cgroup/memory.max", "400000\n");
        fixture.write("cgroup/memory.current", "390000\n");
        let stat = "anon 50000\nfile 300000\nactive_file 200000\ninactive_file 90000\nslab_reclaimable 30000\nslab_unreclaimable 20000\n";
        fixture.write("cgroup/memory.stat", stat);
        assert_eq!(fixture.sources().memory().expect("figures").used_bytes, 70_000);
    }

    #[test]
    fn a_limit_of_version_1_counts() {
        let fixture = Fixture::new("v1");
        fixture.write("proc/self/cgroup", "12:cpu,cpuacct:/a\n5:memory:/docker/abc\n0::/\n");
        // In a container the process's own group is the root of the mount.
        fixture.write("cgroup/memory/memory.limit_in_bytes", "400000\n");
        fixture.write("cgroup/memory/memory.usage_in_bytes", "300000\n");
        fixture.write(
            "cgroup/memory/memory.stat",
            "inactive_file 1\ntotal_inactive_file 60000\ntotal_active_file 40000\n",
        );
        let memory = fixture.sources().memory().expect("figures");
        assert_eq!(memory, Memory { total_bytes: 400_000, used_bytes: 200_000, is_limited: true });
    }

    #[test]
    fn a_pool_of_huge_pages_is_neither_used_nor_usable() {
        let fixture = Fixture::new("huge");
        let meminfo =
            "MemTotal: 1000 kB\nMemAvailable: 400 kB\nHugePages_Total: 10\nHugepagesize: 20 kB\nHugetlb: 200 kB\n";
        fixture.write("proc/meminfo", meminfo);
        let memory = fixture.sources().memory().expect("figures");
        assert_eq!((memory.total_bytes, memory.used_bytes), (819_200, 409_600));
        fixture.write("proc/meminfo", &meminfo.replace("Hugetlb: 200 kB\n", ""));
        assert_eq!(fixture.sources().memory().expect("figures"), memory);
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
    fn this_machine_reports_its_figures() {
        let sources = Sources::default();
        assert!(sources.memory().expect("figures").total_bytes > 0);
        assert!(sources.own_bytes().expect("figures") > 0);
        assert!(peak_bytes() > 0);
    }
}
