//! Roles: what each user of a users file may do, and what everyone may without one.

use crate::harness::{Directory, Process, elastick, signal, wait_for};
use crate::tick_nodes::joining;
use crate::tick_support::{PATIENCE, Tick, all, call, eventually, ids, name_of, told, trades};
use elastick::net::Client;
use elastick::net::client::ClientError;
use proto::{Limits, Value};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const FIRM: &str = r#"
    [roles.desk]
    subscribe = { trade = ["A"], note = true }

    [roles.trades]
    publish = ["trade"]

    [roles.rdbs]
    node = ["rdb"]

    [roles.others]
    node = ["other"]

    [users.mover]
    password = "m"
    roles = ["others"]

    [users.feed]
    password = "f"
    roles = ["trades"]

    [users.desk]
    password = "d"
    roles = ["desk"]

    [users.reader]
    password = "r"
    roles = ["query"]

    [roles.trade-reader]
    query = { trade = true }

    [users.any]
    password = "a"
    roles = ["publish"]

    [users.trader]
    password = "t"
    roles = ["trade-reader"]

    [users.node]
    password = "n"
    roles = ["rdbs", "query"]

    [users.ops]
    password = "o"
    roles = ["operator", "query"]
"#;

pub struct Firm {
    pub tick: Tick,
    files: Directory,
}

impl Firm {
    pub fn start(name: &str, options: &[&str]) -> Firm {
        let files = Directory::new(&format!("{name}-files"));
        let users = files.path().join("users.toml");
        std::fs::write(&users, FIRM).expect("written");
        let users = users.to_string_lossy().into_owned();
        let tick = Tick::start(name, &[&["-U", users.as_str()], options].concat());
        Firm { tick, files }
    }

    pub fn login(&self, user: &str) -> Client {
        let password: String = user.chars().take(1).collect();
        let address = format!("127.0.0.1:{}:{user}:{password}", self.tick.port).parse().expect("an address");
        Client::connect(&address, PATIENCE, Limits::default()).expect("a login")
    }
}

/// The error of a call.
fn refused(client: &mut Client, message: &Value) -> String {
    match client.request(message) {
        Err(ClientError::Server(error)) => String::from_utf8_lossy(&error).into_owned(),
        other => panic!("{message:?}: {other:?}"),
    }
}

fn text(expression: &str) -> Value {
    Value::chars(expression)
}

#[test]
fn each_function_needs_its_role() {
    let firm = Firm::start("roles-functions", &[]);
    let date = Value::Date(9000);
    let calls = [
        ("publish", trades(0..1)),
        ("subscribe", all("note")),
        ("operator", call(".u.endofday", [Value::NULL])),
        ("operator", call(".u.end", [date.clone()])),
        ("operator", call(".u.schema", [Value::symbol("trade"), Value::NULL])),
        ("node", call(".u.asg.sub", [Value::symbol("trade"), Value::symbol(""), Value::symbol("rdb")])),
        ("node", call(".u.asg.join", [Value::NULL])),
        ("node", call(".u.asg.status", [Value::NULL])),
        ("node", call(".u.asg.proved", [Value::Long(0), Value::Long(1), Value::NULL, date])),
        ("query", text("1+1")),
    ];
    for (user, roles) in [
        ("feed", &["publish"][..]),
        ("desk", &["subscribe"]),
        ("reader", &["query"]),
        ("node", &["node", "query"]),
        ("ops", &["operator", "query"]),
    ] {
        let mut client = firm.login(user);
        for (role, call) in calls.iter().filter(|(role, _)| !roles.contains(role)) {
            let error = refused(&mut client, call);
            assert!(error.starts_with("access"), "{user} without {role}: {error}");
        }
    }
    // Nothing of that had an effect.
    let mut ops = firm.login("ops");
    assert_eq!(ops.query(".u.i").expect("an answer"), Value::Long(0));
    assert_eq!(ops.query(".u.d=.z.d").expect("an answer"), Value::Bool(true));
    assert_eq!(ops.query("count .u.quarantine").expect("an answer"), Value::Long(0));
}

