//! Schema files: q scripts whose tables are the tickerplant's.

use crate::q::script::{self, ScriptError};
use crate::q::session::Session;
use crate::table::schema::Schema;
use crate::table::{Attr, Sym, Table, Value, symbol};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a schema file defines.
pub struct SchemaFile {
    pub tables: Vec<Schema>,
    /// All that it defines, tables included, in order.
    pub globals: Vec<(Sym, Value)>,
}

/// Why a schema file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaFileError {
    #[error("{path}: {error}")]
    Read { path: PathBuf, error: io::Error },
    #[error("{path}, {error}")]
    Script { path: PathBuf, error: ScriptError },
    #[error("{path} defines no table")]
    NoTable { path: PathBuf },
}

/// Runs a schema file and takes the tables of the root namespace, as kdb+tick does.
///
/// # Errors
/// The file's, or the script's with its line.
pub fn load(path: &Path) -> Result<SchemaFile, SchemaFileError> {
    let text = std::fs::read(path).map_err(|error| SchemaFileError::Read { path: path.to_path_buf(), error })?;
    let mut session = Session::new();
    script::run(&text, &mut session).map_err(|error| SchemaFileError::Script { path: path.to_path_buf(), error })?;
    let globals: Vec<(Sym, Value)> = session.globals().map(|(name, value)| (name, grouped(value.clone()))).collect();
    let in_root = |name: &Sym| !symbol::text(*name).starts_with(b".");
    let tables: Vec<Schema> =
        globals.iter().filter(|(name, _)| in_root(name)).filter_map(|(name, value)| Schema::of(*name, value)).collect();
    if tables.is_empty() {
        return Err(SchemaFileError::NoTable { path: path.to_path_buf() });
    }
    Ok(SchemaFile { tables, globals })
}

/// kdb+tick puts `` `g# `` on the symbols of every table.
fn grouped(value: Value) -> Value {
    let Value::Table(table) = &value else { return value };
    let mut table: Table = Table::clone(table);
    for (name, column) in table.names.iter().zip(&mut table.columns) {
        if symbol::text(*name) == b"sym" {
            column.attr = Attr::Grouped;
        }
    }
    Value::Table(Arc::new(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables_of(text: &str, name: &str) -> Result<Vec<String>, String> {
        let path = std::env::temp_dir().join(format!("elastick-schema-{name}-{}.q", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let loaded = load(&path).map_err(|error| error.to_string());
        std::fs::remove_file(&path).unwrap();
        let name = |schema: &Schema| String::from_utf8_lossy(symbol::text(schema.name)).into_owned();
        loaded.map(|file| file.tables.iter().map(name).collect())
    }

    #[test]
    fn tables_of_the_root_are_taken_in_order() {
        let text = "trade:([]time:`timespan$();sym:`g#`symbol$())\nlimit:10\n\
                    .x.hidden:([]a:())\nquote:([]time:`timestamp$();sym:`symbol$();note:())\n";
        assert_eq!(tables_of(text, "order").unwrap(), ["trade", "quote"]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert!(tables_of("a:1\nb:`x+1\n", "wrong").is_err_and(|said| said.contains("line 2")));
    }

    #[test]
    fn a_file_without_tables_is_refused() {
        assert!(tables_of("a:1\n", "none").is_err_and(|said| said.contains("no table")));
    }
}
