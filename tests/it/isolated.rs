//! Users whose roles restrict them are kept from one another: what one defines, another neither sees nor runs, and nobody replaces what the
//! start-up files define. The lines of `isolated.txt` and `isolated_tick.txt` try it every way around.

use crate::harness::{Directory, wait_for};
use crate::node_web::Web;
use crate::q_session::serving;
use crate::rdb_process::{Scene, ask, live, refused};
use crate::tick_support::{PATIENCE, Tick, all, call, eventually};
use elastick::config::Address;
use elastick::net::client::{Client, ClientError};
use proto::{Limits, Value};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

const USERS: &str = r#"
[roles.some]
query = { trade = "sym in `S1`S2", hist = "n<3", latest = true }
[roles.other]
query = { trade = "n=1" }
[users.ann]
password = "x"
roles = ["query"]
[users.bob]
password = "x"
roles = ["some"]
[users.cat]
password = "x"
roles = ["other"]
[users.ops]
password = "x"
roles = ["operator", "some"]
[users.feed]
password = "x"
roles = ["publish"]
[users.none]
password = "x"
roles = []
"#;

/// The third trade has this number.
const SECRET: i64 = 777_777;

const PROGRAM: &str = "
limits:`a`b!1 2
hist:([]sym:`S1`S777777;n:1 777777)
cnt:0
usage:([]who:`$();what:())
store:()
err:0
waits:0Ni
seen::select from trade
seenq::count quote
.app.n:5
.app.f:{x+1}
check:{x<limits`a}
hit:{cnt+:1}
note:{`usage insert (.z.u;enlist x)}
grow:{hist,:`sym`n!x}
put:{store::x}
put2:{x set y}
syms:`S1`S2
st:()!()
kv:{st[x]:y}
into:{`usage insert x}
cut2:{hist::select from hist where n>0}
run:{value x}
runstore:{value store}
apply:{x y}
give:{-30!x}
later:{waits::.z.w;-30!(::);`nobody}
.z.ts:{copy::select from trade;if[10h=type store;err::@[value;store;{x}]]}
.z.ph:{.h.hy[`txt] .Q.s1 @[value;.h.uh 1_first x;{\"'\",x}]}
.z.ws:{neg[.z.w] .j.j @[value;x;{\"'\",x}]}
\\t 5
";

struct Node {
    scene: Scene,
    _files: Directory,
}

fn written(files: &Directory, name: &str, text: &str) -> String {
    let path = files.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("a path").to_string()
}

impl Node {
    fn new(name: &str, options: &[&str]) -> Node {
        let files = Directory::new(&format!("isolated-{name}"));
        let (users, program) = (written(&files, "users.toml", USERS), written(&files, "program.q", PROGRAM));
        let mut scene = live(&[&[program.as_str(), "-U", &users], options].concat());
        scene.guest.feed("trade", &[1, 2, SECRET], 0);
        scene.guest.feed("quote", &[1, 2], 1);
        let node = Node { scene, _files: files };
        let mut ann = node.client("ann");
        node.scene.holds(&mut ann, 3);
        wait_for("the timer", || (ask(&mut ann, "@[{count copy};();0]") == Value::Long(3)).then_some(()));
        node
    }

    fn client(&self, user: &str) -> Client {
        client(self.scene.port, user)
    }
}

fn client(port: u16, user: &str) -> Client {
    let address: Address = format!("127.0.0.1:{port}:{user}:x").parse().expect("an address");
    Client::connect(&address, PATIENCE, Limits::default()).expect("connected")
}

/// The result of an expression: `'` and the error's name, or as `.Q.s1` shows it.
fn shown(client: &mut Client, text: &str, wants_error: bool) -> String {
    let message = match wants_error {
        true => Value::chars(text),
        false => Value::list([Value::chars("{.Q.s1 value x}"), Value::chars(text)]),
    };
    match client.request(&message) {
        Ok(value) => value.as_text().map_or(format!("{value:?}"), |text| String::from_utf8_lossy(text).into_owned()),
        Err(ClientError::Server(error)) => {
            let error = String::from_utf8_lossy(&error).into_owned();
            format!("'{}", error.split(':').next().unwrap_or_default())
        }
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Sends the lines `user | expression => result`, and returns how many there were.
fn try_all(lines: &str, port: u16) -> usize {
    let (mut clients, mut wrong, mut count) = (BTreeMap::new(), Vec::new(), 0);
    for line in lines.lines().filter(|line| !line.is_empty() && !line.starts_with("/ ")) {
        let (user, rest) = line.split_once(" | ").expect(line);
        let (text, wanted) = rest.rsplit_once(" => ").expect(line);
        let client = clients.entry(user).or_insert_with(|| client(port, user));
        let result = shown(client, text, wanted.starts_with('\''));
        if result != wanted {
            wrong.push(format!("{line}\n    {result}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    count
}

#[test]
fn users_of_a_node_are_kept_from_one_another() {
    let node = Node::new("node", &[]);
    assert!(try_all(include_str!("isolated.txt"), node.scene.port) >= 60);
}

#[test]
fn what_a_user_defines_ends_with_the_last_connection() {
    let node = Node::new("ends", &[]);
    let (mut one, mut two) = (node.client("bob"), node.client("bob"));
    ask(&mut one, "x:5");
    assert_eq!(ask(&mut two, "x"), Value::Long(5));
    drop(one);
    assert_eq!(ask(&mut two, "x"), Value::Long(5));
    drop(two);
    wait_for("the user's globals to be dropped", || {
        let mut again = node.client("bob");
        matches!(again.query("x"), Err(ClientError::Server(error)) if error == b"x").then_some(())
    });
}

#[test]
fn a_users_globals_are_bounded_apart_from_others() {
    let node = Node::new("bounded", &["--limit-user-globals", "64KiB"]);
    let (mut ann, mut bob, mut cat) = (node.client("ann"), node.client("bob"), node.client("cat"));
    assert_eq!(refused(&mut bob, "x:til 10000"), "wsfull");
    for _ in 0..20 {
        ask(&mut bob, "x:til 5000");
    }
    assert_eq!(refused(&mut bob, "y:til 5000"), "wsfull");
    ask(&mut cat, "x:til 5000");
    ask(&mut ann, "x:til 10000");
    ask(&mut bob, "delete x from `.");
    ask(&mut bob, "y:til 5000");
}

#[test]
fn text_of_a_restricted_user_is_not_run_by_the_timer() {
    let node = Node::new("timer", &[]);
    let (mut ann, mut bob) = (node.client("ann"), node.client("bob"));
    ask(&mut bob, "put\"`hist set 0#hist\"");
    wait_for("the timer to be refused", || {
        (ask(&mut ann, "$[10h=type err;err like\"access*\";0b]") == Value::Bool(true)).then_some(())
    });
    assert_eq!(ask(&mut ann, "count hist"), Value::Long(2));
    // The text of an unrestricted user runs as before, with a client's rights.
    ask(&mut ann, "put\"1+1\"");
    wait_for("the timer to run it", || (ask(&mut ann, "err") == Value::Long(2)).then_some(()));
}

#[test]
fn a_deferred_request_is_answered_by_its_user_or_the_start_up_files() {
    let node = Node::new("deferred", &[]);
    let (mut ann, mut bob, mut cat) = (node.client("ann"), node.client("bob"), node.client("cat"));
    let answered = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cat.query("later[]"));
        let mut handle = Value::NULL;
        wait_for("the request", || {
            handle = ask(&mut ann, "waits");
            (handle != Value::Int(i32::MIN)).then_some(())
        });
        let Value::Int(handle) = handle else { panic!("{handle:?}") };
        // A restricted user answers nobody's, also by a function of the start-up files.
        for text in ["-30!(H;0b;1)", "give(H;0b;1)", "{-30!x}(H;0b;1)", "value\"-30!(H;0b;1)\"", "-30!(H;1b;\"no\")"] {
            assert_eq!(refused(&mut bob, &text.replace('H', &format!("{handle}i"))), "access", "{text}");
        }
        assert_eq!(refused(&mut ann, &format!("-30!({handle}i;0b;1)")), "access");
        ask(&mut ann, &format!("give({handle}i;0b;`right)"));
        waiting.join().expect("no panic")
    });
    assert_eq!(answered.expect("answered"), Value::symbol("right"));
    assert_eq!(ask(&mut bob, "{-30!(::);-30!(.z.w;0b;x);`nobody}7"), Value::Long(7));
}

#[test]
fn a_worker_answers_the_clients_of_a_node_that_has_opened_its_connection() {
    let work = "work:{[c;x]neg[.z.w]({-30!x};(c;0b;x*x))}\n";
    let tries = "work:{[c;x]neg[.z.w]({tried::@[{-30!x;`done};x;{`$x}]};(c;0b;x*x))}\n";
    let (_one_files, _one, workers) = serving("isolated-1", work);
    let (_two_files, _two, other) = serving("isolated-2", tries);
    let program = format!(
        "h:hopen`::{workers}\nwaits:0Ni\nlater:{{waits::.z.w;-30!(::)}}\ngive:{{-30!x}}\nask:{{neg[h](`work;.z.w;x);-30!(::)}}\n"
    );
    let (_files, scene) = crate::node_program::with("isolated-worker", &program, &["--remote-may", "sockets"]);
    let (mut client, mut victim) = (scene.connect(), scene.connect());
    assert_eq!(ask(&mut client, "ask 3"), Value::Long(9));
    // A connection that a client has opened has the client's rights.
    let answered = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| victim.query("later[]"));
        wait_for("the request", || (ask(&mut client, "null waits") == Value::Bool(false)).then_some(()));
        ask(&mut client, &format!("own:hopen`::{other}"));
        ask(&mut client, "neg[own](`work;waits;5)");
        wait_for("the other's answer to be refused", || {
            (ask(&mut client, "@[value;`tried;`]") == Value::symbol("access")).then_some(())
        });
        ask(&mut client, "give(waits;0b;`right)");
        waiting.join().expect("no panic")
    });
    assert_eq!(answered.expect("answered"), Value::symbol("right"));
}

/// A page of a process.
fn page(port: u16, user: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let basic = elastick::kernel::digest::to_base64(format!("{user}:x").as_bytes());
    let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {basic}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("a page");
    page
}

#[test]
fn pages_assign_in_their_users_space() {
    let node = Node::new("pages", &[]);
    let port = node.scene.port;
    for (user, text, wanted) in [
        ("bob", "limits:1", "\"'access\""),
        ("bob", "hist:1", "\"'access\""),
        ("bob", "leak:exec%20n%20from%20trade;leak", "1 2"),
        ("ann", "leak", "\"'leak\""),
        ("bob", "leak", "\"'leak\""),
        ("ann", "exec%20n%20from%20trade", "1 2 777777"),
    ] {
        let page = page(port, user, &format!("/?{text}"));
        assert!(page.ends_with(wanted), "{user} {text}: {page}");
    }
    // A page has the globals of its user's connections.
    let mut bob = node.client("bob");
    ask(&mut bob, "x:5");
    assert!(page(port, "bob", "/?x:x%2B1;x").ends_with('6'));
    assert_eq!(ask(&mut bob, "x"), Value::Long(6));
}

#[test]
fn web_sockets_have_their_users_space() {
    let node = Node::new("web", &[]);
    let mut ann = node.client("ann");
    let basic = elastick::kernel::digest::to_base64(b"bob:x");
    let mut web = Web::open_with(node.scene.port, &format!("Authorization: Basic {basic}\r\n"));
    for (text, wanted) in [
        ("limits:1", "\"'access\""),
        ("`hist set 1", "\"'access\""),
        ("-30!(1i;0b;1)", "\"'access\""),
        ("f:{exec n from trade};f[]", "[1,2]"),
        ("put{1}", "\"'access\""),
        ("key .z.W", "[HANDLE]"),
    ] {
        web.send(1, text.as_bytes());
        let answer = String::from_utf8_lossy(&web.next().1).into_owned();
        let handles = ask(&mut ann, "count key .z.W");
        assert_eq!(handles, Value::Long(2), "ann sees both connections");
        match wanted {
            "[HANDLE]" => assert!(!answer.contains(',') && answer.len() > 2, "{answer}"),
            _ => assert_eq!(answer, wanted, "{text}"),
        }
    }
    assert_eq!(refused(&mut ann, "f[]"), "f");
}

#[test]
fn metrics_need_a_role_and_health_none() {
    let node = Node::new("metrics", &[]);
    let users = written(&node._files, "tick.toml", USERS);
    let tick = Tick::start("isolated-metrics-tick", &["-U", &users]);
    let open = Tick::start("isolated-metrics-open", &["-U", &users, "--metrics-open"]);
    let status = |port, user, path| page(port, user, path).split(' ').nth(1).map(str::to_string).expect("a status");
    for port in [node.scene.port, tick.port] {
        for (user, wanted) in [("ann", "200"), ("bob", "200"), ("ops", "200"), ("feed", "403"), ("none", "403")] {
            assert_eq!(status(port, user, "/metrics"), wanted, "{user}");
        }
        for user in ["ann", "feed"] {
            assert_ne!(status(port, user, "/health"), "403", "{user}");
        }
    }
    assert_eq!(status(open.port, "feed", "/metrics"), "200");
}

const TICK_PROGRAM: &str = "
n:0
store:\"\"
waits:0Ni
hit:{n+:1;n}
put:{store::x}
run:{value x}
runstore:{value store}
apply:{x y}
.app.f:{x}
give:{-30!x}
later:{waits::.z.w;-30!(::);`nobody}
";

/// A handler that counts and keeps messages.
const COUNTING: &str = "
hits:0
usage:()
latest:()
.z.pg:{hits+:1;usage,:enlist x;latest::x;value x}
f:{x+1}
";

/// One that also reads what other users have written: a node closes that to restricted users.
const COMPARING: &str = "
hits:0
latest:()
.z.pg:{if[x~latest;hits+:1];latest::x;value x}
f:{x+1}
";

#[test]
fn a_handler_that_counts_and_keeps_messages_leaves_its_callers_their_rights() {
    let files = Directory::new("isolated-counting");
    let users = written(&files, "users.toml", USERS);
    let (counting, comparing) = (written(&files, "counting.q", COUNTING), written(&files, "comparing.q", COMPARING));
    let scene = live(&[counting.as_str(), "-U", &users]);
    let tick = Tick::start("isolated-counting-tick", &[counting.as_str(), "-U", &users]);
    let other = Tick::start("isolated-comparing-tick", &[comparing.as_str(), "-U", &users]);
    for port in [scene.port, tick.port, other.port] {
        let mut clients = ["bob", "cat", "ann", "ops"].map(|user| client(port, user));
        for round in 0..3 {
            for one in &mut clients {
                let wanted = one.query("value\"1+1\"").map_err(|error| error.to_string());
                assert_eq!(wanted, Ok(Value::Long(2)), "{round}");
                let call = Value::list([Value::symbol("f"), Value::Long(round)]);
                assert_eq!(one.request(&call).map_err(|error| error.to_string()), Ok(Value::Long(round + 1)));
            }
        }
    }
    // A node's user who may read everything reads what all have sent, others do not.
    let mut ann = client(scene.port, "ann");
    assert_eq!(ask(&mut ann, "(count usage),hits"), Value::longs([25, 25]));
    assert_eq!(refused(&mut client(scene.port, "bob"), "usage"), "access");
    let scene = live(&[comparing.as_str(), "-U", &users]);
    assert_eq!(ask(&mut client(scene.port, "bob"), "1+1"), Value::Long(2));
    assert_eq!(ask(&mut client(scene.port, "bob"), "1+1"), Value::Long(2));
    assert_eq!(refused(&mut client(scene.port, "cat"), "1+1"), "access");
}

const TICK_USERS: &str = r#"
[roles.trades]
query = { trade = true }
[roles.rdbs]
node = ["rdb"]
[users.ann]
password = "x"
roles = ["query"]
[users.bob]
password = "x"
roles = ["trades", "publish", "subscribe"]
[users.node]
password = "x"
roles = ["rdbs", "query"]
[users.ops]
password = "x"
roles = ["operator", "query", "subscribe"]
"#;

fn tickerplant(name: &str, options: &[&str]) -> (Directory, Tick) {
    let files = Directory::new(&format!("isolated-tick-files-{name}"));
    let (users, program) = (written(&files, "users.toml", TICK_USERS), written(&files, "program.q", TICK_PROGRAM));
    let tick = Tick::start(&format!("isolated-tick-{name}"), &[&[program.as_str(), "-U", &users], options].concat());
    (files, tick)
}

#[test]
fn users_of_a_tickerplant_are_kept_from_one_another() {
    let (_files, tick) = tickerplant("ways", &[]);
    let (mut node, mut ops) = (client(tick.port, "node"), client(tick.port, "ops"));
    let join = call(".u.asg.sub", [Value::symbol("trade"), Value::symbol(""), Value::symbol("rdb")]);
    node.request(&join).expect("joined");
    ops.request(&all("trade")).expect("subscribed");
    assert!(try_all(include_str!("isolated_tick.txt"), tick.port) >= 20);
    assert_eq!(node.query("exec queue from .u.asg.tab").expect("answered"), Value::symbols(["rdb"]));
    assert_eq!(ops.query(".u.d=.z.d").expect("answered"), Value::Bool(true), "nobody has ended the day");
}

#[test]
fn what_a_user_defines_at_a_tickerplant_ends_with_the_last_connection() {
    let (_files, tick) = tickerplant("ends", &["--limit-user-globals", "64KiB"]);
    let (mut ann, mut bob) = (client(tick.port, "ann"), client(tick.port, "bob"));
    for _ in 0..20 {
        ann.query("x:til 5000").expect("room");
    }
    assert_eq!(refused(&mut ann, "y:til 5000"), "wsfull");
    bob.query("y:til 5000").expect("room");
    drop(ann);
    wait_for("the user's globals to be dropped", || {
        let again = client(tick.port, "ann").query("x");
        matches!(again, Err(ClientError::Server(error)) if error == b"x").then_some(())
    });
    assert_eq!(bob.query("count y").expect("answered"), Value::Long(5000));
}

#[test]
fn a_deferred_request_at_a_tickerplant_is_answered_by_the_start_up_files() {
    let (_files, tick) = tickerplant("deferred", &[]);
    let (mut ann, mut bob) = (client(tick.port, "ann"), client(tick.port, "bob"));
    let answered = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bob.query("later[]"));
        eventually(&mut ann, "null waits", &Value::Bool(false));
        for text in ["-30!(waits;0b;1)", "{-30!x}(waits;0b;1)", "apply[-30!;(waits;0b;1)]"] {
            assert_eq!(refused(&mut ann, text), "access", "{text}");
        }
        ann.query("give(waits;0b;`right)").expect("answered");
        waiting.join().expect("no panic")
    });
    assert_eq!(answered.expect("answered"), Value::symbol("right"));
}
