//! Entry points of evaluation: text, console lines, messages, calls.

use crate::eval::{globals, walk};
use crate::io::files::database;
use crate::process::commands;
use crate::runtime::context::Context;
use crate::runtime::error::{Origin, QError};
use crate::runtime::frame::Frame;
use crate::runtime::host::Host;
use crate::runtime::limits::{Limits, settled};
use crate::runtime::locked;
use crate::syntax::ast::Kind;
use crate::syntax::{lex, parse};
use crate::verbs::above::Evaluate;
use crate::verbs::function::valence;
use columns::table::function::Function;
use columns::table::{Items, Sym, Value, Vector, symbol};

/// Evaluates text from a client or the console and returns the value of its last statement.
///
/// # Errors
/// Named as in kdb+; `stop` and `wsfull` at the limits; [`NEEDS_OWNER`](crate::NEEDS_OWNER) if the host returns it.
pub fn eval_text(host: &mut dyn Host, text: &[u8], limits: &Limits) -> Result<Value, QError> {
    settled(run_text(&mut Context::new(host, limits), text))
}

/// Evaluates text; also returns whether the console shows the result, which it does not after an assignment or a final semicolon.
///
/// # Errors
/// Those of [`eval_text`].
pub fn eval_line(host: &mut dyn Host, text: &[u8], limits: &Limits) -> Result<(Value, bool), QError> {
    let mut context = Context::new(host, limits);
    let (value, shown) = run_line(&mut context, text)?;
    // A table on disk is read here, within the limits, if it will be shown.
    let value = if shown { database::shown(&mut context, value) } else { value };
    settled(Ok((value, shown)))
}

/// [`eval_line`], with the locals of a suspended lambda in scope, which it may change.
///
/// # Errors
/// Those of [`eval_text`].
pub fn eval_among(
    host: &mut dyn Host,
    text: &[u8],
    locals: &mut [(Sym, Value)],
    limits: &Limits,
) -> Result<(Value, bool), QError> {
    let mut context = Context::new(host, limits);
    let mut run = |context: &mut Context| {
        let names = locals.iter().map(|(name, _)| *name).collect();
        let program = parse::program_among(text, context.host.namespace(), names)?;
        context.text = text.to_vec();
        let mut values: Vec<Option<Value>> = locals.iter().map(|(_, value)| Some(value.clone())).collect();
        values.resize(program.code.locals.len().max(values.len()), None);
        let mut frame = Frame { locals: values, is_owners: program.code.is_owners, among: Vec::new() };
        let result = walk::run_in(context, &program.code, &mut frame);
        for ((_, local), value) in locals.iter_mut().zip(frame.locals) {
            if let Some(value) = value {
                *local = value;
            }
        }
        Ok((result?, !program.silent))
    };
    settled(run(&mut context).map_err(|error: QError| error.leave(b"", text, 0)))
}

/// Evaluates a message: text; a name; or a list of a function (a name, text, a lambda, …) and unevaluated arguments.
///
/// # Errors
/// Those of [`eval_text`].
pub fn eval_message(host: &mut dyn Host, object: &Value, limits: &Limits) -> Result<Value, QError> {
    settled(message(&mut Context::new(host, limits), object))
}

/// Applies a function, list or dictionary to arguments.
///
/// # Errors
/// Those of [`eval_text`].
pub fn apply(host: &mut dyn Host, f: &Value, arguments: &[Value], limits: &Limits) -> Result<Value, QError> {
    let mut context = Context::new(host, limits);
    let result = context.apply(f, arguments.to_vec()).map_err(|error| located(&context, error));
    settled(result)
}

/// Whether a value is a function that needs no more than this many arguments.
pub fn takes(f: &Value, arguments: usize) -> bool {
    matches!(f, Value::Func(_)) && valence(f) <= arguments
}

/// Returns the globals that text refers to, including those in lambdas, so that a host can decide early where to run it. Empty if
/// the text does not parse.
pub fn parse_names(text: &[u8]) -> Vec<Sym> {
    let mut names = Vec::new();
    if let Ok(program) = parse::program(text, Sym::NULL) {
        crate::syntax::globals::globals(&program.code, &mut names);
    }
    names
}

/// An error whose levels have the files and lines of the functions that they name.
pub(crate) fn located(context: &Context, error: QError) -> QError {
    error.locate(|name| context.host.origin(symbol::find(name)?))
}

pub(crate) fn run_text(context: &mut Context, text: &[u8]) -> Result<Value, QError> {
    // An assignment returns the generic null to the client, as it shows nothing at the console.
    run_line(context, text).map(|(value, shown)| if shown { value } else { Value::Null })
}

fn run_line(context: &mut Context, text: &[u8]) -> Result<(Value, bool), QError> {
    run_line_of(context, text, None)
}

