//! What one evaluation may use.

use std::time::Instant;

/// Bounds of one evaluation. The stack is bounded for every thread by [`crate::sys::stack`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// When to end with `'stop`.
    pub deadline: Option<Instant>,
    /// Bytes that the evaluation may hold beyond what it found, else `'wsfull`.
    pub memory_bytes: u64,
}

impl Default for Limits {
    /// No deadline; 2 GiB.
    fn default() -> Limits {
        Limits { deadline: None, memory_bytes: 2 << 30 }
    }
}
