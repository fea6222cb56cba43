//! The process-wide symbol table: each distinct symbol once, for the life of the process.
//!
//! Looking up a symbol's text takes no lock: slots are filled once, in blocks that never move. Interning takes a lock
//! only for a symbol that is not there yet. Symbols come from peers, so their number and bytes are bounded.

use crate::config::Limit;
use crate::kernel::sym::Sym;
use crate::metrics;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
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

    fn intern(&self, text: &[u8]) -> Result<Sym, TooManySymbols> {
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
        let limit = self.limit.load(Ordering::Relaxed);
        // Id 0 is the null symbol and never stored.
        let id = u32::try_from(ids.len() + 1).ok().filter(|&id| u64::from(id) <= limit);
        let full = || {
            metrics::refused(Limit::symbols);
            TooManySymbols { limit }
        };
        let (id, (block, slot)) = id.map(|id| (id, place(id))).ok_or_else(full)?;
        let slots = self.blocks.get(block).ok_or(TooManySymbols { limit })?;
        let slots = slots.get_or_init(|| (0..1usize << (block as u32 + FIRST_BITS)).map(|_| OnceLock::new()).collect());
        if let Some(slot) = slots.get(slot) {
            let _ = slot.set(text.into());
        }
        self.text_bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        ids.insert_unique(hash, id, |&id| self.hasher.hash_one(self.text(id)));
        Ok(Sym(id))
    }
}

/// The symbol with this text; `'limit` when the table is full.
pub fn intern(text: &[u8]) -> Result<Sym, TooManySymbols> {
    SYMBOLS.intern(text)
}

/// The symbol with this text if it is known: a query for a symbol that nobody sent must not make one.
pub fn find(text: &[u8]) -> Option<Sym> {
    if text.is_empty() {
        return Some(Sym::NULL);
    }
    let ids = SYMBOLS.ids.read().unwrap_or_else(PoisonError::into_inner);
    SYMBOLS.find(&ids, SYMBOLS.hasher.hash_one(text), text).map(Sym)
}

/// A symbol's text. Lives as long as the process.
pub fn text(symbol: Sym) -> &'static [u8] {
    SYMBOLS.text(symbol.0)
}

/// Number of distinct symbols and an account of the bytes they take, text, slots and hash table together.
pub fn usage() -> (u64, u64) {
    let ids = SYMBOLS.ids.read().unwrap_or_else(PoisonError::into_inner);
    let slot_bytes = SYMBOLS.blocks.iter().filter_map(OnceLock::get).map(|b| size_of_val(&**b)).sum::<usize>();
    let table_bytes = ids.capacity() * (size_of::<u32>() + 1);
    (ids.len() as u64, SYMBOLS.text_bytes.load(Ordering::Relaxed) + (slot_bytes + table_bytes) as u64)
}

/// Sets how many distinct symbols may be interned.
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
