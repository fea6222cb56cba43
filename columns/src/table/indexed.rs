//! Changes of vectors in place: items found by an index that is kept with them, and items replaced.

use super::vector::Items;
use crate::kernel::index::Index;
use crate::sys::shared::{Nests, Shared};
use std::hash::Hash;

/// Position of each sought item, `None` for one that is not there.
pub type Found<E> = Result<Vec<Option<usize>>, E>;

fn found<T: Hash + Eq + Nests, E>(
    own: &mut Shared<T>,
    sought: &[T],
    room: impl FnMut(usize) -> Result<(), E>,
) -> Option<Found<E>> {
    let (items, index) = own.indexed::<Index>()?;
    Some(index.cover(items, room).map(|()| sought.iter().map(|item| index.find(items, item)).collect()))
}

/// Calls a function of two vectors of one type, without enumerated ones; `None` for others.
macro_rules! of_one_type {
    ($one:expr, $other:expr, $f:expr; $($variant:ident)*) => {
        match ($one, $other) {
            $((Items::$variant(own), Items::$variant(sought)) => $f(own, sought),)*
            _ => None,
        }
    };
}

impl Items {
    /// Whether all items differ. Makes an index over them, which [`Items::places`] uses. Returns `None` for floats, lists and parts of vectors.
    ///
    /// # Errors
    /// Those of `room`.
    pub fn are_unique<E>(&self, room: impl FnMut(usize) -> Result<(), E>) -> Option<Result<bool, E>> {
        fn unique<T: Hash + Eq + Nests, E>(
            own: &Shared<T>,
            room: impl FnMut(usize) -> Result<(), E>,
        ) -> Option<Result<bool, E>> {
            let covered = own.with_index(|items, index: &mut Index| {
                let made = index.cover(items, room);
                made.map(|()| index.covers(items).then(|| index.distinct() == items.len()))
            })?;
            covered.transpose()
        }
        of_one_type!(self, self, |own, _| unique(own, room);
            Guid Short Int Long Sym Timestamp Month Date Timespan Minute Second Time)
    }

    /// Positions of the items of `sought`, their number of items for those that are not there, by an index that grows with the items. Returns
    /// `None` for floats, lists and parts of vectors, if `sought` is of another type, at the first search of a few items, and unless `makes_index` if no
    /// index has been made.
    ///
    /// # Errors
    /// Those of `room`, which is called as in [`crate::kernel::keys::positions`].
    pub fn places<E>(
        &self,
        sought: &Items,
        makes_index: bool,
        room: impl FnMut(usize) -> Result<(), E>,
    ) -> Option<Result<Vec<i64>, E>> {
        fn places<T: Hash + Eq + Nests, E>(
            own: &Shared<T>,
            sought: &[T],
            makes_index: bool,
            room: impl FnMut(usize) -> Result<(), E>,
        ) -> Option<Result<Vec<i64>, E>> {
            let look = |items: &[T], index: &mut Index| {
                if !index.pays(sought.len(), items.len()) {
                    return None;
                }
                Some(index.cover(items, room).map(|()| {
                    sought.iter().map(|item| index.find(items, item).unwrap_or(items.len()) as i64).collect()
                }))
            };
            if makes_index { own.with_index(look)? } else { own.with_kept_index(look)? }
        }
        of_one_type!(self, sought, |own, sought| places(own, sought, makes_index, room);
            Guid Short Int Long Sym Timestamp Month Date Timespan Minute Second Time)
    }

    /// Finds items by an index that is made at the first call and kept while the items grow in place. Returns `None` if the items have other
    /// references or are part of a vector, if they are floats or lists, or if `sought` is of another type. `room` is called as in
    /// [`crate::kernel::keys::positions`].
    ///
    /// # Errors
    /// Those of `room`.
    pub fn find_indexed<E>(&mut self, sought: &Items, room: impl FnMut(usize) -> Result<(), E>) -> Option<Found<E>> {
        macro_rules! by_type {
            ($($variant:ident)*) => {
                match (self, sought) {
                    $((Items::$variant(own), Items::$variant(sought)) => found(own, sought, room),)*
                    (Items::Enum(a, own), Items::Enum(b, sought)) if a == b => found(own, sought, room),
                    (Items::Link(a, own), Items::Link(b, sought)) if a == b => found(own, sought, room),
                    _ => None,
                }
            };
        }
        by_type!(Bool Guid Byte Short Int Long Char Sym Timestamp Month Date Timespan Minute Second Time)
    }

    /// Replaces the item at each first position by that of `source` at the second one, in place if nothing else refers to the items, else
    /// in a copy. Both are of the same type, or these are a general list.
    pub fn put(&mut self, places: &[(usize, usize)], source: &Items) {
        fn put<T: Clone + Nests>(own: &mut Shared<T>, places: &[(usize, usize)], source: &[T]) {
            own.put(places.iter().filter_map(|(to, from)| Some((*to, source.get(*from)?.clone()))));
        }
        macro_rules! by_type {
            ($($variant:ident)*) => {
                match (&mut *self, source) {
                    $((Items::$variant(own), Items::$variant(source)) => put(own, places, source),)*
                    (Items::Enum(_, own), Items::Enum(_, source) | Items::Sym(source))
                    | (Items::Sym(own), Items::Enum(_, source)) => put(own, places, source),
                    (Items::Link(_, own), Items::Link(_, source)) => put(own, places, source),
                    (Items::List(own), source) => own.put(places.iter().map(|(to, from)| (*to, source.get(*from)))),
                    _ => {}
                }
            };
        }
        by_type!(Bool Guid Byte Short Int Long Real Float Char Sym Timestamp Month Date Datetime Timespan Minute Second Time);
        // As everywhere, a general list of atoms of one type is a simple vector.
        if let Items::List(own) = self
            && let Some(first) = own.first().filter(|first| first.is_atom())
            && own.iter().all(|item| item.type_number() == first.type_number())
            && let Ok(simple) = Items::collapse(own.to_vec())
        {
            *self = simple;
        }
    }
}
