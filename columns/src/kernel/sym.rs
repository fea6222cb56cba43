//! The symbol type of columns.

use crate::sys::region::Pod;
use crate::sys::shared::Nests;

/// An interned symbol: an index into the process's symbol table. `Sym(0)` is the null symbol. Ordered by id, not by text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Sym(pub u32);

impl Sym {
    pub const NULL: Sym = Sym(0);
}

impl Nests for Sym {}

// SAFETY: transparent over `u32`.
unsafe impl Pod for Sym {}
