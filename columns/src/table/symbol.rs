//! The process-wide symbol table, which keeps each distinct symbol for the life of the process.
//!
//! Reading a symbol's text takes no lock: slots are filled once, in blocks that never move. Interning takes a read lock to
//! search, and the write lock only for a new symbol. Symbols come from peers, so their number and their bytes are bounded
//! ([`Limits`]). Clients must not exhaust the table for the thread with the process's main duty (a node's ingest): that thread
//! may fill all of it; all other threads, and evaluations on it, may together add the clients' part, and each evaluation only
//! its own [`Budget`]. Identifiers in source text may still be interned when a part is full, up to 65,536 beyond it.

use crate::kernel::sym::Sym;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

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
    limit_bytes: AtomicU64,
    client_limit: AtomicU64,
    /// Whether a thread has [`claimed`](claim) the table.
    claimed: AtomicBool,
    /// Symbols that clients have added since, and the bytes of their texts.
    by_clients: AtomicU64,
    client_bytes: AtomicU64,
    /// Rejected symbols, by [`Bound`].
    refused: [AtomicU64; 5],
}

/// Clients may together fill this fraction of the table, one in `PARTS`, if their own limit is not lower.
const PARTS: u64 = 4;
/// Number of identifiers in source text that a full table still takes.
const NAMES_MORE: u64 = 1 << 16;
/// Average length up to which all symbols of clients fit, in bytes: together they may have this many bytes times their maximum number.
const CLIENT_BYTES_EACH: u64 = 64;
/// Maximum length of a symbol that a client's query adds, in bytes. A symbol stays in memory until the process ends. What all clients of a
/// process add together, and each user, has limits of its own ([`Limits::client_symbols`], [`Allotment`]).
pub const MAX_CLIENT_BYTES: usize = 64 << 10;

thread_local! {
    static CLAIMS: Cell<bool> = const { Cell::new(false) };
    /// Budget of the evaluation that runs on this thread.
    static BUDGET: RefCell<Option<Arc<Budget>>> = const { RefCell::new(None) };
}

/// Number of symbols that one evaluation may add, on all its threads.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    added: AtomicU64,
    /// What the user's evaluations have added, and the limit in bytes.
    user: Option<(Arc<Allotment>, u64)>,
}

/// Bytes of the symbols that one user's evaluations have added to the process. Each symbol counts its text and 64 bytes, so that many short ones
/// are no way around the limit.
#[derive(Debug, Default)]
pub struct Allotment {
    bytes: AtomicU64,
}

impl Allotment {
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Budget {
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, added: AtomicU64::new(0), user: None })
    }

    /// As [`Budget::new`], for a user whose evaluations may add so many bytes in all.
    pub fn of_user(limit: u64, user: Arc<Allotment>, limit_bytes: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, added: AtomicU64::new(0), user: Some((user, limit_bytes)) })
    }
}

/// Makes this the budget of symbols that the thread adds, and returns the former one, to be put back.
pub fn budget(budget: Option<Arc<Budget>>) -> Option<Arc<Budget>> {
    BUDGET.replace(budget)
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub symbols: u64,
    /// Bytes of all texts.
    pub bytes: u64,
    /// Symbols that clients may add.
    pub client_symbols: u64,
}

/// Purpose of a symbol, which decides its limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Data,
    Name,
    Own,
}

/// Which bound of the table rejects a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Number,
    Bytes,
    /// The part of clients, in number, bytes or the length of one symbol.
    Clients,
    Evaluation,
    /// What one user may add.
    User,
}

/// The table, or a part of it, is full: q's `'limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
pub struct TooManySymbols {
    pub bound: Bound,
    pub limit: u64,
}

