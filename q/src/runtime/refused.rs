//! Counters of rejections by limits, for the metrics of the embedding program.

use std::sync::atomic::{AtomicU64, Ordering};

static TOO_DEEP: AtomicU64 = AtomicU64::new(0);

/// Counts a value or an expression, received or computed, that nests too deep.
pub(crate) fn count_too_deep() {
    TOO_DEEP.fetch_add(1, Ordering::Relaxed);
}

/// Number of values and expressions rejected because they nest too deep.
pub fn too_deep() -> u64 {
    TOO_DEEP.load(Ordering::Relaxed)
}
