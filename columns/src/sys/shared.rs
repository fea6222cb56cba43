//! Slices that are cheap to clone and to cut, over a vector or a mapped column.

use super::owned::Owned;
use super::region::{Pod, Range};
use super::stack;
use std::any::Any;
use std::cell::RefCell;
use std::mem::{needs_drop, replace};
use std::ops::{Deref, Range as Rows};
use std::sync::{Arc, Mutex, PoisonError};

/// Nesting depth of types that may hold others of their kind; 0 for those that do not nest.
pub trait Nests {
    /// Whether any value of the type nests.
    const MAY_NEST: bool = false;

    fn depth(&self) -> u16 {
        0
    }

    /// Whether the items of a list, without those within them, lie in this memory.
    fn lies_in(&self, _memory: &Rows<usize>) -> bool {
        false
    }
}

macro_rules! flat {
    ($($t:ty)*) => { $(impl Nests for $t {})* };
}
flat!(u8 i16 i32 i64 f32 f64 u32 [u8; 16] String);

impl<T: Nests> Nests for Arc<T> {
    const MAY_NEST: bool = T::MAY_NEST;

    fn depth(&self) -> u16 {
        self.as_ref().depth()
    }
}

/// Returns the nesting depth of a container of these items.
pub fn depth_around<'a, T: Nests + 'a>(items: impl IntoIterator<Item = &'a T>) -> u16 {
    if T::MAY_NEST { items.into_iter().map(Nests::depth).max().unwrap_or(0).saturating_add(1) } else { 0 }
}

/// Reference-counted value, with its nesting depth computed once.
#[derive(Debug)]
pub struct Held<T>(Arc<Deep<T>>);

#[derive(Debug)]
struct Deep<T> {
    depth: u16,
    value: T,
}

impl<T: Nests> Held<T> {
    pub fn new(value: T) -> Held<T> {
        Held(Arc::new(Deep { depth: value.depth(), value }))
    }
}

impl<T> Held<T> {
    pub fn depth(&self) -> u16 {
        self.0.depth
    }

    /// Reference count.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Returns whether both share one allocation.
    pub fn ptr_eq(&self, other: &Held<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: Nests> Held<T> {
    /// Edits the value in place. Returns `None`, without calling `change`, if it is shared.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let deep = Arc::get_mut(&mut self.0)?;
        let result = change(&mut deep.value);
        deep.depth = deep.value.depth();
        Some(result)
    }
}

impl<T: Nests> From<T> for Held<T> {
    fn from(value: T) -> Held<T> {
        Held::new(value)
    }
}

impl<T: Clone> Held<T> {
    /// Returns the value: without a copy if this is the only reference, else a clone.
    pub fn into_value(self) -> T {
        Arc::try_unwrap(self.0).map_or_else(|held| held.value.clone(), |deep| deep.value)
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Held<T> {
        Held(Arc::clone(&self.0))
    }
}

impl<T> Deref for Held<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// An immutable slice that shares ownership of its memory.
pub struct Shared<T: 'static> {
    owner: Owner<T>,
    start: *const T,
    len: usize,
}

/// Owner of the memory, with the nesting depth of the slice: reading the depth must not visit the items.
enum Owner<T> {
    Vector(Arc<Owned<T>>, u16),
    Mapped(Arc<Range>, u16),
    /// Moved out by `drop` or `into_vec`.
    Gone,
}

thread_local! {
    /// Items nested too deep to be dropped recursively, to be dropped by [`drop_deferred`].
    static DEFERRED: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// A query may nest lists to any depth; dropping one must not recurse as deep.
impl<T: 'static> Drop for Shared<T> {
    fn drop(&mut self) {
        if !needs_drop::<T>() {
            return;
        }
        let owner = replace(&mut self.owner, Owner::Gone);
        let Owner::Vector(items, _) = owner else { return };
        let mut items = Arc::into_inner(items);
        if items.is_none() || stack::nested_drop(|| drop(items.take())) {
            return;
        }
        let _ = DEFERRED.try_with(|deferred| deferred.borrow_mut().push(Box::new(items)));
    }
}

/// Drops the deferred items, once the drop of the outermost list is done.
pub(super) fn drop_deferred() {
    while let Ok(Some(next)) = DEFERRED.try_with(|deferred| deferred.borrow_mut().pop()) {
        drop(next);
    }
}

// SAFETY: `start` points into `owner`, which is shared and never written where a `Shared` can see it; sending or
// sharing the slice is sending or sharing `&[T]` together with an `Arc`.
unsafe impl<T: Send + Sync + 'static> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + 'static> Sync for Shared<T> {}

impl<T: 'static> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        let owner = match &self.owner {
            Owner::Vector(v, depth) => Owner::Vector(Arc::clone(v), *depth),
            Owner::Mapped(r, depth) => Owner::Mapped(Arc::clone(r), *depth),
            Owner::Gone => Owner::Gone,
        };
        Shared { owner, start: self.start, len: self.len }
    }
}

