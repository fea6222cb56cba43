//! Tables on disk while other processes append to them.

use elastick_q::session::{Session, Start};
use elastick_q::{Limits, eval_line, one_line};
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

#[test]
fn two_writers_lose_no_rows() {
    let folder = std::env::temp_dir().join(format!("elastick-q-writers-{}", std::process::id()));
    let directory = &folder.display().to_string();
    let line = |session: &mut Session, text: String| {
        eval_line(session, text.as_bytes(), &Limits::default()).map(|(value, _)| one_line(&value)).expect("a result")
    };
    let mut session = Session::console(Start::default(), None);
    line(&mut session, format!("(`$\":{directory}/t/\")set([]w:0#0;n:0#0)"));
    std::thread::scope(|scope| {
        for writer in 1..3 {
            scope.spawn(move || {
                let mut session = Session::console(Start::default(), None);
                let text =
                    format!("{{(`$\":{directory}/t/\")upsert([]w:3#{writer};n:x)}}each 3 cut til {};", 3 * APPENDS);
                line(&mut session, text);
            });
        }
    });
    let held = line(&mut session, format!("{{asc each 1 2#x group y}}. (get`$\":{directory}/t/\")`n`w"));
    let all = line(&mut session, format!("{{x!count[x]#enlist til {}}}1 2", 3 * APPENDS));
    std::fs::remove_dir_all(&folder).expect("the directory");
    assert_eq!(String::from_utf8_lossy(&held).replace("`s#", ""), String::from_utf8_lossy(&all));
}
