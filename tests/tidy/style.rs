//! Length of functions and lines, and the words of comments.

use super::{code_lines, files, markdown, name, rust_files, sources, text};
use std::collections::BTreeSet;

/// Longest function, in lines from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 90;

/// Longer functions, and why. The list gets shorter.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[
    (
        "q/src/vm/run.rs",
        "steps",
        "one match over all steps of the register VM: a call for each costs a tenth of its speed",
    ),
    ("src/cli/tick.rs", "run", "reads every option of the tickerplant"),
    ("src/log/open.rs", "walk", "one pass over log and side file"),
];

/// Longest line of code, string literals not counted.
const COLUMNS_MAX: usize = 150;

/// Words of the former private dialect, and the field's term for each (`docs/glossary.md`). Comments, Markdown and string literals use the
/// latter.
const WORDS: &[(&str, &str)] = &[
    ("vital signs", "liveness"),
    ("whoever", "name the thing that acts"),
    ("one who", "name the thing that acts"),
    ("is told", "is notified, is sent"),
    ("was told", "was notified, was sent"),
    ("told of", "notified of"),
    ("hears of", "learns of, receives"),
    ("asked for", "requested"),
    ("asks for", "requests"),
    ("spoken here", "supported"),
    ("in vain", "say what failed"),
    ("anew", "again, rebuilt"),
    ("strangers", "pending connections"),
    ("stranger", "pending connection"),
    ("forsake", "abandon"),
    ("farewell", "drain, termination"),
    ("ebb", "allocator trim"),
    ("out of sight", "hidden from queries"),
    ("fresh reads", "reads that bypass the page cache"),
    ("behind the live", "after the live"),
];

/// Parts of names in code that no identifier has, and the field's term for each.
const NAMES: &[(&str, &str)] = &[
    ("heart", "watchdog"),
    ("ebb", "trim"),
    ("strangers", "pending"),
    ("forsake", "abandon"),
    ("farewell", "termination"),
    ("whoever", "name the thing that acts"),
    ("vital", "liveness"),
    ("MOST", "MAX_"),
    ("LEAST", "MIN_"),
];

/// Where those words still stand as names in code that comments speak of.
fn is_quoted(line: &str, word: &str) -> bool {
    line.split('`').skip(1).step_by(2).any(|code| code.contains(word))
}

/// Whether the words stand in the line, as whole words.
fn has_words(line: &str, words: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(words).any(|(at, found)| {
        let (before, after) = (line.get(..at).unwrap_or_default(), line.get(at + found.len()..).unwrap_or_default());
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

#[test]
fn functions_fit_on_a_screen_or_say_why_not() {
    let mut found = BTreeSet::new();
    let mut long = Vec::new();
    for path in sources() {
        let (name, text) = (name(&path), text(&path));
        let lines: Vec<&str> = text.lines().collect();
        for (function, first, last) in functions(&lines) {
            let count = last - first + 1;
            if count > FUNCTION_LINES_MAX {
                match LONG_FUNCTIONS.iter().find(|(file, known, _)| *file == name && *known == function) {
                    Some((file, known, _)) => drop(found.insert((*file, *known))),
                    None => long.push(format!("{name}:{}: {function} has {count} lines", first + 1)),
                }
            }
        }
    }
    let gone = LONG_FUNCTIONS.iter().filter(|(file, function, _)| !found.contains(&(*file, *function)));
    long.extend(gone.map(|(file, function, _)| format!("{file}: {function} is no longer long; take it off the list")));
    assert!(long.is_empty(), "over {FUNCTION_LINES_MAX} lines:\n{}", long.join("\n"));
}

/// Name, first and last line of each function with a body on lines of its own, as rustfmt lays it out.
fn functions<'a>(lines: &[&'a str]) -> Vec<(&'a str, usize, usize)> {
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some((before, rest)) = code.split_once("fn ") else { continue };
        let is_signature = before
            .split_whitespace()
            .all(|word| word.starts_with("pub") || ["const", "unsafe", "async", "super)", "crate)"].contains(&word));
        if !is_signature || code.ends_with(';') || code.ends_with('}') {
            continue;
        }
        let end = format!("{indent}}}");
        let last = lines.iter().enumerate().skip(first + 1).find(|(_, line)| **line == end || line.ends_with(");"));
        let Some((last, line)) = last else { continue };
        // A signature without a body, of a trait, ends with a semicolon.
        if *line == end {
            found.push((rest.split(['(', '<']).next().unwrap_or_default(), first, last));
        } else if let Some((last, _)) = lines.iter().enumerate().skip(first + 1).find(|(_, line)| **line == end) {
            found.push((rest.split(['(', '<']).next().unwrap_or_default(), first, last));
        }
    }
    found
}

