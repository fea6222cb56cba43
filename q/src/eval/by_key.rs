//! Each-both of two dictionaries, `d,'e`: for each key of d, the value at the same key of e is looked up here.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::{find, index};
use columns::sys::shared::Held;
use columns::table::{Dict, Value};

/// Values of a dictionary by keys that are sought together.
pub(super) struct ByKey {
    dict: Value,
    /// Position of each key's value, the number of values for a missing key.
    places: Vec<i64>,
    /// What a missing key has.
    missing: Option<Value>,
}

impl ByKey {
    pub(super) fn new(context: &mut Context, d: &Held<Dict>, keys: &Value) -> Result<ByKey, QError> {
        let places = find::all(context, &d.keys, keys)?;
        Ok(ByKey { dict: Value::Dict(d.clone()), places, missing: None })
    }

    pub(super) fn value(&mut self, context: &mut Context, keys: &Value, at: usize) -> Result<Value, QError> {
        let Value::Dict(d) = &self.dict else { return Ok(Value::Null) };
        let place = self.places.get(at).and_then(|place| usize::try_from(*place).ok());
        match (place.filter(|place| *place < d.values.count()), &self.missing) {
            (Some(place), _) => Ok(d.values.at(place)),
            (None, Some(missing)) => Ok(missing.clone()),
            (None, None) => {
                let missing = index::one(context, &self.dict, &keys.at(at))?;
                // In a step dictionary it depends on the key.
                self.missing = Some(missing.clone()).filter(|_| !d.sorted);
                Ok(missing)
            }
        }
    }
}
