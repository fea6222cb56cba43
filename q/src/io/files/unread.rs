//! Large columns of splayed tables, which are read when they are first used: the files stay open, so that another file under a column's name
//! changes nothing. Small columns are read at once.

use super::enumeration::symbol_at;
use super::head::located;
use super::lists::Mapped;
use super::mapped::LIST;
use super::stored_rows::StoredRows;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::enums;
use columns::sys::budget;
use columns::sys::shared::{Nests, Shared, depth_around};
use columns::sys::stored::Source;
use columns::table::symbol::intern;
use columns::table::{Attr, Element, Items, Sym, Value, Vector};
use proto::types;
use rustix::fs::{FileType, fstat, lstat};
use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

type Held<T> = Result<T, QError>;

/// A column of fewer bytes is read when its table is opened.
const SMALL_BYTES: u64 = 1 << 20;

/// Files that unread columns may keep open, a part of what a process usually may.
const MAX_OPEN: usize = 256;

/// Levels that items of an unread list may nest: it is known only when they are read.
const MAX_DEPTH: u16 = 16;

/// Device and inode of a file.
type Place = (u64, u64);

/// The open files of unread columns.
static OPEN: Mutex<Vec<Place>> = Mutex::new(Vec::new());

/// The files of an unread column, noted in [`OPEN`] until it is read or dropped.
struct Noted(Vec<Place>);

impl Noted {
    /// `None` if unread columns keep many files open.
    fn new(files: &[&File]) -> Option<Noted> {
        let places: Option<Vec<Place>> = files.iter().map(|f| fstat(f).ok().map(|s| (s.st_dev, s.st_ino))).collect();
        let places = places?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_OPEN {
            return None;
        }
        open.extend(&places);
        Some(Noted(places))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        for place in &self.0 {
            if let Some(at) = open.iter().position(|known| known == place) {
                open.swap_remove(at);
            }
        }
    }
}

/// Called before a file is overwritten: one that an unread column needs loses its name instead, so that a new file is written.
pub(super) fn detach(path: &Path) {
    let Ok(found) = lstat(path) else { return };
    let is_noted = || OPEN.lock().unwrap_or_else(PoisonError::into_inner).contains(&(found.st_dev, found.st_ino));
    if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && is_noted() {
        // Where the directory may not be changed the file is overwritten after all, and the column finds that it has changed.
        let _ = std::fs::remove_file(path);
    }
}

/// Reports an error of reading.
fn kept<T>(path: &Path, read: Held<T>) -> Option<T> {
    read.map_err(|error| {
        let error = located(path, error);
        budget::lose(&error.name, error.detail);
    })
    .ok()
}

/// Items of a fixed width.
struct Fixed<F, const N: usize> {
    rows: StoredRows,
    path: PathBuf,
    of: F,
    _noted: Noted,
}

impl<T, F, const N: usize> Source<T> for Fixed<F, N>
where
    T: Element,
    F: Fn([u8; N], &RefCell<Option<QError>>) -> T + Send,
{
    fn is_ready(&self) -> bool {
        !budget::is_marked()
    }

    fn rows(&mut self, rows: Range<usize>) -> Option<Vec<T>> {
        let failed = RefCell::new(None);
        let read = self.rows.converted(rows, |bytes| (self.of)(bytes, &failed));
        kept(&self.path, failed.into_inner().map_or(read, Err))
    }

    fn picked(&mut self, rows: &[u32]) -> Option<Vec<T>> {
        let failed = RefCell::new(None);
        let read = self.rows.converted_at(rows, |bytes| (self.of)(bytes, &failed));
        kept(&self.path, failed.into_inner().map_or(read, Err))?
    }

    fn missing(&self, count: usize) -> Vec<T> {
        vec![T::missing(); count]
    }
}

/// Items of a mapped list.
struct Lists {
    files: Mapped,
    path: PathBuf,
    _noted: Noted,
}

impl Lists {
    fn kept<T>(&self, read: Held<Option<T>>, items: impl Fn(&T) -> &[Value]) -> Option<T> {
        let is_deep = |read: &T| depth_around(items(read)) > MAX_DEPTH;
        let read = match read {
            Ok(Some(read)) if is_deep(&read) => Err(QError::with(
                "limit",
                format!("{}: items nest more than {MAX_DEPTH} levels deep", self.path.display()),
            )),
            other => other,
        };
        kept(&self.path, read)?
    }
}

impl Source<Value> for Lists {
    fn is_ready(&self) -> bool {
        !budget::is_marked()
    }

