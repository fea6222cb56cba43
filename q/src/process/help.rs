//! Help on names, made from the tables that define them: words and operators, library functions, variables, handlers, commands, errors.

mod errors;
mod forms;

use crate::process::commands::COMMANDS;
use crate::process::handlers::Handler;
use crate::process::prelude::definitions;
use crate::process::system::VARIABLES;
use crate::syntax::parse_query::FORMS;
use crate::syntax::prims::{Arity, PRIMITIVES, Primitive};

/// Help on one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Heading under which the name is listed.
    pub group: &'static str,
    pub name: String,
    /// How it is written with its arguments.
    pub usage: String,
    pub text: String,
}

impl Entry {
    pub fn new(group: &'static str, name: &str, usage: String, text: &str) -> Entry {
        Entry { group, name: name.to_owned(), usage, text: text.to_owned() }
    }
}

/// Groups in the order of the overview; groups of other processes follow.
const OPERATORS: &str = "operators";
const WORDS: &str = "words";
const SYNTAX: &str = "forms";
const LIBRARY: &str = "library";
const SYSTEM: &str = "variables";
const HANDLERS: &str = "handlers";
const COMMAND: &str = "commands";
const ASSIGNMENT: &str = "assignments";
const INTERNAL: &str = "internal functions";
/// Names that no expression contains.
const ERROR: &str = "errors";

fn usage(primitive: &Primitive) -> String {
    let name = primitive.name;
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.');
    match primitive.arity {
        Arity::Binary => format!("x {name} y"),
        Arity::Unary if name.starts_with('.') => format!("{name}[x]"),
        Arity::Unary => format!("{name} x"),
        Arity::Many(least, _) if is_word && least > 3 => format!("{name}[x;y;z;w]"),
        Arity::Many(least, _) if is_word && least > 2 => format!("{name}[x;y;z]"),
        Arity::Many(..) if is_word => format!("{name} x"),
        Arity::Many(1, _) => format!("f{name}x"),
        Arity::Many(..) => format!("x{name}y"),
    }
}

impl Entry {
    /// Whether expressions contain the name: an error's is for `\help` only.
    pub fn is_of_expressions(&self) -> bool {
        self.group != ERROR
    }
}

/// Help on every name of the language.
pub fn entries() -> Vec<Entry> {
    let written = |group, table: &'static [(&str, &str, &str)]| {
        table.iter().map(move |(name, usage, text)| Entry::new(group, name, (*usage).to_owned(), text))
    };
    // `,:` has the help of `x,:y`; `<:` and `>:` are of k.
    let primitives = PRIMITIVES.iter().filter(|p| !matches!(p.name, ",:" | "<:" | ">:" | "2::")).flat_map(move |p| {
        let group = match p.name.bytes().next() {
            Some(b'.') if p.name.len() > 1 => LIBRARY,
            Some(first) if first.is_ascii_alphabetic() => WORDS,
            _ => OPERATORS,
        };
        let forms = written(OPERATORS, &forms::OF_OPERATORS).filter(|form| form.name == p.name);
        std::iter::once(Entry::new(group, p.name, usage(p), p.help)).chain(forms)
    });
    let forms = FORMS.iter().map(|(name, usage, text)| Entry::new(SYNTAX, name, (*usage).to_owned(), text));
    let library = definitions::helps().map(|(name, parameters, text)| {
        let usage = if parameters.is_empty() { name.to_owned() } else { format!("{name}{parameters}") };
        Entry::new(LIBRARY, name, usage, text)
    });
    let variables = VARIABLES.iter().map(|(name, text)| Entry::new(SYSTEM, name, (*name).to_owned(), text));
    let handlers = Handler::ALL.iter().map(|handler| {
        let name = String::from_utf8_lossy(handler.name());
        Entry::new(HANDLERS, &name, format!("{name}:{{…}}"), handler.help())
    });
    let commands = COMMANDS.iter().map(|(usage, text)| {
        let name = usage.split(' ').next().unwrap_or_default();
        Entry::new(COMMAND, name, (*usage).to_owned(), text)
    });
    let through = forms::THROUGH.iter().map(|operator| {
        let text = format!("as x:x{operator}y; x[i]{operator}:y changes items in place");
        Entry::new(ASSIGNMENT, &format!("{operator}:"), format!("x{operator}:y"), &text)
    });
    let errors = errors::ERRORS.iter().map(|(name, text)| Entry::new(ERROR, name, format!("'{name}"), text));
    primitives
        .chain(forms)
        .chain(written(ASSIGNMENT, &forms::ASSIGNMENTS))
        .chain(through)
        .chain(library)
        .chain(variables)
        .chain(handlers)
        .chain(written(HANDLERS, &forms::CALLED))
        .chain(commands)
        .chain(written(INTERNAL, &forms::NUMBERED))
        .chain(errors)
        .collect()
}

