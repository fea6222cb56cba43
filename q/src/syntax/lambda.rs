//! Lambdas: created from text, compiled on first use.

use crate::runtime::error::QError;
use crate::syntax::ast::Code;
use crate::syntax::compiled::Compiled;
use crate::syntax::parse;
use columns::table::function::{Function, Lambda};
use columns::table::{Sym, Value};
use std::sync::Arc;

/// Makes a lambda from its text; it is compiled when first applied.
pub fn lambda(source: &[u8], namespace: Sym) -> Value {
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
