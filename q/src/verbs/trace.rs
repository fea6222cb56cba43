//! Names of lambdas in stack traces.

use crate::runtime::context::{Context, RunningCode};
use crate::runtime::error::{Place, QError};
use crate::runtime::values::symbol;
use crate::syntax::lambda;
use crate::syntax::resolve::qualify;
use columns::table::function::{Function, Lambda};
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use std::sync::Arc;

/// Adds a level to the error's stack trace: it leaves a lambda that was called by `name` (null if unknown).
pub(crate) fn left(context: &Context, lambda: &Lambda, name: Sym, error: QError) -> QError {
    let name = traced_name(context, lambda, name, context.frames.len());
    let start = lambda::code(lambda).map_or(0, |code| code.start);
    error.leave(&name, &lambda.source, start)
}

/// Returns the levels of the call stack, innermost first; `at` is the position in the innermost text.
pub(crate) fn levels(context: &Context, at: u32) -> Vec<Place> {
    let mut at = at;
    let mut places = Vec::with_capacity(context.frames.len() + 1);
    for (depth, level) in context.frames.iter().enumerate().rev().take(QError::MAX_TRACE) {
        places.push(match &level.code {
            RunningCode::Lambda { lambda, name } => {
                let start = lambda::code(lambda).map_or(0, |code| code.start);
                let name = traced_name(context, lambda, *name, depth);
                let by_name = || context.host.origin(columns::table::symbol::find(&name)?);
                let origin = lambda::definition(lambda).map_or_else(by_name, |definition| definition.origin.clone());
                Place { name, text: lambda.source.to_vec(), at: at.saturating_sub(start), origin }.shown()
            }
            RunningCode::Text { text, origin } => {
                Place { name: Vec::new(), text: text.clone(), at, origin: origin.clone() }.shown()
            }
        });
        at = level.called_at;
    }
    // A message that is a list has no text.
    if (!context.text.is_empty() && !context.is_text_done) || places.is_empty() {
        places.push(Place { name: Vec::new(), text: context.text.clone(), at, origin: None }.shown());
    }
    places
}

/// Returns a lambda's name in a stack trace, at `depth` enclosing calls: the global by which it was called or which holds
/// it. A lambda nested in another has the outer one's name with `@` appended.
pub(crate) fn traced_name(context: &Context, lambda: &Lambda, called: Sym, depth: usize) -> Vec<u8> {
    let (mut lambda, mut called, mut marks) = (lambda, called, 0);
    for around in (0..=depth).rev() {
        let known = !called.is_null() && text(called) != b".z.s";
        let name = match lambda::definition(lambda) {
            Some(definition) => definition.name,
            None if known => called,
            None => name_of(context, lambda),
        };
        if !name.is_null() {
            return [text(name), &vec![b'@'; marks]].concat();
        }
        let outer = around.checked_sub(1).and_then(|i| context.frames.get(i));
        let Some(RunningCode::Lambda { lambda: outer, name }) = outer.map(|outer| &outer.code) else { break };
        if !is_within(&outer.source, &lambda.source) {
            break;
        }
        (lambda, called, marks) = (outer, *name, marks + 1);
    }
    Vec::new()
}

/// The root global that holds a lambda.
fn name_of(context: &Context, lambda: &Lambda) -> Sym {
    let mut holds = |value: &Value| match value {
        Value::Func(f) => matches!(&**f, Function::Lambda(l) if Arc::ptr_eq(&l.code, &lambda.code)),
        _ => false,
    };
    context.host.find_name(&mut holds)
}

/// Whether the text of a lambda occurs in that of another.
pub(crate) fn is_within(outer: &[u8], inner: &[u8]) -> bool {
    !inner.is_empty() && outer.len() > inner.len() && outer.windows(inner.len()).any(|part| part == inner)
}

/// Returns the full name of a global that holds this lambda. Searches the namespace in which the lambda was defined first, then the others.
pub(crate) fn holder_of(context: &Context, lambda: &Lambda) -> Result<Option<Sym>, QError> {
    let mut spaces = vec![lambda.namespace, Sym::NULL];
    for space in context.host.namespaces() {
        spaces.push(symbol(&[b".", text(space)].concat())?);
    }
    for space in spaces {
        for short in context.host.names(space) {
            let full = qualify(short, space)?;
            if let Some(Value::Func(f)) = context.host.global(full)
                && matches!(&*f, Function::Lambda(l) if Arc::ptr_eq(&l.code, &lambda.code))
            {
                return Ok(Some(full));
            }
        }
    }
    // Then search the namespaces below those.
    let name = name_of(context, lambda);
    Ok((!name.is_null()).then_some(name))
}