#[test]
fn no_line_of_code_is_too_long() {
    let mut long = Vec::new();
    for path in rust_files() {
        for (line, code) in code_lines(&text(&path)) {
            let columns = without_strings(code).chars().count();
            if columns > COLUMNS_MAX {
                long.push(format!("{}:{line}: {columns} columns", name(&path)));
            }
        }
    }
    assert!(long.is_empty(), "over {COLUMNS_MAX} columns without string literals:\n{}", long.join("\n"));
}

/// A line without its string literals.
fn without_strings(line: &str) -> String {
    split(line).0
}

/// The string literals of a line.
fn strings(line: &str) -> String {
    split(line).1
}

/// The text of a line outside and inside double quotes.
fn split(line: &str) -> (String, String) {
    let (mut outer, mut inner, mut inside, mut escaped) = (String::new(), String::new(), false, false);
    for c in line.chars() {
        if escaped {
            escaped = false;
        } else if inside && c == '\\' {
            escaped = true;
        } else if c == '"' {
            inside = !inside;
            inner.push(' ');
        } else if inside {
            inner.push(c);
        } else {
            outer.push(c);
        }
    }
    (outer, inner)
}

#[test]
fn comments_texts_and_documents_use_the_terms_of_the_field() {
    let mut wrong = Vec::new();
    let folders = ["", "docs", "src", "tests", "benches", "deploy", "fuzz", "proto", "columns", "q", "sim", "examples"];
    let documents = folders.into_iter().flat_map(markdown).filter(|path| !path.ends_with("glossary.md"));
    let comments = rust_files().into_iter().filter(|path| !name(path).starts_with("tests/tidy"));
    for path in documents.chain(comments) {
        let is_code = path.extension().is_some_and(|ending| ending == "rs");
        for (line, words) in text(&path).lines().enumerate() {
            let read =
                if !is_code || words.trim_start().starts_with("//") { words.to_string() } else { strings(words) };
            let lower = read.to_lowercase();
            for (word, term) in WORDS.iter().filter(|(word, _)| has_words(&lower, word) && !is_quoted(&lower, word)) {
                wrong.push(format!("{}:{}: {word:?}: {term}", name(&path), line + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_in_code_use_the_terms_of_the_field() {
    let mut wrong = Vec::new();
    for path in rust_files() {
        for (line, code) in code_lines(&text(&path)) {
            for defined in definitions(code) {
                let parts = parts(defined);
                for (part, term) in
                    NAMES.iter().filter(|(part, _)| parts.iter().any(|own| own == part || own.to_lowercase() == *part))
                {
                    wrong.push(format!("{}:{line}: {defined}: {part}: {term}", name(&path)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names that a line of code defines.
fn definitions(code: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> = code.split_whitespace().collect();
    let pairs: Vec<(&str, &str)> = words.iter().copied().zip(words.iter().copied().skip(1)).collect();
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];
    pairs.into_iter().filter(move |(keyword, _)| keywords.contains(keyword)).map(|(_, rest)| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    })
}

/// The parts of a name: `send` and `buffer` of `SendBuffer`, `MAX` and `PAUSE` of `MAX_PAUSE`.
fn parts(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let is_screaming = !name.contains(char::is_lowercase);
    for c in name.chars() {
        match c {
            '_' => spaced.push(' '),
            c if c.is_uppercase() && !is_screaming => spaced.extend([' ', c.to_ascii_lowercase()]),
            c => spaced.push(c),
        }
    }
    spaced.split_whitespace().map(str::to_string).collect()
}

#[test]
fn a_name_is_split_at_its_words() {
    assert_eq!(parts("SendBuffer"), ["send", "buffer"]);
    assert_eq!(parts("MAX_PAUSE"), ["MAX", "PAUSE"]);
    assert_eq!(definitions("pub(crate) const fn is_set(&self)").collect::<Vec<_>>(), ["fn", "is_set"]);
}

#[test]
fn markdown_of_every_folder_is_found() {
    assert!(files("src", "md").len() > 8);
    assert!(markdown("src").len() > 8);
}

#[test]
fn a_function_ends_at_its_own_brace() {
    let text = "impl A {\n    fn a() {\n        b();\n    }\n\n    pub(super) fn c(\n        d: u8,\n    ) -> u8 {\n        d\n    }\n}\n";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(functions(&lines), [("a", 1, 3), ("c", 5, 9)]);
}
