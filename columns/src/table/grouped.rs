//! The grouped index of a growing symbol column: for every block of rows, the rows of each symbol.
//!
//! A block of 65,536 rows is sorted by symbol once, when it is full: two bytes a row for the row's place in the block,
//! and six for each distinct symbol. A block with so many symbols that this would exceed 3.5 bytes a row gets no index
//! and is scanned, as are the rows after the last full block. A lookup is a binary search and a copy per block, in row
//! order. Building an index waits for no reader and moves nothing that a reader holds.

use crate::kernel::sym::Sym;
use crate::sys::shared::Shared;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Rows in a block: a row's place in it fits 16 bits.
pub const BLOCK_ROWS: usize = 1 << 16;

/// With more distinct symbols in a block, its index would exceed 3.5 bytes a row.
const MAX_SYMBOLS: usize = BLOCK_ROWS / 4;

const SEED: u64 = 0x67_726f_7570_6564;

/// Rows of a block, by symbol.
#[derive(Debug, Default)]
struct Block {
    /// Distinct symbols, ascending by id. Empty if the block must be scanned.
    symbols: Vec<Sym>,
    /// Start of each symbol's run in `places`.
    starts: Vec<u16>,
    places: Vec<u16>,
}

impl Block {
    /// Counting sort: numbers the symbols by first appearance, orders the numbers by symbol, and puts each row's place
    /// at the next free slot of its symbol's run.
    fn build(column: &[Sym]) -> Block {
        let mut numbers: HashMap<Sym, u16, FixedState> = HashMap::with_hasher(FixedState::with_seed(SEED));
        let mut symbols: Vec<(Sym, u16)> = Vec::new();
        let mut counts: Vec<u32> = Vec::new();
        let mut numbered: Vec<u16> = Vec::with_capacity(column.len());
        for symbol in column {
            let number = *numbers.entry(*symbol).or_insert_with(|| {
                let number = symbols.len() as u16;
                symbols.push((*symbol, number));
                counts.push(0);
                number
            });
            if symbols.len() > MAX_SYMBOLS {
                return Block::default();
            }
            if let Some(count) = counts.get_mut(usize::from(number)) {
                *count += 1;
            }
            numbered.push(number);
        }
        symbols.sort_unstable();
        // Next free slot of each number's run.
        let mut ends = vec![0u32; counts.len()];
        let mut starts = Vec::with_capacity(symbols.len());
        let mut start = 0;
        for (_, number) in &symbols {
            let number = usize::from(*number);
            starts.push(start as u16);
            if let Some(end) = ends.get_mut(number) {
                *end = start;
            }
            start += counts.get(number).copied().unwrap_or(0);
        }
        let mut places = vec![0u16; column.len()];
        for (number, place) in numbered.into_iter().zip(0u32..) {
            let Some(end) = ends.get_mut(usize::from(number)) else { continue };
            if let Some(slot) = places.get_mut(*end as usize) {
                *slot = place as u16;
            }
            *end += 1;
        }
        Block { symbols: symbols.into_iter().map(|(symbol, _)| symbol).collect(), starts, places }
    }

    fn places(&self, nth: usize) -> &[u16] {
        let start = self.starts.get(nth).map_or(0, |start| usize::from(*start));
        let end = self.starts.get(nth + 1).map_or(self.places.len(), |start| usize::from(*start));
        self.places.get(start..end).unwrap_or_default()
    }

    fn used_bytes(&self) -> usize {
        size_of_val(&*self.symbols) + size_of_val(&*self.starts) + size_of_val(&*self.places)
    }
}

/// Blocks are allocated 64 at a time, so that an empty index for billions of rows is small.
const SEGMENT_BLOCKS: usize = 64;

type Segment = Box<[OnceLock<Block>]>;

/// Blocks, filled from the front and never moved.
#[derive(Debug)]
struct Blocks(Box<[OnceLock<Segment>]>);

impl Blocks {
    fn get(&self, nth: usize) -> Option<&Block> {
        self.0.get(nth / SEGMENT_BLOCKS)?.get()?.get(nth % SEGMENT_BLOCKS)?.get()
    }

    /// Stores the next block. Returns the bytes that this takes; `None` if there is no room.
    fn put(&self, nth: usize, block: Block) -> Option<usize> {
        let mut taken_bytes = block.used_bytes();
        let segment = self.0.get(nth / SEGMENT_BLOCKS)?.get_or_init(|| {
            let slots: Segment = (0..SEGMENT_BLOCKS).map(|_| OnceLock::new()).collect();
            taken_bytes += size_of_val(&*slots);
            slots
        });
        segment.get(nth % SEGMENT_BLOCKS)?.set(block).ok()?;
        Some(taken_bytes)
    }
}

