//! Words that scripts have added to q by assigning them in `.q`. As in kdb+, text that names one is bound to its value when it is parsed,
//! in every namespace, and a function of two arguments stands between its operands. Shared by the sessions of a process.

use crate::syntax::lex::{Language, Token, tokens};
use columns::table::function::Function;
use columns::table::{Sym, Value, symbol};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

struct Word {
    /// The name in `.q`.
    full: Sym,
    is_infix: bool,
    /// The function to which text is bound; without it, the name is looked up when the text runs.
    bound: Option<Value>,
    /// Upper bound of the words bound within words, over all values that the word has had. Bounds the recursion of dropping them.
    generation: u16,
    is_removed: bool,
}

/// A word of deeper generations is looked up by name.
const MAX_GENERATION: u16 = 50;

static WORDS: LazyLock<RwLock<HashMap<Sym, Word>>> = LazyLock::new(RwLock::default);
/// Whether there are any; if not, the parser skips the lookup.
static ANY: AtomicBool = AtomicBool::new(false);

/// The word that a full name in `.q` defines.
fn short(full: Sym) -> Option<Sym> {
    symbol::intern_name(symbol::text(full).strip_prefix(b".q.").filter(|word| !word.contains(&b'.'))?).ok()
}

/// One more than the largest generation of the words that a text names; text that is none is of the largest.
fn generation_of(source: &[u8], words: &HashMap<Sym, Word>) -> u16 {
    let Ok(tokens) = tokens(source, Language::of(source)) else { return u16::MAX };
    let names = tokens.iter().filter_map(|placed| match placed.token {
        Token::Name(name) => symbol::find(name).and_then(|name| words.get(&name)),
        _ => None,
    });
    names.map(|word| word.generation).max().unwrap_or(0).saturating_add(1)
}

/// Records an assignment to a full name; does nothing outside `.q`.
pub(crate) fn note(full: Sym, value: &Value, is_infix: bool) {
    let Some(word) = short(full) else { return };
    let mut words = WORDS.write().unwrap_or_else(PoisonError::into_inner);
    let generation = match value {
        Value::Func(f) => match &**f {
            Function::Lambda(lambda) => generation_of(&lambda.source, &words),
            Function::Primitive(_) => 0,
            _ => u16::MAX,
        },
        _ => u16::MAX,
    };
    let bound = (generation <= MAX_GENERATION).then(|| value.clone());
    let before = words.get(&word).map_or(0, |held| held.generation);
    words.insert(word, Word { full, is_infix, bound, generation: generation.max(before), is_removed: false });
    ANY.store(true, Ordering::SeqCst);
}

/// Forgets a full name that was removed.
pub(crate) fn forget(full: Sym) {
    if ANY.load(Ordering::Relaxed)
        && let Some(word) = short(full)
        && let Some(held) = WORDS.write().unwrap_or_else(PoisonError::into_inner).get_mut(&word)
    {
        (held.is_removed, held.bound) = (true, None);
    }
}

fn of<T>(word: Sym, read: impl FnOnce(&Word) -> T) -> Option<T> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    WORDS.read().unwrap_or_else(PoisonError::into_inner).get(&word).filter(|held| !held.is_removed).map(read)
}

/// The full name of a word, and the function to which it is bound.
pub(crate) fn found(word: Sym) -> Option<(Sym, Option<Value>)> {
    of(word, |held| (held.full, held.bound.clone()))
}

/// Whether a word stands between its operands.
pub(crate) fn is_infix(word: &[u8]) -> bool {
    ANY.load(Ordering::Relaxed) && symbol::find(word).is_some_and(|word| of(word, |held| held.is_infix) == Some(true))
}

/// Whether a script has assigned the word.
pub(crate) fn is_one(word: &[u8]) -> bool {
    ANY.load(Ordering::Relaxed) && symbol::find(word).is_some_and(|word| of(word, |_| ()).is_some())
}
