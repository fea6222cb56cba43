//! An account of heap memory by thread: what a query holds, known without asking the operating system; and the way back to it
//! for what is free.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    static BYTES: Cell<Held> = const { Cell::new(Held { now: 0, most: 0 }) };
    static SHOWN: Cell<Option<Shown>> = const { Cell::new(None) };
}

/// What a thread holds, and the most since [`start_peak`].
#[derive(Clone, Copy)]
struct Held {
    now: i64,
    most: i64,
}

/// Where a thread shows what it holds, and what it has shown so far.
#[derive(Clone, Copy)]
struct Shown {
    sum: &'static AtomicI64,
    since_bytes: i64,
    shown_bytes: i64,
}

/// A change is shown to other threads when it is as large as this.
const SHOW_STEP_BYTES: i64 = 256 << 10;

/// The system's allocator, counting what each thread takes minus what it gives back.
pub struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: i64) {
    // The cell needs no destructor; a thread that is ending simply stops being counted.
    let _ = BYTES.try_with(|b| {
        let held = b.get();
        let now = held.now.wrapping_add(bytes);
        b.set(Held { now, most: held.most.max(now) });
        let _ = SHOWN.try_with(|shown| {
            if let Some(mut there) = shown.get() {
                let change = now.wrapping_sub(there.since_bytes).wrapping_sub(there.shown_bytes);
                if change.abs() >= SHOW_STEP_BYTES {
                    there.sum.fetch_add(change, Ordering::Relaxed);
                    there.shown_bytes = there.shown_bytes.wrapping_add(change);
                    shown.set(Some(there));
                }
            }
        });
    });
}

/// Runs `work`, and meanwhile adds to `sum` what this thread holds more than before, in steps of 256 KiB. Afterwards none
/// of it is left in `sum`.
pub fn shown_in<R>(sum: &'static AtomicI64, work: impl FnOnce() -> R) -> R {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            if let Some(there) = SHOWN.take() {
                there.sum.fetch_sub(there.shown_bytes, Ordering::Relaxed);
            }
        }
    }
    SHOWN.set(Some(Shown { sum, since_bytes: thread_bytes(), shown_bytes: 0 }));
    let _clear = Clear;
    work()
}

/// The sum in which this thread shows what it holds, if it does so just now.
pub fn shown_sum() -> Option<&'static AtomicI64> {
    SHOWN.get().map(|there| there.sum)
}

/// Counts for this thread what another, which has ended, left to it.
pub fn take_over(bytes: i64) {
    count(bytes);
}

/// Bytes that this thread has allocated minus those that it has freed; negative where it freed another thread's.
pub fn thread_bytes() -> i64 {
    BYTES.try_with(|held| held.get().now).unwrap_or(0)
}

/// Begins to look for the most bytes that this thread holds: what it holds now.
pub fn start_peak() -> i64 {
    let now = thread_bytes();
    let _ = BYTES.try_with(|held| held.set(Held { now, most: now }));
    now
}

/// The most bytes that this thread has held since [`start_peak`].
pub fn peak_bytes() -> i64 {
    BYTES.try_with(|held| held.get().most).unwrap_or(0)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    // SAFETY: it may be called at any time, from any thread, with any number; it changes nothing that is allocated.
    unsafe extern "C" {
        pub safe fn malloc_trim(pad_bytes: usize) -> core::ffi::c_int;
    }
}

/// How much time is between two times that free memory is given back: meanwhile other threads wait for the allocator.
pub const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// When it was last done, by whichever thread.
static GIVEN_BACK: Mutex<Option<Instant>> = Mutex::new(None);

/// Gives pages of the heap on which nothing is allocated back to the operating system; the system's allocator keeps most of them
/// otherwise, to use them again. Takes milliseconds where there are many. False, and nothing is done, if it is being done just now
/// or was within [`GIVE_BACK_EVERY`].
pub fn give_back() -> bool {
    // The process's own memory: a simulated world's time has no part in it.
    let Ok(mut last) = GIVEN_BACK.try_lock() else { return false };
    if !is_due(*last, Instant::now()) {
        return false;
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    system::malloc_trim(0);
    *last = Some(Instant::now());
    true
}

fn is_due(last: Option<Instant>, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= GIVE_BACK_EVERY)
}

// SAFETY: every call is handed to the system's allocator unchanged; counting touches no allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::{GIVE_BACK_EVERY, is_due, shown_in, thread_bytes};
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn what_a_thread_holds_is_shown_while_it_works_and_not_after() {
        static SUM: AtomicI64 = AtomicI64::new(0);
        let (block, shown) = shown_in(&SUM, || {
            let block = vec![0u8; 10 << 20];
            (block, SUM.load(Ordering::Relaxed))
        });
        assert!(shown >= 10 << 20, "{shown}");
        assert_eq!((block.len(), SUM.load(Ordering::Relaxed)), (10 << 20, 0));
    }

    #[test]
    fn free_memory_is_given_back_at_once_and_then_only_now_and_then() {
        let last = Instant::now();
        let after = |time: Duration| is_due(Some(last), last + time);
        assert!(is_due(None, last));
        assert!(!after(Duration::ZERO) && !after(GIVE_BACK_EVERY - Duration::from_nanos(1)) && after(GIVE_BACK_EVERY));
    }

    #[test]
    fn what_is_given_back_is_no_longer_counted() {
        let before = thread_bytes();
        let block = vec![0u8; 1 << 20];
        assert!(thread_bytes() - before >= 1 << 20);
        drop(block);
        assert_eq!(thread_bytes(), before);
    }
}
