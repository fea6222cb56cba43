//! A node as a process: memory use, replies, exit.

use crate::harness::{Process, elastick, wait_for};
use crate::rdb_support::{Door, Guest, entry, put_tables};
use elastick::config::Address;
use elastick::net::client::{Client, ClientError};
use proto::{Items, Limits, MessageKind, Value, Writer, encode, types};
use std::time::Duration;

const DATE: i32 = 9821;

pub struct Scene {
    pub node: Process,
    pub port: u16,
    pub guest: Guest,
    _door: Door,
}

/// A node that is live from update 0.
pub fn live(options: &[&str]) -> Scene {
    live_with(put_tables, options)
}

fn live_with(tables: crate::rdb_support::Tables, options: &[&str]) -> Scene {
    let door = Door::open_with(tables);
    let address = format!("127.0.0.1:{}", door.port());
    let mut arguments = vec!["rdb", &address, "-p", "0"];
    arguments.extend_from_slice(options);
    let mut node = Process::start(&mut elastick(&arguments));
    let mut guest = door.accept();
    let joined = guest.join(DATE, 0, false);
    let port = node.number_after("listening on");
    assert_eq!(entry(&joined, "port"), Value::Int(i32::from(port)));
    guest.make_live(0, 0, DATE, None);
    guest.call(".u.asg.from");
    Scene { node, port, guest, _door: door }
}

impl Scene {
    pub fn connect(&self) -> Client {
        let address: Address = format!("127.0.0.1:{}:ann:x", self.port).parse().expect("an address");
        Client::connect(&address, Duration::from_secs(30), Limits::default()).expect("connected")
    }

    /// Waits until the node has this many trades.
    pub fn holds(&self, client: &mut Client, rows: i64) {
        wait_for("the rows to be held", || (ask(client, "count trade") == Value::Long(rows)).then_some(()));
    }

    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.node.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a figure");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }
}

pub fn ask(client: &mut Client, question: &str) -> Value {
    client.query(question).unwrap_or_else(|error| panic!("{question}: {error}"))
}

pub fn refused(client: &mut Client, question: &str) -> String {
    match client.query(question) {
        Err(ClientError::Server(name)) => String::from_utf8_lossy(&name).into_owned(),
        other => panic!("{question}: {other:?}"),
    }
}

#[test]
fn a_row_of_trades_takes_its_width_in_resident_memory() {
    const ROWS: i64 = 2_000_000;
    let mut scene = live_with(put_default, &["--memory", "1GiB", "--roll-threshold", "90"]);
    let mut client = scene.connect();
    let block: Vec<i64> = (0..10_000).collect();
    // The first block allocates buffers, symbol tables and first pages of columns, and is not measured.
    scene.guest.feed_columns("trade", &TRADE, |w| put_trades(w, &block), 0);
    scene.holds(&mut client, 10_000);
    let before = scene.resident_bytes();
    for index in 1..=ROWS as u64 / 10_000 {
        scene.guest.feed_columns("trade", &TRADE, |w| put_trades(w, &block), index);
    }
    scene.holds(&mut client, ROWS + 10_000);
    let taken = scene.resident_bytes().saturating_sub(before);
    let index = match entry(&ask(&mut client, ".rdb.stats"), "index") {
        Value::Long(bytes) => bytes as u64,
        other => panic!("{other:?}"),
    };
    let per_row = taken.saturating_sub(index) as f64 / ROWS as f64;
    assert!(per_row <= 1.1 * 33.0, "{per_row:.2} bytes a row, the index apart");
    assert!(index <= 4 * (ROWS as u64 + 10_000), "the index takes {index} bytes");
}

/// What queries hold for a moment is no reason to close a window, which cannot be taken back.
#[test]
fn large_queries_close_no_window() {
    let scene = live(&["--memory", "1GiB", "--roll-threshold", "50", "--query-threads", "4"]);
    let mut client = scene.connect();
    let _holding: Vec<Client> = (0..3)
        .map(|_| {
            let mut holding = scene.connect();
            let text = Value::chars("{while[count x;x:x]}til 30000000");
            holding.send_raw(&encode::message(MessageKind::Sync, &text).expect("encodes")).expect("sent");
            holding.flush().expect("sent");
            holding
        })
        .collect();
    // More than rows may use before it rolls.
    wait_for("the queries", || (ask(&mut client, "700000000<.rdb.stats`queries") == Value::Bool(true)).then_some(()));
    assert_eq!(ask(&mut client, ".rdb.stats`state"), Value::symbol("live"));
    // A query may hold 256 MiB, but not on top of these.
    assert!(refused(&mut client, "sum til 33000000").starts_with("wsfull"));
    assert_eq!(ask(&mut client, "sum til 1000"), Value::Long(499_500));
}

