//! Queries of a partition while another process appends to it.

use elastick_q::session::{Session, Start};
use elastick_q::{Limits, eval_line, one_line};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of one append, of which every tenth is sought.
const ROWS: usize = 100;
const APPENDS: usize = 600;

#[test]
fn a_query_in_steps_takes_whole_appends_only() {
    let folder = std::env::temp_dir().join(format!("elastick-q-partitions-{}", std::process::id()));
    let directory = folder.display();
    let line = |session: &mut Session, text: &str| {
        let value = eval_line(session, text.as_bytes(), &Limits::default());
        value
            .map(|(value, _)| one_line(&value))
            .map_err(|e| format!("{}: {}", String::from_utf8_lossy(&e.name), e.detail))
    };
    let rows = format!("([]s:`sym${ROWS}#`a`b`b`b`b`b`b`b`b`b;k:til {ROWS};p:{ROWS}#1 2f)");
    let mut writer = Session::console(Start::default(), None);
    for text in [
        "sym:`a`b".to_owned(),
        format!("(`$\":{directory}/sym\")set sym"),
        format!("(`$\":{directory}/2024.01.01/t/\")set {rows}"),
        format!("x:{rows}"),
    ] {
        line(&mut writer, &text).expect("a database");
    }
    let is_over = AtomicBool::new(false);
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reader = Session::console(Start::default(), None);
            line(&mut reader, &format!(".Q.lo[`$\":{directory}\";0b;0b]")).expect("the database");
            let mut counts = Vec::new();
            while !is_over.load(Ordering::Acquire) {
                let text = "exec count each(k;p)from select k,p from t where date=2024.01.01,s=`a";
                let count = line(&mut reader, &format!("first distinct {text}")).expect("rows");
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
    assert!(counts.iter().all(|count| count % (ROWS / 10) == 0), "{counts:?}");
    assert!(counts.is_sorted(), "{counts:?}");
}
