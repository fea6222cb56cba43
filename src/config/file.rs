//! The configuration file: its keys with their lines, checked against the table of options.

use super::closest::closest;
use super::options::{self, OptionSpec, Program};
use std::fmt;
use toml::de::{DeTable, DeValue};

/// A key of a configuration file with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The program of its section; `None` at the top.
    pub section: Option<Program>,
    pub key: String,
    /// From 1.
    pub line: usize,
    /// The value as it would stand on the command line.
    pub text: String,
}

impl Entry {
    /// Returns the option that this key sets for a program.
    pub fn spec(&self, program: Program) -> Option<&'static OptionSpec> {
        let applies = self.section.is_none_or(|section| section == program);
        options::of(program).find(|spec| applies && spec.is_named(&self.key))
    }

    /// Returns the programs for which this key sets an option.
    pub fn programs(&self) -> impl Iterator<Item = (Program, &'static OptionSpec)> {
        Program::ALL.iter().filter_map(|program| Some((*program, self.spec(*program)?)))
    }
}

/// What is wrong with a line of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// A configuration file as read: what is set, in the order of lines, and what is wrong.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
}

/// Reads the text of a file. The values of keys are not checked.
pub fn parse(text: &str) -> ConfigFile {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut file = ConfigFile::default();
    if !errors.is_empty() {
        // What was recovered of a file with errors would only add errors that are none.
        file.problems.extend(errors.iter().map(|error| syntax(error, text)));
        return file;
    }
    let mut reader = Reader { text, file };
    for (key, value) in document.get_ref() {
        let line = reader.line(key.span().start);
        match (section(key.get_ref()), value.get_ref()) {
            (Some(program), DeValue::Table(table)) => {
                for (key, value) in table {
                    let line = reader.line(key.span().start);
                    reader.key(Some(program), key.get_ref(), line, value.get_ref());
                }
            }
            (None, DeValue::Table(_)) => reader.problem(line, unknown_section(key.get_ref())),
            (_, value) => reader.key(None, key.get_ref(), line, value),
        }
    }
    file = reader.file;
    file.entries.sort_by_key(|entry| entry.line);
    twice(&mut file);
    file.problems.sort_by_key(|problem| problem.line);
    file
}

/// Reads the text of a file and checks every value for every program that it is set for.
pub fn check(text: &str) -> ConfigFile {
    let mut file = parse(text);
    for entry in &file.entries {
        // One option of several programs has one check, and two options may reject a value for the same reason.
        let mut reasons: Vec<String> = Vec::new();
        for (_, spec) in entry.programs() {
            if let Err(reason) = spec.checked(&entry.text)
                && !reasons.contains(&reason)
            {
                reasons.push(reason);
            }
        }
        let problem = |reason| Problem { line: entry.line, text: format!("{}: {reason}", entry.key) };
        file.problems.extend(reasons.into_iter().map(problem));
    }
    file.problems.sort_by_key(|problem| problem.line);
    file
}

struct Reader<'a> {
    text: &'a str,
    file: ConfigFile,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }

    fn problem(&mut self, line: usize, text: String) {
        self.file.problems.push(Problem { line, text });
    }

    fn key(&mut self, section: Option<Program>, key: &str, line: usize, value: &DeValue<'_>) {
        let text = match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().ok().map(|number| number.to_string()),
            DeValue::Boolean(on) => Some(on.to_string()),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
        };
        match text {
            None => {
                let kind = value.type_str();
                self.problem(line, format!("{key} is no text, number or boolean but a TOML {kind}: write it in quotes, as on the command line"));
            }
            Some(text) => {
                let entry = Entry { section, key: key.to_string(), line, text };
                match misplaced(&entry) {
                    Some(problem) => self.problem(line, problem),
                    None => self.file.entries.push(entry),
                }
            }
        }
    }
}

fn section(name: &str) -> Option<Program> {
    Program::ALL.into_iter().find(|program| program.name() == name)
}

