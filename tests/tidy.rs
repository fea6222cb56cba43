//! Repository checks: file sizes, direction of imports, places of `unsafe`, forbidden words, clocks, links between Markdown files.

#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/style.rs"]
mod style;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The layers of each crate, lowest first. A module imports only from earlier groups and from itself; modules of one group do not
/// import each other. Cargo enforces the direction between crates.
const CRATES: &[(&str, &[&[&str]])] = &[
    ("columns/src/", &[&["sys"], &["kernel"], &["table"]]),
    (
        "q/src/",
        &[&["runtime"], &["syntax"], &["verbs"], &["io"], &["vm"], &["qsql"], &["eval"], &["process"], &["tests"]],
    ),
    (
        "src/",
        &[
            &["config"],
            &["metrics"],
            &["env"],
            &["access"],
            &["queue", "lease", "log"],
            &["audit"],
            &["net"],
            &["protocol"],
            &["fleet"],
            &["election"],
            &["tick", "rdb", "feed"],
            &["plan"],
            &["monitor"],
            &["cli"],
        ],
    ),
];

/// Allowed import cycles between files, with their reasons.
const CIRCLES: &[(&[&str], &str)] = &[
    (
        &["proto/src/compress.rs", "proto/src/compress/expand.rs", "proto/src/decode.rs"],
        "a reader expands what is compressed, and bad compression is an error of the reader",
    ),
    (
        &["columns/src/sys/region.rs", "columns/src/sys/shared.rs", "columns/src/sys/stack.rs"],
        "a shared slice may be a mapped range, and what nests deeply is dropped later, by the stack",
    ),
    (
        &["columns/src/table/function.rs", "columns/src/table/value.rs", "columns/src/table/vector.rs"],
        "a value holds vectors and functions, which hold values",
    ),
    (
        &[
            "q/src/verbs/aggregate.rs",
            "q/src/verbs/arith.rs",
            "q/src/verbs/cast.rs",
            "q/src/verbs/division.rs",
            "q/src/verbs/entries.rs",
            "q/src/verbs/enums.rs",
            "q/src/verbs/fit.rs",
            "q/src/verbs/index.rs",
            "q/src/verbs/keyed.rs",
            "q/src/verbs/merged.rs",
            "q/src/verbs/monads.rs",
            "q/src/verbs/rowwise.rs",
            "q/src/verbs/sets.rs",
            "q/src/verbs/shape.rs",
            "q/src/verbs/tables.rs",
        ],
        "primitives of lists, enumerations and tables are defined by one another",
    ),
    (
        &["q/src/qsql/groups.rs", "q/src/qsql/keys.rs"],
        "groups found by codes are rebuilt from their keys where a code does not hold",
    ),
    (
        &[
            "src/config/durability.rs",
            "src/config/lease.rs",
            "src/config/owner_lease.rs",
            "src/config/swift.rs",
            "src/config/units.rs",
        ],
        "units read every type of an option, some of which are written with units",
    ),
    (
        &["src/config/file.rs", "src/config/limits.rs", "src/config/options.rs", "src/config/settings.rs"],
        "limits are options, a file sets options, and settings hold both",
    ),
    (
        &[
            "src/log/blocks.rs",
            "src/log/error.rs",
            "src/log/identity.rs",
            "src/log/index.rs",
            "src/log/lock.rs",
            "src/log/open.rs",
            "src/log/reader.rs",
            "src/log/repair.rs",
            "src/log/scan.rs",
        ],
        "errors name damaged ranges, which the side file, the scan and repairs find",
    ),
    (
        &["src/log/appender.rs", "src/log/fence.rs", "src/log/group.rs", "src/log/watch.rs", "src/log/writer.rs"],
        "the writer owns its helpers, and they wake it",
    ),
    (
        &[
            "src/queue/back_off.rs",
            "src/queue/departed.rs",
            "src/queue/event.rs",
            "src/queue/evict.rs",
            "src/queue/groups.rs",
            "src/queue/invariants.rs",
            "src/queue/journal.rs",
            "src/queue/leave.rs",
            "src/queue/table.rs",
        ],
        "one state machine: its table, its events and the records of both",
    ),
    (
        &["src/net/connection.rs", "src/net/control.rs", "src/net/listener.rs", "src/net/reactor.rs"],
        "the event loop owns connections and listeners, and their limits are its own",
    ),
    (
        &["src/fleet/aws/imds.rs", "src/fleet/aws/session.rs"],
        "a session asks the metadata service, which waits as the session does",
    ),
    (&["src/rdb/day_end.rs", "src/rdb/shared.rs"], "the state that threads share holds the ends of days"),
    (
        &["src/rdb/requester.rs", "src/rdb/host.rs", "src/rdb/outlet.rs", "src/rdb/pool.rs", "src/rdb/scope.rs"],
        "a job of the pool, its host and its output name one another",
    ),
    (&["src/cli/q/editor.rs", "src/cli/q/input.rs"], "the editor reads keys, and the input shows what is edited"),
    (
        &[
            "sim/src/chaos.rs",
            "sim/src/clients.rs",
            "sim/src/contest.rs",
            "sim/src/feeds.rs",
            "sim/src/line.rs",
            "sim/src/mistakes.rs",
            "sim/src/node.rs",
            "sim/src/numbered.rs",
            "sim/src/plan.rs",
            "sim/src/progress.rs",
            "sim/src/proofs.rs",
            "sim/src/schemas.rs",
            "sim/src/sleep.rs",
            "sim/src/takeover.rs",
            "sim/src/tick.rs",
            "sim/src/trace.rs",
            "sim/src/world.rs",
        ],
        "every part of the simulated environment acts on the whole",
    ),
    (
        &["sim/src/model/rules.rs", "sim/src/model/steps.rs"],
        "the rules are checked at each step of the model, and are about its steps",
    ),
];