#[test]
fn an_expression_has_no_more_rights_than_its_sender() {
    let firm = Firm::start("roles-expressions", &[]);
    let mut reader = firm.login("reader");
    for expression in [
        ".u.endofday[]",
        "value (`.u.endofday;::)",
        "f:.u.endofday;f[]",
        ".u.upd[`trade;(`A;1)]",
        "(.u.sub[`;`];.u `i`L)",
        ".u.end .z.d",
        "{.u.asg.roll[.z.w;x]}0",
        ".u.del[`trade;5i]",
    ] {
        assert_eq!(refused(&mut reader, &text(expression)), "access", "{expression}");
    }
    assert_eq!(reader.query(".u.i").expect("an answer"), Value::Long(0));
    // A console requests the reason; every other client gets kdb+'s name alone.
    let address = format!("127.0.0.1:{}:reader:r", firm.tick.port).parse().expect("an address");
    let mut console = Client::connect_explained(&address, PATIENCE, Limits::default()).expect("a login");
    let reason = refused(&mut console, &text(".u.upd[`trade;(`A;1)]"));
    assert!(reason.starts_with("access\u{1f}.u.upd needs the role publish"), "{reason}");
}

#[test]
fn a_publisher_publishes_its_tables_only() {
    let firm = Firm::start("roles-publisher", &[]);
    let mut feed = firm.login("feed");
    feed.request(&trades(0..3)).expect("published");
    let note = call(".u.upd", [Value::symbol("note"), Value::list([Value::symbol("A"), Value::chars("words")])]);
    assert!(refused(&mut feed, &note).starts_with("access: publishing note needs the role publish"));
    // An async update of another table is dropped and counted; the connection stays.
    feed.send_async(&note).expect("sent");
    feed.request(&trades(3..4)).expect("published");
    let mut reader = firm.login("reader");
    eventually(&mut reader, ".u.i", &Value::Long(2));
    assert_eq!(reader.query(".u.stats`refused").expect("an answer"), Value::Long(2));
}

#[test]
fn rejected_updates_are_shown_to_those_who_may_query_their_table() {
    let firm = Firm::start("roles-quarantine", &[]);
    let (mut any, mut trader, mut reader) = (firm.login("any"), firm.login("trader"), firm.login("reader"));
    for table in ["trade", "note"] {
        any.request(&call(".u.upd", [Value::symbol(table), Value::longs([1])])).expect_err("no columns");
    }
    let tables = |client: &mut Client| client.query("exec tab from .u.quarantine").expect("answered");
    assert_eq!(tables(&mut reader), Value::symbols(["trade", "note"]));
    assert_eq!(tables(&mut trader), Value::symbols(["trade"]));
}

#[test]
fn rejected_updates_are_retried_by_those_who_see_and_publish_them() {
    let firm = Firm::start("roles-retry", &[]);
    let mut any = firm.login("any");
    let data = Value::list([Value::list([Value::symbol("A")]), Value::longs([1])]);
    for _ in 0..2 {
        any.request(&call(".u.upd", [Value::symbol("trade"), data.clone()])).expect("a list of symbols is a column");
    }
    any.request(&call(".u.upd", [Value::symbol("trade"), Value::longs([1])])).expect_err("no columns");
    let retry = call(".u.retry", [Value::longs([0])]);
    // A publisher that may not query the table learns nothing of the update, and a reader may not publish.
    let answer = any.request(&retry).expect("a table");
    assert_eq!(answer.column("error"), Some(&Value::symbols(["domain"])));
    assert!(refused(&mut firm.login("reader"), &retry).starts_with("access"));
    let discard = |ids: Value| call(".u.discard", [ids]);
    for user in ["any", "reader", "feed"] {
        assert!(refused(&mut firm.login(user), &discard(Value::NULL)).starts_with("access"), "{user}");
    }
    let mut ops = firm.login("ops");
    assert_eq!(ops.query("count .u.rejected").expect("answered"), Value::Long(1));
    ops.request(&discard(Value::Long(0))).expect("discarded");
    assert_eq!(ops.query("count .u.rejected").expect("answered"), Value::Long(0));
}

