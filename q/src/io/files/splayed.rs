//! Which tables in memory are those of a splayed directory, unchanged: what `.Q.qp` tells.

use columns::table::Table;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Tables read from directories. One that was changed is another table.
static READ: Mutex<Vec<Weak<Table>>> = Mutex::new(Vec::new());

/// Number of tables from which on those that are gone are dropped.
const MANY: usize = 256;

/// Notes that a table is that of a directory.
pub(super) fn note(table: &Arc<Table>) {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if read.len() >= MANY {
        read.retain(|known| known.strong_count() > 0);
    }
    read.push(Arc::downgrade(table));
}

/// Whether a table is that of a directory, as it was read.
pub(super) fn is_splayed(table: &Arc<Table>) -> bool {
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Arc::as_ptr(table);
    read.iter().any(|known| std::ptr::eq(known.as_ptr(), place))
}
