//! Behaviour of the log as a whole, one file for each theme.

mod golden;
mod seek;
mod support;