/// Write handle of a grouped index.
#[derive(Debug)]
pub struct Grouped {
    blocks: Arc<Blocks>,
    full: usize,
    /// Blocks with too many symbols for an index.
    scanned: usize,
    used_bytes: usize,
}

impl Grouped {
    /// Makes an index for at most `capacity_rows` rows.
    pub fn new(capacity_rows: usize) -> Grouped {
        // Row numbers are 32 bits.
        let rows = capacity_rows.min(u32::MAX as usize);
        let segments: Box<[_]> = (0..rows.div_ceil(BLOCK_ROWS * SEGMENT_BLOCKS)).map(|_| OnceLock::new()).collect();
        Grouped { used_bytes: size_of_val(&*segments), blocks: Arc::new(Blocks(segments)), full: 0, scanned: 0 }
    }

    /// Indexes the blocks that have become full since the last call. `column` is the whole column.
    pub fn extend(&mut self, column: &[Sym]) {
        for rows in column.as_chunks::<BLOCK_ROWS>().0.iter().skip(self.full) {
            let block = Block::build(rows);
            self.scanned += usize::from(block.symbols.is_empty());
            let Some(taken_bytes) = self.blocks.put(self.full, block) else { return };
            self.used_bytes += taken_bytes;
            self.full += 1;
        }
    }

    /// Returns whether a column of `rows` rows has a full block that is not indexed yet.
    pub fn lags(&self, rows: usize) -> bool {
        rows / BLOCK_ROWS > self.full
    }

    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Whether few blocks have to be scanned.
    fn is_useful(&self) -> bool {
        self.scanned * 8 <= self.full
    }

    /// Returns a reader of this index for other threads.
    pub fn reader(&self) -> GroupedReader {
        GroupedReader { blocks: Arc::clone(&self.blocks) }
    }
}

/// Read handle of a grouped index. Its methods take the column too, to scan the rows that no block covers.
#[derive(Clone, Debug)]
pub struct GroupedReader {
    blocks: Arc<Blocks>,
}

impl GroupedReader {
    /// Returns the rows of `column` that hold `symbol`, ascending.
    pub fn rows(&self, column: &[Sym], symbol: Sym) -> Vec<u32> {
        let mut found = Vec::new();
        self.each_block(column, |block, from, rows| match block {
            Some(block) => {
                if let Ok(nth) = block.symbols.binary_search(&symbol) {
                    found.extend(block.places(nth).iter().map(|place| from + u32::from(*place)));
                }
            }
            None => found.extend(rows.iter().zip(from..).filter(|(held, _)| **held == symbol).map(|(_, row)| row)),
        });
        found
    }

    /// Returns the number of rows of `column` that hold `symbol`.
    pub fn count(&self, column: &[Sym], symbol: Sym) -> usize {
        let mut count = 0;
        self.each_block(column, |block, _, rows| {
            count += match block {
                Some(block) => block.symbols.binary_search(&symbol).map_or(0, |nth| block.places(nth).len()),
                None => rows.iter().filter(|held| **held == symbol).count(),
            };
        });
        count
    }

    fn each_block<'a>(&'a self, column: &'a [Sym], mut visit: impl FnMut(Option<&'a Block>, u32, &'a [Sym])) {
        let places: Range<usize> = 0..column.len();
        for (nth, from) in places.step_by(BLOCK_ROWS).enumerate() {
            let rows = column.get(from..).unwrap_or_default();
            let rows = rows.get(..BLOCK_ROWS).unwrap_or(rows);
            let Ok(from) = u32::try_from(from) else { return };
            let block = self.blocks.get(nth);
            // A block may become full while a reader still holds fewer rows of it: scan those.
            let block = block.filter(|block| rows.len() == BLOCK_ROWS && !block.symbols.is_empty());
            visit(block, from, rows);
        }
    }
}

/// The grouped index of a column in memory, kept with its items while they grow.
#[derive(Debug, Default)]
struct Kept {
    was_sought: bool,
    index: Option<Grouped>,
}

/// Blocks indexed between two checks of the limits.
const CHECKED_BLOCKS: usize = 16;

