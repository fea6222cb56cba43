//! Symbols, values, shared vectors, growing columns, schemas: what q computes with and what nodes hold.

pub mod function;
pub mod symbol;
pub mod value;
pub mod vector;

pub use crate::kernel::sym::Sym;
pub use function::Function;
pub use value::{Dict, Table, Value};
pub use vector::{Attr, Items, Vector};