#[test]
fn queries_see_what_was_taken_in() {
    let mut scene = live(&[]);
    let mut client = scene.connect();
    scene.guest.feed("trade", &[3, 1, 2], 0);
    scene.holds(&mut client, 3);
    assert_eq!(ask(&mut client, "exec sum n from trade"), Value::Long(6));
    assert_eq!(ask(&mut client, "exec n from trade where sym=`S2"), Value::longs([2]));
    assert_eq!(ask(&mut client, "count quote"), Value::Long(0));
    assert_eq!(
        ask(&mut client, "asc tables[]"),
        Value::Vector { attr: 1, items: Items::Symbol(vec![b"quote".to_vec(), b"trade".to_vec()]) }
    );
    assert_eq!(ask(&mut client, ".z.u"), Value::Symbol(b"ann".to_vec()));
}

#[test]
fn windows_and_stats_describe_the_node() {
    let mut scene = live(&["--queue", "q7", "--node", "n7"]);
    let mut client = scene.connect();
    scene.guest.feed("trade", &[3, 1], 0);
    scene.guest.feed("trade", &[2], 1);
    // The published state lags the rows by one event-loop iteration.
    let is_told = |client: &mut Client| ask(client, "exec sum rows from .rdb.windows") == Value::Long(3);
    wait_for("the rows to be told", || is_told(&mut client).then_some(()));
    let windows = ask(&mut client, ".rdb.windows");
    let Value::Table { names, mut columns, .. } = windows else { panic!("{windows:?}") };
    assert_eq!(
        names,
        ["firstI", "lastI", "open", "tab", "updates", "rows", "hash"].map(|name| name.as_bytes().to_vec())
    );
    columns.pop();
    let vector = |items| Value::Vector { attr: 0, items };
    let expected = [
        Value::longs([0]),
        Value::longs([2]),
        vector(Items::Bool(vec![true])),
        vector(Items::Symbol(vec![b"trade".to_vec()])),
        Value::longs([2]),
        Value::longs([3]),
    ];
    assert_eq!(columns, expected);
    let stats = ask(&mut client, ".rdb.stats");
    assert_eq!(entry(&stats, "queue"), Value::Symbol(b"q7".to_vec()));
    assert_eq!(entry(&stats, "node"), Value::Symbol(b"n7".to_vec()));
    assert_eq!(entry(&stats, "live"), Value::Bool(true));
    assert_eq!(entry(&stats, "nextI"), Value::Long(2));
    assert_eq!(ask(&mut client, "key `.rdb"), Value::symbols(["", "windows", "stats", "windowsV1", "statsV1"]));
}

#[test]
fn clients_define_names_but_cannot_write_fed_tables() {
    let mut scene = live(&[]);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    scene.guest.feed("trade", &[1], 0);
    scene.holds(&mut client, 1);
    client.send_async(&Value::chars("limit:5")).expect("sent");
    assert_eq!(ask(&mut client, "limit+1"), Value::Long(6));
    assert_eq!(ask(&mut other, "limit+2"), Value::Long(7));
    assert_eq!(refused(&mut client, "trade:()"), "noupdate");
    assert_eq!(refused(&mut client, "`trade insert (0D;`a;1)"), "noupdate");
    assert_eq!(refused(&mut client, "delete from `trade"), "noupdate");
    assert_eq!(ask(&mut client, "count trade"), Value::Long(1));
}

#[test]
fn where_writes_are_blocked_clients_define_nothing() {
    let scene = live(&["-b"]);
    let mut client = scene.connect();
    assert_eq!(refused(&mut client, "limit:5"), "noupdate");
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
}

