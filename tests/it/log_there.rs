//! A roll into a day whose log already exists: written while the clock was ahead, or made by hand.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::metrics::{page, scrape};
use crate::tick_support::*;
use elastick::env::Env;
use elastick::log::{LogReader, Next, log_path};
use elastick::net::Client;
use proto::{Limits, Value};
use std::path::{Path, PathBuf};

/// Path of the next day's log of a tickerplant.
fn tomorrows(tick: &Tick) -> PathBuf {
    let files = std::fs::read_dir(tick.directory.path()).expect("listed").flatten().map(|entry| entry.path());
    let date = files.filter_map(|path| elastick::log::date_of(&path)).min().expect("a log");
    log_path(tick.directory.path(), "sym", date.tomorrow().expect("a date"))
}

fn publish(feed: &mut Client, updates: std::ops::Range<i64>) {
    updates.for_each(|i| drop(feed.request(&trades(i..i + 1)).expect("acknowledged")));
}

/// Makes a log with these updates by another tickerplant.
fn logged(name: &str, updates: std::ops::Range<i64>) -> (Directory, PathBuf) {
    let mut tick = Tick::start(name, &[]);
    publish(&mut tick.client(), updates);
    tick.process.stop();
    let files = std::fs::read_dir(tick.directory.path()).expect("listed").flatten().map(|entry| entry.path());
    let log = { files }.find(|path| elastick::log::date_of(path).is_some()).expect("a log");
    (tick.directory, log)
}

fn updates_in(log: &Path) -> u64 {
    let mut reader = LogReader::open(&Env::system(), log, Limits::default(), 1 << 16).expect("a log");
    while let Next::Chunk(_) = reader.next_chunk(1 << 16, u64::MAX).expect("it can be read") {}
    reader.position()
}

fn number(client: &mut Client, expression: &str) -> i64 {
    client.query(expression).expect("an answer").as_long().expect("a long")
}

#[test]
fn the_day_continues_an_existing_log_and_all_subscribers_get_all_of_it() {
    for options in [&["--durability", "group(1ms)"][..], &["--durability", "each", "-t", "20"]] {
        let tick = Tick::start("there-gone-on", options);
        let mut feed = tick.client();
        publish(&mut feed, 0..3);
        let address = format!("127.0.0.1:{}", tick.port);
        let mut node = Process::start(&mut elastick(&["rdb", &address, "-p", "127.0.0.1:0", "--memory", "64MiB"]));
        let at_node = format!("127.0.0.1:{}:test:", node.number_after("listening on")).parse().expect("an address");
        let mut at_node = Client::connect(&at_node, PATIENCE, Limits::default()).expect("the node answers");
        eventually(&mut at_node, "trade`id", &Value::longs([0, 1, 2]));
        let mut subscriber = tick.client();
        subscriber.request(&all("trade")).expect("subscribed");
        let tomorrow = tomorrows(&tick);
        // As from kdb+ or made by hand: without a side file.
        let (_directory, log) = logged("there-made", 100..125);
        std::fs::copy(&log, &tomorrow).expect("copied");
        feed.query(".u.endofday[]").expect("the day ends");
        assert_eq!(number(&mut feed, ".u.i"), 25);
        publish(&mut feed, 125..130);
        let series = scrape(tick.port);
        let (tip, durable) = (series["elastick_log_updates"], series["elastick_log_durable_updates"]);
        assert!((30.0, 30.0) == (tip, durable), "{tip} {durable}");
        // In batch mode rows of the day before may come first.
        while name_of(&told(&mut subscriber)) != ".u.end" {}
        assert_eq!(take_ids(&mut subscriber, 30), (100..130).collect::<Vec<_>>());
        eventually(&mut at_node, "trade`id", &Value::longs((100..130).collect::<Vec<_>>()));
        assert_eq!(updates_in(&tomorrow), 30);
        assert_eq!(page(tick.port, "/health").0, 200);
    }
}

