//! Names that q clients use: columns, members of namespaces, addresses of Unix sockets.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::rdb_process::refused;
use crate::tick_support::{PATIENCE, Tick, call, trades};
use elastick::fleet::Description;
use elastick::fleet::protocol::encode_description;
use elastick::net::Client;
use proto::{Limits, Value};
use std::process::Command;

/// Starts a node of this tickerplant; returns it and its port.
fn node(tick: &Tick, options: &[&str]) -> (Process, u16) {
    let mut process = Process::start(node_command(tick).args(options));
    let port = process.number_after("listening on");
    (process, port)
}

fn node_command(tick: &Tick) -> Command {
    let mut command = elastick(&["rdb", &format!("127.0.0.1:{}", tick.port), "-p", "127.0.0.1:0"]);
    command.args(["--memory", "256MiB", "--node", "n1", "--query-threads", "1"]);
    command
}

fn connect(address: &str) -> Client {
    Client::connect(&address.parse().expect("an address"), PATIENCE, Limits::default()).expect("connected")
}

fn client(port: u16) -> Client {
    connect(&format!("127.0.0.1:{port}:test:"))
}

fn texts(value: &Value) -> Vec<String> {
    let names = value.as_symbols().unwrap_or_else(|| panic!("symbols, not {value:?}"));
    names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn answer(client: &mut Client, question: &str) -> Value {
    client.query(question).unwrap_or_else(|error| panic!("{question}: {error}"))
}

/// Checks that `select` can name each column of a table.
fn can_be_selected(client: &mut Client, table: &str) {
    let words = texts(&answer(client, ".Q.res,1_key .q"));
    assert!(["first", "next", "select"].iter().all(|word| words.iter().any(|known| known == word)));
    let columns = texts(&answer(client, &format!("cols {table}")));
    assert!(columns.len() > 1, "{table}: {columns:?}");
    for column in columns {
        assert!(!words.contains(&column), "{column} of {table} is a word of q");
        let Value::Table { names, .. } = answer(client, &format!("select {column} from {table}")) else {
            panic!("select {column} from {table} is no table")
        };
        assert_eq!(names, [column.as_bytes()], "of {table}");
    }
}

#[test]
fn every_column_that_we_make_can_be_named_in_a_select() {
    let tick = Tick::start("names-columns", &[]);
    let (_node, port) = node(&tick, &[]);
    let mut tickerplant = tick.client();
    tickerplant.request(&trades(0..3)).expect("published");
    assert!(tickerplant.request(&call(".u.upd", [Value::symbol("trade"), Value::Long(1)])).is_err());
    for table in [".u.asg.tab", ".u.conns", ".u.quarantine", ".u.rejected", "(enlist .u.stats)"] {
        can_be_selected(&mut tickerplant, table);
    }
    let mut node = client(port);
    wait_for("the rows", || (answer(&mut node, "exec sum rows from .rdb.windows") == Value::Long(3)).then_some(()));
    for table in [".rdb.windows", "(enlist .rdb.stats)"] {
        can_be_selected(&mut node, table);
    }
    let description = encode_description(&Description::default());
    let Some(Value::Table { names, .. }) = description.lookup("members") else { panic!("{description:?}") };
    let words = texts(&answer(&mut node, ".Q.res,1_key .q"));
    let taken = names.iter().find(|name| words.iter().any(|word| word.as_bytes() == name.as_slice()));
    assert_eq!(taken, None, "members of a fleet");
    for (word, name) in [("group", "groupName"), ("min", "minSize"), ("max", "maxSize")] {
        assert!(description.lookup(name).is_some_and(|value| Some(value) == description.lookup(word)), "{name}");
    }
    let Value::Dict { keys, .. } = &description else { panic!("{description:?}") };
    let mut keys = texts(keys);
    keys.retain(|key| words.contains(key));
    assert_eq!(keys, ["group", "min", "max"], "words of q among the keys of a description");
}

/// Applies to every table and dictionary of elastick, also future ones: no column and no key is a reserved word of q.
#[test]
fn no_table_or_dictionary_of_a_namespace_has_a_word_of_q() {
    let tick = Tick::start("names-all", &[]);
    let (_node, port) = node(&tick, &[]);
    let mut tickerplant = tick.client();
    tickerplant.request(&trades(0..3)).expect("published");
    let mut node = client(port);
    wait_for("the rows", || (answer(&mut node, "exec sum rows from .rdb.windows") == Value::Long(3)).then_some(()));
    let words = texts(&answer(&mut node, ".Q.res,1_key .q"));
    for (client, spaces) in [(&mut tickerplant, &["u", "u.asg"][..]), (&mut node, &["rdb"])] {
        for space in spaces {
            let names = texts(&answer(client, &format!("key`.{space}")));
            for name in names.iter().filter(|name| !name.is_empty() && !name.ends_with("V1")) {
                let held = "{$[98h=type x;cols x;99h<>type x;`symbol$();11h=type key x;key x;`symbol$()]}";
                let mut keys = texts(&answer(client, &format!("{held} .{space}.{name}")));
                keys.retain(|key| words.contains(key));
                assert_eq!(keys, Vec::<String>::new(), "words of q in .{space}.{name}");
            }
        }
    }
}

#[test]
fn the_columns_of_the_first_version_are_there_under_another_name() {
    let tick = Tick::start("names-old", &[]);
    let (_node, port) = node(&tick, &[]);
    let (mut tickerplant, mut node) = (tick.client(), client(port));
    let old = texts(&answer(&mut tickerplant, "cols .u.asg.tabV1"));
    let new = texts(&answer(&mut tickerplant, "cols .u.asg.tab"));
    let renamed = |name: &String| if name == "nextI" { "next".to_string() } else { name.clone() };
    assert_eq!(old, new.iter().map(renamed).collect::<Vec<_>>());
    let same = answer(&mut tickerplant, "(value flip .u.asg.tab)~value flip .u.asg.tabV1");
    assert_eq!(same, Value::Bool(true));
    assert_eq!(answer(&mut node, "`first`last~2#cols .rdb.windowsV1"), Value::Bool(true));
    assert_eq!(answer(&mut node, "`next in key .rdb.statsV1"), Value::Bool(true));
}

#[test]
fn each_name_of_the_tickerplant_is_listed_once_and_there() {
    let tick = Tick::start("names-key", &[]);
    let mut client = tick.client();
    for space in ["u", "u.asg"] {
        let names = texts(&answer(&mut client, &format!("key`.{space}")));
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
        for name in names.iter().filter(|name| !name.is_empty()) {
            answer(&mut client, &format!("type .{space}.{name}"));
        }
    }
    assert_eq!(answer(&mut client, "`quarantine`asg in key`.u"), Value::bools([true, true]));
    // The namespace as a dictionary must be small: stock subscribers request it at their start.
    assert_eq!(answer(&mut client, "`quarantine in key get`.u"), Value::Bool(false));
}

#[test]
fn a_condition_cannot_be_subscribed_to() {
    let tick = Tick::start("names-condition", &[]);
    let mut client = tick.client();
    for function in ["sub", "add"] {
        for what in ["\"price>10\"", "(\"A\";\"B\")", "\"A\""] {
            let error = refused(&mut client, &format!(".u.{function}[`trade;{what}]"));
            assert!(error.starts_with("type"), "{error}");
        }
        let plain = call(&format!(".u.{function}"), [Value::symbol("trade"), Value::chars("price>10")]);
        let error = client.request(&plain).expect_err("refused").to_string();
        assert!(error.contains("not a string"), "{error}");
    }
    let queued = refused(&mut client, ".u.asg.sub[`trade;\"price>10\";`q]");
    assert!(queued.starts_with("type"), "{queued}");
    for what in ["`A", "`A`B", "`", "\"\""] {
        answer(&mut client, &format!(".u.sub[`trade;{what}]"));
    }
}

#[test]
fn a_function_of_the_tickerplant_can_be_given_some_of_its_arguments() {
    let tick = Tick::start("names-projection", &[]);
    let mut client = tick.client();
    for subscription in [".u.sub[;`]`trade", ".u.sub[`trade;]`", ".u.sub[;`A] each enlist`trade", "(.u.sub[`trade])`"] {
        answer(&mut client, subscription);
    }
    answer(&mut client, ".u.upd[`trade;](`A;1j)");
    assert!(refused(&mut client, ".u.sub[;`;1]`trade").starts_with("rank"));
}

#[test]
fn a_list_of_no_symbols_is_a_subscription_to_no_rows_as_in_u_q() {
    let tick = Tick::start("names-nothing", &[]);
    let mut client = tick.client();
    for nothing in ["()", "`symbol$()"] {
        answer(&mut client, &format!(".u.sub[`trade;{nothing}]"));
        assert_eq!(answer(&mut client, "{x~enlist(.z.w;`symbol$())}.u.w`trade"), Value::Bool(true), "{nothing}");
    }
    client.request(&trades(0..3)).expect("published");
    answer(&mut client, ".u.sub[`trade;`A]");
    client.request(&trades(3..6)).expect("published");
    // The first message belongs to the second subscription.
    assert_eq!(crate::tick_support::ids(&crate::tick_support::told(&mut client)), [3]);
}

#[test]
fn the_tip_of_a_live_node_goes_on_with_the_feed() {
    let tick = Tick::start("names-tip", &[]);
    let (_node, port) = node(&tick, &[]);
    let (mut feed, mut node) = (tick.client(), client(port));
    wait_for("the node to be live", || (answer(&mut node, ".rdb.stats`live") == Value::Bool(true)).then_some(()));
    for id in 0..5 {
        feed.request(&trades(id..id + 1)).expect("published");
    }
    wait_for("the tip", || {
        (answer(&mut node, ".rdb.stats`tip`nextI`lag") == Value::list([Value::Long(5), Value::Long(5), Value::Long(0)])
            || answer(&mut node, ".rdb.stats`tip`nextI`lag") == Value::longs([5, 5, 0]))
        .then_some(())
    });
}

#[test]
fn unix_sockets_are_where_kdb_has_them() {
    let directory = Directory::new("names-sockets");
    let path = directory.path().to_str().expect("a path");
    let tick = Tick::start("names-unix", &[]);
    let mut process = Process::start(node_command(&tick).env("QUDSPATH", path));
    let port = process.number_after("listening on");
    let socket = directory.path().join(format!("kx.{port}"));
    assert!(socket.exists(), "a node heeds QUDSPATH");
    let asked = |port: u16| {
        let line = format!("h:hopen`:unix://{port}:ann:x;-1 string h\"1+1\";-1 string h\".z.a\";exit 0");
        let file = directory.path().join("ask.q");
        std::fs::write(&file, line + "\n").expect("written");
        let mut command = elastick(&["q", file.to_str().expect("a path")]);
        let output = command.env("QUDSPATH", path).stdin(std::process::Stdio::null()).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n0\n", "{}", String::from_utf8_lossy(&output.stderr));
    };
    asked(port);
    process.stop();
    assert!(!socket.exists(), "the socket goes with its process");
    let file = directory.path().join("serve.q");
    std::fs::write(&file, "\\p 0W\n-1\"listening on \",string system\"p\";\n.z.ts:{}\n\\t 100\n").expect("written");
    let mut console = Process::start(elastick(&["q", file.to_str().expect("a path")]).env("QUDSPATH", path));
    asked(console.number_after("listening on"));
    // An empty name turns Unix sockets off.
    let mut without = Process::start(node_command(&tick).env("QUDSPATH", ""));
    let port = without.number_after("listening on");
    assert!(!directory.path().join(format!("kx.{port}")).exists());
}

#[test]
fn a_process_outside_a_fleet_gets_an_error() {
    let tick = Tick::start("names-fleet", &[]);
    let (_node, port) = node(&tick, &[]);
    for program in [&["tick"][..], &["rdb", ":1"]] {
        let output = elastick(program).args(["--fleet", &format!("127.0.0.1:{port}"), "-p", "127.0.0.1:0"]).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("not an instance of that fleet") && said.contains("elastick fleet --"), "{said}");
    }
}

#[test]
fn the_line_at_the_start_says_how_updates_are_kept() {
    let directory = Directory::new("names-line");
    let path = directory.path().to_str().expect("a path");
    let mut tick = Process::start(&mut elastick(&["tick", "sym", path, "-p", "127.0.0.1:0", "--durability", "each"]));
    let line = tick.line(|line| line.contains("listening on").then(|| line.to_string()));
    assert!(line.contains(&format!("log {path}/sym")) && line.ends_with("durability each"), "{line}");
    let mut none = Process::start(&mut elastick(&["tick", "sym", "-p", "127.0.0.1:0"]));
    let line = none.line(|line| line.contains("listening on").then(|| line.to_string()));
    assert!(line.ends_with("no log"), "{line}");
}
