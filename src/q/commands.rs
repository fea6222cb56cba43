//! The `\` commands, also as `system "…"`.

use super::context::Context;
use super::error::QError;
use super::format;
use super::shape::Result;
use super::{files, prims, random, script, system};
use crate::table::symbol::text;
use crate::table::{Items, Sym, Value};

/// A command without its backslash.
pub(super) fn command(context: &mut Context, line: &[u8]) -> Result {
    let line = line.trim_ascii();
    let split = line.iter().position(|c| matches!(c, b' ' | b':')).unwrap_or(line.len());
    let (word, rest) = line.split_at(split);
    // A comment ends a command as it ends an expression; what comes first may be a path from the root.
    let rest = rest.trim_ascii();
    let comment = rest.windows(2).position(|w| w == b" /").unwrap_or(rest.len());
    let rest = rest.get(..comment).unwrap_or_default().trim_ascii();
    let rest = if rest == b"/" || rest.starts_with(b"/ ") { &b""[..] } else { rest };
    match word {
        b"d" => directory(context, rest),
        b"P" | b"c" | b"C" => console(context, word, rest),
        b"S" => seed(rest),
        b"a" | b"v" | b"f" => names(context, word, rest),
        b"b" | b"B" => {
            let space = space(context, rest)?;
            context.views(space, word == b"B")
        }
        b"t" | b"ts" => timed(context, word, rest),
        b"l" => load(context, rest),
        b"cd" | b"pwd" => folder(context, rest),
        b"w" => Ok(memory()),
        b"s" => threads(context, rest),
        b"W" | b"e" | b"g" | b"o" | b"p" | b"T" | b"u" | b"z" | b"_" | b"r" | b"x" => setting(context, word, rest),
        b"" => Ok(Value::Null),
        b"\\" => {
            context.host.exit(0)?;
            Ok(Value::Null)
        }
        _ => shell(context, line),
    }
}

fn number(rest: &[u8]) -> Option<i64> {
    match rest {
        b"0N" | b"0Ni" => Some(i64::MIN),
        _ => std::str::from_utf8(rest).ok()?.parse().ok(),
    }
}

fn space(context: &Context, rest: &[u8]) -> std::result::Result<Sym, QError> {
    match rest {
        b"" => Ok(context.host.namespace()),
        b"." => Ok(Sym::NULL),
        name => super::parse::symbol(name),
    }
}

fn directory(context: &mut Context, rest: &[u8]) -> Result {
    if rest.is_empty() {
        let space = context.host.namespace();
        return Ok(Value::Sym(if space == Sym::NULL { prims::name(".") } else { space }));
    }
    let space = if rest == b"." { Sym::NULL } else { super::parse::symbol(rest)? };
    context.host.set_namespace(space)?;
    Ok(Value::Null)
}

fn console(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let mut console = context.host.console();
    if word == b"P" {
        let Some(digits) = number(rest) else { return Ok(Value::Int(i32::from(console.precision))) };
        console.precision = u8::try_from(digits.clamp(0, 17)).unwrap_or(format::PRECISION);
        context.host.set_console(console)?;
        return Ok(Value::Null);
    }
    if rest.is_empty() {
        let sizes = if word == b"c" { [console.rows, console.columns] } else { console.web };
        return Ok(Items::Int(sizes.iter().map(|s| *s as i32).collect()).into());
    }
    let mut sizes = rest.split(|c| *c == b' ').filter_map(|n| std::str::from_utf8(n).ok()?.parse::<usize>().ok());
    let (Some(rows), Some(columns)) = (sizes.next(), sizes.next()) else { return Err(QError::named("length")) };
    let (rows, columns) = (rows.clamp(10, 2000), columns.clamp(10, 2000));
    if word == b"c" {
        (console.rows, console.columns) = (rows, columns);
    } else {
        console.web = [rows, columns];
    }
    context.host.set_console(console)?;
    Ok(Value::Null)
}

fn seed(rest: &[u8]) -> Result {
    match number(rest) {
        Some(i64::MIN) => Ok(Value::Long(random::next_seed())),
        Some(seed) => {
            random::seed(seed);
            Ok(Value::Null)
        }
        None => Ok(Value::Int(random::last_seed())),
    }
}

fn names(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let space = space(context, rest)?;
    let known = context.namespace(space);
    if !rest.is_empty() && space != Sym::NULL && known.is_none() {
        return Err(QError::signal(rest));
    }
    if word == b"a" {
        let found = super::tables::tables(context, Value::Sym(space))?;
        return Ok(found.to_items().into());
    }
    let Some(Value::Dict(d)) = known else { return Ok(Value::symbols(Vec::new())) };
    let mut names = Vec::new();
    for (i, name) in d.keys.as_symbols().unwrap_or_default().iter().enumerate().skip(1) {
        let is_view = matches!(&d.values.at(i), Value::Func(f) if matches!(**f, crate::table::Function::View(_)));
        let is_function = super::apply::type_of(&d.values.at(i)) >= 100;
        if !is_view && is_function == (word == b"f") {
            names.push(*name);
        }
    }
    names.sort_by_key(|n| text(*n));
    Ok(Value::symbols(names))
}

