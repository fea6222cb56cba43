//! The conditional writes as expressions.
//!
//! Conditions are at least as strict as the Lock Client's, so that neither overrides the other. All writes are updates: a put would drop the
//! attributes of other programs, and the number of the lease with them. The number is set, under the condition that it grows, and not
//! added to: an update that reaches the table twice must not count twice.

use super::item::{DATA, DURATION, FENCE, IS_RELEASED, Item, OWNER, RELEASED, SUCCESSOR, VERSION, duration};
use crate::lease::LeaseWrite;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

/// The writer and its item.
#[derive(Clone, Debug)]
pub struct Writer {
    pub me: String,
    pub lease_ns: u64,
    /// Address of this process, for readers of the table.
    pub data: Vec<u8>,
    pub key_name: String,
    pub sort_name: Option<String>,
}

/// Expressions of an update, with the names and values that they use.
#[derive(Debug, Default, PartialEq)]
pub struct Request {
    pub update: String,
    pub condition: String,
    pub names: HashMap<String, String>,
    pub values: HashMap<String, AttributeValue>,
}

/// Whether the attributes that an update returns are those that it was to set. A program between this host and the table that answers every
/// request with success does not return them.
pub fn is_applied(write: &LeaseWrite, updated: &Item) -> bool {
    let (attribute, value) = match write {
        LeaseWrite::Create { version, .. } | LeaseWrite::Take { version, .. } | LeaseWrite::Renew { version, .. } => {
            (VERSION, version.as_str())
        }
        LeaseWrite::Release { .. } => (RELEASED, IS_RELEASED),
    };
    matches!(updated.get(attribute), Some(AttributeValue::S(text)) if text == value)
}

