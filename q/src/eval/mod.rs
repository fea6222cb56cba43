//! The evaluator: syntax nodes, application, iterators, pattern assignment, views.

mod among;
pub(crate) mod apply;
mod by_key;
pub(crate) mod globals;
mod in_place;
pub(crate) mod internal;
pub(crate) mod iterate;
mod languages;
pub(crate) mod namespace;
pub(crate) mod numbered;
pub(crate) mod pattern;
pub(crate) mod peach;
mod suspend;
pub(crate) mod trap;
pub(crate) mod views;
pub(crate) mod walk;
