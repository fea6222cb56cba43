//! Whether a person at a terminal has asked for the running evaluation to end.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Asks the evaluation that runs in this process to end; whether it had been asked before.
pub fn ask() -> bool {
    ASKED.swap(true, Ordering::Relaxed)
}

/// Nothing is asked of the evaluation that begins now.
pub fn forget() {
    ASKED.store(false, Ordering::Relaxed);
}

pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
