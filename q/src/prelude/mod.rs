//! Names of q's own namespaces that are written in q: `.h`, parts of `.Q` and `.j`. Each is evaluated when it is first
//! asked for, in a process of its own, and shared by all sessions.

use super::context::Context;
use super::error::QError;
use super::limits::Limits;
use super::session::Session;
use super::{eval_text, script};
use columns::table::symbol::{intern_name as intern, text};
use columns::table::{Sym, Value};
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

const SCRIPTS: [&str; 2] = [include_str!("h.q"), include_str!("q.q")];

struct Entry {
    expression: Vec<u8>,
    value: OnceLock<Value>,
}

/// Definitions by full name, and the names in their order.
struct Prelude {
    entries: HashMap<&'static [u8], Entry>,
    order: Vec<Sym>,
}

static PRELUDE: LazyLock<Prelude> = LazyLock::new(|| {
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

/// The value of a name that is defined in q.
pub(super) fn value(context: &Context, name: Sym) -> Result<Option<Value>, QError> {
    let Some(entry) = PRELUDE.entries.get(text(name)) else { return Ok(None) };
    if let Some(known) = entry.value.get() {
        return Ok(Some(known.clone()));
    }
    context.check()?;
    let digits = super::format::precision();
    let value = eval_text(&mut Session::new(), &entry.expression, &Limits::default());
    super::format::set_precision(digits);
    let value = value?;
    Ok(Some(entry.value.get_or_init(|| value).clone()))
}

/// The full names of all.
pub(super) fn all() -> impl Iterator<Item = Sym> {
    PRELUDE.order.iter().copied()
}

/// The short names in a namespace (`.h`), in order of definition.
pub(super) fn names(space: &[u8]) -> Vec<Sym> {
    let inside = |name: &Sym| {
        let short = text(*name).strip_prefix(space)?.strip_prefix(b".")?;
        intern(short).ok()
    };
    PRELUDE.order.iter().filter_map(inside).collect()
}
