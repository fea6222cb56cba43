//! Figures of this process, as Linux tells them.

use std::fs;
use std::io;

/// What the process has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub resident_bytes: u64,
    /// User and system time of all threads.
    pub cpu_seconds: f64,
    /// From 1970.
    pub start_time_seconds: f64,
}

/// Reads them.
///
/// # Errors
/// `/proc` cannot be read, or lacks them.
pub fn figures() -> io::Result<Figures> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let system = fs::read_to_string("/proc/stat")?;
    let (ticks, page_bytes) = (rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64);
    parse(&stat, &system, ticks, page_bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat lacks its figures"))
}

fn parse(stat: &str, system: &str, ticks: u64, page_bytes: u64) -> Option<Figures> {
    // The second field is the program's name in parentheses and may hold anything; fields are counted behind it.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field 3 of proc(5) is the first here.
    let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse::<u64>().ok();
    let seconds = |ticks_used: u64| ticks_used as f64 / ticks.max(1) as f64;
    let boot = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok())?;
    Some(Figures {
        resident_bytes: field(24)?.saturating_mul(page_bytes),
        cpu_seconds: seconds(field(14)?.saturating_add(field(15)?)),
        start_time_seconds: boot as f64 + seconds(field(22)?),
    })
}

/// Open file descriptors. Newer kernels tell their number as the directory's size; else they are counted.
///
/// # Errors
/// `/proc` cannot be read.
pub fn open_fds() -> io::Result<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    match fs::metadata(DIRECTORY)?.len() {
        // The one that reads the directory is among them.
        0 => Ok((fs::read_dir(DIRECTORY)?.count() as u64).saturating_sub(1)),
        open => Ok(open),
    }
}

/// Most file descriptors that may be open; none for no limit.
pub fn max_fds() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_programs_name() {
        let stat =
            "12 (a b) c) S 1 1 1 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 4 0 3000 1000000 25 18446744073709551615 1";
        let figures = parse(stat, "cpu 1 2\nbtime 1700000000\n", 100, 4096).expect("figures");
        let expected = Figures { resident_bytes: 25 * 4096, cpu_seconds: 2.0, start_time_seconds: 1_700_000_030.0 };
        assert_eq!(figures, expected);
    }

    #[test]
    fn this_process_tells_its_figures() {
        let figures = figures().expect("figures");
        assert!(figures.resident_bytes > 0 && figures.start_time_seconds > 1e9);
        assert!(open_fds().expect("figures") >= 3);
    }

    #[test]
    fn text_without_figures_is_none() {
        assert_eq!(parse("12 (a) S 1 2", "btime 1\n", 100, 4096), None);
    }
}
