//! The audit log of tickerplant and nodes: what is recorded, what never is, and what happens if the file cannot be written.

use crate::harness::{Directory, signal, wait_for, without_disk};
use crate::node_program::with;
use crate::node_web::exchange_at;
use crate::rdb_process::{ask, live, refused};
use crate::tick_support::{PATIENCE, Tick, all, call, eventually, trades};
use elastick::net::Client;
use elastick::net::client::ClientError;
use proto::{Limits, MessageKind, Value, encode};
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

const USERS: &str = r#"
    [users.ann]
    password = "pass-of-ann"
    roles = ["query", "subscribe", "publish", "operator"]

    [users.bob]
    password = "pass-of-bob"
    roles = ["subscribe"]
"#;

const SECRET: &str = "a secret of this cluster alone";

/// A tickerplant with users and an audit log.
struct Audited {
    tick: Tick,
    files: Directory,
}

impl Audited {
    fn start(name: &str, options: &[&str]) -> Audited {
        let files = Directory::new(&format!("{name}-files"));
        std::fs::write(files.path().join("users.toml"), USERS).expect("written");
        let (users, audit) = (file(&files, "users.toml"), file(&files, "audit"));
        let tick = Tick::start(name, &[&["-U", &users, "--audit", &audit], options].concat());
        Audited { tick, files }
    }

    fn path(&self) -> PathBuf {
        self.files.path().join("audit")
    }

    fn login(&self, user: &str) -> Client {
        self.try_login(user, &format!("pass-of-{user}")).expect("a login")
    }

    fn try_login(&self, user: &str, password: &str) -> Result<Client, ClientError> {
        let address = format!("127.0.0.1:{}:{user}:{password}", self.tick.port).parse().expect("an address");
        Client::connect(&address, PATIENCE, Limits::default())
    }

    /// Stops the process, which writes what waits. Returns the records.
    fn stopped(mut self) -> (Vec<Json>, String) {
        assert!(self.tick.process.stop().success());
        let text = std::fs::read_to_string(self.path()).expect("the file");
        (parsed(&text), text)
    }
}

fn file(files: &Directory, name: &str) -> String {
    files.path().join(name).to_string_lossy().into_owned()
}

/// Every line is a whole record, and their numbers follow one another.
fn parsed(text: &str) -> Vec<Json> {
    assert!(text.ends_with('\n') && text.is_ascii());
    let records: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for (before, after) in records.iter().zip(records.iter().skip(1)) {
        let number = |record: &Json| record["n"].as_u64().expect("a number");
        assert_eq!(number(after), number(before) + 1, "{after}");
    }
    records
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The records of a call: user and outcome.
fn of_call(records: &[Json], name: &str) -> Vec<(String, String)> {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_string();
    let matching = records.iter().filter(|record| record["call"] == name);
    matching.map(|record| (text(&record["user"]), text(&record["outcome"]))).collect()
}

fn find<'a>(records: &'a [Json], field: &str, wanted: &str) -> &'a Json {
    records.iter().find(|record| record[field] == wanted).unwrap_or_else(|| panic!("no {field} {wanted}"))
}

fn ok(user: &str) -> (String, String) {
    (user.to_string(), "ok".to_string())
}

fn error_of(client: &mut Client, message: &Value) -> String {
    match client.request(message) {
        Err(ClientError::Server(error)) => String::from_utf8_lossy(&error).into_owned(),
        other => panic!("{message:?}: {other:?}"),
    }
}

