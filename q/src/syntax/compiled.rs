//! Compiled form of a lambda: its syntax tree, and the register VM's code.

use crate::runtime::error::{Origin, QError};
use crate::syntax::ast::Code;
use crate::syntax::steps::Slot;
use columns::table::Sym;
use std::sync::OnceLock;

/// Where a lambda was defined: `name:{…}`. As in kdb+ it keeps this under any other name.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Full name of the global.
    pub name: Sym,
    /// Of a definition in a script.
    pub origin: Option<Origin>,
}

/// Compiled form of a lambda, stored in [`columns::table::function::Lambda::code`].
#[derive(Debug, Default)]
pub struct Compiled {
    pub(super) code: OnceLock<Result<Code, QError>>,
    pub(crate) machine: Slot,
    pub(super) definition: OnceLock<Definition>,
}

impl Compiled {
    /// The compiled form of a lambda that the parser met within a text.
    pub fn ready(code: Code) -> Compiled {
        Compiled { code: OnceLock::from(Ok(code)), ..Compiled::default() }
    }
}
