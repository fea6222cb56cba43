//! Admiral's record ("Dynamo DB based DR sample"): its pods and elastick respect one another's leases.
//!
//! A pod of Admiral reads the record at each interval, and puts it without a condition: if it is its own, if there is none, or if its time is older than
//! so many intervals by the pod's clock. Here every write has a condition, no time of another clock counts, and the record is updated, so that
//! attributes of our own stay: which process has it, its version, and the number of the lease. A pod that takes over drops them, and the record is
//! known as another's. A pod may still put its record over a renewal that it has not read: the next renewal is refused then, and the log's own fence
//! keeps the two apart until it is noticed.

use super::item::{FENCE, Item, PAUSED, SUCCESSOR, VERSION};
use super::layout::Layout;
use super::request::Request;
use crate::config::{Admiral, SKIP_LEASE_POD};
use crate::lease::{Epoch, LeaseRecord, LeaseWrite, OwnerName};
use aws_sdk_dynamodb::types::AttributeValue;
use std::time::{SystemTime, UNIX_EPOCH};

/// The paper's attributes. The owner is absent while nobody has the lease, which its pods read as an empty text.
const NAME: &str = "leaseName";
const OWNER: &str = "leaseOwner";
/// Seconds since 1970, by the clock of the writer.
const UPDATED: &str = "updatedTime";
const NOTES: &str = "notes";
/// The process of elastick that has taken the lease, because pods may have one name on two hosts, and the owner that it wrote: with another one
/// somebody has given the lease away by hand, or a drill has begun.
const PROCESS: &str = "process";
const PROCESS_POD: &str = "processPod";

/// Condition: nobody has the lease.
const NOBODY: &str = "(attribute_not_exists(#o) OR size(#o) = :zero)";

/// Begins the version of a record that a pod of Admiral has put, which has none of its own.
const OF_POD: &str = "pod:";
/// Stands between the version of a record and an owner that was put into it by hand. No version has it.
const BY_HAND: char = '!';

/// A process under Admiral's rules.
pub struct AdmiralLayout {
    of: Admiral,
    me: OwnerName,
}

impl AdmiralLayout {
    pub fn new(of: Admiral, me: OwnerName) -> AdmiralLayout {
        AdmiralLayout { of, me }
    }

    fn lease_ns(&self) -> u64 {
        u64::try_from(self.of.duration().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Sets owner and version; the time is for pods of Admiral.
    fn take(&self, request: &mut Request, version: &str, epoch: Epoch) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        request.update =
            "SET #o = :o, #p = :p, #pp = :o, #u = :u, #v = :v, #f = :f, #n = if_not_exists(#n, :n) REMOVE #su".into();
        request
            .name("#o", OWNER)
            .name("#p", PROCESS)
            .name("#pp", PROCESS_POD)
            .name("#u", UPDATED)
            .name("#v", VERSION)
            .name("#f", FENCE);
        request.name("#n", NOTES).name("#su", SUCCESSOR);
        request.value(":o", &self.of.pod_identifier).value(":p", &self.me).value(":v", version);
        request.value(":n", &format!("Created at {now_s}"));
        request.number(":u", now_s).number(":f", epoch.0);
    }

    /// Condition: the record is there, in this version.
    fn be_in(request: &mut Request, from: &str) {
        request.name("#k", NAME).name("#v", VERSION);
        let of_pod = from.strip_prefix(OF_POD).and_then(|rest| rest.split_once(':'));
        match of_pod {
            Some((updated, owner)) => {
                request.condition = "attribute_exists(#k) AND attribute_not_exists(#v) AND #u = :was AND ".into();
                request.name("#u", UPDATED).name("#o", OWNER);
                request.values.insert(":was".into(), AttributeValue::N(updated.into()));
                match owner {
                    "" => {
                        request.condition.push_str(NOBODY);
                        request.number(":zero", 0);
                    }
                    owner => {
                        request.condition.push_str("#o = :owner");
                        request.value(":owner", owner);
                    }
                }
            }
            None => {
                let (version, owner) = from.split_once(BY_HAND).map_or((from, None), |(v, owner)| (v, Some(owner)));
                request.condition = "attribute_exists(#k) AND #v = :from".into();
                request.value(":from", version);
                if let Some(owner) = owner {
                    request.condition.push_str(" AND #o = :owner");
                    request.name("#o", OWNER).value(":owner", owner);
                }
            }
        }
    }

    /// Condition: besides, it is this process's own.
    fn be_mine(&self, request: &mut Request, from: &str) {
        AdmiralLayout::be_in(request, from);
        request.condition.push_str(" AND #o = #pp AND #p = :me");
        request.name("#o", OWNER).name("#pp", PROCESS_POD).name("#p", PROCESS).value(":me", &self.me);
    }
}

/// The time of this host's clock, which only pods of Admiral read.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

impl Layout for AdmiralLayout {
    fn key(&self) -> Item {
        Item::from([(NAME.to_string(), AttributeValue::S(self.of.lease_name.clone()))])
    }

