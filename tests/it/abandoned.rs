//! Clients that disconnect: their sync queries stop, queued ones are removed, async messages still run, and other clients notice nothing.

use crate::harness::{Directory, wait_for};
use crate::metrics::scrape;
use crate::node_program::tell;
use crate::q_session::serving;
use crate::rdb_process::{ask, live, refused};
use crate::rdb_support::Door;
use crate::tick_support::{PATIENCE, Tick};
use elastick::net::Client;
use proto::{Limits, MessageKind, Value, encode};

/// Much longer than any test may take.
const NO_LIMIT: [&str; 2] = ["-T", "3600"];
const FOREVER: &str = "while[1b;]";

fn login(port: u16, user: &str) -> Client {
    let address = format!("127.0.0.1:{port}:{user}:x").parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default()).expect("a login")
}

/// Sends a sync query without waiting for its response.
fn send(client: &mut Client, text: &str) {
    client.send_raw(&encode::message(MessageKind::Sync, &Value::chars(text)).expect("encodes")).expect("sent");
    client.flush().expect("sent");
}

/// Answers the next sync message of the server.
fn respond(client: &mut Client, value: &Value) {
    let asked = client.next_message(None).expect("connected").expect("a message");
    assert_eq!(asked.header.kind, MessageKind::Sync);
    client.send_raw(&encode::message(MessageKind::Response, value).expect("encodes")).expect("sent");
    client.flush().expect("sent");
}

fn until(port: u16, metric: &str, wanted: f64) {
    wait_for(metric, || (scrape(port).get(metric) == Some(&wanted)).then_some(()));
}

/// A client that has sent these, once the process has received them.
fn busy(port: u16, texts: &[&str]) -> Client {
    let mut client = login(port, "ann");
    let before = scrape(port).get("elastick_queries_total").copied().unwrap_or(0.0);
    texts.iter().for_each(|text| send(&mut client, text));
    // Of one connection, the next message is read when the last is done.
    until(port, "elastick_queries_total", before + 1.0);
    client
}

#[test]
fn queries_of_clients_that_leave_stop_and_free_their_threads() {
    let tick = Tick::start("abandoned", &NO_LIMIT);
    let node = live(&NO_LIMIT);
    for port in [tick.port, node.port] {
        // More than there are threads: some run, the others wait.
        let busy: Vec<Client> = (0..12).map(|_| busy(port, &[FOREVER, "left:1"])).collect();
        drop(busy);
        let mut bob = login(port, "bob");
        assert_eq!(ask(&mut bob, "1+1"), Value::Long(2), "while nothing limits the time of the others");
        // Both messages of each.
        until(port, "elastick_queries_abandoned_total", 24.0);
        assert_eq!(refused(&mut bob, "left"), "left", "what was sent behind did not run");
        let page = scrape(port);
        assert_eq!(page.get("elastick_limit_refusals_total{limit=\"limit-query-time\"}"), Some(&0.0), "{page:?}");
    }
}

#[test]
fn another_clients_query_is_not_touched() {
    let node = live(&[&NO_LIMIT[..], &["--query-threads", "2"]].concat());
    let mut other = login(node.port, "ann");
    send(&mut other, "1+.z.w\"20+21\"");
    drop(busy(node.port, &[FOREVER]));
    until(node.port, "elastick_queries_abandoned_total", 1.0);
    respond(&mut other, &Value::Long(41));
    let answer = other.next_message(None).expect("connected").expect("a response");
    let (value, _) = proto::decode::object(&answer.body, answer.header.endian, &Limits::default()).expect("an object");
    assert_eq!((answer.header.kind, value), (MessageKind::Response, Value::Long(42)));
}

#[test]
fn a_query_that_waits_for_another_process_ends_with_its_client() {
    let door = Door::open();
    let port = door.port();
    let accepted = std::thread::spawn(move || door.accept());
    let node = live(&[&NO_LIMIT[..], &["--query-threads", "1", "--remote-may", "sockets"]].concat());
    let client = busy(node.port, &[&format!("(hopen`::{port})\"never answered\"")]);
    let _silent = accepted.join().expect("no panic");
    drop(client);
    until(node.port, "elastick_queries_abandoned_total", 1.0);
    assert_eq!(ask(&mut login(node.port, "bob"), "1+1"), Value::Long(2));
}

