//! How much stack the current thread has used: recursion over what peers send must end in an error, not in a crash.

use std::cell::Cell;

/// Stack that recursion may use below the shallowest frame that asked: half of what a thread of Rust gets.
pub const LIMIT_BYTES: usize = 1 << 20;

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
