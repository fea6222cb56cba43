//! Effective settings: flags before environment before file before default, each with its source.

use super::file;
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
    /// Path, and line of the key.
    File(PathBuf, usize),
    /// Supplied at the start by the named source, such as a tag of the instance.
    Told(String),
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::CommandLine => f.write_str("command line"),
            Source::Variable(name) => f.write_str(name),
            Source::File(path, line) => write!(f, "{}, line {line}", path.display()),
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
            spec.checked(&text).map_err(|reason| ConfigError::Value {
                name: spec.name,
                source_name: source.to_string(),
                reason,
            })?;
            settings.values.insert(spec.name, (text, source));
        }
        Ok(settings)
    }

    /// Returns all options of the program with their texts and sources, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = (&'static OptionSpec, Option<(&str, &Source)>)> {
        options::of(self.program)
            .map(|spec| (spec, self.values.get(spec.name).map(|(text, source)| (text.as_str(), source))))
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
    let found = file::parse(&text);
    if let Some(problem) = found.problems.first() {
        let more = match found.problems.len() {
            0 | 1 => String::new(),
            problems => format!(" (the first of {problems} problems; `elastick config check FILE` lists them)"),
        };
        return Err(wrong(format!("{problem}{more}")));
    }
    let mut values = FileValues::new();
    // A key of the program's own section wins over one at the top.
    let (top, own): (Vec<_>, Vec<_>) = found.entries.into_iter().partition(|entry| entry.section.is_none());
    for entry in top.into_iter().chain(own) {
        if let Some(spec) = entry.spec(program) {
            values.insert(spec.name, (entry.text, Source::File(path.to_path_buf(), entry.line)));
        }
    }
    Ok(values)
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
        let error = resolve(Program::Tick, &[("config", "f")], &[], "\ndurabilty = \"os\"").unwrap_err();
        assert_eq!(error.to_string(), "f: line 2: unknown option \"durabilty\"; did you mean \"durability\"?");
    }

    #[test]
    fn a_key_of_another_program_is_rejected() {
        for program in [Program::Tick, Program::Rdb] {
            let error = resolve(program, &[("config", "f")], &[], "[tick]\nmemory = \"4GB\"").unwrap_err();
            assert!(error.to_string().starts_with("f: line 2: tick has no option \"memory\""), "{error}");
        }
    }

    #[test]
    fn a_value_of_a_file_is_named_with_its_line() {
        let error = resolve(Program::Rdb, &[("config", "f")], &[], "[rdb]\n\nmemory = 4\n").unwrap_err();
        assert!(error.to_string().starts_with("memory (from f, line 3): "), "{error}");
    }

    #[test]
    fn a_former_name_sets_its_option_in_every_source() {
        let roll = |flags: &[_], variables: &[_], file: &str| {
            resolve(Program::Tick, flags, variables, file).unwrap().get(&options::ROLL).unwrap().time.hour()
        };
        assert_eq!(roll(&[], &[("ELASTICK_ROLL", "17:00 UTC")], ""), 17);
        assert_eq!(roll(&[("config", "f")], &[], "[tick]\nroll = \"18:00 UTC\""), 18);
        assert_eq!(roll(&[("config", "f")], &[], "[tick]\nroll-time = \"19:00 UTC\""), 19);
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
    fn an_option_takes_what_its_help_shows() {
        let example = |shown: &str| match shown {
            "TIME" => Some("5s".to_string()),
            "SIZE" => Some("2GiB".to_string()),
            "PERCENT" => Some("85%".to_string()),
            "COUNT" | "N" | "INDEX" | "DAYS" | "MS" | "SECONDS" | "MB" => Some("3".to_string()),
            "PORT" => Some("5010".to_string()),
            "HH:MM" | "HH:MM [ZONE]" => Some("17:00".to_string()),
            "DATE" => Some("2026.11.21".to_string()),
            "DATETIME" => Some("2026-11-21T09:30".to_string()),
            "HOST:PORT" => Some("tp1:5010".to_string()),
            word if word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') => {
                Some(word.to_string())
            }
            _ => None,
        };
        for spec in options::all().filter(|spec| !spec.foreign && !spec.value.is_empty()) {
            for shown in spec.value.split('|') {
                if let Some(text) = example(shown) {
                    assert_eq!(spec.checked(&text), Ok(()), "{} {shown}", spec.name);
                }
            }
        }
    }

    #[test]
    fn a_name_or_letter_means_one_thing_in_a_program() {
        for program in Program::ALL {
            let specs: Vec<_> = options::of(program).collect();
            for (at, spec) in specs.iter().enumerate() {
                let names = || spec.aliases.iter().chain([&spec.name]);
                let clash = specs.iter().skip(at + 1).find(|other| {
                    names().any(|name| other.is_named(name)) || (spec.letter.is_some() && other.letter == spec.letter)
                });
                assert!(clash.is_none(), "{} and {:?} in {program:?}", spec.name, clash);
            }
        }
    }
}