#[test]
fn a_query_that_waits_for_the_write_lock_gives_up() {
    let node = live(&[&NO_LIMIT[..], &["--query-threads", "2"]].concat());
    let mut holds = login(node.port, "ann");
    send(&mut holds, "x:0;.z.w\"locked\";while[1b;x:x+1]");
    // The first run ends at the assignment; the second has the lock.
    respond(&mut holds, &Value::Long(0));
    let waits = busy(node.port, &["y:1"]);
    drop(waits);
    // One thread is free again, although the lock is not.
    let mut bob = login(node.port, "bob");
    assert_eq!(ask(&mut bob, "1+1"), Value::Long(2));
    until(node.port, "elastick_queries_abandoned_total", 1.0);
    drop(holds);
    ask(&mut bob, "z:1");
    assert_eq!(refused(&mut bob, "y"), "y");
}

#[test]
fn async_messages_run_to_their_end() {
    let tick = Tick::start("abandoned-async", &NO_LIMIT);
    let node = live(&NO_LIMIT);
    for port in [tick.port, node.port] {
        let mut ann = login(port, "ann");
        tell(&mut ann, "{i:0;while[i<300000;i+:1];`done1 set i}[]");
        tell(&mut ann, "done2:done1+1");
        drop(ann);
        let mut bob = login(port, "bob");
        wait_for("both messages", || (bob.query("done2").ok()? == Value::Long(300_001)).then_some(()));
        assert_eq!(scrape(port).get("elastick_queries_abandoned_total"), Some(&0.0));
    }
}

#[test]
fn the_audit_log_says_why_a_query_ended() {
    let directory = Directory::new("abandoned-audit");
    let path = directory.path().join("audit");
    let text = path.to_string_lossy().into_owned();
    let node = live(&[&NO_LIMIT[..], &["--audit", &text, "--query-threads", "1"]].concat());
    let first = busy(node.port, &[FOREVER]);
    let second = busy(node.port, &["1+1"]);
    drop(second);
    until(node.port, "elastick_queries_abandoned_total", 1.0);
    drop(first);
    wait_for("both records", || {
        let records = std::fs::read_to_string(&path).ok()?;
        let ended = |asked: &str| {
            let of_it =
                |line: &&str| line.contains(&format!("\"{asked}\"")) && line.contains("the client has disconnected");
            records.lines().filter(of_it).count()
        };
        (ended(FOREVER) == 1 && ended("1+1") == 1).then_some(())
    });
}

#[test]
fn a_session_that_serves_clients_stops_for_those_that_left() {
    let (_files, mut process, port) = serving("abandoned-session", "seen:()\n");
    let (mut ann, mut bob) = (login(port, "ann"), login(port, "bob"));
    send(&mut ann, "seen,:1;-1\"started\";while[1b;]");
    process.line(|line| (line == "started").then_some(()));
    send(&mut ann, "seen,:2");
    drop(ann);
    assert_eq!(ask(&mut bob, "seen"), Value::longs([1]), "what was done stays, what waited is not begun");
}

#[test]
fn what_a_client_sends_into_its_own_wait_has_its_time_limit() {
    // The session waits for a response of its client, which asks it to wait for a message, or to work, meanwhile.
    for inner in [".z.w[]", FOREVER] {
        let (_files, _process, port) = serving("nested-session", "system\"T 1\";\n");
        let (mut ann, mut bob) = (login(port, "ann"), login(port, "bob"));
        send(&mut ann, ".z.w\"what?\"");
        let asked = ann.next_message(None).expect("connected").expect("a message");
        assert_eq!(asked.header.kind, MessageKind::Sync);
        send(&mut ann, inner);
        assert_eq!(ask(&mut bob, "1+1"), Value::Long(2), "{inner}: others are served after it");
    }
}
