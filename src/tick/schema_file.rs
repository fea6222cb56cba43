//! Schema files: q scripts that define the tickerplant's tables.

use crate::q::Limits;
use crate::q::script::{self, ScriptError};
use crate::q::session::Session;
use crate::table::schema::Schema;
use crate::table::{Attr, Sym, Table, Value, symbol};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Definitions of a schema file.
pub struct SchemaFile {
    pub tables: Vec<Schema>,
    /// All globals in order of definition, tables included.
    pub globals: Vec<(Sym, Value)>,
}

/// Schema used if there is no file for the name `sym`.
pub const BUILT_IN: &str = include_str!("../../schemas/sym.q");

/// Source of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    BuiltIn,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", path.display()),
            Source::BuiltIn => f.write_str("built-in sym.q"),
        }
    }
}

/// Finds the schema called `src`: `given` itself if it is a q file, else `SRC.q` in it, `tick/SRC.q` as in kdb+tick, or for `sym` the
/// built-in schema.
pub fn find(given: &Path, src: &str) -> Source {
    if given.extension().is_some_and(|ending| ending == "q") {
        return Source::File(given.to_path_buf());
    }
    let name = format!("{src}.q");
    let first = given.join(&name);
    let found = [first.clone(), Path::new("tick").join(&name)].into_iter().find(|path| path.is_file());
    match found {
        Some(path) => Source::File(path),
        None if src == "sym" => Source::BuiltIn,
        None => Source::File(first),
    }
}

/// Why a schema file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaFileError {
    #[error(
        "no schema: {origin} cannot be read: {error}. The tables of SRC are taken from SRC.q in the directory of --schemas, or \
         from tick/SRC.q; --schemas FILE.q names the file itself"
    )]
    Read { origin: Source, error: io::Error },
    #[error("{origin}, {error}")]
    Script { origin: Source, error: ScriptError },
    #[error(
        "{origin} defines no table: a tickerplant needs at least one, such as \
         trade:([]time:`timespan$();sym:`symbol$();price:`float$())"
    )]
    NoTable { origin: Source },
}

/// Runs a schema file and takes the tables of the root namespace, as kdb+tick does.
///
/// # Errors
/// Those of the file, or of the script with its line.
pub fn load(source: &Source) -> Result<SchemaFile, SchemaFileError> {
    let text = match source {
        Source::BuiltIn => BUILT_IN.as_bytes().to_vec(),
        Source::File(path) => {
            std::fs::read(path).map_err(|error| SchemaFileError::Read { origin: source.clone(), error })?
        }
    };
    parse(&text, source, &Limits::default())
}

/// Returns the definitions of a schema text, with each expression evaluated within the limits; `source` names it in errors.
///
/// # Errors
/// Those of the script, with its line.
pub fn parse(text: &[u8], source: &Source, limits: &Limits) -> Result<SchemaFile, SchemaFileError> {
    let mut session = Session::new();
    script::run(text, &mut session, limits)
        .map_err(|error| SchemaFileError::Script { origin: source.clone(), error })?;
    let globals: Vec<(Sym, Value)> = session.globals().map(|(name, value)| (name, grouped(value.clone()))).collect();
    let in_root = |name: &Sym| !symbol::text(*name).starts_with(b".");
    let tables: Vec<Schema> =
        globals.iter().filter(|(name, _)| in_root(name)).filter_map(|(name, value)| Schema::of(*name, value)).collect();
    if tables.is_empty() {
        return Err(SchemaFileError::NoTable { origin: source.clone() });
    }
    Ok(SchemaFile { tables, globals })
}

/// Sets `` `g# `` on the `sym` column, as kdb+tick does for every table.
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
        let loaded = load(&Source::File(path.clone())).map_err(|error| error.to_string());
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
    fn the_name_sym_has_a_built_in_schema_and_others_have_none() {
        let nowhere = Path::new("no-such-folder");
        assert_eq!(find(nowhere, "sym"), Source::BuiltIn);
        assert_eq!(find(nowhere, "other"), Source::File(nowhere.join("other.q")));
        assert_eq!(load(&Source::BuiltIn).map(|file| file.tables.len()).unwrap(), 2);
    }

    #[test]
    fn a_file_given_is_that_file() {
        assert_eq!(find(Path::new("a/b.q"), "sym"), Source::File("a/b.q".into()));
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert!(tables_of("a:1\nb:`x+1\n", "wrong").is_err_and(|error| error.contains("line 2")));
    }

    #[test]
    fn a_file_without_tables_is_rejected() {
        assert!(tables_of("a:1\n", "none").is_err_and(|error| error.contains("no table")));
    }
}