#[test]
fn a_subscriber_gets_its_tables_and_symbols_only() {
    let firm = Firm::start("roles-subscriber", &[]);
    let (mut feed, mut desk) = (firm.login("feed"), firm.login("desk"));
    assert!(refused(&mut desk, &all("idle")).contains("may not subscribe to idle"));
    let b = call(".u.sub", [Value::symbol("trade"), Value::symbols(["A", "B"])]);
    assert!(refused(&mut desk, &b).contains("symbol B of trade"));
    // All tables and symbols are those that it may have.
    let answer = desk.request(&all("")).expect("subscribed");
    let names: Vec<_> = (0..2).filter_map(|table| answer.item(table)?.item(0)).collect();
    assert_eq!(names, [Value::symbol("note"), Value::symbol("trade")]);
    assert_eq!(answer.item(2), None);
    feed.request(&trades(0..5)).expect("published");
    assert_eq!(ids(&told(&mut desk)), [0, 3], "the rows of A");
}

#[test]
fn a_stock_subscriber_needs_no_role_to_query() {
    let firm = Firm::start("roles-stock", &[]);
    let (mut feed, mut desk) = (firm.login("feed"), firm.login("desk"));
    feed.request(&trades(0..2)).expect("published");
    let answer = desk.query("(.u.sub[`;`];`.u `i`L)").expect("subscribed");
    assert_eq!(answer.item(1).and_then(|position| position.item(0)), Some(Value::Long(1)));
    feed.request(&trades(2..5)).expect("published");
    assert_eq!(ids(&told(&mut desk)), [3], "the rows of A");
    assert!(refused(&mut desk, &text("(.u.sub[`;`];.u.w)")).starts_with("access"));
}