impl<T: 'static> Deref for Shared<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `start..start+len` lies in memory that `owner` keeps alive, initialised, and unchanged while shared.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl<T: Nests + 'static> From<Vec<T>> for Shared<T> {
    fn from(items: Vec<T>) -> Shared<T> {
        let depth = depth_around(&items);
        Shared::of_depth(items, depth)
    }
}

impl<T: Nests + 'static> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Shared<T> {
        items.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T: Nests + 'static> Default for Shared<T> {
    fn default() -> Shared<T> {
        Vec::new().into()
    }
}

impl<T: std::fmt::Debug + 'static> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: PartialEq + 'static> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        **self == **other
    }
}

impl<T: 'static> Shared<T> {
    /// Makes a slice of items whose nesting depth the caller knows.
    pub fn of_depth(items: Vec<T>, depth: u16) -> Shared<T> {
        let (start, len) = (items.as_ptr(), items.len());
        Shared { start, len, owner: Owner::Vector(Arc::new(items.into()), depth) }
    }

    /// Nesting depth of this slice, or of the one it was cut from: 0 if the items cannot nest, else one more than the deepest item.
    pub fn depth(&self) -> u16 {
        match &self.owner {
            Owner::Vector(_, depth) | Owner::Mapped(_, depth) => *depth,
            Owner::Gone => 0,
        }
    }

    /// Reference count of the underlying memory.
    pub fn holders(&self) -> usize {
        match &self.owner {
            Owner::Vector(items, _) => Arc::strong_count(items),
            Owner::Mapped(range, _) => Arc::strong_count(range),
            Owner::Gone => 0,
        }
    }

    /// Returns the items of `rows`, without a copy. Clips rows past the end.
    pub fn cut(&self, rows: Rows<usize>) -> Shared<T> {
        let from = rows.start.min(self.len);
        let mut part = self.clone();
        // SAFETY: `from <= len`, so the pointer stays inside, or one past, the same items.
        part.start = unsafe { part.start.add(from) };
        part.len = rows.end.clamp(from, self.len) - from;
        part
    }
}

impl<T: Nests + 'static> Shared<T> {
    /// Edits the items in place. Returns `None`, without calling `change`, if the vector is shared, the slice is only part of it, or the
    /// items lie in a mapped column.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut Vec<T>) -> R) -> Option<R> {
        let Owner::Vector(owned, depth) = &mut self.owner else { return None };
        let owned = sole(owned, self.start, self.len)?;
        owned.index = Mutex::default();
        // If `change` panics, no half-edited items are visible.
        self.len = 0;
        let result = owned.edit(change);
        *depth = depth_around(owned.items());
        self.start = owned.items().as_ptr();
        self.len = owned.items().len();
        Some(result)
    }

    /// Edits one item in place. Returns `None`, without calling `change`, where [`Shared::edit`] does, or if there is no such item. The depth
    /// becomes an upper bound: the depth of the other items is not recomputed.
    pub fn edit_item<R>(&mut self, at: usize, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let Owner::Vector(owned, depth) = &mut self.owner else { return None };
        let owned = sole(owned, self.start, self.len)?;
        if at >= self.len {
            return None;
        }
        owned.index = Mutex::default();
        owned.edit(|items| {
            let item = items.get_mut(at)?;
            let result = change(item);
            *depth = (*depth).max(depth_around([&*item]));
            Some(result)
        })
    }

    /// The items, and the index of type `I` over them, which starts empty and stays with them while they grow. Returns `None` if the vector
    /// is shared, the slice is only part of it, or the items lie in a mapped column.
    pub fn indexed<I: Any + Default + Send + Sync>(&mut self) -> Option<(&[T], &mut I)> {
        let Owner::Vector(owned, _) = &mut self.owner else { return None };
        let owned = sole(owned, self.start, self.len)?;
        let index = owned.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !index.as_ref().is_some_and(|index| index.is::<I>()) {
            *index = Some(Box::<I>::default());
        }
        // SAFETY: as in `deref`.
        let items = unsafe { std::slice::from_raw_parts(self.start, self.len) };
        Some((items, index.as_mut()?.downcast_mut()?))
    }

    /// As [`Shared::indexed`], for a vector that may be shared. Returns `None` also while another thread uses the index.
    pub fn with_index<I: Any + Default + Send + Sync, R>(&self, look: impl FnOnce(&[T], &mut I) -> R) -> Option<R> {
        let Owner::Vector(owned, _) = &self.owner else { return None };
        let mut index = owned.index.try_lock().ok().filter(|_| owned.is_whole(self.start, self.len))?;
        if !index.as_ref().is_some_and(|index| index.is::<I>()) {
            *index = Some(Box::<I>::default());
        }
        Some(look(self, index.as_mut()?.downcast_mut()?))
    }

    /// As [`Shared::with_index`], but makes no index: returns `None` if none of type `I` has been made.
    pub fn with_kept_index<I: Any, R>(&self, look: impl FnOnce(&[T], &mut I) -> R) -> Option<R> {
        let Owner::Vector(owned, _) = &self.owner else { return None };
        let mut index = owned.index.try_lock().ok().filter(|_| owned.is_whole(self.start, self.len))?;
        Some(look(self, index.as_mut()?.downcast_mut()?))
    }
}

