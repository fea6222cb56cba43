//! Parsers for sizes, times, percentages and names. Each error says what is expected.

use super::address::{Address, Listen};
use super::addresses::Addresses;
use super::durability::{ChangedBlocks, Damage, Durability, ReplicaMissing};
use super::lease::{LeaseFence, LeaseUrl};
use super::mount::RequiredMount;
use super::owner_lease::OwnerUrl;
use super::tls::TlsMode;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Civil time of the day roll, and its time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct RollTime {
    pub time: Time,
    pub zone: TimeZone,
}

/// When a node requests its successor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// From the rate of bytes per second, the free memory and the measured lead time.
    Auto,
    /// At this percentage of memory.
    At(f64),
}

/// Fleet of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetKind {
    /// The supervisor that started the process, if there is one.
    Auto,
    /// The supervisor that started the process.
    Local,
    /// A supervisor at this address.
    At(Address),
    /// The Auto Scaling group of the EC2 instance.
    Aws,
    /// No fleet: requests are only logged.
    Nobody,
}

/// Protocol of a node's tickerplant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Detected by the node.
    Auto,
    /// elastick's own.
    Elastick,
    /// The paper's `.u.asg` in q.
    Paper,
    /// kdb+tick without a queue.
    Stock,
}

/// Splits `12.5ms` into the number and the unit.
fn number_and_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// Multiplies a number with at most nine decimals by a factor, exactly; `None` if it is not a number or does not fit.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) || (whole.is_empty() && fraction.is_empty())
    {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let tail: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let total = u128::from(whole).checked_mul(u128::from(factor))? + tail * u128::from(factor) / scale;
    u64::try_from(total).ok()
}

fn bytes_with(text: &str, no_unit: u64) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => Some(no_unit),
        "b" => Some(1),
        "k" | "kib" => Some(1 << 10),
        "m" | "mib" => Some(1 << 20),
        "g" | "gib" => Some(1 << 30),
        "t" | "tib" => Some(1 << 40),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        "tb" => Some(1_000_000_000_000),
        _ => None,
    };
    factor
        .and_then(|factor| scaled(number, factor))
        .ok_or_else(|| format!("{text:?} is not a size; write it like 64KiB, 512MB or 2GiB"))
}

/// Parses a size in bytes: `65536`, `64KiB`, `2GiB`, `512MB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    bytes_with(text, 1)
}

/// Least memory limit of a process. A smaller size lacks its unit.
const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// Parses the memory limit of a process: 0, or a size of at least 1 MiB.
pub fn memory(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        size @ 1..MIN_MEMORY_BYTES if text.trim().bytes().all(|byte| byte.is_ascii_digit()) => Err(format!(
            "{text:?} is {size} bytes, too little for a process; write the unit, like {size}GiB or {size}MiB"
        )),
        1..MIN_MEMORY_BYTES => Err(format!("{text:?} is too little for a process: at least 1MiB")),
        size => Ok(size),
    }
}

/// Parses a size; a bare number is in MB of 2^20 bytes, as in kdb+'s `-w`.
pub fn mebibytes(text: &str) -> Result<u64, String> {
    bytes_with(text, 1 << 20)
}

fn duration_with(text: &str, no_unit_ns: Option<u64>) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text);
    let factor = match unit {
        "" if scaled(number, 1) == Some(0) => Some(1),
        "" => no_unit_ns,
        "ns" => Some(1),
        "us" | "µs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" | "min" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        "d" => Some(86_400_000_000_000),
        _ => None,
    };
    factor
        .and_then(|factor| scaled(number, factor))
        .map(Duration::from_nanos)
        .ok_or_else(|| format!("{text:?} is not a time; write it like 5ms, 2s, 10m, 1h or 1d"))
}

/// Accepts any text, including an empty one.
pub fn text(text: &str) -> Result<String, String> {
    Ok(text.to_string())
}

