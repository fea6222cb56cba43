//! A schema that changes during a day, with real processes.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::metrics::page;
use crate::tick_support::{PATIENCE, call, eventually};
use elastick::net::Client;
use proto::{Limits, Value, encode};
use std::process::Stdio;

pub const BEFORE: &str = "trade:([]time:`timespan$();sym:`symbol$();id:`long$())\n";
pub const AFTER: &str = "trade:([]time:`timespan$();sym:`symbol$();id:`long$();cond:`char$();who:`symbol$();note:())\n";

pub struct Day {
    pub directory: Directory,
    tick: Option<Process>,
    port: u16,
}

impl Day {
    pub fn new(name: &str) -> Day {
        let mut day = Day { directory: Directory::new(name), tick: None, port: 0 };
        day.start(BEFORE);
        day
    }

    pub fn path(&self) -> String {
        self.directory.path().to_string_lossy().into_owned()
    }

    fn arguments(&self, schema: &str) -> Vec<String> {
        std::fs::write(self.directory.path().join("sym.q"), schema).expect("a schema can be written");
        let (path, port) = (self.path(), format!("127.0.0.1:{}", self.port));
        ["tick", "sym", &path, "-p", &port, "--schemas", &path, "--unix-sockets=", "--operators", "test"]
            .map(String::from)
            .to_vec()
    }

    /// Restarts the tickerplant on the same port.
    pub fn start(&mut self, schema: &str) {
        self.tick = None;
        let arguments = self.arguments(schema);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = Process::start(&mut elastick(&arguments));
        self.port = process.number_after("listening on");
        self.tick = Some(process);
    }

