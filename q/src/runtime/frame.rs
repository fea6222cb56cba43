//! State of the evaluator's walk over the nodes of one text or lambda.

use crate::runtime::error::QError;
use columns::table::{Sym, Value};

/// Reason for an early end of a walk.
pub(crate) enum Flow {
    Error(QError),
    /// `:x` in a lambda.
    Return(Value),
}

impl From<QError> for Flow {
    fn from(error: QError) -> Flow {
        Flow::Error(error)
    }
}

/// Locals of a running lambda.
pub(crate) struct Frame {
    pub locals: Vec<Option<Value>>,
    /// Its code is the owner's.
    pub is_owners: bool,
    /// Of a functional query: the locals of the lambda that calls it, which its symbols name too.
    pub among: Vec<(Sym, Value)>,
}

/// Result of a node.
pub(crate) type Walk<T = Value> = Result<T, Flow>;