/// The vector of a slice's only holder, which begins at `start` and has `len` items; `None` if there are others, or if the slice is only part
/// of it.
fn sole<T>(owned: &mut Arc<Owned<T>>, start: *const T, len: usize) -> Option<&mut Owned<T>> {
    let owned = Arc::get_mut(owned)?;
    owned.keep_only(start, len).then_some(owned)
}

impl<T: Clone + 'static> Shared<T> {
    /// Returns the items as a vector: without a copy if this is the only reference to a whole vector, else a clone.
    pub fn into_vec(mut self) -> Vec<T> {
        let (start, len) = (self.start, self.len);
        let sole = match &mut self.owner {
            Owner::Vector(owned, _) => sole(owned, start, len).is_some(),
            _ => false,
        };
        match replace(&mut self.owner, Owner::Gone) {
            Owner::Vector(owned, _) if sole => Arc::into_inner(owned).map_or_else(Vec::new, Owned::into_vec),
            owner => {
                self.owner = owner;
                self.to_vec()
            }
        }
    }
}

impl<T: Clone + Nests + 'static> Shared<T> {
    /// Replaces items by position, in place if this is the only reference to a whole vector, else in a copy. Positions past the end are
    /// ignored. The depth becomes an upper bound: the depth of the other items is not recomputed.
    pub fn put(&mut self, changes: impl IntoIterator<Item = (usize, T)>) {
        let mut depth = self.depth();
        let mut items = replace(self, Vec::new().into()).into_vec();
        for (at, item) in changes {
            depth = depth.max(depth_around([&item]));
            if let Some(slot) = items.get_mut(at) {
                *slot = item;
            }
        }
        *self = Shared::of_depth(items, depth);
    }

    /// Returns these items followed by `more`, without visiting the existing items for their depth. Appends in place if nothing else refers to
    /// the vector, or if its memory has room behind the last item and nobody has appended there yet.
    pub fn followed_by(mut self, more: &[T]) -> Shared<T> {
        let depth = self.depth().max(depth_around(more));
        let Owner::Vector(owned, own_depth) = &mut self.owner else {
            return Shared::of_depth([&self, more].concat(), depth);
        };
        if let Some(owned) = sole(owned, self.start, self.len) {
            // If a clone panics, no half-appended items are visible.
            self.len = 0;
            owned.edit(|items| items.extend_from_slice(more));
            *own_depth = depth;
            self.start = owned.items().as_ptr();
            self.len = owned.items().len();
            return self;
        }
        // SAFETY: one past the last item of the slice.
        let end = unsafe { self.start.add(self.len) };
        // A vector that holds itself would never be freed. An item that holds no list but simple ones can only be that vector itself.
        let memory = owned.memory();
        let is_apart = |item: &T| item.depth() == 0 || item.depth() == 1 && !item.lies_in(&memory);
        if more.iter().all(is_apart) && owned.append(end, more) {
            *own_depth = depth;
            self.len += more.len();
            return self;
        }
        // SAFETY: as in `deref`.
        let items = unsafe { std::slice::from_raw_parts(self.start, self.len) };
        let mut copy = owned.copied_to_append(items, more);
        let (start, len) = (copy.items().as_ptr(), copy.items().len());
        Shared { start, len, owner: Owner::Vector(Arc::new(copy), depth) }
    }
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Makes a slice of the first `len` items of a range of owned items; the caller (`HeldReader`) has seen them published.
    pub(super) fn held(range: Arc<Range>, len: usize, depth: u16) -> Shared<T> {
        Shared { start: range.base().cast(), len, owner: Owner::Mapped(range, depth) }
    }
}

