//! The q language: lexer, parser, evaluator, primitives, qSQL, console formatting. Knows nothing of tickerplants: what a
//! process offers to its queries comes in through [`host::Host`].

#![forbid(unsafe_code)]

mod address;
mod aggregate;
mod amend;
mod append;
mod apply;
mod arith;
mod asof;
mod ast;
mod attributes;
mod called;
mod cast;
mod codec;
mod commands;
mod context;
mod enums;
pub mod error;
mod eval;
mod files;
mod find;
mod footprint;
mod format;
mod gather;
pub mod guard;
pub mod handlers;
pub mod handles;
pub mod host;
mod index;
mod internal;
mod iterate;
mod joins;
mod json;
mod lambda;
mod lex;
mod limits;
mod line;
mod linear;
mod literal;
mod machine;
mod matches;
mod monads;
mod moving;
mod namespace;
mod numbered;
mod parse;
mod parse_query;
mod parted;
mod pattern;
mod peach;
mod prelude;
mod prims;
mod process;
mod query;
mod random;
pub mod refused;
mod resolve;
mod rowwise;
mod rules;
pub mod script;
mod sections;
pub mod session;
mod sets;
mod settings;
mod shape;
mod show;
mod sort;
pub mod startup;
mod stats;
mod strings;
mod system;
mod tables;
mod take;
mod threads;
mod time;
mod tok;
mod trap;
mod tree;
mod views;
mod windows;
mod wire;

pub use append::extend;
pub use called::called;
pub use error::QError;
pub use format::one_line;
pub use host::{Caller, Grants, Host, NEEDS_OWNER, Threads};
pub use limits::Limits;
pub use rules::{Rules, allow_list};
pub use show::{Console, show};
pub use system::{Settings, adopt, settings};
pub use time::now_utc_ns as now_ns;
pub use wire::{from_owned, from_view, to_wire};

use columns::table::function::Function;
use columns::table::{Items, Sym, Value, Vector};
use context::Context;

/// Evaluates text as a client or the console sends it; the value of its last statement.
///
/// # Errors
/// By kdb+'s names; `stop` and `wsfull` at the limits; [`NEEDS_OWNER`] where the host says so.
pub fn eval_text(host: &mut dyn Host, text: &[u8], limits: &Limits) -> Result<Value, QError> {
    settled(run_text(&mut Context::new(host, limits), text))
}

/// Evaluates text and says whether the console shows its result: not after an assignment or a last semicolon.
///
/// # Errors
/// As [`eval_text`].
pub fn eval_line(host: &mut dyn Host, text: &[u8], limits: &Limits) -> Result<(Value, bool), QError> {
    let mut context = Context::new(host, limits);
    let (value, shown) = run_line(&mut context, text)?;
    // What lies on disk is looked up where it is going to be shown.
    let value = if shown { files::database::shown(&mut context, value) } else { value };
    settled(Ok((value, shown)))
}

/// As [`eval_line`], with the locals of a lambda that an error has left as names.
///
/// # Errors
/// As [`eval_text`].
pub fn eval_among(
    host: &mut dyn Host,
    text: &[u8],
    locals: &[(Sym, Value)],
    limits: &Limits,
) -> Result<(Value, bool), QError> {
    let mut context = Context::new(host, limits);
    let (names, values) = locals.iter().cloned().unzip();
    let run = |context: &mut Context| {
        let program = parse::program_among(text, context.host.namespace(), names)?;
        context.text = text.to_vec();
        Ok((context.run(&program.code, values)?, !program.silent))
    };
    settled(run(&mut context).map_err(|error: QError| error.leave(b"", text, 0)))
}

/// Evaluates what a message holds: text; a name; or a list of a function (a name, text, a lambda, …) and its arguments,
/// which are taken as they are.
///
/// # Errors
/// As [`eval_text`].
pub fn eval_message(host: &mut dyn Host, object: &Value, limits: &Limits) -> Result<Value, QError> {
    settled(message(&mut Context::new(host, limits), object))
}

/// Applies a function, list or dictionary to arguments.
///
/// # Errors
/// As [`eval_text`].
pub fn apply(host: &mut dyn Host, f: &Value, arguments: &[Value], limits: &Limits) -> Result<Value, QError> {
    settled(Context::new(host, limits).apply(f, arguments.to_vec()))
}