/// The only upward calls between layers of q: the file that declares the traits, and the files that implement them.
const KNOT: (&str, &[&str]) = ("q/src/verbs/above.rs", &["q/src/io/stored.rs", "q/src/process/above.rs"]);

/// Source folders of all crates.
const SOURCES: [&str; 5] = ["proto/src", "columns/src", "q/src", "src", "sim/src"];

/// The only folders that may contain `unsafe`.
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

/// Files that may read the wall clock, with their purpose. Waiting must use the monotonic clock, which cannot be set.
const WALL: &[(&str, &str)] = &[
    ("src/election/dynamodb/admiral.rs", "the time of a renewal, for pods of Admiral"),
    ("columns/src/sys/clock.rs", "the one place that asks the system"),
    ("sim/src/clock.rs", "the clock that does not ask the system"),
    ("src/tick/clock.rs", "the calendar and the time columns"),
    ("src/rdb/ingest/leave.rs", "the timestamp in `.u.asg.leaving`"),
    ("src/audit/record.rs", "the time of a record"),
    ("src/audit/file.rs", "the name of a rotated audit log"),
    ("src/rdb/node.rs", "a name that was not used before"),
    ("src/net/reactor/pages.rs", "the date of an HTTP answer"),
    ("q/src/runtime/time.rs", "`.z.p` and its like"),
    ("src/fleet/aws/cloudwatch.rs", "the timestamp of a metric"),
    ("src/net/identity/tokens.rs", "a token says when it expires as wall time"),
    ("src/net/tls/process.rs", "a certificate says when it expires as wall time"),
    ("src/fleet/aws/notices.rs", "Spot notices carry a wall time"),
    ("src/fleet/aws/mod.rs", "EC2 says when an instance was launched as wall time"),
    ("src/fleet/aws/status.rs", "EC2 says when an instance was launched as wall time"),
    ("src/cli/log/directory.rs", "a log's date is compared with the calendar"),
    ("src/cli/feed.rs", "the time of day of a simulated market"),
    ("src/cli/demo/day.rs", "how old a row's timestamp is"),
];
const WALL_WORDS: &[&str] = &["SystemTime::now", "Timestamp::now", "Zoned::now", "clock.wall("];

const LINES_MAX: usize = 600;

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
    SOURCES
        .iter()
        .chain(&["proto/tests", "q/tests", "tests", "sim/tests", "benches"])
        .flat_map(|f| files(f, "rs"))
        .collect()
}

