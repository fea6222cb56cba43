//! The process-wide symbol table, which keeps each distinct symbol for the life of the process.
//!
//! Reading a symbol's text takes no lock: slots are filled once, in blocks that never move. Interning takes a read lock to
//! search, and the write lock only for a new symbol. Symbols come from peers, so their number is bounded. Clients must not exhaust the
//! table for the thread with the process's main duty (a node's ingest): that thread may fill all of it, all other threads,
//! which evaluate client queries, together a quarter. Identifiers in source text may still be interned when the table is full,
//! up to 65,536 beyond its limit, and do not count towards that quarter.

use crate::kernel::sym::Sym;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::cell::Cell;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

type Block = Box<[OnceLock<Box<[u8]>>]>;

/// Blocks double in size: block `b` starts at `FIRST * (2^b - 1)`.
const FIRST_BITS: u32 = 10;
const BLOCKS: usize = 22;

struct Symbols {
    blocks: [OnceLock<Block>; BLOCKS],
    ids: RwLock<HashTable<u32>>,
    hasher: FixedState,
    text_bytes: AtomicU64,
    limit: AtomicU64,
    /// Whether a thread has [`claimed`](claim) the table.
    claimed: AtomicBool,
    /// Symbols of data, not identifiers, interned by other threads since; stops at their part of the table.
    by_others: AtomicU64,
    /// Number of symbols rejected because the table, or the part of it for other threads, was full.
    refused: AtomicU64,
}

/// Other threads than the claiming one may together fill this fraction of the table: one in `PARTS`.
const PARTS: u64 = 4;
/// Number of identifiers in source text that a full table still takes.
const NAMES_MORE: u64 = 1 << 16;

thread_local! {
    static CLAIMS: Cell<bool> = const { Cell::new(false) };
}

/// Purpose of a symbol, which decides its limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Data,
    Name,
}

/// The symbol table is full: q's `'limit`.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("more than {limit} distinct symbols (--limit-symbols)")]
pub struct TooManySymbols {
    pub limit: u64,
}

static SYMBOLS: Symbols = Symbols {
    blocks: [const { OnceLock::new() }; BLOCKS],
    ids: RwLock::new(HashTable::new()),
    hasher: FixedState::with_seed(0x656c_6173_7469_636b),
    text_bytes: AtomicU64::new(0),
    limit: AtomicU64::new(100_000_000),
    claimed: AtomicBool::new(false),
    by_others: AtomicU64::new(0),
    refused: AtomicU64::new(0),
};

fn place(id: u32) -> (usize, usize) {
    let shifted = u64::from(id) + (1 << FIRST_BITS);
    let block = 63 - shifted.leading_zeros() - FIRST_BITS;
    (block as usize, (shifted - (1u64 << (block + FIRST_BITS))) as usize)
}

impl Symbols {
    fn text(&self, id: u32) -> &[u8] {
        let (block, slot) = place(id);
        let text = self.blocks.get(block).and_then(OnceLock::get).and_then(|b| b.get(slot)).and_then(OnceLock::get);
        text.map_or(b"", |t| t)
    }

    fn find(&self, ids: &HashTable<u32>, hash: u64, text: &[u8]) -> Option<u32> {
        ids.find(hash, |&id| self.text(id) == text).copied()
    }

    /// Returns the limit that stops this thread from adding a symbol to a table of `held` symbols, if any.
    fn full(&self, used_as: Use, held: u64) -> Option<TooManySymbols> {
        let limit = self.limit.load(Ordering::Relaxed);
        let share = limit / PARTS;
        let is_others = self.claimed.load(Ordering::Relaxed) && !CLAIMS.get();
        match used_as {
            Use::Name => (held >= limit.saturating_add(NAMES_MORE)).then_some(TooManySymbols { limit }),
            Use::Data if held >= limit => Some(TooManySymbols { limit }),
            Use::Data if is_others && self.by_others.fetch_add(1, Ordering::Relaxed) >= share => {
                self.by_others.store(share, Ordering::Relaxed);
                Some(TooManySymbols { limit: share })
            }
            Use::Data => None,
        }
    }

