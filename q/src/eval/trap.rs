//! Errors with backtraces: `.Q.trp`, `.Q.trpd`, `.Q.sbt`, `.Q.bt`.

use crate::runtime::context::Context;
use crate::runtime::error::{Origin, Place, QError};
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::above::Evaluate;
use columns::table::{Value, symbol};

/// Converts a backtrace to a value: names, texts, positions, files and lines.
fn as_value(places: &[Place]) -> Value {
    let row = |p: &Place| {
        let origin = match &p.origin {
            Some(origin) => vec![Value::chars(&origin.file[..]), Value::Long(i64::from(origin.line))],
            None => Vec::new(),
        };
        let (name, text) = (Value::chars(&p.name[..]), Value::chars(&p.text[..]));
        Value::list(vec![name, text, Value::Long(i64::from(p.at)), Value::list(origin)])
    };
    Value::list(places.iter().map(row).collect())
}

/// Returns the backtrace of an error, followed by the trap and the source text of the message.
fn way(context: &Context, error: &QError, trap: &str) -> Vec<Place> {
    let error = error.clone().locate(|name| context.host.origin(symbol::find(name)?));
    let plain = |text: Vec<u8>, at| Place { name: Vec::new(), text, at, origin: None };
    let mut places = error.trace().to_vec();
    places.push(plain(format!("({trap})\n").into_bytes(), u32::MAX));
    places.push(plain(context.text.clone(), 0));
    places
}

fn trapped(context: &mut Context, mut a: Vec<Value>, trap: &str, spread: bool) -> Result {
    let (Some(handler), Some(argument), Some(f)) = (a.pop(), a.pop(), a.pop()) else { return Err(type_error()) };
    let arguments = if spread { argument.items() } else { vec![argument] };
    context.apply(&f, arguments).or_else(|error| {
        if crate::runtime::host::is_limit(&error) {
            return Err(error);
        }
        let places = way(context, &error, trap);
        context.call2(&handler, Value::chars(error.name.into_owned()), as_value(&places))
    })
}

/// `.Q.trp[f;x;g]`: returns `f x`; on an error `g[error;backtrace]`.
pub(crate) fn trp(context: &mut Context, a: Vec<Value>) -> Result {
    trapped(context, a, ".Q.trp", false)
}

/// `.Q.trpd[f;x;g]`: returns `f . x`; on an error `g[error;backtrace]`.
pub(crate) fn trpd(context: &mut Context, a: Vec<Value>) -> Result {
    trapped(context, a, ".Q.trpd", true)
}

fn origin(row: &Value) -> Option<Origin> {
    let line = u32::try_from(row.at(1).as_long()?).ok()?;
    Some(Origin { file: row.at(0).as_text()?.into(), line })
}

/// `.Q.sbt x`: formats a backtrace.
pub(crate) fn sbt(_: &mut Context, x: Value) -> Result {
    let rows = x.items();
    let mut out = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let (name, text, at) = (row.at(0), row.at(1), row.at(2));
        let place = Place {
            name: name.as_text().ok_or_else(type_error)?.to_vec(),
            text: text.as_text().ok_or_else(type_error)?.to_vec(),
            at: at.as_long().and_then(|a| u32::try_from(a).ok()).unwrap_or(0),
            origin: origin(&row.at(3)),
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

/// `.Q.bt[]`: prints the current call stack, innermost frame first.
pub(crate) fn bt(context: &mut Context, _: Value) -> Result {
    let mut out = Vec::new();
    let mut at = context.at;
    for depth in (1..=context.frames.len()).rev() {
        let Some(frame) = context.frames.get(depth - 1) else { break };
        let start = crate::syntax::lambda::code(&frame.lambda).map_or(0, |code| code.start);
        let place = Place {
            name: crate::verbs::trace::traced_name(context, &frame.lambda, frame.name, depth - 1),
            text: frame.lambda.source.to_vec(),
            at: at.saturating_sub(start),
            origin: None,
        };
        place.write(depth, &mut out);
        at = frame.called_at;
    }
    Place { name: Vec::new(), text: context.text.clone(), at, origin: None }.write(0, &mut out);
    context.host.print(&out)?;
    Ok(Value::Null)
}
