//! Databases that the process's owner has loaded. As with kdb+, clients query their partitioned tables, whether or not they may access files.

use crate::io::files::path;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::paths::allowed;
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use proto::types;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Notes the directories of the partitions of a loaded database. What a client has loaded is shown to nobody who may not access files.
pub(super) fn note(context: &mut Context, places: &[Sym]) {
    if context.host.caller().remote {
        return;
    }
    let unique: HashSet<Sym> = places.iter().copied().collect();
    for place in unique {
        // The working directory may change later.
        if let Ok(folder) = std::fs::canonicalize(folder_of(place)) {
            context.host.show_place(place, folder);
        }
    }
}

/// The directory that has the partition of a value. Clients cannot assign `.Q.pd`, `.Q.pv` and the owner's tables; should a name come from one all
/// the same, a caller without access to files finds only tables in directories that the owner has loaded.
///
/// # Errors
/// `access`.
pub(super) fn directory(
    context: &Context,
    place: Sym,
    value: &Value,
    table: Sym,
    columns: Option<&[Sym]>,
) -> Result<PathBuf, QError> {
    let is_partition =
        matches!(value.type_number().unsigned_abs() as i8, types::INT | types::LONG | types::MONTH | types::DATE);
    let shown = context.host.shown_places().iter().find(|(known, _)| *known == place);
    match shown {
        Some((_, folder))
            if !allowed(context)
                && context.host.reaches_files()
                && is_partition
                && is_name(table)
                && columns.is_some_and(|columns| columns.iter().all(|column| is_name(*column))) =>
        {
            Ok(folder.clone())
        }
        _ => path(context, &Value::Sym(place)),
    }
}

fn folder_of(place: Sym) -> &'static Path {
    let written = text(place);
    Path::new(std::ffi::OsStr::from_bytes(written.strip_prefix(b":").unwrap_or(written)))
}

/// Whether a symbol names an entry of a directory.
fn is_name(name: Sym) -> bool {
    let name = text(name);
    !name.is_empty() && !name.starts_with(b".") && !name.contains(&b'/') && !name.contains(&0)
}
