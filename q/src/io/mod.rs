//! Files, handles, environment and the IPC format.

pub(crate) mod environment;
pub(crate) mod files;
pub mod handles;
pub(crate) mod stored;
pub(crate) mod wire;
