//! The `\` commands, also as `system "…"`.

use super::context::Context;
use super::error::{Origin, QError};
use super::shape::Result;
use super::{files, prims, random, script, settings};
use columns::table::symbol::text;
use columns::table::{Function, Sym, Value};

/// A command without its backslash.
pub(super) fn command(context: &mut Context, line: &[u8]) -> Result {
    let line = line.trim_ascii();
    let split = line.iter().position(|c| matches!(c, b' ' | b':')).unwrap_or(line.len());
    let (word, rest) = line.split_at(split);
    let whole = rest.trim_ascii();
    let rest = without_comment(word, rest);
    match word {
        b"d" => directory(context, rest),
        b"S" => seed(rest),
        b"a" | b"v" | b"f" => names(context, word, rest),
        b"b" | b"B" => {
            let space = space(context, rest)?;
            context.views(space, word == b"B")
        }
        b"t" | b"ts" => timed(context, word, if number(rest).is_some() { rest } else { whole }),
        b"l" => load(context, rest),
        b"cd" | b"pwd" => folder(context, rest),
        b"s" => threads(context, rest),
        b"r" if rest.contains(&b' ') => rename(context, rest),
        b"1" | b"2" if !rest.is_empty() => redirect(context, word, rest),
        b"" => Ok(Value::Null),
        // What follows is a comment.
        b"\\" => {
            if context.host.caller().remote {
                return Err(QError::with("access", "exit is not allowed here"));
            }
            context.host.exit(0)?;
            Ok(Value::Null)
        }
        _ if settings::is_setting(word) => settings::setting(context, word, rest),
        _ => shell(context, line),
    }
}

/// A comment ends a command as it ends an expression; where an absolute path may follow, a space has to follow the slash.
fn without_comment<'a>(word: &[u8], rest: &'a [u8]) -> &'a [u8] {
    let takes_path = matches!(word, b"l" | b"cd" | b"r" | b"1" | b"2" | b"_");
    let begins = |at: &usize| {
        rest.get(*at..).is_some_and(|from| match from {
            [b' ', b'/', after, ..] => !takes_path || *after == b' ',
            [b' ', b'/'] => true,
            _ => false,
        })
    };
    let end = (0..rest.len()).find(begins).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default().trim_ascii()
}

/// `p)text`: text in another language, which `.p.e` knows how to evaluate.
pub(super) fn language(context: &mut Context, letter: u8, text: &[u8]) -> std::result::Result<(Value, bool), QError> {
    if letter == b'q' {
        return super::run_line(context, text);
    }
    if letter == b'k' {
        return Err(QError::with("nyi", "k is not spoken here"));
    }
    let evaluator = super::parse::symbol(&[b'.', letter, b'.', b'e'])?;
    let evaluator = context.global(evaluator)?;
    Ok((context.call1(&evaluator, Value::chars(text))?, true))
}

pub(super) fn number(rest: &[u8]) -> Option<i64> {
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
    if space != Sym::NULL && (!rest.starts_with(b".") || rest.contains(&b' ')) {
        return Err(QError::signal(rest));
    }
    context.host.set_namespace(space)?;
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
        let value = d.values.at(i);
        let is_view = matches!(&value, Value::Func(f) if matches!(**f, Function::View(_)));
        if !is_view && (super::apply::type_of(&value) >= 100) == (word == b"f") {
            names.push(*name);
        }
    }
    names.sort_by_key(|n| text(*n));
    Ok(Value::symbols(names))
}

/// `\t expression`, `\t:n expression` and `\ts`: milliseconds, and the most bytes held meanwhile.
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
        return settings::setting(context, word, rest);
    }
    let start = std::time::Instant::now();
    let before = columns::sys::allocated::start_peak();
    for _ in 0..times {
        context.tick()?;
        super::run_text(context, rest)?;
    }
    let ms = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
    if word == b"t" {
        return Ok(Value::Long(ms));
    }
    Ok(Value::longs(vec![ms, columns::sys::allocated::peak_bytes().saturating_sub(before).max(0)]))
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
    let full: std::sync::Arc<[u8]> = {
        use std::os::unix::ffi::OsStrExt;
        let full = std::fs::canonicalize(&path).unwrap_or(path);
        full.as_os_str().as_bytes().into()
    };
    let outer = context.host.loading_from();
    let mut result = Ok(Value::Null);
    for (line, expression) in script::expressions(&source) {
        let origin = Origin { file: full.clone(), line: u32::try_from(line).unwrap_or(u32::MAX) };
        context.host.loading(Some(origin.clone()));
        match super::run_line(context, &expression) {
            Ok((value, true)) => {
                let shown = super::show::brief(&value, &context.host.console());
                context.host.print(&shown)?;
            }
            Ok(_) => {}
            Err(error) => {
                result = Err(error.locate_last(&origin).leave_command([b"\\l ", rest].concat()));
                break;
            }
        }
    }
    context.host.loading(outer);
    context.host.set_namespace(space)?;
    result
}

fn folder(context: &mut Context, rest: &[u8]) -> Result {
    use std::os::unix::ffi::OsStrExt;
    super::process::check_system(context, "the working directory is not reachable from here")?;
    if rest.is_empty() {
        let here = std::env::current_dir().map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        return Ok(Value::chars(here.as_os_str().as_bytes()));
    }
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(rest));
    context.host.alters()?;
    std::env::set_current_dir(path).map_err(|e| files::refused(path, &e))?;
    Ok(Value::Null)
}

/// `\r old new`: a file gets another name.
fn rename(context: &mut Context, rest: &[u8]) -> Result {
    files::check(context)?;
    let mut names = rest.split(|c| *c == b' ').filter(|n| !n.is_empty());
    let (Some(old), Some(new), None) = (names.next(), names.next(), names.next()) else {
        return Err(QError::named("length"));
    };
    let (old, new) = (files::path(context, &Value::chars(old))?, files::path(context, &Value::chars(new))?);
    context.host.alters()?;
    std::fs::rename(&old, new).map_err(|e| files::refused(&old, &e))?;
    Ok(Value::Null)
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

fn redirect(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    files::check(context)?;
    context.host.redirect(if word == b"1" { 1 } else { 2 }, rest)?;
    Ok(Value::Null)
}

/// Anything else is the operating system's, its output as lines.
fn shell(context: &mut Context, line: &[u8]) -> Result {
    use std::os::unix::ffi::OsStrExt;
    super::process::check_system(context, "this command is not available here")?;
    context.host.alters()?;
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(std::ffi::OsStr::from_bytes(line));
    let mut over = Ok(());
    let output = columns::sys::child::output(&mut command, |held| {
        // The lines are made of it while it is still there.
        over = super::limits::check().and_then(|()| super::limits::room(held));
        over.is_ok()
    });
    over?;
    let output = output.map_err(|e| QError::signal(e.to_string().into_bytes()))?.ok_or(QError::named("os"))?;
    context.host.print_error(&output.stderr)?;
    if !output.status.success() {
        return Err(QError::named("os"));
    }
    Ok(Value::list(files::lines(&output.stdout).into_iter().map(Value::chars).collect()))
}
