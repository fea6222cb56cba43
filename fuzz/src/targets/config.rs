//! Operator input: configuration files and schemas.

use crate::answer;
use elastick::config::{Limits, Program, Settings, options};
use elastick::tick::core::Tables;
use elastick::tick::schema_file::{self, Source};
use std::path::Path;

/// Target `config`: the first byte selects the program, the rest is its configuration file.
pub fn config(bytes: &[u8]) {
    let Some((program, bytes)) = bytes.split_first() else { return };
    let program = Program::ALL[usize::from(*program) % Program::ALL.len()];
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let flag = |name: &str| (name == "config").then(|| "elastick.toml".to_string());
    let resolved = Settings::resolve(program, &flag, &|_| None, &|_: &Path| Ok(text.to_string()));
    match resolved {
        Ok(settings) => {
            // Settings that passed the check must resolve.
            Limits::resolve(&settings).expect("limits");
            assert!(settings.get(&options::CONFIG).is_ok_and(|path| path == Path::new("elastick.toml")));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Target `schema`: a schema file.
pub fn schema(bytes: &[u8]) {
    let Ok(found) = schema_file::parse(bytes, &Source::BuiltIn, &answer::limits()) else { return };
    assert!(!found.tables.is_empty());
    // A tickerplant accepts the tables, or rejects them with a reason.
    match Tables::new(found.tables.iter().cloned()) {
        Ok(tables) => assert_eq!(tables.len(), found.tables.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
