//! What limits have refused in this process, for the metrics of the program that embeds the language.

use std::sync::atomic::{AtomicU64, Ordering};

static TOO_DEEP: AtomicU64 = AtomicU64::new(0);

/// Counts a value that was nested too deep.
pub(crate) fn count_too_deep() {
    TOO_DEEP.fetch_add(1, Ordering::Relaxed);
}

/// How many values were refused because they were nested too deep.
pub fn too_deep() -> u64 {
    TOO_DEEP.load(Ordering::Relaxed)
}
