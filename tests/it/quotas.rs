//! Limits of one user: what a user uses too much of is rejected with the user's name, and costs other users nothing.

use crate::harness::{Directory, wait_for};
use crate::node_program::with;
use crate::rdb_process::{Scene, ask, live, refused};
use crate::tick_support::{PATIENCE, Tick, all, ids, told, trades};
use elastick::net::Client;
use proto::{Limits, MessageKind, Value, encode};
use std::io::{Read, Write};

/// A users file in which the limits hold for ann, and bob has none.
fn users(name: &str, limits: &str) -> (Directory, String) {
    let files = Directory::new(&format!("{name}-files"));
    let path = files.path().join("users.toml");
    let text = format!(
        "[roles.small]\nquery = true\nsubscribe = true\n[roles.small.limits]\n{limits}\n\
         [users.ann]\npassword = \"x\"\nroles = [\"small\"]\n\
         [users.bob]\npassword = \"x\"\nroles = [\"query\", \"subscribe\", \"publish\"]\n"
    );
    std::fs::write(&path, text).expect("written");
    let path = path.to_string_lossy().into_owned();
    (files, path)
}

fn login(port: u16, user: &str) -> Client {
    let address = format!("127.0.0.1:{port}:{user}:x").parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default()).expect("a login")
}

/// Runs a test against a tickerplant and against a node whose users have these limits.
fn at_both(name: &str, limits: &str, options: &[&str], test: impl Fn(u16)) {
    let (_files, path) = users(name, limits);
    let options = [&["-U", path.as_str()], options].concat();
    let tick = Tick::start(name, &options);
    test(tick.port);
    let node: Scene = live(&options);
    test(node.port);
}

fn send(client: &mut Client, text: &str) {
    client.send_raw(&encode::message(MessageKind::Sync, &Value::chars(text)).expect("encodes")).expect("sent");
    client.flush().expect("sent");
}

/// Waits until a query is rejected.
fn until_refused(client: &mut Client, question: &str) -> String {
    let error = |client: &mut Client| client.query(question).err().map(|error| error.to_string());
    wait_for("a rejection", || error(client))
}

/// A user whose symbols are used up keeps the words of the language, the tables and what the process says of itself.
#[test]
fn words_after_the_symbols() {
    at_both("quota-words", "symbols = \"64KiB\"", &[], |port| {
        let mut ann = login(port, "ann");
        let names = |part: i64| (0..90_000).fold("count ".to_string(), |text, i| format!("{text}`s{part}_{i}"));
        let errors = (0..4).filter_map(|part| ann.query(&names(part)).err());
        assert!(errors.last().is_some_and(|error| error.to_string().contains("--limit-user-symbols")));
        for (text, result) in [("neg 1", -1), ("{[x]y:x;y}3", 3), ("count select from trade", 0)] {
            assert_eq!(ask(&mut ann, text), Value::Long(result), "{text}");
        }
        assert!(refused(&mut ann, "unheard_of_name").contains("--limit-user-symbols"));
    });
}

#[test]
fn queries_at_once() {
    at_both("quota-queries", "queries = 1", &[], |port| {
        let (mut first, mut second, mut bob) = (login(port, "ann"), login(port, "ann"), login(port, "bob"));
        send(&mut first, "i:0;while[i<2000000000;i+:1]");
        let error = until_refused(&mut second, "1+1");
        assert!(error.contains("limit: user ann has 1 queries in evaluation or waiting"), "{error}");
        assert_eq!(ask(&mut bob, "1+1"), Value::Long(2));
    });
}

#[test]
fn a_user_whose_queries_wait_for_their_own_clients_holds_no_thread() {
    let (_files, path) = users("quota-waits", "queries = 1");
    let node = live(&["-U", &path, "--query-threads", "1", "--limit-client-wait", "10m"]);
    let (mut first, mut second, mut bob) = (login(node.port, "ann"), login(node.port, "ann"), login(node.port, "bob"));
    send(&mut first, ".z.w\"1+1\"");
    let error = until_refused(&mut second, ".z.w\"1+1\"");
    assert!(error.contains("user ann has 1 queries"), "{error}");
    assert_eq!(ask(&mut bob, "1+1"), Value::Long(2));
}

#[test]
fn time_and_memory_of_a_query() {
    at_both("quota-time", "query-time = \"300ms\"\nquery-memory = \"8MiB\"", &[], |port| {
        let (mut ann, mut bob) = (login(port, "ann"), login(port, "bob"));
        let error = refused(&mut ann, "while[1b;]");
        assert_eq!(error, "stop: a query of user ann may take 300ms (query-time of a role)");
        let error = refused(&mut ann, "sum til 10000000");
        assert_eq!(error, "wsfull: a query of user ann may use 8388608 bytes (query-memory of a role)");
        assert_eq!(ask(&mut ann, "sum til 1000"), Value::Long(499_500));
        assert_eq!(ask(&mut bob, "sum til 3000000"), Value::Long(4_499_998_500_000));
    });
}

