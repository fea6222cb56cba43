//! The house stays in order: file sizes, the direction of imports, where `unsafe` may stand, words that have no place
//! in code.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates, each with its modules from left to right; a module imports only from those that stand in an earlier group, or its
/// own group's own files. Modules in one group do not know one another. That a crate imports none that stands behind it here,
/// Cargo sees to.
const CRATES: &[(&str, &[&[&str]])] = &[
    ("columns/src/", &[&["sys"], &["kernel"], &["table"]]),
    (
        "src/",
        &[
            &["config"],
            &["metrics"],
            &["queue", "lease", "log"],
            &["net"],
            &["fleet"],
            &["tick", "rdb", "feed"],
            &["monitor", "sim"],
            &["cli"],
        ],
    ),
];

/// Folders with the source of every crate.
const SOURCES: [&str; 4] = ["proto/src", "columns/src", "q/src", "src"];

/// The only folders in which `unsafe` may stand.
const UNSAFE: [&str; 2] = ["columns/src/sys/", "columns/src/kernel/"];

/// The pure cores: no clock, no I/O, no threads, no randomness.
const PURE: &[&str] = &[
    "src/queue/",
    "src/lease/",
    "src/tick/core",
    "src/tick/day",
    "src/tick/feed",
    "src/tick/lane",
    "src/tick/filter",
    "src/rdb/policy",
    "src/fleet/group",
    "src/fleet/scaling",
    "src/fleet/back_off",
];
const IMPURE_WORDS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "fastrand",
    "mio::",
    "rustix",
    "crate::sys",
    "crate::net",
];

/// Where the wall clock is read, and what for. Whatever waits runs on a clock that cannot be set.
const WALL: &[(&str, &str)] = &[
    ("columns/src/sys/clock.rs", "the one place that asks the system"),
    ("src/tick/clock.rs", "the calendar and the time columns"),
    ("src/rdb/ingest/leave.rs", "the timestamp in `.u.asg.leaving`"),
    ("src/rdb/node.rs", "a name that was not used before"),
    ("src/net/reactor/pages.rs", "the date of an HTTP answer"),
    ("q/src/time.rs", "`.z.p` and its like"),
    ("src/fleet/aws/cloudwatch.rs", "the timestamp of a metric"),
    ("src/fleet/aws/notices.rs", "Spot notices carry a wall time"),
    ("src/fleet/aws/mod.rs", "EC2 says when an instance was launched as wall time"),
    ("src/fleet/aws/status.rs", "EC2 says when an instance was launched as wall time"),
    ("src/cli/feed.rs", "the time of day of a simulated market"),
    ("src/cli/demo/day.rs", "how old a row's timestamp is"),
];
const WALL_WORDS: &[&str] = &["SystemTime::now", "Timestamp::now", "Zoned::now", "clock::wall"];

const LINES_MOST: usize = 900;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn rust_files() -> Vec<PathBuf> {
    SOURCES.iter().chain(&["proto/tests", "q/tests", "tests", "benches"]).flat_map(|f| files(f, "rs")).collect()
}

/// Source of the crates, without their tests' own folders.
fn sources() -> Vec<PathBuf> {
    SOURCES.iter().flat_map(|folder| files(folder, "rs")).collect()
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("inside the project").to_string_lossy().into_owned()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("readable source")
}

/// Code without comments and string contents that could name a word by accident: whole-line comments only.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = rust_files()
        .iter()
        .map(|path| (name(path), text(path).lines().count()))
        .filter(|(_, lines)| *lines > LINES_MOST)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "over {LINES_MOST} lines:\n{}", long.join("\n"));
}

