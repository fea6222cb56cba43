//! `elastick feed` against a tickerplant that breaks connections, rejects updates, or has no log.

use crate::fake_tickerplant::{Faults, start, write_log};
use crate::harness::{Directory, Process, elastick, wait_for};
use elastick::env::Env;
use elastick::log::{Keep, LogReader, Proof, TableProof, window_proof};
use proto::Value;
use serde_json::Value as Json;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

fn feed(port: u16, arguments: &[&str]) -> Output {
    let address = format!("127.0.0.1:{port}");
    let command = [&["feed", &address, "--json", "--rate", "1000000"], arguments].concat();
    elastick(&command).output().expect("the feed runs")
}

fn summary(output: &Output) -> Json {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).unwrap_or_else(|error| {
        panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr));
    })
}

/// The counts that the feed prints at its end.
fn accepted(summary: &Json) -> Proof {
    let mut proof = Proof::new();
    for (name, table) in summary["tables"].as_object().expect("tables") {
        *proof.table_mut(name.as_bytes()) = TableProof {
            updates: table["updates"].as_u64().expect("a number"),
            rows: table["rows"].as_u64().expect("a number"),
            hash: u64::from_str_radix(table["hash"].as_str().expect("a text"), 16).expect("a hash"),
        };
    }
    proof
}

#[test]
fn the_reported_count_is_the_number_of_accepted_updates() {
    let directory = Directory::new("feed-plain");
    let (port, taken) = start(&directory, Faults::default());
    let output = feed(port, &["--updates", "3000", "--rows", "4"]);
    assert!(output.status.success());
    let summary = summary(&output);
    assert_eq!(summary["updates"], 3000);
    assert_eq!(accepted(&summary), *taken.lock().unwrap());
}

#[test]
fn the_same_seed_sends_the_same_day() {
    let day = || {
        let directory = Directory::new("feed-seed");
        let (port, _) = start(&directory, Faults::default());
        let day = ["--minutes", "0.01", "--rate", "2000", "--seed", "7"];
        let address = format!("127.0.0.1:{port}");
        let output = elastick(&[&["feed", &address, "--json"], &day[..]].concat()).output().expect("the feed runs");
        accepted(&summary(&output))
    };
    let first = day();
    assert_eq!(first.total().updates, 1200);
    assert_eq!(first, day());
}

