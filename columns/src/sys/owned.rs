//! A vector whose holders see a fixed part of it, and to which one of them may append behind what all others see.
//!
//! A list that is appended to while older states of it are still referred to (`x:x,y`, `{x,y}/`, results of `x,:y` that are kept) is so copied
//! only each time its memory is full.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A vector, with what was built over its items.
pub(super) struct Owned<T> {
    items: UnsafeCell<Vec<T>>,
    /// Memory of the items, which stays the same while there are several holders.
    base: *const T,
    capacity: usize,
    /// Number of items, or [`LOCKED`].
    count: AtomicUsize,
    /// The items were copied to append to them: a copy that is made to append again leaves room for more.
    was_copied_to_append: bool,
    /// Hash index of the first items. Appends keep it; any other change discards it.
    pub(super) index: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

/// One holder is appending, or has panicked while it did.
const LOCKED: usize = usize::MAX;

// SAFETY: `base` points to memory that `items` owns. Several threads use `items` only in `append`, one at a time.
unsafe impl<T: Send> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Owned<T> {}

impl<T> From<Vec<T>> for Owned<T> {
    fn from(items: Vec<T>) -> Owned<T> {
        Owned {
            base: items.as_ptr(),
            capacity: items.capacity(),
            count: items.len().into(),
            was_copied_to_append: false,
            items: items.into(),
            index: Mutex::default(),
        }
    }
}

impl<T> Owned<T> {
    /// Whether these `len` items from `start` on are all.
    pub(super) fn is_whole(&self, start: *const T, len: usize) -> bool {
        start == self.base && self.count.load(Ordering::Acquire) == len
    }

    /// Addresses of the items, and of the room behind them.
    pub(super) fn memory(&self) -> Range<usize> {
        let start = self.base as usize;
        start..start.saturating_add(self.capacity.saturating_mul(size_of::<T>()))
    }

    /// Takes the only holder's items, the `len` from `start` on, as all: drops those behind them, which others had appended. Returns whether it
    /// has: not if they do not begin the vector, nor if most of its memory would be left unused.
    pub(super) fn keep_only(&mut self, start: *const T, len: usize) -> bool {
        let items = self.items.get_mut();
        if start != items.as_ptr() || len > items.len() || items.len() - len > len {
            return false;
        }
        if len < items.len() {
            items.truncate(len);
            self.index = Mutex::default();
        }
        self.note();
        true
    }

    /// Notes where the only holder's items are.
    fn note(&mut self) {
        let items = self.items.get_mut();
        (self.base, self.capacity) = (items.as_ptr(), items.capacity());
        *self.count.get_mut() = items.len();
    }

    /// Items of the only holder.
    pub(super) fn items(&mut self) -> &[T] {
        self.items.get_mut()
    }

    /// Changes the items of the only holder.
    pub(super) fn edit<R>(&mut self, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        // Stays if `change` panics.
        *self.count.get_mut() = LOCKED;
        let result = change(self.items.get_mut());
        self.note();
        result
    }

    pub(super) fn into_vec(self) -> Vec<T> {
        self.items.into_inner()
    }
}

impl<T: Clone> Owned<T> {
    /// Appends items behind `end`, the end of what a holder sees. Returns whether it has: not if others have appended there, nor if the memory is
    /// full.
    pub(super) fn append(&self, end: *const T, more: &[T]) -> bool {
        let Some(at) = (end as usize).wrapping_sub(self.base as usize).checked_div(size_of::<T>()) else {
            return false;
        };
        if self.capacity.checked_sub(at).is_none_or(|room| room < more.len()) {
            return false;
        }
        if self.count.compare_exchange(at, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // SAFETY: `LOCKED` keeps out other calls of this, and elsewhere only a sole holder changes `items`. `at` is the number of items and
        // there is room for `more` behind them, in memory that no holder sees yet. If a clone panics, the number stays, and so does `LOCKED`.
        unsafe {
            let items = self.items.get();
            let spare = (*items).as_mut_ptr().add(at);
            for (i, item) in more.iter().enumerate() {
                spare.add(i).write(item.clone());
            }
            (*items).set_len(at + more.len());
        }
        self.count.store(at + more.len(), Ordering::Release);
        true
    }

    /// Copies `items`, which are part of this vector, to append `more`.
    pub(super) fn copied_to_append(&self, items: &[T], more: &[T]) -> Owned<T> {
        let count = items.len().saturating_add(more.len());
        let room = if self.was_copied_to_append { count / 2 } else { 0 };
        let mut copy = Vec::with_capacity(count.saturating_add(room));
        copy.extend_from_slice(items);
        copy.extend_from_slice(more);
        Owned { was_copied_to_append: true, ..copy.into() }
    }
}

#[cfg(test)]
mod tests {
    use crate::sys::shared::Shared;
    use crate::table::{Items, Value};
    use std::sync::Arc;

