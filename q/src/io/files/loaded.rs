//! Splayed tables loaded with `\l`. When files of such a table change on disk, it is read again.

use super::{column_names, kept, name_path};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::above::Evaluate;
use columns::table::{Sym, Table, Value};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

thread_local! {
    /// Tables that the session of this thread has loaded.
    static LOADED: RefCell<Vec<Loaded>> = const { RefCell::new(Vec::new()) };
    /// Whether this process has written to the files of one of them.
    static IS_ANY_OUTDATED: Cell<bool> = const { Cell::new(false) };
    /// End and duration of the last [`refresh`].
    static LOOKED: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// After a [`refresh`] that took t, the next one happens after this many times t at the earliest.
const PAUSE: u32 = 20;

/// Size, modification time, inode and device of a file; `None` if it is missing.
type Stamp = Option<(u64, i64, u64, u64)>;

/// A loaded table.
#[derive(Clone)]
struct Loaded {
    /// The global that it was assigned to.
    name: Sym,
    table: Weak<Table>,
    folder: PathBuf,
    /// Stamps from before it was read.
    stamps: Vec<Stamp>,
    /// This process has written to its files since.
    is_outdated: bool,
}

fn stamp(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    let changed_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
    Some((found.len(), changed_ns, found.ino(), found.dev()))
}

/// Stamps of the directory, of its `.d` and of the columns' files.
fn stamps(folder: &Path, names: &[Sym]) -> Vec<Stamp> {
    let columns = names.iter().map(|name| name_path(folder, *name));
    [folder.to_owned(), folder.join(".d")].into_iter().chain(columns).map(|path| stamp(&path)).collect()
}

pub(crate) fn is_any_loaded() -> bool {
    LOADED.with_borrow(|all| !all.is_empty())
}

/// Loads a splayed table into a global. As in kdb+, the global shows later writes to the directory: see [`refresh`] and [`settle`].
///
/// # Errors
/// Those of reading and of the assignment.
pub(super) fn load(context: &mut Context, name: Sym, folder: &Path) -> Result<(), QError> {
    // The working directory may change later.
    let absolute = std::fs::canonicalize(folder).map_err(|e| super::refused(folder, &e))?;
    // Taken before reading: a write in between changes a stamp, and the table is read again.
    let stamps = stamps(&absolute, &column_names(context, folder)?);
    let value = kept::get(context, folder)?;
    let table = if let Value::Table(table) = &value { Arc::downgrade(table) } else { Weak::new() };
    context.set_global(name, value)?;
    if !context.host.caller().remote {
        LOADED.with_borrow_mut(|all| {
            all.retain(|known| known.name != name);
            all.push(Loaded { name, table, folder: absolute, stamps, is_outdated: false });
        });
    }
    Ok(())
}

/// Called before each message and console line: reads the loaded tables again whose files have changed, by this or another process. [`PAUSE`] keeps the
/// cost low with many tables, and with a large one that another process appends to.
pub(crate) fn refresh(context: &mut Context) {
    let begun = Instant::now();
    let is_early =
        |(ended, took): (Instant, Duration)| begun.saturating_duration_since(ended) < took.saturating_mul(PAUSE);
    if !is_any_loaded() || LOOKED.get().is_some_and(is_early) {
        return;
    }
    read_again(context, |_| true);
    LOOKED.set(Some((Instant::now(), begun.elapsed())));
}

/// Called after this process has written a file. If the file belongs to a loaded table, [`settle`] will read the table again.
pub(super) fn note_write(path: &Path) {
    if !is_any_loaded() {
        return;
    }
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    let Ok(folder) = std::fs::canonicalize(folder) else { return };
    LOADED.with_borrow_mut(|all| {
        for loaded in all.iter_mut().filter(|loaded| loaded.folder == folder) {
            loaded.is_outdated = true;
            IS_ANY_OUTDATED.set(true);
        }
    });
}

/// Called before a global is read or changed: reads the loaded tables again whose files this process has written.
#[inline]
pub(crate) fn settle(context: &mut Context) {
    if IS_ANY_OUTDATED.get() && !context.host.caller().remote {
        IS_ANY_OUTDATED.set(false);
        read_again(context, |loaded| loaded.is_outdated);
    }
}

/// Reads tables again whose files have changed. A table whose files cannot be read keeps its rows. If the global has been assigned another value, the
/// table is no longer tracked. Does nothing for a remote caller, because the new value would count as assigned by that caller.
fn read_again(context: &mut Context, is_one: impl Fn(&Loaded) -> bool) {
    if context.host.caller().remote {
        return;
    }
    let all: Vec<Loaded> = LOADED.with_borrow(|all| all.iter().filter(|loaded| is_one(loaded)).cloned().collect());
    for loaded in all {
        let table = loaded.table.upgrade();
        let is_same = table.as_ref().is_some_and(
            |table| matches!(context.host.global(loaded.name), Some(Value::Table(held)) if Arc::ptr_eq(&held, table)),
        );
        match table {
            Some(table) if is_same && !loaded.is_outdated && stamps(&loaded.folder, &table.names) == loaded.stamps => {}
            _ if is_same => drop(load(context, loaded.name, &loaded.folder)),
            _ => LOADED.with_borrow_mut(|all| all.retain(|known| !Weak::ptr_eq(&known.table, &loaded.table))),
        }
    }
}
