//! The base of every layer: errors, limits, threads, the state of one evaluation, the host.

pub(crate) mod author;
pub(crate) mod console;
pub(crate) mod context;
pub mod error;
pub(crate) mod footprint;
pub(crate) mod frame;
pub(crate) mod gather;
pub mod guard;
pub mod host;
pub(crate) mod limits;
pub(crate) mod line;
pub(crate) mod locked;
pub mod names;
pub(crate) mod op;
pub(crate) mod paths;
pub(crate) mod read_only;
pub mod refused;
pub(crate) mod registers;
pub(crate) mod scalar;
pub(crate) mod scope;
pub(crate) mod sections;
pub(crate) mod seeds;
pub(crate) mod settings;
pub(crate) mod threads;
pub(crate) mod time;
pub(crate) mod values;