    /// Error of a start that a changed schema must make fail.
    pub fn refuses(&mut self, schema: &str) -> String {
        self.tick = None;
        let arguments = self.arguments(schema);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = elastick(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    pub fn node(&self, name: &str, options: &[&str]) -> (Process, Client) {
        let address = format!("127.0.0.1:{}", self.port);
        let mut arguments =
            vec!["rdb", &address, "-p", "127.0.0.1:0", "--node", name, "--unix-sockets=", "--memory", "64MiB"];
        arguments.extend(options);
        let mut process = Process::start(&mut elastick(&arguments));
        let port = process.number_after("listening on");
        (process, connect(port))
    }

    pub fn client_of(&self, user: &str) -> Client {
        connect_as(user, self.port)
    }

    pub fn client(&self) -> Client {
        connect(self.port)
    }

    pub fn log_file(&self, ending: &str) -> std::path::PathBuf {
        let mut files =
            std::fs::read_dir(self.directory.path()).expect("a directory").flatten().map(|entry| entry.path());
        let found = files.find(|path| path.to_string_lossy().ends_with(ending));
        found.expect("the file is there")
    }
}

fn connect(port: u16) -> Client {
    connect_as("test", port)
}

fn connect_as(user: &str, port: u16) -> Client {
    let address = format!("127.0.0.1:{port}:{user}:").parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default()).expect("it answers")
}

/// An update with the old schema, or with the added columns.
pub fn trade(id: i64, added: bool) -> Value {
    let mut columns = vec![Value::symbols([if id % 2 == 0 { "A" } else { "B" }]), Value::longs([id])];
    if added {
        columns.extend([Value::chars("x"), Value::symbols(["w"]), Value::list([Value::chars("text")])]);
    }
    call(".u.upd", [Value::symbol("trade"), Value::list(columns)])
}

const FILLED: &str = "exec (id; cond; who; count each note) from trade";

/// Waits until a node has these trades. It may not have the new columns yet.
pub fn holds(node: &mut Client, wanted: &Value) {
    wait_for("the trades to be held", || (node.query(FILLED).ok().as_ref() == Some(wanted)).then_some(()));
}

pub fn filled(ids: &[i64]) -> Value {
    let is_new = |id: &&i64| **id >= 10;
    let cond: String = ids.iter().map(|id| if is_new(&id) { 'x' } else { ' ' }).collect();
    let who: Vec<&str> = ids.iter().map(|id| if is_new(&id) { "w" } else { "" }).collect();
    let notes: Vec<i64> = ids.iter().map(|id| if is_new(&id) { 4 } else { 0 }).collect();
    Value::list([Value::longs(ids.to_vec()), Value::chars(&cond), Value::symbols(who), Value::longs(notes)])
}

#[test]
fn columns_added_over_a_restart_are_nulls_in_the_rows_before() {
    let mut day = Day::new("schema-added");
    let (first, mut asks_first) = day.node("first", &[]);
    let mut feed = day.client();
    (0..4).for_each(|id| drop(feed.request(&trade(id, false)).expect("taken")));
    eventually(&mut asks_first, "count trade", &Value::Long(4));
    day.start(AFTER);
    let mut feed = day.client();
    // A publisher that still uses the old columns.
    let old = call(".u.upd", [Value::symbol("trade"), Value::list([Value::symbols(["A"]), Value::longs([9])])]);
    let error = feed.request(&old).expect_err("refused").to_string();
    assert!(error.contains("length"), "{error}");
    (10..14).for_each(|id| drop(feed.request(&trade(id, true)).expect("taken")));
    let all = filled(&[0, 1, 2, 3, 10, 11, 12, 13]);
    holds(&mut asks_first, &all);
    assert_eq!(asks_first.query(".rdb.stats`missing").expect("an answer"), Value::Long(0));
    // A node that takes over from the log alone; its window is verified.
    let (_second, mut asks_second) = day.node("second", &[]);
    eventually(&mut feed, "exec state from .u.asg.tab where node=`second", &Value::symbols(["waiting"]));
    drop((first, asks_first));
    holds(&mut asks_second, &all);
    // A node for one symbol, streamed by the tickerplant.
    let (_some, mut asks_some) = day.node("some", &["--queue", "some", "--symbols", "A"]);
    holds(&mut asks_some, &filled(&[0, 2, 10, 12]));
    // The end of the day verifies the windows of the day.
    for node in ["second", "some"] {
        let ask = format!("exec first refused from .u.asg.tab where node=`{node}");
        eventually(&mut feed, &ask, &Value::Long(0));
    }
    feed.query(".u.endofday[]").expect("the day ends");
    eventually(&mut feed, ".u.stats`verified`differing", &Value::longs([2, 0]));
}

#[test]
fn other_changes_of_a_table_with_records_are_rejected_at_the_start() {
    let mut day = Day::new("schema-other");
    let mut feed = day.client();
    feed.request(&trade(1, false)).expect("taken");
    drop(feed);
    for (schema, says) in [
        (
            "trade:([]time:`timespan$();sym:`symbol$();id:`float$())\n",
            "column 3 of table trade was id of type long, now id of type float",
        ),
        (
            "trade:([]time:`timespan$();sym:`symbol$();n:`long$())\n",
            "column 3 of table trade was id of type long, now n of type long",
        ),
        ("trade:([]time:`timespan$();sym:`symbol$())\n", "column 3 of table trade was id of type long, missing"),
        ("quote:([]time:`timespan$();sym:`symbol$())\n", "table trade is missing"),
    ] {
        let said = day.refuses(schema);
        assert!(said.contains(says) && said.contains("until the day has ended"), "{said}");
    }
    // Without the schema file beside the log, the records decide. A failed start writes no such file.
    std::fs::remove_file(day.log_file(".schema")).expect("removed");
    for schema in
        ["trade:([]time:`timespan$();sym:`symbol$();id:`float$())\n", "quote:([]time:`timespan$();sym:`symbol$())\n"]
    {
        let said = day.refuses(schema);
        assert!(said.contains("record 0"), "{said}");
    }
    day.start(AFTER);
    // A table without records may change freely.
    day.start(&format!("{AFTER}quote:([]time:`timespan$();sym:`symbol$();bid:`float$())\n"));
    day.start(&format!("{AFTER}quote:([]time:`timespan$();sym:`symbol$();bid:`long$())\n"));
    assert_eq!(day.client().query(".u.i").expect("an answer"), Value::Long(1));
    wait_for("the file to be there", || Some(day.log_file(".schema")));
}

/// A record that is not an update: another program has logged rows with a function of its own.
#[test]
fn a_record_of_another_function_is_counted_as_missing() {
    let mut day = Day::new("schema-other-function");
    let mut feed = day.client();
    (0..3).for_each(|id| drop(feed.request(&trade(id, false)).expect("taken")));
    drop(feed);
    if let Some(mut tick) = day.tick.take() {
        tick.stop();
    }
    let log = day.log_file(".schema").with_extension("");
    let mut bytes = std::fs::read(&log).expect("the log");
    let rows = Value::list([Value::Timespan(1), Value::symbol("A"), Value::Long(7)]);
    encode::encode_object(&Value::list([Value::symbol("ins"), Value::symbol("trade"), rows]), &mut bytes)
        .expect("a record");
    std::fs::write(&log, bytes).expect("written");
    day.start(BEFORE);
    let (_node, mut asks) = day.node("n", &[]);
    eventually(&mut asks, "count trade", &Value::Long(3));
    let mut client = day.client();
    eventually(&mut client, "exec first refused from .u.asg.tab", &Value::Long(1));
    wait_for("health to say so", || {
        let (status, body) = page(day.port, "/health");
        (status == 200 && body.starts_with("degraded: ") && body.contains("1 update")).then_some(())
    });
}