/// [`run_line`] of a script, whose place `origin` is.
pub(crate) fn run_line_of(context: &mut Context, text: &[u8], origin: Option<Origin>) -> Result<(Value, bool), QError> {
    // Text of a script that is being loaded may be locked; nobody else can hide code.
    if locked::is_locked(text) && context.host.loading_from().is_none() {
        return Err(QError::with("parse", "no text begins with this character").place(0).leave(
            b"",
            locked::unmarked(text),
            0,
        ));
    }
    let is_outermost = context.text.is_empty() && context.frames.is_empty();
    let result = if is_outermost {
        context.text = text.to_vec();
        run_statements(context, text)
    } else {
        context.in_text(text, origin, |context| run_statements(context, text))
    };
    result.map_err(|error| {
        let error = error.leave(b"", without_comment(text), 0);
        located(context, error)
    })
}

/// Text without the comment at its end, as kdb+ shows it with an error.
fn without_comment(text: &[u8]) -> &[u8] {
    let code = lex::pieces(text).ok().and_then(|pieces| text.split_at_checked(pieces.iter().rev().nth(1)?.end));
    match code {
        Some((code, rest)) if rest.trim_ascii_start().starts_with(b"/") => code,
        _ => text,
    }
}

/// Removes the comment behind a shell command: a slash with at least two blanks before it and one behind it. After a single blank, the slash is the
/// root directory, as in `\du / -s`. A command with quotes is left as it is, and so are the commands of q, which remove their comments themselves.
fn before_comment(command: &[u8]) -> &[u8] {
    let word = command.split(|c| *c == b' ').next().unwrap_or_default();
    if word.len() < 2 || matches!(word, b"ts" | b"cd") || command.contains(&b'"') || command.contains(&b'\'') {
        return command;
    }
    let end = command.windows(4).position(|part| part == b"  / ").unwrap_or(command.len());
    command.get(..end).unwrap_or_default()
}

fn run_statements(context: &mut Context, text: &[u8]) -> Result<(Value, bool), QError> {
    if let Some(command) = text.trim_ascii().strip_prefix(b"\\") {
        // A shell command that prints nothing returns an empty list, which the console does not show.
        let is_shown =
            |value: &Value| !matches!(value, Value::Vector(v) if v.is_empty() && matches!(v.items, Items::List(_)));
        let result = commands::command(context, before_comment(command)).map(|value| {
            let shown = is_shown(&value);
            (value, shown)
        });
        return result.map_err(|error| if error.has_place() { error } else { error.place(0) });
    }
    if let [letter @ b'a'..=b'z', b')', rest @ ..] = text
        && (*letter != b'k' || rest.trim_ascii().starts_with(b"\\"))
    {
        return commands::language(context, *letter, rest);
    }
    let program = parse::program(text, context.host.namespace())?;
    let silent = program.silent;
    let value = match program.code.body.len() > 1 && text.windows(6).any(|word| word == b"system") {
        true => run_in_namespaces(context, text, program)?,
        false => context.run(&program.code, Vec::new())?,
    };
    Ok((value, !silent))
}

/// Runs statements of which one may be `system"d .name"`: what stands after it assigns and reads names of that namespace, while lambdas
/// belong to that in which the text began.
fn run_in_namespaces(context: &mut Context, text: &[u8], mut program: parse::ParsedText) -> Result<Value, QError> {
    if program.code.body.iter().any(|node| matches!(node.kind, Kind::Return(_))) {
        return context.run(&program.code, Vec::new());
    }
    let first = context.host.namespace();
    let (mut namespace, mut value) = (first, Value::Null);
    for at in 0..program.code.body.len() {
        if context.host.namespace() != namespace {
            namespace = context.host.namespace();
            program = parse::program_in(text, namespace, first)?;
        }
        let mut one = program.code.clone();
        one.body = program.code.body.get(at).cloned().into_iter().collect();
        value = context.run(&one, Vec::new())?;
    }
    Ok(value)
}

pub(crate) fn message(context: &mut Context, object: &Value) -> Result<Value, QError> {
    context.enter()?;
    let (head, arguments) = match object {
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            return run_text(context, object.as_text().unwrap_or_default());
        }
        Value::Sym(name) => return globals::applied(context, *name),
        Value::Vector(Vector { items: Items::List(list), .. }) => match list.split_first() {
            Some((head, arguments)) => (head.clone(), arguments.to_vec()),
            None => return Ok(object.clone()),
        },
        Value::Vector(Vector { items: Items::Sym(names), .. }) => match names.split_first() {
            Some((head, arguments)) => (Value::Sym(*head), arguments.iter().map(|s| Value::Sym(*s)).collect()),
            None => return Ok(object.clone()),
        },
        // A message that is a lambda gives its parts, as `value` of it does: that is how kdb+ evaluates a message.
        Value::Func(_) => return crate::eval::internal::value(context, object.clone()),
        other => return Ok(other.clone()),
    };
    let f = match &head {
        Value::Sym(name) if crate::runtime::paths::is_path(*name) => {
            if let [Value::Sym(file)] = arguments[..]
                && let Some(found) = crate::io::files::get_within(context, *name, file)?
            {
                return Ok(found);
            }
            crate::io::files::get(context, &head)?
        }
        Value::Sym(name) => globals::applied(context, *name)?,
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            let is_outermost = context.text.is_empty() && context.frames.is_empty();
            let f = run_text(context, head.as_text().unwrap_or_default())?;
            context.is_text_done |= is_outermost;
            f
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
