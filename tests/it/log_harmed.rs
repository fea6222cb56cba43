//! Other programs remove, move, replace or truncate the log while the tickerplant writes it.

use crate::harness::{Process, elastick, wait_for};
use crate::metrics::{page, scrape};
use crate::tick_support::*;
use elastick::env::Env;
use elastick::log::{LogReader, Next};
use elastick::net::Client;
use proto::{Limits, Value};
use std::fs;
use std::path::{Path, PathBuf};

fn log_of(directory: &Path) -> PathBuf {
    let files = fs::read_dir(directory).expect("listed").flatten().map(|entry| entry.path());
    let is_log = |path: &PathBuf| elastick::log::date_of(path).is_some();
    { files }.find(is_log).expect("a log")
}

fn started(name: &str, options: &[&str]) -> (Tick, Client, PathBuf) {
    let tick = Tick::start(name, options);
    let mut feed = tick.client();
    publish(&mut feed, 0..5);
    let log = log_of(tick.directory.path());
    (tick, feed, log)
}

fn publish(feed: &mut Client, updates: std::ops::Range<i64>) {
    updates.for_each(|i| drop(feed.request(&trades(i * 10..i * 10 + 10)).expect("acknowledged")));
}

/// Waits until the tickerplant's `/health` reports its log. A moved or removed log must not cause a restart (200), because the process
/// may hold its last copy.
fn harm(tick: &Tick, expected: u16) -> String {
    wait_for("the tickerplant to notice", || {
        let (status, body) = page(tick.port, "/health");
        assert!(status == 200 || status == expected, "{status} {body}");
        (status == 503 || body.starts_with("degraded: ")).then_some(body)
    })
}

fn gauge(tick: &Tick) -> f64 {
    scrape(tick.port)["elastick_log_file_harmed"]
}

/// Starts a new node and returns its rows.
fn assert_a_new_node_gets(tick: &Tick, rows: i64) {
    let tickerplant = format!("127.0.0.1:{}", tick.port);
    let arguments = ["rdb", &tickerplant, "-p", "127.0.0.1:0", "--memory", "64MiB", "--node", "late"];
    let mut node = Process::start(&mut elastick(&arguments));
    let address = format!("127.0.0.1:{}:test:", node.number_after("listening on")).parse().expect("an address");
    let mut client = Client::connect(&address, PATIENCE, Limits::default()).expect("the node answers");
    eventually(&mut client, "(count trade;sum trade`id)", &Value::longs([rows, rows * (rows - 1) / 2]));
}

/// Number of updates in a file.
fn updates_in(log: &Path) -> u64 {
    let mut reader = LogReader::open(&Env::system(), log, Limits::default(), 1 << 16).expect("a log");
    while let Next::Chunk(_) = reader.next_chunk(1 << 16, u64::MAX).expect("it can be read") {}
    reader.position()
}

#[test]
fn a_removed_log_is_fed_from_and_named_by_its_descriptor() {
    let (tick, mut feed, log) = started("harmed-removed", &["--durability", "each"]);
    assert_eq!((page(tick.port, "/health").0, gauge(&tick)), (200, 0.0));
    fs::remove_file(&log).expect("removed");
    let reason = harm(&tick, 200);
    assert!(reason.contains(&*log.to_string_lossy()) && reason.contains("only this process"), "{reason}");
    assert_eq!(gauge(&tick), 1.0);
    publish(&mut feed, 5..10);
    assert_a_new_node_gets(&tick, 100);
    let copy = reason.split(' ').find(|word| word.starts_with("/proc/")).expect("where the last copy is").to_string();
    assert!(copy.contains(&tick.process.id().to_string()), "{reason}");
    let saved = tick.directory.path().join("saved");
    fs::copy(&copy, &saved).expect("it can be copied");
    assert_eq!(updates_in(&saved), 10);
}

#[test]
fn a_log_whose_directory_is_moved_is_found_at_its_new_path() {
    let (tick, mut feed, log) = started("harmed-moved", &["--durability", "group(1ms)"]);
    let moved = tick.directory.path().with_extension("moved");
    fs::rename(tick.directory.path(), &moved).expect("moved");
    let reason = harm(&tick, 200);
    let there = moved.join(log.file_name().expect("a name"));
    assert!(reason.contains("moved to") && reason.contains(&*there.to_string_lossy()), "{reason}");
    publish(&mut feed, 5..10);
    assert_a_new_node_gets(&tick, 100);
    assert_eq!(updates_in(&there), 10);
    fs::rename(&moved, tick.directory.path()).expect("moved back");
    wait_for("the log to be back", || (!page(tick.port, "/health").1.contains("moved")).then_some(()));
    assert_eq!(gauge(&tick), 0.0);
}

#[test]
fn another_file_at_the_logs_path_is_fed_to_no_subscriber() {
    let (tick, mut feed, log) = started("harmed-replaced", &["--durability", "each"]);
    let other = started("harmed-replacing", &["--durability", "each"]).0;
    publish(&mut other.client(), 50..70);
    fs::copy(log_of(other.directory.path()), log.with_extension("new")).expect("copied");
    fs::rename(log.with_extension("new"), &log).expect("replaced");
    let reason = harm(&tick, 200);
    assert!(reason.contains("another file") && reason.contains("only this process"), "{reason}");
    publish(&mut feed, 5..10);
    assert_a_new_node_gets(&tick, 100);
}

#[test]
fn updates_are_rejected_once_the_log_was_cut() {
    for durability in ["none", "os", "group(1ms)", "each"] {
        let (tick, mut feed, log) = started("harmed-cut", &["--durability", durability]);
        fs::copy(&log, log.with_extension("1")).expect("copied");
        fs::File::create(&log).expect("cut");
        // Further updates make the file grow again, after a hole.
        let refused = wait_for("updates to be refused", || feed.request(&trades(0..10)).err());
        assert!(refused.to_string().contains("io: "), "{durability}: {refused}");
        let reason = harm(&tick, 503);
        assert!(reason.contains("rejecting updates") && reason.contains("another program truncated"), "{reason}");
        assert_eq!((gauge(&tick), scrape(tick.port)["elastick_log_failed"]), (1.0, 1.0));
    }
}
