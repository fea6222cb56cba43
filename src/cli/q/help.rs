//! `\help` in the console: names of the language, and those of tickerplant and nodes.

use crate::config::closest::close;
use crate::q::help::{Entry, entries, shown};
use crate::rdb;
use crate::tick::plant::{functions, values};

/// The text of `\help` and `\help NAME`; `None` for any other line.
pub fn answer(line: &[u8], columns: usize) -> Option<Vec<u8>> {
    let rest = line.strip_prefix(b"\\help")?;
    if rest.first().is_some_and(|c| !c.is_ascii_whitespace()) {
        return None;
    }
    let name = String::from_utf8_lossy(rest.trim_ascii()).into_owned();
    let entries = all();
    Some(shown(&entries, &name, columns.saturating_sub(1)).unwrap_or_else(|| unknown(&entries, &name)).into_bytes())
}

/// Most names that an unknown one brings up.
const MAX_NEAR: usize = 12;

/// What `\help` shows of an unknown name: those that are written nearly like it, then those whose help has it.
fn unknown(entries: &[Entry], name: &str) -> String {
    let lower = name.trim_start_matches('\'').to_lowercase();
    let has = |entry: &&Entry| {
        lower.len() > 1 && (entry.name.to_lowercase().contains(&lower) || entry.text.to_lowercase().contains(&lower))
    };
    let written = close(&lower, entries.iter().map(|entry| &*entry.name));
    let mut near: Vec<&str> = Vec::new();
    for found in written.into_iter().chain(entries.iter().filter(has).map(|entry| &*entry.name)) {
        if !near.contains(&found) && near.len() < MAX_NEAR {
            near.push(found);
        }
    }
    let near = if near.is_empty() { String::new() } else { format!("near: {}; ", near.join(" ")) };
    format!("no such name: {name}; {near}\\help lists all names\n")
}

/// Names for completion in a console whose globals are elsewhere.
pub fn names() -> Vec<String> {
    all().into_iter().filter(Entry::is_of_expressions).map(|entry| entry.name).collect()
}

/// Names that `\help` explains.
pub fn explained() -> Vec<String> {
    all().into_iter().map(|entry| entry.name).collect()
}

/// Lines and variables of the debugger, in which an error suspends an evaluation: name, form, meaning.
const DEBUGGER: [(&str, &str, &str); 9] = [
    (":", ":x", "debugger: goes on with x in the place of what failed"),
    (":", ":", "debugger: goes on with the generic null in its place"),
    ("'", "'name", "debugger: ends the innermost function with this error"),
    ("\\", "\\", "debugger: ends the evaluation with its error"),
    ("`", "`", "debugger: goes up to the caller"),
    (".", ".", "debugger: goes down to what was called"),
    ("&", "&", "debugger: shows the frame with its place in the source; .Q.bt[] shows all of them"),
    (".z.ex", ".z.ex", "debugger: the primitive that failed"),
    (".z.ey", ".z.ey", "debugger: the list of its arguments"),
];

fn all() -> Vec<Entry> {
    const PLANT: &str = "tickerplant";
    let debugger = DEBUGGER.map(|(name, form, meaning)| Entry::new("debugger", name, form.to_owned(), meaning));
    let functions = functions::FUNCTIONS.iter().map(|row| {
        let role = row.role.map_or(String::new(), |role| format!(" (role {})", role.name()));
        let usage = format!("{}[{}]", row.name, row.parameters.join(";"));
        Entry::new(PLANT, row.name, usage, &format!("{}{role}", row.does))
    });
    let variables = values::VARIABLES.iter().zip(values::HOLDS);
    let variables = variables.map(|(name, holds)| Entry::new(PLANT, name, (*name).to_owned(), holds));
    let node = rdb::scope::NAMES
        .iter()
        .chain(&rdb::paper_names::FIGURES)
        .map(|(name, holds)| Entry::new("node", name, (*name).to_owned(), holds));
    entries().into_iter().chain(debugger).chain(functions).chain(variables).chain(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tickerplant_and_node_have_help() {
        for (name, start) in [
            (".u.sub", ".u.sub[table;symbols]  subscribes"),
            (".u.i", ".u.i  "),
            (".rdb.stats", ".rdb.stats  "),
            ("select", "select columns"),
        ] {
            let text = answer(format!("\\help {name}").as_bytes(), 80).expect("help");
            assert!(text.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(&text));
        }
        assert!(all().iter().all(|entry| !entry.text.is_empty()));
        for (name, near) in [("selct", "near: select"), ("pirce", "no such name: pirce"), ("averag", "near: ")] {
            let text = String::from_utf8(answer(format!("\\help {name}").as_bytes(), 80).expect("help")).expect("text");
            assert!(text.starts_with("no such name: ") && text.contains(near), "{text}");
        }
        assert!(answer(b"\\helpers", 80).is_none() && answer(b"help", 80).is_none());
        assert!(answer(b"\\help", 80).is_some_and(|text| text.windows(7).any(|part| part == b".u.stat")));
    }
}