/// Parses a time with its unit: `5ms`, `2s`, `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration_with(text, None)
}

/// As [`duration`], in nanoseconds.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    let time = duration(text)?;
    u64::try_from(time.as_nanos()).map_err(|_| format!("{text:?} is too long"))
}

/// Parses a date in kdb+ or ISO 8601 format.
pub fn date(text: &str) -> Result<jiff::civil::Date, String> {
    text.replace('.', "-").parse().map_err(|_| format!("{text:?} is not a date; write it like 2026.11.21"))
}

/// Parses a time; a bare number is in milliseconds, as in kdb+'s `-t`.
pub fn millis(text: &str) -> Result<Duration, String> {
    duration_with(text, Some(1_000_000))
}

/// As [`millis`], but only whole milliseconds.
pub fn whole_millis(text: &str) -> Result<Duration, String> {
    let time = millis(text)?;
    match time.subsec_nanos() % 1_000_000 {
        0 if time.as_millis() <= i32::MAX.unsigned_abs().into() => Ok(time),
        _ => Err(format!("{text:?} is not a whole number of milliseconds up to {}", i32::MAX)),
    }
}

/// Parses a time; a bare number is in seconds, as in kdb+'s `-T`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    duration_with(text, Some(1_000_000_000))
}

/// Parses a percentage from 0 to 100: `85%` or `85`. A bare fraction like `0.6` is rejected: it may stand for 60 % as well as for 0.6 %.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 && !text.contains('%') => {
            let hundredfold = format!("{:.6}", value * 100.0);
            let hundredfold = hundredfold.trim_end_matches('0').trim_end_matches('.');
            Err(format!(
                "{text:?} may mean 0.{}% or {hundredfold}%; write one of the two",
                number.trim_start_matches('0').trim_start_matches('.')
            ))
        }
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is not a percentage from 0 to 100; write it like 85%")),
    }
}

/// Parses `auto` or a percentage.
pub fn scale(text: &str) -> Result<Scale, String> {
    if text.trim() == "auto" {
        return Ok(Scale::Auto);
    }
    percent(text).map(Scale::At).map_err(|error| format!("{error}, or auto"))
}

/// Parses `auto`, `elastick`, `paper` or `stock`.
pub fn protocol(text: &str) -> Result<Protocol, String> {
    match text.trim() {
        "auto" => Ok(Protocol::Auto),
        "elastick" => Ok(Protocol::Elastick),
        "paper" => Ok(Protocol::Paper),
        "stock" => Ok(Protocol::Stock),
        _ => Err(format!("{text:?} is not a protocol; use auto, elastick, paper or stock")),
    }
}

/// Parses a kind of fleet, or a supervisor's address.
pub fn fleet(text: &str) -> Result<FleetKind, String> {
    Ok(match text {
        "auto" => FleetKind::Auto,
        "local" => FleetKind::Local,
        "aws" => FleetKind::Aws,
        "none" => FleetKind::Nobody,
        address if address.contains(':') => FleetKind::At(address.parse()?),
        _ => return Err(format!("{text:?} is not a fleet; use auto, local, aws, none, or a supervisor's host:port")),
    })
}

/// Parses a whole number; underscores are ignored.
pub fn count(text: &str) -> Result<u64, String> {
    let digits: String = text.trim().chars().filter(|c| *c != '_').collect();
    digits.parse().map_err(|_| format!("{text:?} is not a whole number"))
}

/// Parses a number of days, from 1.
pub fn days(text: &str) -> Result<u32, String> {
    text.trim().parse().ok().filter(|days| *days > 0).ok_or_else(|| format!("{text:?} is not a number of days from 1"))
}

/// Parses a number of zero or more, with an optional fraction.
pub fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("{text:?} is not a number of at least 0")),
    }
}

/// Parses a number above zero.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text).ok().filter(|value| *value > 0.0).ok_or_else(|| format!("{text:?} is not a number above 0"))
}

