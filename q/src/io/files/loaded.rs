//! Splayed tables that `\l` has loaded: they are read again when their directory has changed.

use super::{kept, name_path};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::above::Evaluate;
use columns::table::{Sym, Table, Value};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

thread_local! {
    /// Tables that `\l` has assigned to globals of this thread's session.
    static LOADED: RefCell<Vec<Loaded>> = const { RefCell::new(Vec::new()) };
    /// Whether one of them is outdated by a write of the process's own.
    static IS_ANY_OUTDATED: Cell<bool> = const { Cell::new(false) };
    /// When they were last looked at, and how long that took.
    static LOOKED: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// Part of the time that looking at the tables, and reading them again, may take: one in so many.
const PATIENCE: u32 = 20;

/// Size, time of the last change and identity of a file: what a write changes.
type Stamp = Option<(u64, i64, u64, u64)>;

/// A global that has the table of a directory.
#[derive(Clone)]
struct Loaded {
    name: Sym,
    table: Weak<Table>,
    folder: PathBuf,
    stamps: [Stamp; 4],
    is_outdated: bool,
}

fn stamp(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    let changed_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
    Some((found.len(), changed_ns, found.ino(), found.dev()))
}

/// Stamps of the directory, of its `.d`, and of its first and last columns. An append changes both columns; a file that is added, removed or replaced
/// changes the directory.
fn stamps(folder: &Path, table: &Table) -> [Stamp; 4] {
    let of = |name: Option<&Sym>| name.and_then(|name| stamp(&name_path(folder, *name)));
    [stamp(folder), stamp(&folder.join(".d")), of(table.names.first()), of(table.names.last())]
}

pub(crate) fn is_any_loaded() -> bool {
    LOADED.with_borrow(|all| !all.is_empty())
}

/// Assigns the table of a directory to a global. As in kdb+, it shows what is written to the directory afterwards: see [`refresh`] and [`settle`].
///
/// # Errors
/// Those of reading and of the assignment.
pub(super) fn load(context: &mut Context, name: Sym, folder: &Path) -> Result<(), QError> {
    let folder_now = std::fs::canonicalize(folder).map_err(|e| super::refused(folder, &e))?;
    // If another process writes meanwhile, the stamps before are not those after, and the table is read again.
    let before = [stamp(&folder_now), stamp(&folder_now.join(".d"))];
    let value = kept::get(context, folder)?;
    let loaded = match &value {
        Value::Table(table) => {
            let [_, _, first, last] = stamps(&folder_now, table);
            let stamps = [before[0], before[1], first, last];
            Some(Loaded { name, table: Arc::downgrade(table), folder: folder_now, stamps, is_outdated: false })
        }
        _ => None,
    };
    context.set_global(name, value)?;
    if let Some(loaded) = loaded.filter(|_| !context.host.caller().remote) {
        LOADED.with_borrow_mut(|all| {
            all.retain(|known| known.name != name && known.table.strong_count() > 0);
            all.push(loaded);
        });
    }
    Ok(())
}

/// Before an evaluation: reads the tables that `\l` has loaded again, if their directories have changed. Looking at them and reading take a twentieth of
/// the time at most, so that many tables, or a large one that grows, do not slow down every message.
pub(crate) fn refresh(context: &mut Context) {
    let begun = Instant::now();
    let is_early =
        |(ended, took): (Instant, Duration)| begun.saturating_duration_since(ended) < took.saturating_mul(PATIENCE);
    if !is_any_loaded() || LOOKED.get().is_some_and(is_early) {
        return;
    }
    read_again(context, |_| true);
    LOOKED.set(Some((Instant::now(), begun.elapsed())));
}

/// After a write of the process's own: the table in the directory of this file is read again when a global is next read.
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

/// Before a global is read: reads the tables again that the process itself has changed on disk.
#[inline]
pub(crate) fn settle(context: &mut Context) {
    if IS_ANY_OUTDATED.get() && !context.host.caller().remote {
        IS_ANY_OUTDATED.set(false);
        read_again(context, |loaded| loaded.is_outdated);
    }
}

/// Reads tables again whose directory has changed. One whose directory cannot be read stays as it is. A global that has another value by now is
/// forgotten. Nothing is read on behalf of a remote caller: the table would be the caller's.
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
            Some(table) if is_same && stamps(&loaded.folder, &table) == loaded.stamps => {}
            _ if is_same => drop(load(context, loaded.name, &loaded.folder)),
            _ => LOADED.with_borrow_mut(|all| all.retain(|known| !Weak::ptr_eq(&known.table, &loaded.table))),
        }
    }
}
