//! Hash index over the rows of growing columns: the keys of a keyed table with several of them.

use super::indexed::Found;
use super::vector::{Raw, Vector};
use crate::kernel::index::STATE;
use crate::kernel::keys::float_bits as bits;
use crate::sys::budget::{self, BLOCK};
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Positions of rows by their hash: the first of equal ones. It is kept with the items of the first column, and a [`Mark`] with those of
/// each other one, which go when the items change other than by growing.
#[derive(Debug, Default)]
struct RowIndex {
    positions: HashTable<(u64, u32)>,
    /// Rows at the start of the columns that are in the index.
    covered: usize,
    /// Number of the index, from 1.
    number: u64,
    /// Number of columns.
    width: usize,
}

/// The number of the index that covers a column, 0 for none, and the column's place among those of the index.
#[derive(Debug, Default)]
struct Mark {
    number: u64,
    place: usize,
}

impl Mark {
    fn is(&self, number: u64, place: usize) -> bool {
        self.number == number && self.place == place
    }
}

static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Bytes of an entry and its control byte, at the load factor at which the table grows.
const ENTRY_BYTES: usize = 20;

/// Returns the row of `own` that is equal to each row of `sought`, by an index that is made at the first call and kept while the columns grow in place.
/// Returns `None` if a column has other references or is part of a vector, holds lists, or is sought by another type. `room` is called
/// as in [`crate::kernel::keys::positions`].
///
/// # Errors
/// Those of `room`.
pub fn find_rows<E>(
    own: &mut [Vector],
    sought: &[Vector],
    mut room: impl FnMut(usize) -> Result<(), E>,
) -> Option<Found<E>> {
    let (count, wanted_count) = counts(own, sought)?;
    let width = own.len();
    let (first, others) = own.split_first_mut()?;
    let index = first.items.kept::<RowIndex>()?;
    let mut number = if index.width == width { index.number } else { 0 };
    for (place, column) in others.iter_mut().enumerate() {
        // Whether all have their marks: 0 stays 0.
        number *= u64::from(column.items.kept::<Mark>()?.is(number, place));
    }
    let mut index = std::mem::take(first.items.kept::<RowIndex>()?);
    if number == 0 {
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        index = RowIndex { number, width, ..RowIndex::default() };
        for (place, column) in others.iter_mut().enumerate() {
            *column.items.kept::<Mark>()? = Mark { number, place };
        }
    }
    let (rows, wanted): (Vec<Raw>, Vec<Raw>) = (raw(own), raw(sought));
    let found = index.cover(&rows, count, &mut room).and_then(|()| index.find_all(&rows, &wanted, wanted_count, room));
    *own.first_mut()?.items.kept::<RowIndex>()? = index;
    Some(found)
}

/// As [`find_rows`] for columns that may be shared, but makes no index: returns `None` if none has been made.
///
/// # Errors
/// Those of `room`.
pub fn find_rows_by_kept<E>(
    own: &[Vector],
    sought: &[Vector],
    mut room: impl FnMut(usize) -> Result<(), E>,
) -> Option<Found<E>> {
    let (first, others) = own.split_first()?;
    let (number, width) = first.items.with_kept(|index: &mut RowIndex| (index.number, index.width))?;
    let is_marked = |(place, column): (usize, &Vector)| {
        column.items.with_kept(|mark: &mut Mark| mark.is(number, place)).unwrap_or(false)
    };
    if number == 0 || width != own.len() || !others.iter().enumerate().all(is_marked) {
        return None;
    }
    let (count, wanted_count) = counts(own, sought)?;
    let (rows, wanted): (Vec<Raw>, Vec<Raw>) = (raw(own), raw(sought));
    first.items.with_kept(|index: &mut RowIndex| {
        index.cover(&rows, count, &mut room)?;
        index.find_all(&rows, &wanted, wanted_count, room)
    })
}

/// Row counts of the columns and of those sought, if an index can find these rows.
fn counts(own: &[Vector], sought: &[Vector]) -> Option<(usize, usize)> {
    let count = own.first()?.len();
    let is_found = |(own, sought): (&Vector, &Vector)| {
        let is_hashed = !matches!(own.items.raw(), Raw::List(_));
        is_hashed && own.items.plain().type_number() == sought.items.plain().type_number()
    };
    let are_found = own.len() == sought.len() && u32::try_from(count).is_ok() && own.iter().zip(sought).all(is_found);
    are_found.then(|| Some((count, sought.first()?.len())))?
}

fn raw(columns: &[Vector]) -> Vec<Raw<'_>> {
    columns.iter().map(|column| column.items.raw()).collect()
}

