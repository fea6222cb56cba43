//! Compiled form of a lambda: its syntax tree, and the register VM's code.

use crate::runtime::error::QError;
use crate::syntax::ast::Code;
use crate::syntax::steps::Slot;
use std::sync::OnceLock;

/// Compiled form of a lambda, stored in [`columns::table::function::Lambda::code`].
#[derive(Debug, Default)]
pub struct Compiled {
    pub(super) code: OnceLock<Result<Code, QError>>,
    pub(crate) machine: Slot,
}

impl Compiled {
    /// The compiled form of a lambda that the parser met within a text.
    pub fn ready(code: Code) -> Compiled {
        Compiled { code: OnceLock::from(Ok(code)), machine: Slot::default() }
    }
}
