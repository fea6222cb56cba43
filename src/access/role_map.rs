//! Roles of users whom an identity service vouches for: by the values of a claim, or by group. Pure.

use super::grants::Grants;
use std::collections::{BTreeMap, BTreeSet};

/// Roles by the value of a claim, or by group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleMap {
    /// What every user may do.
    pub(super) every: Grants,
    pub(super) by_value: BTreeMap<String, Grants>,
}

impl RoleMap {
    /// Returns what a user with these values may do; `None` if none of them has a role.
    pub(super) fn grants(&self, values: &BTreeSet<String>) -> Option<Grants> {
        let mut grants = self.every.clone();
        values.iter().filter_map(|value| self.by_value.get(value)).for_each(|role| grants.unite(role));
        (grants != Grants { by_name: grants.by_name, ..Grants::default() }).then_some(grants)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_value.is_empty() && self.every == Grants::default()
    }
}
