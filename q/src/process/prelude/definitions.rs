//! Names and source text of the library definitions.

use crate::syntax::script;
use columns::table::symbol::{intern_name as intern, text};
use columns::table::{Sym, Value};
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

const SCRIPTS: [&str; 2] = [include_str!("h.q"), include_str!("q.q")];

pub(super) struct Entry {
    pub expression: Vec<u8>,
    pub value: OnceLock<Value>,
}

/// Definitions by full name, and the names in order of definition.
pub(super) struct Prelude {
    pub entries: HashMap<&'static [u8], Entry>,
    order: Vec<Sym>,
}

pub(super) static PRELUDE: LazyLock<Prelude> = LazyLock::new(|| {
    let mut prelude = Prelude { entries: HashMap::new(), order: Vec::new() };
    for (_, definition) in SCRIPTS.iter().flat_map(|s| script::expressions(s.as_bytes())) {
        let Some(colon) = definition.iter().position(|c| *c == b':') else { continue };
        let (name, expression) = definition.split_at(colon);
        let Ok(name) = intern(name) else { continue };
        let expression = expression.get(1..).unwrap_or_default().to_vec();
        prelude.entries.insert(text(name), Entry { expression, value: OnceLock::new() });
        prelude.order.push(name);
    }
    prelude
});

/// Full names of all definitions.
pub(crate) fn all() -> impl Iterator<Item = Sym> {
    PRELUDE.order.iter().copied()
}

/// Short names in a namespace (`.h`), in order of definition.
pub(crate) fn names(space: &[u8]) -> Vec<Sym> {
    let inside = |name: &Sym| {
        let short = text(*name).strip_prefix(space)?.strip_prefix(b".")?;
        intern(short).ok()
    };
    PRELUDE.order.iter().filter_map(inside).collect()
}
