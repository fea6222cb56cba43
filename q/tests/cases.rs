//! Data-driven q tests: `cases/*.q.test` hold expressions, each followed by the console output (`-> line`) or the name of the
//! error (`!! name`). Lines that start with `#` are comments. Each file runs in one session. `()`, of which the console shows no line, is
//! written as `-> ()`.
//!
//! All evaluation paths must show the same: without the VM, in sections of one and of few rows, on two threads, as messages, and
//! on unaligned columns.

use columns::table::{Table, Value, Vector};
use elastick_q::session::{Session, Start};
use elastick_q::{Host, Limits, QError, eval_line, eval_message, show};
use std::fs;
use std::path::{Path, PathBuf};

struct Case {
    line: usize,
    expression: String,
    expected: Vec<String>,
    error: Option<String>,
}

/// The value, and whether the console shows it.
type Outcome = Result<(Value, bool), QError>;

fn cases(text: &str) -> Vec<Case> {
    let mut out: Vec<Case> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if let Some(shown) = line.strip_prefix("->") {
            let case = out.last_mut().expect("an expression stands before what it gives");
            case.expected.push(shown.strip_prefix(' ').unwrap_or(shown).trim_end().to_owned());
        } else if let Some(name) = line.strip_prefix("!! ") {
            out.last_mut().expect("an expression stands before its error").error = Some(name.trim().to_owned());
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            out.push(Case { line: i + 1, expression: line.to_owned(), expected: Vec::new(), error: None });
        }
    }
    out
}

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = fs::read_dir(folder).expect("tests/cases").map(|e| e.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "test")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn run(path: &Path, session: &mut Session, evaluate: &impl Fn(&mut Session, &Case) -> Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases(&fs::read_to_string(path).expect("a readable file")) {
        let result = evaluate(session, &case);
        let mut shown = session.take_printed();
        let error = match result {
            Ok((value, true)) if value.is_nothing() => {
                shown.extend(b"()");
                None
            }
            Ok((value, true)) => {
                shown.extend(show(&value, &session.console()));
                None
            }
            Ok(_) => None,
            Err(error) => Some(String::from_utf8_lossy(&error.name).into_owned()),
        };
        let lines: Vec<String> = String::from_utf8_lossy(&shown).lines().map(|l| l.trim_end().to_owned()).collect();
        if error != case.error || lines != case.expected {
            let place = format!("{}:{}", path.display(), case.line);
            wrong.push(format!(
                "{place}: {}\nexpected {:?} {:?}\ngot      {error:?} {lines:?}",
                case.expression, case.error, case.expected
            ));
        }
    }
    wrong
}

/// Runs the cases of all files, each in a session of its own.
///
/// # Panics
/// If a case shows something other than its file says.
fn differences(files: &[PathBuf], session: impl Fn() -> Session, evaluate: impl Fn(&mut Session, &Case) -> Outcome) {
    let wrong: Vec<String> = files.iter().flat_map(|f| run(f, &mut session(), &evaluate)).collect();
    assert!(wrong.is_empty(), "{} cases differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_expression_shows_what_its_file_says() {
    differences(&files(), || Session::console(Start::default(), None), by_line(Limits::default()));
}

/// Prefixes of files whose expressions depend on the process rather than on data.
const OF_THE_PROCESS: [&str; 9] =
    ["console", "files", "views", "web", "errors", "commands", "database", "start", "modules"];

/// Returns the files that do not observe how they are evaluated and have no effect outside their session. The others are evaluated in
/// the plain run only.
fn of_data() -> Vec<PathBuf> {
    let name = |file: &Path| file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    files().into_iter().filter(|f| !OF_THE_PROCESS.iter().any(|start| name(f).starts_with(start))).collect()
}

fn by_line(limits: Limits) -> impl Fn(&mut Session, &Case) -> Outcome {
    move |session, case| eval_line(session, case.expression.as_bytes(), &limits)
}

#[test]
fn without_the_machine() {
    let limits = Limits { machine: false, ..Limits::default() };
    differences(&of_data(), || Session::console(Start::default(), None), by_line(limits));
}

#[test]
fn in_partitions_of_one_row() {
    let limits = Limits { section_rows: Some(1), ..Limits::default() };
    differences(&of_data(), || Session::console(Start::default(), None), by_line(limits));
}

#[test]
fn in_partitions_of_two_rows_on_two_threads() {
    let limits = Limits { section_rows: Some(2), ..Limits::default() };
    differences(&of_data(), || Session::console(Start::default(), None).with_threads(2), by_line(limits));
}

/// Returns the same table, its columns being slices of longer vectors at unaligned positions.
fn shifted(table: &Table) -> Table {
    let count = table.count();
    if count == 0 {
        return table.clone();
    }
    let rows: Vec<u32> = std::iter::once(0).chain(0..count as u32).chain([0]).collect();
    let mut out = table.map(|column| {
        let mut part = Vector::from(column.items.gather(&rows)).cut(1, count + 1);
        part.attr = column.attr;
        part
    });
    out.sorted = table.sorted;
    out
}

#[test]
fn on_columns_that_are_parts_of_longer_ones() {
    let limits = Limits { section_rows: Some(3), ..Limits::default() };
    differences(
        &of_data(),
        || Session::console(Start::default(), None),
        move |session, case| {
            let tables: Vec<_> = session.globals().map(|(name, value)| (name, value.clone())).collect();
            for (name, value) in tables {
                if let Value::Table(table) = &value {
                    session.assign(name, Value::table(shifted(table))).expect("a global");
                }
            }
            eval_line(session, case.expression.as_bytes(), &limits)
        },
    );
}

#[test]
fn as_messages() {
    let limits = Limits { section_rows: Some(2), ..Limits::default() };
    let queries = |f: &PathBuf| {
        f.file_name().is_some_and(|n| ["qsql", "joins", "tables"].iter().any(|s| n.to_string_lossy().starts_with(s)))
    };
    let files: Vec<_> = of_data().into_iter().filter(queries).collect();
    differences(
        &files,
        || Session::console(Start::default(), None),
        move |session, case| {
            let message = Value::chars(case.expression.as_bytes());
            eval_message(session, &message, &limits).map(|value| (value, true))
        },
    );
}

/// Expressions whose parse tree differs from the text: what only the console shows, and errors of the text's form.
const TEXT_ONLY: [&str; 3] = ["flip enlist[`n]!`t", "select sz:$[", "\"abc\"[1]:"];

#[test]
fn as_parse_trees() {
    let limits = Limits::default();
    let files: Vec<_> =
        of_data().into_iter().filter(|f| !f.ends_with("patterns.q.test") && !f.ends_with("functions.q.test")).collect();
    differences(
        &files,
        || {
            let mut session = Session::console(Start::default(), None);
            eval_line(&mut session, b".test.tree:{eval parse x}", &Limits::default()).expect("a function");
            session
        },
        move |session, case| {
            if TEXT_ONLY.iter().any(|start| case.expression.starts_with(start)) {
                return eval_line(session, case.expression.as_bytes(), &limits);
            }
            let call = columns::table::symbol::intern(b".test.tree").expect("room");
            let message = Value::list(vec![Value::Sym(call), Value::chars(case.expression.as_bytes())]);
            let shows = !case.expected.is_empty() || case.error.is_some();
            eval_message(session, &message, &limits).map(|value| (value, shows))
        },
    );
}
