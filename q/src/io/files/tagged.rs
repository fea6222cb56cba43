//! Domains of the enumerations inside a value in one file. The serialised value holds plain symbols, which every reader of the
//! format understands; after it, a mark and a list of `(path;domain;positions)` say which of them are enumerated.

use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::{Result, domain_of};
use crate::verbs::enums;
use columns::table::{Attr, Dict, Items, Sym, Value, Vector};
use proto::View;
use std::sync::Arc;

const MARK: &[u8] = b"elastick:e";

/// Appends the domains of a value's enumerations to its file; nothing if it has none.
///
/// A general list has none: its file grows by appended items.
pub(super) fn append(context: &mut Context, y: &Value, out: &mut Vec<u8>) -> std::result::Result<(), QError> {
    let mut found = Vec::new();
    if matches!(y, Value::Table(_) | Value::Dict(_)) {
        collect(context, y, &mut Vec::new(), &mut found)?;
    }
    if !found.is_empty() {
        out.extend_from_slice(MARK);
        let message = wire::message(&Value::list(found))?;
        out.extend_from_slice(message.get(proto::HEADER_BYTES..).unwrap_or_default());
    }
    Ok(())
}

fn collect(
    context: &mut Context,
    y: &Value,
    path: &mut Vec<i64>,
    found: &mut Vec<Value>,
) -> std::result::Result<(), QError> {
    context.enter()?;
    if let Some(domain) = domain_of(y) {
        let places = match enums::places(context, y) {
            Ok(places) => crate::verbs::cast::to(context, proto::types::LONG, &places)?,
            // Without its domain an item is its position.
            Err(_) => y.clone().plain(),
        };
        found.push(Value::list(vec![Value::longs(path.clone()), Value::Sym(domain), places]));
        return Ok(());
    }
    let mut inside = |context: &mut Context, at: usize, part: &Value| {
        path.push(at as i64);
        let done = collect(context, part, path, found);
        path.pop();
        done
    };
    match y {
        Value::Table(t) => {
            t.columns.iter().enumerate().try_for_each(|(i, c)| inside(context, i, &Value::Vector(c.clone())))
        }
        Value::Dict(d) => [&d.keys, &d.values].into_iter().enumerate().try_for_each(|(i, p)| inside(context, i, p)),
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            l.iter().enumerate().filter(|(_, item)| !item.is_atom() || item.is_enumerated()).try_for_each(
                |(i, item)| {
                    context.tick()?;
                    inside(context, i, item)
                },
            )
        }
        _ => Ok(()),
    }
}

/// Returns a value with the enumerations that the bytes after it describe. Other bytes there are not looked at.
pub(super) fn restore(context: &mut Context, mut value: Value, rest: &[u8]) -> Result {
    let Some(body) = rest.strip_prefix(MARK) else { return Ok(value) };
    let view = View::parse(body, proto::Endian::Little, &proto::Limits::default());
    let (view, _) = view.map_err(|error| QError::with("badtail", error.to_string()))?;
    for entry in limits::items(&wire::from_view(&view)?)? {
        context.tick()?;
        let (Value::Vector(Vector { items: Items::Long(path), .. }), Value::Sym(domain)) = (entry.at(0), entry.at(1))
        else {
            continue;
        };
        let tagged = item(context, domain, entry.at(2))?;
        value = put(context, value, &path, tagged)?;
    }
    Ok(value)
}

/// The items of a domain at these positions; the positions if the domain is not loaded.
pub(super) fn item(context: &mut Context, domain: Sym, places: Value) -> Result {
    enums::note(domain);
    match enums::link(context, domain, places.clone()) {
        Err(_) => Ok(match places {
            Value::Long(place) => Value::Link(domain, place),
            other => {
                Items::Link(domain, crate::verbs::arith::longs(&other.to_items(), proto::types::LONG)?.into()).into()
            }
        }),
        linked => linked,
    }
}

/// Replaces the part of a value at a path.
pub(super) fn put(context: &mut Context, value: Value, path: &[i64], new: Value) -> Result {
    context.enter()?;
    let Some((first, rest)) = path.split_first() else {
        return Ok(match (value, new) {
            // The attribute is that of the plain items.
            (Value::Vector(old), Value::Vector(v)) => Vector { attr: old.attr, ..v }.into(),
            (_, new) => new,
        });
    };
    let at = usize::try_from(*first).unwrap_or(usize::MAX);
    Ok(match value {
        Value::Table(t) => {
            let mut t = Arc::unwrap_or_clone(t);
            if let Some(column) = t.columns.get_mut(at) {
                let changed = put(context, Value::Vector(column.clone()), rest, new)?.into_vector();
                // A file that was tampered with may describe columns of another length.
                *column = changed.filter(|c| c.len() == column.len()).ok_or(QError::named("badtail"))?;
            }
            Value::table(t)
        }
        Value::Dict(d) => {
            let Dict { sorted, mut keys, mut values } = d.into_value();
            let part = if at == 0 { &mut keys } else { &mut values };
            let count = part.count();
            *part = put(context, std::mem::replace(part, Value::Null), rest, new)?;
            if part.count() != count {
                return Err(QError::named("badtail"));
            }
            Value::Dict(columns::sys::shared::Held::new(Dict { sorted, keys, values }))
        }
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            let mut items = l.into_vec();
            if let Some(slot) = items.get_mut(at) {
                *slot = put(context, std::mem::replace(slot, Value::Null), rest, new)?;
            }
            Vector { attr: Attr::None, items: Items::List(items.into()) }.into()
        }
        other => other,
    })
}
