//! q as data: `tests/q/*.q.test` hold expressions, each followed by what the console shows (`-> line`) or by the name of
//! its error (`!! name`). Lines that start with `#` are comments. A file is one session.

use elastick::q::session::{Session, Start};
use elastick::q::{Host, Limits, eval_line, show};
use std::fs;
use std::path::{Path, PathBuf};

struct Case {
    line: usize,
    expression: String,
    expected: Vec<String>,
    error: Option<String>,
}

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

fn run_file(path: &Path) -> Vec<String> {
    let mut session = Session::console(Start::default(), None);
    let mut wrong = Vec::new();
    for case in cases(&fs::read_to_string(path).expect("a readable file")) {
        let result = eval_line(&mut session, case.expression.as_bytes(), &Limits::default());
        let mut shown = session.take_printed();
        let error = match result {
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

#[test]
fn every_expression_shows_what_its_file_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/q");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("tests/q")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "test"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let wrong: Vec<String> = files.iter().flat_map(|f| run_file(f)).collect();
    assert!(wrong.is_empty(), "{} cases differ\n{}", wrong.len(), wrong.join("\n"));
}
