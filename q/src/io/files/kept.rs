//! Values stored in files as kdb+ stores them: one value in a file, or a table splayed over a directory.

use super::exclusive::exclusive;
use super::layout::{encoded, parts, read, read_column};
use super::unfinished::{lock_of, new_of};
use super::zipped::Packing;
use super::{column_names, lines, name_path, path, plain_symbols, refused, remove_beside, write, write_parts};
use super::{head, lengths, locked};
use crate::io::{own_messages, wire};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::host::{Made, NEEDS_OWNER};
use crate::runtime::settings;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::verbs::above::Evaluate;
use crate::verbs::attributes::set_attribute;
use crate::verbs::format::clipped;
use columns::table::symbol::{intern, text};
use columns::table::{Dict, Items, Sym, Table, Value, Vector};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Whether a path names a splayed table.
fn is_splayed(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// Compression of the files to be written.
pub(super) enum Manner {
    /// As set in `.z.zd`.
    Usual,
    All(Option<Packing>),
    /// By column; columns not listed use the entry of the null symbol, or else what is set in `.z.zd`.
    ByColumn(columns::sys::shared::Held<Dict>),
}

impl Manner {
    fn packing(&self, context: &Context, path: &Path, column: Sym) -> std::result::Result<Option<Packing>, QError> {
        match self {
            Manner::Usual => Packing::usual(context, path),
            Manner::All(packing) => Ok(*packing),
            Manner::ByColumn(by) => {
                let names = by.keys.as_symbols().ok_or_else(type_error)?;
                let at = |name: Sym| names.iter().position(|n| *n == name);
                match at(column).or_else(|| at(Sym::NULL)) {
                    Some(at) => Packing::of(&by.values.at(at).items()),
                    None => Packing::usual(context, path),
                }
            }
        }
    }
}

pub(super) fn set(context: &mut Context, path: &Path, y: &Value, manner: &Manner) -> std::result::Result<(), QError> {
    if !is_splayed(path) {
        let parts = parts(context, y, false)?;
        let packing = manner.packing(context, path, Sym::NULL)?;
        return write_parts(context, path, parts, packing);
    }
    let Value::Table(t) = y else { return Err(type_error()) };
    super::reach::check(context, path)?;
    check_columns(t)?;
    context.host.alters()?;
    std::fs::create_dir_all(path).map_err(|e| refused(path, &e))?;
    for (name, column) in t.names.iter().zip(&t.columns) {
        let file = name_path(path, *name);
        let packing = manner.packing(context, &file, *name)?;
        let parts = parts(context, &column.clone().into(), false)?;
        let count = parts.beside.len();
        write_parts(context, &file, parts, packing)?;
        remove_beside(&file, count)?;
    }
    let names = encoded(context, &Value::symbols(t.names.clone()))?;
    let file = path.join(".d");
    if is_there(&file)? {
        return write(context, &file, &names);
    }
    // Written under another name and renamed: a process that sees `.d` must never read half of it.
    let new = new_of(&file);
    super::reach::check_change(context, &file)?;
    let done = write(context, &new, &names).and_then(|()| std::fs::rename(&new, &file).map_err(|e| refused(&file, &e)));
    if done.is_err() {
        // The error reported is the first one.
        drop(std::fs::remove_file(&new));
    }
    done
}

/// Writes a splayed table, if its directory is missing or has nothing in it; `false` otherwise. Of two processes that append the first rows at
/// once, one creates the table; the other waits and appends.
pub(super) fn create(context: &mut Context, path: &Path, rows: &Table) -> std::result::Result<bool, QError> {
    if !is_splayed(path) {
        return Ok(false);
    }
    super::reach::check_change(context, path)?;
    let lock_file = lock_of(path);
    if is_there(&path.join(".d"))? || !(is_free(path)? || is_there(&lock_file)?) {
        return Ok(false);
    }
    check_columns(rows)?;
    std::fs::create_dir_all(path).map_err(|e| refused(path, &e))?;
    // A file, because some network file systems do not lock directories.
    let lock = exclusive(context, &lock_file, true)?;
    let is_first = is_free(path)?;
    let done = if is_first { set(context, path, &Value::table(rows.clone()), &Manner::Usual) } else { Ok(()) };
    // One that waits for the lock finds that the file is gone, and makes another.
    drop(std::fs::remove_file(&lock_file));
    drop(lock);
    done.map(|()| is_first)
}

/// Whether there is a file.
fn is_there(file: &Path) -> std::result::Result<bool, QError> {
    file.try_exists().map_err(|e| refused(file, &e))
}

/// Whether a splayed table may be created here: the directory does not exist, or holds only the lock file and other temporary files of elastick.
fn is_free(folder: &Path) -> std::result::Result<bool, QError> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().all(|entry| super::unfinished::is_own(&entry.file_name()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(refused(folder, &e)),
    }
}

/// Rejects names and columns that a splayed table cannot have.
fn check_columns(t: &Table) -> std::result::Result<(), QError> {
    check_names(&t.names)?;
    match t.columns.iter().any(|column| matches!(column.items, Items::Sym(_))) {
        true => Err(plain_symbols()),
        false => Ok(()),
    }
}

/// Rejects columns of which one has the name of another's file of items (`NAME#`, `NAME##`): one would overwrite the other.
fn check_names(names: &[Sym]) -> std::result::Result<(), QError> {
    let owner = |name: &Sym| text(*name).strip_suffix(b"#").map(|stem| stem.strip_suffix(b"#").unwrap_or(stem));
    let is_taken = |name: &&Sym| owner(name).is_some_and(|owner| names.iter().any(|other| text(*other) == owner));
    // Files that say what the folder holds, and that appends make.
    let is_own = |name: &&Sym| {
        use std::os::unix::ffi::OsStrExt;
        let name = text(**name);
        name == b".d" || super::unfinished::is_own(std::ffi::OsStr::from_bytes(name))
    };
    if let Some(name) = names.iter().find(is_own) {
        let name = String::from_utf8_lossy(text(*name));
        return Err(QError::with("domain", format!("no column of a splayed table can be named {name}")));
    }
    match names.iter().find(is_taken) {
        Some(name) => {
            let name = String::from_utf8_lossy(text(*name));
            Err(QError::with("domain", format!("a file {name} holds items of another column: rename column {name}")))
        }
        None => Ok(()),
    }
}

/// Dictionary of the values in a directory that is not a splayed table, by file name.
fn values_in(context: &mut Context, folder: &Path) -> Result {
    context.enter()?;
    let (mut names, mut values) = (Vec::new(), Vec::new());
    let found = std::fs::read_dir(folder).map_err(|e| refused(folder, &e))?;
    let mut entries: Vec<_> = found.flatten().map(|e| e.path()).collect();
    entries.sort();
    // `name#` and `name##` belong to the nested list in `name`.
    let is_beside = |entry: &Path| entry.as_os_str().as_encoded_bytes().ends_with(b"#");
    // Reading a named pipe would block.
    let is_read = |entry: &Path| entry.is_dir() || entry.is_file();
    entries.retain(|entry| {
        !is_beside(entry) && is_read(entry) && !super::unfinished::is_own(entry.file_name().unwrap_or_default())
    });
    for entry in entries {
        context.tick()?;
        let name = entry.file_name().unwrap_or_default().as_encoded_bytes();
        names.push(intern(name).map_err(QError::from)?);
        values.push(get(context, &entry)?);
    }
    Ok(Value::dict(Value::symbols(names), Value::collapse(values)))
}

/// The value in a file, the splayed table in a directory, or the dictionary of the values in another directory.
pub(crate) fn get(context: &mut Context, path: &Path) -> Result {
    // The path may be that of a file within a directory or a database.
    super::reach::check(context, path)?;
    if !path.is_dir() {
        return read(context, path);
    }
    if !path.join(".d").exists() {
        return values_in(context, path);
    }
    let names = column_names(context, path)?;
    let mut columns: Vec<Vector> = Vec::with_capacity(names.len());
    for name in &names {
        let file = name_path(path, *name);
        super::reach::check(context, &file)?;
        let column = read_column(context, &file)?;
        columns.push(column.into_vector().ok_or_else(type_error)?);
    }
    let mut table = Table::new(names, columns);
    lengths::even(context, path, &mut table)?;
    let table = Arc::new(table);
    super::splayed::note(&table);
    Ok(Value::Table(table))
}

/// A file's name without directory and extension, and its extension.
fn stem(path: &Path) -> std::result::Result<(Sym, Vec<u8>), QError> {
    use std::os::unix::ffi::OsStrExt;
    let stem = path.file_stem().map(OsStrExt::as_bytes).unwrap_or_default();
    let ending = path.extension().map(OsStrExt::as_bytes).unwrap_or_default();
    Ok((intern(stem).map_err(QError::from)?, ending.to_vec()))
}

/// File symbol of a name, which may lack the leading colon.
fn file_symbol(x: &Value, end: &[u8]) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    let written = text(*name).strip_prefix(b":").unwrap_or(text(*name));
    Ok(Value::Sym(intern(&[b":", written, end].concat()).map_err(QError::from)?))
}

