//! The item of a lease: attributes of the Java Lock Client, and two more.

use crate::lease::{Copies, Epoch, LeaseRecord};
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

/// Attributes of the Lock Client's items, all texts but the last.
pub const OWNER: &str = "ownerName";
pub const DURATION: &str = "leaseDuration";
pub const VERSION: &str = "recordVersionNumber";
/// Whether the owner has given the lease back: then it has the value [`IS_RELEASED`], otherwise it is absent.
pub const RELEASED: &str = "isReleased";
/// The value with which the Lock Client writes and expects it.
pub const IS_RELEASED: &str = "1";
/// Bytes of the owner's own.
pub const DATA: &str = "data";
/// Number of the lease, which never falls while the item exists. The Lock Client drops it when it replaces an item.
pub const FENCE: &str = "fence";
/// Process for which a released lease is kept.
pub const SUCCESSOR: &str = "successor";
/// Copies of the log that have every acknowledged update, a set of strings; absent where there is one log.
pub const COPIES: &str = "copies";
/// There while an operator has paused take-overs.
pub const PAUSED: &str = "paused";

const NANOSECONDS_PER_MS: u64 = 1_000_000;

pub type Item = HashMap<String, AttributeValue>;

/// Reads an item.
///
/// # Errors
/// Which attribute is missing or of another type: the item is not one of a lease.
pub fn record(item: &Item) -> Result<LeaseRecord, String> {
    let duration_ms: u64 = text(item, DURATION)?
        .parse()
        .map_err(|_| format!("its attribute {DURATION} is not a number of milliseconds in a string"))?;
    let epoch = epoch(item)?;
    let successor = if item.contains_key(SUCCESSOR) { Some(text(item, SUCCESSOR)?.to_string()) } else { None };
    Ok(LeaseRecord {
        owner: text(item, OWNER)?.to_string(),
        version: text(item, VERSION)?.to_string(),
        lease_ns: duration_ms.saturating_mul(NANOSECONDS_PER_MS),
        // With another value no client could take it as a released one; like this it ends by itself.
        is_released: item.get(RELEASED) == Some(&AttributeValue::S(IS_RELEASED.to_string())),
        successor,
        epoch,
        copies: copies(item)?,
        is_paused: item.contains_key(PAUSED),
    })
}

/// Reads the number of a lease; 0 if it has none.
///
/// # Errors
/// It is no number, or nobody could have a higher one.
pub fn epoch(item: &Item) -> Result<Epoch, String> {
    match item.get(FENCE) {
        None => Ok(Epoch::default()),
        Some(AttributeValue::N(number)) => {
            let epoch = number.parse().ok().and_then(Epoch::checked);
            epoch.ok_or_else(|| format!("its {FENCE} is {number}"))
        }
        Some(_) => Err(format!("its attribute {FENCE} is not a number")),
    }
}

/// Reads the copies that an item names.
///
/// # Errors
/// They are no set of strings.
pub fn copies(item: &Item) -> Result<Copies, String> {
    match item.get(COPIES) {
        None => Ok(Copies::default()),
        Some(AttributeValue::Ss(names)) => Ok(Copies::of(names.iter().cloned())),
        Some(_) => Err(format!("its attribute {COPIES} is not a set of strings")),
    }
}

/// A duration as the Lock Client writes it, rounded up.
pub fn duration(lease_ns: u64) -> String {
    lease_ns.div_ceil(NANOSECONDS_PER_MS).to_string()
}

fn text<'i>(item: &'i Item, name: &str) -> Result<&'i str, String> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Ok(text),
        Some(_) => Err(format!("its attribute {name} is not a string")),
        None => Err(format!("it has no attribute {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(attributes: &[(&str, AttributeValue)]) -> Item {
        attributes.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    fn s(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_string())
    }

    #[test]
    fn an_item_of_the_lock_client_is_a_record_without_a_number() {
        let item = item(&[("key", s("tick")), (OWNER, s("host-1")), (DURATION, s("20000")), (VERSION, s("uuid"))]);
        let expected = LeaseRecord {
            owner: "host-1".into(),
            version: "uuid".into(),
            lease_ns: 20_000_000_000,
            is_released: false,
            successor: None,
            epoch: Epoch(0),
            copies: Copies::default(),
            is_paused: false,
        };
        assert_eq!(record(&item), Ok(expected));
    }

    #[test]
    fn a_released_lease_has_the_value_with_which_it_can_be_taken() {
        let item = item(&[
            (OWNER, s("a")),
            (DURATION, s("1")),
            (VERSION, s("v")),
            (RELEASED, s("1")),
            (SUCCESSOR, s("b")),
            (FENCE, AttributeValue::N("7".into())),
        ]);
        let other = [item.clone(), self::item(&[(RELEASED, s("true"))])].into_iter().flatten().collect();
        assert!(!record(&other).unwrap().is_released);
        let record = record(&item).unwrap();
        assert!(record.is_released);
        assert_eq!((record.successor.as_deref(), record.epoch), (Some("b"), Epoch(7)));
    }

    #[test]
    fn an_item_of_another_kind_is_rejected_by_the_attribute() {
        let wrong = |attributes: &[(&str, AttributeValue)]| record(&item(attributes)).unwrap_err();
        assert_eq!(wrong(&[("name", s("x"))]), "it has no attribute leaseDuration");
        let duration = (DURATION, AttributeValue::N("20000".into()));
        assert_eq!(wrong(&[duration]), "its attribute leaseDuration is not a string");
        assert!(wrong(&[(DURATION, s("20 s"))]).contains("milliseconds"));
        let base = [(DURATION, s("1")), (OWNER, s("a")), (VERSION, s("v"))];
        let number = |text: &str| AttributeValue::N(text.into());
        let most = ("9223372036854775807", "its fence is 9223372036854775807");
        for (fence, reason) in
            [(s("7"), "is not a number"), (number("-1"), "its fence is -1"), (number(most.0), most.1)]
        {
            let item = [&base[..], &[(FENCE, fence)]].concat();
            assert!(wrong(&item).contains(reason));
        }
    }

    #[test]
    fn durations_are_rounded_up() {
        assert_eq!((duration(6_000_000_000), duration(1)), ("6000".to_string(), "1".to_string()));
    }
}
