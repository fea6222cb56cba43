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

/// Directories below the working directory in which a schema is looked for, after that of `--schemas`.
const DIRECTORIES: [&str; 3] = ["", "schemas", "tick"];

/// Finds the schema called `src`: `given` itself if it is a q file, else `SRC.q` in it, in `DIRECTORIES`, or for `sym` the built-in
/// schema.
///
/// # Errors
/// Where it was looked for.
pub fn find(given: Option<&Path>, src: &str) -> Result<Source, SchemaFileError> {
    if let Some(file) = given.filter(|given| given.extension().is_some_and(|ending| ending == "q")) {
        return Ok(Source::File(file.to_path_buf()));
    }
    let places = places(given, src);
    match (places.iter().find(|place| place.is_file()), src) {
        (Some(place), _) => Ok(Source::File(place.clone())),
        (None, "sym") => Ok(Source::BuiltIn),
        (None, _) => Err(SchemaFileError::Nowhere { src: src.to_string(), places }),
    }
}

/// Returns where `SRC.q` is looked for, in this order.
fn places(given: Option<&Path>, src: &str) -> Vec<PathBuf> {
    let name = format!("{src}.q");
    let mut places: Vec<PathBuf> = Vec::new();
    for place in given.into_iter().chain(DIRECTORIES.map(Path::new)).map(|directory| directory.join(&name)) {
        let place = std::path::absolute(&place).unwrap_or(place);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Where the packages install schemas: the units run in the directory above.
pub const INSTALLED: &str = "/etc/elastick/schemas";

/// Says that the built-in schema is used because no file was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub text: String,
    /// It is most likely not the one that was meant: a directory was given, or there is a file in `installed`.
    pub is_unexpected: bool,
}

/// Describes where no file was found, if the built-in schema is used for that. `installed`: where the packages install schemas.
pub fn missing(given: Option<&Path>, src: &str, found: &Source, installed: &Path) -> Option<Missing> {
    if *found != Source::BuiltIn {
        return None;
    }
    let places = shown(&places(given, src));
    let other = Some(installed.join(format!("{src}.q"))).filter(|file| file.is_file());
    let hint = match &other {
        Some(file) => format!("--schemas {} takes {}", installed.display(), file.display()),
        None => "--schemas DIR names another directory, --schemas FILE.q the file itself".to_string(),
    };
    let text = format!("there is no {src}.q at {places}: using the built-in tables trade and quote; {hint}");
    Some(Missing { text, is_unexpected: given.is_some() || other.is_some() })
}

/// Why a schema file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaFileError {
    #[error(
        "no schema: there is no {src}.q, which defines the tables. It was looked for at {}; --schemas DIR names another \
         directory, --schemas FILE.q the file itself",
        shown(places)
    )]
    Nowhere { src: String, places: Vec<PathBuf> },
    #[error("no schema: {origin} cannot be read: {error}")]
    Read { origin: Source, error: io::Error },
    #[error("{origin}, {error}")]
    Script { origin: Source, error: ScriptError },
    #[error(
        "{origin} defines no table: a tickerplant needs at least one, such as \
         trade:([]time:`timespan$();sym:`symbol$();price:`float$())"
    )]
    NoTable { origin: Source },
}

fn shown(places: &[PathBuf]) -> String {
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    places.join(", ")
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
        let nowhere = Path::new("/no-such-folder");
        let folder = std::env::current_dir().unwrap();
        let error = find(Some(nowhere), "other").unwrap_err().to_string();
        let places = [nowhere.to_path_buf(), folder.clone(), folder.join("schemas"), folder.join("tick")];
        assert!(error.contains(&shown(&places.map(|place| place.join("other.q")))), "{error}");
        assert_eq!(load(&Source::BuiltIn).map(|file| file.tables.len()).unwrap(), 2);
    }

    #[test]
    fn the_places_without_a_file_are_named_if_the_built_in_schema_is_used() {
        let nowhere = Path::new("/no-such-folder");
        let words = missing(Some(nowhere), "sym", &Source::BuiltIn, nowhere).unwrap();
        assert!(words.is_unexpected && words.text.contains("no sym.q at /no-such-folder/sym.q, "), "{words:?}");
        assert!(words.text.contains("built-in") && words.text.contains("--schemas DIR"), "{words:?}");
        assert_eq!(missing(None, "sym", &Source::File("/schemas/sym.q".into()), nowhere), None);
        // A first start without files and options is meant to use the built-in schema, unless the package has installed a schema file.
        assert!(!missing(None, "sym", &Source::BuiltIn, nowhere).unwrap().is_unexpected);
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        let words = missing(None, "sym", &Source::BuiltIn, &installed).unwrap();
        let hint = format!("--schemas {0} takes {0}/sym.q", installed.display());
        assert!(words.is_unexpected && words.text.contains(&hint), "{words:?}");
    }

    #[test]
    fn a_file_given_is_that_file() {
        assert_eq!(find(Some(Path::new("a/b.q")), "sym").unwrap(), Source::File("a/b.q".into()));
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