/// `save x`: writes the global named like the file, in the format of its extension. Returns the file symbol.
pub(crate) fn save(context: &mut Context, x: Value) -> Result {
    if let Value::Vector(_) = x {
        return crate::verbs::map::map(context, &x, save);
    }
    let file = path(context, &x)?;
    let (name, ending) = stem(&file)?;
    let full = context.named(name)?;
    let value = context.global(full)?;
    // The functions that turn a table into text, by extension.
    let kinds = context.global(crate::syntax::prims::name(".h.tx"))?;
    let ending = intern(&ending).map_err(QError::from)?;
    let is_text = matches!(&kinds, Value::Dict(d) if d.keys.as_symbols().unwrap_or_default().contains(&ending));
    if ending == Sym::NULL || !is_text {
        set(context, &file, &value, &Manner::Usual)?;
        return file_symbol(&x, b"");
    }
    let f = crate::verbs::index::one(context, &kinds, &Value::Sym(ending))?;
    let lines = context.call1(&f, value)?;
    super::write_lines(context, &file_symbol(&x, b"")?, &lines)
}

/// `load x`: loads a file or a directory into the global of its name.
pub(crate) fn load_name(context: &mut Context, x: Value) -> Result {
    if let Value::Vector(_) = x {
        return crate::verbs::map::map(context, &x, load_name);
    }
    let file = path(context, &x)?;
    load_file(context, &file)
}