fn unknown_section(name: &str) -> String {
    let sections = Program::ALL.map(Program::name);
    match closest(name, sections) {
        Some(section) => format!("unknown section [{name}]; did you mean [{section}]?"),
        None => format!("unknown section [{name}]; there are {}", listed(&sections)),
    }
}

/// Returns why a key sets no option, or not one of its section.
fn misplaced(entry: &Entry) -> Option<String> {
    let key = entry.key.as_str();
    if key == options::CONFIG.spec.name {
        return Some("a file cannot name another one: --config and ELASTICK_CONFIG do".to_string());
    }
    let mut specs: Vec<(Program, &OptionSpec)> = entry.programs().collect();
    specs.dedup_by_key(|(_, spec)| spec.name);
    match specs.as_slice() {
        [] => {}
        [_] => return None,
        [(first, one), (second, other), ..] => {
            return Some(format!(
                "{key} is {} for {} and {} for {}: write the name that you mean",
                one.name,
                first.name(),
                other.name,
                second.name()
            ));
        }
    }
    let elsewhere: Vec<&str> = Program::ALL
        .into_iter()
        .filter(|program| options::of(*program).any(|spec| spec.is_named(key)))
        .map(Program::name)
        .collect();
    let suggestion = |names: &mut dyn Iterator<Item = &'static str>| {
        closest(key, names).map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
    };
    let of_files = || Program::ALL.into_iter().flat_map(options::of).filter(|spec| !spec.foreign).map(|spec| spec.name);
    Some(match entry.section {
        Some(program) if !elsewhere.is_empty() => {
            let places: Vec<String> = elsewhere.iter().map(|name| format!("[{name}]")).collect();
            format!("{} has no option {key:?}, which belongs to {}", program.name(), listed(&places))
        }
        Some(program) => {
            let mut own = options::of(program).filter(|spec| !spec.foreign).map(|spec| spec.name);
            format!("unknown option {key:?}{}", suggestion(&mut own))
        }
        None => format!("unknown option {key:?}{}", suggestion(&mut of_files())),
    })
}

/// Adds a problem for each option that is set twice in the same section, by two of its names.
fn twice(file: &mut ConfigFile) {
    let mut problems = Vec::new();
    for (at, entry) in file.entries.iter().enumerate() {
        let Some((_, spec)) = entry.programs().next() else { continue };
        let earlier = file.entries.iter().take(at);
        let other = earlier.filter(|other| other.section == entry.section).find(|other| spec.is_named(&other.key));
        if let Some(other) = other {
            let text = format!("{} is {} of line {} again", entry.key, other.key, other.line);
            problems.push(Problem { line: entry.line, text });
        }
    }
    file.problems.extend(problems);
}

/// `a, b and c`.
fn listed<T: AsRef<str>>(names: &[T]) -> String {
    match names.split_last() {
        Some((last, [])) => last.as_ref().to_string(),
        Some((last, first)) => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
        None => String::new(),
    }
}

/// Returns the line of a byte, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1)
}

/// Describes a syntax error of a file.
fn syntax(error: &toml::de::Error, text: &str) -> Problem {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or_default();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count().saturating_add(1);
    let line = line_of(before, at);
    if let Some(earlier) = earlier(error, text, line) {
        return Problem { line, text: earlier };
    }
    let message = error.message().replace('\n', ", ");
    let text = format!("column {column}: {message}; write values as key = \"text\", key = 12 or key = true");
    Problem { line, text }
}