#[test]
fn logins_queries_subscriptions_and_operators_calls_are_recorded() {
    let scene = Audited::start("audit-calls", &[]);
    let mut ann = scene.login("ann");
    assert_eq!(ask(&mut ann, "6*7"), Value::Long(42));
    assert_eq!(refused(&mut ann, "1+`a"), "type");
    ann.request(&all("trade")).expect("subscribed");
    ann.request(&call(".u.end", [Value::Date(9000)])).expect("sent");
    let mut bob = scene.login("bob");
    assert!(error_of(&mut bob, &call(".u.endofday", [Value::NULL])).starts_with("access"));
    assert!(error_of(&mut bob, &Value::chars("delete trade from `.")).starts_with("access"));
    assert!(scene.try_login("bob", "wrong-word").is_err());
    assert!(scene.try_login("eve", "another-wrong-word").is_err());
    drop((ann, bob));
    let (records, text) = scene.stopped();
    let calls = |name: &str| of_call(&records, name);
    assert_eq!(calls("start").len() + calls("stop").len(), 2);
    let logins = calls("login");
    assert_eq!(logins[..2], [ok("ann"), ok("bob")]);
    assert!(logins[2].1.contains("wrong user") && logins[3].0 == "eve", "{logins:?}");
    assert_eq!(calls(".u.sub"), [ok("ann")]);
    assert_eq!(find(&records, "call", ".u.sub")["tables"][0], "trade");
    assert_eq!(calls(".u.end"), [ok("ann")]);
    assert!(calls(".u.endofday")[0].1.starts_with("'access"), "{:?}", calls(".u.endofday"));
    assert_eq!(calls("logout").len(), 2);
    let query = find(&records, "text", "6*7");
    assert_eq!((&query["user"], &query["outcome"]), (&"ann".into(), &"ok".into()));
    assert_eq!(query["address"], "127.0.0.1");
    assert!(query["handle"].is_i64() && query["duration_ns"].is_u64() && query["bytes_out"].as_u64() > Some(0));
    assert!(find(&records, "text", "1+`a")["outcome"].as_str().expect("text").contains("type"));
    assert!(find(&records, "text", "delete trade from `.")["outcome"].as_str().expect("text").contains("role query"));
    for word in ["pass-of-", "wrong-word"] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn five_wrong_passwords_are_a_lock_out() {
    let scene = Audited::start("audit-locked", &[]);
    for _ in 0..6 {
        assert!(scene.try_login("bob", "guess").is_err());
    }
    let (records, text) = scene.stopped();
    assert_eq!((of_call(&records, "login").len(), of_call(&records, "lockout").len()), (5, 1));
    assert!(!text.contains("guess"));
}

#[test]
fn publishing_is_summed_by_connection_and_table() {
    let scene = Audited::start("audit-sums", &[]);
    let mut ann = scene.login("ann");
    for at in 0..200 {
        ann.request(&trades(at * 3..at * 3 + 3)).expect("published");
    }
    let note = call(".u.upd", [Value::symbol("note"), Value::list([Value::symbol("A"), Value::chars("words")])]);
    ann.request(&note).expect("published");
    assert!(!error_of(&mut ann, &call(".u.upd", [Value::symbol("none"), Value::NULL])).is_empty());
    drop(ann);
    let (records, _) = scene.stopped();
    let sums: Vec<&Json> = records.iter().filter(|record| record["call"] == ".u.upd").collect();
    let seen = |record: &Json| {
        let figures = ["updates", "rows", "first", "last"].map(|field| record[field].as_u64().unwrap_or_default());
        (record["tables"][0].as_str().unwrap_or_default().to_string(), figures)
    };
    let seen: Vec<_> = sums.iter().map(|record| seen(record)).collect();
    assert_eq!(
        seen,
        [
            ("trade".to_string(), [200, 600, 0, 199]),
            ("note".to_string(), [1, 1, 200, 200]),
            (String::new(), [1, 0, 0, 0])
        ]
    );
    assert_eq!(sums[2]["outcome"], "rejected");
    assert_eq!(sums[0]["user"], "ann");
}

#[test]
fn a_client_cannot_forge_a_record() {
    let scene = Audited::start("audit-forged", &["--limit-audit-text", "64B"]);
    let forged = "{\"n\":1,\"call\":\"login\",\"user\":\"root\",\"outcome\":\"ok\"}";
    let mut ann = scene.login("ann");
    for text in [
        format!("`a\n{forged}\n"),
        format!("`b\r\n{forged}\u{2028}\u{85}"),
        format!("`c\",\"outcome\":\"ok\"}}\n{forged}"),
        "`d\u{1b}[2J\u{9b}2K\u{7f}\u{202e}".to_string(),
        format!("`e{}", "é".repeat(1000)),
        "'\"signal\",100000#\"x\"".to_string(),
    ] {
        // Whether it evaluates makes no difference.
        let _ = ann.query(&text);
    }
    let mut raw = TcpStream::connect(("127.0.0.1", scene.tick.port)).expect("connected");
    raw.write_all(format!("root\n{forged}\n:x\x03\0").as_bytes()).expect("sent");
    assert_eq!(raw.read(&mut [0; 1]).unwrap_or(0), 0, "rejected");
    let other = call(&format!(".u.sub\n{forged}"), [Value::symbol(format!("x\n{forged}"))]);
    let _ = ann.request(&other);
    drop(ann);
    let (records, _) = scene.stopped();
    assert!(records.iter().all(|record| record["user"] != "root"));
    let texts = |mark: &str| {
        records.iter().filter(|record| record["text"].as_str().is_some_and(|text| text.contains(mark))).count()
    };
    assert_eq!((texts("`a\n"), texts("`b\r"), texts("`c\""), texts("`d\u{1b}")), (1, 1, 1, 1));
    let long = records.iter().find(|record| record["text"].as_str().is_some_and(|text| text.starts_with("`e")));
    let signal = records.iter().find_map(|record| record["outcome"].as_str().filter(|text| text.contains("signalxxx")));
    assert_eq!(signal.map(str::len), Some(64));
    let long = long.expect("a record");
    assert_eq!((&long["cut"], long["text"].as_str().map(str::len)), (&Json::Bool(true), Some(64)));
}

#[test]
fn with_hashes_no_query_can_be_read() {
    let scene = Audited::start("audit-hashes", &["--audit-queries", "hash"]);
    let mut ann = scene.login("ann");
    ask(&mut ann, "abc:1");
    ask(&mut ann, "\"the word\"");
    drop(ann);
    let (records, text) = scene.stopped();
    assert!(!text.contains("abc") && !text.contains("the word"));
    // sha256sum of the text.
    find(&records, "sha256", "bfcf0b9cbe9d8208b2cddd9a01c31a9a60698a106a0e4fc1664233a15f16acec");
}

#[test]
fn joins_and_proofs_of_nodes_are_recorded_and_the_secret_is_not() {
    let files = Directory::new("audit-cluster-files");
    let secret = files.path().join("secret");
    std::fs::write(&secret, SECRET).expect("written");
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
    let (secret, audit, of_node) = (file(&files, "secret"), file(&files, "audit"), file(&files, "of-node"));
    let mut tick = Tick::start("audit-cluster", &["--cluster-secret-file", &secret, "--audit", &audit]);
    let address = format!("127.0.0.1:{}", tick.port);
    let arguments = ["rdb", &address, "-p", "127.0.0.1:0", "--unix-sockets=", "--node", "one"];
    let arguments = [&arguments[..], &["--cluster-secret-file", &secret, "--audit", &of_node]].concat();
    let mut node = crate::harness::Process::start(&mut crate::harness::elastick(&arguments));
    let mut client = tick.client();
    eventually(&mut client, "exec node from .u.asg.tab where state=`live", &Value::symbols(["one"]));
    assert!(node.stop().success());
    assert!(tick.process.stop().success());
    let records = parsed(&read(Path::new(&audit)));
    assert_eq!(of_call(&records, ".u.asg.prove"), [ok("cluster")]);
    assert_eq!(of_call(&records, ".u.asg.join"), [ok("cluster")]);
    assert_eq!(of_call(&records, ".u.asg.status"), []);
    let own = parsed(&read(Path::new(&of_node)));
    assert_eq!(own[0]["process"], "rdb one");
    for path in [&audit, &of_node] {
        assert!(!read(Path::new(path)).contains(SECRET));
    }
}

#[test]
fn a_node_records_queries_and_marks_what_clients_print() {
    let files = Directory::new("audit-node-files");
    let audit = file(&files, "audit");
    let mut scene = live(&["--audit", &audit, "--node", "n1"]);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "2+3"), Value::Long(5));
    assert_eq!(refused(&mut client, "nope"), "nope");
    client.send_async(&Value::chars("-1 \"2026-11-24 ERROR forged\\nnext\"")).expect("sent");
    assert_eq!(ask(&mut client, "1"), Value::Long(1));
    let marked =
        |line: &str, text: &str| line.starts_with("client ") && line.ends_with(&format!(" ann@127.0.0.1: {text}"));
    scene.node.line(|line| marked(line, "2026-11-24 ERROR forged").then_some(()));
    scene.node.line(|line| marked(line, "next").then_some(()));
    drop(client);
    scene.node.stop();
    let records = parsed(&read(Path::new(&audit)));
    assert_eq!(of_call(&records, "login"), [ok("ann")]);
    assert_eq!(find(&records, "text", "2+3")["outcome"], "ok");
    assert_eq!(find(&records, "text", "nope")["outcome"], "'nope");
    assert_eq!(records[0]["process"], "rdb n1");
}

