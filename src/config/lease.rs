//! `--lease`: where the lease is kept by which one of several tickerplants is active.

use super::swift::SwiftLease;
use super::units;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Scheme of a lease in a DynamoDB table.
const DYNAMODB: &str = "dynamodb://";
/// Scheme of a lease under Admiral's rules.
const ADMIRAL: &str = "admiral:";
/// Scheme of a lease in Swift.
const SWIFT: &str = "swift://";
/// Default duration: another tickerplant takes over some tenths of a second after it.
pub(super) const DURATION: Duration = Duration::from_secs(6);
/// Renewals within a duration, by default.
pub(super) const HEARTBEATS: u32 = 6;
/// Longest duration: a lease that nobody renews keeps everyone waiting for it.
pub const MAX_DURATION: Duration = Duration::from_secs(600);
/// Name of the partition key in the Java Lock Client's tables, by default.
const KEY_NAME: &str = "key";
/// DynamoDB's longest partition key and sort key, and the longest name of an attribute.
const MAX_KEY_BYTES: usize = 2048;
const MAX_SORT_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 255;

/// Where a lease is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseUrl {
    /// The lock of the log itself.
    File,
    Table(Box<LeaseTable>),
    /// The record of Admiral's configuration file at this path.
    Admiral(PathBuf),
    /// An object of Swift, which lacks conditional writes: needs [`LeaseFence`].
    Swift(Box<SwiftLease>),
}

/// `--lease-fence`: what keeps a tickerplant from writing that only believes that it has the lease. There is one: the lock and the epoch of the log's
/// common directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseFence;

impl FromStr for LeaseFence {
    type Err = String;

    fn from_str(text: &str) -> Result<LeaseFence, String> {
        match text {
            "file:" => Ok(LeaseFence),
            _ => Err(format!("{text:?} is not a fence: file: (the lock and the epoch of the log's directory)")),
        }
    }
}

/// An item of a DynamoDB table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTable {
    /// As it was written.
    text: String,
    pub table: String,
    pub key_name: String,
    pub key: String,
    /// Name and value of the sort key, if the table has one.
    pub sort: Option<(String, String)>,
    pub region: Option<String>,
    pub endpoint: Option<String>,
    pub duration: Duration,
    pub heartbeat: Duration,
}

impl FromStr for LeaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<LeaseUrl, String> {
        if text == "file:" {
            return Ok(LeaseUrl::File);
        }
        if let Some(path) = text.strip_prefix(ADMIRAL) {
            return match path {
                "" => Err(format!("{text:?}: there is no file; write it like admiral:FILE.yaml")),
                path => Ok(LeaseUrl::Admiral(path.into())),
            };
        }
        if let Some(rest) = text.strip_prefix(SWIFT) {
            return Ok(LeaseUrl::Swift(Box::new(SwiftLease::read(text, rest)?)));
        }
        let Some(rest) = text.strip_prefix(DYNAMODB) else {
            return Err(format!(
                "{text:?} is not a lease: file: (the lock of the log's directory), dynamodb://TABLE/KEY, admiral:FILE.yaml or \
                 swift://HOST/CONTAINER/KEY"
            ));
        };
        let wrong = |what: &str| format!("{text:?}: {what}; write it like dynamodb://TABLE/KEY?region=eu-west-1");
        let (path, asked) = rest.split_once('?').unwrap_or((rest, ""));
        let (table, key) = path.split_once('/').ok_or_else(|| wrong("there is no key"))?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if !(3..=255).contains(&table.len()) || !table.bytes().all(is_name) {
            return Err(wrong("a table's name has 3 to 255 letters, digits, _, - or ."));
        }
        let mut of = LeaseTable {
            text: text.to_string(),
            table: table.to_string(),
            key_name: KEY_NAME.to_string(),
            key: decoded(key).filter(|key| sized(key, MAX_KEY_BYTES)).ok_or_else(|| wrong("the key"))?,
            sort: None,
            region: None,
            endpoint: None,
            duration: DURATION,
            heartbeat: Duration::ZERO,
        };
        let (mut sort_name, mut sort) = (None, None);
        for (name, value) in parameters(asked).map_err(|name| wrong(&format!("{name} has no value")))? {
            match name {
                "region" => of.region = Some(value),
                "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                    of.endpoint = Some(value)
                }
                "endpoint" => return Err(wrong("endpoint must begin with https:// or http://")),
                "duration" => of.duration = units::duration(&value)?,
                "heartbeat" => of.heartbeat = units::duration(&value)?,
                "key-name" if sized(&value, MAX_NAME_BYTES) => of.key_name = value,
                "sort-name" if sized(&value, MAX_NAME_BYTES) => sort_name = Some(value),
                "sort" if sized(&value, MAX_SORT_BYTES) => sort = Some(value),
                "key-name" | "sort-name" | "sort" => return Err(wrong(&format!("{name} is too long"))),
                _ => {
                    return Err(wrong(&format!(
                        "{name:?} is none of region, endpoint, duration, heartbeat, key-name, sort-name, sort"
                    )));
                }
            }
        }
        of.sort = match (sort_name, sort) {
            (Some(name), Some(value)) => Some((name, value)),
            (None, None) => None,
            _ => return Err(wrong("sort-name and sort belong together")),
        };
        if of.duration > MAX_DURATION {
            return Err(wrong("the longest duration is 10m"));
        }
        // The Lock Client's durations are whole milliseconds.
        if !of.duration.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(wrong("the duration is not a whole number of milliseconds"));
        }
        if of.heartbeat.is_zero() {
            of.heartbeat = of.duration / HEARTBEATS;
        }
        Ok(LeaseUrl::Table(Box::new(of)))
    }
}

