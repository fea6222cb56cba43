//! Items that stay where they are stored until they are first used.
//!
//! A slice is read where it is dereferenced, which cannot return an error. What cannot be read is reported with [`super::budget::lose`], and items
//! of the right number take its place: the caller that reads the report discards what was made of them.

use super::owned::Owned;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Where items are read from.
pub trait Source<T>: Send {
    /// Whether an earlier report has been read.
    fn is_ready(&self) -> bool {
        true
    }

    /// Returns the items of these rows; `None` if they cannot be read, which has been reported.
    fn rows(&mut self, rows: Range<usize>) -> Option<Vec<T>>;

    /// Returns the items of these rows, which ascend, as [`Source::rows`] does.
    fn picked(&mut self, rows: &[u32]) -> Option<Vec<T>>;

    /// Returns items in place of so many that could not be read.
    fn missing(&self, count: usize) -> Vec<T>;
}

/// Of a part that is smaller than the whole divided by this, no other item is read.
const PART: usize = 8;

/// Times that parts are read before all items are.
const MAX_PARTS: usize = 64;

/// Bytes of items that are read as a whole after [`MAX_PARTS`]; of more, parts always stay parts.
const MAX_PROMOTED_BYTES: usize = 256 << 20;

/// Some rows of stored items.
pub(super) struct Stored<T: 'static> {
    whole: Arc<Whole<T>>,
    rows: Range<usize>,
    /// These rows, if they were read without the others.
    own: OnceLock<Vec<T>>,
    /// In place of these rows, if they could not be read.
    missing: OnceLock<Vec<T>>,
}

struct Whole<T: 'static> {
    count: usize,
    /// Gone once all items are read.
    source: Mutex<Option<Box<dyn Source<T>>>>,
    items: OnceLock<Owned<T>>,
    /// How often a part was read.
    parts: AtomicUsize,
}

impl<T: 'static> Stored<T> {
    pub fn new(source: Box<dyn Source<T>>, count: usize) -> Stored<T> {
        let source = Mutex::new(Some(source));
        let whole = Whole { count, source, items: OnceLock::new(), parts: AtomicUsize::new(0) };
        Stored { whole: Arc::new(whole), rows: 0..count, own: OnceLock::new(), missing: OnceLock::new() }
    }

    /// A part of these rows, numbered from the first of them.
    pub fn cut(&self, rows: Range<usize>) -> Stored<T> {
        let rows = self.rows.start + rows.start..self.rows.start + rows.end;
        Stored { whole: Arc::clone(&self.whole), rows, own: OnceLock::new(), missing: OnceLock::new() }
    }

    /// Whether these rows would have to be read.
    pub fn is_unread(&self) -> bool {
        self.whole.items.get().is_none() && self.own.get().is_none()
    }

    fn read_before(&self) -> Option<&[T]> {
        match self.whole.items.get() {
            Some(all) => all.items.get(self.rows.clone()),
            None => self.own.get().map(Vec::as_slice),
        }
    }

    /// The items, which are read if they have not been before.
    pub fn items(&self) -> &[T] {
        if let Some(items) = self.read_before() {
            return items;
        }
        let mut source = self.whole.lock();
        let Some(reader) = source.as_mut() else { return self.read_before().unwrap_or_default() };
        // The report is still to be read, and what follows is discarded: a reader that looks at the limits would take it for its own.
        if !reader.is_ready() {
            return self.missing.get_or_init(|| reader.missing(self.rows.len()));
        }
        let is_part = self.whole.is_part(self.rows.len());
        let wanted = if is_part { self.rows.clone() } else { 0..self.whole.count };
        let items = reader.rows(wanted.clone()).filter(|items| items.len() == wanted.len());
        match items {
            Some(items) if is_part => self.own.get_or_init(|| items),
            Some(items) => {
                self.whole.items.get_or_init(|| items.into());
                *source = None;
                self.read_before().unwrap_or_default()
            }
            None => self.missing.get_or_init(|| reader.missing(self.rows.len())),
        }
    }

    /// The items of these rows, which ascend, where the others need not be read for them. `None` if they are better taken from [`Stored::items`].
    pub fn picked(&self, rows: &[u32]) -> Option<Vec<T>> {
        if !self.is_unread() || !rows.is_sorted() || rows.last().is_some_and(|last| *last as usize >= self.rows.len()) {
            return None;
        }
        let first = u32::try_from(self.rows.start).ok()?;
        let shifted = rows.iter().map(|row| row.checked_add(first)).collect::<Option<Vec<u32>>>()?;
        let mut source = self.whole.lock();
        let reader = source.as_mut()?;
        let items = if reader.is_ready() && self.whole.is_part(rows.len()) { reader.picked(&shifted) } else { None };
        items.filter(|items| items.len() == rows.len())
    }

    /// All stored items with what was built over them, if these rows are all of them.
    pub fn owned(&self) -> Option<&Owned<T>> {
        if self.rows.len() != self.whole.count {
            return None;
        }
        self.items();
        self.whole.items.get()
    }
}