#[test]
fn a_day_does_not_end_into_another_tickerplants_log() {
    let tick = Tick::start("there-foreign", &["--durability", "each"]);
    let mut feed = tick.client();
    publish(&mut feed, 0..3);
    let date = feed.query(".u.d").expect("a date");
    let mut subscriber = tick.client();
    subscriber.request(&all("trade")).expect("subscribed");
    let tomorrow = tomorrows(&tick);
    let (_directory, log) = logged("there-other", 100..125);
    let side = elastick::log::side_path(&tomorrow);
    std::fs::copy(&log, &tomorrow).expect("copied");
    std::fs::copy(elastick::log::side_path(&log), &side).expect("copied");
    let refused = feed.query(".u.endofday[]").expect_err("the day goes on").to_string();
    assert!(refused.contains("continues, because the log of") && refused.contains("Move it away"), "{refused}");
    let (status, health) = page(tick.port, "/health");
    assert!(status == 200 && health.starts_with("degraded") && health.contains("Move it away"), "{health}");
    publish(&mut feed, 3..5);
    assert_eq!((feed.query(".u.d").expect("a date"), updates_in(&tomorrow)), (date.clone(), 25));
    std::fs::remove_file(&tomorrow).expect("removed");
    std::fs::remove_file(&side).expect("removed");
    wait_for("the day to end", || (feed.query(".u.d").expect("a date") != date).then_some(()));
    publish(&mut feed, 5..6);
    assert_eq!(take_ids(&mut subscriber, 2), [3, 4]);
    assert_eq!(name_of(&told(&mut subscriber)), ".u.end");
    assert_eq!(take_ids(&mut subscriber, 1), [5]);
    let health = page(tick.port, "/health").1;
    assert!(health.starts_with("ok: 1 updates"), "{health}");
}

/// A node's handshake, which puts it into the table and the journal. `held`: ends of the closed windows that it claims.
fn joined(tick: &Tick, name: &str, held: &[i64]) -> Client {
    let keys = ["proto", "node", "queue", "tabs", "syms", "port", "date", "held", "live", "first", "next"];
    let none = || Value::Long(i64::MIN);
    let (name, all) = (Value::symbol(name), || Value::symbol(""));
    let values = [Value::Long(1), name, Value::symbol("q"), all(), all(), Value::Int(0), Value::Date(i32::MIN)];
    let values = values.into_iter().chain([Value::longs(held.to_vec()), Value::Bool(false), none(), none()]);
    let mut client = tick.client();
    let join = call(".u.asg.join", [Value::dict(Value::symbols(keys), Value::list(values))]);
    client.request(&join).expect("joined");
    client
}

#[test]
fn a_journal_that_cannot_be_opened_leaves_yesterdays_alone_and_is_written_whole_later() {
    let tick = Tick::start("there-journal", &["--durability", "each"]);
    let mut feed = tick.client();
    publish(&mut feed, 0..3);
    let _live = joined(&tick, "n1", &[]);
    let tomorrow = tomorrows(&tick);
    let today = elastick::log::date_of(&tomorrow).expect("a date").yesterday().expect("a date");
    let yesterdays = elastick::log::queue_path(&log_path(tick.directory.path(), "sym", today));
    let journal = elastick::log::queue_path(&tomorrow);
    std::fs::create_dir(&journal).expect("in the way");
    let before = std::fs::read(&yesterdays).expect("a journal");
    feed.query(".u.endofday[]").expect("the day ends");
    let _waiting = joined(&tick, "n2", &[]);
    assert_eq!(std::fs::read(&yesterdays).expect("a journal"), before);
    std::fs::remove_dir(&journal).expect("removed");
    let _other = joined(&tick, "n3", &[]);
    assert_eq!(std::fs::read(&yesterdays).expect("a journal"), before);
    let tick = tick.restarted(&["--durability", "each"]);
    // The live node and the standbys, two of which joined while there was no journal.
    eventually(&mut tick.client(), "exec node from .u.asg.tab", &Value::symbols(["n1", "n2", "n3"]));
}

