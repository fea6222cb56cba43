//! Effective settings: flags before environment before file before default, each with its source.

use super::options::{self, Opt, OptionSpec, Program};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    CommandLine,
    /// Name of the variable.
    Variable(String),
    File(PathBuf),
    /// Supplied at the start by the named source, such as a tag of the instance.
    Told(String),
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::CommandLine => f.write_str("command line"),
            Source::Variable(name) => f.write_str(name),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Told(name) => f.write_str(name),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A configuration error, with the place to change.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error("{name} (from {source_name}): {reason}")]
    Value { name: &'static str, source_name: String, reason: String },
    #[error("{name} must be given: {help}")]
    Missing { name: &'static str, help: &'static str },
    #[error("{path}: {reason}")]
    File { path: PathBuf, reason: String },
    #[error("{path}: unknown option {key:?}{hint}")]
    UnknownKey { path: PathBuf, key: String, hint: String },
}

/// Raw values of one program, checked against the table.
#[derive(Clone, Debug)]
pub struct Settings {
    program: Program,
    values: HashMap<&'static str, (String, Source)>,
}

impl Settings {
    /// Returns the defaults.
    pub fn defaults(program: Program) -> Settings {
        let values = options::of(program)
            .filter_map(|spec| Some((spec.name, (spec.default?.to_string(), Source::Default))))
            .collect();
        Settings { program, values }
    }

    /// Merges the sources. `flag` and `variable` look up by option name and by variable name.
    ///
    /// Every value is checked, even if it is never used, so that an invalid one is found at start.
    pub fn resolve(
        program: Program,
        flag: &dyn Fn(&str) -> Option<String>,
        variable: &dyn Fn(&str) -> Option<String>,
        read_file: &dyn Fn(&Path) -> std::io::Result<String>,
    ) -> Result<Settings, ConfigError> {
        let from_variables = |spec: &OptionSpec| {
            let own = spec.variable();
            let names = std::iter::once(own.as_str()).chain(spec.variables.iter().copied());
            names.into_iter().find_map(|name| Some((variable(name)?, Source::Variable(name.to_string()))))
        };
        let given = |spec: &OptionSpec| {
            flag(spec.name).map(|text| (text, Source::CommandLine)).or_else(|| from_variables(spec))
        };
        let file = match given(&options::CONFIG.spec) {
            Some((path, _)) => read(program, Path::new(&path), read_file)?,
            None => HashMap::new(),
        };
        let mut settings = Settings::defaults(program);
        for spec in options::of(program) {
            let Some((text, source)) = given(spec).or_else(|| file.get(spec.name).cloned()) else { continue };
            checked(spec, &text).map_err(|reason| ConfigError::Value {
                name: spec.name,
                source_name: source.to_string(),
                reason,
            })?;
            settings.values.insert(spec.name, (text, source));
        }
        Ok(settings)
    }

    pub fn program(&self) -> Program {
        self.program
    }

    /// Returns the value of an option; `None` if it is not set and has no default.
    pub fn find<T>(&self, option: &Opt<T>) -> Result<Option<T>, ConfigError> {
        let Some((text, source)) = self.values.get(option.spec.name) else { return Ok(None) };
        (option.parse)(text).map(Some).map_err(|reason| ConfigError::Value {
            name: option.spec.name,
            source_name: source.to_string(),
            reason,
        })
    }

    /// Returns the value of an option that must have one.
    pub fn get<T>(&self, option: &Opt<T>) -> Result<T, ConfigError> {
        self.find(option)?.ok_or(ConfigError::Missing { name: option.spec.name, help: option.spec.help })
    }

    /// Whether a switch is on.
    pub fn is_on(&self, option: &Opt<bool>) -> Result<bool, ConfigError> {
        Ok(self.find(option)?.unwrap_or(false))
    }

    /// Whether no source has set an option. False if one has set it to the default value.
    pub fn is_default<T>(&self, option: &Opt<T>) -> bool {
        matches!(self.source(option), None | Some(Source::Default))
    }

