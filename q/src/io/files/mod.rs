//! Files: text and bytes, serialised values, directories. Files are accessible only if the host permits it, to remote callers
//! only with the grant for files.

mod cells;
mod codecs;
pub(crate) mod database;
mod delimited;
mod domain;
mod enumerated;
mod enumeration;
mod exclusive;
mod fixed;
pub(crate) mod folder;
mod grow;
mod growing;
mod gzip;
mod head;
mod kept;
mod layout;
mod lengths;
mod lists;
mod load;
pub(crate) mod loaded;
pub(crate) mod locked;
mod mapped;
mod mapper;
pub(crate) mod reach;
mod shown;
mod splayed;
mod stored_rows;
mod tagged;
mod text;
mod unfinished;
mod zipped;

use crate::io::pipe;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::host::Made;
use crate::runtime::paths::{check, sought};
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use columns::table::symbol::{intern, text as name_text};
use columns::table::{Attr, Items, Sym, Value, Vector};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

pub(crate) use database::table_of;
pub(crate) use delimited::delimited;
pub(crate) use domain::extend_domain;
pub(crate) use gzip::gz;
pub(crate) use head::is_value;
pub(crate) use kept::{dsave, load_file, load_name, replay, rload, rsave, save, script};
pub(crate) use load::binary;

/// The operating system's error, prefixed with the path.
pub(crate) fn refused(path: &std::path::Path, error: &std::io::Error) -> QError {
    if error.raw_os_error() == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()) {
        return QError::with("path too long", path.display().to_string());
    }
    QError::reported(path.display(), error)
}

fn name_path(folder: &std::path::Path, name: Sym) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    folder.join(std::ffi::OsStr::from_bytes(name_text(name)))
}

fn plain_symbols() -> QError {
    QError::with("type", "enumerate the symbols of a splayed table first (.Q.en)")
}

/// Column names of a splayed table, in order.
fn column_names(context: &mut Context, path: &std::path::Path) -> std::result::Result<Vec<Sym>, QError> {
    let names = layout::read(context, &path.join(".d"))?;
    Ok(names.as_symbols().ok_or_else(type_error)?.to_vec())
}

/// Whether a file symbol names a directory.
pub(crate) fn is_folder(context: &Context, x: &Value) -> std::result::Result<bool, QError> {
    Ok(path(context, x)?.is_dir())
}

/// Whether a file symbol names a directory, or nothing that exists.
pub(crate) fn may_be_folder(context: &Context, x: &Value) -> std::result::Result<bool, QError> {
    let path = path(context, x)?;
    Ok(path.is_dir() || !path.exists())
}

/// Path of a file symbol, a plain symbol or text.
pub(crate) fn path(context: &Context, x: &Value) -> std::result::Result<PathBuf, QError> {
    use std::os::unix::ffi::OsStrExt;
    check(context)?;
    let bytes = match x {
        Value::Sym(s) => name_text(*s),
        other => other.as_text().ok_or_else(type_error)?,
    };
    if let Some(rest) = below_script(x, bytes) {
        let from = context.host.loading_from().ok_or_else(|| {
            QError::with("path", "a path that begins with :: is relative to a script, and none is being loaded")
        })?;
        let script = std::path::Path::new(std::ffi::OsStr::from_bytes(&from.file));
        let path = script.parent().unwrap_or(script).join(std::ffi::OsStr::from_bytes(rest));
        reach::check(context, &path)?;
        return Ok(path);
    }
    let bytes = bytes.strip_prefix(b":").unwrap_or(bytes);
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    reach::check(context, &path)?;
    Ok(path)
}

/// The rest of a path relative to the directory of the script in evaluation: `::` begins it, after the colon of a file symbol.
fn below_script<'a>(x: &Value, written: &'a [u8]) -> Option<&'a [u8]> {
    let path = if matches!(x, Value::Sym(_)) { written.strip_prefix(b":")? } else { written };
    path.strip_prefix(b"::")
}