#[test]
fn nothing_is_lost_or_doubled_when_connections_break() {
    for sync in [&["--sync"][..], &[]] {
        let directory = Directory::new(&format!("feed-breaks-{}", sync.len()));
        let break_after = [1, 333, 334, 1500, 2999].into();
        let (port, taken) = start(&directory, Faults { break_after, ..Faults::default() });
        let output = feed(port, &[&["--updates", "3000", "--confirm", "400"], sync].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary = summary(&output);
        assert_eq!((&summary["updates"], &summary["reconnects"]), (&Json::from(3000), &Json::from(5)));
        assert_eq!(accepted(&summary), *taken.lock().unwrap());
    }
}

#[test]
fn a_tickerplant_that_stops_while_its_tables_are_queried_is_awaited() {
    let directory = Directory::new("feed-tables");
    let break_at = [".u `i`j`L", ".u.t", "0#quote"].into();
    let (port, taken) = start(&directory, Faults { break_at, ..Faults::default() });
    let output = feed(port, &["--updates", "300"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(accepted(&summary(&output)), *taken.lock().unwrap());
}

#[test]
fn a_response_that_is_too_long_is_reported_at_once() {
    let directory = Directory::new("feed-long");
    // If there is no log, all other replies are shorter than a table.
    let (port, _) = start(&directory, Faults { no_log: true, ..Faults::default() });
    let output = feed(port, &["--limit-message", "64"]);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("exceeds the limit of 64") && words.contains("--limit-message"), "{words}");
    assert!(!words.contains("reconnecting"), "{words}");
}

#[test]
fn without_a_readable_log_it_stops_and_reports_updates_in_doubt() {
    let directory = Directory::new("feed-doubt");
    let (port, _) = start(&directory, Faults { break_after: [700].into(), no_log: true, ..Faults::default() });
    let output = feed(port, &["--updates", "3000", "--confirm", "500"]);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("updates are in doubt"), "{words}");
    assert_eq!(summary(&output)["updates"], 500);
}

#[test]
fn rejected_updates_are_counted_apart() {
    for (sync, reason) in [(&["--sync"][..], "'length"), (&[], "'not in the tickerplant's log")] {
        let directory = Directory::new(&format!("feed-refused-{}", sync.len()));
        let (port, taken) = start(&directory, Faults { refuse_every: Some(10), ..Faults::default() });
        let output = feed(port, &[&["--updates", "100"], sync].concat());
        assert_eq!(output.status.code(), Some(1));
        let summary = summary(&output);
        let counts = ["sent", "updates", "refused", "unconfirmed"].map(|name| summary[name].as_u64());
        assert_eq!(counts, [Some(100), Some(90), Some(10), Some(0)]);
        assert_eq!(accepted(&summary), *taken.lock().unwrap());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(words.contains(reason), "{words}");
    }
}

#[test]
fn a_log_is_replayed_with_single_rows_and_tables_made_columns() {
    let directory = Directory::new("feed-replay");
    let (port, taken) = start(&directory, Faults::default());
    let log = directory.path().join("other2026.11.20");
    let row = |time: i64| Value::list([Value::Timespan(time), Value::symbol("A"), Value::Float(1.0), Value::Int(2)]);
    let bulk = Value::list([
        Value::timespans([1, 2, 3]),
        Value::symbols(["A", "B", "A"]),
        Value::floats([1.0, 2.0, 3.0]),
        Value::ints([1, 2, 3]),
    ]);
    write_log(&log, &[("trade", row(1)), ("trade", bulk), ("trade", row(5))]);
    let output = feed(port, &["--replay", log.to_str().expect("a path"), "--speed", "0"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(accepted(&summary(&output)), *taken.lock().unwrap());
    assert_eq!(taken.lock().unwrap().table(b"trade").rows, 5);
}

#[test]
fn nothing_is_lost_or_doubled_when_the_tickerplant_is_killed() {
    let directory = Directory::new("feed-kill");
    let dir = directory.path().to_str().expect("a path");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let port = free.to_string();
    let tickerplant = || {
        let mut process = Process::start(&mut elastick(&["tick", "sym", dir, "-p", &port]));
        process.number_after("listening on");
        process
    };
    let mut running = tickerplant();
    let command = ["feed", &format!(":{port}"), "--json", "--rate", "20000", "--updates", "50000"];
    let feed = elastick(&command).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the feed runs");
    let logged = || {
        let names = std::fs::read_dir(directory.path()).expect("a folder").flatten().map(|entry| entry.path());
        let log = names.filter(|path| path.extension().is_some_and(|date| date.len() == 2)).min().expect("a log");
        (log.metadata().expect("a file").len(), log)
    };
    for bytes in [1_000_000, 3_000_000] {
        wait_for("the log to grow", || (logged().0 > bytes).then_some(()));
        running.kill();
        running = tickerplant();
    }
    let output = feed.wait_with_output().expect("the feed ends");
    assert!(output.status.success());
    let summary = summary(&output);
    assert_eq!((&summary["updates"], &summary["reconnects"]), (&Json::from(50_000), &Json::from(2)));
    assert!(running.stop().success());
    let limits = proto::Limits::default();
    let mut reader = LogReader::open(&Env::system(), &logged().1, limits, 1 << 20).expect("a log");
    let by = Instant::now() + Duration::from_secs(60);
    let proof = window_proof(&mut reader, 0..50_000, by, |_, _, _| Keep::Whole).expect("50,000 updates");
    assert_eq!(proof, accepted(&summary));
}

/// Files of a folder, recursively.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn logs_that_kdb_wrote_are_replayed() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/kdb/golden/disk/TorQ/logs");
    if !logs.is_dir() {
        println!("skipped: {} is missing", logs.display());
        return;
    }
    let mut replayed = 0;
    for path in files(&logs) {
        let directory = Directory::new("feed-kdb");
        let (port, taken) = start(&directory, Faults::default());
        let output = feed(port, &["--replay", path.to_str().expect("a path"), "--speed", "0"]);
        // Not all files are logs; others are rejected.
        if output.status.success() {
            assert_eq!(accepted(&summary(&output)), *taken.lock().unwrap(), "{}", path.display());
            replayed += taken.lock().unwrap().total().updates;
        }
    }
    assert!(replayed > 300, "{replayed}");
}
