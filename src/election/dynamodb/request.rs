//! A conditional write as expressions.

use super::item::{COPIES, PAUSED};
use crate::lease::Copies;
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;

/// Expressions of an update, with the names and values that they use.
#[derive(Debug, Default, PartialEq)]
pub struct Request {
    pub update: String,
    pub condition: String,
    pub names: HashMap<String, String>,
    pub values: HashMap<String, AttributeValue>,
}

impl Request {
    pub fn name(&mut self, placeholder: &str, attribute: &str) -> &mut Request {
        self.names.insert(placeholder.to_string(), attribute.to_string());
        self
    }

    pub fn value(&mut self, placeholder: &str, text: &str) -> &mut Request {
        self.values.insert(placeholder.to_string(), AttributeValue::S(text.to_string()));
        self
    }

    /// Makes it an update that sets or removes the mark of a pause.
    pub fn pause(&mut self, is_paused: bool) {
        self.name("#pa", PAUSED);
        self.update = if is_paused { "SET #pa = :pa" } else { "REMOVE #pa" }.to_string();
        if is_paused {
            self.value(":pa", "1");
        }
    }

    /// Lets the update, whose expression is empty or begins with `SET`, set the copies that the record names, if they change.
    pub fn copies(&mut self, copies: Option<&Copies>) {
        let Some(copies) = copies else { return };
        let rest = match (self.update.strip_prefix("SET "), self.update.is_empty()) {
            (Some(rest), _) => format!(", {rest}"),
            (None, true) => String::new(),
            (None, false) => format!(" {}", self.update),
        };
        self.update = format!("SET #c = :c{rest}");
        self.name("#c", COPIES);
        self.values.insert(":c".to_string(), AttributeValue::Ss(copies.names().cloned().collect()));
    }

    pub fn number(&mut self, placeholder: &str, number: u64) -> &mut Request {
        self.values.insert(placeholder.to_string(), AttributeValue::N(number.to_string()));
        self
    }
}

/// What holds for the requests of every layout.
#[cfg(test)]
pub mod check {
    use super::super::layout::Layout;
    use crate::lease::{Copies, Epoch, LeaseWrite};
    use std::collections::BTreeSet;

    fn writes(from: &str) -> Vec<LeaseWrite> {
        let named = || Some(Copies::of(["a/1".to_string(), "b/2".to_string()]));
        [None, named()].into_iter().flat_map(|copies| writes_with(from, &copies)).collect()
    }

    fn writes_with(from: &str, copies: &Option<Copies>) -> Vec<LeaseWrite> {
        let (from, version, epoch, copies) = (from.to_string(), "v2".to_string(), Epoch(3), || copies.clone());
        let take = |was_released| {
            let (from, version, copies) = (from.clone(), version.clone(), copies());
            LeaseWrite::Take { from, was_released, version, epoch, copies }
        };
        let release =
            |successor: Option<String>| LeaseWrite::Release { from: from.clone(), successor, copies: copies() };
        vec![
            LeaseWrite::Create { version: version.clone(), epoch, copies: copies() },
            take(false),
            take(true),
            LeaseWrite::Renew { from: from.clone(), version: version.clone(), copies: copies() },
            release(None),
            release(Some("b".into())),
            LeaseWrite::Name { from: from.clone(), copies: Copies::any() },
            LeaseWrite::Pause(true),
            LeaseWrite::Pause(false),
        ]
    }

    /// DynamoDB rejects a request with an unused name or value, or an undefined one.
    pub fn all_are_used_and_defined(layout: &dyn Layout) {
        for write in ["v1", "pod:17:pod-2", "pod:17:", "v1!pod-9"].into_iter().flat_map(writes) {
            let request = layout.request(&write);
            let text = format!("{} {}", request.update, request.condition);
            let used: BTreeSet<&str> = text
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '#' || c == ':'))
                .filter(|word| word.starts_with(['#', ':']))
                .collect();
            let defined = request.names.keys().chain(request.values.keys()).map(String::as_str).collect();
            assert_eq!(used, defined, "{text}");
        }
    }
}
