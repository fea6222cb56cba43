//! The `\` commands, also called as `system "…"`.

use crate::eval::views;
use crate::io::files;
use crate::process::settings;
use crate::runtime::context::Context;
use crate::runtime::error::{Origin, QError};
use crate::runtime::paths;
use crate::runtime::values::Result;
use crate::syntax::prims;
use crate::syntax::script;
use crate::verbs::above::Evaluate;
use columns::table::symbol::text;
use columns::table::{Function, Sym, Value};
use proto::types;

/// Commands with their arguments, and what each does: `\help NAME`.
pub(crate) const COMMANDS: [(&str, &str); 32] = [
    ("\\a [.NAMESPACE]", "names of the tables"),
    ("\\b [.NAMESPACE]", "names of the views"),
    ("\\B [.NAMESPACE]", "names of the views to be evaluated again"),
    ("\\c [ROWS COLUMNS]", "size of the console; wider output is cut"),
    ("\\C [ROWS COLUMNS]", "size of an HTTP response"),
    ("\\cd [DIR]", "working directory"),
    ("\\pwd", "working directory"),
    ("\\d [.NAMESPACE]", "current namespace; . is the root"),
    ("\\e [0-2]", "whether errors of clients are traced"),
    ("\\E", "mode of TLS for clients"),
    ("\\f [.NAMESPACE]", "names of the functions"),
    ("\\g [0-1]", "mode of garbage collection"),
    ("\\l FILE", "loads a script or a database, from QHOME or QLIC if it is not here"),
    ("\\o [HOURS]", "offset of local time from UTC"),
    ("\\p [PORT]", "port on which clients are served; 0 stops"),
    ("\\P [DIGITS]", "digits of floats shown; 0 for all"),
    ("\\r OLD NEW", "renames a file"),
    ("\\s [THREADS]", "threads for peach and large queries; below 0, peach uses the processes of .z.pd"),
    ("\\S [SEED]", "seed of random numbers"),
    ("\\t [MS or EXPRESSION]", "interval of the timer; or the milliseconds that an expression takes"),
    ("\\ts EXPRESSION", "milliseconds and bytes that an expression takes; \\ts:N runs it N times"),
    ("\\T [SECONDS]", "timeout of a client's request"),
    ("\\u", "reloads the users; does nothing here, as every login reads them"),
    ("\\v [.NAMESPACE]", "names of the variables"),
    ("\\w [0]", "memory: used, heap, peak, limit, mapped, physical"),
    ("\\W [DAY]", "first day of the week, 0 is Saturday"),
    ("\\x NAME", "removes a handler, as \\x .z.pg"),
    ("\\z [0-1]", "order of dates in text: 0 mm/dd/yyyy, 1 dd/mm/yyyy"),
    ("\\1 FILE", "sends the output to a file"),
    ("\\2 FILE", "sends errors to a file"),
    ("\\_", "whether clients may assign"),
    ("\\\\", "ends the process"),
];

/// Runs a command given without its backslash.
pub(crate) fn command(context: &mut Context, line: &[u8]) -> Result {
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
            views::listed(context, space, word == b"B")
        }
        b"t" | b"ts" => timed(context, word, if settings::number(rest).is_some() { rest } else { whole }),
        b"l" => load(context, rest),
        b"cd" => folder(context, rest),
        // A command of the shell in kdb+: a list of lines, of which scripts take the first.
        b"pwd" if rest.is_empty() => Ok(Value::list(vec![folder(context, rest)?])),
        b"s" => threads(context, rest),
        b"r" if rest.contains(&b' ') => rename(context, rest),
        b"1" | b"2" if !rest.is_empty() => redirect(context, word, rest),
        b"" if line.is_empty() => Ok(Value::Null),
        // `\\` exits; the rest of the line is a comment.
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

/// Strips a comment. After a command that takes an absolute path, only a slash followed by a space starts one.
fn without_comment<'a>(word: &[u8], rest: &'a [u8]) -> &'a [u8] {
    let takes_path = matches!(word, b"l" | b"cd" | b"r" | b"1" | b"2" | b"_");
    let begins = |at: &usize| {
        rest.get(*at..).is_some_and(|from| match from {
            [b' ', b'/', after, ..] => !takes_path || *after == b' ',
            // A slash at the end is the argument in `\cd /`, and a comment in `\cd dir /`.
            [b' ', b'/'] => !takes_path || rest.get(..*at).is_some_and(|before| !before.trim_ascii().is_empty()),
            _ => false,
        })
    };
    let end = (0..rest.len()).find(begins).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default().trim_ascii()
}