impl Request {
    pub fn of(write: &LeaseWrite, writer: &Writer) -> Request {
        let mut request = Request::default();
        match write {
            LeaseWrite::Create { version, epoch } => {
                request.name_key(writer);
                request.condition = match writer.sort_name {
                    Some(_) => "attribute_not_exists(#k) AND attribute_not_exists(#sk)".to_string(),
                    None => "attribute_not_exists(#k)".to_string(),
                };
                request.take(writer, version, epoch.0);
            }
            LeaseWrite::Take { from, was_released, version, epoch } => {
                request.name_existing(writer, from);
                if *was_released {
                    request.condition.push_str(" AND #ir = :ir");
                    request.value(":ir", IS_RELEASED);
                }
                request.condition.push_str(" AND (attribute_not_exists(#f) OR #f < :f)");
                request.take(writer, version, epoch.0);
                request.update.push_str(" REMOVE #ir, #su");
                request.name("#ir", RELEASED).name("#su", SUCCESSOR);
            }
            LeaseWrite::Renew { from, version } => {
                request.own(writer, from);
                request.update = "SET #d = :d, #v = :v".to_string();
                request.name("#d", DURATION).value(":d", &duration(writer.lease_ns)).value(":v", version);
            }
            LeaseWrite::Release { from, successor } => {
                request.own(writer, from);
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
        request
    }

    fn take(&mut self, writer: &Writer, version: &str, epoch: u64) {
        self.update = "SET #o = :o, #d = :d, #v = :v, #data = :data, #f = :f".to_string();
        self.name("#o", OWNER).name("#d", DURATION).name("#v", VERSION).name("#data", DATA).name("#f", FENCE);
        self.value(":o", &writer.me).value(":d", &duration(writer.lease_ns)).value(":v", version);
        self.values.insert(":data".to_string(), AttributeValue::B(Blob::new(writer.data.clone())));
        self.values.insert(":f".to_string(), AttributeValue::N(epoch.to_string()));
    }

    /// Condition: the item is there, in this version.
    fn name_existing(&mut self, writer: &Writer, from: &str) {
        self.name_key(writer);
        self.condition = match writer.sort_name {
            Some(_) => "attribute_exists(#k) AND attribute_exists(#sk) AND #v = :from".to_string(),
            None => "attribute_exists(#k) AND #v = :from".to_string(),
        };
        self.name("#v", VERSION).value(":from", from);
    }

    /// Condition: besides, it is the writer's own, and not released. The last part is not the Lock Client's: there a renewal on its way
    /// brings a released lock back.
    fn own(&mut self, writer: &Writer, from: &str) {
        self.name_existing(writer, from);
        self.condition.push_str(" AND #o = :me AND attribute_not_exists(#ir)");
        self.name("#o", OWNER).name("#ir", RELEASED).value(":me", &writer.me);
    }

    fn name_key(&mut self, writer: &Writer) {
        self.name("#k", &writer.key_name);
        if let Some(sort) = &writer.sort_name {
            self.name("#sk", sort);
        }
    }

    fn name(&mut self, placeholder: &str, attribute: &str) -> &mut Request {
        self.names.insert(placeholder.to_string(), attribute.to_string());
        self
    }

    fn value(&mut self, placeholder: &str, text: &str) -> &mut Request {
        self.values.insert(placeholder.to_string(), AttributeValue::S(text.to_string()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Epoch;

    fn requests(sort_name: Option<String>) -> Vec<Request> {
        let writer = Writer {
            me: "me".into(),
            lease_ns: 6_000_000_000,
            data: b"a:1".to_vec(),
            key_name: "key".into(),
            sort_name,
        };
        let (from, version, epoch) = ("v1".to_string(), "v2".to_string(), Epoch(3));
        let renew = LeaseWrite::Renew { from: from.clone(), version: version.clone() };
        let take =
            |was_released| LeaseWrite::Take { from: from.clone(), was_released, version: version.clone(), epoch };
        [
            LeaseWrite::Create { version: version.clone(), epoch },
            take(false),
            take(true),
            renew,
            LeaseWrite::Release { from: from.clone(), successor: None },
            LeaseWrite::Release { from: from.clone(), successor: Some("b".into()) },
        ]
        .iter()
        .map(|write| Request::of(write, &writer))
        .collect()
    }

    /// DynamoDB rejects a request with an unused name or value, or an undefined one.
    #[test]
    fn every_name_and_value_is_used_and_defined() {
        for request in requests(None).into_iter().chain(requests(Some("part".into()))) {
            let text = format!("{} {}", request.update, request.condition);
            let used: std::collections::BTreeSet<&str> = text
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '#' || c == ':'))
                .filter(|word| word.starts_with(['#', ':']))
                .collect();
            let defined = request.names.keys().chain(request.values.keys()).map(String::as_str).collect();
            assert_eq!(used, defined, "{text}");
        }
    }

    #[test]
    fn an_update_is_applied_if_it_returns_what_it_has_set() {
        let text = |text: &str| AttributeValue::S(text.to_string());
        let renew = LeaseWrite::Renew { from: "v1".into(), version: "v2".into() };
        let release = LeaseWrite::Release { from: "v1".into(), successor: None };
        let item = |name: &str, value: &str| Item::from([(name.to_string(), text(value))]);
        assert!(is_applied(&renew, &item(VERSION, "v2")));
        assert!(is_applied(&release, &item(RELEASED, "1")));
        for other in [Item::new(), item(VERSION, "v1"), item(RELEASED, "0")] {
            assert!(!is_applied(&renew, &other) && !is_applied(&release, &other));
        }
    }

    #[test]
    fn a_renewal_changes_version_and_duration_only() {
        let request = requests(None).remove(3);
        assert_eq!(request.update, "SET #d = :d, #v = :v");
        assert_eq!(request.condition, "attribute_exists(#k) AND #v = :from AND #o = :me AND attribute_not_exists(#ir)");
    }

    #[test]
    fn the_number_can_only_grow() {
        for request in requests(None).drain(1..3) {
            assert!(request.condition.ends_with("AND (attribute_not_exists(#f) OR #f < :f)"), "{}", request.condition);
        }
    }
}
