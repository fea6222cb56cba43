//! Lambdas: created from text, compiled on first use.

use crate::runtime::error::{Origin, QError};
use crate::runtime::locked;
use crate::syntax::ast::Code;
use crate::syntax::compiled::{Compiled, Definition};
use crate::syntax::parse;
use columns::table::function::{Function, Lambda};
use columns::table::{Sym, Value};
use std::sync::Arc;

/// Makes a lambda from its text; it is compiled when first applied.
pub fn lambda(source: &[u8], namespace: Sym) -> Value {
    // Only scripts are locked, no function that arrives as a value.
    let source = locked::unmarked(source);
    Value::func(Function::Lambda(Lambda { source: source.into(), namespace, code: Arc::new(Compiled::default()) }))
}

/// Returns the lambda's code, compiling it if needed.
///
/// # Errors
/// That of the lambda's text, if it does not parse.
pub fn code(lambda: &Lambda) -> Result<&Code, QError> {
    let compiled = lambda.code.downcast_ref::<Compiled>().ok_or(QError::named("type"))?;
    compiled.code.get_or_init(|| parse::lambda_code(&lambda.source, lambda.namespace)).as_ref().map_err(QError::clone)
}

/// Where the lambda was defined, if by `name:{…}`.
pub(crate) fn definition(lambda: &Lambda) -> Option<&Definition> {
    lambda.code.downcast_ref::<Compiled>()?.definition.get()
}

/// Records the definition of a lambda; the first one counts. `from` is the line of a script.
pub(crate) fn define(lambda: &Lambda, name: Sym, from: Option<Origin>) {
    let Some(compiled) = lambda.code.downcast_ref::<Compiled>() else { return };
    compiled.definition.get_or_init(|| {
        let column = code(lambda).map_or(0, |code| code.start);
        Definition { name, origin: from.map(|from| Origin { column, ..from }) }
    });
}
