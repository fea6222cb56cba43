//! Commands that show or change a numeric setting.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::host::Setting;
use crate::runtime::settings as thread;
use crate::runtime::values::Result;
use crate::verbs::show::MAX_CONSOLE;
use columns::table::{Items, Value};

/// Whether a command is a setting.
pub(crate) fn is_setting(word: &[u8]) -> bool {
    matches!(word, [one] if b"cCePgoptTuwWEz_rx".contains(one))
}

/// Shows or changes a setting. A fixed setting accepts only its current value.
pub(crate) fn setting(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let given = number(rest);
    // The host keeps a client's console apart from its own.
    let of_caller = matches!(word, b"w" | b"c" | b"C" | b"P");
    if !rest.is_empty() && context.host.caller().remote && !of_caller {
        return Err(QError::with("access", "settings can only be changed by the process's owner"));
    }
    match (word, given) {
        (b"P", _) => precision(context, given),
        (b"c" | b"C", _) => size(context, word, rest),
        (b"e", Some(mode @ 0..=2)) => change(context, Setting::ErrorTrap, mode),
        (b"e", None) => shown(context, Setting::ErrorTrap),
        (b"t", Some(ms @ 0..)) => change(context, Setting::Timer, ms),
        (b"t", None) => shown(context, Setting::Timer),
        (b"T", Some(seconds @ 0..)) => change(context, Setting::QueryTime, seconds),
        (b"T", None) => shown(context, Setting::QueryTime),
        (b"g", Some(mode @ 0..=1)) => change(context, Setting::Collection, mode),
        (b"g", None) => shown(context, Setting::Collection),
        (b"p", _) if rest.is_empty() => Ok(Value::Int(context.host.port())),
        (b"p", _) => {
            crate::runtime::paths::check(context)
                .map_err(|_| QError::with("access", "this command is not available here"))?;
            // Accept the suffix of an int, `\p 5000i`, as for other settings.
            let digits = rest.strip_suffix(b"i").filter(|digits| number(digits).is_some());
            context.host.listen(digits.unwrap_or(rest))?;
            Ok(Value::Null)
        }
        (b"o", None) => Ok(Value::Int(thread::utc_offset().unwrap_or(i32::MIN))),
        (b"o", Some(offset)) => {
            thread::set_utc_offset(i32::try_from(offset).ok());
            Ok(Value::Null)
        }
        (b"z", Some(order @ (0 | 1))) => {
            thread::set_day_first(order == 1);
            Ok(Value::Null)
        }
        (b"z", None) => Ok(Value::Int(i32::from(thread::day_first()))),
        (b"W", Some(day @ 0..=6)) => {
            thread::set_week_start(day);
            Ok(Value::Null)
        }
        (b"W", None) => Ok(Value::Int(i32::try_from(thread::week_start()).unwrap_or(2))),
        (b"w", _) => memory(context, given),
        (b"_", None) if rest.is_empty() => Ok(Value::Bool(context.host.blocks_writes())),
        (b"_", _) => crate::io::files::locked::lock(context, rest),
        // In kdb+ `\u` reloads the password file; here every login reads it.
        (b"u", None) if rest.is_empty() => Ok(Value::Null),
        (b"x", _) => expunge(context, rest),
        (b"E", None) if rest.is_empty() => Ok(Value::Int(0)),
        (b"E", Some(0)) => Ok(Value::Null),
        (b"e" | b"t" | b"T" | b"g" | b"z" | b"W", Some(value)) => {
            Err(QError::with("domain", format!("{value} is no value of \\{}", String::from_utf8_lossy(word))))
        }
        _ => Err(QError::with("access", "this command is not available here")),
    }
}

fn shown(context: &Context, which: Setting) -> Result {
    Ok(Value::Int(i32::try_from(context.host.setting(which)).unwrap_or(i32::MAX)))
}

fn change(context: &mut Context, which: Setting, to: i64) -> Result {
    context.host.change(which, to)?;
    Ok(Value::Null)
}

fn precision(context: &mut Context, digits: Option<i64>) -> Result {
    let mut console = context.host.console();
    let Some(digits) = digits else { return Ok(Value::Int(i32::from(console.precision))) };
    console.precision = u8::try_from(digits.clamp(0, 17)).unwrap_or(thread::PRECISION);
    context.host.set_console(console)?;
    thread::set_precision(console.precision);
    Ok(Value::Null)
}

fn size(context: &mut Context, word: &[u8], rest: &[u8]) -> Result {
    let mut console = context.host.console();
    if rest.is_empty() {
        let sizes = if word == b"c" { [console.rows, console.columns] } else { console.web };
        return Ok(Items::Int(sizes.iter().map(|s| *s as i32).collect()).into());
    }
    let mut sizes = rest.split(|c| *c == b' ').filter_map(|n| usize::try_from(number(n)?).ok());
    let (Some(rows), Some(columns)) = (sizes.next(), sizes.next()) else { return Err(QError::named("length")) };
    let (rows, columns) = (rows.clamp(10, MAX_CONSOLE), columns.clamp(10, MAX_CONSOLE));
    if word == b"c" {
        (console.rows, console.columns) = (rows, columns);
    } else {
        console.web = [rows, columns];
    }
    context.host.set_console(console)?;
    Ok(Value::Null)
}

/// `\w`: memory used, heap, peak, limit, mapped, physical, in bytes. Heap is the same as used
/// ([`crate::runtime::host::Host::used_bytes`]); mapped is 0.
/// `\w 0`: number of symbols and their bytes. `\w n`: raises the limit, in MB, if the process has one.
fn memory(context: &mut Context, given: Option<i64>) -> Result {
    let limit = context.host.setting(Setting::Workspace);
    match given {
        None => {
            let [used, peak] = context.host.used_bytes();
            let machine = columns::sys::memory::Sources::default().memory().map_or(0, |m| m.total_bytes);
            Ok(Value::longs(vec![used, used, peak, limit, 0, i64::try_from(machine).unwrap_or(i64::MAX)]))
        }
        Some(0 | 1) => {
            let usage = columns::table::symbol::usage();
            let (symbols, bytes) = (usage.symbols, usage.bytes());
            Ok(Value::longs(vec![i64::try_from(symbols).unwrap_or(0), i64::try_from(bytes).unwrap_or(0)]))
        }
        Some(_) if context.host.caller().remote => {
            Err(QError::with("access", "settings can only be changed by the process's owner"))
        }
        Some(_) if limit == 0 => Err(QError::signal("-w init via cmd line")),
        Some(mb) => {
            let bytes = mb.saturating_mul(1 << 20).max(limit);
            context.host.change(Setting::Workspace, bytes)?;
            Ok(Value::Long(bytes))
        }
    }
}

/// `\x .z.pg`: restores the default of a handler.
fn expunge(context: &mut Context, rest: &[u8]) -> Result {
    let handler = crate::runtime::values::symbol(rest)?;
    if context.host.caller().remote || !rest.starts_with(b".z.") {
        return Err(QError::with("access", "handlers can only be set by the process"));
    }
    context.host.remove(handler)?;
    Ok(Value::Null)
}

/// Parses an integer argument.
pub(super) fn number(rest: &[u8]) -> Option<i64> {
    match rest {
        b"0N" | b"0Ni" => Some(i64::MIN),
        // A setting is an int, and programs put back what they have read: `system"c ",.Q.s1 system"c"`.
        [digits @ .., b'i'] if digits.last().is_some_and(u8::is_ascii_digit) => number(digits),
        _ => std::str::from_utf8(rest).ok()?.parse().ok(),
    }
}