#[test]
fn a_role_cannot_raise_the_limits_of_the_process() {
    let limits = "query-time = \"10m\"\nquery-memory = \"100GiB\"";
    let options = ["--limit-query-time", "300ms", "--limit-query-memory", "8MiB"];
    at_both("quota-raised", limits, &options, |port| {
        let mut ann = login(port, "ann");
        assert_eq!(refused(&mut ann, "while[1b;]"), "stop");
        assert_eq!(refused(&mut ann, "sum til 10000000"), "wsfull");
    });
}

#[test]
fn symbols_that_queries_add() {
    at_both("quota-symbols", "symbols = \"64KiB\"", &[], |port| {
        let (mut ann, mut bob) = (login(port, "ann"), login(port, "bob"));
        let error = refused(&mut ann, "count `$\"of ann \",/:string til 5000");
        assert!(
            error.starts_with("limit: user ann: the queries of this user have added 65536 bytes of symbols"),
            "{error}"
        );
        // What was added stays, also over a new login.
        let mut again = login(port, "ann");
        assert!(refused(&mut again, "count `$\"more of ann \",/:string til 5000").starts_with("limit: user ann"));
        assert_eq!(ask(&mut bob, "count `$\"of bob \",/:string til 5000"), Value::Long(5000));
    });
}

#[test]
fn bytes_that_wait_to_be_sent() {
    at_both("quota-outbox", "outbox = \"1MiB\"", &[], |port| {
        let (mut greedy, mut ann, mut bob) = (login(port, "ann"), login(port, "ann"), login(port, "bob"));
        (0..3).for_each(|_| send(&mut greedy, "til 4000000"));
        let error = until_refused(&mut ann, "til 200000");
        assert!(error.contains("limit: the send buffers of user ann are full"), "{error}");
        assert_eq!(ask(&mut ann, "1+1"), Value::Long(2), "short responses are sent");
        assert_eq!(ask(&mut bob, "count til 200000"), Value::Long(200_000));
        assert!(matches!(ask(&mut bob, "til 200000"), Value::Vector { .. }));
        // Once the responses are read, there is room again.
        for _ in 0..3 {
            greedy.next_message(None).expect("connected").expect("a response");
        }
        wait_for("room", || ann.query("til 200000").ok());
    });
}

#[test]
fn connections_of_a_role() {
    at_both("quota-connections", "connections = 1", &[], |port| {
        let _first = login(port, "ann");
        let address = format!("127.0.0.1:{port}:ann:x").parse().expect("an address");
        assert!(Client::connect(&address, PATIENCE, Limits::default()).is_err());
        let mut bobs = [login(port, "bob"), login(port, "bob")];
        assert_eq!(ask(&mut bobs[1], "1+1"), Value::Long(2));
    });
}

#[test]
fn a_websocket_is_a_connection_of_its_user() {
    let (_files, path) = users("quota-websockets", "connections = 2");
    let (_program, scene) = with("quota-websockets", ".z.ws:{neg[.z.w] x}\n", &["-U", &path]);
    let _first = login(scene.port, "ann");
    let open = |user: &str| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", scene.port)).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let fields = format!("Authorization: Basic {user}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n");
        let key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{fields}{key}\r\n").as_bytes()).expect("sent");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("a status");
        (String::from_utf8_lossy(&status).into_owned(), stream)
    };
    // Base64 of ann:x and bob:x.
    let second = open("YW5uOng=");
    assert_eq!(second.0, "HTTP/1.1 101");
    assert_eq!(open("YW5uOng=").0, "HTTP/1.1 503");
    assert_eq!(open("Ym9iOng=").0, "HTTP/1.1 101");
}

#[test]
fn a_wrong_limit_is_named_with_its_place() {
    for (limits, words) in [
        ("query-time = \"soon\"", "[roles.small]: limits.query-time: \"soon\" is not a time"),
        ("symbols = \"1 apple\"", "limits.symbols: \"1 apple\" is not a size"),
        ("rows = 3", "unknown field `rows`"),
    ] {
        let (_files, path) = users("quota-wrong", limits);
        let output = crate::harness::elastick(&["tick", "-U", &path]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(words), "{text}");
    }
}

#[test]
fn an_idle_client_is_disconnected_and_one_with_a_subscription_is_not() {
    let (_files, path) = users("idle", "");
    let tick = Tick::start("idle", &["-U", &path, "--limit-idle", "1s"]);
    let (mut idle, mut subscriber, mut waits) =
        (login(tick.port, "ann"), login(tick.port, "bob"), login(tick.port, "bob"));
    subscriber.request(&all("trade")).expect("subscribed");
    // A query that takes longer than the limit is no idleness.
    send(&mut waits, "t:.z.p;while[.z.p<t+0D00:00:03;];`done");
    assert!(!matches!(idle.next_message(None), Ok(Some(_))), "closed");
    let answer = waits.next_message(None).expect("connected").expect("a response");
    assert_eq!(answer.body.get(1..5), Some(&b"done"[..]));
    let mut feed = login(tick.port, "bob");
    feed.request(&trades(0..2)).expect("published");
    assert_eq!(ids(&told(&mut subscriber)), [0, 1]);
}