    fn rows(&mut self, rows: Range<usize>) -> Option<Vec<Value>> {
        if self.files.count() != Some(rows.len()) {
            let numbers: Option<Vec<u32>> = rows.clone().map(|row| u32::try_from(row).ok()).collect();
            if let Some(items) = self.picked(&numbers?) {
                return Some(items);
            }
            let all = self.files.all().map(Some);
            return Some(self.kept(all, |all| all)?.get(rows)?.to_vec());
        }
        let all = self.files.all().map(Some);
        self.kept(all, |all| all)
    }

    fn picked(&mut self, rows: &[u32]) -> Option<Vec<Value>> {
        let read = self.files.rows(rows);
        self.kept(read, |items| items)
    }

    fn missing(&self, count: usize) -> Vec<Value> {
        vec![Value::empty(); count]
    }
}

fn fixed<T: Element + Nests, const N: usize>(
    t: i8,
    rows: StoredRows,
    path: &Path,
    of: impl Fn([u8; N], &RefCell<Option<QError>>) -> T + Send + 'static,
) -> Option<Items> {
    shared(rows, path, of).map(|items| T::wrap(t, items))
}

fn shared<T: Element + Nests, const N: usize>(
    rows: StoredRows,
    path: &Path,
    of: impl Fn([u8; N], &RefCell<Option<QError>>) -> T + Send + 'static,
) -> Option<Shared<T>> {
    let (noted, count) = (Noted::new(&[rows.file()])?, rows.count());
    let source = Fixed { rows, path: path.to_owned(), of, _noted: noted };
    Some(Shared::stored(Box::new(source), count, 0))
}

/// The column of a file, to be read when it is first used. `None` for a small one, and for one in a form that is read at once.
///
/// # Errors
/// Those of the file's head.
pub(super) fn column(context: &mut Context, path: &Path) -> Held<Option<Vector>> {
    let Some(rows) = StoredRows::open(context, path).map_err(|error| located(path, error))? else {
        return lists(context, path);
    };
    if rows.bytes() < SMALL_BYTES {
        return Ok(None);
    }
    let Some(rows) = rows.settled(context, path)? else { return Ok(None) };
    let attr = rows.attr();
    let items = match rows.form() {
        (types::ENUM, domain) => {
            let name = intern(domain).map_err(QError::from)?;
            enumerated(context, name, rows, path)
        }
        (t, _) => simple(t, rows, path),
    };
    Ok(items.map(|items| Vector { attr, items }))
}

fn simple(t: i8, rows: StoredRows, path: &Path) -> Option<Items> {
    match t {
        types::BOOL | types::BYTE | types::CHAR => fixed(t, rows, path, |b: [u8; 1], _| b[0]),
        types::GUID => fixed(t, rows, path, |b: [u8; 16], _| b),
        types::SHORT => fixed(t, rows, path, |b, _| i16::from_le_bytes(b)),
        types::INT | types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME => {
            fixed(t, rows, path, |b, _| i32::from_le_bytes(b))
        }
        types::LONG | types::TIMESTAMP | types::TIMESPAN => fixed(t, rows, path, |b, _| i64::from_le_bytes(b)),
        types::REAL => fixed(t, rows, path, |b, _| f32::from_le_bytes(b)),
        types::FLOAT | types::DATETIME => fixed(t, rows, path, |b, _| f64::from_le_bytes(b)),
        _ => None,
    }
}

/// An enumeration over the symbols that its domain has now. Without them the column is read at once.
fn enumerated(context: &Context, name: Sym, rows: StoredRows, path: &Path) -> Option<Items> {
    let Some(Value::Vector(Vector { items: Items::Sym(known), .. })) = context.host.global(name) else { return None };
    enums::note(name);
    let of = move |bytes: [u8; 8], failed: &RefCell<_>| symbol_at(&known, i64::from_le_bytes(bytes), failed);
    shared(rows, path, of).map(|items| Items::Enum(name, items))
}

fn lists(context: &mut Context, path: &Path) -> Held<Option<Vector>> {
    let Some(files) = Mapped::open(context, path)?.filter(|files| files.bytes() >= SMALL_BYTES) else {
        return Ok(None);
    };
    let is_appending = path.parent().is_some_and(super::grow::is_appending);
    let (Some(count), false) = (files.count(), is_appending) else { return Ok(None) };
    let Some(noted) = Noted::new(&files.files()) else { return Ok(None) };
    let source = Lists { files, path: path.to_owned(), _noted: noted };
    // One level more for the list itself.
    let items = Shared::stored(Box::new(source), count, MAX_DEPTH + 1);
    Ok(Some(Vector { attr: Attr::Mapped(LIST), items: Items::List(items) }))
}