/// Assigns the value in a file to the global of its name.
pub(crate) fn load_file(context: &mut Context, file: &Path) -> Result {
    let (name, _) = stem(file)?;
    let value = get(context, file)?;
    context.host.makes_code(Made::Value(&value))?;
    let full = context.named(name)?;
    context.set_global(full, value)?;
    Ok(Value::Sym(name))
}

/// `rsave x`: writes the global of that name as a splayed table.
pub(crate) fn rsave(context: &mut Context, x: Value) -> Result {
    if let Value::Vector(_) = x {
        return crate::verbs::map::map(context, &x, rsave);
    }
    let file = path(context, &x)?;
    let (name, _) = stem(&file)?;
    let full = context.named(name)?;
    let value = context.global(full)?;
    set(context, &file.join(""), &value, &Manner::Usual)?;
    file_symbol(&x, b"/")
}

/// `rload x`: loads a splayed table into the global of its name.
pub(crate) fn rload(context: &mut Context, x: Value) -> Result {
    if let Value::Vector(_) = x {
        return crate::verbs::map::map(context, &x, rload);
    }
    let file = path(context, &x)?;
    load_file(context, &file)
}

/// `x dsave y`: writes tables by name, splayed under a directory, with symbols enumerated over its `sym`, and the first column with
/// the parted attribute (`u-fail` if its equal items do not stand together).
pub(crate) fn dsave(context: &mut Context, x: Value, y: Value) -> Result {
    let (folder, part) = match &x {
        Value::Vector(Vector { items: Items::Sym(s), .. }) if s.len() == 2 => (x.at(0), Some(x.at(1))),
        _ => (x.clone(), None),
    };
    let root = path(context, &folder)?;
    let target = match part {
        Some(Value::Sym(part)) => name_path(&root, part),
        _ => root,
    };
    for name in y.as_symbols().ok_or_else(type_error)? {
        let table = context.global(*name)?;
        let enumerate = context.global(crate::syntax::prims::name(".Q.en"))?;
        let enumerated = context.call2(&enumerate, folder.clone(), table)?;
        let parted = parted_by_first(&enumerated)?;
        set(context, &name_path(&target, *name).join(""), &parted, &Manner::Usual)?;
    }
    Ok(y)
}

fn parted_by_first(table: &Value) -> Result {
    let Value::Table(table) = table else { return Err(type_error()) };
    let mut table = Table::clone(table);
    if let Some(first) = table.columns.first_mut() {
        *first = set_attribute(b"p", first.clone().into())?.into_vector().ok_or_else(type_error)?;
    }
    Ok(Value::Table(table.into()))
}