/// Accepts any text except the empty one.
pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_string()) } else { Ok(text.to_string()) }
}

/// Parses names separated by commas; the empty text gives none.
pub fn names(text: &str) -> Result<Vec<String>, String> {
    Ok(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect())
}

/// Parses the names of rights that clients may get.
pub fn grants(text: &str) -> Result<Vec<String>, String> {
    let names = names(text)?;
    match names.iter().find(|name| !matches!(name.as_str(), "files" | "sockets" | "system")) {
        Some(other) => Err(format!("{other:?} is not a right; use files, sockets, system")),
        None => Ok(names),
    }
}

/// Parses a path; any text except the empty one.
pub fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path must not be empty".to_string()) } else { Ok(PathBuf::from(text)) }
}

/// Parses a switch in the environment or a file.
pub fn switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(format!("{text:?} is not a boolean; use true or false")),
    }
}

fn number_within(text: &str, range: std::ops::RangeInclusive<i64>) -> Result<String, String> {
    let number = text.trim().parse::<i64>().ok().filter(|number| range.contains(number));
    number
        .map(|n| n.to_string())
        .ok_or_else(|| format!("{text:?} is not a number from {} to {}", range.start(), range.end()))
}

/// kdb+'s `-z`.
pub fn date_order(text: &str) -> Result<String, String> {
    number_within(text, 0..=1)
}

/// kdb+'s `-W`.
pub fn week_start(text: &str) -> Result<String, String> {
    number_within(text, 0..=6)
}

/// kdb+'s `-P`.
pub fn precision(text: &str) -> Result<String, String> {
    number_within(text, 0..=17)
}

/// kdb+'s `-c` and `-C`: rows and columns.
pub fn size(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} is not a console size; write rows and columns from 10 to 2000, like 25 80");
    let (rows, columns) = text.trim().split_once(' ').ok_or_else(wrong)?;
    let number = |text| number_within(text, 10..=2000).map_err(|_| wrong());
    Ok(format!("{} {}", number(rows)?, number(columns)?))
}

/// kdb+'s `-g`.
pub fn collection(text: &str) -> Result<(), String> {
    number_within(text, 0..=1).map(drop)
}

/// kdb+'s `-e`.
pub fn error_trap(text: &str) -> Result<(), String> {
    match text.trim() {
        "0" => Ok(()),
        "1" => Err(
            "-e 1 suspends kdb+ in its debugger at an error of a client's query, which would stop this server: run \
             the query in `elastick q`, which has the debugger"
                .to_string(),
        ),
        "2" => Err(
            "-e 2 (print the stack of a client's error) is not supported; ELASTICK_LOG=debug logs errors of queries"
                .to_string(),
        ),
        _ => Err(format!("{text:?} is not 0")),
    }
}

/// kdb+'s `-S`.
pub fn seed_refused(_: &str) -> Result<(), String> {
    Err("-S (seed of random numbers) is not supported: queries run on several threads, each with its own random \
         numbers"
        .to_string())
}

/// kdb+'s `-o`.
pub fn offset_refused(_: &str) -> Result<(), String> {
    Err("-o (UTC offset) is not supported: set the environment variable TZ (like TZ=Europe/Zurich), and --roll-time for the end of the day"
        .to_string())
}

/// kdb+'s `-l` and `-L`.
pub fn logging_refused(_: &str) -> Result<(), String> {
    Err("-l and -L (log messages that change data) are not supported: `elastick tick SRC DIR` logs every update in \
         DIR, and --durability sets when it is on disk"
        .to_string())
}

/// kdb+'s `-r`.
pub fn replicate_refused(_: &str) -> Result<(), String> {
    Err("-r (replicate a process that logs with -l) is not supported: `elastick rdb HOST:PORT` subscribes to the tickerplant at that address"
        .to_string())
}

/// kdb+'s `-m`.
pub fn memory_refused(_: &str) -> Result<(), String> {
    Err("-m (second memory domain on a file system) is not supported: limit memory with --memory or -w".to_string())
}