/// Whether a path is relative to the directory of the script in evaluation.
pub(crate) fn is_of_script(x: &Value) -> bool {
    let written = match x {
        Value::Sym(name) => name_text(*name),
        other => other.as_text().unwrap_or_default(),
    };
    below_script(x, written).is_some()
}

/// Bytes read between two checks of the limits.
const PIECE_BYTES: u64 = 16 << 20;

/// Bytes of a file, or of the range given as `(file;offset;length)`; those of the plain file for a compressed one.
fn bytes_of(context: &Context, x: &Value) -> std::result::Result<Vec<u8>, QError> {
    let (file, range) = match x {
        Value::Vector(Vector { items: Items::List(l), .. }) => match &l[..] {
            [file @ Value::Sym(_), offset] => (file.clone(), Some((offset.as_long().unwrap_or(0), i64::MAX))),
            [file @ Value::Sym(_), offset, length] => {
                let number = |v: &Value| v.as_long().ok_or_else(type_error);
                (file.clone(), Some((number(offset)?, number(length)?)))
            }
            _ => return Err(type_error()),
        },
        file => (file.clone(), None),
    };
    let path = sought(context, path(context, &file)?);
    let mut open = std::fs::File::open(&path).map_err(|e| refused(&path, &e))?;
    let found = open.metadata().map_err(|e| refused(&path, &e))?;
    if found.is_file() {
        let bound = |n: i64| u64::try_from(n).unwrap_or(0);
        let (from, length) = range.map_or((0, u64::MAX), |(from, length)| (bound(from), bound(length)));
        if let Some(plain) = zipped::part(context, &path, &mut open, (from, length))? {
            return Ok(plain);
        }
    }
    let size = found.len();
    let (from, length) = match range {
        Some((from, length)) => {
            let from = u64::try_from(from).unwrap_or(0).min(size);
            (from, u64::try_from(length).unwrap_or(0).min(size - from))
        }
        None => (0, u64::MAX),
    };
    context.reserve(usize::try_from(length.min(size)).unwrap_or(usize::MAX))?;
    open.seek(SeekFrom::Start(from)).map_err(|e| refused(&path, &e))?;
    let mut out = Vec::new();
    // Read in pieces, checking the limits: a device may never end.
    loop {
        let left = length.saturating_sub(out.len() as u64).min(PIECE_BYTES);
        context.check()?;
        context.reserve(usize::try_from(left.min(size.max(1))).unwrap_or(usize::MAX))?;
        let read = open.by_ref().take(left).read_to_end(&mut out).map_err(|e| refused(&path, &e))?;
        if read == 0 {
            return Ok(out);
        }
    }
}

/// Lines without their terminators.
pub(crate) fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    each_line(bytes).collect()
}

/// As [`lines`], one after the other.
fn each_line(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = (!bytes.is_empty()).then(|| body.split(|c| *c == b'\n'));
    lines.into_iter().flatten().map(|l| l.strip_suffix(b"\r").unwrap_or(l))
}

/// `read0 x`: lines of a file, of part of a file, or of a named pipe (`read0 handle`). `read0(handle;n)` reads at most `n` characters of a pipe, and
/// `read0 0` a line of standard input.
pub(crate) fn read0(context: &mut Context, x: Value) -> Result {
    check(context)?;
    // Standard input belongs to the console: a remote caller must not read it.
    if x.as_long() == Some(0) && x.is_scalar() && !context.host.caller().remote {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        return Ok(Value::chars(line.trim_end_matches(['\n', '\r']).as_bytes()));
    }
    if let Some(bytes) = piped(context, &x)? {
        let Value::Vector(Vector { items: Items::Byte(bytes), .. }) = bytes else { return Err(type_error()) };
        let bytes = bytes.to_vec();
        return Ok(if x.is_scalar() { lines_of(&bytes) } else { Value::chars(bytes) });
    }
    Ok(lines_of(&bytes_of(context, &x)?))
}

fn lines_of(bytes: &[u8]) -> Value {
    Value::list(lines(bytes).into_iter().map(Value::chars).collect())
}

