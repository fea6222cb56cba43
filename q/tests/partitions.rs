//! Tables on disk while other processes append to them.

use elastick_q::session::{Session, Start};
use elastick_q::{Limits, eval_line, one_line};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of one append, of which every tenth is sought.
const ROWS: usize = 100;
const APPENDS: usize = 600;

/// Evaluates a number again and again while rows of `table` are appended to a partition; returns the numbers. `DIR` in the text is the database's
/// directory.
fn counts_during_appends(name: &str, table: &str, text: &str) -> Vec<usize> {
    let folder = std::env::temp_dir().join(format!("elastick-q-{name}-{}", std::process::id()));
    let directory = folder.display();
    let line = |session: &mut Session, text: &str| {
        let value = eval_line(session, text.as_bytes(), &Limits::default());
        value
            .map(|(value, _)| one_line(&value))
            .map_err(|e| format!("{}: {}", String::from_utf8_lossy(&e.name), e.detail))
    };
    let mut writer = Session::console(Start::default(), None);
    for text in [
        "sym:`a`b".to_owned(),
        format!("(`$\":{directory}/sym\")set sym"),
        format!("(`$\":{directory}/2024.01.01/t/\")set {table}"),
        format!("x:{table}"),
    ] {
        line(&mut writer, &text).expect("a database");
    }
    let text = text.replace("DIR", &directory.to_string());
    let is_over = AtomicBool::new(false);
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reader = Session::console(Start::default(), None);
            line(&mut reader, &format!(".Q.lo[`$\":{directory}\";0b;0b]")).expect("the database");
            let mut counts = Vec::new();
            while !is_over.load(Ordering::Acquire) {
                let count = line(&mut reader, &text).expect("rows");
                counts.push(String::from_utf8_lossy(&count).parse().expect("a number"));
            }
            counts
        });
        for _ in 0..APPENDS {
            line(&mut writer, &format!("(`$\":{directory}/2024.01.01/t/\")upsert x")).expect("an append");
        }
        is_over.store(true, Ordering::Release);
        reader.join().expect("no query fails")
    });
    std::fs::remove_dir_all(&folder).expect("the files of this test");
    println!("{} queries", counts.len());
    counts
}

#[test]
fn a_query_in_steps_takes_whole_appends_only() {
    let rows = format!("([]s:`sym${ROWS}#`a`b`b`b`b`b`b`b`b`b;k:til {ROWS};p:{ROWS}#1 2f)");
    for (name, from) in [("parted", "t where date=2024.01.01,"), ("path", "get[`$\":DIR/2024.01.01/t\"]where ")] {
        let text = format!("first distinct exec count each(k;p)from select k,p from {from}s=`a");
        let counts = counts_during_appends(name, &rows, &text);
        assert!(counts.iter().all(|count| count % (ROWS / 10) == 0), "{counts:?}");
        assert!(counts.is_sorted(), "{counts:?}");
    }
}

#[test]
fn a_column_read_alone_takes_whole_appends_only() {
    let rows = format!("([]c:{ROWS}#(\"one\";\"some more\";\"\";\"end\"))");
    let item = "{$[all(count each x)=count[x]#3 9 0 3;count x;'torn]}";
    for (name, read) in [
        ("strings", "exec c from t where date=2024.01.01"),
        ("strings-path", "exec c from`$\":DIR/2024.01.01/t\""),
        ("strings-file", "get`$\":DIR/2024.01.01/t/c\""),
        ("strings-counted", "til exec count i from t"),
    ] {
        let item = if name == "strings-counted" { "count" } else { item };
        let counts = counts_during_appends(name, &rows, &format!("{item} {read}"));
        assert!(counts.iter().all(|count| count % ROWS == 0), "{name}: {counts:?}");
        assert!(counts.is_sorted(), "{name}: {counts:?}");
    }
}

/// Appends rows from two sessions at once and returns, of what is then in the table, the numbers of each writer; and what should be there.
fn written_by_two(folder: &Path, appends: usize, is_there: bool) -> (String, String) {
    let table = &format!("(`$\":{}/t/\")", folder.display());
    let line = |session: &mut Session, text: String| {
        eval_line(session, text.as_bytes(), &Limits::default()).map(|(value, _)| one_line(&value)).expect("a result")
    };
    let mut session = Session::console(Start::default(), None);
    if is_there {
        line(&mut session, format!("{table}set([]w:0#0;n:0#0)"));
    }
    let begin = &Barrier::new(2);
    std::thread::scope(|scope| {
        for writer in 1..3 {
            scope.spawn(move || {
                let mut session = Session::console(Start::default(), None);
                begin.wait();
                line(&mut session, format!("{{{table}upsert([]w:3#{writer};n:x)}}each 3 cut til {};", 3 * appends));
            });
        }
    });
    let held = line(&mut session, format!("{{asc each 1 2#x group y}}. (get{table})`n`w"));
    let all = line(&mut session, format!("{{x!count[x]#enlist til {}}}1 2", 3 * appends));
    std::fs::remove_dir_all(folder).expect("the directory");
    (String::from_utf8_lossy(&held).replace("`s#", ""), String::from_utf8_lossy(&all).into_owned())
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("elastick-q-{name}-{}", std::process::id()))
}

#[test]
fn two_writers_lose_no_rows() {
    let (held, all) = written_by_two(&folder("writers"), APPENDS, true);
    assert_eq!(held, all);
}

#[test]
fn two_that_create_a_table_lose_no_rows() {
    for _ in 0..40 {
        let (held, all) = written_by_two(&folder("creators"), 1, false);
        assert_eq!(held, all);
    }
}