#[test]
fn what_a_client_posts_is_recorded() {
    let files = Directory::new("audit-posts-files");
    let audit = file(&files, "audit");
    let (_program, mut scene) =
        with("audit-posts", ".z.pp:{.h.hy[`txt] string value last\" \"vs x 0}\n", &["--audit", &audit]);
    let posted = exchange_at(scene.port, "POST /q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n40+2");
    assert!(posted.ends_with("42"), "{posted}");
    scene.node.stop();
    let records = parsed(&read(Path::new(&audit)));
    assert_eq!(find(&records, "call", "page")["text"], "q 40+2");
}

#[test]
fn what_a_handler_answers_and_what_is_rejected_before_the_login_is_recorded() {
    let files = Directory::new("audit-ac-files");
    let audit = file(&files, "audit");
    let program = ".z.ac:{$[\"a\"~first x[1;`Token];(2;\"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok\");\
                   (2;\"HTTP/1.1 418 Teapot\\r\\nContent-Length: 2\\r\\n\\r\\nno\")]}\n";
    let (_program, mut scene) = with("audit-ac", program, &["--audit", &audit]);
    // Base64 of ann:pass-of-ann: nobody has checked it.
    let ask = |path: &str, fields: &str| {
        let fields = format!("Authorization: Basic YW5uOnBhc3Mtb2YtYW5u\r\n{fields}");
        exchange_at(scene.port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    };
    for (path, fields, status) in [
        ("/own", "Token: a\r\n", 200),
        ("/teapot", "Token: b\r\n", 418),
        ("/foreign", "Token: a\r\nOrigin: http://evil.example\r\n", 403),
    ] {
        let answer = ask(path, fields);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    scene.node.stop();
    let text = read(Path::new(&audit));
    assert!(!text.contains("pass-of-ann") && !text.contains("YW5u"), "{text}");
    let records = parsed(&text);
    for (path, outcome) in [("/own", "ok"), ("/teapot", "HTTP status 418"), ("/foreign", "another site")] {
        let record = find(&records, "text", path);
        assert!(record["outcome"].as_str().expect("an outcome").contains(outcome), "{record}");
        assert_eq!(record["call"], "page");
        assert_eq!(record["address"], "127.0.0.1");
        assert!(record["user"].as_str().unwrap_or_default().is_empty(), "{record}");
    }
    assert_eq!(find(&records, "text", "/own")["bytes_out"], 40);
}

#[test]
fn pages_are_recorded_without_their_password() {
    let scene = Audited::start("audit-pages", &[]);
    for (credentials, status) in [("YW5uOnBhc3Mtb2YtYW5u", "200"), ("YW5uOndyb25nLXdvcmQ=", "401")] {
        let mut page = TcpStream::connect(("127.0.0.1", scene.tick.port)).expect("connected");
        let request = format!(
            "GET /health?a HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {credentials}\r\nConnection: close\r\n\r\n"
        );
        page.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        page.read_to_string(&mut answer).expect("text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    let (records, text) = scene.stopped();
    assert_eq!(of_call(&records, "page"), [ok("ann")]);
    assert_eq!(find(&records, "call", "page")["text"], "/health");
    assert!(of_call(&records, "login")[0].1.contains("wrong user"));
    for word in ["pass-of-ann", "YW5u", "wrong-word"] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn a_file_that_is_rotated_loses_no_record() {
    let scene = Audited::start("audit-rotated", &["--audit-max-size", "20KiB", "--limit-audit-queue", "100000"]);
    let mut ann = scene.login("ann");
    for at in 0..500 {
        assert_eq!(ask(&mut ann, &format!("{at}+0")), Value::Long(at));
        if at == 250 {
            // As logrotate does.
            let moved = scene.files.path().join("moved");
            // The process itself may have just renamed it.
            wait_for("the file", || std::fs::rename(scene.path(), &moved).ok());
            signal(scene.tick.process.id(), "HUP");
        }
    }
    drop(ann);
    let Audited { mut tick, files } = scene;
    assert!(tick.process.stop().success());
    let mut records = Vec::new();
    for entry in std::fs::read_dir(files.path()).expect("a directory").flatten() {
        if !entry.file_name().to_string_lossy().contains("users") {
            records.extend(parsed(&read(&entry.path())));
        }
    }
    records.sort_by_key(|record| record["n"].as_u64());
    let queries = records.iter().filter(|record| record["call"] == "query").count();
    assert_eq!(queries, 500);
    assert!(records.iter().zip(1_u64..).all(|(record, n)| record["n"] == n), "a number is missing");
    assert!(elastick::audit::rotated(&files.path().join("audit")).expect("a directory").len() > 2);
}

#[test]
fn the_newest_rotated_files_are_kept() {
    let scene = Audited::start("audit-kept", &["--audit-max-size", "2KiB", "--audit-keep", "2"]);
    let mut ann = scene.login("ann");
    (0..200).for_each(|at| assert_eq!(ask(&mut ann, &format!("{at}+0")), Value::Long(at)));
    let path = scene.path();
    wait_for("the last record", || read(&path).contains("199+0").then_some(()));
    assert_eq!(elastick::audit::rotated(&path).expect("a directory").len(), 2);
}

/// A device on which every write fails for lack of space, under the name of the audit log.
fn full_disk(scene: &str) -> (Directory, PathBuf) {
    let files = Directory::new(scene);
    let path = files.path().join("audit");
    std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
    (files, path)
}

fn page(port: u16, path: &str) -> String {
    let mut page = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    page.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    page.read_to_string(&mut answer).expect("text");
    without_disk(&answer)
}

#[test]
fn a_full_disk_is_an_alarm_and_what_waits_is_written_once_there_is_room() {
    let (files, path) = full_disk("audit-full-files");
    let audit = path.to_string_lossy().into_owned();
    let mut tick = Tick::start("audit-full", &["--audit", &audit]);
    let mut client = tick.client();
    wait_for("the alarm", || {
        page(tick.port, "/health").contains("degraded: the audit log cannot be written").then_some(())
    });
    assert!(page(tick.port, "/metrics").contains("\nelastick_audit_failing 1\n"));
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
    client.request(&trades(0..1)).expect("published");
    std::fs::remove_file(&path).expect("removed");
    wait_for("the end of the alarm", || page(tick.port, "/health").contains("\r\nok: ").then_some(()));
    assert!(page(tick.port, "/metrics").contains("\nelastick_audit_failing 0\n"));
    assert!(tick.process.stop().success());
    let records = parsed(&read(&path));
    assert_eq!(records[0]["call"], "start");
    find(&records, "text", "1+1");
    drop(files);
}

#[test]
fn what_is_required_is_refused_while_it_cannot_be_recorded() {
    let (files, path) = full_disk("audit-required-files");
    std::fs::remove_file(&path).expect("removed");
    let audit = path.to_string_lossy().into_owned();
    let mut tick = Tick::start("audit-required", &["--audit", &audit, "--audit-required"]);
    let mut client = tick.client();
    ask(&mut client, "a:1");
    let (aside, port) = (files.path().join("aside"), tick.port);
    std::fs::rename(&path, &aside).expect("renamed");
    std::os::unix::fs::symlink("/dev/full", &path).expect("a link");
    // The failure shows at the first record that cannot be written.
    wait_for("the alarm", || {
        let _ = client.query("a");
        page(port, "/health").contains("degraded: the audit log").then_some(())
    });
    let refusals = [Value::chars("a:2"), Value::chars(".u.i"), all("trade"), call(".u.end", [Value::Date(9000)])];
    for message in &refusals {
        assert!(error_of(&mut client, message).starts_with("access"), "{message:?}");
    }
    let address = format!("127.0.0.1:{port}:new:").parse().expect("an address");
    assert!(Client::connect(&address, PATIENCE, Limits::default()).is_err(), "no login");
    // A publisher that is connected goes on.
    client.request(&trades(0..2)).expect("published");
    std::fs::remove_file(&path).expect("removed");
    wait_for("queries again", || client.query("a").ok().map(|value| assert_eq!(value, Value::Long(1))));
    drop(client);
    assert!(tick.process.stop().success());
    let records = parsed(&read(&path));
    let sum = find(&records, "call", ".u.upd");
    assert_eq!((&sum["rows"], &sum["first"]), (&2.into(), &0.into()));
    // Nothing was executed without a record: the numbers go on where the first file ended.
    let before = parsed(&read(&aside));
    assert_eq!(records[0]["n"].as_u64(), before.last().and_then(|last| last["n"].as_u64()).map(|n| n + 1));
}

#[test]
fn without_a_file_nothing_can_be_required() {
    let output = crate::harness::elastick(&["tick", "--audit-required"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--audit-required needs --audit FILE"));
    assert!(!output.status.success());
}

#[test]
fn the_reader_filters_records_and_finds_missing_ones() {
    let scene = Audited::start("audit-reader", &[]);
    let mut ann = scene.login("ann");
    ask(&mut ann, "6*7");
    assert_eq!(refused(&mut ann, "1+`a"), "type");
    drop(ann);
    let (path, mut tick) = (scene.path(), scene.tick);
    assert!(tick.process.stop().success());
    let path = path.to_string_lossy().into_owned();
    let run = |options: &[&str]| {
        let output =
            crate::harness::elastick(&[&["audit", path.as_str()], options].concat()).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (is_well, shown, _) = run(&["--call", "query"]);
    assert!(is_well && shown.lines().count() == 3 && shown.contains("6*7"), "{shown}");
    assert_eq!(run(&["--call", "query", "--outcome", "failed"]).1.lines().count(), 2);
    assert_eq!(run(&["--user", "bob"]).1.lines().count(), 1);
    assert_eq!(run(&["--until", "2020-01-01"]).1.lines().count(), 1);
    let (_, json, _) = run(&["--json", "--since", "2020-01-01"]);
    assert_eq!(json, read(Path::new(&path)), "as they are in the file");
    let kept: Vec<&str> = json.lines().filter(|line| !line.contains("6*7")).collect();
    std::fs::write(&path, kept.join("\n") + "\n").expect("written");
    let (is_well, _, errors) = run(&["--call", "none"]);
    assert!(!is_well && errors.contains(" follows record "), "{errors}");
}

#[test]
fn an_async_query_is_recorded_once() {
    let scene = Audited::start("audit-async", &[]);
    let mut ann = scene.login("ann");
    ann.send_raw(&encode::message(MessageKind::Async, &Value::chars("counted:1")).expect("encodes")).expect("sent");
    ann.flush().expect("sent");
    assert_eq!(ask(&mut ann, "counted"), Value::Long(1));
    drop(ann);
    let (records, _) = scene.stopped();
    assert_eq!(records.iter().filter(|record| record["text"] == "counted:1").count(), 1);
}