/// Returns the rows of a column that hold `symbol`, ascending, by an index that is made at the second call: a column that is searched once, such as
/// one that was read from a file for a query, is better scanned. `None` at the first call, for a column of less than a block or with too many
/// symbols for an index, and for part of a vector. `room` is given the bytes that are to be allocated.
///
/// # Errors
/// Those of `room`.
pub fn kept_rows<E>(
    column: &Shared<Sym>,
    symbol: Sym,
    mut room: impl FnMut(usize) -> Result<(), E>,
) -> Option<Result<Vec<u32>, E>> {
    if column.len() < BLOCK_ROWS {
        return None;
    }
    column.with_index(|items, kept: &mut Kept| {
        if !std::mem::replace(&mut kept.was_sought, true) {
            return None;
        }
        let index = kept.index.get_or_insert_with(|| Grouped::new(u32::MAX as usize));
        while index.lags(items.len()) && index.is_useful() {
            let before = index.full;
            let end = items.len().min((before + CHECKED_BLOCKS) * BLOCK_ROWS);
            if let Err(error) = room(4 * CHECKED_BLOCKS * BLOCK_ROWS) {
                return Some(Err(error));
            }
            index.extend(items.get(..end).unwrap_or_default());
            if index.full == before {
                break;
            }
        }
        index.is_useful().then(|| Ok(index.reader().rows(items, symbol)))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_index_is_made_at_the_second_look_and_follows_the_items() {
        let rows = |column: &Shared<Sym>, symbol| kept_rows(column, symbol, |_| Ok::<(), ()>(()));
        let mut held: Shared<Sym> = column(BLOCK_ROWS + 10, 9, 5).into();
        assert_eq!(rows(&held, Sym(3)), None);
        assert_eq!(rows(&held, Sym(3)), Some(Ok(scan(&held, Sym(3)))));
        held = held.followed_by(&column(2 * BLOCK_ROWS, 11, 6));
        assert_eq!(rows(&held, Sym(10)), Some(Ok(scan(&held, Sym(10)))));
        held.edit(|items| items[7] = Sym(10));
        assert_eq!(rows(&held, Sym(10)), None, "an item has changed");
        assert_eq!(rows(&held, Sym(10)), Some(Ok(scan(&held, Sym(10)))));
        let full: Shared<Sym> = column(3 * BLOCK_ROWS, 2, 1).into();
        assert_eq!([1, 2].map(|_| kept_rows(&full, Sym(1), |_| Err(()))), [None, Some(Err(()))]);
        let many: Shared<Sym> = column(3 * BLOCK_ROWS, 1 << 32, 1).into();
        assert_eq!([1, 2, 3].map(|_| rows(&many, Sym(1))), [None, None, None]);
    }

    fn scan(column: &[Sym], symbol: Sym) -> Vec<u32> {
        column.iter().zip(0..).filter(|(held, _)| **held == symbol).map(|(_, row)| row).collect()
    }

    fn column(rows: usize, distinct: u64, seed: u64) -> Vec<Sym> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..rows).map(|_| Sym(random.u64(0..distinct) as u32)).collect()
    }

    #[test]
    fn the_index_finds_what_a_scan_finds() {
        for (rows, distinct) in [(0, 1), (100, 7), (BLOCK_ROWS, 3), (3 * BLOCK_ROWS + 17, 500), (BLOCK_ROWS + 1, 1)] {
            let column = column(rows, distinct, 42);
            let mut grouped = Grouped::new(4 * BLOCK_ROWS);
            for end in [rows / 3, rows / 2, rows] {
                grouped.extend(column.get(..end).expect("rows"));
            }
            let reader = grouped.reader();
            for symbol in (0..distinct as u32 + 1).map(Sym) {
                let expected = scan(&column, symbol);
                assert_eq!(reader.rows(&column, symbol), expected, "{rows} rows of {distinct} symbols, {symbol:?}");
                assert_eq!(reader.count(&column, symbol), expected.len());
            }
        }
    }

    #[test]
    fn a_reader_with_fewer_rows_than_the_block_sees_its_own_only() {
        let column = column(BLOCK_ROWS, 5, 1);
        let mut grouped = Grouped::new(BLOCK_ROWS);
        let reader = grouped.reader();
        grouped.extend(&column);
        let early = column.get(..1000).expect("rows");
        assert_eq!(reader.rows(early, Sym(2)), scan(early, Sym(2)));
    }

    #[test]
    fn the_index_never_takes_more_than_four_bytes_a_row() {
        for distinct in [1, 100, 10_000, 16_000, 30_000, 1 << 32] {
            let column = column(2 * BLOCK_ROWS, distinct, 3);
            let mut grouped = Grouped::new(2 * BLOCK_ROWS);
            grouped.extend(&column);
            assert!(grouped.used_bytes() <= 4 * column.len() + 8192, "{distinct}: {}", grouped.used_bytes());
            assert_eq!(grouped.reader().rows(&column, column[70_000]), scan(&column, column[70_000]));
        }
    }
}