    /// Sets an option if no source has set it; `from` names the new source in errors.
    ///
    /// # Errors
    /// The text is not a valid value of the option.
    pub fn supply<T>(&mut self, option: &'static Opt<T>, text: &str, from: &str) -> Result<(), ConfigError> {
        if self.is_default(option) {
            let spec = &option.spec;
            (spec.check)(text).map_err(|reason| ConfigError::Value {
                name: spec.name,
                source_name: from.to_string(),
                reason,
            })?;
            self.values.insert(spec.name, (text.to_string(), Source::Told(from.to_string())));
        }
        Ok(())
    }

    /// Returns the source of an option's value; `None` if it has no value.
    pub fn source<T>(&self, option: &Opt<T>) -> Option<&Source> {
        self.values.get(option.spec.name).map(|(_, source)| source)
    }
}

/// Validates a given value.
fn checked(spec: &OptionSpec, text: &str) -> Result<(), String> {
    if text.trim().is_empty() && !spec.empty {
        return Err("the value is empty; set one, or unset the option".to_string());
    }
    (spec.check)(text)
}

/// Values from a TOML file by option name.
type FileValues = HashMap<&'static str, (String, Source)>;

/// Reads a TOML file: keys for all programs, then those of the program's own section.
fn read(
    program: Program,
    path: &Path,
    read_file: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<FileValues, ConfigError> {
    let wrong = |reason: String| ConfigError::File { path: path.to_path_buf(), reason };
    let text = read_file(path).map_err(|error| wrong(format!("cannot read the --config file: {error}")))?;
    let document: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(place_of(&error, &text)))?;
    let mut values = FileValues::new();
    let mut sections = Vec::new();
    for (key, value) in &document {
        match (Program::ALL.iter().find(|program| program.name() == key), value) {
            (Some(section), toml::Value::Table(table)) => sections.push((*section, table)),
            _ => insert(&mut values, program, path, key, value)?,
        }
    }
    for (section, table) in sections {
        let mut own = FileValues::new();
        for (key, value) in table {
            insert(&mut own, section, path, key, value)?;
        }
        if section == program {
            values.extend(own);
        }
    }
    Ok(values)
}

/// Describes a syntax error of a file on one line.
fn place_of(error: &toml::de::Error, text: &str) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or_default();
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!(
        "line {line}, column {column}: {}; write values as key = \"text\", key = 12 or key = true",
        error.message().replace('\n', ", ")
    )
}

/// Handles one key. Of a key that belongs only to other programs, just the name is checked.
fn insert(
    values: &mut FileValues,
    program: Program,
    path: &Path,
    key: &str,
    value: &toml::Value,
) -> Result<(), ConfigError> {
    let Some(spec) = options::of(program).chain(options::all()).find(|spec| spec.name == key) else {
        let hint = match closest(key) {
            Some(name) => format!("; did you mean {name:?}?"),
            None => String::new(),
        };
        return Err(ConfigError::UnknownKey { path: path.to_path_buf(), key: key.to_string(), hint });
    };
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(on) => on.to_string(),
        _ => {
            let reason = format!("{key} is {}; expected a string, number or boolean", value.type_str());
            return Err(ConfigError::File { path: path.to_path_buf(), reason });
        }
    };
    values.insert(spec.name, (text, Source::File(path.to_path_buf())));
    Ok(())
}

