//! q evaluation: text that a client types or sends, and objects that are evaluated as calls.

use super::memory;
use crate::{answer, named, ways};
use elastick::q::{Caller, eval_message, from_view};
use elastick::table::{Sym, Value};
use proto::{Endian, View};
use std::sync::OnceLock;
use std::time::Duration;

/// Time limit of each way of evaluation; a text that exceeds it in any way is not compared.
const WAYS_TIME: Duration = Duration::from_millis(100);
/// Tolerance above the memory limit: a step charges its result, not its temporaries.
const SPARE_BYTES: usize = 64 << 20;

fn globals() -> &'static [(Sym, Value)] {
    static GLOBALS: OnceLock<Vec<(Sym, Value)>> = OnceLock::new();
    GLOBALS.get_or_init(|| named::kept(&named::named()))
}

fn most_bytes() -> usize {
    usize::try_from(answer::MEMORY_BYTES).unwrap_or(usize::MAX).saturating_add(SPARE_BYTES)
}

/// Target `q`: a text. Its evaluation ends, with an error or a value that can be shown, sent and read back, and is the same in every way of
/// evaluation.
pub fn q(bytes: &[u8]) {
    memory::within(most_bytes(), || answer::answer(globals(), bytes)).unwrap_or_else(|what| panic!("{what}"));
    if let Some(what) = ways::difference(globals(), bytes, WAYS_TIME) {
        panic!("{what}");
    }
}

/// Target `message`: the body of a client's message, either a text, or a function and its arguments.
pub fn message(bytes: &[u8]) {
    let Ok((view, _)) = View::parse(bytes, Endian::Little, &super::limits()) else { return };
    let limits = answer::limits();
    let told = memory::within(most_bytes(), || {
        let Ok(object) = limits.within(|| from_view(&view)) else { return Ok(()) };
        let mut session = answer::session(globals());
        session.set_caller(Caller { handle: 7, user: b"client".to_vec(), remote: true, ..Caller::default() });
        match eval_message(&mut session, &object, &limits) {
            Ok(value) => answer::usable(&value, &limits),
            Err(_) => Ok(()),
        }
    });
    told.unwrap_or_else(|what| panic!("{what}"));
}
