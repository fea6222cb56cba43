//! Records of the Java Lock Client, as conditional writes.
//!
//! Conditions are at least as strict as the Lock Client's, so that neither overrides the other. All writes are updates: a put would drop the
//! attributes of other programs, and the number of the lease with them. The number is set, under the condition that it grows, and not
//! added to: an update that reaches the table twice must not count twice.

use super::item::{
    self, DATA, DURATION, FENCE, IS_RELEASED, Item, OWNER, PAUSED, RELEASED, SUCCESSOR, VERSION, duration,
};
use super::layout::Layout;
use super::request::Request;
use crate::config::LeaseTable;
use crate::lease::{LeaseRecord, LeaseWrite, OwnerName};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

/// A process under the Lock Client's rules.
pub struct LockClientLayout {
    at: LeaseTable,
    me: OwnerName,
    lease_ns: u64,
    /// Address of this process, for readers of the table.
    data: Vec<u8>,
}

impl LockClientLayout {
    pub fn new(at: LeaseTable, me: OwnerName, data: Vec<u8>) -> LockClientLayout {
        let lease_ns = u64::try_from(at.duration.as_nanos()).unwrap_or(u64::MAX);
        LockClientLayout { at, me, lease_ns, data }
    }

    fn sort_name(&self) -> Option<&String> {
        self.at.sort.as_ref().map(|(name, _)| name)
    }

    fn take(&self, request: &mut Request, version: &str, epoch: u64) {
        request.update = "SET #o = :o, #d = :d, #v = :v, #data = :data, #f = :f".to_string();
        request.name("#o", OWNER).name("#d", DURATION).name("#v", VERSION).name("#data", DATA).name("#f", FENCE);
        request.value(":o", &self.me).value(":d", &duration(self.lease_ns)).value(":v", version).number(":f", epoch);
        request.values.insert(":data".to_string(), AttributeValue::B(Blob::new(self.data.clone())));
    }

    /// Condition: the item is there, in this version.
    fn name_existing(&self, request: &mut Request, from: &str) {
        self.name_key(request);
        request.condition = match self.sort_name() {
            Some(_) => "attribute_exists(#k) AND attribute_exists(#sk) AND #v = :from".to_string(),
            None => "attribute_exists(#k) AND #v = :from".to_string(),
        };
        request.name("#v", VERSION).value(":from", from);
    }

    /// Condition: besides, it is the writer's own, and not released. The last part is not the Lock Client's: there a renewal on its way
    /// brings a released lock back.
    fn own(&self, request: &mut Request, from: &str) {
        self.name_existing(request, from);
        request.condition.push_str(" AND #o = :me AND attribute_not_exists(#ir)");
        request.name("#o", OWNER).name("#ir", RELEASED).value(":me", &self.me);
    }

    fn name_key(&self, request: &mut Request) {
        request.name("#k", &self.at.key_name);
        if let Some(sort) = self.sort_name() {
            request.name("#sk", sort);
        }
    }
}

impl Layout for LockClientLayout {
    fn key(&self) -> Item {
        let text = |name: &String, value: &String| (name.clone(), AttributeValue::S(value.clone()));
        let sort = self.at.sort.as_ref().map(|(name, value)| text(name, value));
        [text(&self.at.key_name, &self.at.key)].into_iter().chain(sort).collect()
    }

    fn key_names(&self) -> String {
        match self.sort_name() {
            Some(sort) => format!("{} and {sort}, both strings", self.at.key_name),
            None => format!("{}, a string, alone", self.at.key_name),
        }
    }

    fn key_text(&self) -> &str {
        &self.at.key
    }

    fn record(&self, item: &Item) -> Result<LeaseRecord, String> {
        item::record(item)
    }

