//! Ctrl-C flag: whether the user asked the running evaluation to stop.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Requests that the running evaluation stops. Returns whether that was already requested.
pub fn ask() -> bool {
    ASKED.swap(true, Ordering::Relaxed)
}

/// Clears the request, when an evaluation begins.
pub fn forget() {
    ASKED.store(false, Ordering::Relaxed);
}

pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
