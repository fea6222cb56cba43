//! Names of globals: `a`, `.n.a`, `.n.m.a`. A host holds them flat; programs see namespaces within namespaces.

use columns::table::Sym;
use columns::table::symbol::{intern, text};
use std::collections::HashSet;

/// Splits a global's name into its namespace, empty for the root, and its name there.
fn split(name: Sym) -> (&'static [u8], &'static [u8]) {
    let full = text(name);
    match full.iter().rposition(|c| *c == b'.') {
        Some(at) if at > 0 => (full.get(..at).unwrap_or_default(), full.get(at + 1..).unwrap_or_default()),
        _ => (b"", full),
    }
}

fn first(path: &'static [u8]) -> &'static [u8] {
    path.split(|c| *c == b'.').next().unwrap_or_default()
}

/// Returns the names in a namespace, without its prefix, each once and in the order given; a namespace within it has one name. Those of the
/// root, the null symbol or `` `. ``, do not begin with a dot.
pub fn within(names: impl Iterator<Item = Sym>, namespace: Sym) -> Vec<Sym> {
    let space = if text(namespace) == b"." { b"" } else { text(namespace) };
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for name in names {
        let (own, short) = split(name);
        let below = own.strip_prefix(space).and_then(|rest| rest.strip_prefix(b".")).filter(|_| !space.is_empty());
        let short = match below {
            // `.x` stands among the namespaces, also if it is none.
            _ if space.is_empty() && short.starts_with(b".") => continue,
            _ if own == space => short,
            None if space.is_empty() && !own.starts_with(b".") => first(own),
            Some(below) => first(below),
            None => continue,
        };
        if let Ok(short) = intern(short)
            && seen.insert(short)
        {
            found.push(short);
        }
    }
    found
}

/// Returns the names below a namespace, in full.
pub fn below(names: impl Iterator<Item = Sym>, namespace: Sym) -> Vec<Sym> {
    let is_below = |name: &Sym| text(*name).strip_prefix(text(namespace)).is_some_and(|rest| rest.starts_with(b"."));
    if namespace == Sym::NULL { Vec::new() } else { names.filter(is_below).collect() }
}

/// Returns the namespaces that a name is in, the innermost first.
pub fn around(name: Sym) -> impl Iterator<Item = Sym> {
    std::iter::successors(Some(name), |inner| intern(split(*inner).0).ok().filter(|outer| *outer != Sym::NULL)).skip(1)
}

/// Returns the top-level namespaces of names, each once.
pub fn namespaces(names: impl Iterator<Item = Sym>) -> Vec<Sym> {
    let mut found: Vec<Sym> = Vec::new();
    for name in names {
        let top = first(text(name).strip_prefix(b".").unwrap_or_default());
        if let Ok(top) = intern(top)
            && top != Sym::NULL
            && !found.contains(&top)
        {
            found.push(top);
        }
    }
    found
}
