//! How much stack the current thread has used: recursion over what peers send must end in an error, not in a crash.

use std::cell::Cell;

/// Stack that recursion may use below the shallowest frame that asked.
pub const LIMIT_BYTES: usize = 1 << 20;

/// Stack of every thread of ours, and of the process's first one. Pages that are never touched cost nothing. What it has beyond
/// [`LIMIT_BYTES`] is for recursion that does not ask, over values and syntax that are only so deep: copying, dropping, printing.
pub const THREAD_BYTES: usize = 8 << 20;

/// What stands beyond the part of a stack that recursion may use by asking.
const RESERVE_BYTES: usize = THREAD_BYTES - LIMIT_BYTES;

/// A thread with such a stack. No other way to start one is used.
pub fn thread(name: String) -> std::thread::Builder {
    std::thread::Builder::new().name(name).stack_size(THREAD_BYTES)
}

/// As [`thread`], where recursion may use so many bytes by asking, as [`allow`] then says on the thread itself.
pub fn thread_that_allows(name: String, bytes: usize) -> std::thread::Builder {
    std::thread::Builder::new().name(name).stack_size(bytes.saturating_add(RESERVE_BYTES))
}

/// Gives the process's first thread, which calls this, as much: the system lets it grow as far as a limit that can be raised. Where
/// that is not allowed, recursion may use less.
pub fn fit_first_thread() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current: Some(now), maximum } = getrlimit(Resource::Stack) else { return };
    let wanted = THREAD_BYTES as u64;
    if now >= wanted {
        return;
    }
    let most = maximum.map_or(wanted, |most| most.min(wanted));
    let given = if setrlimit(Resource::Stack, Rlimit { current: Some(most), maximum }).is_ok() { most } else { now };
    allow(usize::try_from(given).unwrap_or(LIMIT_BYTES) / (THREAD_BYTES / LIMIT_BYTES));
}

thread_local! {
    static BASE: Cell<usize> = const { Cell::new(0) };
    static LIMIT: Cell<usize> = const { Cell::new(LIMIT_BYTES) };
    static DROPS: Cell<u32> = const { Cell::new(0) };
}

/// Whether the stack has grown by more than [`LIMIT_BYTES`], or what [`allow`] said, since the shallowest call of this function on this thread.
#[inline]
pub fn is_deep() -> bool {
    let marker = 0u8;
    // An address is only compared, never read through. The stack grows down on every target that we run on.
    let here = std::ptr::from_ref(&marker).addr();
    BASE.with(|base| {
        if here > base.get() {
            base.set(here);
        }
        base.get() - here > LIMIT.get()
    })
}

/// What recursion may use on this thread.
pub fn limit_bytes() -> usize {
    LIMIT.get()
}

/// Lets this thread, which was given more stack than usual, use more of it.
pub fn allow(bytes: usize) {
    LIMIT.set(bytes);
}

/// What this thread may use.
pub fn allowed_bytes() -> usize {
    LIMIT.get()
}

/// Runs `drop` one level deeper; false, without running it, if too many levels are open.
pub(super) fn nested_drop(drop: impl FnOnce()) -> bool {
    const LEVELS: u32 = 500;
    DROPS.with(|open| {
        if open.get() >= LEVELS {
            return false;
        }
        open.set(open.get() + 1);
        drop();
        if open.get() == 1 {
            super::shared::drop_deferred();
        }
        open.set(open.get() - 1);
        true
    })
}
