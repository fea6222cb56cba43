//! Async messages that no other process has sent.

use crate::runtime::context::Context;
use crate::runtime::values::Result;
use crate::verbs::above::Evaluate;
use columns::table::Value;

/// Evaluates an async message that no other process has sent: of the console to itself, by which scripts and editors have `\T` apply to their own
/// work, or of a log.
pub(super) fn evaluate(context: &mut Context, message: Value) -> Result {
    match context.host.global(crate::syntax::prims::name(".z.ps")) {
        Some(handler) => context.call1(&handler, message),
        None => context.message(&message),
    }
}
