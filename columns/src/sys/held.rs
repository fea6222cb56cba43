//! Growing columns of items that own memory (values of a list column), in the same reserved ranges as plain columns.

use super::region::{Full, Range};
use super::shared::{Nests, Shared, depth_around};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// State that the writer of a column publishes to its readers.
#[derive(Debug, Default)]
struct Published {
    count: AtomicUsize,
    /// Nesting depth of a list of all items ever written.
    depth: AtomicU16,
}

/// A vector of owned items that grows only at its end, in place; see [`super::region::Growing`].
#[derive(Debug)]
pub struct GrowingHeld<T: Send + Sync + 'static> {
    range: Arc<Range>,
    published: Arc<Published>,
    written: usize,
    capacity: usize,
    items: PhantomData<T>,
}

impl<T: Nests + Send + Sync + 'static> GrowingHeld<T> {
    /// Reserves address space for `capacity` items; takes no memory yet.
    pub fn reserve(capacity: usize) -> io::Result<GrowingHeld<T>> {
        let bytes = capacity.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let range = Arc::new(Range::reserve_held::<T>(bytes)?);
        Ok(GrowingHeld { range, published: Arc::default(), written: 0, capacity, items: PhantomData })
    }

    /// Items written, published or not.
    pub fn len(&self) -> usize {
        self.written
    }

    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Bytes of the items themselves, without the memory that they own.
    pub fn used_bytes(&self) -> usize {
        self.written * size_of::<T>()
    }

    /// Writes one item behind the last one; readers see it after [`GrowingHeld::publish`].
    pub fn push(&mut self, item: T) -> Result<(), Full> {
        if self.written >= self.capacity {
            return Err(Full { capacity: self.capacity, wanted: 1 });
        }
        if T::MAY_NEST {
            self.published.depth.fetch_max(depth_around([&item]), Ordering::Relaxed);
        }
        // SAFETY: the slot lies inside the reservation (checked above), past every published and every live item; this
        // is the only writer. The range's base is page-aligned, so the slot is aligned.
        unsafe { self.range.base().cast::<T>().add(self.written).write(item) };
        self.written += 1;
        self.range.set_held(self.written);
        Ok(())
    }

    /// Makes all written items visible to readers.
    pub fn publish(&mut self) {
        self.published.count.store(self.written, Ordering::Release);
    }

    /// Drops the written items that are not published.
    pub fn rewind(&mut self) {
        let kept = self.published.count.load(Ordering::Relaxed);
        // Lower the count first: if a drop panics, items leak instead of being dropped twice.
        self.range.set_held(kept);
        while self.written > kept {
            self.written -= 1;
            // SAFETY: `push` wrote the item; it is not published, so no reader sees it, and it is no longer counted as
            // held, so it is dropped only here.
            unsafe { self.range.base().cast::<T>().add(self.written).drop_in_place() };
        }
    }

    /// Returns a reader of this column for other threads.
    pub fn reader(&self) -> HeldReader<T> {
        HeldReader { range: Arc::clone(&self.range), published: Arc::clone(&self.published), items: PhantomData }
    }
}

/// Read handle of a column of owned items.
#[derive(Debug)]
pub struct HeldReader<T: Send + Sync + 'static> {
    range: Arc<Range>,
    published: Arc<Published>,
    items: PhantomData<T>,
}

impl<T: Send + Sync + 'static> Clone for HeldReader<T> {
    fn clone(&self) -> HeldReader<T> {
        HeldReader { range: Arc::clone(&self.range), published: Arc::clone(&self.published), items: PhantomData }
    }
}

impl<T: Send + Sync + 'static> HeldReader<T> {
    /// Returns the first `count` items, or all published ones if they are fewer, as a slice that may outlive the column.
    pub fn first(&self, count: usize) -> Shared<T> {
        let count = count.min(self.published.count.load(Ordering::Acquire));
        Shared::held(Arc::clone(&self.range), count, self.published.depth.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::GrowingHeld;
    use std::sync::Arc;

    #[test]
    fn items_are_dropped_once_when_the_last_reader_lets_go() {
        let item = Arc::new(7);
        let mut column = GrowingHeld::reserve(10).expect("reserve");
        for _ in 0..3 {
            column.push(Arc::clone(&item)).expect("room");
        }
        column.publish();
        let slice = column.reader().first(3);
        drop(column);
        assert_eq!((slice.len(), Arc::strong_count(&item)), (3, 4));
        drop(slice);
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn a_rewind_drops_what_was_not_published() {
        let item = Arc::new(7);
        let mut column = GrowingHeld::reserve(10).expect("reserve");
        column.push(Arc::clone(&item)).expect("room");
        column.publish();
        column.push(Arc::clone(&item)).expect("room");
        column.rewind();
        assert_eq!((column.len(), Arc::strong_count(&item)), (1, 2));
        column.push(Arc::clone(&item)).expect("room");
        drop(column);
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn a_full_column_rejects_and_keeps_what_it_has() {
        let mut column = GrowingHeld::reserve(1).expect("reserve");
        column.push(String::from("a")).expect("room");
        assert!(column.push(String::from("b")).is_err());
        column.publish();
        assert_eq!(&*column.reader().first(9), &[String::from("a")]);
    }
}
