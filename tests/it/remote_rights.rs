//! Access rights of remote callers: tries every access to files, processes, sockets and handlers in `rights.txt`, at a node and at
//! a listening session.

use crate::harness::{Directory, Process, elastick, wait_for};
use crate::node_program::{until, with};
use crate::rdb_process::{ask, refused};
use crate::rdb_support::Door;
use elastick::net::client::{Client, ClientError};
use proto::{Limits, Value};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files that must not change, and a listener that must get no connection.
struct Bait {
    /// The path is valid in a symbol literal.
    directory: PathBuf,
    listener: TcpListener,
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Bait {
    fn new(name: &str) -> Bait {
        let directory = std::env::temp_dir().join(format!("elastickRights{name}{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory can be made");
        for (file, text) in [("f", "text\n"), ("f.q", "loaded:1\n"), ("t", "1\n")] {
            std::fs::write(directory.join(file), text).expect("written");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        Bait { directory, listener }
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(&self.directory).expect("it is there").flatten();
        let mut files: Vec<_> = entries
            .map(|entry| {
                (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap_or_default())
            })
            .collect();
        files.sort();
        files
    }

    fn is_untouched(&self, before: &[(String, Vec<u8>)]) {
        assert_eq!(self.files(), before);
        let accepted = self.listener.accept();
        assert!(accepted.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{accepted:?}");
    }

    /// The cases (text and error), with placeholders replaced.
    fn cases(&self, own: &str, other: &str) -> Vec<(String, String)> {
        let directory = self.directory.to_str().expect("a path").to_string();
        let port = self.listener.local_addr().expect("bound").port().to_string();
        let lines = include_str!("rights.txt").lines().filter(|line| !line.is_empty() && !line.starts_with("/ "));
        lines
            .map(|line| {
                let (text, error) = line.rsplit_once(" => ").unwrap_or((line, "access"));
                let text = [("{dir}", directory.as_str()), ("{port}", &port), ("{own}", own), ("{other}", other)]
                    .iter()
                    .fold(text.to_string(), |text, (name, value)| text.replace(name, value));
                (text, error.to_string())
            })
            .collect()
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Tries every case directly, through `value`, and through a function of the owner.
fn try_all(client: &mut Client, cases: &[(String, String)]) {
    let mut wrong = Vec::new();
    for (text, error) in cases {
        for way in [text.clone(), format!("value {}", quoted(text)), format!("run {}", quoted(text))] {
            match client.query(&way) {
                Err(ClientError::Server(name)) if error == "*" || name == error.as_bytes() => {}
                other => wrong.push(format!("{way}: {other:?}, not '{error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len() * 3, wrong.join("\n"));
}

const PROGRAM: &str = "run:{value x}\n.own.f:{x+1}\n.own.n:1\ntab:([]sym:`a`b;n:1 2)\nt:1\n";

/// A listening session and its port.
pub fn session(script: &Path, options: &[&str]) -> (Process, u16) {
    let script = script.to_str().expect("a path");
    let mut process = Process::start(&mut elastick(&[&["q", script, "-p", "0W"], options].concat()));
    let port = process.number_after("port");
    (process, port)
}

pub fn connect(port: u16) -> Client {
    let address = format!("127.0.0.1:{port}:ann:x").parse().expect("an address");
    Client::connect(&address, Duration::from_secs(60), Limits::default()).expect("connected")
}

#[test]
fn clients_of_a_node_reach_nothing_that_is_not_granted() {
    let door = Door::open();
    let program = format!("h:hopen`::{}\n{PROGRAM}", door.port());
    let accepted = std::thread::spawn(move || door.accept());
    let (_files, scene) = with("rights", &program, &[]);
    let _peer = accepted.join().expect("no panic");
    let (mut client, mut other) = (scene.connect(), scene.connect());
    let (Value::Int(own), Value::Int(another)) = (ask(&mut client, "h"), ask(&mut other, ".z.w")) else {
        panic!("handles")
    };
    let bait = Bait::new("node");
    let before = bait.files();
    try_all(&mut client, &bait.cases(&own.to_string(), &another.to_string()));
    bait.is_untouched(&before);
    assert!(other.next_message(Some(Instant::now())).expect("the connection lives").is_none());
    assert_eq!(ask(&mut other, "run\".own.f 1\""), Value::Long(2));
}

#[test]
fn clients_of_a_session_reach_nothing_that_is_not_granted() {
    let bait = Bait::new("session");
    let scripts = Directory::new("rights-session-script");
    let script = scripts.path().join("s.q");
    std::fs::write(&script, format!("{PROGRAM}-1\"port \",string system\"p\";\n")).expect("written");
    let (_process, port) = session(&script, &[]);
    let mut client = connect(port);
    let before = bait.files();
    // A session may relay between its connected clients, so skip the cases with handles.
    let mut cases = bait.cases("{own}", "{other}");
    cases.retain(|(text, _)| !text.contains("{own}") && !text.contains("{other}"));
    try_all(&mut client, &cases);
    bait.is_untouched(&before);
    assert_eq!(ask(&mut client, "run\".own.f 1\""), Value::Long(2));
}

/// Pairs: code of the owner's timer that uses a client's global, and the client's definition of that global.
const HOOKS: [(&str, &str); 9] = [
    ("if[`hook in key`.;hook[]]", "hook:{ran::1;system\"touch {dir}/new\"}"),
    ("if[`hook in key`.;hook[`a][]]", "hook:(enlist`a)!enlist{ran::1;system\"touch {dir}/new\"}"),
    ("if[`hook in key`.;first[hook][]]", "hook:({ran::1;system\"touch {dir}/new\"};1)"),
    ("if[`hook in key`.;hook \"touch {dir}/new\";ran::1]", "hook:system"),
    ("if[`hook in key`.;ran::1;hook \"touch {dir}/new\"]", "hook:`system"),
    ("if[`hook in key`.;ran::1;value hook]", "hook:\"system\\\"touch {dir}/new\\\"\""),
    ("if[`hook in key`.;ran::1;eval hook]", "hook:(`system;\"touch {dir}/new\")"),
    (
        "if[count names;ran::1;value first names];names::key[`.]except`ran`ticks`names",
        "hook:\"system\\\"touch {dir}/new\\\"\"",
    ),
    ("if[`hook in key`.;{x[]}each hook`f]", "hook:([]f:enlist{ran::1;system\"touch {dir}/new\"})"),
];

#[test]
fn code_of_a_client_has_its_rights_in_the_owners_events_too() {
    for (number, (timer, hook)) in HOOKS.iter().enumerate() {
        let bait = Bait::new(&format!("hook{number}"));
        let directory = bait.directory.to_str().expect("a path");
        let before = bait.files();
        let program = format!("ticks:ran:0\n.z.ts:{{ticks::ticks+1;{timer}}}\n\\t 5\n").replace("{dir}", directory);
        let (_files, scene) = with(&format!("hook-{number}"), &program, &[]);
        let mut client = scene.connect();
        assert!(client.query(&hook.replace("{dir}", directory)).is_ok(), "{hook}");
        let Value::Long(now) = ask(&mut client, "ticks") else { panic!("a number") };
        wait_for("the timer", || (ask(&mut client, &format!("ticks>{now}+1")) == Value::Bool(true)).then_some(()));
        bait.is_untouched(&before);
    }
}

#[test]
fn data_of_a_client_leaves_the_owners_events_their_rights() {
    let directory = Directory::new("rights-data");
    let file = directory.path().join("log");
    let program = format!(
        "seen:();done:0\n.z.pg:{{seen::seen,enlist x;value x}}\n\
         .z.ts:{{if[(count seen)&not done;(`$\":{}\")0:seen;done::1]}}\n\\t 5\n",
        file.display()
    );
    let (_files, scene) = with("data", &program, &[]);
    let mut client = scene.connect();
    ask(&mut client, "1+1");
    until(&mut client, "done", &Value::Long(1));
    assert!(std::fs::read_to_string(file).expect("written").starts_with("1+1\n"));
}

#[test]
fn clients_with_access_to_files_cannot_change_those_of_the_start() {
    let own = Directory::new("rights-guarded");
    let (library, link) = (own.path().join("library.q"), own.path().join("link.q"));
    std::fs::write(&library, "a:1\n").expect("written");
    std::os::unix::fs::symlink(&library, &link).expect("a link");
    let program = format!("\\l {}\n", library.display());
    let (files, scene) = with("guarded", &program, &["--remote-may", "files"]);
    let mut client = scene.connect();
    for path in [files.path().join("program.q"), library.clone(), link] {
        let (path, other) = (path.display(), own.path().join("new"));
        let file = format!("(`$\":{path}\")");
        for text in ["{} set 1", "{} 0: enlist \"xx\"", "{} 1: 0x00", "hdel {}", "hopen {}", "({};17;2;6) set 1"] {
            assert_eq!(refused(&mut client, &text.replace("{}", &file)), "access", "{text}");
        }
        ask(&mut client, &format!("(`$\":{}\") set 1", other.display()));
        for rename in
            [format!("system\"r {path} {}\"", other.display()), format!("system\"r {} {path}\"", other.display())]
        {
            assert_eq!(refused(&mut client, &rename), "access", "{rename}");
        }
    }
    assert_eq!(std::fs::read(&library).expect("it is there"), b"a:1\n");
    assert_eq!(std::fs::read(files.path().join("program.q")).expect("it is there"), program.as_bytes());
}

#[test]
fn with_blocked_writes_nothing_is_assigned_or_written() {
    let program = "v:1 2 3\nd:`a`b!1 2\nkt:([]a:1 2;b:3 4)\nrun:{value x}\n";
    let directory = Directory::new("rights-blocked");
    let path = directory.path().join("new").to_str().expect("a path").to_string();
    let script = directory.path().join("s.q");
    std::fs::write(&script, format!("{program}-1\"port \",string system\"p\";\n")).expect("written");
    let (_files, scene) = with("blocked", program, &["-b", "--remote-may", "files"]);
    let (_process, port) = session(&script, &["-b"]);
    let (mut of_node, mut of_session) = (scene.connect(), connect(port));
    let file = format!("`$\":{path}\"");
    for text in [
        "n:1",
        "v:1",
        "v[0]:5",
        "v,:4",
        "v[0]+:1",
        "d[`c]:1",
        "d,:(enlist`c)!enlist 3",
        "{v::x}5",
        "`v set 5",
        "@[`v;0;:;9]",
        ".[`v;();,;9]",
        "`kt insert 1 2",
        "`kt upsert 1 2",
        "update a:0 from`kt",
        "delete from`kt",
        "delete v from`.",
        "delete a from`kt",
        "`a xasc`kt",
        "`kt set kt",
        "upd:insert;upd[`kt;1 2]",
        "run\"v:1\"",
        "value\"v:1\"",
        "eval(:;`v;1)",
        "eval(set;enlist`v;1)",
        "![`kt;();0b;enlist`a]",
        "{kt::x}each 1 2",
        "a::v+1",
    ] {
        assert_eq!(refused(&mut of_node, text), "noupdate", "{text}");
        assert!(refused(&mut of_session, text).starts_with("noupdate"), "{text}");
    }
    for text in [
        format!("({file})set 1"),
        format!("({file}) 0: enlist\"xx\""),
        format!("({file}) 1: 0x00"),
        format!("hdel {file}"),
    ] {
        assert_eq!(refused(&mut of_node, &text), "noupdate", "{text}");
    }
    assert_eq!((ask(&mut of_node, "sum v"), ask(&mut of_session, "sum v")), (Value::Long(6), Value::Long(6)));
}

#[test]
fn a_fence_keeps_clients_to_the_working_directory() {
    let (_files, scene) = with("fence", "", &["--remote-may", "files,sockets,system", "-u", "1"]);
    let mut client = scene.connect();
    for text in [
        "read0`:/etc/hostname",
        "read0`:../x",
        "key`:..",
        "key`:/",
        "get`:/etc/hostname",
        "hdel`:/tmp/none",
        "`:/tmp/none set 1",
        "`:a/../../none set 1",
        "`:/tmp/none/ set ([]a:1 2)",
        "hopen`:/tmp/none",
        "`:../none 0:enlist\"x\"",
        "`:../none 1:0x00",
        "\\r Cargo.toml ../none",
        "\\r ../none none",
        "\\l /etc/hostname",
        "save`:/tmp/none",
        "-11!`:/etc/hostname",
        "(\"S*\";\",\")0:`:/etc/hostname",
        "system\"ls\"",
        "\\cd /",
        "exit 0",
        "`HOME setenv\"x\"",
    ] {
        assert_eq!(refused(&mut client, text), "access", "{text}");
    }
}

#[test]
fn passwords_are_checked_against_a_file() {
    let directory = Directory::new("rights-users");
    let users = directory.path().join("users");
    std::fs::write(&users, "ann:secret\n").expect("written");
    let users = users.to_str().expect("a path");
    for option in ["-U", "-u"] {
        let (_files, scene) = with(&format!("users{option}"), "", &[option, users]);
        let login = |who: &str| {
            let address = format!("127.0.0.1:{}:{who}", scene.port).parse().expect("an address");
            Client::connect(&address, Duration::from_secs(60), Limits::default())
        };
        assert!(matches!(login("ann:x"), Err(ClientError::Refused(_))));
        assert!(matches!(login("bob:secret"), Err(ClientError::Refused(_))));
        assert_eq!(login("ann:secret").expect("let in").query("1+1").expect("answered"), Value::Long(2));
    }
}

/// Expressions that crash a process with unbounded recursion.
const DEEP: [&str; 9] = [
    "null {enlist x}/[5000;1]",
    "fills {enlist x}/[5000;1]",
    "5${enlist x}/[5000;1]",
    "hclose {enlist x}/[5000;1]",
    ".h.hu {enlist x}/[5000;1]",
    "count {(x;x)}/[5000;()]",
    "f:{x}/[f;5000]",
    "{('[x;neg])}/[5000;neg]",
    "{x'}/[5000;neg]",
];

fn survives(port: u16, answers: bool) {
    let verbs = ["neg", "+", "f"]
        .into_iter()
        .flat_map(|verb| ["'", "/", "\\:", "[1]"].map(|part| format!("\"neg\",{verb}{} 1", part.repeat(30_000))));
    let nested = ["(", "{", "[", "neg ", "1+", "$[1b;1;", "f["].map(|part| part.repeat(30_000));
    let texts: Vec<String> = DEEP.iter().map(|text| (*text).to_string()).chain(verbs).chain(nested).collect();
    let mut client = connect(port);
    for text in &texts {
        client.send_async(&Value::chars(&text[..])).expect("sent");
        assert!(matches!(client.query(text), Ok(_) | Err(ClientError::Server(_))), "{}", &text[..text.len().min(40)]);
    }
    match connect(port).query("1+1") {
        Ok(value) => assert_eq!((value, answers), (Value::Long(2), true)),
        Err(ClientError::Server(name)) => assert!(!answers, "{}", String::from_utf8_lossy(&name)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nothing_deep_that_a_client_sends_ends_a_process() {
    let directory = Directory::new("deep-allowed");
    let allowed = directory.path().join("allowed");
    std::fs::write(&allowed, "f\n").expect("written");
    let allow = ["--allow", allowed.to_str().expect("a path")];
    for (options, answers) in [(&[][..], true), (&["-b"][..], true), (&allow[..], false)] {
        let (_tick_files, tick) = crate::tick_program::with("deep", "", options);
        survives(tick.port, answers);
        let (_node_files, node) = crate::node_program::with("deep", "", options);
        survives(node.port, answers);
    }
}
