//! `ss` and `ssr`: find and replace what a pattern matches.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::above::Evaluate;
use crate::verbs::shape;
use crate::verbs::strings::{Piece, occurrences, pattern};
use columns::kernel::blocks;
use columns::table::Value;

/// Parses a pattern of `ss` or `ssr`, which must match a fixed number of characters, at least one.
///
/// # Errors
/// `length` for an empty pattern, and for one with `*`.
fn searched(sought: &[u8]) -> std::result::Result<Vec<Piece>, QError> {
    let pieces = pattern(sought);
    if pieces.is_empty() {
        return Err(QError::with("length", "an empty pattern matches nowhere"));
    }
    if pieces.iter().any(|p| matches!(p, Piece::Many)) {
        return Err(QError::with("length", "what * in a pattern matches has no length"));
    }
    Ok(pieces)
}

/// `x ss y`: positions of a pattern's matches.
pub(crate) fn ss(context: &mut Context, x: Value, y: Value) -> Result {
    let (subject, sought) = (x.as_text().ok_or_else(type_error)?, y.as_text().ok_or_else(type_error)?);
    let pieces = searched(sought)?;
    Ok(Value::longs(blocks::map(&occurrences(context, subject, &pieces)?, |p| *p as i64)))
}

/// Whether a set of characters in a pattern is not closed.
fn has_open_class(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    while let Some(open) = rest.iter().position(|c| *c == b'[') {
        let body = rest.get(open + 1..).unwrap_or_default();
        let first = 1 + usize::from(body.first() == Some(&b'^'));
        let Some(close) = body.iter().skip(first).position(|c| *c == b']') else { return true };
        rest = body.get(first + close + 1..).unwrap_or_default();
    }
    false
}

/// `ssr` by a value that is neither text nor a function: it stands as an item between the pieces of the text.
fn replaced_by_constant(context: &mut Context, subject: &[u8], pieces: &[Piece], z: Value) -> Result {
    let found = occurrences(context, subject, pieces)?;
    context.reserve_items(found.len().saturating_mul(2), 48)?;
    let mut out = Vec::new();
    let mut from = 0;
    for at in found {
        out.push(Value::chars(subject.get(from..at).unwrap_or_default()));
        out.push(z.clone());
        from = at + pieces.len();
    }
    out.push(Value::chars(subject.get(from..).unwrap_or_default()));
    shape::raze(context, Value::list(out))
}

/// `ssr[x;y;z]`: replaces matches of `y` by `z`, a string or a function of the match.
pub(crate) fn ssr(context: &mut Context, mut arguments: Vec<Value>) -> Result {
    let z = arguments.pop().ok_or_else(type_error)?;
    let y = arguments.pop().ok_or_else(type_error)?;
    let x = arguments.pop().ok_or_else(type_error)?;
    if x.is_scalar() {
        return Err(type_error());
    }
    let subject = x.as_text().ok_or_else(type_error)?;
    let y = y.as_text().ok_or_else(type_error)?;
    if has_open_class(y) {
        return Err(QError::named("unmatched ]"));
    }
    let pieces = searched(y)?;
    if !matches!(z, Value::Func(_)) && z.as_text().is_none() {
        return replaced_by_constant(context, subject, &pieces, z);
    }
    context.reserve(subject.len())?;
    let mut out = Vec::with_capacity(subject.len());
    let mut from = 0;
    for at in occurrences(context, subject, &pieces)? {
        context.check()?;
        out.extend_from_slice(subject.get(from..at).unwrap_or_default());
        from = at + pieces.len();
        let found = subject.get(at..from).unwrap_or_default();
        match z.as_text() {
            Some(new) => out.extend_from_slice(new),
            None => {
                let new = context.call1(&z, Value::chars(found))?;
                out.extend_from_slice(new.as_text().ok_or_else(type_error)?);
            }
        }
        context.reserve(out.len())?;
    }
    out.extend_from_slice(subject.get(from..).unwrap_or_default());
    Ok(Value::chars(out))
}
