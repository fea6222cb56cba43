//! File symbols, and whether an evaluation may access files.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use columns::table::Sym;
use columns::table::symbol::{intern, text as name_text};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

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

/// The directories in which files are looked for after the working directory: the values of these environment variables, in order.
const HOMES: [&str; 2] = ["QHOME", "QLIC"];

/// The file that is read under a path. As in kdb+, a relative one that is not in the working directory is looked for in `QHOME`, then in `QLIC`; not
/// for callers who are kept inside the working directory.
pub(crate) fn sought(context: &Context, path: PathBuf) -> PathBuf {
    if context.host.caller().is_kept_inside() {
        return path;
    }
    sought_in(HOMES.iter().filter_map(std::env::var_os), path)
}

fn sought_in(homes: impl Iterator<Item = OsString>, path: PathBuf) -> PathBuf {
    let is_name = path.components().next().is_some_and(|first| matches!(first, Component::Normal(_)));
    if !is_name || path.exists() {
        return path;
    }
    let mut found = homes.filter(|home| !home.is_empty()).map(|home| Path::new(&home).join(&path));
    found.find(|found| found.exists()).unwrap_or(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_looked_for_in_the_homes_after_the_working_directory() {
        let root = std::env::temp_dir().join(format!("elastick-homes-{}", std::process::id()));
        let homes = || [OsString::new(), root.join("a").into(), root.join("b").into()].into_iter();
        for file in ["a/both.q", "b/both.q", "b/lib/one.q"] {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
            std::fs::write(file, "x:1").expect("written");
        }
        let sought = |path: &str| sought_in(homes(), path.into());
        assert_eq!(sought("both.q"), root.join("a/both.q"));
        assert_eq!(sought("lib/one.q"), root.join("b/lib/one.q"));
        assert_eq!(sought("none.q"), PathBuf::from("none.q"));
        assert_eq!(sought("./both.q"), PathBuf::from("./both.q"));
        assert_eq!(sought("../both.q"), PathBuf::from("../both.q"));
        assert_eq!(sought("/both.q"), PathBuf::from("/both.q"));
        // Tests run in the directory of their crate.
        assert_eq!(sought("Cargo.toml"), PathBuf::from("Cargo.toml"));
        let _ = std::fs::remove_dir_all(&root);
    }
}
