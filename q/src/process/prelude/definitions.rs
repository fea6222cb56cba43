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
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = Sym> {
    PRELUDE.order.iter().copied()
}

/// Name, parameters (`[x;y]`, empty for a value) and help of each definition: the comment above it.
pub(crate) fn helps() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    SCRIPTS.iter().flat_map(|script| {
        let lines = script.lines().zip(script.lines().skip(1));
        lines.filter_map(|(above, line)| {
            let (name, value) = line.split_once(':').filter(|_| !line.starts_with([' ', '/', '}']))?;
            let parameters = value.strip_prefix('{').filter(|inside| inside.starts_with('['));
            let parameters = parameters.and_then(|inside| inside.get(..=inside.find(']')?)).unwrap_or_default();
            Some((name, parameters, above.strip_prefix("/ ")?))
        })
    })
}

/// Short names in a namespace (`.h`), in order of definition.
pub(crate) fn names(space: &[u8]) -> Vec<Sym> {
    let inside = |name: &Sym| {
        let short = text(*name).strip_prefix(space)?.strip_prefix(b".")?;
        intern(short).ok()
    };
    PRELUDE.order.iter().filter_map(inside).collect()
}
