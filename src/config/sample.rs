//! A configuration file with every key, what it means and its default, from the table of options.

use super::file::Entry;
use super::options::{self, OptionSpec, Program};
use std::fmt::Write;

/// Width at which comments are wrapped.
const WIDTH: usize = 110;

const HEAD: &str = "\
# Configuration of elastick: every key with its meaning and default. Remove the # before a key to set it.
#
# The command line wins over variables (ELASTICK_PORT for port), and those over this file. A key at the top is for all programs
# named after its text; one in a section is for that program only, and wins.
#
#   elastick config check FILE                            names each wrong line
#   elastick config show tick --config FILE               each effective value, and where it was set
#   elastick config show --defaults --config FILE         this text with the keys set in FILE, as after an upgrade
";

/// Returns the text of a file in which the keys of `entries` are set and all others are comments.
pub fn sample(entries: &[Entry]) -> String {
    let mut out = HEAD.to_string();
    for spec in listed(options::all()).filter(|spec| is_shared(spec)) {
        key(&mut out, spec, true, set(entries, None, spec));
    }
    for program in Program::ALL {
        let _ = write!(out, "\n[{}]\n", program.name());
        for spec in listed(options::of(program)) {
            match (is_shared(spec), set(entries, Some(program), spec)) {
                // A key at the top is for each program that has an option of that name.
                (false, text) => key(&mut out, spec, false, text.or_else(|| set(entries, None, spec))),
                (true, Some(text)) => {
                    let _ = writeln!(out, "\n{} = {}", spec.name, value(spec, text));
                }
                (true, None) => {}
            }
        }
    }
    out
}

/// The options that a file may set with an effect.
fn listed(specs: impl Iterator<Item = &'static OptionSpec>) -> impl Iterator<Item = &'static OptionSpec> {
    specs.filter(|spec| !spec.foreign && spec.name != options::CONFIG.spec.name)
}

fn programs_of(spec: &OptionSpec) -> Vec<&'static str> {
    Program::ALL.into_iter().filter(|program| spec.belongs_to(*program)).map(Program::name).collect()
}

/// Whether an option stands at the top: several programs have it, and no section has its name, as `[fleet]` has that of `fleet`.
fn is_shared(spec: &OptionSpec) -> bool {
    programs_of(spec).len() > 1 && Program::ALL.iter().all(|program| program.name() != spec.name)
}

/// Returns the text that a section, or the top, sets for an option.
fn set<'a>(entries: &'a [Entry], section: Option<Program>, spec: &OptionSpec) -> Option<&'a str> {
    let of_section = entries.iter().filter(|entry| entry.section == section);
    let is_it = |entry: &&Entry| match section {
        // At the top, the key is for all options of that name.
        None => spec.is_named(&entry.key),
        Some(program) => entry.spec(program).is_some_and(|own| own.name == spec.name),
    };
    of_section.filter(is_it).map(|entry| entry.text.as_str()).next()
}

fn key(out: &mut String, spec: &OptionSpec, is_shared: bool, text: Option<&str>) {
    let mut help = spec.help.to_string();
    if is_shared {
        let _ = write!(help, " ({})", programs_of(spec).join(", "));
    }
    let default = match spec.default {
        Some(default) if !default.is_empty() => default,
        _ if spec.value.is_empty() => "false",
        _ => {
            help.push_str(". No default");
            spec.value
        }
    };
    out.push('\n');
    comment(out, &help);
    let _ = match text {
        Some(text) => writeln!(out, "{} = {}", spec.name, value(spec, text)),
        None => writeln!(out, "#{} = {}", spec.name, value(spec, default)),
    };
}

fn comment(out: &mut String, text: &str) {
    let mut column: usize = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count().saturating_add(1);
        if column == 0 || column.saturating_add(length) > WIDTH {
            out.push_str(if column == 0 { "#" } else { "\n#" });
            column = 1;
        }
        let _ = write!(out, " {word}");
        column = column.saturating_add(length);
    }
    out.push('\n');
}

/// Returns an option's value in TOML.
pub fn value(spec: &OptionSpec, text: &str) -> String {
    let is_number = text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    let is_switch = spec.value.is_empty() && matches!(text, "true" | "false");
    match is_number || is_switch {
        true => text.to_string(),
        // Strings of JSON are strings of TOML.
        false => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    /// The text with every key set.
    fn uncommented() -> String {
        let line = |line: &str| match line.strip_prefix('#') {
            Some(rest) if rest.contains(" = ") && !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        };
        sample(&[]).lines().map(line).collect()
    }

    #[test]
    fn every_key_is_known_and_every_default_valid() {
        let found = file::check(&uncommented());
        let lacks_default = |line: usize| {
            let entry = found.entries.iter().find(|entry| entry.line == line).expect("an entry");
            entry.programs().any(|(_, spec)| spec.default.is_none_or(str::is_empty))
        };
        let wrong: Vec<_> = found.problems.iter().filter(|problem| !lacks_default(problem.line)).collect();
        assert!(wrong.is_empty() && found.entries.len() > 100, "{wrong:?}");
    }

    #[test]
    fn every_option_of_every_program_is_there_once() {
        let found = file::parse(&uncommented());
        for program in Program::ALL {
            for spec in listed(options::of(program)) {
                let keys =
                    found.entries.iter().filter(|entry| entry.spec(program).is_some_and(|own| own.name == spec.name));
                assert_eq!(keys.count(), 1, "{} of {program:?}", spec.name);
            }
        }
        assert!(file::parse(&sample(&[])).entries.is_empty());
    }

    #[test]
    fn the_file_in_the_packages_is_up_to_date() {
        let text = include_str!("../../deploy/server/elastick.toml");
        let found = file::check(text);
        assert_eq!(found.problems, []);
        let how = "elastick config show --defaults --config deploy/server/elastick.toml prints it again";
        assert!(sample(&found.entries) == text, "deploy/server/elastick.toml is out of date: {how}");
    }

    #[test]
    fn a_key_at_the_top_that_stands_in_sections_is_set_in_each() {
        let given = file::check("memory = \"4GiB\"\nfleet = \"none\"\n");
        let printed = sample(&given.entries);
        assert_eq!((given.problems, file::check(&printed).problems), (vec![], vec![]));
        let count = |line: &str| printed.lines().filter(|found| *found == line).count();
        assert_eq!((count("memory = \"4GiB\""), count("fleet = \"none\"")), (1, 3));
    }

    #[test]
    fn keys_that_are_set_stay_set() {
        let text = "limit-outbox = \"128MiB\"\n[tick]\nroll = \"17:00 UTC\"\nlimit-outbox = \"1GiB\"\nquiet = true\n[rdb]\nport = 5011\n";
        let given = file::check(text);
        assert_eq!(given.problems, []);
        let printed = sample(&given.entries);
        let again = file::check(&printed);
        assert_eq!(again.problems, []);
        let plain = |entries: &[Entry]| {
            let of =
                |entry: &Entry| (entry.section, entry.programs().next().expect("an option").1.name, entry.text.clone());
            let mut plain: Vec<_> =
                entries.iter().map(of).map(|(s, key, text)| (s.map(Program::name), key, text)).collect();
            plain.sort();
            plain
        };
        assert_eq!(plain(&again.entries), plain(&given.entries));
        assert_eq!(sample(&again.entries), printed, "printed again it is the same");
    }
}