/// `p)text`: evaluates text of another language with `.p.e`; of k only system commands come here.
pub(crate) fn language(context: &mut Context, letter: u8, text: &[u8]) -> std::result::Result<(Value, bool), QError> {
    if matches!(letter, b'q' | b'k') {
        return context.line(text, None);
    }
    let evaluator = crate::runtime::values::symbol(&[b'.', letter, b'.', b'e'])?;
    let evaluator = context.global(evaluator)?;
    Ok((context.call1(&evaluator, Value::chars(text))?, true))
}

fn space(context: &Context, rest: &[u8]) -> std::result::Result<Sym, QError> {
    match rest {
        b"" => Ok(context.host.namespace()),
        b"." => Ok(Sym::NULL),
        name => crate::runtime::values::symbol(name),
    }
}

fn directory(context: &mut Context, rest: &[u8]) -> Result {
    if rest.is_empty() {
        let space = context.host.namespace();
        return Ok(Value::Sym(if space == Sym::NULL { prims::name(".") } else { space }));
    }
    let space = match rest {
        b"." => Sym::NULL,
        // Within a module also `.z.m.name`.
        name => crate::syntax::resolve::qualify(crate::runtime::values::symbol(name)?, context.host.namespace())?,
    };
    if space != Sym::NULL && (!rest.starts_with(b".") || rest.contains(&b' ')) {
        return Err(QError::signal(rest));
    }
    context.host.set_namespace(space)?;
    Ok(Value::Null)
}

fn seed(rest: &[u8]) -> Result {
    match settings::number(rest) {
        Some(i64::MIN) => Ok(Value::Long(crate::runtime::seeds::next_seed())),
        Some(seed) => {
            crate::runtime::seeds::seed(seed);
            Ok(Value::Null)
        }
        None => Ok(Value::Int(crate::runtime::seeds::last_seed())),
    }
}

fn names(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let space = space(context, rest)?;
    // A dictionary may be a namespace as it is.
    let known = match context.namespace(space).or_else(|| context.host.global(space)) {
        None => crate::eval::globals::part(context, space)?,
        known => known,
    };
    if !rest.is_empty() && space != Sym::NULL && known.is_none() {
        return Err(QError::signal(rest));
    }
    if word == b"a" {
        return crate::verbs::tables::tables(context, Value::Sym(space));
    }
    let Some(Value::Dict(d)) = known else { return Ok(Value::symbols(Vec::new())) };
    let mut names = Vec::new();
    for (i, name) in d.keys.as_symbols().unwrap_or_default().iter().enumerate() {
        if name.is_null() {
            continue;
        }
        let value = d.values.at(i);
        let is_view = matches!(&value, Value::Func(f) if matches!(**f, Function::View(_)));
        if !is_view && (crate::verbs::function::type_of(&value) >= types::LAMBDA) == (word == b"f") {
            names.push(*name);
        }
    }
    names.sort_by_key(|n| text(*n));
    Ok(Value::symbols(names))
}

/// `\t expression`, `\t:n expression` and `\ts`: elapsed milliseconds, and peak memory in bytes.
fn timed(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let (times, rest) = match rest.strip_prefix(b":") {
        Some(counted) => {
            let split = counted.iter().position(|c| *c == b' ').unwrap_or(counted.len());
            let (count, rest) = counted.split_at(split);
            let number = match settings::number(count) {
                Some(number) => number,
                None => context.text(count)?.as_long().ok_or(QError::named("type"))?,
            };
            (number, rest.trim_ascii())
        }
        None => (1, rest),
    };
    if rest.is_empty() || (word == b"t" && settings::number(rest).is_some()) {
        return settings::setting(context, word, rest);
    }
    let start = std::time::Instant::now();
    let before = columns::sys::allocated::start_peak();
    for _ in 0..times {
        context.tick()?;
        context.text(rest)?;
    }
    let ms = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
    if word == b"t" {
        return Ok(Value::Long(ms));
    }
    Ok(Value::longs(vec![ms, columns::sys::allocated::peak_bytes().saturating_sub(before).max(0)]))
}

