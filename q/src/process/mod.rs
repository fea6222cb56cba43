//! The process around the language: sessions, commands, settings, scripts, handlers, and the table of primitives.

pub(crate) mod above;
pub(crate) mod commands;
pub(crate) mod entry;
pub(crate) mod functions;
pub mod handlers;
pub mod help;
pub(crate) mod modules;
pub(crate) mod prelude;
pub(crate) mod rules;
pub mod script;
pub mod session;
pub(crate) mod settings;
pub mod startup;
pub(crate) mod system;
pub(crate) mod vocabulary;
