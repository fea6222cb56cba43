//! Address ranges that are reserved once and filled from the front: the ground that columns stand on.
//!
//! A reservation costs address space, not memory; pages are paid for when they are first written. Because it never
//! moves, rows already published can be read while further ones are written behind them.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Types whose every bit pattern is a value, so that mapped memory can be read as them.
///
/// # Safety
/// An implementor has no padding, no pointers and no invalid bit patterns, and an alignment of at most a page.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

macro_rules! pod {
    ($($t:ty),*) => { $(
        // SAFETY: plain integers, floats and byte arrays have no padding and no invalid bit patterns.
        unsafe impl Pod for $t {}
    )* };
}
pod!(u8, i8, i16, u32, i32, u64, i64, f32, f64, [u8; 16]);

/// One reserved range, given back when the last reader lets go.
#[derive(Debug)]
pub(super) struct Range {
    base: *mut u8,
    reserved_bytes: usize,
    /// For items that own memory: how many live at the front, and how to drop them.
    held: AtomicUsize,
    drop_held: Option<unsafe fn(*mut u8, usize)>,
}

// SAFETY: the range is plain memory; `Growing` settles who may write where, readers see published rows only.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

impl Range {
    fn reserve(bytes: usize) -> io::Result<Range> {
        let page = rustix::param::page_size();
        let reserved_bytes = bytes.max(1).checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nobody's memory.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), reserved_bytes, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        Ok(Range { base: base.cast(), reserved_bytes, held: AtomicUsize::new(0), drop_held: None })
    }

    /// A range for items that own memory; those counted by [`Range::set_held`] are dropped with it.
    pub(super) fn reserve_held<T: Send + Sync + 'static>(bytes: usize) -> io::Result<Range> {
        /// # Safety
        /// `count` items of `T` live at `base` and nobody can see them any more.
        unsafe fn drop_items<T>(base: *mut u8, count: usize) {
            // SAFETY: as the caller promises.
            unsafe { std::ptr::slice_from_raw_parts_mut(base.cast::<T>(), count).drop_in_place() }
        }
        let mut range = Range::reserve(bytes)?;
        range.drop_held = Some(drop_items::<T>);
        Ok(range)
    }

    /// How many items at the front live.
    pub(super) fn set_held(&self, items: usize) {
        self.held.store(items, Ordering::Release);
    }

    pub(super) fn base(&self) -> *const u8 {
        self.base
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(drop_held) = self.drop_held {
            // SAFETY: the writer keeps `held` equal to the items that live; the last owner of the range drops them.
            unsafe { drop_held(self.base, *self.held.get_mut()) };
        }
        // SAFETY: made by `reserve` with this size; a slice of it holds an `Arc`, so none is left.
        let _ = unsafe { munmap(self.base.cast(), self.reserved_bytes) };
    }
}

/// No room is left in the reserved range: q's `'wsfull`.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("wsfull: a column of {capacity} items is full")]
pub struct Full {
    pub capacity: usize,
    /// Items that were to be appended at once.
    pub wanted: usize,
}

/// A vector that grows only at its end, in place, with one writer and any number of readers.
///
/// Items are written behind the published length; [`Growing::publish`] makes them visible. A slice taken by a
/// [`Reader`] covers published items only and stays valid whatever the writer does later.
#[derive(Debug)]
pub struct Growing<T: Pod> {
    range: Arc<Range>,
    published: Arc<AtomicUsize>,
    written: usize,
    capacity: usize,
    items: PhantomData<T>,
}

impl<T: Pod> Growing<T> {
    /// Reserves room for `capacity` items. Costs address space only.
    pub fn reserve(capacity: usize) -> io::Result<Growing<T>> {
        let bytes = capacity.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let range = Arc::new(Range::reserve(bytes)?);
        Ok(Growing { range, published: Arc::new(AtomicUsize::new(0)), written: 0, capacity, items: PhantomData })
    }

    /// Items written, published or not.
    pub fn len(&self) -> usize {
        self.written
    }

    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Bytes that the written items take.
    pub fn used_bytes(&self) -> usize {
        self.written * size_of::<T>()
    }

    /// Writes items behind the last one; invisible to readers until published.
    pub fn extend(&mut self, items: &[T]) -> Result<(), Full> {
        if items.len() > self.capacity - self.written {
            return Err(Full { capacity: self.capacity, wanted: items.len() });
        }
        // SAFETY: the destination lies inside the reservation (checked above) and behind everything published; this is
        // the only writer (`&mut self`, not `Clone`), and readers' slices end at the published length, so nothing
        // overlaps.
        unsafe {
            let end = self.range.base.cast::<T>().add(self.written);
            std::ptr::copy_nonoverlapping(items.as_ptr(), end, items.len());
        }
        self.written += items.len();
        Ok(())
    }

    /// Appends items given as bytes in this machine's order at any alignment (column bytes as they arrive). Bytes after
    /// the last whole item are not taken.
    pub fn extend_from_bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let count = bytes.len() / size_of::<T>();
        if count > self.capacity - self.written {
            return Err(Full { capacity: self.capacity, wanted: count });
        }
        // SAFETY: as in `extend`; `T` is `Pod`, so any bytes are valid items, and the copy is bytewise.
        unsafe {
            let end = self.range.base.cast::<T>().add(self.written).cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, count * size_of::<T>());
        }
        self.written += count;
        Ok(())
    }

    pub fn push(&mut self, item: T) -> Result<(), Full> {
        self.extend(std::slice::from_ref(&item))
    }

    /// Makes all written items visible to readers.
    pub fn publish(&mut self) {
        self.published.store(self.written, Ordering::Release);
    }

    /// Takes back what was written but not published.
    pub fn rewind(&mut self) {
        self.written = self.published.load(Ordering::Relaxed);
    }

    /// What other threads may hold of this column.
    pub fn reader(&self) -> Reader<T> {
        Reader { range: Arc::clone(&self.range), published: Arc::clone(&self.published), items: PhantomData }
    }

    /// Forgets all items. Readers keep what they hold: the range is replaced, not cut.
    pub fn clear(&mut self) -> io::Result<()> {
        *self = Growing::reserve(self.capacity)?;
        Ok(())
    }

    /// Tells the kernel that the range fills from the front, so that it may use large pages.
    pub fn advise_large_pages(&self) {
        // SAFETY: advice on our own mapping does not change its content.
        let _ = unsafe { madvise(self.range.base.cast(), self.range.reserved_bytes, Advice::LinuxHugepage) };
    }
}

/// A reading end of a growing column.
#[derive(Debug, Clone)]
pub struct Reader<T: Pod> {
    range: Arc<Range>,
    published: Arc<AtomicUsize>,
    items: PhantomData<T>,
}

impl<T: Pod> Reader<T> {
    /// Items published so far.
    pub fn published(&self) -> usize {
        self.published.load(Ordering::Acquire)
    }

    /// The first `count` items (or as many as are published), as a slice that outlives the column.
    pub fn first(&self, count: usize) -> super::shared::Shared<T> {
        super::shared::Shared::mapped(Arc::clone(&self.range), count.min(self.published()))
    }
}