/// `\l file`: runs a script, loads a directory, or assigns the value in a file to the global of its name.
pub(crate) fn load(context: &mut Context, rest: &[u8]) -> Result {
    let path = paths::sought(context, files::path(context, &Value::chars(rest))?);
    if path.is_dir() {
        let manner = files::database::Manner { enters: true, runs_scripts: true };
        return files::database::load(context, &path, &manner);
    }
    if files::is_value(&path) {
        return files::load_file(context, &path).map(|_| Value::Null);
    }
    context.enter()?;
    let source = files::script(&path)?;
    let space = context.host.namespace();
    let full: std::sync::Arc<[u8]> = {
        use std::os::unix::ffi::OsStrExt;
        let full = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        full.as_os_str().as_bytes().into()
    };
    let outer = context.host.loading_from();
    let command = [b"\\l ", rest].concat();
    let mut result = Ok(Value::Null);
    for (line, expression) in script::expressions_of(&path, &source) {
        let origin = Origin { file: full.clone(), line: u32::try_from(line).unwrap_or(u32::MAX), column: 0 };
        context.host.loading(Some(origin.clone()));
        match context.in_text(&command, None, |context| context.line(&expression, Some(origin.clone()))) {
            Ok((value, true)) => {
                let shown = crate::verbs::show::brief(&value, &context.host.console());
                context.host.print(&shown)?;
            }
            Ok(_) => {}
            Err(error) => {
                result = Err(error.locate_last(&origin).leave_command(command));
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
    crate::io::environment::check_system(context, "working directories")?;
    if rest.is_empty() {
        let here = std::env::current_dir().map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        return Ok(Value::chars(here.as_os_str().as_bytes()));
    }
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(rest));
    context.host.alters()?;
    std::env::set_current_dir(path).map_err(|e| files::refused(path, &e))?;
    Ok(Value::Null)
}

/// `\r old new`: renames a file.
fn rename(context: &mut Context, rest: &[u8]) -> Result {
    crate::runtime::paths::check(context)?;
    let mut names = rest.split(|c| *c == b' ').filter(|n| !n.is_empty());
    let (Some(old), Some(new), None) = (names.next(), names.next(), names.next()) else {
        return Err(QError::named("length"));
    };
    let (old, new) = (files::path(context, &Value::chars(old))?, files::path(context, &Value::chars(new))?);
    files::reach::check_change(context, &old)?;
    files::reach::check_change(context, &new)?;
    std::fs::rename(&old, new).map_err(|e| files::refused(&old, &e))?;
    Ok(Value::Null)
}

/// `\s` and `\s N`: number of helper threads for `peach` and for operations on many rows; below 0, `peach` uses the processes of `.z.pd`.
fn threads(context: &mut Context, rest: &[u8]) -> Result {
    let threads = context.host.threads();
    let shown = |count: usize| match i32::try_from(threads.processes) {
        Ok(processes @ 1..) => Value::Int(processes.saturating_neg()),
        _ => Value::Int(i32::try_from(count).unwrap_or(i32::MAX)),
    };
    let wanted = match settings::number(rest) {
        Some(i64::MIN) if threads.most > 0 => return Ok(Value::Int(i32::try_from(threads.most).unwrap_or(i32::MAX))),
        Some(i64::MIN) => return Ok(shown(threads.most)),
        Some(wanted) => wanted,
        None => return Ok(shown(threads.now)),
    };
    if context.host.caller().remote {
        return Err(QError::with("access", "settings can only be changed by the process's owner"));
    }
    let count = usize::try_from(wanted.unsigned_abs()).map_err(|_| QError::named("domain"))?;
    if wanted < 0 {
        context.host.set_processes(count)?;
        context.allowance.set_threads(0);
    } else {
        context.host.set_threads(count)?;
        context.allowance.set_threads(count);
    }
    Ok(Value::Null)
}

fn redirect(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    crate::runtime::paths::check(context)?;
    context.host.redirect(if word == b"1" { 1 } else { 2 }, rest)?;
    Ok(Value::Null)
}

/// Runs any other command in the shell and returns its output as lines.
fn shell(context: &mut Context, line: &[u8]) -> Result {
    use std::os::unix::ffi::OsStrExt;
    crate::io::environment::check_system(context, "system commands")?;
    context.host.alters()?;
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(std::ffi::OsStr::from_bytes(line));
    crate::io::environment::pass_on(&mut command);
    let mut over = Ok(());
    let output = columns::sys::child::output(&mut command, |held| {
        // Charge the lines while the raw output is still in memory.
        over = crate::runtime::limits::check().and_then(|()| crate::runtime::limits::room(held));
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
