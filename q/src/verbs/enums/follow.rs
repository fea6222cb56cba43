//! Updates enumerations when their domain changes. kdb+ enumerations hold positions in the domain, so changing a domain's
//! item changes what every enumeration over it shows. Here they hold symbols, which are replaced when the domain changes.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::syntax::resolve;
use columns::table::symbol;
use columns::table::{Attr, Dict, Items, Sym, Table, Value, Vector};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

/// Names used as a domain in this process.
static DOMAINS: LazyLock<RwLock<HashSet<Sym>>> = LazyLock::new(RwLock::default);
/// Whether there are any; if not, assignments skip the lookup.
static ANY: AtomicBool = AtomicBool::new(false);

/// Records a name as a domain.
pub(crate) fn note(name: Sym) {
    if !is_domain(name) {
        DOMAINS.write().unwrap_or_else(PoisonError::into_inner).insert(name);
        ANY.store(true, Ordering::SeqCst);
    }
}

/// Whether this process has enumerations.
pub(crate) fn has_domains() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Whether a name may be a domain.
pub(crate) fn is_domain(name: Sym) -> bool {
    ANY.load(Ordering::Relaxed) && DOMAINS.read().unwrap_or_else(PoisonError::into_inner).contains(&name)
}

/// After assignment of a domain, replaces the symbols of all globals enumerated over it by those now at their positions.
pub(crate) fn domain_changed(context: &mut Context, name: Sym, old: &Value, new: &Value) -> Result<(), QError> {
    let (Some(before), Some(after)) = (symbols(old), symbols(new)) else { return Ok(()) };
    if after.starts_with(before) {
        let new = i64::try_from(before.len()).unwrap_or(i64::MAX)..i64::try_from(after.len()).unwrap_or(i64::MAX);
        // Values must be searched only if one has a placeholder for one of the new positions, which is rare.
        if !symbol::has_placeholders() || !new.clone().any(symbol::has_placeholder) {
            return Ok(());
        }
    }
    let mut now: HashMap<Sym, Sym> = HashMap::with_capacity(before.len());
    for (at, symbol) in before.iter().enumerate() {
        let new = match after.get(at) {
            Some(new) => *new,
            // The placeholder becomes a symbol again once the domain is long enough again.
            None => symbol::placeholder(i64::try_from(at).unwrap_or(i64::MAX))?,
        };
        now.entry(*symbol).or_insert(new);
    }
    let exchange = Exchange { name, now, after };
    let mut spaces = vec![Sym::NULL];
    for space in context.host.namespaces() {
        spaces.push(crate::runtime::values::symbol(&[b".", columns::table::symbol::text(space)].concat())?);
    }
    for space in spaces {
        for short in context.host.names(space) {
            context.tick()?;
            let full = resolve::qualify(short, space)?;
            let Some(held) = context.host.global(full) else { continue };
            if let Some(changed) = exchange.value(&held)? {
                context.host.assign(full, changed)?;
            }
        }
    }
    Ok(())
}

fn symbols(x: &Value) -> Option<&[Sym]> {
    match x {
        Value::Vector(Vector { items: Items::Sym(s), .. }) => Some(s),
        _ => None,
    }
}

struct Exchange<'a> {
    name: Sym,
    now: HashMap<Sym, Sym>,
    /// The domain after the assignment.
    after: &'a [Sym],
}

impl Exchange<'_> {
    fn symbol(&self, old: Sym) -> Sym {
        let beyond = || self.after.get(usize::try_from(symbol::position(old)?).ok()?);
        self.now.get(&old).or_else(beyond).copied().unwrap_or(old)
    }

    /// Returns the value with its symbols replaced; `None` if it has none.
    fn value(&self, x: &Value) -> Result<Option<Value>, QError> {
        limits::step()?;
        Ok(match x {
            Value::Enum(name, s) if *name == self.name && self.symbol(*s) != *s => {
                Some(Value::Enum(*name, self.symbol(*s)))
            }
            Value::Vector(v) => self.vector(v)?.map(Value::Vector),
            Value::Dict(d) => {
                let (keys, values) = (self.value(&d.keys)?, self.value(&d.values)?);
                if keys.is_none() && values.is_none() {
                    return Ok(None);
                }
                let mut out = Dict::clone(d);
                out.keys = keys.unwrap_or(out.keys);
                out.values = values.unwrap_or(out.values);
                Some(Value::Dict(out.into()))
            }
            Value::Table(t) => {
                let changed: Vec<Option<Vector>> =
                    t.columns.iter().map(|c| self.vector(c)).collect::<Result<_, _>>()?;
                if changed.iter().all(Option::is_none) {
                    return Ok(None);
                }
                let columns = changed.into_iter().zip(&t.columns).map(|(new, old)| new.unwrap_or_else(|| old.clone()));
                let columns = columns.collect();
                Some(Value::table(Table { sorted: t.sorted, names: t.names.clone(), columns }))
            }
            _ => None,
        })
    }

    fn vector(&self, v: &Vector) -> Result<Option<Vector>, QError> {
        let items = match &v.items {
            // Return `None` if no symbol changes, so that a splayed table stays the same object: `.Q.qp` recognises it by its address.
            Items::Enum(name, s) if *name == self.name && s.iter().any(|s| self.symbol(*s) != *s) => {
                Items::Enum(*name, s.iter().map(|s| self.symbol(*s)).collect())
            }
            Items::List(l) => {
                let changed: Vec<Option<Value>> = l.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?;
                if changed.iter().all(Option::is_none) {
                    return Ok(None);
                }
                let items = changed.into_iter().zip(l.iter()).map(|(new, old)| new.unwrap_or_else(|| old.clone()));
                Items::List(items.collect())
            }
            _ => return Ok(None),
        };
        Ok(Some(Vector { attr: Attr::None, items }))
    }
}
