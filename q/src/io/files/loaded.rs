//! Splayed tables that `\l` has loaded: they are read again when their directory has changed.

use super::{kept, name_path};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::above::Evaluate;
use columns::table::{Sym, Table, Value};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Tables that `\l` has assigned to globals.
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

/// Whether `LOADED` has had entries: most processes load none, and skip the lock.
static IS_ANY_LOADED: AtomicBool = AtomicBool::new(false);

/// When the tables were last looked at, and how long that took.
static LOOKED: Mutex<Option<(Instant, Duration)>> = Mutex::new(None);

/// Part of the time that looking at the tables may take: one in so many.
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
    IS_ANY_LOADED.load(Ordering::Relaxed)
}

/// Assigns the table of a directory to a global. As in kdb+, it shows what is written to the directory afterwards: see [`refresh`].
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
            Some(Loaded { name, table: Arc::downgrade(table), folder: folder_now, stamps })
        }
        _ => None,
    };
    context.set_global(name, value)?;
    if let Some(loaded) = loaded.filter(|_| !context.host.caller().remote) {
        IS_ANY_LOADED.store(true, Ordering::Relaxed);
        let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.table.strong_count() > 0);
        all.push(loaded);
    }
    Ok(())
}

/// Before an evaluation: reads the tables that `\l` has loaded again, if their directories have changed. It looks at them only if the last look took less
/// than a twentieth of the time since then, so that many tables on slow disks do not slow down every message.
pub(crate) fn refresh(context: &mut Context) {
    if !is_any_loaded() {
        return;
    }
    let (begun, mut last) = (Instant::now(), LOOKED.lock().unwrap_or_else(PoisonError::into_inner));
    if last.is_some_and(|(ended, took)| begun.saturating_duration_since(ended) < took.saturating_mul(PATIENCE)) {
        return;
    }
    refresh_those(context, |_| true);
    *last = Some((Instant::now(), begun.elapsed()));
}

/// After a write of the process's own: reads the table in the directory of this file again.
pub(super) fn refresh_at(context: &mut Context, path: &Path) {
    if !is_any_loaded() {
        return;
    }
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let folder = folder
        .and_then(|folder| std::fs::canonicalize(if folder == Path::new("") { Path::new(".") } else { folder }).ok());
    refresh_those(context, |loaded| Some(&loaded.folder) == folder.as_ref());
}

/// A global that has another value by now stays as it is, and so does one whose directory cannot be read.
fn refresh_those(context: &mut Context, is_one: impl Fn(&Loaded) -> bool) {
    let all: Vec<Loaded> = {
        let held = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().filter(|loaded| is_one(loaded)).cloned().collect()
    };
    for loaded in all {
        let Some(table) = loaded.table.upgrade() else { continue };
        if stamps(&loaded.folder, &table) == loaded.stamps {
            continue;
        }
        let is_same =
            matches!(context.host.global(loaded.name), Some(Value::Table(held)) if Arc::ptr_eq(&held, &table));
        drop(table);
        if is_same && load(context, loaded.name, &loaded.folder).is_ok() {
            // Another variable may hold the table as it was.
            let mut all = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|known| !Weak::ptr_eq(&known.table, &loaded.table));
        }
    }
}
