//! `/metrics` and `/health` of a tickerplant and of a node.

use crate::harness::{Directory, Process, elastick, signal, wait_for, without_disk};
use crate::tick_support::{Tick, call, trades};
use elastick::metrics::{Id, Process as Of};
use proto::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

/// Status and body of a page; that of `/health` without a disk that is nearly full.
pub fn page(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, without_disk(body))
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
    // These processes have no certificate, no slow client and no follower; the tickerplant is neither passive nor under a lease.
    let absent = [
        Id::TlsCertificateSeconds,
        Id::ConnectionWaiting,
        Id::ConnectionLag,
        Id::ConnectionSlow,
        Id::TickForwarded,
        Id::LeaseOwned,
        Id::LeaseRenewed,
        Id::LeaseDanger,
        Id::LeaseHeld,
        Id::LeaseFailures,
        Id::FollowConnected,
        Id::FollowLag,
        Id::FollowLate,
        Id::FollowerLag,
    ];
    let expected = Id::ALL.iter().copied().filter(|id| !absent.contains(id) && id.metric().of.includes(of));
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
    assert_eq!(page(tick.port, "/health"), (200, "ok: 3 updates today, 1 node in queues\n".to_string()));
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

#[test]
fn a_count_of_updates_leaves_out_the_records_of_their_numbers() {
    let tick = Tick::start("health-numbers", &[]);
    let mut client = tick.client();
    client.request(&call(".u.seq", [Value::symbol("feed1")])).expect("the id is free");
    for seq in 1..=3 {
        let columns = Value::list([Value::symbols(["A"]), Value::longs([seq])]);
        let arguments = [Value::symbol("trade"), columns, Value::symbol("feed1"), Value::Long(seq)];
        client.request(&call(".u.upd", arguments)).expect("accepted");
    }
    let counts = client.query("(.u.i;.u.stats`updates)").expect("an answer");
    assert_eq!(counts, Value::longs([6, 3]), "the first is what -11! replays");
    let (_, health) = page(tick.port, "/health");
    assert!(health.starts_with("ok: 6 records (updates and their numbers) today"), "{health}");
    let log = client.query("1_string .u.L").expect("an answer");
    let log = String::from_utf8_lossy(log.as_text().expect("a path")).into_owned();
    let info = elastick(&["log", "info", "--json", &log]).output().expect("it runs");
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert_eq!((&info["updates"], &info["records"]), (&3.into(), &6.into()));
}

#[test]
fn health_says_that_nobody_receives_the_updates() {
    let tick = Tick::start("health-alone", &[]);
    let mut client = tick.client();
    client.request(&trades(0..3)).expect("published");
    let alone =
        "ok: 1 updates today, 0 nodes in queues; no node and no subscriber receives them, so they cannot be queried\n";
    assert_eq!(page(tick.port, "/health"), (200, alone.to_string()));
    client.request(&call(".u.sub", [Value::symbol("trade"), Value::symbol("")])).expect("subscribed");
    assert_eq!(page(tick.port, "/health"), (200, "ok: 1 updates today, 0 nodes in queues\n".to_string()));
}

#[test]
fn health_names_a_quarantine_that_fills() {
    let tick = Tick::start("health-words", &["--limit-quarantine-updates", "10"]);
    let mut client = tick.client();
    let wrong = call(".u.upd", [Value::symbol("trade"), Value::list([Value::symbol("A")])]);
    for _ in 0..9 {
        client.request(&wrong).expect_err("rejected");
    }
    let (status, health) = page(tick.port, "/health");
    let expected = "degraded: 9 rejected updates fill the quarantine, which drops the oldest (.u.rejected); ";
    assert!(status == 200 && health.starts_with(expected), "{health}");
}