impl<T: Pod> Shared<T> {
    /// Makes a slice of the first `len` items of a mapped range; the caller (`Reader`) has seen them published.
    pub(super) fn mapped(range: Arc<Range>, len: usize) -> Shared<T> {
        Shared { start: range.base().cast(), len, owner: Owner::Mapped(range, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region::Growing;
    use super::Shared;

    #[test]
    fn a_cut_shares_its_items() {
        let whole: Shared<i64> = vec![1, 2, 3, 4].into();
        let part = whole.cut(1..3);
        assert_eq!(&*part, &[2, 3]);
        assert_eq!(part.as_ptr(), whole[1..].as_ptr());
    }

    #[test]
    fn a_cut_past_the_end_is_cut_off() {
        let whole: Shared<i64> = vec![1, 2].into();
        assert_eq!(&*whole.cut(1..9), &[2]);
        assert!(whole.cut(5..9).is_empty());
    }

    #[test]
    fn sole_owner_gets_its_vector_back_without_a_copy() {
        let items = vec![1i64, 2, 3];
        let at = items.as_ptr();
        let back = Shared::from(items).into_vec();
        assert_eq!(back.as_ptr(), at);
    }

    #[test]
    fn a_sole_owner_edits_in_place_and_others_do_not() {
        let mut items: Shared<i64> = vec![1i64, 2, 3].into();
        let at = items.as_ptr();
        assert_eq!(items.edit(|v| v[1] = 9), Some(()));
        assert_eq!((&*items, items.as_ptr()), (&[1, 9, 3][..], at));
        assert_eq!(items.edit(|v| v.extend(0..100)), Some(()));
        assert_eq!((items.len(), items[102]), (103, 99));
        let other = items.clone();
        assert_eq!(items.edit(|v| v.clear()), None);
        assert_eq!(other.len(), 103);
        assert_eq!(items.cut(0..2).edit(|v| v.clear()), None);
    }

    #[test]
    fn an_index_stays_while_the_items_grow_and_no_longer() {
        let mut items: Shared<i64> = vec![1, 2].into();
        let index =
            |items: &mut Shared<i64>| items.indexed::<Vec<usize>>().map(|(_, index)| std::mem::replace(index, vec![7]));
        assert_eq!(index(&mut items), Some(vec![]));
        let mut grown = items.followed_by(&[3]);
        assert_eq!(index(&mut grown), Some(vec![7]));
        let other = grown.clone();
        assert_eq!(index(&mut grown), None, "another reference");
        let mut longer = grown.followed_by(&[4]);
        assert_eq!((index(&mut longer), other.len()), (None, 3), "another reference to the same memory");
        drop(other);
        assert_eq!(index(&mut longer), Some(vec![7]));
        longer.edit(|v| v[0] = 9);
        assert_eq!(index(&mut longer), Some(vec![]), "an item has changed");
        assert_eq!(index(&mut longer.cut(0..2)), None, "a part");
    }

    #[test]
    fn readers_keep_their_rows_while_the_column_grows_and_clears() {
        let mut column = Growing::<i64>::reserve(1000).expect("reserve");
        let reader = column.reader();
        column.extend(&[1, 2, 3]).expect("room");
        assert_eq!(reader.published(), 0);
        column.publish();
        let seen = reader.first(10);
        column.extend(&[4; 900]).expect("room");
        column.publish();
        assert_eq!(&*seen, &[1, 2, 3]);
        assert_eq!(reader.first(usize::MAX).len(), 903);
        assert!(column.extend(&[5; 98]).is_err());
        column.clear().expect("reserve");
        assert_eq!(&*seen, &[1, 2, 3]);
        assert!(column.is_empty());
    }

    #[test]
    fn bytes_are_appended_at_any_alignment() {
        let mut column = Growing::<i32>::reserve(8).expect("reserve");
        let bytes = [0xffu8, 1, 0, 0, 0, 2, 0, 0, 0];
        column.extend_from_bytes(&bytes[1..]).expect("room");
        column.publish();
        assert_eq!(&*column.reader().first(8), &[1, 2]);
    }
}
