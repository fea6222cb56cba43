//! Names in a session's namespaces.

use super::Session;
use crate::runtime::values::symbol;
use columns::table::symbol::text;
use columns::table::{Sym, Value};

/// Splits a full name into namespace and short name; `a.b` is `b` of `a`.
fn split(name: Sym) -> (&'static [u8], &'static [u8]) {
    let full = text(name);
    match full.iter().rposition(|c| *c == b'.') {
        Some(at) if at > 0 => (full.get(..at).unwrap_or_default(), full.get(at + 1..).unwrap_or_default()),
        _ => (b"", full),
    }
}

impl Session {
    pub(super) fn names_in(&self, namespace: Sym) -> Vec<Sym> {
        self.authors.list(&self.asking);
        let space = if text(namespace) == b"." { b"" } else { text(namespace) };
        let mut found: Vec<Sym> = Vec::new();
        for name in &self.order {
            let (own, short) = split(*name);
            // A nested namespace is listed once, by its own name.
            let below = own.strip_prefix(space).and_then(|rest| rest.strip_prefix(b".")).filter(|_| !space.is_empty());
            let short = match below {
                _ if own == space => short,
                None if space.is_empty() && !own.starts_with(b".") => {
                    own.split(|c| *c == b'.').next().unwrap_or_default()
                }
                Some(below) => below.split(|c| *c == b'.').next().unwrap_or_default(),
                None => continue,
            };
            if let Ok(short) = symbol(short)
                && (own == space || !found.contains(&short))
            {
                found.push(short);
            }
        }
        found
    }

    pub(super) fn top_namespaces(&self) -> Vec<Sym> {
        self.authors.list(&self.asking);
        let mut found: Vec<Sym> = Vec::new();
        for name in &self.order {
            let is_whole = self.globals.get(name).is_some_and(Value::has_names);
            let space = if is_whole { text(*name) } else { split(*name).0 }.strip_prefix(b".").unwrap_or_default();
            let top = space.split(|c| *c == b'.').next().unwrap_or_default();
            if let Ok(symbol) = symbol(top)
                && !top.is_empty()
                && !found.contains(&symbol)
            {
                found.push(symbol);
            }
        }
        found
    }
}
