//! q: text that somebody types or sends, and objects that are taken for calls.

use super::memory;
use crate::{answer, named, ways};
use elastick::q::{Caller, eval_message, from_view};
use elastick::table::{Sym, Value};
use proto::{Endian, View};
use std::sync::OnceLock;
use std::time::Duration;

/// In which all ways of evaluation have to be done to be compared.
const WAYS_TIME: Duration = Duration::from_millis(100);
/// What an evaluation may hold beyond its limit: a step asks for what it makes, not for what it needs on the way.
const SPARE_BYTES: usize = 64 << 20;

fn globals() -> &'static [(Sym, Value)] {
    static GLOBALS: OnceLock<Vec<(Sym, Value)>> = OnceLock::new();
    GLOBALS.get_or_init(|| named::kept(&named::named()))
}

fn most_bytes() -> usize {
    usize::try_from(answer::MEMORY_BYTES).unwrap_or(usize::MAX).saturating_add(SPARE_BYTES)
}

/// A text: it ends, in a value that can be shown, sent and read or in an error, and in the same however it is evaluated.
pub fn q(bytes: &[u8]) {
    memory::within(most_bytes(), || answer::answer(globals(), bytes)).unwrap_or_else(|what| panic!("{what}"));
    if let Some(what) = ways::difference(globals(), bytes, WAYS_TIME) {
        panic!("{what}");
    }
}

/// The body of a client's message: a text, or a function and its arguments.
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