/// The lines of a script file.
pub(crate) fn script(path: &Path) -> std::result::Result<Vec<u8>, QError> {
    let read = std::fs::read(path).and_then(|bytes| locked::unpacked(path, bytes));
    Ok(lines(&read.map_err(|e| refused(path, &e))?).join(&b"\n"[..]))
}

/// Bytes of a log read at a time.
const READ_AT_ONCE: usize = 1 << 20;

/// Bytes of a failed message in its error.
const SHOWN_BYTES: usize = 80;

/// Evaluates a message of a log, with `.z.ps` if that is set. `before` is the number of messages before it in the log.
fn message(context: &mut Context, message: &Value, before: i64) -> std::result::Result<(), QError> {
    own_messages::evaluate(context, message.clone()).map(drop).map_err(|error| numbered(error, before, message))
}

/// Adds to the reason of an error which message failed; `before` messages of the log precede it. The error keeps its name.
#[cold]
fn numbered(mut error: QError, before: i64, message: &Value) -> QError {
    if error == NEEDS_OWNER {
        return error;
    }
    let shown = clipped(message, settings::precision(), SHOWN_BYTES);
    let mut shown = String::from_utf8_lossy(&shown).into_owned();
    if shown.len() > SHOWN_BYTES {
        shown.truncate(shown.floor_char_boundary(SHOWN_BYTES));
        shown.push_str("..");
    }
    let reason = if error.detail.is_empty() { String::new() } else { format!("{}; ", error.detail) };
    error.detail = format!("{reason}message {} of the log: {shown}", before.saturating_add(1));
    error
}

/// `-11!file`: evaluates the messages of a log, `-11!(n;file)` the first `n`, and returns their number. `-11!(-2;file)` only
/// counts; for a damaged log it returns the number of intact messages and their length in bytes.
pub(crate) fn replay(context: &mut Context, x: Value) -> Result {
    let (most, file) = match &x {
        Value::Vector(Vector { items: Items::List(l), .. }) => match &l[..] {
            [most, file] => (most.as_long().ok_or_else(type_error)?, file.clone()),
            _ => return Err(QError::named("length")),
        },
        file => (-1, file.clone()),
    };
    let path = path(context, &file)?;
    let log = std::fs::File::open(&path).map_err(|e| refused(&path, &e))?;
    // Unread records, of which a part of the file is held at a time: the log of a day may be larger than the memory.
    let (mut bytes, mut at) = (Vec::new(), 0usize);
    let more = |bytes: &mut Vec<u8>, at: &mut usize| -> std::result::Result<bool, QError> {
        bytes.drain(..std::mem::take(at));
        // A record larger than what is held doubles it.
        let wanted = bytes.len().max(READ_AT_ONCE);
        crate::runtime::limits::room(wanted)?;
        let got = (&log).take(wanted as u64).read_to_end(bytes).map_err(|e| refused(&path, &e))?;
        Ok(got > 0)
    };
    more(&mut bytes, &mut at)?;
    if head::is_mapped(&bytes) {
        // A log that was written as a list of messages.
        let messages = read(context, &path)?.items();
        let wanted = usize::try_from(most).unwrap_or(usize::MAX).min(messages.len());
        for (at, each) in messages.iter().take(wanted).enumerate().filter(|_| most != -2) {
            message(context, each, at as i64)?;
        }
        return Ok(Value::Long(wanted as i64));
    }
    if !proto::log::is_log_head(&bytes) {
        return Err(QError::named("badtail"));
    }
    at = proto::log::FILE_HEAD.len();
    let mut end = at as u64;
    let limits = proto::Limits::default();
    let mut count = 0;
    while most < 0 || count < most {
        context.tick()?;
        let torn = match proto::log::next_record(bytes.get(at..).unwrap_or_default(), &limits) {
            Ok(Some((used, view))) => {
                if most != -2 {
                    message(context, &wire::from_view(&view)?, count)?;
                }
                at += used;
                end += used as u64;
                count += 1;
                continue;
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if torn.as_ref().is_none_or(|error| error.is_incomplete()) && more(&mut bytes, &mut at)? {
            continue;
        }
        match torn {
            None => break,
            Some(_) if most == -2 => return Ok(Value::longs(vec![count, i64::try_from(end).unwrap_or(i64::MAX)])),
            Some(error) => return Err(QError::with("badtail", error.to_string())),
        }
    }
    Ok(Value::Long(count))
}