#[test]
fn a_query_is_limited_in_time_and_memory_and_others_go_on() {
    let mut scene = live(&["-T", "1", "--limit-query-memory", "64MiB"]);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    other.send_async(&Value::chars("while[1b;]")).expect("sent");
    other.flush().expect("sent");
    scene.guest.feed("trade", &[1], 0);
    scene.holds(&mut client, 1);
    assert_eq!(refused(&mut client, "while[1b;]"), "stop");
    assert_eq!(refused(&mut client, "til 100000000"), "wsfull");
    assert_eq!(ask(&mut client, "count trade"), Value::Long(1));
}

#[test]
fn errors_have_their_names_and_answers_their_order() {
    let scene = live(&[]);
    let mut client = scene.connect();
    assert_eq!(refused(&mut client, "1+`a"), "type");
    assert_eq!(refused(&mut client, "nothere"), "nothere");
    assert_eq!(refused(&mut client, "1 2+1 2 3"), "length");
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
}

#[test]
fn a_node_that_is_terminated_drains_and_leaves() {
    let mut scene = live(&[]);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
    assert!(scene.node.stop().success());
}

const TRADE: [&str; 6] = ["time", "sym", "price", "size", "side", "ex"];

/// The default trade table: 33 bytes a row.
fn put_default(w: &mut Writer<'_>) {
    w.list_head(1);
    w.list_head(2);
    w.symbol("trade");
    w.table_head(TRADE);
    w.vector(types::TIMESPAN, types::ATTR_NONE, &[] as &[i64]);
    w.vector_head(types::SYMBOL, types::ATTR_GROUPED, 0);
    w.vector(types::FLOAT, types::ATTR_NONE, &[] as &[f64]);
    w.vector(types::LONG, types::ATTR_NONE, &[] as &[i64]);
    w.vector(types::CHAR, types::ATTR_NONE, &[] as &[u8]);
    w.symbols([] as [&str; 0]);
}

fn put_trades(w: &mut Writer<'_>, values: &[i64]) {
    w.vector(types::TIMESPAN, types::ATTR_NONE, values);
    w.symbols(values.iter().map(|value| format!("SYM{}", value % 1000)).collect::<Vec<_>>());
    w.vector(types::FLOAT, types::ATTR_NONE, &values.iter().map(|value| *value as f64).collect::<Vec<_>>());
    w.vector(types::LONG, types::ATTR_NONE, values);
    w.vector(types::CHAR, types::ATTR_NONE, &vec![b'B'; values.len()]);
    w.symbols(vec!["N"; values.len()]);
}

#[test]
fn a_symbol_is_found_by_the_index_as_by_a_scan() {
    let mut scene = live_with(put_default, &["--memory", "1GiB"]);
    let mut client = scene.connect();
    let block: Vec<i64> = (0..10_000).collect();
    for index in 0..15 {
        scene.guest.feed_columns("trade", &TRADE, |w| put_trades(w, &block), index);
    }
    scene.holds(&mut client, 150_000);
    let same = |client: &mut Client, clause: &str, scan: &str| {
        let question = format!("(select from trade where {clause})~select from trade where {scan}");
        assert_eq!(ask(client, &question), Value::Bool(true), "{question}");
        let count = ask(client, &format!("exec count i from trade where {clause}"));
        assert_ne!(count, Value::Long(0), "{clause}");
    };
    same(&mut client, "sym=`SYM7", "`SYM7=`#sym");
    same(&mut client, "sym in `SYM7`SYM9`SYM7", "(`#sym) in `SYM7`SYM9");
    same(&mut client, "sym=`SYM7, size>5000", "size>5000, `SYM7=`#sym");
    assert_eq!(ask(&mut client, "{[s] exec count i from trade where sym=s}`SYM1"), Value::Long(150));
    assert_eq!(ask(&mut client, "exec count i from trade where sym=`none"), Value::Long(0));
}

#[test]
fn clients_tables_of_their_own_take_rows() {
    let scene = live(&[]);
    let mut client = scene.connect();
    ask(&mut client, "mine:([]a:1 2;b:`x`y)");
    assert_eq!(ask(&mut client, "`mine insert (3;`z)"), Value::longs([2]));
    assert_eq!(ask(&mut client, "exec a from mine"), Value::longs([1, 2, 3]));
}
