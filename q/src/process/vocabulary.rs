//! The words of q as symbols. A process that serves clients adds them all at its start: a client that has used up its symbols could else not write
//! `neg 1` if nobody had written `neg` before.

use crate::runtime::context::Context;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use columns::table::symbol::intern_own;

/// Words that are no functions: those of the parser, and the parameters of a function that names none.
const OTHERS: [&str; 14] =
    ["select", "exec", "update", "delete", "from", "by", "where", "distinct", "if", "do", "while", "x", "y", "z"];

const SPACES: [&[u8]; 6] = [b".q", b".Q", b".h", b".j", b".z", b".p"];

/// Adds the words to the symbols of the process. No client's limit counts them.
pub fn intern_words() {
    // If there is no room even for these, the first use of one says so.
    for word in prims::PRIMITIVES.iter().map(|primitive| primitive.name).chain(OTHERS) {
        let _ = intern_own(word.as_bytes());
    }
    for space in SPACES {
        let _ = (prims::names_in(space), Context::library_names(space));
    }
}