#[test]
fn updates_that_no_node_serves_are_named_everywhere_until_a_node_serves_them() {
    let tick = Tick::start("metrics-unserved", &[]);
    let tickerplant = format!("127.0.0.1:{}", tick.port);
    let node = |name: &str, memory: &str| {
        let mut command = elastick(&["rdb", &tickerplant, "-p", "127.0.0.1:0", "--memory", memory, "--node", name]);
        command.stderr(Stdio::piped());
        let mut process = Process::start(&mut command);
        let port = process.number_after("listening on");
        (process, port)
    };
    let (mut only, port) = node("only", "1MiB");
    let mut feed = tick.client();
    let has_rolled = |port: u16| scrape(port).get("elastick_node_state{state=\"rolled\"}") == Some(&1.0);
    let mut next = 0;
    wait_for("the only node to roll", || {
        feed.request(&trades(next..next + 1000)).expect("taken");
        next += 1000;
        has_rolled(port).then_some(())
    });
    (0..3).for_each(|_| drop(feed.request(&trades(0..1)).expect("taken")));
    let unserved = "elastick_queue_updates_not_queryable{queue=\"rdb\"}";
    wait_for("both to say so", || {
        let (tick_status, tick_says) = page(tick.port, "/health");
        let (node_status, node_says) = page(port, "/health");
        let tick_says = tick_says.starts_with("degraded: no live node in queue rdb: ")
            && tick_says.contains("are logged but cannot be queried; start another node");
        let node_says = node_says.contains("updates of queue rdb are logged but cannot be queried on any node")
            && node_says.ends_with("; rolled\n");
        (tick_status == 200 && node_status == 200 && tick_says && node_says).then_some(())
    });
    let (of_tick, of_node) = (scrape(tick.port), scrape(port));
    assert!(of_tick[unserved] >= 3.0 && of_tick["elastick_health"] == 1.0);
    assert!(of_node["elastick_queue_updates_unserved"] >= 3.0 && of_node["elastick_health"] == 1.0);
    let warned = BufReader::new(only.errors()).lines().map_while(Result::ok);
    let warned = warned.into_iter().find(|line| line.contains("health: ") && line.contains("cannot be queried"));
    assert!(warned.is_some_and(|line| line.contains("WARN")));
    let (_second, second_port) = node("second", "64MiB");
    wait_for("both to be healthy again", || {
        let said = [tick.port, port, second_port].map(|port| page(port, "/health").1);
        said.iter().all(|said| said.starts_with("ok: ")).then_some(())
    });
    assert_eq!(scrape(tick.port)[unserved], 0.0);
}

#[test]
fn a_node_that_hangs_is_named_before_it_is_disconnected() {
    let tick = Tick::start("metrics-silent", &[]);
    let directory = Directory::new("metrics-silent-node");
    let (node, _) = rdb(&tick, &directory);
    tick.client().request(&trades(0..10)).expect("taken");
    let says = || page(tick.port, "/health").1;
    wait_for("the node to be live", || says().starts_with("ok: 1 updates today, 1 node").then_some(()));
    let silent = "elastick_queue_nodes_silent{queue=\"rdb\"}";
    assert_eq!(scrape(tick.port)[silent], 0.0);
    signal(node.id(), "STOP");
    let (status, said) = wait_for("the tickerplant to say so", || {
        let (status, said) = page(tick.port, "/health");
        said.contains("live node n1 of queue rdb has not answered for ").then_some((status, said))
    });
    assert!(status == 200 && said.starts_with("degraded: "), "{said}");
    assert_eq!(scrape(tick.port)[silent], 1.0);
    signal(node.id(), "CONT");
    wait_for("the node to answer again", || says().starts_with("ok: ").then_some(()));
}

#[test]
fn a_live_node_that_is_disconnected_is_named_with_what_follows() {
    let tick = Tick::start("metrics-away", &["--node-grace", "1h"]);
    let directory = Directory::new("metrics-away-node");
    let (node, _) = rdb(&tick, &directory);
    tick.client().request(&trades(0..10)).expect("taken");
    let says = || page(tick.port, "/health").1;
    wait_for("the node to be live", || says().starts_with("ok: 1 updates today, 1 node").then_some(()));
    drop(node);
    let expected = "degraded: live node n1 of queue rdb is disconnected: 1 updates from update 0 on are logged but cannot be queried; \
                    another takes over in 35";
    wait_for("the tickerplant to say so", || says().starts_with(expected).then_some(()));
}

#[test]
fn a_live_node_without_a_standby_is_named_when_its_fleet_is_at_its_maximum() {
    let tick = Tick::start("metrics-maximum", &[]);
    let node = env!("CARGO_BIN_EXE_elastick");
    let tickerplant = format!("127.0.0.1:{}", tick.port);
    let mut command = elastick(&["fleet", "--min", "1", "--max", "1", "-p", "0", "--", node, "rdb", &tickerplant]);
    command.args(["-p", "0", "--memory", "16MiB", "--scale", "10", "--roll", "100"]);
    let _fleet = Process::start(&mut command);
    let mut feed = tick.client();
    let (mut next, expected) =
        (0, "degraded: queue rdb has no standby and its fleet is at its maximum of 1: once the live node rdb-");
    let port = wait_for("the node's port", || {
        let ports = feed.request(&Value::chars("exec port from .u.asg.tab where state=`live")).ok()?;
        let port = ports.item(0)?;
        port.as_int().and_then(|port| u16::try_from(port).ok())
    });
    wait_for("both to say so", || {
        feed.request(&trades(next..next + 100)).expect("taken");
        next += 100;
        [tick.port, port].iter().all(|port| page(*port, "/health").1.starts_with(expected)).then_some(())
    });
    let said = page(tick.port, "/health").1;
    assert!(said.contains("later updates are logged but cannot be queried; raise the fleet's maximum"), "{said}");
}
