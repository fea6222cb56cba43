//! The record of a lease as metadata of an object, one header each, and what a write makes of it.

use crate::config::decoded;
use crate::lease::{Copies, Epoch, LeaseRecord, LeaseWrite};
use crate::net::http_call::Reply;
use std::fmt::Write;

/// Longest value of a header that Swift keeps by default.
pub const MAX_VALUE_BYTES: usize = 256;
const OWNER: &str = "X-Object-Meta-Owner";
const VERSION: &str = "X-Object-Meta-Version";
/// In milliseconds.
const DURATION: &str = "X-Object-Meta-Duration";
/// Number of the lease.
const FENCE: &str = "X-Object-Meta-Fence";
/// [`YES`] or absent.
const RELEASED: &str = "X-Object-Meta-Released";
const SUCCESSOR: &str = "X-Object-Meta-Successor";
/// Separated by commas.
const COPIES: &str = "X-Object-Meta-Copies";
/// [`YES`] or absent.
const PAUSED: &str = "X-Object-Meta-Paused";
const YES: &str = "1";

const NANOSECONDS_PER_MS: u64 = 1_000_000;

/// Returns the headers that keep a record.
///
/// # Errors
/// Which value is too long for Swift.
pub fn fields(record: &LeaseRecord) -> Result<Vec<(&'static str, String)>, String> {
    let copies: Vec<String> = record.copies.names().map(|name| value(name)).collect();
    let all = [
        (OWNER, Some(value(&record.owner))),
        (VERSION, Some(value(&record.version))),
        (DURATION, Some(record.lease_ns.div_ceil(NANOSECONDS_PER_MS).to_string())),
        (FENCE, Some(record.epoch.to_string())),
        (RELEASED, record.is_released.then(|| YES.to_string())),
        (SUCCESSOR, record.successor.as_deref().map(value)),
        (COPIES, (!copies.is_empty()).then(|| copies.join(","))),
        (PAUSED, record.is_paused.then(|| YES.to_string())),
    ];
    let fields: Vec<_> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    match fields.iter().find(|(_, value)| value.len() > MAX_VALUE_BYTES) {
        Some((name, value)) => {
            Err(format!("{name} would have {} bytes, and Swift keeps {MAX_VALUE_BYTES}", value.len()))
        }
        None => Ok(fields),
    }
}

/// Reads a record.
///
/// # Errors
/// Which header is missing or wrong: the object is not a lease.
pub fn record(reply: &Reply) -> Result<LeaseRecord, String> {
    let duration_ms: u64 = number(reply, DURATION)?.ok_or_else(|| missing(DURATION))?;
    let copies = field(reply, COPIES).unwrap_or_default();
    let copies: Option<Vec<String>> = copies.split(',').filter(|name| !name.is_empty()).map(decoded).collect();
    Ok(LeaseRecord {
        owner: text(reply, OWNER)?.ok_or_else(|| missing(OWNER))?,
        version: text(reply, VERSION)?.ok_or_else(|| missing(VERSION))?,
        lease_ns: duration_ms.saturating_mul(NANOSECONDS_PER_MS),
        is_released: field(reply, RELEASED) == Some(YES),
        successor: text(reply, SUCCESSOR)?,
        epoch: number(reply, FENCE)?.and_then(Epoch::checked).ok_or_else(|| wrong(FENCE))?,
        copies: Copies::of(copies.ok_or_else(|| wrong(COPIES))?),
        is_paused: field(reply, PAUSED).is_some(),
    })
}

/// Returns the record that a write of `me` makes of the one before; `None` if its condition does not hold.
pub fn written(before: Option<&LeaseRecord>, write: &LeaseWrite, me: &str, lease_ns: u64) -> Option<LeaseRecord> {
    let own = |from: &String| before.filter(|old| old.version == *from && old.owner == me && !old.is_released);
    let named = |old: &LeaseRecord| write.copies().cloned().unwrap_or_else(|| old.copies.clone());
    let taken = |version: &String, epoch: Epoch, copies: Copies, is_paused: bool| LeaseRecord {
        owner: me.to_string(),
        version: version.clone(),
        lease_ns,
        is_released: false,
        successor: None,
        epoch,
        copies,
        is_paused,
    };
    Some(match write {
        LeaseWrite::Create { version, epoch, copies } => match before {
            None => taken(version, *epoch, copies.clone().unwrap_or_default(), false),
            Some(_) => return None,
        },
        LeaseWrite::Take { from, was_released, version, epoch, .. } => {
            let old = before.filter(|old| old.version == *from && old.epoch < *epoch)?;
            if *was_released && !old.is_released {
                return None;
            }
            taken(version, *epoch, named(old), old.is_paused)
        }
        LeaseWrite::Renew { from, version, .. } => {
            let old = own(from)?;
            LeaseRecord { version: version.clone(), lease_ns, copies: named(old), ..old.clone() }
        }
        LeaseWrite::Release { from, successor, .. } => {
            let old = own(from)?;
            LeaseRecord { is_released: true, successor: successor.clone(), copies: named(old), ..old.clone() }
        }
        LeaseWrite::Name { from, copies } => {
            let old = before.filter(|old| old.version == *from && old.is_released)?;
            LeaseRecord { copies: copies.clone(), ..old.clone() }
        }
        LeaseWrite::Pause(is_paused) => LeaseRecord { is_paused: *is_paused, ..before?.clone() },
    })
}

/// Replaces what is not plain in a header by `%XX`, and what separates values.
pub fn value(text: &str) -> String {
    escaped(text, |byte| byte.is_ascii_graphic() && byte != b'%' && byte != b',')
}

