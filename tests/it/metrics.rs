//! `/metrics` and `/health` of a tickerplant and of a node.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::tick_support::{Tick, call, trades};
use elastick::metrics::{Id, Process as Of};
use proto::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Status and body of a page.
pub fn page(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, body.to_string())
}

/// The values of `/metrics` by name with labels, as printed.
pub fn scrape(port: u16) -> BTreeMap<String, f64> {
    let (status, text) = page(port, "/metrics");
    assert_eq!(status, 200);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_string(), value.parse().expect("a number"))
        })
        .collect()
}

/// Metrics of a process that are missing on the page.
fn missing(of: Of, series: &BTreeMap<String, f64>) -> Vec<Id> {
    let has = |name: &str| series.keys().any(|key| key.split('{').next() == Some(name));
    // These processes have no certificate.
    let expected = Id::ALL.iter().copied().filter(|id| *id != Id::TlsCertificateSeconds && id.metric().of.includes(of));
    expected.filter(|id| !has(id.metric().name)).collect()
}

fn rdb(tick: &Tick, directory: &Directory) -> (Process, u16) {
    let users = directory.path().join("users");
    std::fs::write(&users, "ann:secret\n").expect("a file can be written");
    let tickerplant = format!("127.0.0.1:{}", tick.port);
    let users = users.to_string_lossy().into_owned();
    let arguments = ["rdb", &tickerplant, "-p", "127.0.0.1:0", "--memory", "64MiB", "--scale", "60", "--roll", "80"];
    let mut command = elastick(&arguments);
    command.args(["--node", "n1", "-U", &users, "--metrics-open"]);
    let mut process = Process::start(&mut command);
    let port = process.number_after("listening on");
    (process, port)
}

#[test]
fn a_tickerplant_exports_all_its_metrics() {
    let tick = Tick::start("metrics-tick", &[]);
    let mut feed = tick.client();
    (0..3).for_each(|i| drop(feed.request(&trades(i * 10..i * 10 + 10)).expect("taken")));
    let wrong = call(".u.upd", [Value::symbol("nosuch"), Value::longs([1])]);
    assert!(feed.request(&wrong).is_err());
    let directory = Directory::new("metrics-tick-node");
    let _node = rdb(&tick, &directory);
    let series = wait_for("the room on the log's file system to be known", || {
        let series = scrape(tick.port);
        series.contains_key("elastick_log_free_bytes").then_some(series)
    });
    assert_eq!(missing(Of::Tick, &series), []);
    for (name, value) in [
        ("elastick_tick_up", 1.0),
        ("elastick_updates_total", 3.0),
        ("elastick_rows_total", 30.0),
        ("elastick_updates_refused_total", 1.0),
        ("elastick_quarantined_updates", 1.0),
        ("elastick_log_updates", 3.0),
        ("elastick_log_failed", 0.0),
        ("elastick_queues", 1.0),
        ("elastick_queues_without_live", 0.0),
        ("elastick_windows_lost", 0.0),
        ("elastick_queue_nodes{queue=\"rdb\",state=\"live\"}", 1.0),
        ("elastick_queue_nodes{queue=\"rdb\",state=\"away\"}", 0.0),
        ("elastick_limit_items{limit=\"limit-lanes\"}", 4096.0),
        ("elastick_limit_seconds{limit=\"limit-handshake-time\"}", 5.0),
        ("elastick_limit_used_items{limit=\"limit-queue-subscribers\"}", 1.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}");
    }
    assert!(series["elastick_log_bytes"] > 0.0 && series["elastick_process_resident_memory_bytes"] > 1e6);
    assert_eq!(page(tick.port, "/health"), (200, "ok: 3 updates today, 1 nodes in queues\n".to_string()));
    assert_eq!(page(tick.port, "/nosuch").0, 404);
}

#[test]
fn open_metrics_of_a_node_need_no_password() {
    let tick = Tick::start("metrics-node", &[]);
    let directory = Directory::new("metrics-node-users");
    let (_live, port) = rdb(&tick, &directory);
    let tickerplant = format!("127.0.0.1:{}", tick.port);
    let mut second = elastick(&["rdb", &tickerplant, "-p", "127.0.0.1:0", "--memory", "64MiB", "--node", "n2"]);
    let _second = Process::start(&mut second);
    tick.client().request(&trades(0..10)).expect("taken");
    let series = wait_for("the node to be live, caught up and told who waits", || {
        let series = scrape(port);
        let has = |name: &str, value: f64| series.get(name) == Some(&value);
        let known = has("elastick_queue_waiting_nodes", 1.0) && has("elastick_rows", 10.0);
        (known && series.contains_key("elastick_catch_up_seconds")).then_some(series)
    });
    // Unknown, because there is no fleet, no launch for this node, and no roll.
    let unknown = [Id::FillRate, Id::LeadTime, Id::Cushion];
    let missing: Vec<Id> = missing(Of::Node, &series).into_iter().filter(|id| !unknown.contains(id)).collect();
    assert_eq!(missing, []);
    for (name, value) in [
        ("elastick_node_connected", 1.0),
        ("elastick_node_state{state=\"live\"}", 1.0),
        ("elastick_node_state{state=\"waiting\"}", 0.0),
        ("elastick_node_info{node=\"n1\",queue=\"rdb\",protocol=\"elastick\"}", 1.0),
        ("elastick_updates_total", 1.0),
        ("elastick_lag_updates", 0.0),
        ("elastick_memory_budget_bytes", 64.0 * 1024.0 * 1024.0),
        ("elastick_scale_threshold_ratio", 0.6),
        ("elastick_roll_threshold_ratio", 0.8),
        ("elastick_windows", 1.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}");
    }
    assert!(series["elastick_live_age_seconds"] > 0.0);
    assert_eq!(page(port, "/health"), (200, "ok: live\n".to_string()));
    assert_eq!(page(port, "/other").0, 401);
    drop(tick);
    wait_for("the node to be of no use", || (page(port, "/health").0 == 503).then_some(()));
}
