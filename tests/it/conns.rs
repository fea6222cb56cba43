//! `.u.conns`: what waits for each connection, by name.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::metrics::scrape;
use crate::roles::Firm;
use crate::tick_support::{PATIENCE, all, eventually, take_ids, trades};
use elastick::net::Client;
use proto::{Limits, Value};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn client(port: u16, user: &str) -> Client {
    let address = format!("127.0.0.1:{port}:{user}:").parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default()).expect("the tickerplant answers")
}

#[test]
fn a_subscriber_that_does_not_read_is_named_with_what_waits_for_it_until_it_has_caught_up() {
    let directory = Directory::new("conns");
    let path = directory.path().to_string_lossy().into_owned();
    let arguments = ["tick", "sym", &path, "-p", "127.0.0.1:0", "--unix-sockets=", "--limit-outbox", "64KiB"];
    std::fs::write(directory.path().join("sym.q"), "trade:([]time:`timespan$();sym:`symbol$();id:`long$())\n")
        .expect("written");
    let mut command = elastick(&[&arguments[..], &["--schemas", &path]].concat());
    let mut process = Process::start(command.env("ELASTICK_LOG", "info").stderr(Stdio::piped()));
    let port = process.number_after("listening on");
    let mut lines = BufReader::new(process.errors()).lines().map_while(Result::ok);
    let (mut slow, mut feed, mut ops) = (client(port, "ann"), client(port, "feed"), client(port, "ops"));
    slow.request(&all("trade")).expect("subscribed");
    let of_ann = |what: &str| format!("first exec {what} from .u.conns where user=`ann");
    let shown = "exec count i by kind from .u.conns";
    let kinds = ops.query(shown).expect("answered");
    assert_eq!(kinds.lookup("subscriber"), Some(Value::Long(1)), "{kinds:?}");
    assert_eq!(kinds.lookup("client"), Some(Value::Long(2)), "{kinds:?}");
    let mut published = 0i64;
    wait_for("it to be slow", || {
        feed.request(&trades(published..published + 2000)).expect("taken");
        published += 2000;
        (ops.query(&of_ann("not null slow")).expect("answered") == Value::Bool(true)).then_some(())
    });
    (0..5).for_each(|_| drop(feed.request(&trades(0..1)).expect("taken")));
    let waits = ops.query(&of_ann(&format!("(lag>=5)&(bytes>0)&rows<{published}")));
    assert_eq!(waits.expect("answered"), Value::Bool(true));
    let sizes = "{(enlist .u.conns[`bytes]w)~.z.W .u.conns[`handle]w:first where .u.conns[`user]=`ann}[]";
    assert_eq!(ops.query(sizes).expect("answered"), Value::Bool(true), "what waits, by handle");
    assert_eq!(ops.query("sum count each .z.W").expect("answered"), Value::Long(1), "nothing waits for others");
    let series = scrape(port);
    let of_slow = |name: &str| {
        let found = series.iter().find(|(key, _)| key.starts_with(name) && key.contains("user=\"ann\""));
        found.map(|(_, value)| *value)
    };
    assert!(of_slow("elastick_connection_lag_updates{").is_some_and(|lag| lag >= 5.0), "{series:?}");
    assert!(of_slow("elastick_connection_waiting_bytes{").is_some_and(|bytes| bytes > 0.0));
    assert!(of_slow("elastick_connection_slow_seconds{").is_some());
    assert!(lines.any(|line| line.contains("WARN")
        && line.contains("ann@127.0.0.1 (handle ")
        && line.contains("does not keep up")));
    let total = usize::try_from(published).expect("a count") + 5;
    assert_eq!(take_ids(&mut slow, total).len(), total);
    eventually(&mut ops, &of_ann("rows"), &Value::Long(published + 5));
    eventually(&mut ops, &of_ann("lag"), &Value::Long(0));
    eventually(&mut ops, &of_ann("null slow"), &Value::Bool(true));
    assert!(lines.any(|line| line.contains("ann@127.0.0.1 (handle ") && line.contains("has caught up after")));
}

#[test]
fn operators_see_all_connections_and_others_their_own() {
    let firm = Firm::start("conns-roles", &[]);
    let (mut reader, mut ops, _feed) = (firm.login("reader"), firm.login("ops"), firm.login("feed"));
    let users = |client: &mut Client| client.query("{x iasc x}exec user from .u.conns").expect("answered");
    assert_eq!(users(&mut ops), Value::symbols(["feed", "ops", "reader"]));
    assert_eq!(users(&mut reader), Value::symbols(["reader"]));
    assert_eq!(reader.query("`conns in key`.u").expect("answered"), Value::Bool(true));
}
