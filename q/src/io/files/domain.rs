//! The file of an enumeration's domain, which several processes may extend.

use super::exclusive::exclusive;
use super::{grow, kept, path, reach, refused, zipped};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::{Result, type_error};
use crate::verbs::above::Evaluate;
use crate::verbs::enums;
use columns::table::symbol::intern;
use columns::table::{Items, Sym, Value, Vector};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

type Held<T> = std::result::Result<T, QError>;

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
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| refused(&path, &e))?;
    }
    let locked = exclusive(context, &path, true)?;
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