/// `\t expression`, `\t:n expression` and `\ts`: milliseconds, and bytes.
fn timed(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let (times, rest) = match rest.strip_prefix(b":") {
        Some(counted) => {
            let split = counted.iter().position(|c| *c == b' ').unwrap_or(counted.len());
            let (count, rest) = counted.split_at(split);
            (number(count).ok_or(QError::named("type"))?, rest.trim_ascii())
        }
        None => (1, rest),
    };
    if rest.is_empty() || (word == b"t" && number(rest).is_some()) {
        return setting(context, word, rest);
    }
    let start = std::time::Instant::now();
    let before = crate::sys::allocated::thread_bytes();
    for _ in 0..times {
        context.tick()?;
        super::run_text(context, rest)?;
    }
    let ms = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
    if word == b"t" {
        return Ok(Value::Long(ms));
    }
    Ok(Value::longs(vec![ms, crate::sys::allocated::thread_bytes().saturating_sub(before).max(0)]))
}

/// `\l file`: runs a script, or takes in what a folder holds.
pub(super) fn load(context: &mut Context, rest: &[u8]) -> Result {
    let file = Value::chars(rest);
    let path = files::path(context, &file)?;
    if path.is_dir() {
        let manner = files::database::Manner { enters: true, runs_scripts: true };
        return files::database::load(context, &path, &manner);
    }
    context.enter()?;
    let source = files::script(context, &file)?;
    let space = context.host.namespace();
    let mut result = Ok(Value::Null);
    for (_, expression) in script::expressions(&source) {
        if let Err(error) = super::run_line(context, &expression) {
            result = Err(error);
            break;
        }
    }
    context.host.set_namespace(space)?;
    result
}

fn folder(context: &mut Context, rest: &[u8]) -> Result {
    use std::os::unix::ffi::OsStrExt;
    files::check(context)?;
    let failed = |e: std::io::Error| QError::signal(e.to_string().into_bytes());
    if rest.is_empty() {
        let here = std::env::current_dir().map_err(failed)?;
        return Ok(Value::chars(here.as_os_str().as_bytes()));
    }
    std::env::set_current_dir(std::ffi::OsStr::from_bytes(rest)).map_err(failed)?;
    Ok(Value::Null)
}

/// Bytes in use, and the number and bytes of symbols, as far as a process counts them.
fn memory() -> Value {
    let used = crate::sys::allocated::thread_bytes().max(0);
    Value::longs(vec![used, used, used, 0, 0, 0])
}

/// `\s` and `\s N`: threads that help with `peach` and with operations on many rows.
fn threads(context: &mut Context, rest: &[u8]) -> Result {
    let threads = context.host.threads();
    let wanted = match number(rest) {
        Some(i64::MIN) => return Ok(Value::Int(i32::try_from(threads.most).unwrap_or(i32::MAX))),
        Some(wanted) => usize::try_from(wanted).map_err(|_| QError::named("domain"))?,
        None => return Ok(Value::Int(i32::try_from(threads.now).unwrap_or(i32::MAX))),
    };
    if context.host.caller().remote {
        return Err(QError::with("access", "settings are the process's own"));
    }
    context.host.set_threads(wanted)?;
    context.allowance.set_threads(wanted);
    Ok(Value::Null)
}

/// Settings that are fixed here are shown; changing one is refused, unless it is to what it is.
fn setting(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let given = number(rest);
    if given.is_some() && context.host.caller().remote {
        return Err(QError::with("access", "settings are the process's own"));
    }
    Ok(match (word, given) {
        (b"z", Some(order @ (0 | 1))) => {
            system::set_day_first(order == 1);
            Value::Null
        }
        (b"z", None) => Value::Int(i32::from(system::day_first())),
        (b"W", Some(day @ 0..=6)) => {
            system::set_week_start(day);
            Value::Null
        }
        (b"W", None) => Value::Int(i32::try_from(system::week_start()).unwrap_or(2)),
        (b"o", None) => Value::Int(i32::MIN),
        (b"_", None) if rest.is_empty() => Value::Bool(false),
        (b"x", _) => {
            let handler = super::parse::symbol(rest)?;
            if context.host.caller().remote || !rest.starts_with(b".z.") {
                return Err(QError::with("access", "handlers are set by the process"));
            }
            context.host.remove(handler)?;
            Value::Null
        }
        (b"r" | b"u" | b"_", _) => return Err(QError::with("access", "this command is not available here")),
        (_, None) => Value::Int(0),
        (_, Some(0)) => Value::Null,
        _ => return Err(QError::with("access", "this command is not available here")),
    })
}

/// Anything else is the operating system's, its output as lines.
fn shell(context: &mut Context, line: &[u8]) -> Result {
    use std::os::unix::ffi::OsStrExt;
    files::check(context).map_err(|_| QError::with("access", "this command is not available here"))?;
    let output = std::process::Command::new("sh").arg("-c").arg(std::ffi::OsStr::from_bytes(line)).output();
    let output = output.map_err(|e| QError::signal(e.to_string().into_bytes()))?;
    context.host.print(&output.stderr)?;
    if !output.status.success() {
        return Err(QError::named("os"));
    }
    Ok(Value::list(files::lines(&output.stdout).into_iter().map(Value::chars).collect()))
}
