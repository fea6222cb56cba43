//! File symbols, and whether an evaluation may access files.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use columns::table::Sym;
use columns::table::symbol::{intern, text as name_text};

/// Whether this evaluation may access files.
pub(crate) fn allowed(context: &Context) -> bool {
    context.host.caller().may_use_files() && context.host.reaches_files()
}

/// Rejects an evaluation that may not access files.
///
/// # Errors
/// `access`.
pub(crate) fn check(context: &Context) -> Result<(), QError> {
    match allowed(context) {
        true => Ok(()),
        false => Err(QError::with("access", why_not(context, "files", "files"))),
    }
}

/// Why an evaluation may not use something, and who can change that.
pub(crate) fn why_not(context: &Context, what: &str, grant: &str) -> String {
    match context.host.reaches_files() {
        true => {
            format!(
                "{what} are not available to clients; the owner of the process may allow them \
                 (--remote-may {grant} at a node, -u 0 in a session)"
            )
        }
        false => format!("{what} are not available in this process"),
    }
}

/// Whether a symbol names a file rather than a variable.
pub(crate) fn is_path(name: Sym) -> bool {
    name_text(name).first() == Some(&b':')
}

/// The file symbol of `name` in a directory.
///
/// # Errors
/// `limit` if the symbol table is full.
pub(crate) fn inside(folder: Sym, name: Sym) -> Result<Sym, QError> {
    let folder = name_text(folder);
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    intern(&[folder, b"/", name_text(name)].concat()).map_err(QError::from)
}
