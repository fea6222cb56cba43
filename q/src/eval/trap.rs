//! Errors with backtraces: `.Q.trp`, `.Q.trpd`, `.Q.pl`, `.Q.sbt`, `.Q.bt`, `.Q.Ll`, `.Q.btx`.

use crate::runtime::context::Context;
use crate::runtime::error::{Origin, Place, QError};
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::ast::Kind;
use crate::syntax::{lambda, prims, resolve};
use crate::verbs::above::Evaluate;
use crate::verbs::trace::is_within;
use columns::table::function::{Function, Lambda};
use columns::table::{Items, Value, Vector, symbol};
use std::sync::Arc;

/// Position of a level that is no code.
const NOWHERE: i64 = -1;

/// Handlers that evaluate messages and requests.
const HANDLERS: [&str; 5] = [".z.pg", ".z.ps", ".z.ws", ".z.ph", ".z.pp"];

/// Converts a backtrace to a value, a level each: `((f;…);(name;file;line;text);position;n)`. `f` is `trap` at its own level and `::` at the others.
fn as_value(places: &[Place], trap: &Value) -> Value {
    let row = |(at, p): (usize, &Place)| {
        let (file, line) = p.origin.as_ref().map_or((&[][..], -1), |origin| (&origin.file[..], i64::from(origin.line)));
        let (name, text) = (Value::chars(&p.name[..]), Value::chars(&p.text[..]));
        let is_trap = p.at == Place::NOWHERE;
        let position = if is_trap { NOWHERE } else { i64::from(p.at) };
        let f = if is_trap { trap.clone() } else { Value::Null };
        let source = Value::list(vec![name, Value::chars(file), Value::Long(line), text]);
        let n = places.len().saturating_sub(at.saturating_add(1)) as i64;
        Value::list(vec![Value::list(vec![f]), source, Value::Long(position), Value::Long(n)])
    };
    Value::list(places.iter().enumerate().map(row).collect())
}

/// Whether a lambda is the owner's: of a start-up file or a script.
fn is_owners(of: &Lambda) -> bool {
    lambda::definition(of).is_some_and(|definition| definition.origin.is_some())
        || lambda::code(of).is_ok_and(|code| code.is_owners)
}

/// Whether `of` calls this trap with this handler, as `{.Q.trp[value;x;{[e;b]…}]}` does: its code names the trap outside inner lambdas, and the handler
/// is one of these or a function of the owner.
fn calls(of: &Lambda, trap: &str, handler: &Value) -> bool {
    let Value::Func(f) = handler else { return false };
    let handler = match &**f {
        Function::Projection { function: Value::Func(of), .. } => of,
        _ => f,
    };
    let Function::Lambda(handler) = &**handler else { return false };
    let (mut is_named, mut is_known) = (false, is_owners(handler));
    for node in lambda::code(of).map_or(&[][..], |code| &code.body) {
        resolve::walk(node, &mut |node| {
            let is_handler = |f: &Function| matches!(f, Function::Lambda(f) if Arc::ptr_eq(&f.code, &handler.code));
            is_named |= matches!(node.kind, Kind::Global(name) if symbol::text(name) == trap.as_bytes());
            is_known |= matches!(&node.kind, Kind::Const(Value::Func(f)) if is_handler(f));
        });
    }
    is_named && is_known
}

/// Returns the backtrace of an error, followed by the trap and the source text of the message.
fn way(context: &Context, error: &QError, trap: &str, handler: &Value) -> Vec<Place> {
    let error = error.clone().locate(|name| context.host.origin(symbol::find(name)?));
    let plain = |text: Vec<u8>, at| Place { name: Vec::new(), text, at, origin: None };
    let mut places = error.trace().to_vec();
    places.push(plain(format!("({trap})\n").into_bytes(), Place::NOWHERE));
    let mut levels = crate::verbs::trace::levels(context, context.at);
    let traps = context.frames.last().and_then(|level| level.lambda());
    // Code of the owner reads its own stack, but not where it applies what a client gave it.
    let is_trap_owners = || traps.is_some_and(|of| is_owners(of) && calls(of, trap, handler));
    if context.host.caller().remote && !is_trap_owners() {
        // A remote caller sees its own message and what that calls, but no paths; where handlers are set or it may not see all rows, only the message and
        // the lambdas that are written in it.
        let has_handler = HANDLERS.iter().any(|name| context.host.global(prims::name(name)).is_some());
        if has_handler || context.host.is_restricted() {
            levels.retain(|level| is_within(&context.text, &level.text));
            levels.push(plain(context.text.clone(), 0));
        }
        levels.iter_mut().for_each(|level| level.origin = None);
    }
    places.extend(levels);
    places
}