/// Returns the name of an object as part of a URL's path.
pub fn path(key: &str) -> String {
    escaped(key, |byte| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte))
}

fn escaped(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut escaped, byte| {
        match is_plain(byte) {
            true => escaped.push(char::from(byte)),
            // A string takes every write.
            false => drop(write!(escaped, "%{byte:02X}")),
        }
        escaped
    })
}

fn field<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
    reply.field(&name.to_ascii_lowercase())
}

fn text(reply: &Reply, name: &str) -> Result<Option<String>, String> {
    field(reply, name).map(|value| decoded(value).ok_or_else(|| wrong(name))).transpose()
}

fn number(reply: &Reply, name: &str) -> Result<Option<u64>, String> {
    field(reply, name).map(|value| value.parse().map_err(|_| wrong(name))).transpose()
}

fn missing(name: &str) -> String {
    format!("it has no {name}")
}

fn wrong(name: &str) -> String {
    format!("its {name} makes no sense")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> LeaseRecord {
        LeaseRecord {
            owner: "tick 1:5010/8d".into(),
            version: "tick 1:5010/8d#1".into(),
            lease_ns: 3_000_000_000,
            is_released: false,
            successor: None,
            epoch: Epoch(7),
            copies: Copies::default(),
            is_paused: false,
        }
    }

    fn reply(record: &LeaseRecord) -> Reply {
        let fields = fields(record).unwrap();
        Reply {
            status: 200,
            fields: fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect(),
        }
    }

    #[test]
    fn records_survive_their_headers() {
        let copies = Copies::of(["log:sym/12".to_string(), "a,b%/\u{e9}\r\n".to_string()]);
        let full =
            LeaseRecord { is_released: true, successor: Some("b:1/9".into()), copies, is_paused: true, ..lease() };
        for of in [lease(), full] {
            let reply = reply(&of);
            assert!(reply.fields.iter().all(|(_, value)| value.bytes().all(|byte| byte.is_ascii_graphic())));
            assert_eq!(record(&reply), Ok(of));
        }
    }

    #[test]
    fn values_that_swift_would_reject_are_named() {
        let long = LeaseRecord { owner: "\u{e9}".repeat(43), ..lease() };
        assert_eq!(fields(&long), Err("X-Object-Meta-Owner would have 258 bytes, and Swift keeps 256".to_string()));
    }

    #[test]
    fn objects_of_another_kind_are_rejected_by_the_header() {
        let wrong = |name: &str, value: Option<&str>| {
            let mut reply = reply(&lease());
            reply.fields.retain(|(own, _)| own != name);
            reply.fields.extend(value.map(|value| (name.to_string(), value.to_string())));
            record(&reply).unwrap_err()
        };
        assert_eq!(wrong("x-object-meta-owner", None), "it has no X-Object-Meta-Owner");
        for (name, value) in
            [("duration", "6 s"), ("fence", "9223372036854775807"), ("fence", ""), ("version", "%zz"), ("copies", "%")]
        {
            let error = wrong(&format!("x-object-meta-{name}"), Some(value));
            assert!(error.ends_with("makes no sense"), "{error}");
        }
    }

    #[test]
    fn a_write_needs_its_condition() {
        let (version, from) = ("v2".to_string(), lease().version);
        let (me, old) = (lease().owner, lease());
        let released = LeaseRecord { is_released: true, ..lease() };
        let after = |before: Option<&LeaseRecord>, write: &LeaseWrite, me: &str| written(before, write, me, 1_000_000);
        let create = LeaseWrite::Create { version: version.clone(), epoch: Epoch(1), copies: None };
        assert!(after(None, &create, "b").is_some_and(|new| new.owner == "b" && new.epoch == Epoch(1)));
        assert_eq!(after(Some(&released), &create, "b"), None);
        let take = |epoch, was_released| LeaseWrite::Take {
            from: from.clone(),
            was_released,
            version: version.clone(),
            epoch: Epoch(epoch),
            copies: None,
        };
        assert!(after(Some(&released), &take(8, true), "b").is_some_and(|new| !new.is_released && new.owner == "b"));
        assert_eq!(after(Some(&old), &take(8, true), "b"), None);
        assert!(after(Some(&old), &take(8, false), "b").is_some());
        assert_eq!(after(Some(&old), &take(7, false), "b"), None, "the number only grows");
        assert_eq!(after(None, &take(8, false), "b"), None);
        let renew = LeaseWrite::Renew { from: from.clone(), version: version.clone(), copies: None };
        assert!(after(Some(&old), &renew, &me).is_some_and(|new| new.version == "v2" && new.epoch == Epoch(7)));
        assert_eq!(after(Some(&old), &renew, "b"), None);
        assert_eq!(after(Some(&released), &renew, &me), None);
        let release = LeaseWrite::Release { from: from.clone(), successor: Some("b".into()), copies: None };
        let gone = after(Some(&old), &release, &me).unwrap();
        assert_eq!((gone.is_released, gone.successor.as_deref(), gone.version), (true, Some("b"), from.clone()));
        let name = LeaseWrite::Name { from, copies: Copies::any() };
        assert!(after(Some(&released), &name, "").is_some_and(|new| new.copies.are_any()));
        assert_eq!(after(Some(&old), &name, ""), None);
        assert!(after(Some(&old), &LeaseWrite::Pause(true), "").is_some_and(|new| new.is_paused));
        assert_eq!(after(None, &LeaseWrite::Pause(true), ""), None);
    }

    #[test]
    fn keys_are_paths() {
        assert_eq!(path("a b/\u{e9}?#%"), "a%20b/%C3%A9%3F%23%25");
    }
}