/// Source files of the crates, without test folders.
fn sources() -> Vec<PathBuf> {
    SOURCES.iter().flat_map(|folder| files(folder, "rs")).collect()
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).expect("inside the project").to_string_lossy().into_owned()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("readable source")
}

/// Lines of code with their numbers, without whole-line comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = rust_files()
        .iter()
        .map(|path| (name(path), text(path).lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "over {LINES_MAX} lines:\n{}", long.join("\n"));
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
            let text = text(&path);
            for (line, code) in code_lines(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()) {
                for used in code.split("crate::").skip(1) {
                    let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    if used != module && rank.get(used.as_str()).is_some_and(|other| other >= own) {
                        wrong.push(format!("{name}:{line}: {module} imports {used}"));
                    }
                    // The root re-exports items of any layer, so an import from it would bypass the check.
                    if *folder == "q/src/" && module != "tests" && !rank.contains_key(used.as_str()) {
                        wrong.push(format!("{name}:{line}: `{used}` is imported from the root"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the order:\n{}", wrong.join("\n"));
}

#[test]
fn files_import_one_another_in_no_circle_but_those_declared() {
    let mut wrong = Vec::new();
    let mut found = BTreeSet::new();
    for folder in SOURCES {
        let folder = format!("{folder}/");
        let texts: Vec<_> = files(&folder, "rs").iter().map(|path| (name(path), text(path))).collect();
        for circle in imports::circles(&imports::of(&folder, &texts)) {
            let own: BTreeSet<&str> = circle.iter().map(String::as_str).collect();
            if CIRCLES.iter().any(|(declared, _)| own == declared.iter().copied().collect()) {
                found.insert(own.into_iter().map(str::to_owned).collect::<Vec<_>>());
            } else {
                wrong.push(format!("not declared: {}", own.into_iter().collect::<Vec<_>>().join(" ")));
            }
        }
    }
    for (declared, why) in CIRCLES {
        let mut declared: Vec<&str> = declared.to_vec();
        declared.sort_unstable();
        if !found.iter().any(|circle| *circle == declared) {
            wrong.push(format!("declared, but no circle any more ({why}): {}", declared.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "circles of imports:\n{}", wrong.join("\n"));
}

/// Methods on [`Context`] need no import, so the import check cannot see upward calls through them. Outside `runtime` such methods must
/// therefore be private to their layer, or belong to the traits for upward calls.
#[test]
fn the_language_calls_upwards_by_its_declared_traits_only() {
    let (declared, implemented) = KNOT;
    let mut wrong = Vec::new();
    for path in files("q/src", "rs") {
        let (name, text) = (name(&path), text(&path));
        let mut inside = false;
        for (line, code) in code_lines(&text) {
            let opens = code.starts_with("impl") && code.contains("Context<") && code.trim_end().ends_with('{');
            inside = (inside || opens) && code != "}";
            if opens && code.contains(" for ") && !implemented.contains(&name.as_str()) {
                wrong.push(format!("{name}:{line}: {}", code.trim()));
            }
            let is_open = code.trim_start().starts_with("pub fn") || code.trim_start().starts_with("pub(crate) fn");
            if inside && is_open && !name.starts_with("q/src/runtime/") {
                wrong.push(format!("{name}:{line}: a method for other layers is one of the traits in {declared}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
            // The type of an unsafe function pointer is harmless; only a call needs a reason.
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
        "the wall clock may be set at any time; what waits takes the monotonic clock:\n{}",
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
    // Exceptions: the harness's polling loop, and the simulated AWS, which has its own pace.
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
    for folder in ["", "docs", "src", "tests", "benches", "deploy", "fuzz", "proto", "columns", "q", "sim", "examples"]
    {
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

/// Markdown files of a folder, recursively; for the root not recursively, because it contains ignored folders.
fn markdown(folder: &str) -> Vec<PathBuf> {
    if !folder.is_empty() {
        return files(folder, "md");
    }
    let entries = fs::read_dir(root()).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect()
}

/// Link targets in a Markdown text that are files of the repository, except those inside code.
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
