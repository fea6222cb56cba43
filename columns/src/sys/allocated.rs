//! Heap accounting by thread: how much a query holds, without a system call. Also the allocator trim, which returns
//! free pages to the operating system.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    static BYTES: Cell<Held> = const { Cell::new(Held { now: 0, most: 0 }) };
    static SHOWN: Cell<Option<Shown>> = const { Cell::new(None) };
}

/// Bytes that a thread holds, and their peak since [`start_peak`].
#[derive(Clone, Copy)]
struct Held {
    now: i64,
    most: i64,
}

/// Shared sum to which a thread publishes its heap growth, and its contribution so far.
#[derive(Clone, Copy)]
struct Shown {
    sum: &'static AtomicI64,
    since_bytes: i64,
    shown_bytes: i64,
}

/// Smallest change that a thread publishes, so that few allocations touch the shared sum.
const SHOW_STEP_BYTES: i64 = 256 << 10;

/// The system allocator, with a count per thread of bytes allocated minus bytes freed.
pub struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: i64) {
    // The cells have no destructor to register; a thread that is ending stops being counted.
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

/// Runs `work` and meanwhile adds this thread's heap growth to `sum`, in steps of 256 KiB. Removes its contribution from `sum` afterwards.
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

/// Returns the sum to which this thread publishes its heap growth, inside [`shown_in`].
pub fn shown_sum() -> Option<&'static AtomicI64> {
    SHOWN.get().map(|there| there.sum)
}

/// Adds to this thread's count the bytes that a finished thread allocated and left to it.
pub fn take_over(bytes: i64) {
    count(bytes);
}

/// Returns the bytes that this thread has allocated minus those it has freed; negative if it freed memory of other threads.
pub fn thread_bytes() -> i64 {
    BYTES.try_with(|held| held.get().now).unwrap_or(0)
}

/// Restarts peak tracking of this thread. Returns the bytes that it holds now.
pub fn start_peak() -> i64 {
    let now = thread_bytes();
    let _ = BYTES.try_with(|held| held.set(Held { now, most: now }));
    now
}

/// Returns the peak of [`thread_bytes`] since [`start_peak`].
pub fn peak_bytes() -> i64 {
    BYTES.try_with(|held| held.get().most).unwrap_or(0)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    use core::ffi::{c_char, c_int, c_void};

    // SAFETY: `malloc_trim` may be called at any time, from any thread, with any argument; it changes no live allocation.
    unsafe extern "C" {
        pub safe fn malloc_trim(pad_bytes: usize) -> c_int;
    }

    // SAFETY: this is the declaration of POSIX.
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    /// glibc's `struct mallinfo2`, of ten `size_t`.
    #[repr(C)]
    struct MallInfo {
        before: [usize; 4],
        /// Bytes in blocks that have their own `mmap`.
        mapped_bytes: usize,
        between: [usize; 2],
        /// Bytes in all other allocated blocks, over all arenas.
        used_bytes: usize,
        after: [usize; 2],
    }

    /// Bytes that the process has allocated and not freed. `None` before glibc 2.33, which lacks `mallinfo2`.
    pub fn in_use_bytes() -> Option<usize> {
        // SAFETY: a null handle means all loaded libraries, and the name ends with a zero byte.
        let found = unsafe { dlsym(core::ptr::null_mut(), c"mallinfo2".as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: this is the type of glibc's `mallinfo2`, which may be called at any time, from any thread.
        let mallinfo2 = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> MallInfo>(found) };
        let info = mallinfo2();
        Some(info.used_bytes.saturating_add(info.mapped_bytes))
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn in_use_bytes() -> Option<usize> {
    system::in_use_bytes()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_use_bytes() -> Option<usize> {
    None
}

/// Returns the bytes that the process has allocated and not freed (before glibc 2.33, its resident bytes), and its peak of resident bytes.
/// [`thread_bytes`] cannot tell this: memory is often freed by another thread than the one that allocated it.
pub fn process_bytes() -> [i64; 2] {
    let used = in_use_bytes().map_or_else(super::memory::own_bytes, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    [used, super::memory::peak_bytes().max(used)]
}

/// Minimum time between two allocator trims: a trim blocks the allocator for other threads.
pub const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// Time of the last trim by any thread.
static GIVEN_BACK: Mutex<Option<Instant>> = Mutex::new(None);

/// Trims the allocator (`malloc_trim`): returns free heap pages to the operating system, most of which the allocator would keep for
/// reuse. Takes milliseconds if there are many. Returns false and does nothing if a trim is running, or ran within [`GIVE_BACK_EVERY`].
pub fn give_back() -> bool {
    // Real time, also in a simulated environment: the memory belongs to the process.
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

// SAFETY: every call goes to the system allocator unchanged; counting touches no allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is the system allocator's.
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
    use super::{GIVE_BACK_EVERY, is_due, process_bytes, shown_in, thread_bytes};
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn memory_of_a_thread_is_shown_only_while_it_works() {
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
    fn memory_of_the_process_counts_whichever_thread_frees_it() {
        let block = vec![0u8; 64 << 20];
        let [before, _] = process_bytes();
        std::thread::spawn(move || drop(block)).join().expect("no panic");
        let [after, peak] = process_bytes();
        assert!((32 << 20..96 << 20).contains(&(before - after)), "{before} {after}");
        assert!(peak >= after);
    }

    #[test]
    fn freed_memory_is_no_longer_counted() {
        let before = thread_bytes();
        let block = vec![0u8; 1 << 20];
        assert!(thread_bytes() - before >= 1 << 20);
        drop(block);
        assert_eq!(thread_bytes(), before);
    }
}
