//! The type of the keys that a foreign key holds. `Items::Link` stores them as 64-bit integers; this table has the type for each domain, by name.

use crate::kernel::sym::Sym;
use proto::types;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// Type of the keys by domain; `None` for a domain over which foreign keys hold row numbers.
static KEY_TYPES: LazyLock<RwLock<HashMap<Sym, Option<i8>>>> = LazyLock::new(RwLock::default);

/// Whether a foreign key can store keys of this type as 64-bit integers without loss.
pub fn can_hold(number: i8) -> bool {
    !matches!(number, types::LIST | types::GUID | types::REAL | types::FLOAT | types::DATETIME | types::SYMBOL)
}

/// Records the type of this domain's keys.
pub fn note_keys(domain: Sym, number: i8) {
    note(domain, Some(number));
}

/// Records that this domain has no single key column: foreign keys over it hold row numbers.
pub fn note_rows(domain: Sym) {
    note(domain, None);
}

fn note(domain: Sym, keys: Option<i8>) {
    if known(domain) != Some(keys) {
        KEY_TYPES.write().unwrap_or_else(PoisonError::into_inner).insert(domain, keys);
    }
}

fn known(domain: Sym) -> Option<Option<i8>> {
    KEY_TYPES.read().unwrap_or_else(PoisonError::into_inner).get(&domain).copied()
}

/// Returns the type of this domain's keys, or `None` if foreign keys over it hold row numbers.
pub fn key_type(domain: Sym) -> Option<i8> {
    known(domain).flatten()
}

/// Returns the type of the items of a foreign key over this domain: that of the keys, or long for row numbers.
pub fn item_type(domain: Sym) -> i8 {
    key_type(domain).filter(|number| can_hold(*number)).unwrap_or(types::LONG)
}
