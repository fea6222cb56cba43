//! What limits have refused in this process, for the metrics of the program that embeds the language.

use std::sync::atomic::{AtomicU64, Ordering};

static TOO_DEEP: AtomicU64 = AtomicU64::new(0);

/// Counts a value or an expression that nests too deep, received or made.
pub(crate) fn count_too_deep() {
    TOO_DEEP.fetch_add(1, Ordering::Relaxed);
}

/// How many values and expressions were refused because they nest too deep.
pub fn too_deep() -> u64 {
    TOO_DEEP.load(Ordering::Relaxed)
}