/// Returns the option whose name shares the longest prefix with a mistyped key.
fn closest(key: &str) -> Option<&'static str> {
    let shared = |name: &str| name.bytes().zip(key.bytes()).take_while(|(a, b)| a == b).count();
    options::all().map(|spec| (shared(spec.name), spec.name)).filter(|(n, _)| *n >= 3).max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::Scale;

    fn resolve(
        program: Program,
        flags: &[(&str, &str)],
        variables: &[(&str, &str)],
        file: &str,
    ) -> Result<Settings, ConfigError> {
        let find = |pairs: &[(&str, &str)], name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        };
        Settings::resolve(program, &|name| find(flags, name), &|name| find(variables, name), &|_| Ok(file.to_string()))
    }

    #[test]
    fn flags_win_over_environment_over_file_over_default() {
        let file = "roll-threshold = 10\n[rdb]\nroll-threshold = 20\n";
        let value = |flags: &[_], variables: &[_]| {
            resolve(Program::Rdb, flags, variables, file).unwrap().get(&options::ROLL_THRESHOLD).unwrap()
        };
        let config = ("config", "elastick.toml");
        let variable = ("ELASTICK_ROLL_THRESHOLD", "30%");
        assert_eq!(value(&[], &[]), 85.0);
        assert_eq!(value(&[config], &[]), 20.0);
        assert_eq!(value(&[config], &[variable]), 30.0);
        assert_eq!(value(&[config, ("roll-threshold", "40%")], &[variable]), 40.0);
    }

    #[test]
    fn the_papers_variables_are_read() {
        let settings = resolve(Program::Rdb, &[], &[("SCALETHRESHOLD", "60"), ("ROLLTHRESHOLD", "80")], "").unwrap();
        assert_eq!(settings.get(&options::SCALE), Ok(Scale::At(60.0)));
        assert_eq!(settings.get(&options::ROLL_THRESHOLD), Ok(80.0));
    }

    #[test]
    fn a_wrong_value_names_where_it_was_set() {
        let error = resolve(Program::Rdb, &[], &[("ROLLTHRESHOLD", "lots")], "").unwrap_err();
        assert!(error.to_string().starts_with("roll-threshold (from ROLLTHRESHOLD): "), "{error}");
    }

    #[test]
    fn an_empty_value_is_rejected_wherever_it_was_given() {
        for program in Program::ALL {
            for spec in options::of(program).filter(|spec| !spec.empty) {
                let file = format!("{} = \" \"", spec.name);
                let variable = spec.variable();
                let given = [
                    resolve(program, &[(spec.name, "")], &[], ""),
                    resolve(program, &[], &[(variable.as_str(), "")], ""),
                    resolve(program, &[("config", "f")], &[], &file),
                ];
                // The file cannot set its own path.
                for result in given.into_iter().take(if spec.name == "config" { 1 } else { 3 }) {
                    let error = result.expect_err(spec.name).to_string();
                    assert!(error.starts_with(&format!("{} (from ", spec.name)) && error.contains("empty"), "{error}");
                }
            }
        }
        let off = resolve(Program::Rdb, &[("unix-sockets", "")], &[], "").unwrap();
        assert_eq!(off.get(&options::UNIX_SOCKETS).as_deref(), Ok(""));
    }

    #[test]
    fn an_unknown_key_is_rejected_with_a_hint() {
        let error = resolve(Program::Tick, &[("config", "f")], &[], "durabilty = \"os\"").unwrap_err();
        assert!(error.to_string().contains("did you mean \"durability\""), "{error}");
    }

    #[test]
    fn another_programs_section_does_not_apply() {
        let settings = resolve(Program::Tick, &[("config", "f")], &[], "[rdb]\nport = 7\n").unwrap();
        assert_eq!(settings.source(&options::PORT), Some(&Source::Default));
    }

    #[test]
    fn every_default_is_a_value_of_its_option() {
        for spec in options::all() {
            if let Some(default) = spec.default {
                assert_eq!((spec.check)(default), Ok(()), "{}", spec.name);
            }
        }
    }

    #[test]
    fn a_name_or_letter_means_one_thing_in_a_program() {
        for program in Program::ALL {
            let specs: Vec<_> = options::of(program).collect();
            for (at, spec) in specs.iter().enumerate() {
                let clash = specs
                    .iter()
                    .skip(at + 1)
                    .find(|other| other.name == spec.name || (spec.letter.is_some() && other.letter == spec.letter));
                assert!(clash.is_none(), "{} and {:?} in {program:?}", spec.name, clash);
            }
        }
    }
}