/// kdb+'s `-s` on a tickerplant.
pub fn threads_refused(_: &str) -> Result<(), String> {
    Err("-s (threads for peach) is not supported: a tickerplant's queries use one thread each. Query a node, which has -s".to_string())
}

/// kdb+'s `-C` on a tickerplant.
pub fn pages_refused(_: &str) -> Result<(), String> {
    Err("-C (size of tables in web pages) is not supported: a tickerplant serves no such pages. Query a node whose start-up file sets .z.ph".to_string())
}

/// kdb+'s `-E`.
pub fn tls(text: &str) -> Result<TlsMode, String> {
    match text.trim() {
        "0" => Ok(TlsMode::Off),
        "1" => Ok(TlsMode::Both),
        "2" => Ok(TlsMode::Only),
        _ => Err(format!("{text:?} is not 0 (plain), 1 (plain and TLS) or 2 (TLS only)")),
    }
}

/// The YES and NO of kdb+'s `SSL_VERIFY_…`. Other words are rejected: one of them could be meant either way.
pub fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_uppercase().as_str() {
        "YES" => Ok(true),
        "NO" => Ok(false),
        _ => Err(format!("{text:?} is not YES or NO")),
    }
}

/// URL of a lease.
pub fn lease(text: &str) -> Result<LeaseUrl, String> {
    text.parse()
}

pub fn lease_fence(text: &str) -> Result<LeaseFence, String> {
    text.parse()
}

pub fn owner_lease(text: &str) -> Result<OwnerUrl, String> {
    text.parse()
}

pub fn durability(text: &str) -> Result<Durability, String> {
    text.parse()
}

pub fn replica_missing(text: &str) -> Result<ReplicaMissing, String> {
    text.parse()
}

pub fn damage(text: &str) -> Result<Damage, String> {
    text.parse()
}

pub fn changed_blocks(text: &str) -> Result<ChangedBlocks, String> {
    text.parse()
}

pub fn required_mount(text: &str) -> Result<RequiredMount, String> {
    text.parse()
}

pub fn address(text: &str) -> Result<Address, String> {
    text.parse()
}

pub fn addresses(text: &str) -> Result<Addresses, String> {
    text.parse()
}

pub fn listen(text: &str) -> Result<Listen, String> {
    text.parse()
}

/// Names of UTC, which need no time zone database; small containers lack one.
const UTC_NAMES: [&str; 13] = [
    "UTC",
    "Etc/UTC",
    "UCT",
    "Etc/UCT",
    "Zulu",
    "Etc/Zulu",
    "Universal",
    "Etc/Universal",
    "GMT",
    "Etc/GMT",
    "GMT0",
    "Etc/GMT0",
    "Greenwich",
];

fn is_utc(name: &OsStr) -> bool {
    // A leading colon marks the name of a zone, as opposed to a POSIX rule.
    let name = name.to_str().map(|name| name.strip_prefix(':').unwrap_or(name));
    name.is_some_and(|name| UTC_NAMES.contains(&name))
}

pub(super) fn zone_named(name: &str) -> Result<TimeZone, String> {
    match TimeZone::get(name) {
        Ok(zone) => Ok(zone),
        Err(_) if is_utc(OsStr::new(name)) => Ok(TimeZone::UTC),
        Err(_) => Err(format!(
            "{name:?} is not a known time zone: write it like Europe/Zurich, and check that the time zone database \
             (package tzdata) is installed"
        )),
    }
}