impl RowIndex {
    /// Adds the rows that the columns have gained, up to `rows` in all.
    fn cover<E>(
        &mut self,
        columns: &[Raw],
        rows: usize,
        room: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.covered < rows {
            let block = self.covered..rows.min(self.covered + BLOCK);
            if block.len() == BLOCK {
                room(0)?;
                budget::note(BLOCK);
            }
            if self.positions.capacity() - self.positions.len() < block.len() {
                room((self.positions.len() + block.len()).saturating_mul(2 * ENTRY_BYTES))?;
                self.positions.reserve(block.len(), |(hash, _)| *hash);
            }
            for hash in hashes(columns, block) {
                let at = self.covered;
                let same = |(other, row): &(u64, u32)| *other == hash && are_equal(columns, *row as usize, columns, at);
                self.positions.entry(hash, same, |(hash, _)| *hash).or_insert((hash, at as u32));
                self.covered += 1;
            }
        }
        Ok(())
    }

    fn find_all<E>(
        &self,
        columns: &[Raw],
        sought: &[Raw],
        count: usize,
        mut room: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<Option<usize>>, E> {
        room(count.saturating_mul(size_of::<Option<usize>>()))?;
        let mut found = Vec::with_capacity(count);
        for start in (0..count).step_by(BLOCK) {
            let block = start..count.min(start + BLOCK);
            if block.len() == BLOCK {
                room(0)?;
                budget::note(BLOCK);
            }
            for (row, hash) in block.clone().zip(hashes(sought, block)) {
                let same = |(other, at): &(u64, u32)| *other == hash && are_equal(columns, *at as usize, sought, row);
                found.push(self.positions.find(hash, same).map(|(_, at)| *at as usize));
            }
        }
        Ok(found)
    }
}

/// Returns the hash of each of these rows.
fn hashes(columns: &[Raw], rows: Range<usize>) -> Vec<u64> {
    fn add_as<T, H: Hash>(items: &[T], rows: Range<usize>, hashes: &mut [u64], form: impl Fn(&T) -> H) {
        for (hash, item) in hashes.iter_mut().zip(items.get(rows).unwrap_or_default()) {
            *hash = STATE.hash_one((*hash, form(item)));
        }
    }
    fn add<T: Hash + Copy>(items: &[T], rows: Range<usize>, hashes: &mut [u64]) {
        add_as(items, rows, hashes, |item| *item);
    }
    let mut hashes = vec![0; rows.len()];
    for column in columns {
        let (rows, hashes) = (rows.clone(), &mut hashes[..]);
        match column {
            Raw::U8(items) => add(items, rows, hashes),
            Raw::I16(items) => add(items, rows, hashes),
            Raw::I32(items) => add(items, rows, hashes),
            Raw::I64(items) => add(items, rows, hashes),
            Raw::Guid(items) => add(items, rows, hashes),
            Raw::Sym(items) => add(items, rows, hashes),
            Raw::F32(items) => add_as(items, rows, hashes, |item| bits(f64::from(*item))),
            Raw::F64(items) => add_as(items, rows, hashes, |item| bits(*item)),
            Raw::List(_) => {}
        }
    }
    hashes
}

/// Whether row `i` of some columns equals row `j` of others.
fn are_equal(columns: &[Raw], i: usize, others: &[Raw], j: usize) -> bool {
    fn item<T: PartialEq>(items: &[T], i: usize, others: &[T], j: usize) -> bool {
        items.get(i).is_some_and(|item| others.get(j) == Some(item))
    }
    columns.iter().zip(others).all(|pair| match pair {
        (Raw::U8(a), Raw::U8(b)) => item(a, i, b, j),
        (Raw::I16(a), Raw::I16(b)) => item(a, i, b, j),
        (Raw::I32(a), Raw::I32(b)) => item(a, i, b, j),
        (Raw::I64(a), Raw::I64(b)) => item(a, i, b, j),
        (Raw::Guid(a), Raw::Guid(b)) => item(a, i, b, j),
        (Raw::Sym(a), Raw::Sym(b)) => item(a, i, b, j),
        (Raw::F32(a), Raw::F32(b)) => {
            a.get(i).is_some_and(|x| b.get(j).is_some_and(|y| bits(f64::from(*x)) == bits(f64::from(*y))))
        }
        (Raw::F64(a), Raw::F64(b)) => a.get(i).is_some_and(|x| b.get(j).is_some_and(|y| bits(*x) == bits(*y))),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Items, Value};

    fn vector(items: &[i64]) -> Vector {
        let Value::Vector(vector) = Value::longs(items.to_vec()) else { panic!("a vector") };
        vector
    }

    fn found(own: &mut [Vector], rows: &[(i64, i64)]) -> Option<Vec<Option<usize>>> {
        let (a, b): (Vec<i64>, Vec<i64>) = rows.iter().copied().unzip();
        find_rows(own, &[vector(&a), vector(&b)], |_| Ok::<(), ()>(())).map(|found| found.expect("there is room"))
    }

    fn grow(column: &mut Vector, more: i64) {
        let own = std::mem::replace(&mut column.items, Items::List(Default::default()));
        *column = own.join(&vector(&[more]).items).into();
    }

    fn change(column: &mut Vector, at: usize, to: i64) {
        column.items.put(&[(at, 0)], &vector(&[to]).items);
    }

    #[test]
    fn an_index_is_only_that_of_its_columns_in_their_order() {
        let columns = [vector(&[1, 2, 3]), vector(&[4, 5, 6]), vector(&[7, 8, 9])];
        let mut own = columns.clone();
        drop(columns);
        let no_limit = |_| Ok::<(), ()>(());
        let row = [vector(&[2]), vector(&[5]), vector(&[8])];
        assert_eq!(find_rows(&mut own, &row, no_limit), Some(Ok(vec![Some(1)])));
        assert_eq!(find_rows_by_kept(&own, &row, no_limit), Some(Ok(vec![Some(1)])));
        let [a, b, c] = own;
        let turned = [a.clone(), c.clone(), b.clone()];
        let sought = [row[0].clone(), row[2].clone(), row[1].clone()];
        assert_eq!(find_rows_by_kept(&turned, &sought, no_limit), None, "another order");
        assert_eq!(find_rows_by_kept(&turned[..1], &sought[..1], no_limit), None, "fewer columns");
        drop(turned);
        let mut fewer = [a, b];
        assert_eq!(find_rows_by_kept(&fewer, &row[..2], no_limit), None, "fewer columns");
        assert_eq!(find_rows(&mut fewer, &row[..2], no_limit), Some(Ok(vec![Some(1)])));
        let [a, b] = fewer;
        let mut turned = [a, c, b];
        assert_eq!(find_rows(&mut turned, &sought, no_limit), Some(Ok(vec![Some(1)])));
    }

    #[test]
    fn floats_have_one_zero_and_one_null() {
        let floats = |items: &[f64]| Vector::from(Items::Float(items.to_vec().into()));
        let mut own = [vector(&[1, 1, 1]), floats(&[0.0, f64::NAN, 2.5])];
        let sought = [vector(&[1, 1, 1, 1]), floats(&[-0.0, -f64::NAN, 2.5, 2.0])];
        let expected = Some(Ok(vec![Some(0), Some(1), Some(2), None]));
        assert_eq!(find_rows(&mut own, &sought, |_| Ok::<(), ()>(())), expected);
    }

    #[test]
    fn finds_the_first_of_equal_rows_however_the_columns_have_changed() {
        let seed = 11;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rows: Vec<(i64, i64)> = vec![(1, 1)];
        let mut own = [vector(&[1]), vector(&[1])];
        for step in 0..2000 {
            let row = (random.i64(0..12), random.i64(0..12));
            let at = random.usize(0..rows.len());
            match random.u8(0..20) {
                0 => {
                    change(&mut own[0], at, row.0);
                    rows[at].0 = row.0;
                }
                1 => {
                    change(&mut own[1], at, row.1);
                    rows[at].1 = row.1;
                }
                _ => {
                    grow(&mut own[0], row.0);
                    grow(&mut own[1], row.1);
                    rows.push(row);
                }
            }
            let sought = [row, (random.i64(0..13), random.i64(0..13))];
            let expected = sought.map(|row| rows.iter().position(|own| *own == row));
            assert_eq!(found(&mut own, &sought).as_deref(), Some(&expected[..]), "seed {seed}, step {step}");
        }
    }

    #[test]
    fn columns_that_something_else_refers_to_have_no_index() {
        let mut own = [vector(&[1, 2]), vector(&[3, 4])];
        assert_eq!(found(&mut own, &[(2, 4), (2, 3)]), Some(vec![Some(1), None]));
        let held = own[1].clone();
        assert_eq!(found(&mut own, &[(2, 4)]), None);
        drop(held);
        assert_eq!(found(&mut own, &[(2, 4)]), Some(vec![Some(1)]));
        assert_eq!(find_rows(&mut own, &[vector(&[2])], |_| Ok::<(), ()>(())), None, "another number of columns");
    }

    #[test]
    fn an_error_of_room_is_passed_on() {
        let mut own = [vector(&[1]), vector(&[2])];
        let sought = own.clone();
        drop(find_rows(&mut own, &sought, |_| Err(())));
        assert_eq!(find_rows(&mut [vector(&[1]), vector(&[2])], &sought, |_| Err("full")), Some(Err("full")));
    }
}