/// Whether a value is a function that so many arguments are enough for.
pub fn takes(f: &Value, arguments: usize) -> bool {
    matches!(f, Value::Func(_)) && apply::valence(f) <= arguments
}

/// A result, unless something of it was given up; then an error may come from that, and this one is its cause.
fn settled<T>(result: Result<T, QError>) -> Result<T, QError> {
    limits::settle()?;
    result
}

/// The globals that text refers to, also in its lambdas: from them a host can tell early where to run it. Empty for what
/// does not parse.
pub fn parse_names(text: &[u8]) -> Vec<Sym> {
    let mut names = Vec::new();
    if let Ok(program) = parse::program(text, Sym::NULL) {
        resolve::globals(&program.code, &mut names);
    }
    names
}

fn run_text(context: &mut Context, text: &[u8]) -> Result<Value, QError> {
    // An assignment answers nothing to whoever sent it, as it shows nothing at the console.
    run_line(context, text).map(|(value, shown)| if shown { value } else { Value::Null })
}

fn run_line(context: &mut Context, text: &[u8]) -> Result<(Value, bool), QError> {
    run_statements(context, text).map_err(|error| {
        let error = error.leave(b"", text, 0);
        error.locate(|name| context.host.origin(columns::table::symbol::find(name)?))
    })
}

fn run_statements(context: &mut Context, text: &[u8]) -> Result<(Value, bool), QError> {
    if let Some(command) = text.trim_ascii().strip_prefix(b"\\") {
        return commands::command(context, command).map(|value| (value, true));
    }
    if let [letter @ b'a'..=b'z', b')', rest @ ..] = text {
        return commands::language(context, *letter, rest);
    }
    let program = parse::program(text, context.host.namespace())?;
    if context.text.is_empty() {
        context.text = text.to_vec();
    }
    let value = context.run(&program.code, Vec::new())?;
    Ok((value, !program.silent))
}

/// How PyKX asks, in k, whether a name is a function, a context or a value: one marker or the other, or the value itself.
const CONTEXT_PROBE: &[u8] = b"k){x:. x;$[99h<@x;:";

fn context_probe(context: &mut Context, asked: Option<&Value>) -> Result<Value, QError> {
    let Some(Value::Sym(name)) = asked else { return Err(QError::named("type")) };
    let value = context.global(*name)?;
    Ok(match &value {
        Value::Func(_) => Value::Sym(prims::name("_pykx_fn_marker")),
        // What makes a dictionary a context: its first name is the null symbol, with the generic null.
        Value::Dict(space)
            if space.keys.as_symbols().and_then(<[Sym]>::first) == Some(&Sym::NULL)
                && matches!(space.values.at(0), Value::Null) =>
        {
            Value::Sym(prims::name("_pykx_ctx_marker"))
        }
        _ => value,
    })
}

fn message(context: &mut Context, object: &Value) -> Result<Value, QError> {
    context.enter()?;
    let (head, arguments) = match object {
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            return run_text(context, object.as_text().unwrap_or_default());
        }
        Value::Sym(name) => return context.global(*name),
        Value::Vector(Vector { items: Items::List(list), .. }) => match list.split_first() {
            Some((head, arguments)) => (head.clone(), arguments.to_vec()),
            None => return Ok(object.clone()),
        },
        Value::Vector(Vector { items: Items::Sym(names), .. }) => match names.split_first() {
            Some((head, arguments)) => (Value::Sym(*head), arguments.iter().map(|s| Value::Sym(*s)).collect()),
            None => return Ok(object.clone()),
        },
        other => return Ok(other.clone()),
    };
    let f = match &head {
        Value::Sym(name) => context.global(*name)?,
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            let written = head.as_text().unwrap_or_default();
            if written.starts_with(CONTEXT_PROBE) {
                return context_probe(context, arguments.first());
            }
            run_text(context, written)?
        }
        _ => head,
    };
    if arguments.is_empty() {
        return match &f {
            Value::Func(function) if !matches!(**function, Function::Projection { .. }) => {
                context.apply(&f, vec![Value::Null])
            }
            _ => Ok(f),
        };
    }
    context.apply(&f, arguments)
}

#[cfg(test)]
mod tests;

/// The example of the README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