#[test]
fn modules_import_in_one_direction() {
    let mut wrong = Vec::new();
    for (folder, layers) in CRATES {
        let places =
            layers.iter().enumerate().flat_map(|(rank, group)| group.iter().map(move |module| (*module, rank)));
        let rank: BTreeMap<&str, usize> = places.collect();
        for path in files(folder, "rs") {
            let name = name(&path);
            let Some((module, _)) = name.strip_prefix(folder).and_then(|rest| rest.split_once('/')) else { continue };
            let Some(own) = rank.get(module) else {
                wrong.push(format!("{name}: module `{module}` has no place in the order"));
                continue;
            };
            for (line, code) in code_lines(&text(&path)) {
                for used in code.split("crate::").skip(1) {
                    let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    if used != module && rank.get(used.as_str()).is_some_and(|other| other >= own) {
                        wrong.push(format!("{name}:{line}: {module} imports {used}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the order:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_in_sys_and_kernel_only_and_gives_its_reason() {
    let mut wrong = Vec::new();
    for path in rust_files() {
        let name = name(&path);
        if name == "tests/tidy.rs" {
            continue;
        }
        let text = text(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (line, code) in code_lines(&text) {
            // A function pointer's type does nothing unsafe; calling it does.
            if !code.contains("unsafe ") || code.contains("unsafe_") || code.contains("unsafe fn(") {
                continue;
            }
            if !UNSAFE.iter().any(|folder| name.starts_with(folder)) {
                wrong.push(format!("{name}:{line}: unsafe outside sys and kernel"));
            }
            let above = lines.get(line.saturating_sub(8)..line).unwrap_or_default();
            if !above.iter().any(|l| l.contains("SAFETY") || l.contains("# Safety")) {
                wrong.push(format!("{name}:{line}: unsafe without its reason"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_cores_do_no_io() {
    let mut wrong = Vec::new();
    for path in files("src", "rs") {
        let name = name(&path);
        if !PURE.iter().any(|pure| name.starts_with(pure)) || name.contains("tests") {
            continue;
        }
        for (line, code) in code_lines(&text(&path)) {
            wrong.extend(IMPURE_WORDS.iter().filter(|w| code.contains(*w)).map(|w| format!("{name}:{line}: {w}")));
        }
    }
    assert!(wrong.is_empty(), "in pure cores:\n{}", wrong.join("\n"));
}

#[test]
fn the_wall_clock_is_read_for_timestamps_and_the_calendar_only() {
    let mut found = std::collections::BTreeSet::new();
    let mut wrong = Vec::new();
    for path in sources() {
        let name = name(&path);
        for (line, code) in code_lines(&text(&path)) {
            if WALL_WORDS.iter().any(|word| code.contains(word)) {
                let known = WALL.iter().any(|(file, _)| *file == name);
                found.insert(name.clone());
                wrong.extend((!known).then(|| format!("{name}:{line}: {}", code.trim())));
            }
        }
    }
    let gone = WALL.iter().filter(|(file, _)| !found.contains(*file));
    wrong.extend(gone.map(|(file, why)| format!("{file} does not read the wall clock any more ({why})")));
    assert!(
        wrong.is_empty(),
        "the wall clock may be set at any time; what waits takes `sys::clock::now`:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_thread_has_the_stack_that_recursion_counts_on() {
    let mut wrong = Vec::new();
    for path in sources() {
        let (name, text) = (name(&path), text(&path));
        if name == "columns/src/sys/stack.rs" || name.contains("tests") {
            continue;
        }
        let own = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let words = ["thread::spawn(", "thread::Builder", "scope.spawn("];
        for (line, code) in code_lines(own) {
            wrong.extend(words.iter().filter(|w| code.contains(*w)).map(|w| format!("{name}:{line}: {w}")));
        }
    }
    assert!(wrong.is_empty(), "threads are started by sys::stack::thread:\n{}", wrong.join("\n"));
}

#[test]
fn nothing_unfinished_is_left() {
    let words = ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "dbg!("];
    let mut wrong = Vec::new();
    for path in rust_files().into_iter().filter(|p| name(p) != "tests/tidy.rs") {
        for (i, line) in text(&path).lines().enumerate() {
            wrong.extend(words.iter().filter(|w| line.contains(*w)).map(|w| format!("{}:{}: {w}", name(&path), i + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tests_do_not_sleep_to_wait() {
    let mut wrong = Vec::new();
    // The harness polls with a deadline; that loop may pause, and so may the stand-in for AWS, which has its own pace.
    let python = ["tests/clients", "tests/faults", "tests/aws"].iter().flat_map(|f| files(f, "py"));
    for path in rust_files()
        .into_iter()
        .filter(|p| name(p).contains("tests") && name(p) != "tests/tidy.rs")
        .chain(python)
        .filter(|p| !name(p).contains("harness") && !name(p).contains("aws/cloud"))
    {
        for (line, code) in code_lines(&text(&path)) {
            if code.contains("sleep(") {
                wrong.push(format!("{}:{line}", name(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "sleeps in tests:\n{}", wrong.join("\n"));
}

#[test]
fn links_between_markdown_files_lead_somewhere() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for folder in ["", "docs", "src", "tests", "benches", "deploy", "fuzz", "proto", "columns", "q"] {
        for path in markdown(folder) {
            for target in links(&text(&path)) {
                checked += 1;
                let file = target.split('#').next().unwrap_or_default();
                if !path.parent().unwrap().join(file).exists() {
                    broken.push(format!("{}: {target}", name(&path)));
                }
            }
        }
    }
    assert!(checked > 10, "only {checked} links were found");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// Markdown files of a folder and those below it; of the root its own only, since ignored folders stand there.
fn markdown(folder: &str) -> Vec<PathBuf> {
    if !folder.is_empty() {
        return files(folder, ".md");
    }
    let entries = fs::read_dir(root()).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect()
}

/// Targets of the links of a Markdown text to files of the repository, without those inside code.
fn links(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let prose = text.lines().filter(|line| !line.starts_with("    "));
    for line in prose {
        for part in line.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            if !target.is_empty() && !target.starts_with('#') && !target.contains("://") {
                targets.push(target);
            }
        }
    }
    targets
}