impl TooManySymbols {
    fn reason(&self) -> String {
        let limit = self.limit;
        match self.bound {
            Bound::Number => format!("more than {limit} distinct symbols (--limit-symbols)"),
            Bound::Bytes => format!("more than {limit} bytes of symbols (--limit-symbol-bytes)"),
            Bound::Clients if limit == MAX_CLIENT_BYTES as u64 => format!("a symbol of more than {limit} bytes"),
            Bound::Clients => {
                format!(
                    "clients have added {limit} symbols, or {CLIENT_BYTES_EACH} times as many bytes (--limit-client-symbols)"
                )
            }
            Bound::User => format!(
                "the queries of this user have added {limit} bytes of symbols, each with {CLIENT_BYTES_EACH} more (--limit-user-symbols, or symbols of a role)"
            ),
            Bound::Evaluation => format!("an evaluation adds more than {limit} symbols (--limit-query-symbols)"),
        }
    }
}

static SYMBOLS: Symbols = Symbols {
    blocks: [const { OnceLock::new() }; BLOCKS],
    ids: RwLock::new(HashTable::new()),
    hasher: FixedState::with_seed(0x656c_6173_7469_636b),
    text_bytes: AtomicU64::new(0),
    limit: AtomicU64::new(100_000_000),
    limit_bytes: AtomicU64::new(u64::MAX),
    client_limit: AtomicU64::new(u64::MAX),
    claimed: AtomicBool::new(false),
    by_clients: AtomicU64::new(0),
    client_bytes: AtomicU64::new(0),
    refused: [const { AtomicU64::new(0) }; 5],
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

    /// Charges a new symbol to those who pay for it. The caller holds the write lock.
    fn charge(&self, used_as: Use, held: u64, bytes: u64) -> Result<(), TooManySymbols> {
        let more = if used_as == Use::Data { 0 } else { NAMES_MORE };
        let is_over = |held: u64, limit: u64, more: u64| held > limit.saturating_add(more);
        let (limit, limit_bytes) = (self.limit.load(Ordering::Relaxed), self.limit_bytes.load(Ordering::Relaxed));
        if is_over(held.saturating_add(1), limit, more) {
            return Err(TooManySymbols { bound: Bound::Number, limit });
        }
        let all_bytes = self.text_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        if is_over(all_bytes, limit_bytes, more.saturating_mul(CLIENT_BYTES_EACH)) {
            return Err(TooManySymbols { bound: Bound::Bytes, limit: limit_bytes });
        }
        BUDGET.with_borrow(|budget| {
            if used_as == Use::Own || !self.claimed.load(Ordering::Relaxed) || (CLAIMS.get() && budget.is_none()) {
                return Ok(());
            }
            if bytes > MAX_CLIENT_BYTES as u64 {
                return Err(TooManySymbols { bound: Bound::Clients, limit: MAX_CLIENT_BYTES as u64 });
            }
            let of_user = budget.as_ref().and_then(|budget| budget.user.as_ref());
            let user_bytes =
                of_user.map(|(user, _)| user.bytes().saturating_add(bytes).saturating_add(CLIENT_BYTES_EACH));
            if let (Some((_, limit)), Some(held)) = (of_user, user_bytes)
                && is_over(held, *limit, more.saturating_mul(CLIENT_BYTES_EACH))
            {
                return Err(TooManySymbols { bound: Bound::User, limit: *limit });
            }
            let own = self.client_limit.load(Ordering::Relaxed);
            let (bound, part) =
                if own <= limit / PARTS { (Bound::Clients, own) } else { (Bound::Number, limit / PARTS) };
            let number = self.by_clients.load(Ordering::Relaxed).saturating_add(1);
            let client_bytes = self.client_bytes.load(Ordering::Relaxed).saturating_add(bytes);
            let each = CLIENT_BYTES_EACH;
            if is_over(number, part, more)
                || is_over(client_bytes, part.saturating_mul(each), more.saturating_mul(each))
            {
                return Err(TooManySymbols { bound, limit: part });
            }
            if let Some(budget) = budget
                && budget.added.fetch_add(1, Ordering::Relaxed) >= budget.limit
            {
                return Err(TooManySymbols { bound: Bound::Evaluation, limit: budget.limit });
            }
            // The write lock is held: no other thread charges.
            if let (Some((user, _)), Some(held)) = (of_user, user_bytes) {
                user.bytes.store(held, Ordering::Relaxed);
            }
            self.by_clients.store(number, Ordering::Relaxed);
            self.client_bytes.store(client_bytes, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Interns a text up to its first NUL byte: as in kdb+, a symbol cannot contain NUL.
    fn intern_text(&self, text: &[u8], used_as: Use) -> Result<Sym, TooManySymbols> {
        // Fast path: stored symbols have no NUL, except placeholders, which begin with one. So a text that is found needs no check.
        let (Some(1..), Some(known)) = (text.first(), self.known(text)) else {
            return self.intern(before_nul(text), used_as);
        };
        Ok(known)
    }

    fn known(&self, text: &[u8]) -> Option<Sym> {
        let ids = self.ids.read().unwrap_or_else(PoisonError::into_inner);
        self.find(&ids, self.hasher.hash_one(text), text).map(Sym)
    }

    fn intern(&self, text: &[u8], used_as: Use) -> Result<Sym, TooManySymbols> {
        if text.is_empty() {
            return Ok(Sym::NULL);
        }
        let hash = self.hasher.hash_one(text);
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = self.find(&ids, hash, text) {
            return Ok(Sym(id));
        }
        self.charge(used_as, ids.len() as u64, text.len() as u64).inspect_err(|full| {
            if let Some(counter) = self.refused.get(full.bound as usize) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        // Id 0 is the null symbol and is never stored.
        let full = TooManySymbols { bound: Bound::Number, limit: ids.len() as u64 };
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
    SYMBOLS.intern_text(text, Use::Data)
}

/// As [`intern`], for identifiers in source text: some may still be interned when data has filled the table.
///
/// # Errors
/// There is no room for identifiers either.
pub fn intern_name(text: &[u8]) -> Result<Sym, TooManySymbols> {
    SYMBOLS.intern_text(text, Use::Name)
}

/// As [`intern_name`], for words of the program itself, such as the columns of `.rdb.windows`: no client's limit counts them. A client that has used up its
/// symbols would else see tables whose columns have no names.
///
/// # Errors
/// There is no room for identifiers either.
pub fn intern_own(word: &'static [u8]) -> Result<Sym, TooManySymbols> {
    SYMBOLS.intern_text(word, Use::Own)
}

/// Gives this thread the right to fill the whole table. From then on symbols that other threads and evaluations add are
/// those of clients.
pub fn claim() {
    CLAIMS.set(true);
    SYMBOLS.claimed.store(true, Ordering::Relaxed);
}

/// Returns the symbol with this text if it exists. Queries use this, so that a query for an unknown symbol adds none.
pub fn find(text: &[u8]) -> Option<Sym> {
    let text = before_nul(text);
    if text.is_empty() {
        return Some(Sym::NULL);
    }
    SYMBOLS.known(text)
}

/// Returns a symbol's text, which lives as long as the process.
pub fn text(symbol: Sym) -> &'static [u8] {
    match SYMBOLS.text(symbol.0) {
        [PLACEHOLDER, ..] if has_placeholders() => b"",
        text => text,
    }
}

fn before_nul(text: &[u8]) -> &[u8] {
    text.iter().position(|byte| *byte == 0).and_then(|end| text.get(..end)).unwrap_or(text)
}

/// First byte of the stored text of a [`placeholder`]; its position follows as 8 bytes. No other stored text has this byte.
const PLACEHOLDER: u8 = 0;
/// Whether this process has ever made a placeholder.
static HAS_PLACEHOLDERS: AtomicBool = AtomicBool::new(false);

/// Returns a symbol that stands for a position beyond the end of an enumeration's domain. This happens when another process has extended the file of
/// symbols since it was loaded, or when the file was truncated. The text is empty, as that of the null symbol, but the position is kept: it is
/// written when the column is written again.
///
/// # Errors
/// As [`intern`].
pub fn placeholder(position: i64) -> Result<Sym, TooManySymbols> {
    HAS_PLACEHOLDERS.store(true, Ordering::Relaxed);
    let text = placeholder_text(position);
    // A column may have many items at one position: they need no write lock.
    SYMBOLS.known(&text).map_or_else(|| SYMBOLS.intern(&text, Use::Data), Ok)
}

fn placeholder_text(position: i64) -> Vec<u8> {
    let mut text = vec![PLACEHOLDER];
    text.extend_from_slice(&position.to_le_bytes());
    text
}

/// Returns whether this process has ever made a [`placeholder`] for this position.
pub fn has_placeholder(position: i64) -> bool {
    SYMBOLS.known(&placeholder_text(position)).is_some()
}

/// Position that a [`placeholder`] stands for; `None` for any other symbol.
pub fn position(symbol: Sym) -> Option<i64> {
    let position = SYMBOLS.text(symbol.0).strip_prefix(&[PLACEHOLDER])?;
    position.try_into().ok().map(i64::from_le_bytes)
}

/// Returns whether this process has ever made a [`placeholder`].
pub fn has_placeholders() -> bool {
    HAS_PLACEHOLDERS.load(Ordering::Relaxed)
}

/// Returns a copy in which each placeholder is replaced by the null symbol, or `None` if there is no placeholder to replace.
pub fn without_placeholders(symbols: &[Sym]) -> Option<Vec<Sym>> {
    let is_any = has_placeholders() && symbols.iter().any(|symbol| position(*symbol).is_some());
    let shown = |symbol: &Sym| if position(*symbol).is_some() { Sym::NULL } else { *symbol };
    is_any.then(|| symbols.iter().map(shown).collect())
}

/// Use of the table.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub symbols: u64,
    /// Bytes of the texts.
    pub text_bytes: u64,
    /// Bytes of slots and hash table.
    pub table_bytes: u64,
    pub client_symbols: u64,
    pub client_bytes: u64,
}

impl Usage {
    /// Bytes of all symbols.
    pub fn bytes(&self) -> u64 {
        self.text_bytes.saturating_add(self.table_bytes)
    }

    /// Bytes of the symbols that clients have not added. Their own are bounded, so memory decisions need not count them: else
    /// a client could fill a node by its queries.
    pub fn own_bytes(&self) -> u64 {
        let share = 1.0 - self.client_symbols as f64 / self.symbols.max(1) as f64;
        self.text_bytes.saturating_sub(self.client_bytes).saturating_add((self.table_bytes as f64 * share) as u64)
    }
}

/// Returns the use of the table.
pub fn usage() -> Usage {
    let ids = SYMBOLS.ids.read().unwrap_or_else(PoisonError::into_inner);
    let slot_bytes = SYMBOLS.blocks.iter().filter_map(OnceLock::get).map(|b| size_of_val(&**b)).sum::<usize>();
    Usage {
        symbols: ids.len() as u64,
        text_bytes: SYMBOLS.text_bytes.load(Ordering::Relaxed),
        table_bytes: (slot_bytes + ids.capacity() * (size_of::<u32>() + 1)) as u64,
        client_symbols: SYMBOLS.by_clients.load(Ordering::Relaxed),
        client_bytes: SYMBOLS.client_bytes.load(Ordering::Relaxed),
    }
}

/// Returns how many symbols this process rejected by a bound.
pub fn refusals(bound: Bound) -> u64 {
    SYMBOLS.refused.get(bound as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
}

/// Sets the limits of the table.
pub fn set_limits(limits: Limits) {
    SYMBOLS.limit.store(limits.symbols, Ordering::Relaxed);
    SYMBOLS.limit_bytes.store(limits.bytes, Ordering::Relaxed);
    SYMBOLS.client_limit.store(limits.client_symbols, Ordering::Relaxed);
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
    fn a_placeholder_is_shown_as_nothing_and_keeps_its_position() {
        let known = intern(b"symbol-test-known").expect("room");
        assert_eq!((without_placeholders(&[known]), position(known)), (None, None));
        for at in [0, 1, 1000, i64::MAX] {
            let symbol = placeholder(at).expect("room");
            assert_eq!((text(symbol), position(symbol)), (&b""[..], Some(at)));
            assert_eq!(without_placeholders(&[symbol, known]), Some(vec![Sym::NULL, known]));
        }
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
