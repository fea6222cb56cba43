//! Messages that kdb+ passes to `.z.ps` although no client sent them: `0 "…"` at the console, and those of a log.

use crate::runtime::context::Context;
use crate::runtime::values::Result;
use crate::verbs::above::Evaluate;
use columns::table::Value;

/// Evaluates such a message, with `.z.ps` if that is set.
pub(super) fn evaluate(context: &mut Context, message: Value) -> Result {
    match context.host.global(crate::syntax::prims::name(".z.ps")) {
        Some(handler) => context.call1(&handler, message),
        None => context.message(&message),
    }
}