    fn request(&self, write: &LeaseWrite) -> Request {
        let mut request = Request::default();
        match write {
            LeaseWrite::Create { version, epoch, .. } => {
                self.name_key(&mut request);
                request.condition = match self.sort_name() {
                    Some(_) => "attribute_not_exists(#k) AND attribute_not_exists(#sk)".to_string(),
                    None => "attribute_not_exists(#k)".to_string(),
                };
                self.take(&mut request, version, epoch.0);
            }
            LeaseWrite::Take { from, was_released, version, epoch, .. } => {
                self.name_existing(&mut request, from);
                if *was_released {
                    request.condition.push_str(" AND #ir = :ir");
                    request.value(":ir", IS_RELEASED);
                }
                request.condition.push_str(" AND (attribute_not_exists(#f) OR #f < :f)");
                self.take(&mut request, version, epoch.0);
                request.update.push_str(" REMOVE #ir, #su");
                request.name("#ir", RELEASED).name("#su", SUCCESSOR);
            }
            LeaseWrite::Renew { from, version, .. } => {
                self.own(&mut request, from);
                request.update = "SET #d = :d, #v = :v".to_string();
                request.name("#d", DURATION).value(":d", &duration(self.lease_ns)).value(":v", version);
            }
            LeaseWrite::Name { from, .. } => {
                self.name_existing(&mut request, from);
                request.condition.push_str(" AND #ir = :ir");
                request.name("#ir", RELEASED).value(":ir", IS_RELEASED);
            }
            LeaseWrite::Pause(is_paused) => {
                self.name_key(&mut request);
                request.condition = match self.sort_name() {
                    Some(_) => "attribute_exists(#k) AND attribute_exists(#sk)".to_string(),
                    None => "attribute_exists(#k)".to_string(),
                };
                request.pause(*is_paused);
            }
            LeaseWrite::Release { from, successor, .. } => {
                self.own(&mut request, from);
                request.value(":ir", IS_RELEASED).name("#su", SUCCESSOR);
                match successor {
                    Some(successor) => {
                        request.update = "SET #ir = :ir, #su = :su".to_string();
                        request.value(":su", successor);
                    }
                    None => request.update = "SET #ir = :ir REMOVE #su".to_string(),
                }
            }
        }
        request.copies(write.copies());
        request
    }

    fn is_applied(&self, write: &LeaseWrite, now: &Item) -> bool {
        let (attribute, value) = match write {
            LeaseWrite::Create { version, .. }
            | LeaseWrite::Take { version, .. }
            | LeaseWrite::Renew { version, .. } => (VERSION, version.as_str()),
            LeaseWrite::Release { .. } => (RELEASED, IS_RELEASED),
            LeaseWrite::Name { copies, .. } => return item::copies(now).as_ref() == Ok(copies),
            LeaseWrite::Pause(is_paused) => return now.contains_key(PAUSED) == *is_paused,
        };
        matches!(now.get(attribute), Some(AttributeValue::S(text)) if text == value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::check;
    use super::*;
    use crate::config::LeaseUrl;
    use crate::lease::Epoch;

    fn layout(more: &str) -> LockClientLayout {
        match format!("dynamodb://leases/tick?duration=6s{more}").parse() {
            Ok(LeaseUrl::Table(at)) => LockClientLayout::new(*at, "me".into(), b"a:1".to_vec()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_name_and_value_is_used_and_defined() {
        check::all_are_used_and_defined(&layout(""));
        check::all_are_used_and_defined(&layout("&sort-name=part&sort=0"));
    }

    #[test]
    fn an_update_is_applied_if_it_returns_what_it_has_set() {
        let text = |text: &str| AttributeValue::S(text.to_string());
        let renew = LeaseWrite::Renew { from: "v1".into(), version: "v2".into(), copies: None };
        let release = LeaseWrite::Release { from: "v1".into(), successor: None, copies: None };
        let item = |name: &str, value: &str| Item::from([(name.to_string(), text(value))]);
        let layout = layout("");
        assert!(layout.is_applied(&renew, &item(VERSION, "v2")));
        assert!(layout.is_applied(&release, &item(RELEASED, "1")));
        for other in [Item::new(), item(VERSION, "v1"), item(RELEASED, "0")] {
            assert!(!layout.is_applied(&renew, &other) && !layout.is_applied(&release, &other));
        }
    }

    #[test]
    fn a_renewal_changes_version_and_duration_only() {
        let request = layout("").request(&LeaseWrite::Renew { from: "v1".into(), version: "v2".into(), copies: None });
        assert_eq!(request.update, "SET #d = :d, #v = :v");
        assert_eq!(request.condition, "attribute_exists(#k) AND #v = :from AND #o = :me AND attribute_not_exists(#ir)");
    }

    #[test]
    fn the_number_can_only_grow() {
        for was_released in [false, true] {
            let (from, version) = ("v1".into(), "v2".into());
            let request =
                layout("").request(&LeaseWrite::Take { from, was_released, version, epoch: Epoch(3), copies: None });
            let condition = request.condition;
            assert!(condition.ends_with("AND (attribute_not_exists(#f) OR #f < :f)"), "{condition}");
        }
    }
}