    fn intern(&self, text: &[u8], used_as: Use) -> Result<Sym, TooManySymbols> {
        if text.is_empty() {
            return Ok(Sym::NULL);
        }
        let hash = self.hasher.hash_one(text);
        if let Some(id) = self.find(&self.ids.read().unwrap_or_else(PoisonError::into_inner), hash, text) {
            return Ok(Sym(id));
        }
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = self.find(&ids, hash, text) {
            return Ok(Sym(id));
        }
        if let Some(full) = self.full(used_as, ids.len() as u64) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(full);
        }
        // Id 0 is the null symbol and is never stored.
        let full = TooManySymbols { limit: ids.len() as u64 };
        let id = u32::try_from(ids.len() + 1).map_err(|_| full)?;
        let (block, slot) = place(id);
        let slots = self.blocks.get(block).ok_or(full)?;
        let slots = slots.get_or_init(|| (0..1usize << (block as u32 + FIRST_BITS)).map(|_| OnceLock::new()).collect());
        if let Some(slot) = slots.get(slot) {
            let _ = slot.set(text.into());
        }
        self.text_bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        ids.insert_unique(hash, id, |&id| self.hasher.hash_one(self.text(id)));
        Ok(Sym(id))
    }
}

/// Returns the symbol with this text; adds it to the table if it is new.
///
/// # Errors
/// The table, or the part of it that this thread may fill, is full: q's `'limit`.
pub fn intern(text: &[u8]) -> Result<Sym, TooManySymbols> {
    SYMBOLS.intern(text, Use::Data)
}

/// As [`intern`], for identifiers in source text: some may still be interned when data has filled the table.
///
/// # Errors
/// There is no room for identifiers either.
pub fn intern_name(text: &[u8]) -> Result<Sym, TooManySymbols> {
    SYMBOLS.intern(text, Use::Name)
}

/// Gives this thread the right to fill the whole table. From then on all other threads together may add a quarter of the limit.
pub fn claim() {
    CLAIMS.set(true);
    SYMBOLS.claimed.store(true, Ordering::Relaxed);
}

/// Returns the symbol with this text if it exists. Queries use this, so that a query for an unknown symbol adds none.
pub fn find(text: &[u8]) -> Option<Sym> {
    if text.is_empty() {
        return Some(Sym::NULL);
    }
    let ids = SYMBOLS.ids.read().unwrap_or_else(PoisonError::into_inner);
    SYMBOLS.find(&ids, SYMBOLS.hasher.hash_one(text), text).map(Sym)
}

/// Returns a symbol's text, which lives as long as the process.
pub fn text(symbol: Sym) -> &'static [u8] {
    SYMBOLS.text(symbol.0)
}

/// Returns the number of distinct symbols, and an estimate of the bytes of their texts, slots and hash table.
pub fn usage() -> (u64, u64) {
    let ids = SYMBOLS.ids.read().unwrap_or_else(PoisonError::into_inner);
    let slot_bytes = SYMBOLS.blocks.iter().filter_map(OnceLock::get).map(|b| size_of_val(&**b)).sum::<usize>();
    let table_bytes = ids.capacity() * (size_of::<u32>() + 1);
    (ids.len() as u64, SYMBOLS.text_bytes.load(Ordering::Relaxed) + (slot_bytes + table_bytes) as u64)
}

/// Returns how many symbols this process rejected because the table, or the part of it for other threads, was full.
pub fn refusals() -> u64 {
    SYMBOLS.refused.load(Ordering::Relaxed)
}

/// Sets the maximum number of distinct symbols.
pub fn set_limit(symbols: u64) {
    SYMBOLS.limit.store(symbols, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_the_same_symbol() {
        let (a, b) = (intern(b"symbol-test-a").expect("room"), intern(b"symbol-test-b").expect("room"));
        assert_ne!(a, b);
        assert_eq!(intern(b"symbol-test-a").expect("room"), a);
        assert_eq!((text(a), text(b)), (&b"symbol-test-a"[..], &b"symbol-test-b"[..]));
    }

    #[test]
    fn the_empty_text_is_the_null_symbol() {
        assert_eq!(intern(b"").expect("room"), Sym::NULL);
        assert_eq!(text(Sym::NULL), b"");
    }

    #[test]
    fn finding_makes_no_symbol() {
        assert_eq!(find(b"symbol-test-never-made"), None);
        assert_eq!(find(b"symbol-test-never-made"), None);
    }

    #[test]
    fn blocks_follow_one_another_without_a_gap() {
        let mut before = place(0);
        for id in 1..100_000 {
            let now = place(id);
            assert!(now == (before.0, before.1 + 1) || now == (before.0 + 1, 0), "{id}: {before:?} {now:?}");
            before = now;
        }
    }

    #[test]
    fn threads_agree() {
        let ids = |_| (0..2000).map(|i| intern(format!("symbol-test-thread-{i}").as_bytes()).expect("room")).collect();
        let threads: Vec<_> = (0..4).map(|t| std::thread::spawn(move || -> Vec<Sym> { ids(t) })).collect();
        let all: Vec<Vec<Sym>> = threads.into_iter().map(|t| t.join().expect("thread")).collect();
        assert!(all.windows(2).all(|w| w[0] == w[1]));
        assert_eq!(text(all[0][1999]), b"symbol-test-thread-1999");
    }
}
