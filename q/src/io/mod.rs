//! Files, handles, environment and the IPC format.

mod appending;
pub(crate) mod environment;
pub(crate) mod files;
pub mod handles;
mod own_messages;
pub(crate) mod pipe;
pub(crate) mod snapshot;
pub(crate) mod stored;
pub(crate) mod wire;