fn trapped(context: &mut Context, mut a: Vec<Value>, trap: &str, spread: bool) -> Result {
    let (Some(handler), Some(argument), Some(f)) = (a.pop(), a.pop(), a.pop()) else { return Err(type_error()) };
    let arguments = if spread { argument.items() } else { vec![argument] };
    context.trapping(|context| context.apply(&f, arguments)).or_else(|error| {
        if context.is_ended_by(&error) {
            return Err(error);
        }
        let places = way(context, &error, trap, &handler);
        let function = symbol::find(trap.as_bytes()).and_then(|name| context.global(name).ok()).unwrap_or(Value::Null);
        context.call2(&handler, Value::chars(error.name.into_owned()), as_value(&places, &function))
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

/// Reads a level of a backtrace: its place, its number, and whether it is code.
fn level(row: &Value) -> Option<(Place, usize, bool)> {
    let (source, position) = (row.at(1), row.at(2).as_long()?);
    let (name, file, text) = (source.at(0), source.at(1), source.at(3));
    let line = source.at(2).as_long().and_then(|line| u32::try_from(line).ok());
    let file = file.as_text().filter(|file| !file.is_empty());
    let origin = line.zip(file).map(|(line, file)| Origin { file: file.into(), line, column: 0 });
    let (name, text) = (name.as_text()?.to_vec(), text.as_text()?.to_vec());
    let is_code = position != NOWHERE;
    let at = if is_code { u32::try_from(position).unwrap_or(0) } else { Place::NOWHERE };
    let n = usize::try_from(row.at(3).as_long()?).ok()?;
    Some((Place { name, text, at, origin }, n, is_code))
}

/// `'x` at a position: the error of a symbol or a string, or of a list of one of them and a backtrace, which stands for the level that signals it.
pub(super) fn signalled(x: &Value, at: u32) -> QError {
    let name = |x: &Value| match x {
        Value::Sym(name) => Some(symbol::text(*name).to_vec()),
        Value::Vector(_) => Some(x.as_text()?.to_vec()),
        _ => None,
    };
    if let Some(name) = name(x) {
        return QError::signal(name).place(at);
    }
    let again = || match general(x)? {
        [reason, backtrace] => {
            let (error, places) = (QError::signal(name(reason)?), places(backtrace)?);
            Some(if places.is_empty() { error.place(at) } else { error.with_backtrace(places) })
        }
        _ => None,
    };
    again().unwrap_or_else(|| QError::named("stype").place(at))
}

fn general(x: &Value) -> Option<&[Value]> {
    match x {
        Value::Vector(Vector { items: Items::List(list), .. }) => Some(list),
        _ => None,
    }
}

/// Reads a backtrace, up to the longest that an error keeps.
fn places(backtrace: &Value) -> Option<Vec<Place>> {
    general(backtrace)?.iter().take(QError::MAX_TRACE).map(|row| level(row).map(|(place, ..)| place)).collect()
}

/// Appends the text of one level of a backtrace.
fn write_level(row: &Value, out: &mut Vec<u8>) -> std::result::Result<(), QError> {
    let (place, n, is_code) = level(row).ok_or_else(type_error)?;
    if is_code {
        place.write(n, out);
    } else {
        out.extend_from_slice(format!("  [{n}]  ").as_bytes());
        out.extend_from_slice(&place.text);
        out.push(b'\n');
    }
    Ok(())
}

/// `.Q.pl x`: formats one level of a backtrace.
pub(crate) fn pl(_: &mut Context, x: Value) -> Result {
    let mut out = Vec::new();
    write_level(&x, &mut out)?;
    Ok(Value::chars(out))
}

/// `.Q.sbt x`: formats a backtrace.
pub(crate) fn sbt(_: &mut Context, x: Value) -> Result {
    let mut out = Vec::new();
    for row in x.items() {
        write_level(&row, &mut out)?;
    }
    Ok(Value::chars(out))
}

/// `` .Q.Ll` ``: returns the call stack as a backtrace, innermost frame first. For a remote caller, paths and the texts of handlers and
/// messages are left out.
pub(crate) fn stack(context: &mut Context, _: Value) -> Result {
    let mut places = crate::verbs::trace::levels(context, context.at);
    if context.host.caller().remote {
        for place in &mut places {
            place.origin = None;
            if place.name.is_empty() || place.name.starts_with(b".z.") {
                place.text.clear();
            }
        }
    }
    Ok(as_value(&places, &Value::Null))
}

/// `.Q.btx x`: returns `x`. kdb+ converts the stack that `.Q.Ll` returns; here `.Q.Ll` already returns a backtrace.
pub(crate) fn btx(_: &mut Context, x: Value) -> Result {
    Ok(x)
}

/// `.Q.bt[]`: prints the current call stack, innermost frame first.
pub(crate) fn bt(context: &mut Context, _: Value) -> Result {
    let mut out = Vec::new();
    let places = crate::verbs::trace::levels(context, context.at);
    for (place, depth) in places.iter().zip((0..places.len()).rev()) {
        place.write(depth, &mut out);
    }
    context.host.print(&out)?;
    Ok(Value::Null)
}