/// Reads from a named pipe if `x` is its handle or `(handle;n)`. Returns `None` for any other `x`.
fn piped(context: &mut Context, x: &Value) -> std::result::Result<Option<Value>, QError> {
    let (handle, bytes) = match x.is_scalar() {
        true => (x.as_long(), Some(pipe::READ_BYTES)),
        false if x.count() == 2 => (x.at(0).as_long(), x.at(1).as_long().and_then(|n| usize::try_from(n).ok())),
        false => (None, None),
    };
    let (Some(handle), Some(bytes)) = (handle, bytes) else { return Ok(None) };
    check(context)?;
    if context.host.caller().remote && !context.host.owns(handle) {
        return Err(QError::with("access", "the client has not opened the handle"));
    }
    context.host.read_pipe(handle, bytes).map(Some)
}

/// `read1 x`: bytes of a file or of a part of one, or of a named pipe: `read1 handle`, `read1(handle;n)`.
pub(crate) fn read1(context: &mut Context, x: Value) -> Result {
    if let Some(bytes) = piped(context, &x)? {
        return Ok(bytes);
    }
    Ok(Items::Byte(bytes_of(context, &x)?.into()).into())
}

/// `hcount x`: size of a file in bytes; decompressed size of a compressed one.
pub(crate) fn hcount(context: &mut Context, x: Value) -> Result {
    let path = path(context, &x)?;
    let size = std::fs::metadata(&path).map_err(|e| refused(&path, &e))?.len();
    let size = zipped::plain_bytes(&path)?.unwrap_or(size);
    Ok(Value::Long(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// `hdel x`: deletes a file or an empty directory.
pub(crate) fn hdel(context: &mut Context, x: Value) -> Result {
    let path = path(context, &x)?;
    reach::check_change(context, &path)?;
    let result = if path.is_dir() { unfinished::remove_folder(&path) } else { std::fs::remove_file(&path) };
    result.map_err(|e| refused(&path, &e))?;
    Ok(x)
}

/// `key` of a file symbol: names in a directory, the symbol of a file itself, the empty list if neither exists. Leaves out files of an interrupted
/// append.
pub(crate) fn key(context: &mut Context, x: Value) -> Result {
    use std::os::unix::ffi::OsStrExt;
    let path = path(context, &x)?;
    let Ok(found) = std::fs::metadata(&path) else { return Ok(Value::empty()) };
    if !found.is_dir() {
        return Ok(x);
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(|e| refused(&path, &e))?.flatten() {
        let name = entry.file_name();
        if !unfinished::is_own(&name) {
            names.push(intern(name.as_bytes()).map_err(QError::from)?);
        }
    }
    names.sort_by_key(|n| name_text(*n));
    let attr = if names.is_empty() { Attr::None } else { Attr::Sorted };
    Ok(Vector { attr, items: Items::Sym(names.into()) }.into())
}

/// Replaces a file's contents; creates missing directories.
fn write(context: &Context, path: &std::path::Path, bytes: &[u8]) -> std::result::Result<(), QError> {
    reach::check_change(context, path)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| refused(path, &e))?;
    }
    std::fs::write(path, bytes).map_err(|e| refused(path, &e))
}

/// `file 0: lines`: writes lines.
fn write_lines(context: &mut Context, file: &Value, lines: &Value) -> Result {
    let path = path(context, file)?;
    let mut out = Vec::new();
    if lines.as_text().is_some() {
        return Err(type_error());
    }
    for line in lines.items() {
        out.extend_from_slice(line.as_text().ok_or_else(type_error)?);
        out.push(b'\n');
    }
    write(context, &path, &out)?;
    Ok(file.clone())
}

/// All forms of `x 0: y`.
pub(crate) fn text_operator(context: &mut Context, x: Value, y: Value) -> Result {
    match &x {
        Value::Sym(_) => write_lines(context, &x, &y),
        Value::Vector(Vector { items: Items::Char(spec), .. }) if spec.len() >= 3 => load::pairs(context, spec, &y),
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            text::prepare(context, x.as_text().unwrap_or_default(), &y)
        }
        Value::Vector(Vector { items: Items::List(_), .. }) => delimited(context, &x, &y),
        _ => Err(type_error()),
    }
}

/// `x 1: y`: writes bytes to a file, or parses binary records.
pub(crate) fn bytes_operator(context: &mut Context, x: Value, y: Value) -> Result {
    match &x {
        Value::Sym(_) => {
            let path = path(context, &x)?;
            match &y {
                Value::Vector(Vector { items: Items::Byte(b) | Items::Char(b), .. }) => write(context, &path, b)?,
                other => {
                    let parts = layout::parts(context, other, true)?;
                    write_parts(context, &path, parts, None)?;
                }
            }
            Ok(x)
        }
        Value::Vector(Vector { items: Items::List(l), .. }) if matches!(&l[..], [Value::Sym(_), _, _, _]) => {
            let packing = zipped::Packing::of(l.get(1..).unwrap_or_default())?;
            let path = path(context, &x.at(0))?;
            let parts = match &y {
                Value::Vector(Vector { items: Items::Byte(b) | Items::Char(b), .. }) => {
                    layout::Parts { own: b.to_vec(), ..layout::Parts::default() }
                }
                other => layout::parts(context, other, true)?,
            };
            write_parts(context, &path, parts, packing)?;
            Ok(x.at(0))
        }
        Value::Vector(Vector { items: Items::List(_), .. }) => binary(context, &x, &y),
        _ => Err(type_error()),
    }
}

/// Writes the files of a value, compressed if `packing` is given; its own last, which refers to those beside it. Removes those that a list had
/// there and the value has not.
fn write_parts(
    context: &mut Context,
    path: &std::path::Path,
    parts: layout::Parts,
    packing: Option<zipped::Packing>,
) -> std::result::Result<(), QError> {
    // Without a list of several files now or before, files of these names are somebody's.
    let count = parts.beside.len();
    let owns_beside = count > 0 || layout::has_beside(context, path);
    let mut file = path.to_owned();
    let mut all = vec![(file.clone(), parts.own)];
    for bytes in parts.beside {
        file = layout::beside(&file);
        all.push((file.clone(), bytes));
    }
    for (file, plain) in all.into_iter().rev() {
        match packing {
            Some(packing) => {
                let packed = packing.pack(context, &plain)?;
                write(context, &file, &packed)?;
            }
            None => write(context, &file, &plain)?,
        }
    }
    if owns_beside { remove_beside(path, count) } else { Ok(()) }
}

/// Removes the files beside a column that its new form does not have; it has the first `count` ones.
fn remove_beside(file: &std::path::Path, count: usize) -> std::result::Result<(), QError> {
    let first = layout::beside(file);
    let second = layout::beside(&first);
    for old in [first, second].iter().skip(count).filter(|old| old.exists()) {
        std::fs::remove_file(old).map_err(|e| refused(old, &e))?;
    }
    Ok(())
}

/// `file set value`: writes a value.
pub(crate) fn set(context: &mut Context, name: Value, y: &Value) -> Result {
    let path = path(context, &name)?;
    kept::set(context, &path, y, &kept::Manner::Usual)?;
    loaded::note_write(&path);
    Ok(name)
}

/// Writes the changed value of a file, which stays compressed if it was.
pub(crate) fn set_changed(context: &mut Context, name: Value, y: &Value) -> Result {
    let path = path(context, &name)?;
    let manner = match zipped::Packing::found(&path)? {
        None => kept::Manner::Usual,
        packing => kept::Manner::All(packing),
    };
    kept::set(context, &path, y, &manner)?;
    loaded::note_write(&path);
    Ok(name)
}

/// `(file;block size;algorithm;level) set value` and `(folder;column!parameters) set table`: write compressed.
pub(crate) fn set_packed(context: &mut Context, x: &Value, y: &Value) -> Result {
    let parts = x.items();
    let (Some(file @ Value::Sym(_)), rest) = (parts.first(), parts.get(1..).unwrap_or_default()) else {
        return Err(type_error());
    };
    let manner = match rest {
        [Value::Dict(d)] => kept::Manner::ByColumn(d.clone()),
        _ => kept::Manner::All(zipped::Packing::of(rest)?),
    };
    let to = path(context, file)?;
    // Instead of a value, a file or the directory of a splayed table: its content is written.
    match y {
        Value::Sym(name) if crate::runtime::paths::is_path(*name) && path(context, y)?.exists() => {
            // Data becomes the name of a file to read.
            context.host.makes_code(Made::Other)?;
            let from = path(context, y)?;
            match &manner {
                kept::Manner::All(packing) if from.is_file() => pack(context, &from, &to, *packing)?,
                _ => {
                    let value = get(context, y)?;
                    kept::set(context, &to, &value, &manner)?;
                }
            }
        }
        value => kept::set(context, &to, value, &manner)?,
    }
    loaded::note_write(&to);
    Ok(file.clone())
}

/// `-19!(source;target;block size;algorithm;level)`: compresses a file into another.
pub(crate) fn pack_file(context: &mut Context, x: &Value) -> Result {
    let parts = x.items();
    let [source, target, parameters @ ..] = &parts[..] else { return Err(QError::named("length")) };
    let packing = zipped::Packing::of(parameters)?;
    let (from, to) = (path(context, source)?, path(context, target)?);
    pack(context, &from, &to, packing)?;
    Ok(target.clone())
}

/// Compresses a file into another, or into its own place.
fn pack(
    context: &mut Context,
    from: &std::path::Path,
    to: &std::path::Path,
    packing: Option<zipped::Packing>,
) -> std::result::Result<(), QError> {
    let mut parts = layout::Parts { own: layout::bytes_of(context, from)?, ..layout::Parts::default() };
    // The files beside that of a nested list go with it.
    let mut beside = layout::beside(from);
    while parts.beside.len() < 2 && beside.is_file() {
        parts.beside.push(layout::bytes_of(context, &beside)?);
        beside = layout::beside(&beside);
    }
    write_parts(context, to, parts, packing).map(drop)
}

/// Appends rows to a splayed table, or items to the file of a list; `false` if the file cannot grow and must be written as a whole.
/// With a table as `rows`, a splayed table that does not exist is created with them.
pub(crate) fn append(context: &mut Context, name: &Value, rows: &Value) -> std::result::Result<bool, QError> {
    let path = path(context, name)?;
    let is_done = match rows {
        Value::Table(t) if kept::create(context, &path, t)? => true,
        _ if path.is_dir() => grow::append(context, &path, rows)?,
        _ => grow::append_items(context, &path, rows)?,
    };
    loaded::note_write(&path);
    Ok(is_done)
}

/// Returns the value in a file, or the empty list if there is no file.
pub(crate) fn get_or_empty(context: &mut Context, name: &Value) -> Result {
    let path = path(context, name)?;
    if path.exists() { found(context, &path) } else { Ok(Value::empty()) }
}

/// `-21!file`: compression parameters of a file.
pub(crate) fn compression(context: &mut Context, x: Value) -> Result {
    zipped::compression(&path(context, &x)?)
}

/// `get file`: returns the value in a file.
pub(crate) fn get(context: &mut Context, name: &Value) -> Result {
    let path = sought(context, path(context, name)?);
    found(context, &path)
}

/// As [`get`], but relative to the working directory only: for values that are written back.
pub(crate) fn get_here(context: &mut Context, name: &Value) -> Result {
    let path = path(context, name)?;
    found(context, &path)
}

/// `get(folder;name)`: returns the value in a file of a folder, if there is such a file. KX's dbmaint.q reads columns in this way, and
/// `.d`, which holds their names.
pub(crate) fn get_within(context: &mut Context, folder: Sym, name: Sym) -> std::result::Result<Option<Value>, QError> {
    let folder = path(context, &Value::Sym(folder))?;
    let file = name_path(&folder, name);
    if !folder.is_dir() || !file.is_file() {
        return Ok(None);
    }
    found(context, &file).map(Some)
}

/// The value in a file, which may be a function.
fn found(context: &mut Context, path: &std::path::Path) -> Result {
    let value = kept::get(context, path)?;
    context.host.makes_code(Made::Value(&value))?;
    Ok(value)
}
