//! Stack use of the current thread: deep recursion over a peer's input must end in an error, not in a crash.

use std::cell::Cell;

/// Stack that checked recursion may use, below the shallowest frame that called [`is_deep`].
pub const LIMIT_BYTES: usize = 1 << 20;

/// Stack size of every thread that this program starts, and of its main thread. Untouched pages cost nothing. The part beyond
/// [`LIMIT_BYTES`] serves recursion without checks, over values and syntax of bounded depth: copying, dropping, printing.
pub const THREAD_BYTES: usize = 8 << 20;

/// Stack beyond the part for checked recursion.
const RESERVE_BYTES: usize = THREAD_BYTES - LIMIT_BYTES;

/// Returns a builder of a thread with a stack of [`THREAD_BYTES`]. The program starts all its threads this way.
pub fn thread(name: String) -> std::thread::Builder {
    std::thread::Builder::new().name(name).stack_size(THREAD_BYTES)
}

/// As [`thread`], with `bytes` of stack for checked recursion; the thread itself then calls [`allow`].
pub fn thread_that_allows(name: String, bytes: usize) -> std::thread::Builder {
    std::thread::Builder::new().name(name).stack_size(bytes.saturating_add(RESERVE_BYTES))
}

/// Gives the main thread, which must call this, a stack of [`THREAD_BYTES`]: raises the soft limit up to which the
/// kernel grows it. If that fails or the hard limit is lower, checked recursion may use proportionally less.
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

/// Returns whether the stack has grown, since the shallowest call of this function on this thread, by more than
/// [`LIMIT_BYTES`] or the limit set by [`allow`].
#[inline]
pub fn is_deep() -> bool {
    let marker = 0u8;
    // The address is only compared, never dereferenced. The stack grows down on every supported target.
    let here = std::ptr::from_ref(&marker).addr();
    BASE.with(|base| {
        if here > base.get() {
            base.set(here);
        }
        base.get() - here > LIMIT.get()
    })
}

/// Returns the stack that checked recursion may use on this thread.
pub fn limit_bytes() -> usize {
    LIMIT.get()
}

/// Sets the stack that checked recursion may use on this thread, which was started with more than usual.
pub fn allow(bytes: usize) {
    LIMIT.set(bytes);
}

/// Runs `drop` one level deeper. Returns false, without running it, if too many levels are open.
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
