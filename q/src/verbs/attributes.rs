//! Attributes of vectors.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::prims;
use crate::verbs::find;
use crate::verbs::matches::order_mixed;
use crate::verbs::types::attribute_name;
use columns::sys::shared::Held;
use columns::table::{Attr, Dict, Items, Sym, Table, Value, Vector};
use std::cmp::Ordering;
use std::sync::Arc;

/// `` `s#x `` and the like; checks that the attribute holds.
pub(crate) fn set_attribute(name: &[u8], x: Value) -> Result {
    let attr = match name {
        b"" => Attr::None,
        b"s" => Attr::Sorted,
        b"u" => Attr::Unique,
        b"p" => Attr::Parted,
        b"g" => Attr::Grouped,
        _ => return Err(type_error()),
    };
    match x {
        Value::Vector(v) => {
            let groups = || find::groups(&v.items);
            let holds = match attr {
                Attr::None | Attr::Mapped(_) | Attr::Grouped => true,
                Attr::Sorted => ascends(&v.items)?,
                Attr::Unique => match v.items.are_unique(find::room) {
                    Some(unique) => unique?,
                    None => groups()?.firsts.len() == v.len(),
                },
                Attr::Parted => {
                    let changes = groups()?.ids.windows(2).filter(|w| w.first() != w.last()).count();
                    v.is_empty() || changes + 1 == groups()?.firsts.len()
                }
            };
            if !holds {
                return Err(QError::signal(match attr {
                    Attr::Sorted => "s-fail",
                    _ => "u-fail",
                }));
            }
            Ok(Vector { attr, items: v.items }.into())
        }
        Value::Dict(d) => {
            let keys = match &d.keys {
                Value::Vector(_) => set_attribute(name, d.keys.clone())?,
                // kdb+ leaves the only key column of a step function as it is.
                Value::Table(t) if t.columns.len() == 1 || attr != Attr::Sorted => {
                    Value::table(Table { sorted: attr == Attr::Sorted, ..(**t).clone() })
                }
                Value::Table(t) => Value::table(sorted_rows((**t).clone())?),
                other => other.clone(),
            };
            Ok(Value::Dict(Held::new(Dict { sorted: attr == Attr::Sorted, keys, values: d.values.clone() })))
        }
        Value::Table(t) => {
            let mut t = Arc::unwrap_or_clone(t);
            if attr == Attr::Sorted {
                return Ok(Value::table(sorted_rows(t)?));
            }
            set_first(&mut t, name)?;
            t.sorted = false;
            Ok(Value::table(t))
        }
        _ => Err(type_error()),
    }
}

fn set_first(t: &mut Table, name: &[u8]) -> std::result::Result<(), QError> {
    if let Some(first) = t.columns.first_mut() {
        *first = set_attribute(name, first.clone().into())?.into_vector().ok_or_else(type_error)?;
    }
    Ok(())
}

/// `` `s#t ``: rows in order have equal items of the first column together, and an only column in order.
fn sorted_rows(mut t: Table) -> std::result::Result<Table, QError> {
    let name = if t.columns.len() > 1 { b"p" } else { b"s" };
    set_first(&mut t, name)?;
    if t.columns.len() > 1 && !rows_ascend(&t)? {
        return Err(QError::signal("s-fail"));
    }
    t.sorted = true;
    Ok(t)
}

/// Whether no row comes before the one above it: by the first column in which they differ.
fn rows_ascend(t: &Table) -> std::result::Result<bool, QError> {
    for i in 1..t.count() {
        if i.is_multiple_of(1 << 12) {
            limits::check()?;
        }
        for column in &t.columns {
            match order_mixed(&column.items.get(i - 1), &column.items.get(i))? {
                Ordering::Greater => return Ok(false),
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    Ok(true)
}

/// As [`sorted_rows`], for rows that are known to be in order.
pub(crate) fn mark_sorted(t: &mut Table) {
    let attr = if t.columns.len() > 1 { Attr::Parted } else { Attr::Sorted };
    if let Some(first) = t.columns.first_mut() {
        first.attr = attr;
    }
    t.sorted = true;
}

/// Whether every item is at least as large as the one before it.
pub(crate) fn ascends(items: &Items) -> std::result::Result<bool, QError> {
    for i in 1..items.len() {
        if order_mixed(&items.get(i - 1), &items.get(i))? == Ordering::Greater {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the attribute of a vector after `more` is appended: `` x:`u#1 2;x,:3 `` keeps it, and `x,:1` loses it, as kdb+ 4.1 does.
///
/// # Errors
/// Items that cannot be compared, and the limits of a query.
pub(crate) fn after_append(v: &Vector, more: &Items) -> std::result::Result<Attr, QError> {
    Ok(match v.attr {
        Attr::None | Attr::Mapped(_) | Attr::Parted => Attr::None,
        Attr::Grouped => Attr::Grouped,
        Attr::Sorted => {
            let joins = match v.len().checked_sub(1) {
                Some(last) if !more.is_empty() => order_mixed(&v.items.get(last), &more.get(0))? != Ordering::Greater,
                _ => true,
            };
            if joins && ascends(more)? { Attr::Sorted } else { Attr::None }
        }
        Attr::Unique => {
            const FEW: usize = 4;
            let unique = if more.len() <= FEW {
                let known = Value::Vector(v.clone());
                let mut new = true;
                for i in 0..more.len() {
                    new = new && find::position(&known, &more.get(i))?.is_none();
                }
                new && find::groups(more)?.firsts.len() == more.len()
            } else {
                let both = v.items.clone().join(more);
                find::groups(&both)?.firsts.len() == both.len()
            };
            if unique { Attr::Unique } else { Attr::None }
        }
    })
}

/// As [`after_append`], for a vector that is about to grow: a unique one keeps an index over its items, if nothing else refers to them.
///
/// # Errors
/// As [`after_append`].
pub(crate) fn after_growth(v: &mut Vector, more: &Items) -> std::result::Result<Attr, QError> {
    if v.attr == Attr::Unique
        && let Some(found) = v.items.find_indexed(more, find::room)
    {
        let is_new = found?.iter().all(Option::is_none);
        let is_unique = is_new && (more.len() < 2 || find::groups(more)?.firsts.len() == more.len());
        return Ok(if is_unique { Attr::Unique } else { Attr::None });
    }
    after_append(v, more)
}

/// `attr x`.
pub(crate) fn attr(_: &mut Context, x: Value) -> Result {
    Ok(Value::Sym(match &x {
        Value::Vector(v) => attribute_name(v.attr),
        Value::Dict(d) if d.sorted => prims::name("s"),
        Value::Table(t) if t.sorted => prims::name("s"),
        _ => Sym::NULL,
    }))
}
