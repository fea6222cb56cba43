//! What the items of foreign keys mean, by the name of their domain: keys of a type, or else numbers of rows. A foreign key holds 64-bit integers.

use crate::kernel::sym::Sym;
use proto::types;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// Types of the keys that stand in foreign keys, by domain; none for one whose foreign keys hold numbers of rows.
static KEY_TYPES: LazyLock<RwLock<HashMap<Sym, Option<i8>>>> = LazyLock::new(RwLock::default);

/// Whether a key of this type is held as an integer without loss.
pub fn can_hold(number: i8) -> bool {
    !matches!(number, types::LIST | types::GUID | types::REAL | types::FLOAT | types::DATETIME | types::SYMBOL)
}

/// Records that foreign keys hold the keys of this domain, which are of a type.
pub fn note_keys(domain: Sym, number: i8) {
    note(domain, Some(number));
}

/// Records that foreign keys hold numbers of this domain's rows.
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

/// Type of the keys of this domain in foreign keys; `None` if these hold numbers of rows.
pub fn key_type(domain: Sym) -> Option<i8> {
    known(domain).flatten()
}

/// Type of what an item of a foreign key over this domain is: of a key, or of the number of a row.
pub fn item_type(domain: Sym) -> i8 {
    key_type(domain).filter(|number| can_hold(*number)).unwrap_or(types::LONG)
}
