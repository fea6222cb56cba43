//! An account of heap memory by thread: what a query holds, known without asking the operating system.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counting what each thread takes minus what it gives back.
pub struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: i64) {
    // The cell needs no destructor; a thread that is ending simply stops being counted.
    let _ = BYTES.try_with(|b| b.set(b.get().wrapping_add(bytes)));
}

/// Bytes that this thread has allocated minus those that it has freed; negative where it freed another thread's.
pub fn thread_bytes() -> i64 {
    BYTES.try_with(Cell::get).unwrap_or(0)
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
    use super::thread_bytes;

    #[test]
    fn what_is_given_back_is_no_longer_counted() {
        let before = thread_bytes();
        let block = vec![0u8; 1 << 20];
        assert!(thread_bytes() - before >= 1 << 20);
        drop(block);
        assert_eq!(thread_bytes(), before);
    }
}