impl<T: 'static> Whole<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Source<T>>>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether so many rows are read without the others; counts them if so.
    fn is_part(&self, rows: usize) -> bool {
        if rows >= self.count / PART {
            return false;
        }
        let is_large = self.count.saturating_mul(size_of::<T>()) > MAX_PROMOTED_BYTES;
        is_large || self.parts.fetch_add(1, Ordering::Relaxed) < MAX_PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::{self, Over};
    use super::super::shared::Shared;
    use super::*;

    /// First row, and row after the last one, of each read.
    type Reads = Arc<Mutex<Vec<(usize, usize)>>>;

    /// The squares of row numbers.
    struct Squares {
        reads: Reads,
        fails: bool,
    }

    impl Source<i64> for Squares {
        fn rows(&mut self, rows: Range<usize>) -> Option<Vec<i64>> {
            self.reads.lock().expect("unpoisoned").push((rows.start, rows.end));
            if self.fails {
                budget::lose(b"gone", "a reason".to_owned());
                return None;
            }
            Some(rows.map(|row| (row * row) as i64).collect())
        }

        fn picked(&mut self, rows: &[u32]) -> Option<Vec<i64>> {
            Some(rows.iter().map(|row| i64::from(*row) * i64::from(*row)).collect())
        }

        fn missing(&self, count: usize) -> Vec<i64> {
            vec![0; count]
        }
    }

    fn squares(count: usize, fails: bool) -> (Shared<i64>, Reads) {
        let reads = Reads::default();
        let source = Squares { reads: Arc::clone(&reads), fails };
        (Shared::stored(Box::new(source), count, 0), reads)
    }

    #[test]
    fn items_are_read_once_and_when_used() {
        let (items, reads) = squares(1000, false);
        let (other, half) = (items.clone(), items.cut(0..500));
        assert_eq!((items.len(), half.len(), items.is_unread()), (1000, 500, true));
        assert!(reads.lock().expect("unpoisoned").is_empty());
        assert_eq!((items[30], other[999], half[2]), (900, 998_001, 4));
        assert_eq!(*reads.lock().expect("unpoisoned"), [(0, 1000)]);
        assert!(!half.is_unread());
        assert_eq!(items.into_vec().len(), 1000);
    }

    #[test]
    fn small_parts_are_read_alone_until_there_are_many() {
        let (items, reads) = squares(1000, false);
        assert_eq!(&*items.cut(10..20).cut(1..3), &[121, 144]);
        assert_eq!(items.picked(&[3, 5]), Some(vec![9, 25]));
        assert_eq!((items.picked(&[5, 3]), items.picked(&[1000])), (None, None));
        assert_eq!(*reads.lock().expect("unpoisoned"), [(11, 13)]);
        for row in 0..100 {
            assert_eq!(items.cut(row..row + 1)[0], (row * row) as i64);
        }
        assert_eq!(reads.lock().expect("unpoisoned").len(), MAX_PARTS);
        assert!(!items.is_unread());
    }

    #[test]
    fn what_cannot_be_read_is_reported() {
        let (items, _) = squares(3, true);
        let before = budget::begin(None, None, u64::MAX >> 1);
        assert_eq!(&*items, &[0; 3]);
        assert_eq!(budget::take(), Some(Over::Lost));
        assert_eq!(budget::lost(), Some((b"gone".to_vec(), "a reason".to_owned())));
        assert_eq!(&*items.cut(1..2), &[0]);
        assert_eq!(budget::take(), Some(Over::Lost));
        budget::end(before);
    }

    #[test]
    fn changes_are_of_a_copy_and_an_index_stays() {
        let (mut items, _) = squares(4, false);
        assert_eq!(items.edit(|items| items.push(1)), None);
        assert_eq!(&*items.clone().followed_by(&[7]), &[0, 1, 4, 9, 7]);
        let mut put = items.clone();
        put.put([(1, 5)]);
        assert_eq!((&*put, &*items), (&[0, 5, 4, 9][..], &[0, 1, 4, 9][..]));
        let add = |_: &[i64], index: &mut Vec<u8>| {
            index.push(1);
            index.len()
        };
        assert_eq!((items.with_index(add), items.with_index(add)), (Some(1), Some(2)));
    }
}
