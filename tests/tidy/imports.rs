//! The import graph of a crate's files, from their text: paths that begin with `crate`, `super` or `self`, in `use` and elsewhere,
//! and `use` of a file's own submodules. Test code is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Imported files by importing file.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// The imports between the files under `folder`, given as names and texts.
pub fn of(folder: &str, files: &[(String, String)]) -> Imports {
    let is_test =
        |name: &str| Path::new(name).components().any(|c| matches!(c.as_os_str().to_str(), Some("tests" | "tests.rs")));
    let files: Vec<_> = files.iter().filter(|(name, _)| !is_test(name)).collect();
    let modules: BTreeMap<Vec<String>, &String> = files.iter().map(|(name, _)| (module(folder, name), name)).collect();
    let mut imports = Imports::new();
    for (name, text) in files {
        let own = module(folder, name);
        let used = paths(&code(text)).into_iter().filter_map(|path| file_of(&modules, &own, &path));
        // A submodule counts as a part of its parent, so an import of the parent is not an edge.
        let is_above = |other: &&String| own.starts_with(&module(folder, other)) && *other != name;
        imports.insert(name.clone(), used.filter(|other| *other != name && !is_above(other)).cloned().collect());
    }
    imports
}

/// Import cycles, each as the set of its files.
pub fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reach(imports, file))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (file, others) in &reached {
        let both = |other: &&&String| reached.get(**other).is_some_and(|back| back.contains(file));
        let circle: BTreeSet<String> = others.iter().filter(both).map(|other| (*other).clone()).collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// The transitive imports of a file; contains the file itself if it is in a cycle.
fn reach<'i>(imports: &'i Imports, file: &String) -> BTreeSet<&'i String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = imports.get(file).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            open.extend(imports.get(next).into_iter().flatten());
        }
    }
    seen
}

/// Module path of a file from the crate's root; empty for the root.
fn module(folder: &str, name: &str) -> Vec<String> {
    let path = name.strip_prefix(folder).unwrap_or(name).strip_suffix(".rs").unwrap_or(name);
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The text without whole-line comments and tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The file of a path: that of its longest prefix that is a module.
fn file_of<'m>(modules: &BTreeMap<Vec<String>, &'m String>, own: &[String], path: &[String]) -> Option<&'m String> {
    let mut at = match path.first()?.as_str() {
        "crate" => Vec::new(),
        _ => own.to_vec(),
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => drop(at.pop()),
            _ => at.push(part.clone()),
        }
    }
    while !at.is_empty() {
        if let Some(file) = modules.get(&at) {
            return Some(file);
        }
        at.pop();
    }
    None
}

/// The paths of a text into its own crate.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let bytes = code.as_bytes();
    let is_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = at.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
            if !is_word(before) && before != b':' {
                tree(code.get(at..).unwrap_or_default(), &mut Vec::new(), &mut found);
            }
        }
    }
    // `use child::…` of a submodule has none of these prefixes.
    for line in code.lines().filter(|line| line.starts_with("use ") || line.starts_with("pub")) {
        if let Some((_, path)) = line.split_once("use ") {
            tree(&format!("self::{path}"), &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Reads a path or a tree of paths after `prefix`. Returns the rest of the text.
fn tree<'t>(text: &'t str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            let depth = prefix.len();
            let after = tree(rest, prefix, found);
            prefix.truncate(depth);
            let after = after.trim_start();
            let after = after
                .strip_prefix("as ")
                .map_or(after, |alias| alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'));
            rest = after.strip_prefix(',').unwrap_or(after);
            if rest.len() == text.len() || !(rest.trim_start().starts_with('}') || after.starts_with(',')) {
                return rest;
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if word.is_empty() {
        found.push(prefix.clone());
        return rest;
    }
    prefix.push(word.to_owned());
    match rest.strip_prefix("::") {
        Some(rest) => tree(rest, prefix, found),
        None => {
            found.push(prefix.clone());
            rest
        }
    }
}

#[cfg(test)]
mod own {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        of("src/", &files)
    }

    fn used(text: &str) -> Vec<String> {
        let others = [("src/b.rs", ""), ("src/c/mod.rs", ""), ("src/c/d.rs", ""), ("src/a/e.rs", "")];
        let files: Vec<_> = [("src/a.rs", text)].into_iter().chain(others).collect();
        imports(&files)["src/a.rs"].iter().cloned().collect()
    }

    #[test]
    fn a_path_leads_to_the_file_of_its_longest_beginning() {
        assert_eq!(used("use crate::b::Thing;"), ["src/b.rs"]);
        assert_eq!(used("use super::c::d::{Thing, other};"), ["src/c/d.rs"]);
        assert_eq!(used("fn f() { crate::c::g(crate::b::X) }"), ["src/b.rs", "src/c/mod.rs"]);
    }

    #[test]
    fn every_branch_of_a_tree_counts() {
        assert_eq!(used("use crate::{b, c::{self, d as e}};"), ["src/b.rs", "src/c/d.rs", "src/c/mod.rs"]);
    }

    #[test]
    fn a_submodule_is_imported_by_its_bare_name() {
        assert_eq!(used("mod e;\nuse e::Thing;"), ["src/a/e.rs"]);
    }

    #[test]
    fn comments_and_tests_do_not_count() {
        assert_eq!(used("/// [`crate::b`]\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n"), Vec::<String>::new());
    }

    #[test]
    fn a_circle_is_found_and_a_chain_is_not() {
        let chain = imports(&[("src/a.rs", "use crate::b;"), ("src/b.rs", "use crate::c;"), ("src/c.rs", "")]);
        assert_eq!(circles(&chain), Vec::<BTreeSet<String>>::new());
        let circle =
            imports(&[("src/a.rs", "use crate::b;"), ("src/b.rs", "use crate::c;"), ("src/c.rs", "use crate::b;")]);
        assert_eq!(circles(&circle), [BTreeSet::from(["src/b.rs".to_owned(), "src/c.rs".to_owned()])]);
    }

    #[test]
    fn a_part_may_use_the_file_that_it_is_a_part_of() {
        let whole = imports(&[("src/a.rs", "use e::X;"), ("src/a/e.rs", "use super::Y;")]);
        assert_eq!(circles(&whole), Vec::<BTreeSet<String>>::new());
    }
}
