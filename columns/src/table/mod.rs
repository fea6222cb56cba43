//! Symbols, values, vectors, growing columns, schemas, stores: the data that q computes with and nodes hold.

pub mod column;
pub mod domains;
pub mod function;
pub mod grouped;
pub mod indexed;
pub mod nulls;
pub mod row_index;
pub mod schema;
pub mod store;
pub mod symbol;
pub mod value;
pub mod vector;
pub mod wire;

pub use crate::kernel::sym::Sym;
pub use function::Function;
pub use schema::Schema;
pub use store::Store;
pub use value::{Dict, Table, Value};
pub use vector::{Attr, Element, Items, Raw, Vector};