impl fmt::Display for LeaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseUrl::File => f.write_str("file:"),
            LeaseUrl::Table(table) => f.write_str(&table.text),
            LeaseUrl::Admiral(path) => write!(f, "{ADMIRAL}{}", path.display()),
            LeaseUrl::Swift(lease) => f.write_str(&lease.text),
        }
    }
}

fn sized(text: &str, max_bytes: usize) -> bool {
    !text.is_empty() && text.len() <= max_bytes
}

/// Reads the part of a URL after its question mark: names with their values, none of which is empty.
///
/// # Errors
/// The name whose value is missing, or is not text.
pub(super) fn parameters(text: &str) -> Result<Vec<(&str, String)>, &str> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    let read = |part| {
        let (name, value) = str::split_once(part, '=').unwrap_or((part, ""));
        decoded(value).filter(|value| !value.is_empty()).map(|value| (name, value)).ok_or(name)
    };
    parts.map(read).collect()
}

/// Replaces `%XX` by its byte.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.push(digit()? << 4 | digit()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> LeaseTable {
        match text.parse() {
            Ok(LeaseUrl::Table(table)) => *table,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_table_and_a_key_are_enough() {
        let of = table("dynamodb://leases/tick");
        assert_eq!((of.table.as_str(), of.key_name.as_str(), of.key.as_str()), ("leases", "key", "tick"));
        assert_eq!((of.duration, of.heartbeat), (Duration::from_secs(6), Duration::from_secs(1)));
        assert_eq!((of.region, of.endpoint, of.sort), (None, None, None));
    }

    #[test]
    fn every_parameter_is_read_and_keys_may_be_escaped() {
        let text = "dynamodb://my.leases/a%2Fb%3f?region=eu-west-1&endpoint=http://127.0.0.1:8000&duration=20s&heartbeat=5s\
                    &key-name=id&sort-name=part&sort=0";
        let of = table(text);
        assert_eq!((of.key.as_str(), of.key_name.as_str()), ("a/b?", "id"));
        assert_eq!(of.sort, Some(("part".to_string(), "0".to_string())));
        assert_eq!((of.region.as_deref(), of.endpoint.as_deref()), (Some("eu-west-1"), Some("http://127.0.0.1:8000")));
        assert_eq!((of.duration, of.heartbeat), (Duration::from_secs(20), Duration::from_secs(5)));
        assert_eq!(LeaseUrl::Table(Box::new(of)).to_string(), text);
    }

    #[test]
    fn the_heartbeat_follows_the_duration() {
        assert_eq!(table("dynamodb://leases/tick?duration=3s").heartbeat, Duration::from_millis(500));
    }

    #[test]
    fn wrong_urls_are_rejected_with_the_reason() {
        for (text, reason) in [
            ("redis://x/y", "is not a lease"),
            ("swift://host/leases", "there is no key"),
            ("swift:host/leases/k", "is not a lease"),
            ("dynamodb://leases", "there is no key"),
            ("dynamodb://leases/", "the key"),
            ("dynamodb://a b/tick", "letters, digits"),
            ("dynamodb://leases/%zz", "the key"),
            ("dynamodb://leases/tick?regoin=x", "\"regoin\" is none of region"),
            ("dynamodb://leases/tick?duration=11m", "the longest duration"),
            ("dynamodb://leases/tick?duration=1500us", "whole number of milliseconds"),
            ("dynamodb://leases/tick?sort=1", "belong together"),
            ("dynamodb://leases/tick?endpoint=127.0.0.1", "must begin with"),
        ] {
            let error = text.parse::<LeaseUrl>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert_eq!("file:".parse(), Ok(LeaseUrl::File));
        assert_eq!("admiral:a/b.yaml".parse(), Ok(LeaseUrl::Admiral("a/b.yaml".into())));
        assert!("admiral:".parse::<LeaseUrl>().is_err());
        assert_eq!("file:".parse(), Ok(LeaseFence));
        assert!("none".parse::<LeaseFence>().is_err_and(|error| error.contains("is not a fence")));
    }
}