#[test]
fn the_feed_needs_the_role_to_publish_only() {
    let files = Directory::new("roles-feed-files");
    let users = files.path().join("users.toml");
    std::fs::write(&users, "[users.feed]\npassword = \"f\"\nroles = [\"publish\"]\n").expect("written");
    let log = files.path().join("log");
    std::fs::create_dir(&log).expect("made");
    let (log, users) = (log.to_str().expect("a path"), users.to_str().expect("a path"));
    let mut tick = Process::start(&mut elastick(&["tick", "sym", log, "-p", "0", "--unix-sockets=", "-U", users]));
    let address = format!("127.0.0.1:{}:feed:f", tick.number_after("listening on"));
    let output = elastick(&["feed", &address, "--updates", "50", "--rate", "1000"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("accepted 50 updates"), "{output:?}");
}

#[test]
fn a_subscription_belongs_to_its_connection() {
    let tick = Tick::start("roles-own", &["--operators", "ops"]);
    let (mut owner, mut other) = (tick.client(), tick.client());
    owner.request(&all("trade")).expect("subscribed");
    let handle = owner.query(".z.w").expect("an answer");
    let del = call(".u.del", [Value::symbol("trade"), handle.clone()]);
    assert!(refused(&mut other, &del).contains("another's handle"));
    let roll = call(".u.asg.roll", [handle, Value::Long(0)]);
    assert!(refused(&mut other, &roll).contains("another's handle"));
    other.request(&trades(0..1)).expect("published");
    assert_eq!(ids(&told(&mut owner)), [0]);
    owner.request(&del).expect("its own");
}

#[test]
fn a_node_joins_its_queue_only() {
    let firm = Firm::start("roles-queue", &[]);
    let mut node = firm.login("node");
    let join = |queue: &str| call(".u.asg.sub", [Value::symbol("trade"), Value::symbol(""), Value::symbol(queue)]);
    assert!(refused(&mut node, &join("other")).contains("may not join the queue other"));
    node.request(&join("rdb")).expect("joined");
    assert_eq!(node.query("exec queue from .u.asg.tab").expect("an answer"), Value::symbols(["rdb"]));
}

#[test]
fn a_node_of_one_queue_takes_no_name_away_from_another() {
    let firm = Firm::start("roles-names", &[]);
    let (mut node, mut other) = (firm.login("node"), firm.login("mover"));
    assert!(node.request(&joining("n1", "rdb")).expect("joined").lookup("tip").is_some());
    assert!(refused(&mut other, &joining("n1", "other")).contains("you may not join the queue rdb"));
    assert!(other.request(&joining("n2", "other")).expect("joined").lookup("tip").is_some());
    assert_eq!(node.query(".u.asg.tab[`state]0").expect("still connected"), Value::symbol("live"));
}

#[test]
fn an_operator_ends_one_day_ahead_of_the_clock_and_more_by_force() {
    let firm = Firm::start("roles-force", &[]);
    let mut ops = firm.login("ops");
    let end = |argument| call(".u.endofday", [argument]);
    ops.request(&end(Value::NULL)).expect("the day ends");
    let error = refused(&mut ops, &end(Value::NULL));
    assert!(error.contains("1 day ahead of the clock") && error.contains("`force"), "{error}");
    ops.request(&end(Value::symbol("force"))).expect("the day ends");
    assert_eq!(ops.query(".u.d-.z.d").expect("an answer"), Value::Int(2));
}

#[test]
fn block_writes_holds_for_functions_of_u() {
    let tick = Tick::start("roles-blocked", &["-b"]);
    let mut client = tick.client();
    for call in [trades(0..1), call(".u.endofday", [Value::NULL]), call(".u.end", [Value::Date(9000)])] {
        assert!(refused(&mut client, &call).starts_with("noupdate"), "{call:?}");
    }
    assert_eq!(refused(&mut client, &text(".u.upd[`trade;(`A;1)]")), "noupdate");
    client.request(&all("trade")).expect("a subscription changes no data");
    // Roles of a users file are the finer rule.
    let firm = Firm::start("roles-blocked-firm", &["-b"]);
    firm.login("feed").request(&trades(0..1)).expect("published");
}

#[test]
fn the_owners_handler_decides_on_functions_of_u() {
    let files = Directory::new("roles-handler-files");
    let program = files.path().join("handlers.q");
    std::fs::write(&program, ".z.pg:{$[`ok~first x;value 1_x;'`refused]}\n.z.ps:{}\n").expect("written");
    let tick = Tick::start("roles-handler", &[program.to_str().expect("a path")]);
    let mut client = tick.client();
    for message in [call(".u.endofday", [Value::NULL]), trades(0..1), all("trade"), text(".u.i")] {
        assert_eq!(refused(&mut client, &message), "refused");
    }
    client.send_async(&trades(0..1)).expect("sent");
    let ok = |mut items: Vec<Value>| {
        items.insert(0, Value::symbol("ok"));
        Value::list(items)
    };
    let upd = vec![Value::symbol(".u.upd"), Value::symbol("trade"), Value::list([Value::symbol("A"), Value::Long(7)])];
    client.request(&ok(upd)).expect("published");
    let index = client.request(&ok(vec![text("count"), Value::longs([1, 2, 3])])).expect("answered");
    assert_eq!(index, Value::Long(3));
    let figure = client.request(&ok(vec![text("{x+.u.i}"), Value::Long(0)])).expect("answered");
    assert_eq!(figure, Value::Long(1), "the async update was dropped by .z.ps");
}

#[test]
fn without_users_a_process_serves_this_machine_only() {
    let mut process = Process::start(&mut elastick(&["tick", "sym", "-p", "0", "--unix-sockets="]));
    let port = process.number_after("listening on");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    // On Linux the whole of 127/8 is this machine, but the process listens on one address of it.
    assert!(TcpStream::connect(("127.0.0.2", port)).is_err());
    let mut process = Process::start(&mut elastick(&["tick", "sym", "-p", "0", "--open", "--unix-sockets="]));
    let port = process.number_after("listening on");
    assert!(TcpStream::connect(("127.0.0.2", port)).is_ok());
    let output = elastick(&["tick", "sym", "-p", "0.0.0.0:0"]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("every role") && error.contains("--open"), "{error}");
}

#[test]
fn a_wrong_users_file_stops_the_start_with_the_place() {
    let files = Directory::new("roles-wrong");
    let users = files.path().join("users.toml");
    std::fs::write(&users, "[users.ann]\npassword = \"a\"\nroles = [\"dsk\"]\n").expect("written");
    let output =
        elastick(&["tick", "sym", "-p", "0", "-U", users.to_str().expect("a path")]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("[users.ann]: there is no role \"dsk\""), "{error}");
}

#[test]
fn the_paper_roll_works_on_the_own_handle() {
    let tick = Tick::start("roles-paper", &[]);
    let mut node = tick.client();
    let join = call(".u.asg.sub", [Value::symbol("trade"), Value::symbol(""), Value::symbol("rdb")]);
    node.request(&join).expect("joined");
    node.query("{.u.asg.roll[.z.w;x]}0").expect("its own handle");
    let message = told(&mut node);
    assert!(name_of(&message).starts_with(".sub."), "{message:?}");
}

#[test]
fn a_node_answers_those_who_may_query() {
    let firm = Firm::start("roles-node", &[]);
    let users = firm.files.path().join("users.toml");
    let address = format!("127.0.0.1:{}:node:n", firm.tick.port);
    let users = users.to_str().expect("a path");
    let options = ["rdb", &address, "-p", "127.0.0.1:0", "--unix-sockets=", "--queue", "rdb", "-U", users];
    let mut process = Process::start(&mut elastick(&options));
    let port = process.number_after("listening on");
    let login = |user: &str, password: &str| {
        let address = format!("127.0.0.1:{port}:{user}:{password}").parse().expect("an address");
        Client::connect(&address, PATIENCE, Limits::default()).expect("a login")
    };
    assert_eq!(refused(&mut login("feed", "f"), &text("1+1")), "access");
    assert_eq!(login("reader", "r").query("1+1").expect("answered"), Value::Long(2));
    for (credentials, status) in [("feed:f", 403), ("reader:r", 200), ("reader:x", 401)] {
        assert_eq!(page_status(port, credentials), status, "{credentials}");
    }
}

#[test]
fn a_password_may_be_kept_as_a_slow_hash() {
    let hash = {
        let mut process = elastick(&["passwd"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        process.stdin.take().expect("piped").write_all(b"a long secret\n").expect("written");
        let output = process.wait_with_output().expect("it ends");
        String::from_utf8(output.stdout).expect("text").trim().to_string()
    };
    assert!(hash.starts_with("$argon2id$"), "{hash}");
    let files = Directory::new("roles-argon-files");
    let users = files.path().join("users.toml");
    std::fs::write(&users, format!("[users.ann]\npassword = \"{hash}\"\nroles = [\"query\"]\n")).expect("written");
    let tick = Tick::start("roles-argon", &["-U", users.to_str().expect("a path")]);
    let login = |user: &str, password: &str| {
        let address = format!("127.0.0.1:{}:{user}:{password}", tick.port).parse().expect("an address");
        Client::connect(&address, PATIENCE, Limits::default())
    };
    assert_eq!(login("ann", "a long secret").expect("a login").query("1+1").expect("answered"), Value::Long(2));
    for (user, password) in [("ann", "another"), ("ann", &hash), ("bob", "a long secret")] {
        assert!(matches!(login(user, password), Err(ClientError::Refused(_))), "{user}");
    }
    for (credentials, status) in [("ann:a long secret", 404), ("ann:x", 401)] {
        assert_eq!(page_status(tick.port, credentials), status, "{credentials}");
    }
}

#[test]
fn guessing_locks_the_user_out_and_says_so() {
    let firm = Firm::start("roles-guessing", &[]);
    let login = |password: &str| {
        let address = format!("127.0.0.1:{}:reader:{password}", firm.tick.port).parse().expect("an address");
        Client::connect(&address, PATIENCE, Limits::default()).is_ok()
    };
    for guess in 0..7 {
        assert!(!login(&format!("guess {guess}")));
    }
    assert!(!login("r"), "also with the right password");
    assert!(
        Client::connect(
            &format!("127.0.0.1:{}:ops:o", firm.tick.port).parse().expect("an address"),
            PATIENCE,
            Limits::default()
        )
        .is_ok()
    );
    wait_for("the end of the lock-out", || login("r").then_some(()));
}

#[test]
fn a_changed_users_file_holds_for_open_connections() {
    let firm = Firm::start("roles-reload", &[]);
    let (mut reader, mut ops) = (firm.login("reader"), firm.login("ops"));
    let users = firm.files.path().join("users.toml");
    std::fs::write(&users, "[users.ops]\nroles = [\"typo\"]\n").expect("written");
    signal(firm.tick.process.id(), "HUP");
    wait_for("the failed reload to be counted", || {
        let metrics = page_of(firm.tick.port, "ops:o", "/metrics");
        metrics.contains("elastick_users_reload_failures_total 1").then_some(())
    });
    assert_eq!(reader.query("1+1").expect("the users as last read stay in force"), Value::Long(2));
    let without_reader = FIRM.replace("[users.reader]", "[users.other]");
    std::fs::write(&users, without_reader).expect("written");
    wait_for("the removed user's connection to be closed", || reader.query("1+1").is_err().then_some(()));
    assert_eq!(ops.query("1+1").expect("an unchanged user stays connected"), Value::Long(2));
    let address = format!("127.0.0.1:{}:reader:r", firm.tick.port).parse().expect("an address");
    assert!(Client::connect(&address, PATIENCE, Limits::default()).is_err());
}

/// A page, with its head.
fn page_of(port: u16, credentials: &str, path: &str) -> String {
    let basic = elastick::kernel::digest::to_base64(credentials.as_bytes());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic {basic}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

fn page_status(port: u16, credentials: &str) -> u16 {
    let answer = page_of(port, credentials, "/?1+1");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

#[test]
fn a_password_comes_from_a_file_that_others_cannot_read() {
    let firm = Firm::start("roles-login-file", &[]);
    let (login, address) = (firm.files.path().join("login"), format!("127.0.0.1:{}", firm.tick.port));
    let path = login.to_str().expect("a path");
    let at = |address: &str, mode: u32, line: &str| {
        std::fs::write(&login, line).expect("written");
        std::fs::set_permissions(&login, PermissionsExt::from_mode(mode)).expect("set");
        let mut console = elastick(&["q", "--login-file", path, address]);
        let mut console =
            console.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
        // It may have ended already.
        let _ = console.stdin.take().expect("piped").write_all(b".z.u\n");
        let output = console.wait_with_output().expect("it ends");
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(at(&address, 0o600, "reader:r\n").0, "`reader\n");
    assert_eq!(at(&format!("{address}:reader"), 0o600, "reader:r").0, "`reader\n");
    for (address, mode, line, reason) in [
        (address.as_str(), 0o604, "reader:r", "chmod 600"),
        (&address, 0o600, "reader", "expected one line, user:password"),
        (&address, 0o600, "reader:r\nops:o", "expected one line, user:password"),
        (&format!("{address}:ops:o"), 0o600, "reader:r", "has a login of its own"),
        (&address, 0o600, "reader:wrong", "'access"),
    ] {
        let (out, errors) = at(address, mode, line);
        assert!(out.is_empty() && errors.contains(reason), "{line}: {errors}");
        assert!(!errors.contains(":r\"") && !errors.contains("wrong\""), "the password stays out of it: {errors}");
    }
    let feed = elastick(&["feed", &format!("{address}:any:a"), "--updates", "1"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&feed.stderr).contains("--login-file"), "a warning: {feed:?}");
}
