//! The file of an enumeration's domain, which several processes may extend.

use super::{grow, kept, path, reach, refused, zipped};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::{Result, type_error};
use crate::verbs::above::Evaluate;
use crate::verbs::enums;
use columns::table::symbol::intern;
use columns::table::{Items, Sym, Value, Vector};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

type Held<T> = std::result::Result<T, QError>;

/// Time between two attempts to lock the file.
const PAUSE: Duration = Duration::from_millis(2);

/// `` `:file?y ``: enumerates over the symbols of a file, to which missing ones are appended. Assigns all of them to the variable of that
/// name, in place of its former value.
///
/// # Errors
/// `type` for anything but symbols; those of the operating system, after which no new empty file is left.
pub(crate) fn extend_domain(context: &mut Context, file: Sym, y: Value) -> Result {
    if !is_symbols(&y) {
        return Err(type_error());
    }
    let path = path(context, &Value::Sym(file))?;
    let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let name = intern(name).map_err(QError::from)?;
    if path.exists() {
        let known = stored(context, &path)?;
        if enums::has_all(context, &known, &y.clone().plain())? {
            context.set_global(name, known)?;
            return enums::enumerate(context, name, y);
        }
    }
    // Another process may add symbols as well: what is there is read again once it has done so.
    reach::check_change(context, &path)?;
    let locked = locked(context, &path)?;
    let done = extend_locked(context, &path, name, &y);
    if done.is_err() && locked.metadata().is_ok_and(|found| found.len() == 0) {
        // The error reported is the first one.
        drop(fs::remove_file(&path));
    }
    done
}

fn is_symbols(y: &Value) -> bool {
    match y {
        Value::Sym(_) | Value::Enum(..) => true,
        Value::Vector(Vector { items: Items::Sym(_) | Items::Enum(..), .. }) => true,
        Value::Vector(Vector { items: Items::List(items), .. }) => items.is_empty(),
        _ => false,
    }
}

fn extend_locked(context: &mut Context, path: &Path, name: Sym, y: &Value) -> Result {
    let (tagged, before) = extended(context, path, name, y)?;
    let all = context.global(name)?;
    // New names are appended, and those in the file are not written again: a crash loses none of them.
    let new = all.clone().into_vector().ok_or_else(type_error)?.cut(before, all.count());
    if new.is_empty() && before > 0 {
        return Ok(tagged);
    }
    if zipped::Packing::found(path)?.is_some() {
        return Err(QError::signal(format!("no append to zipped enums: {}", path.display())));
    }
    if before == 0 || !grow::append_items(context, path, &new.into())? {
        kept::set(context, path, &all, &kept::Manner::All(None))?;
    }
    Ok(tagged)
}

/// Reads the symbols of a file; an empty list if there is no file yet.
fn stored(context: &mut Context, path: &Path) -> Result {
    let is_new = fs::metadata(path).map_or(true, |found| found.len() == 0);
    if is_new { Ok(Value::symbols(Vec::new())) } else { kept::get(context, path) }
}

/// Enumerates over the symbols of a file, in the variable of its name only; returns how many symbols the file has, too.
fn extended(context: &mut Context, path: &Path, name: Sym, y: &Value) -> Held<(Value, usize)> {
    let known = stored(context, path)?;
    let before = known.count();
    context.set_global(name, known)?;
    Ok((enums::extend(context, name, y.clone())?, before))
}

/// Opens a file that one process at a time may extend, and waits for it; the file is created if it is not there.
fn locked(context: &mut Context, path: &Path) -> Held<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| refused(path, &e))?;
    }
    loop {
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = open.map_err(|e| refused(path, &e))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(file),
            // Its last owner has removed it; or another process has it.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            // A file system without locks.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
        context.check()?;
        thread::sleep(PAUSE);
    }
}

/// Whether a path still names an open file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
