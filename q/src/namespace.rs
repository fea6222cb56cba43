//! Namespaces as dictionaries: read as one, and changed as one.

use super::context::Context;
use super::error::QError;
use super::prims;
use columns::table::function::Function;
use columns::table::symbol::{intern_name as intern, text};
use columns::table::{Dict, Sym, Value};

impl Context<'_> {
    /// A namespace as a dictionary, its first entry the null symbol with the generic null.
    pub(super) fn namespace(&mut self, name: Sym) -> Option<Value> {
        if text(name) == b".q" {
            let (names, words): (Vec<Sym>, Vec<Value>) =
                prims::keywords().into_iter().filter_map(|name| Some((name, prims::keyword(text(name))?))).unzip();
            let keys = std::iter::once(Sym::NULL).chain(names).collect();
            let values = std::iter::once(Value::Null).chain(words).collect();
            return Some(Value::dict(Value::symbols(keys), Value::list(values)));
        }
        let mut names = self.host.names(name);
        for own in super::prelude::names(text(name)).into_iter().chain(prims::names_in(text(name))) {
            if !names.contains(&own) {
                names.push(own);
            }
        }
        let root = name == Sym::NULL || text(name) == b".";
        if names.is_empty() && !root {
            return None;
        }
        let mut keys = vec![Sym::NULL];
        let mut values = vec![Value::Null];
        for short in names {
            let full = if root { short } else { intern(&[text(name), b".", text(short)].concat()).ok()? };
            let value = match self.host.global(full) {
                Some(value) => value,
                None if self.host.native(full).is_some() => Value::func(Function::Native(full)),
                None => match (prims::keyword(text(full)), super::prelude::value(self, full)) {
                    (Some(value), _) | (None, Ok(Some(value))) => value,
                    _ => match self.namespace(full).filter(|_| !root) {
                        Some(below) => below,
                        None => continue,
                    },
                },
            };
            keys.push(short);
            values.push(value);
        }
        Some(Value::dict(Value::symbols(keys), Value::list(values)))
    }

    /// A namespace that was changed as a dictionary: what is not in it any more is taken away, what is other than before is set.
    pub(super) fn set_members(&mut self, space: Sym, old: &Dict, members: &Dict) -> Result<(), QError> {
        let before = old.keys.as_symbols().unwrap_or_default();
        let now = match members.keys.as_symbols() {
            Some(names) => names,
            None if members.keys.count() == 0 => &[],
            None => return Err(QError::named("type")),
        };
        let full = |short: &Sym| match text(space) {
            b"." => Ok(*short),
            around => super::parse::symbol(&[around, b".", text(*short)].concat()),
        };
        for short in before.iter().filter(|short| !short.is_null() && !now.contains(short)) {
            let name = full(short)?;
            if self.host.global(name).is_some() {
                self.host.remove(name)?;
            }
        }
        for (at, short) in now.iter().enumerate() {
            let value = members.values.at(at);
            let had = before.iter().position(|b| b == short).map(|at| old.values.at(at));
            let kept = match &had {
                Some(had) => super::views::identical(had, &value) || super::matches::same(had, &value)?,
                None => false,
            };
            if short.is_null() || kept {
                continue;
            }
            self.set_global(full(short)?, value)?;
        }
        Ok(())
    }
}