    fn key_names(&self) -> String {
        format!("{NAME}, a string, alone")
    }

    fn key_text(&self) -> &str {
        &self.of.lease_name
    }

    fn record(&self, item: &Item) -> Result<LeaseRecord, String> {
        let text = |name: &str| match item.get(name) {
            None => Ok(None),
            Some(AttributeValue::S(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(_) => Err(format!("its attribute {name} is not a string")),
        };
        let (pod, version) = (text(OWNER)?, text(VERSION)?);
        let (process, process_pod) = (text(PROCESS)?, text(PROCESS_POD)?);
        let updated = match item.get(UPDATED) {
            Some(AttributeValue::N(number)) if number.parse::<i64>().is_ok() => number,
            Some(_) => return Err(format!("its attribute {UPDATED} is not a whole number of seconds")),
            None => return Err(format!("it has no attribute {UPDATED}")),
        };
        let epoch = super::item::epoch(item)?;
        let is_own = version.is_some() && pod == process_pod;
        let version = match (version, &pod) {
            (None, pod) => format!("{OF_POD}{updated}:{}", pod.as_deref().unwrap_or_default()),
            (Some(version), Some(pod)) if !is_own => format!("{version}{BY_HAND}{pod}"),
            (Some(version), _) => version,
        };
        // Nobody takes the lease of that pod: it is there so that all are passive.
        let is_drill = pod.as_deref() == Some(SKIP_LEASE_POD);
        Ok(LeaseRecord {
            is_released: pod.is_none(),
            owner: process.filter(|_| is_own).or(pod).unwrap_or_default(),
            version,
            lease_ns: if is_drill { u64::MAX } else { self.lease_ns() },
            successor: text(SUCCESSOR)?,
            epoch,
            copies: super::item::copies(item)?,
            is_paused: item.contains_key(PAUSED),
        })
    }

    fn request(&self, write: &LeaseWrite) -> Request {
        let mut request = Request::default();
        match write {
            LeaseWrite::Create { version, epoch, .. } => {
                request.name("#k", NAME);
                request.condition = "attribute_not_exists(#k)".into();
                self.take(&mut request, version, *epoch);
            }
            LeaseWrite::Take { from, was_released, version, epoch, .. } => {
                AdmiralLayout::be_in(&mut request, from);
                request.condition.push_str(" AND ");
                if *was_released {
                    request.condition.push_str(NOBODY);
                    request.number(":zero", 0);
                } else {
                    request.condition.push_str("attribute_exists(#o) AND #o <> :skip");
                    request.value(":skip", SKIP_LEASE_POD);
                }
                request.condition.push_str(" AND (attribute_not_exists(#f) OR #f < :f)");
                self.take(&mut request, version, *epoch);
            }
            LeaseWrite::Renew { from, version, .. } => {
                self.be_mine(&mut request, from);
                request.update = "SET #u = :u, #v = :v".into();
                request.name("#u", UPDATED).number(":u", now_s()).value(":v", version);
            }
            LeaseWrite::Name { from, .. } => {
                AdmiralLayout::be_in(&mut request, from);
                request.condition.push_str(" AND ");
                request.condition.push_str(NOBODY);
                request.name("#o", OWNER).number(":zero", 0);
            }
            LeaseWrite::Pause(is_paused) => {
                request.name("#k", NAME);
                request.condition = "attribute_exists(#k)".into();
                request.pause(*is_paused);
            }
            LeaseWrite::Release { from, successor, .. } => {
                self.be_mine(&mut request, from);
                request.name("#su", SUCCESSOR);
                match successor {
                    Some(successor) => {
                        request.update = "SET #su = :su REMOVE #o".into();
                        request.value(":su", successor);
                    }
                    None => request.update = "REMOVE #o, #su".into(),
                }
            }
        }
        request.copies(write.copies());
        request
    }

    fn is_applied(&self, write: &LeaseWrite, now: &Item) -> bool {
        match write {
            LeaseWrite::Create { version, .. }
            | LeaseWrite::Take { version, .. }
            | LeaseWrite::Renew { version, .. } => {
                matches!(now.get(VERSION), Some(AttributeValue::S(text)) if text == version)
            }
            LeaseWrite::Release { .. } => now.contains_key(NAME) && !now.contains_key(OWNER),
            LeaseWrite::Name { copies, .. } => super::item::copies(now).as_ref() == Ok(copies),
            LeaseWrite::Pause(is_paused) => now.contains_key(PAUSED) == *is_paused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::check;
    use super::*;

    fn layout() -> AdmiralLayout {
        let text = "dynamoDB: {leaseName: tick, podIdentifier: pod-1, waitTimeInSeconds: 2, failureThreshold: 3, tableName: t-1}";
        AdmiralLayout::new(Admiral::parse(text).unwrap(), "a:1/7".into())
    }

    fn item(attributes: &[(&str, AttributeValue)]) -> Item {
        attributes.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    fn s(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_string())
    }

    fn n(text: &str) -> AttributeValue {
        AttributeValue::N(text.to_string())
    }

    #[test]
    fn every_name_and_value_is_used_and_defined() {
        check::all_are_used_and_defined(&layout());
    }

    #[test]
    fn a_pods_record_changes_with_its_time() {
        let of = |updated: &str| {
            let record =
                item(&[(NAME, s("tick")), (OWNER, s("pod-2")), (UPDATED, n(updated)), (NOTES, s("Created at 1"))]);
            layout().record(&record).unwrap()
        };
        let record = of("17");
        assert_eq!((record.owner.as_str(), record.is_released, record.epoch), ("pod-2", false, Epoch(0)));
        assert_eq!(record.lease_ns, 6_000_000_000);
        assert_ne!(record.version, of("18").version);
    }

    #[test]
    fn the_process_owns_a_record_that_elastick_has_written_and_a_pod_with_its_name_does_not() {
        let own = item(&[
            (NAME, s("tick")),
            (OWNER, s("pod-1")),
            (PROCESS, s("a:1/7")),
            (PROCESS_POD, s("pod-1")),
            (VERSION, s("a:1/7#1")),
            (UPDATED, n("17")),
            (FENCE, n("4")),
        ]);
        let record = layout().record(&own).unwrap();
        assert_eq!((record.owner.as_str(), record.version.as_str(), record.epoch), ("a:1/7", "a:1/7#1", Epoch(4)));
        let put = item(&[(NAME, s("tick")), (OWNER, s("pod-1")), (UPDATED, n("17"))]);
        assert_eq!(layout().record(&put).unwrap().owner, "pod-1");
    }

    #[test]
    fn an_owner_that_was_put_into_the_record_by_hand_counts() {
        let mut given = item(&[(NAME, s("tick")), (OWNER, s("pod-9")), (UPDATED, n("17"))]);
        given.insert(PROCESS.into(), s("a:1/7"));
        given.insert(PROCESS_POD.into(), s("pod-1"));
        given.insert(VERSION.into(), s("a:1/7#1"));
        let record = layout().record(&given).unwrap();
        assert_eq!((record.owner.as_str(), record.version.as_str()), ("pod-9", "a:1/7#1!pod-9"));
    }

    #[test]
    fn nobody_takes_the_lease_during_a_drill() {
        let mut drill = item(&[(NAME, s("tick")), (OWNER, s(SKIP_LEASE_POD)), (UPDATED, n("17"))]);
        drill.insert(PROCESS.into(), s("a:1/7"));
        drill.insert(PROCESS_POD.into(), s("pod-1"));
        drill.insert(VERSION.into(), s("a:1/7#1"));
        let record = layout().record(&drill).unwrap();
        assert_eq!((record.owner.as_str(), record.lease_ns, record.is_released), (SKIP_LEASE_POD, u64::MAX, false));
    }

    #[test]
    fn without_an_owner_the_lease_is_free() {
        for owner in [None, Some(s(""))] {
            let mut free = item(&[(NAME, s("tick")), (UPDATED, n("17"))]);
            free.extend(owner.map(|owner| (OWNER.to_string(), owner)));
            assert!(layout().record(&free).unwrap().is_released);
        }
    }

    #[test]
    fn an_item_of_another_kind_is_rejected_by_the_attribute() {
        let wrong = |attributes: &[(&str, AttributeValue)]| layout().record(&item(attributes)).unwrap_err();
        assert_eq!(wrong(&[(OWNER, s("x"))]), "it has no attribute updatedTime");
        assert_eq!(wrong(&[(UPDATED, s("17"))]), "its attribute updatedTime is not a whole number of seconds");
        assert_eq!(wrong(&[(UPDATED, n("1")), (OWNER, n("1"))]), "its attribute leaseOwner is not a string");
        assert_eq!(wrong(&[(UPDATED, n("1")), (FENCE, s("1"))]), "its attribute fence is not a number");
    }
}
