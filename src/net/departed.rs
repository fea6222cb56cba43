//! Queries whose client has disconnected: they stop, and nobody receives their error.

use crate::metrics::{self, Id};
use crate::q::QError;
use crate::sys::interrupt::Cancel;

/// Detail of the error.
const GONE: &str = "the client has disconnected";

/// Returns the error of a query whose client has disconnected, and counts the query.
pub fn abandoned() -> QError {
    metrics::count(Id::QueriesAbandoned);
    QError::with("stop", GONE)
}

/// Whether [`abandoned`] made this error.
pub fn is_abandoned(error: &QError) -> bool {
    &*error.name == b"stop" && error.detail == GONE
}

/// Returns the error of an evaluation: [`abandoned`] if it was stopped after its client had disconnected.
pub fn reason(error: QError, gone: Option<&Cancel>) -> QError {
    let is_stopped = &*error.name == b"stop" && gone.is_some_and(Cancel::is_set);
    if is_stopped && !is_abandoned(&error) { abandoned() } else { error }
}
