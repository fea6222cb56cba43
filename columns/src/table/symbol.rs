//! The process-wide symbol table: each distinct symbol once, for the life of the process.
//!
//! Looking up a symbol's text takes no lock: slots are filled once, in blocks that never move. Interning takes a lock
//! only for a symbol that is not there yet. Symbols come from peers, so their number and bytes are bounded. Who fills the table
//! must not stop others: the thread that the process is there for (a node's ingest) may fill all of it, the others, which
//! evaluate what clients send, together a part; and names in source text are found room for beyond.

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
    /// A thread has [`claimed`](claim) the table.
    claimed: AtomicBool,
    /// Interned by others since.
    by_others: AtomicU64,
    /// Times that a symbol found no room.
    refused: AtomicU64,
}

/// Part of the table that others than the thread that has claimed it may fill: one in so many.
const PARTS: u64 = 4;
/// Names in source text that a full table still takes.
const NAMES_MORE: u64 = 1 << 16;

thread_local! {
    static CLAIMS: Cell<bool> = const { Cell::new(false) };
}

/// What a symbol is to stand for.
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

    /// Why a table that holds so many takes no more of this use from this thread, if that is so.
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
        // Id 0 is the null symbol and never stored.
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

/// The symbol with this text.
///
/// # Errors
/// The table is full, or the part of it that this thread may fill: q's `'limit`.
pub fn intern(text: &[u8]) -> Result<Sym, TooManySymbols> {
    SYMBOLS.intern(text, Use::Data)
}

/// As [`intern`], for a name in source text, of a user or of the program's own: a table that data has filled has room for some.
///
/// # Errors
/// There are too many of them as well.
pub fn intern_name(text: &[u8]) -> Result<Sym, TooManySymbols> {
    SYMBOLS.intern(text, Use::Name)
}

/// This thread may fill the table; from now on all others together may fill a quarter of it.
pub fn claim() {
    CLAIMS.set(true);
    SYMBOLS.claimed.store(true, Ordering::Relaxed);
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

/// How often a symbol has found no room in this process.
pub fn refusals() -> u64 {
    SYMBOLS.refused.load(Ordering::Relaxed)
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