/// Returns the local time zone: the environment variable `TZ`, else the system's zone, else UTC.
///
/// # Errors
/// `TZ` is set to an unknown zone: with UTC instead, every day would end at the wrong hour.
pub fn system_zone() -> Result<TimeZone, String> {
    let set = std::env::var_os("TZ").filter(|value| !value.is_empty());
    match (TimeZone::try_system(), set) {
        (Ok(zone), _) => Ok(zone),
        (Err(_), Some(value)) if is_utc(&value) => Ok(TimeZone::UTC),
        (Err(_), Some(value)) => Err(format!(
            "environment variable TZ is {value:?}, which is not a known time zone: correct it, unset it to use the \
             system's zone, or install the time zone database (package tzdata)"
        )),
        (Err(_), None) => Ok(TimeZone::UTC),
    }
}

/// Parses `17:00` or `17:00:30 America/New_York`.
pub fn roll_time(text: &str) -> Result<RollTime, String> {
    let (time, zone) = match text.trim().split_once(char::is_whitespace) {
        Some((time, zone)) => (time, Some(zone.trim())),
        None => (text.trim(), None),
    };
    let time: Time =
        time.parse().map_err(|_| format!("{time:?} is not a time of day; write it like \"17:00 America/New_York\""))?;
    let zone = match zone {
        None => system_zone()?,
        Some(name) => zone_named(name)?,
    };
    Ok(RollTime { time, zone })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes("512MB"), Ok(512_000_000));
        assert_eq!(bytes("7"), Ok(7));
        assert_eq!(mebibytes("100"), Ok(100 << 20));
    }

    #[test]
    fn sizes_that_do_not_fit_or_have_no_number_are_rejected() {
        for text in ["", "GiB", "-1", "1e9", "99999999999TiB", "1.2.3k", "5 parsecs"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_needs_a_unit_unless_the_option_has_one_of_its_own() {
        assert_eq!(duration("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("5").is_err());
        assert_eq!(millis("100"), Ok(Duration::from_millis(100)));
        assert_eq!(seconds("30"), Ok(Duration::from_secs(30)));
    }

    #[test]
    fn percentages_may_carry_their_sign() {
        assert_eq!(percent("85%"), Ok(85.0));
        assert_eq!(percent("60"), Ok(60.0));
        assert!(percent("101%").is_err());
        assert!(percent("NaN").is_err());
        assert_eq!(scale("auto"), Ok(Scale::Auto));
    }

    #[test]
    fn a_bare_fraction_is_questioned() {
        assert_eq!(percent("0.6"), Err("\"0.6\" may mean 0.6% or 60%; write one of the two".to_string()));
        assert_eq!(scale(".575"), Err("\".575\" may mean 0.575% or 57.5%; write one of the two, or auto".to_string()));
        assert_eq!(
            (percent("0.6%"), percent("60%"), percent("0"), percent("1")),
            (Ok(0.6), Ok(60.0), Ok(0.0), Ok(1.0))
        );
    }

    #[test]
    fn memory_without_a_unit_is_questioned() {
        assert!(memory("4").unwrap_err().contains("4 bytes") && memory("4").unwrap_err().contains("4GiB"));
        assert!(memory("4KiB").is_err());
        assert_eq!((memory("0"), memory("1MiB"), memory("4294967296")), (Ok(0), Ok(1 << 20), Ok(4 << 30)));
    }

    #[test]
    fn numbers_are_finite_and_not_negative() {
        assert_eq!((number("0"), positive("2.5")), (Ok(0.0), Ok(2.5)));
        assert!(positive("0").is_err());
        for text in ["-1", "inf", "NaN", "x"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn utc_needs_no_time_zone_database() {
        for name in UTC_NAMES {
            assert!(is_utc(OsStr::new(name)) && is_utc(OsStr::new(&format!(":{name}"))), "{name}");
        }
        for name in ["", ":", "Etc/GMT-1", "utc+1", "Europe/London"] {
            assert!(!is_utc(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn roll_times_have_a_zone() {
        let roll = roll_time("17:00 UTC").unwrap();
        assert_eq!((roll.time.hour(), roll.time.minute()), (17, 0));
        assert!(roll_time("25:00").is_err());
        assert!(roll_time("17:00 Mars/Olympus").is_err());
    }
}