#[test]
fn a_window_that_is_claimed_and_never_proved_is_rebuilt_by_another_node() {
    let tick = Tick::start("there-claimed", &["--proof-timeout", "200ms"]);
    publish(&mut tick.client(), 0..10);
    let mut liar = joined(&tick, "liar", &[0, 6]);
    let address = format!("127.0.0.1:{}", tick.port);
    let start = |_| Process::start(&mut elastick(&["rdb", &address, "-p", "127.0.0.1:0", "--memory", "64MiB"]));
    let mut nodes: Vec<_> = (0..2).map(start).collect();
    let client = |node: &mut Process| {
        let at_node = format!("127.0.0.1:{}:test:", node.number_after("listening on")).parse().expect("an address");
        Client::connect(&at_node, PATIENCE, Limits::default()).expect("the node answers")
    };
    let mut clients: Vec<_> = nodes.iter_mut().map(client).collect();
    wait_for("the nodes to hold each row once", || {
        let held = clients.iter_mut().map(|at_node| at_node.query("trade`id").ok());
        let mut held: Vec<i64> =
            held.flatten().filter_map(|ids| ids.as_longs().map(<[i64]>::to_vec)).flatten().collect();
        held.sort_unstable();
        (held == (0..10).collect::<Vec<_>>()).then_some(())
    });
    while name_of(&told(&mut liar)) != ".u.asg.recheck" {}
}

#[test]
fn a_day_that_was_ended_too_early_is_continued_with_the_log_of_both() {
    let tick = Tick::start("there-back", &["--durability", "each"]);
    let mut feed = tick.client();
    publish(&mut feed, 0..5);
    let today = feed.query(".u.d").expect("a date");
    feed.query(".u.endofday[]").expect("the day ends");
    publish(&mut feed, 5..8);
    let tick = tick.restarted_after(&["--durability", "each"], |directory| {
        let logs = || std::fs::read_dir(directory).expect("listed").flatten().map(|entry| entry.path());
        let mut days: Vec<_> = logs().filter(|path| elastick::log::date_of(path).is_some()).collect();
        days.sort();
        let paths: Vec<_> = days.iter().map(|path| path.to_str().expect("a path")).collect();
        let info = elastick(&["log", "info", paths[1]]).output().expect("it runs");
        assert!(String::from_utf8_lossy(&info.stdout).contains("ahead of this machine's clock"), "{info:?}");
        let joined = directory.join("joined");
        let out = joined.to_str().expect("a path");
        let done = elastick(&["log", "join", "--out", out, paths[0], paths[1]]).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&done.stderr), format!("{out}: 8 records\n"));
        let again = elastick(&["log", "join", "--out", out, paths[0]]).output().expect("it runs");
        assert!(!again.status.success(), "it replaces no file");
        for path in logs().filter(|path| path.file_name().is_some_and(|name| name != "sym.q" && name != "joined")) {
            std::fs::remove_file(path).expect("removed");
        }
        std::fs::rename(&joined, &days[0]).expect("moved");
    });
    let mut client = tick.client();
    assert_eq!(client.query(".u.d").expect("a date"), today);
    assert_eq!(number(&mut client, ".u.i"), 8);
    publish(&mut client, 8..9);
    let address = format!("127.0.0.1:{}", tick.port);
    let mut node = Process::start(&mut elastick(&["rdb", &address, "-p", "127.0.0.1:0", "--memory", "64MiB"]));
    let at_node = format!("127.0.0.1:{}:test:", node.number_after("listening on")).parse().expect("an address");
    let mut at_node = Client::connect(&at_node, PATIENCE, Limits::default()).expect("the node answers");
    eventually(&mut at_node, "trade`id", &Value::longs((0..9).collect::<Vec<_>>()));
}