/// Returns what `\help` shows: without a name the names of each group, in lines of at most `wide` bytes where they fit; with one, its help; `None` for
/// an unknown name. An error may be written as it is shown, with its quote.
pub fn shown(entries: &[Entry], name: &str, wide: usize) -> Option<String> {
    if name.is_empty() {
        return Some(overview(entries, wide));
    }
    let name = name.strip_prefix('\'').filter(|name| !name.is_empty()).unwrap_or(name);
    let exact: Vec<&Entry> = entries.iter().filter(|entry| entry.name == name).collect();
    let inside = format!("{}.", name.trim_end_matches('.'));
    let found = match exact.is_empty() {
        false => exact,
        true => entries.iter().filter(|entry| entry.name.starts_with(&inside)).collect(),
    };
    let found: Vec<&Entry> = match found.is_empty() {
        false => found,
        true => entries.iter().filter(|entry| entry.group == name).collect(),
    };
    if found.is_empty() {
        return None;
    }
    let wide = found.iter().map(|entry| entry.usage.chars().count()).max().unwrap_or(0);
    let line = |entry: &&Entry| format!("{:wide$}  {}\n", entry.usage, entry.text);
    Some(found.iter().map(line).collect())
}

fn overview(entries: &[Entry], wide: usize) -> String {
    let mut groups: Vec<&'static str> = Vec::new();
    for entry in entries {
        if !groups.contains(&entry.group) {
            groups.push(entry.group);
        }
    }
    let mut out =
        String::from("\\help NAME explains a name, \\help .Q a namespace, \\help errors a heading; Tab completes\n");
    for group in groups {
        let mut names: Vec<&str> = entries.iter().filter(|e| e.group == group).map(|e| e.name.as_str()).collect();
        if ![OPERATORS, INTERNAL].contains(&group) {
            names.sort_unstable();
        }
        names.dedup();
        let mut line = format!("{group}:");
        for name in names {
            if line.len() + 1 + name.len() > wide.max(40) {
                out.push_str(&line);
                out.push('\n');
                line = " ".to_owned();
            }
            line.push(' ');
            line.push_str(name);
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::settings::is_setting;
    use columns::table::symbol::text;

    #[test]
    fn every_name_has_help() {
        let entries = entries();
        let has = |name: &str| entries.iter().any(|entry| entry.name == name && !entry.text.is_empty());
        for entry in &entries {
            assert!(!entry.text.trim().is_empty() && !entry.text.ends_with('.'), "{}: {:?}", entry.name, entry.text);
        }
        let library = definitions::all().map(|name| String::from_utf8_lossy(text(name)).into_owned());
        // Helpers of `.h` that no one calls.
        for name in library.filter(|name| !name.starts_with(".hq.")) {
            assert!(has(&name), "{name} has no comment above its definition");
        }
        for letter in (0..=u8::MAX).filter(|letter| is_setting(&[*letter])) {
            assert!(has(&format!("\\{}", char::from(letter))), "\\{}", char::from(letter));
        }
        let commands = include_str!("commands.rs").split("match word {").nth(1).expect("the commands");
        let arms = commands.split("\n    }\n").next().expect("its arms").lines();
        for arm in arms.map(str::trim).filter(|line| line.starts_with("b\"")) {
            for word in arm.split("=>").next().unwrap_or_default().split('"').skip(1).step_by(2) {
                let word = word.replace("\\\\", "\\");
                assert!(word.is_empty() || has(&format!("\\{word}")), "\\{word}");
            }
        }
    }

    #[test]
    fn a_name_a_namespace_and_a_mistake_are_answered() {
        let entries = entries();
        let of = |name: &str| shown(&entries, name, 80).unwrap_or_default();
        assert!(of("xbar").starts_with("x xbar y  rounds"), "{}", of("xbar"));
        assert!(of(".Q.dd").starts_with(".Q.dd[x;y]  "), "{}", of(".Q.dd"));
        assert!(of("\\P").starts_with("\\P "), "{}", of("\\P"));
        assert!(of(".j").lines().count() >= 3 && of(".j").contains(".j.k[x]"), "{}", of(".j"));
        assert!(of("-11!").lines().count() == 2 && of(",:").starts_with("x,:y  appends"), "{}", of("-11!"));
        assert!(of("0:").lines().count() == 7 && of("0:").lines().skip(1).all(|form| form.matches("0:").count() > 1));
        assert_eq!(of("").matches(" 0:").count(), 1, "{}", of(""));
        assert!(of("type").contains("type x") && of("type").contains("'type  "), "{}", of("type"));
        assert_eq!(of("'length"), of("length"));
        assert!(
            of("commands").contains("\\P ") && of("errors").lines().all(|line| line.starts_with('\'')),
            "{}",
            of("errors")
        );
        assert_eq!(shown(&entries, "averag", 80), None);
        assert!(of("").lines().all(|line| line.len() <= 90), "{}", of(""));
        assert!(of("").contains("xbar") && of("").contains(".z.p"));
    }
}