/// Describes a section or a key that is there twice, of which the parser says less.
fn earlier(error: &toml::de::Error, text: &str, line: usize) -> Option<String> {
    let name = text.get(error.span()?)?.trim();
    let header = |line: &str| Some(line.trim().strip_prefix('[')?.split_once(']')?.0.trim().to_string());
    let lines: Vec<&str> = text.lines().take(line).collect();
    let (own, before) = lines.split_last()?;
    if error.message() != "duplicate key" {
        return None;
    }
    if let Some(section) = header(own) {
        let first = before.iter().position(|line| header(line).as_ref() == Some(&section))?.saturating_add(1);
        return Some(format!(
            "[{section}] has begun in line {first} already: a section is there once, put its keys together"
        ));
    }
    let is_it = |line: &&str| line.split_once('=').is_some_and(|(key, _)| key.trim() == name);
    let of_section = before.iter().rposition(|line| header(line).is_some()).map_or(0, |at| at.saturating_add(1));
    let first = before.iter().skip(of_section).position(is_it)?.saturating_add(of_section).saturating_add(1);
    Some(format!("{name} is set in line {first} already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problems of a file, one per line.
    fn problems(text: &str) -> Vec<String> {
        check(text).problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_section_or_a_key_that_is_there_twice_is_named_with_the_line_of_the_first() {
        let text = "[tick]\nport = 1\n\n[rdb]\nport = 1\n\n [ tick ] # again\nkeep-days = 3\n";
        let section = "line 7: [tick] has begun in line 1 already: a section is there once, put its keys together";
        assert_eq!(problems(text), [section]);
        assert_eq!(
            problems("[tick]\nport = 1\n[rdb]\nport = 3\n  port = 2\n"),
            ["line 5: port is set in line 4 already"]
        );
    }

    #[test]
    fn a_key_of_another_program_is_a_problem_with_its_place() {
        let text = "[tick]\n\nmemory = \"4GB\"\n";
        assert_eq!(problems(text), ["line 3: tick has no option \"memory\", which belongs to [rdb]"]);
        assert_eq!(problems("memory = \"4GB\"\n"), Vec::<String>::new(), "a key at the top is for those that have it");
    }

    #[test]
    fn every_problem_is_reported_in_the_order_of_lines() {
        let text = "# all\nlog-filter = \"loud\"\nprot = 1\n[rdb]\nscale = 0.6\nmemory = 4\ntables = [\"trade\"]\nquery-treads = 2\n[ticks]\nx = 1\n";
        let found = problems(text);
        for (problem, (line, word)) in found.iter().zip([
            (2, "not a log filter"),
            (3, "\"port\"?"),
            (5, "60%"),
            (6, "4GiB"),
            (7, "in quotes"),
            (8, "\"query-threads\"?"),
            (9, "[tick]?"),
        ]) {
            assert!(problem.starts_with(&format!("line {line}: ")) && problem.contains(word), "{problem}");
        }
        assert_eq!(found.len(), 7, "{found:?}");
    }

    #[test]
    fn a_value_is_checked_for_every_program_that_has_the_key() {
        assert_eq!(problems("[fleet]\nmax = \"many\"").len(), 1);
        assert_eq!(problems("[demo]\nminutes = 0").len(), 1);
        assert_eq!(
            problems("limit-outbox = \"much\""),
            ["line 1: limit-outbox: \"much\" is not a size; write it like 64KiB, 512MB or 2GiB"]
        );
    }

    #[test]
    fn a_former_name_is_a_key_where_it_means_one_option() {
        assert_eq!(problems("[tick]\nroll = \"17:00 UTC\"\n[rdb]\nroll = 80\n"), Vec::<String>::new());
        let [problem] = &problems("roll = 80")[..] else { panic!("one problem") };
        assert!(problem.contains("roll-time for tick and roll-threshold for rdb"), "{problem}");
        let [problem] = &problems("[tick]\nroll = \"17:00 UTC\"\nroll-time = \"18:00 UTC\"\n")[..] else {
            panic!("one problem")
        };
        assert_eq!(problem, "line 3: roll-time is roll of line 2 again");
    }

    #[test]
    fn a_file_names_no_other_file() {
        assert!(problems("config = \"other.toml\"")[0].contains("ELASTICK_CONFIG"));
    }

    #[test]
    fn a_syntax_error_has_line_and_column() {
        let [problem] = &problems("a = 1\nport = \n")[..] else { panic!("only what is no TOML is reported") };
        assert!(problem.starts_with("line 2: column 8: "), "{problem}");
    }
}
