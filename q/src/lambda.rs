//! Lambdas: text now, code when it is first applied.

use super::ast::Code;
use super::error::QError;
use super::{machine, parse};
use columns::table::function::{Function, Lambda};
use columns::table::{Sym, Value};
use std::sync::{Arc, OnceLock};

/// The compiled form behind [`Lambda::code`].
#[derive(Debug, Default)]
pub struct Compiled {
    code: OnceLock<Result<Code, QError>>,
    pub(super) machine: machine::Slot,
}

impl Compiled {
    pub fn ready(code: Code) -> Compiled {
        Compiled { code: OnceLock::from(Ok(code)), machine: machine::Slot::default() }
    }
}

/// A lambda from its text, compiled when it is first applied.
pub fn lambda(source: &[u8], namespace: Sym) -> Value {
    Value::func(Function::Lambda(Lambda { source: source.into(), namespace, code: Arc::new(Compiled::default()) }))
}

/// What the lambda runs; the error of its text if it is not q.
pub fn code(lambda: &Lambda) -> Result<&Code, QError> {
    let compiled = lambda.code.downcast_ref::<Compiled>().ok_or(QError::named("type"))?;
    compiled.code.get_or_init(|| parse::lambda_code(&lambda.source, lambda.namespace)).as_ref().map_err(QError::clone)
}
