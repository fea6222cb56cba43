//! Errors with their way: `.Q.trp`, `.Q.trpd`, `.Q.sbt`, `.Q.bt`.

use super::context::Context;
use super::error::{Place, QError};
use super::shape::{Result, type_error};
use crate::table::Value;

/// Places as a value: names, texts, positions.
fn as_value(places: &[Place]) -> Value {
    let rows = places
        .iter()
        .map(|p| Value::list(vec![Value::chars(&p.name[..]), Value::chars(&p.text[..]), Value::Long(i64::from(p.at))]));
    Value::list(rows.collect())
}

/// The error's way, with the trap and the text that was sent behind it.
fn way(context: &Context, error: &QError, trap: &str) -> Vec<Place> {
    let mut places = error.trace().to_vec();
    places.push(Place { name: Vec::new(), text: format!("({trap})\n").into_bytes(), at: u32::MAX });
    places.push(Place { name: Vec::new(), text: context.text.clone(), at: 0 });
    places
}

fn trapped(context: &mut Context, mut a: Vec<Value>, trap: &str, spread: bool) -> Result {
    let (Some(handler), Some(argument), Some(f)) = (a.pop(), a.pop(), a.pop()) else { return Err(type_error()) };
    let arguments = if spread { argument.items() } else { vec![argument] };
    context.apply(&f, arguments).or_else(|error| {
        if super::internal::is_limit(&error) {
            return Err(error);
        }
        let places = way(context, &error, trap);
        context.call2(&handler, Value::chars(error.name.into_owned()), as_value(&places))
    })
}

/// `.Q.trp[f;x;g]`: `f x`, or `g` of the error and its way.
pub(super) fn trp(context: &mut Context, a: Vec<Value>) -> Result {
    trapped(context, a, ".Q.trp", false)
}

/// `.Q.trpd[f;x;g]`: `f . x`, or `g` of the error and its way.
pub(super) fn trpd(context: &mut Context, a: Vec<Value>) -> Result {
    trapped(context, a, ".Q.trpd", true)
}

/// `.Q.sbt x`: an error's way as text.
pub(super) fn sbt(_: &mut Context, x: Value) -> Result {
    let rows = x.items();
    let mut out = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let (name, text, at) = (row.at(0), row.at(1), row.at(2));
        let place = Place {
            name: name.as_text().ok_or_else(type_error)?.to_vec(),
            text: text.as_text().ok_or_else(type_error)?.to_vec(),
            at: at.as_long().and_then(|a| u32::try_from(a).ok()).unwrap_or(0),
        };
        let depth = rows.len() - 1 - i;
        if place.at == u32::MAX {
            out.extend_from_slice(format!("  [{depth}]  ").as_bytes());
            out.extend_from_slice(&place.text);
            out.push(b'\n');
        } else {
            place.write(depth, &mut out);
        }
    }
    Ok(Value::chars(out))
}

/// `.Q.bt[]`: shows what is running.
pub(super) fn bt(context: &mut Context, _: Value) -> Result {
    let mut out = Vec::new();
    Place { name: Vec::new(), text: context.text.clone(), at: 0 }.write(0, &mut out);
    context.host.print(&out)?;
    Ok(Value::Null)
}
