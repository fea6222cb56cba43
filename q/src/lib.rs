//! The q language: lexer, parser, evaluator, primitives, qSQL and console formatting. Independent of tickerplants: a
//! process offers its tables, handles and files to queries through [`host::Host`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod eval;
mod io;
mod process;
mod qsql;
mod runtime;
mod syntax;
mod verbs;
mod vm;

pub use io::handles;
pub use io::wire::{from_owned, from_view, to_wire};
pub use process::entry::{apply, eval_among, eval_line, eval_message, eval_text, parse_names, takes};
pub use process::rules::{Rules, allow_list};
pub use process::vocabulary::intern_words;
pub use process::{handlers, help, script, session, startup};
pub use qsql::restrict;
pub use runtime::console::Console;
pub use runtime::error::{QError, shown as shown_error};
pub use runtime::host::{Caller, Grants, Host, Made, NEEDS_OWNER, Threads};
pub use runtime::limits::{Limits, SharedMemory};
pub use runtime::settings::{Settings, adopt, settings};
pub use runtime::time::now_utc_ns as now_ns;
pub use runtime::{error, guard, host, names, refused};
pub use syntax::called::called;
pub use syntax::foreign::holds_foreign_code;
pub use verbs::append::extend;
pub use verbs::format::one_line;
pub use verbs::show::{cut_note, show};

#[cfg(test)]
mod tests;

/// Runs the README's example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
