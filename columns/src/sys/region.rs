//! Address ranges that are reserved once and filled from the front: the storage of growing columns.
//!
//! A reservation costs address space, not memory: the kernel allocates a page when it is first written. A range never
//! moves, so published rows stay readable while the writer appends further ones.

use memmap2::{Advice, MmapOptions, MmapRaw};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Types for which every bit pattern is a value, so that mapped memory can be read as them.
///
/// # Safety
/// The implementor has no padding, no pointers and no invalid bit patterns, and an alignment of at most a page.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

macro_rules! pod {
    ($($t:ty),*) => { $(
        // SAFETY: plain integers, floats and byte arrays have no padding and no invalid bit patterns.
        unsafe impl Pod for $t {}
    )* };
}
pod!(u8, i8, i16, u32, i32, u64, i64, f32, f64, [u8; 16]);

/// One reserved range, unmapped when its last owner is dropped.
#[derive(Debug)]
pub(super) struct Range {
    map: MmapRaw,
    /// For items that own memory: number of live items at the front, and the function that drops them.
    held: AtomicUsize,
    drop_held: Option<unsafe fn(*mut u8, usize)>,
}

impl Range {
    fn reserve(bytes: usize) -> io::Result<Range> {
        let page = rustix::param::page_size();
        let reserved_bytes = bytes.max(1).checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = MmapOptions::new().len(reserved_bytes).no_reserve_swap().map_anon()?;
        Ok(Range { map: map.into(), held: AtomicUsize::new(0), drop_held: None })
    }

    /// Reserves a range for items that own memory. Dropping it drops the items counted by [`Range::set_held`].
    pub(super) fn reserve_held<T: Send + Sync + 'static>(bytes: usize) -> io::Result<Range> {
        /// # Safety
        /// `count` items of `T` live at `base`, and no reader can see them any more.
        unsafe fn drop_items<T>(base: *mut u8, count: usize) {
            // SAFETY: guaranteed by the caller.
            unsafe { std::ptr::slice_from_raw_parts_mut(base.cast::<T>(), count).drop_in_place() }
        }
        let mut range = Range::reserve(bytes)?;
        range.drop_held = Some(drop_items::<T>);
        Ok(range)
    }

    /// Sets the number of live items at the front.
    pub(super) fn set_held(&self, items: usize) {
        self.held.store(items, Ordering::Release);
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(drop_held) = self.drop_held {
            // SAFETY: the writer keeps `held` equal to the number of live items; the last owner of the range drops them.
            unsafe { drop_held(self.base(), *self.held.get_mut()) };
        }
    }
}

/// The reserved range is full; q's `'wsfull`.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("wsfull: a column of {capacity} items is full")]
pub struct Full {
    pub capacity: usize,
    /// Number of items in the rejected append.
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
    /// Reserves address space for `capacity` items; takes no memory yet.
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

    /// Bytes of the written items.
    pub fn used_bytes(&self) -> usize {
        self.written * size_of::<T>()
    }

    /// Writes items behind the last one; readers see them after [`Growing::publish`].
    pub fn extend(&mut self, items: &[T]) -> Result<(), Full> {
        if items.len() > self.capacity - self.written {
            return Err(Full { capacity: self.capacity, wanted: items.len() });
        }
        // SAFETY: the destination lies inside the reservation (checked above) and behind everything published; this is the
        // only writer (`&mut self`, not `Clone`), and readers' slices end at the published length, so nothing overlaps.
        unsafe {
            let end = self.range.base().cast::<T>().add(self.written);
            std::ptr::copy_nonoverlapping(items.as_ptr(), end, items.len());
        }
        self.written += items.len();
        Ok(())
    }

    /// Appends items given as bytes in native byte order at any alignment (column bytes of a message). Ignores bytes after the last whole item.
    pub fn extend_from_bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let count = bytes.len() / size_of::<T>();
        if count > self.capacity - self.written {
            return Err(Full { capacity: self.capacity, wanted: count });
        }
        // SAFETY: as in `extend`; `T` is `Pod`, so any bytes are valid items, and the copy is bytewise.
        unsafe {
            let end = self.range.base().cast::<T>().add(self.written).cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, count * size_of::<T>());
        }
        self.written += count;
        Ok(())
    }

    /// Writes one item behind the last one; readers see it after [`Growing::publish`].
    pub fn push(&mut self, item: T) -> Result<(), Full> {
        self.extend(std::slice::from_ref(&item))
    }

    /// Makes all written items visible to readers.
    pub fn publish(&mut self) {
        self.published.store(self.written, Ordering::Release);
    }

    /// Discards the written items that are not published.
    pub fn rewind(&mut self) {
        self.written = self.published.load(Ordering::Relaxed);
    }

    /// Returns a reader of this column for other threads.
    pub fn reader(&self) -> Reader<T> {
        Reader { range: Arc::clone(&self.range), published: Arc::clone(&self.published), items: PhantomData }
    }

    /// Removes all items. Readers keep theirs: the range is replaced, not truncated.
    pub fn clear(&mut self) -> io::Result<()> {
        *self = Growing::reserve(self.capacity)?;
        Ok(())
    }

    /// Advises the kernel to use huge pages, as the range fills from the front.
    pub fn advise_large_pages(&self) {
        // Advice only: where the kernel refuses, the column works with small pages.
        let _ = self.range.map.advise(Advice::HugePage);
    }
}

/// Read handle of a growing column.
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

    /// Returns the first `count` items, or all published ones if they are fewer, as a slice that may outlive the column.
    pub fn first(&self, count: usize) -> super::shared::Shared<T> {
        super::shared::Shared::mapped(Arc::clone(&self.range), count.min(self.published()))
    }
}
