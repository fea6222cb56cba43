//! Which names are domains of foreign keys that are no symbols: the console shows these as keys, and links as rows.

use columns::table::Sym;
use std::collections::HashSet;
use std::sync::{LazyLock, PoisonError, RwLock};

/// Names whose keys, other than symbols, stand in foreign keys. A link to the rows of a table is not among them.
static KEYED: LazyLock<RwLock<HashSet<Sym>>> = LazyLock::new(RwLock::default);

/// Records that foreign keys hold the keys of this domain.
pub(crate) fn note_keys(name: Sym) {
    if !holds_keys(name) {
        KEYED.write().unwrap_or_else(PoisonError::into_inner).insert(name);
    }
}

/// Whether foreign keys hold the keys of this domain: they show as `` `d$key ``, links to rows as `` `d!row ``.
pub(crate) fn holds_keys(name: Sym) -> bool {
    KEYED.read().unwrap_or_else(PoisonError::into_inner).contains(&name)
}