    /// Returns the lists `[]`, `[0]`, `[0, 1]`, …, each made by appending to the one before, which stays in use.
    fn states(more: usize) -> Vec<Shared<i64>> {
        let mut states: Vec<Shared<i64>> = vec![vec![].into()];
        for i in 0..more {
            let last = states[i].clone();
            states.push(last.followed_by(&[i as i64]));
        }
        states
    }

    #[test]
    fn every_state_of_a_growing_list_stays_as_it_was() {
        for (count, state) in states(1000).iter().enumerate() {
            assert!(state.iter().copied().eq(0..count as i64));
        }
    }

    #[test]
    fn states_of_a_growing_list_share_memory() {
        let mut places: Vec<_> = states(1000).iter().map(|state| state.as_ptr()).collect();
        places.dedup();
        assert!(places.len() < 30, "{} copies", places.len());
    }

    #[test]
    fn two_continuations_of_one_state_are_apart() {
        let base = states(10).pop().expect("states");
        let (a, b) = (base.clone().followed_by(&[77]), base.clone().followed_by(&[88, 89]));
        assert_eq!((a[10], &b[10..], base.len()), (77, &[88, 89][..], 10));
        let again = a.clone().followed_by(&a);
        assert_eq!((again.len(), again[21], a.len()), (22, 77, 11));
    }

    #[test]
    fn what_others_appended_is_dropped_by_an_older_state() {
        let item = Arc::new(String::from("x"));
        let mut base: Shared<Arc<String>> = vec![Arc::clone(&item), Arc::clone(&item), Arc::clone(&item)].into();
        let copy = base.clone().followed_by(&[Arc::clone(&item)]);
        let longer = copy.clone().followed_by(&[Arc::clone(&item)]);
        assert_eq!((base.len(), copy.len(), longer.len()), (3, 4, 5));
        drop(longer);
        let mut copy = copy.followed_by(&[Arc::clone(&item), Arc::clone(&item)]);
        assert_eq!(copy.edit(|items| items.len()), Some(6));
        assert_eq!(base.edit(|items| items.len()), Some(3));
        assert_eq!(Arc::strong_count(&item), 1 + 3 + 6);
        assert_eq!(copy.into_vec().len(), 6);
        drop(base);
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn a_list_never_holds_itself() {
        let held = |list: &Shared<Value>| Value::Vector(Items::List(list.clone()).into());
        let mut list: Shared<Value> = vec![Value::Long(1), Value::Char(b'a')].into();
        // Growing beside an older state leaves room in the memory of the new one.
        for _ in 0..3 {
            list = list.clone().followed_by(&[Value::Long(2)]);
        }
        let around = list.clone().followed_by(&[held(&list)]);
        assert_ne!(around.as_ptr(), list.as_ptr(), "itself");
        let deeper = list.clone().followed_by(&[Value::list(vec![Value::Long(3), held(&list)])]);
        assert_ne!(deeper.as_ptr(), list.as_ptr(), "within another list");
        let dict = Value::dict(Value::symbols(vec![]), Value::list(vec![held(&list), Value::Long(1)]));
        assert_ne!(list.clone().followed_by(&[dict]).as_ptr(), list.as_ptr(), "within a dictionary");
        let row = Value::list(vec![Value::Long(3), Value::Char(b'b')]);
        assert_eq!(list.clone().followed_by(&[row]).as_ptr(), list.as_ptr(), "another list");
    }

    #[test]
    fn a_short_part_does_not_keep_the_memory_of_the_whole() {
        let whole: Shared<i64> = (0..1000).collect();
        let mut part = whole.cut(0..10);
        drop(whole);
        assert_eq!(part.edit(|items| items.len()), None);
        assert_eq!(part.followed_by(&[7]).len(), 11);
    }

    #[test]
    fn threads_append_to_one_state() {
        let base = states(100).pop().expect("states");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let base = base.clone();
                scope.spawn(move || {
                    for round in 0..500 {
                        let mut own = base.clone();
                        for i in 0..20 {
                            own = own.clone().followed_by(&[thread, round, i]);
                        }
                        assert!(own[..100].iter().copied().eq(0..100));
                        assert!(own[100..].chunks(3).zip(0..).all(|(part, i)| part == [thread, round, i]));
                    }
                });
            }
        });
    }

    #[test]
    fn a_clone_that_panics_leaves_the_items() {
        #[derive(Debug)]
        struct Bad(bool);
        impl Clone for Bad {
            fn clone(&self) -> Bad {
                assert!(!self.0, "no copy");
                Bad(self.0)
            }
        }
        impl crate::sys::shared::Nests for Bad {}
        let mut items: Shared<Bad> = vec![Bad(false)].into();
        for _ in 0..3 {
            items = items.clone().followed_by(&[Bad(false)]);
        }
        let other = items.clone();
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| items.followed_by(&[Bad(true)])));
        assert!(tried.is_err());
        assert_eq!((other.len(), other.clone().followed_by(&[Bad(false)]).len()), (4, 5));
    }
}
