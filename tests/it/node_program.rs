//! Start-up files of a node: their definitions and handlers, and the rights of clients that call them.

use crate::harness::{Directory, elastick, wait_for};
use crate::rdb_process::{Scene, ask, live, refused};
use elastick::config::Address;
use elastick::net::client::{Client, ClientError};
use proto::{Limits, MessageKind, Value, decode};
use std::time::{Duration, Instant};

/// A live node with one start-up file.
pub fn with(name: &str, program: &str, options: &[&str]) -> (Directory, Scene) {
    let directory = Directory::new(&format!("program-{name}"));
    let file = directory.path().join("program.q");
    std::fs::write(&file, program).expect("written");
    let file = file.to_str().expect("a path").to_string();
    let scene = live(&[&[file.as_str()], options].concat());
    (directory, scene)
}

fn try_login(scene: &Scene, who: &str) -> Result<Client, ClientError> {
    let address: Address = format!("127.0.0.1:{}:{who}", scene.port).parse().expect("an address");
    Client::connect(&address, Duration::from_secs(30), Limits::default())
}

pub fn tell(client: &mut Client, text: &str) {
    client.send_async(&Value::chars(text)).expect("sent");
    client.flush().expect("sent");
}

/// Repeats a query until it returns `wanted`.
pub fn until(client: &mut Client, question: &str, wanted: &Value) {
    wait_for(question, || (ask(client, question) == *wanted).then_some(()));
}

/// Checks a deferred reply: the query `later` gets its reply when another client calls `free` or `fail`. The start-up file keeps the
/// waiting handle in `waits`, and `forget` clears it.
pub fn puts_off(client: &mut Client, other: &mut Client) {
    for (release, wanted) in [("free 1 2", Ok(Value::longs([1, 2]))), ("fail \"mine\"", Err("mine"))] {
        ask(other, "forget[]");
        let answer = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client.query("later"));
            wait_for("the question", || (ask(other, "null waits") == Value::Bool(false)).then_some(()));
            ask(other, release);
            waiting.join().expect("no panic")
        });
        match (answer, wanted) {
            (Ok(value), Ok(wanted)) => assert_eq!(value, wanted),
            (Err(ClientError::Server(name)), Err(wanted)) => assert_eq!(name, wanted.as_bytes()),
            other => panic!("{other:?}"),
        }
    }
}

/// Ways to answer the request of another client, whose handle is `held 0`.
const ANSWERS: [&str; 10] = [
    "-30!(held 0;0b;`mine)",
    "{-30!x}(held 0;0b;`mine)",
    "(-30!)(held 0;0b;`mine)",
    "![-30;(held 0;0b;`mine)]",
    ".[!;(-30;(held 0;0b;`mine))]",
    "value\"-30!(held 0;0b;`mine)\"",
    "eval parse\"-30!(held 0;0b;`mine)\"",
    "(-30!)each enlist(held 0;0b;`mine)",
    "pass[-30;(held 0;0b;`mine)]",
    "run[{-30!x};(held 0;0b;`mine)]",
];

/// Checks that a client's own code does not answer the request of another client.
fn assert_answers_its_own(client: &mut Client) {
    for text in ANSWERS {
        let error = refused(client, text);
        assert!(error.starts_with("access"), "{text}: {error}");
    }
}

/// Checks several deferred replies to a client that pipelines: each query gets its reply, in the order of the queries. Replies are
/// text, so that a session's program can produce them. The start-up file defines `give`, `pass` and `run`.
pub fn puts_off_several(client: &mut Client, other: &mut Client, is_session: bool) {
    ask(other, "{held::0#0i}[]");
    let question = |text: &str| proto::encode::message(MessageKind::Sync, &Value::chars(text)).expect("a message");
    for text in [
        "{-30!(::);held::held,.z.w;`nobody}1",
        "{-30!(::);held::held,.z.w;`nobody}2",
        "{-30!(::);held::held,.z.w;`nobody}3",
        "`last",
    ] {
        client.send_raw(&question(text)).expect("sent");
    }
    client.flush().expect("sent");
    until(other, "count held", &Value::Long(3));
    // The clients of a session have no roles.
    if !is_session {
        assert_answers_its_own(other);
    }
    ask(other, "give(held 0;0b;`first)");
    ask(other, "give(held 1;1b;\"second\")");
    ask(other, "give(held 2;0b;`third)");
    assert!(refused(other, "give(held 2;0b;`fourth)").contains("not expecting a response"));
    let by = Some(Instant::now() + Duration::from_secs(60));
    let mut answer = || {
        let message = client.next_message(by).expect("the connection lives").expect("an answer");
        assert_eq!(message.header.kind, MessageKind::Response);
        message
            .view(&Limits::default())
            .map(|_| message.body.get(1..message.body.len() - 1).unwrap_or_default().to_vec())
    };
    assert_eq!(answer().ok().as_deref(), Some(&b"first"[..]));
    assert!(matches!(answer(), Err(ClientError::Server(name)) if name == b"second"));
    assert_eq!(answer().ok().as_deref(), Some(&b"third"[..]));
    assert_eq!(answer().ok().as_deref(), Some(&b"last"[..]));
}

/// The next async message.
pub fn pushed(client: &mut Client) -> Value {
    let by = Instant::now() + Duration::from_secs(60);
    let message = client.next_message(Some(by)).expect("the connection lives").expect("a message");
    assert_eq!(message.header.kind, MessageKind::Async);
    decode::object(&message.body, message.header.endian, &Limits::default()).expect("an object").0
}

pub fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::List { attr: 0, items: items.to_vec() }
}

pub fn sym(name: &str) -> Value {
    Value::Symbol(name.as_bytes().to_vec())
}

#[test]
fn functions_and_variables_are_there_for_every_client() {
    let (_files, mut scene) =
        with("defines", "\\d .an\nlimit:3\nbig:{[t]\n  select from t where n>limit}\n\\d .\n.an.k:`a`b!1 2\n", &[]);
    let mut client = scene.connect();
    scene.guest.feed("trade", &[1, 5, 9], 0);
    scene.holds(&mut client, 3);
    assert_eq!(ask(&mut client, "exec n from .an.big trade"), Value::longs([5, 9]));
    tell(&mut client, ".an.limit:6");
    assert_eq!(ask(&mut client, "exec n from .an.big trade"), Value::longs([9]));
    assert_eq!(ask(&mut scene.connect(), ".an.k`b"), Value::Long(2));
}

#[test]
fn namespaces_within_namespaces_are_dictionaries() {
    let (_files, mut scene) = with("nested", ".lib.math.k:3\n.lib.cfg.a.b:5\n.lib.f:{x}\n", &[]);
    let mut client = scene.connect();
    scene.guest.feed("trade", &[1], 0);
    scene.holds(&mut client, 1);
    for expression in ["key[`.lib]~``math`cfg`f", ".lib[`math;`k]~3", ".lib.cfg[`a]~``b!(::;5)", "`lib in key`"] {
        assert_eq!(ask(&mut client, expression), Value::Bool(true), "{expression}");
    }
    tell(&mut client, ".my.a.b:1");
    tell(&mut client, ".my.a.c:2");
    assert_eq!(ask(&mut client, "(.my`a)~``b`c!(::;1;2)"), Value::Bool(true));
    assert_eq!(ask(&mut client, "(system\"v .my.a\")~`b`c"), Value::Bool(true));
    tell(&mut client, ".my.a:`p`q!3 4");
    assert_eq!(ask(&mut client, ".my.a~`p`q!3 4"), Value::Bool(true));
    tell(&mut client, ".lib.math:5");
    assert_eq!(ask(&mut client, "(.lib.math;asc 1_key`.lib)~(5;`cfg`f`math)"), Value::Bool(true));
}

#[test]
fn an_error_in_a_file_ends_the_start() {
    let directory = Directory::new("program-error");
    let file = directory.path().join("bad.q");
    std::fs::write(&file, "a:1\nb:a+`x\n").expect("written");
    let output = elastick(&["rdb", ":1", file.to_str().expect("a path")]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("bad.q, line 2:\n'type (+ was given a long and a symbol)\n  [0]  b:a+`x\n"), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.trim() == "^"), "{text}");
}

#[test]
fn messages_go_through_their_handlers() {
    let program = "seen:0\n.z.pg:{`pg,.z.u,value x}\n.z.ps:{seen::seen+1;value x}\n";
    let (_files, scene) = with("pgps", program, &[]);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "`$\"x\""), Value::symbols(["pg", "ann", "x"]));
    tell(&mut client, "v:7");
    let answer = list([sym("pg"), sym("ann"), Value::Long(7), Value::Long(1)]);
    assert_eq!(ask(&mut client, "v,seen"), answer);
}

#[test]
fn messages_of_a_client_have_its_rights_inside_a_handler_too() {
    let (_files, scene) = with("rights", "secret:{read1 `:/proc/self/stat}\n.z.pg:{value x}\n", &[]);
    let mut client = scene.connect();
    for question in
        ["secret[]", "read0 `:/etc/passwd", "hopen 1", "system \"ls\"", "exit 1", ".z.pg:{x}", ".z.ts:{x}", "\\t 5"]
    {
        assert_eq!(refused(&mut client, question), "access", "{question}");
    }
    assert_eq!(ask(&mut client, "getenv `PATH"), Value::chars(""));
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
}

#[test]
fn a_table_of_a_client_takes_rows_by_amend_as_by_upsert() {
    let (_files, scene) = with("amend", "", &[]);
    let mut client = scene.connect();
    ask(&mut client, "w:([]a:1 2;b:`x`y);k:([s:`a`b]v:1 2);");
    ask(&mut client, ".[`w;();,;(4;`y)]");
    ask(&mut client, ".[`k;();,;(`b;3)]");
    ask(&mut client, "`w upsert ()");
    assert_eq!(ask(&mut client, "exec a from w"), Value::longs([1, 2, 4]));
    assert_eq!(ask(&mut client, "exec v from k"), Value::longs([1, 3]));
}

#[test]
fn a_node_tells_how_much_memory_it_uses() {
    let (_files, scene) = with("memory", "", &[]);
    assert_eq!(ask(&mut scene.connect(), "all 1000000<(.Q.w[]`used`heap`peak),first system\"w\""), Value::Bool(true));
}

#[test]
fn the_owner_may_grant_files_and_keep_them_inside() {
    let (files, scene) = with("grants", "", &["--remote-may", "files"]);
    let mut client = scene.connect();
    let path = files.path().join("kept").to_str().expect("a path").to_string();
    ask(&mut client, &format!("(`$\":{path}\") set 1 2 3"));
    assert_eq!(ask(&mut client, &format!("get `$\":{path}\"")), Value::longs([1, 2, 3]));
    assert_eq!(refused(&mut client, "hopen 1"), "access");
    let (_files, scene) = with("fenced", "", &["--remote-may", "files,system", "-u", "1"]);
    let mut client = scene.connect();
    assert_eq!(refused(&mut client, &format!("get `$\":{path}\"")), "access");
    assert_eq!(refused(&mut client, "get `:../x"), "access");
    assert_eq!(refused(&mut client, "system \"ls\""), "access");
}

#[test]
fn an_allow_list_leaves_its_functions_alone() {
    let directory = Directory::new("program-allow-list");
    let names = directory.path().join("allowed");
    std::fs::write(&names, "total / of a column\n.api.two\n").expect("written");
    let program = "total:{exec sum n from trade where n<x}\n.api.two:{x+y}\nother:{x}\n";
    let (_files, mut scene) = with("allow", program, &["--allow", names.to_str().expect("a path")]);
    let mut client = scene.connect();
    scene.guest.feed("trade", &[1, 2, 40], 0);
    wait_for("the rows", || (ask(&mut client, "total 10") == Value::Long(3)).then_some(()));
    assert_eq!(ask(&mut client, ".api.two[1;2]"), Value::Long(3));
    let call = list([sym(".api.two"), Value::Long(1), Value::Long(5)]);
    assert_eq!(client.request(&call).expect("answered"), Value::Long(6));
    for question in ["other 1", "1+1", "total[value \"1\"]", "select from trade", "total:{x}", "trade"] {
        assert_eq!(refused(&mut client, question), "access", "{question}");
    }
}

#[test]
fn a_login_is_decided_by_the_file() {
    let program = "tried:()\n.z.pw:{[u;p]tried::tried,u;by::(.z.a;.z.u;.z.w>0);p~\"let me in\"}\nwho:{.z.u}\n";
    let (_files, scene) = with("pw", program, &[]);
    assert!(matches!(try_login(&scene, "bob:no"), Err(ClientError::Refused(_))));
    let mut client = try_login(&scene, "ann:let me in").expect("let in");
    assert_eq!(ask(&mut client, "who[]"), sym("ann"));
    assert_eq!(ask(&mut client, "tried"), Value::symbols(["bob", "ann"]));
    // The client's address and handle; its name is not confirmed yet.
    assert_eq!(ask(&mut client, "by~(0x0 sv 0x7f000001;`;1b)"), Value::Bool(true));
}

#[test]
fn an_endless_login_handler_admits_no_client_and_delays_no_other() {
    let program = ".z.pw:{[u;p]while[u=`slow;];1b}\n";
    let (_files, scene) = with("slow-pw", program, &["--limit-handler-time", "300ms"]);
    let mut client = try_login(&scene, "ann:x").expect("let in");
    let address = format!("127.0.0.1:{}:slow:x", scene.port).parse::<Address>().expect("an address");
    let slow =
        std::thread::spawn(move || Client::connect(&address, Duration::from_secs(30), Limits::default()).is_err());
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
    assert!(try_login(&scene, "bob:x").is_ok());
    assert!(slow.join().expect("no panic"));
}

#[test]
fn connections_are_reported_when_they_open_and_close() {
    let program = "open:gone:()\n.z.po:{open::open,x;who[x]:.z.u}\nwho:()!()\n.z.pc:{gone::gone,x}\n";
    let (_files, scene) = with("popc", program, &[]);
    let mut client = scene.connect();
    let Value::Int(own) = ask(&mut client, ".z.w") else { panic!("a handle") };
    let mut other = try_login(&scene, "bob:x").expect("let in");
    let Value::Int(handle) = ask(&mut other, ".z.w") else { panic!("a handle") };
    assert_eq!(ask(&mut client, "open"), Value::Vector { attr: 0, items: proto::Items::Int(vec![own, handle]) });
    assert_eq!(ask(&mut client, &format!("who {handle}i")), sym("bob"));
    drop(other);
    until(&mut client, "gone", &Value::Vector { attr: 0, items: proto::Items::Int(vec![handle]) });
}

#[test]
fn a_query_calls_its_client_back() {
    let (_files, scene) = with("callback", "work:{[cb;x]neg[.z.w](cb;x*2);`done}\n", &[]);
    let mut client = scene.connect();
    assert_eq!(client.query("work[`got;21]").expect("answered"), sym("done"));
    assert_eq!(pushed(&mut client), list([sym("got"), Value::Long(42)]));
    // A query that assigns is evaluated twice internally.
    assert_eq!(ask(&mut client, "{neg[.z.w]`once;kept::x;x}5"), Value::Long(5));
    assert_eq!(pushed(&mut client), sym("once"));
    assert_eq!(ask(&mut client, "kept"), Value::Long(5));
    assert!(client.next_message(Some(Instant::now())).expect("the connection lives").is_none());
}

#[test]
fn a_client_sends_to_no_other() {
    let (_files, scene) = with("others", "", &[]);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    let Value::Int(handle) = ask(&mut other, ".z.w") else { panic!("a handle") };
    assert_eq!(refused(&mut client, &format!("neg[{handle}]\"x\"")), "access");
    assert_eq!(refused(&mut client, &format!("{handle}\"x\"")), "access");
}

#[test]
fn an_answer_may_be_put_off() {
    let program = "waits:0Ni\nforget:{waits::0Ni}\n.z.pg:{$[x~\"later\";[waits::.z.w;-30!(::)];value x]}\nfree:{-30!(waits;0b;x)}\nfail:{-30!(waits;1b;x)}\ngive:{-30!x}\npass:{x!y}\nrun:{x y}\n";
    let (_files, scene) = with("deferred", program, &[]);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    puts_off(&mut client, &mut other);
    assert!(refused(&mut other, "free 3").contains("not expecting a response"));
    // An evaluation that assigns is restarted; the reply must be sent exactly once.
    for release in ["[give(waits;0b;42);seen:1]", "[seen:1;give(waits;0b;42)]", "[give(waits;0b;42);seen::2;seen]"] {
        ask(&mut other, "{waits::0Ni}[]");
        let answer = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client.query("later"));
            wait_for("the question", || (ask(&mut other, "null waits") == Value::Bool(false)).then_some(()));
            ask(&mut other, release);
            waiting.join().expect("no panic")
        });
        assert_eq!(answer.ok(), Some(Value::Long(42)), "{release}");
        assert_eq!(ask(&mut client, "1+1"), Value::Long(2), "{release}");
    }
    puts_off_several(&mut client, &mut other, false);
    // Deferred and replied to within one message.
    assert_eq!(ask(&mut client, "{-30!(::);-30!(.z.w;0b;x);seen::x;`nobody}7"), Value::Long(7));
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
}

#[test]
fn the_timer_runs_with_the_owners_rights() {
    let program = "ticks:0\nhome:\"\"\n.z.ts:{ticks::ticks+1;home::getenv`HOME;if[ticks=3;system\"t 0\"]}\n\\t 5\n";
    let (_files, scene) = with("timer", program, &[]);
    let mut client = scene.connect();
    until(&mut client, "ticks", &Value::Long(3));
    assert_eq!(ask(&mut client, "0<count home"), Value::Bool(true));
    assert_eq!(ask(&mut client, "system\"t\""), Value::Int(0));
}

#[test]
fn a_timer_that_fails_or_never_ends_affects_no_client() {
    let program = "ticks:0\n.z.ts:{ticks::ticks+1;$[ticks=1;'`oops;while[1b;]]}\n\\t 1\n";
    let (_files, mut scene) = with("bad-timer", program, &["-T", "1"]);
    let mut client = scene.connect();
    until(&mut client, "ticks", &Value::Long(2));
    scene.guest.feed("trade", &[1], 0);
    scene.holds(&mut client, 1);
    assert!(try_login(&scene, "bob:x").is_ok());
}

#[test]
fn a_node_asks_another() {
    let (_asked_files, asked) =
        with("asked", "twice:{2*x}\nslow:{while[1b;]}\n.z.ps:{kept::x}\nkept:0\n", &["-T", "5"]);
    let program =
        format!("h:hopen `::{}\nvia:{{h(`twice;x)}}\npost:{{neg[h] x;h\"1\"}}\nloop:{{h\"slow 1\"}}\n", asked.port);
    let (_files, scene) = with("asks", &program, &["--remote-may", "sockets", "-T", "1"]);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "via 21"), Value::Long(42));
    assert_eq!(ask(&mut client, "via each 1 2 3"), Value::longs([2, 4, 6]));
    ask(&mut client, "post `hello");
    assert_eq!(ask(&mut asked.connect(), "kept"), sym("hello"));
    assert_eq!(refused(&mut client, "h\"1+`a\""), "type");
    assert_eq!(ask(&mut client, "via 1"), Value::Long(2));
    // A handle that a query leaves open is closed with the client's connection.
    let mut other = scene.connect();
    let Value::Int(handle) = ask(&mut other, &format!("hopen `::{}", asked.port)) else { panic!("a handle") };
    assert_eq!(ask(&mut client, &format!("{handle}\"1+1\"")), Value::Long(2));
    drop(other);
    wait_for("the handle to be closed", || client.query(&format!("{handle}\"1\"")).is_err().then_some(()));
    // The peer does not reply within this query's time limit.
    assert_eq!(refused(&mut client, "loop[]"), "stop");
}

#[test]
fn without_leave_a_client_uses_no_handle_of_the_node() {
    let (_asked_files, asked) = with("quiet", "", &[]);
    let program = format!("h:hopen `::{}\nvia:{{h x}}\n", asked.port);
    let (_files, scene) = with("closed", &program, &[]);
    assert_eq!(refused(&mut scene.connect(), "via \"1\""), "access");
}

#[test]
fn a_query_waits_for_another_that_runs_beside_it() {
    // The node queries itself: with one query thread, the call would wait for its own reply.
    for (threads, wanted) in [("2", Some(Value::Long(42))), ("1", None)] {
        let (_files, scene) = with("beside", "", &["--query-threads", threads, "--remote-may", "sockets", "-T", "2"]);
        let mut client = scene.connect();
        ask(&mut client, &format!("{{h::hopen`::{}}}[]", scene.port));
        match wanted {
            Some(answer) => assert_eq!(ask(&mut client, "{h({x*y};x;7)}6"), answer),
            None => assert_eq!(refused(&mut client, "{h({x*y};x;7)}6"), "stop"),
        }
    }
}

#[test]
fn readers_go_on_beside_one_that_assigns_and_two_that_assign_take_turns() {
    let program = "n:0\nslow:{n::n+1;h\"1\";n::n+1;n}\n";
    let (_files, scene) = with("turns", program, &["--query-threads", "4", "--remote-may", "sockets", "-T", "20"]);
    let (mut client, mut other) = (scene.connect(), scene.connect());
    // While it assigns it queries its own node, so queries that only read must run concurrently.
    ask(&mut client, &format!("{{h::hopen`::{}}}[]", scene.port));
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| ask(&mut client, "slow[]"));
        let two = ask(&mut other, "slow[]");
        (one.join().expect("no panic"), two)
    });
    let mut seen = [one, two];
    seen.sort_by_key(|value| format!("{value:?}"));
    assert_eq!(seen, [Value::Long(2), Value::Long(4)]);
}

#[test]
fn peach_runs_on_several_threads_of_a_node() {
    let (_files, scene) = with("peach", "sq:{x*x}\n", &["-s", "2"]);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "system\"s\""), Value::Int(2));
    assert_eq!(ask(&mut client, "(sq peach til 1000)~sq each til 1000"), Value::Bool(true));
    assert_eq!(refused(&mut client, "{kept::x} peach til 2"), "noupdate");
}

#[test]
fn output_of_a_file_and_its_handlers_is_printed() {
    let (_files, mut scene) = with("prints", ".z.pg:{-1 \"asked by \",string .z.u;value x}\n", &[]);
    let mut client = scene.connect();
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
    // The mark shows that it is the output of a client's evaluation.
    let marked = |line: &str| line.starts_with("client ") && line.ends_with(" ann@127.0.0.1: asked by ann");
    scene.node.line(|line| marked(line).then_some(()));
}

#[test]
fn the_end_is_written_to_the_file() {
    let files = Directory::new("program-exit-mark");
    let mark = files.path().join("ended");
    let program = format!(".z.exit:{{(`$\":{}\") 0: enlist string x}}\n", mark.display());
    let (_files, mut scene) = with("exit-told", &program, &[]);
    assert!(scene.node.stop().success());
    assert_eq!(std::fs::read_to_string(mark).expect("written"), "0\n");
}

#[test]
fn a_clients_console_lasts_as_long_as_its_connection() {
    let (_files, node) = with("console", "f:{x}\n", &[]);
    let mut client = node.connect();
    ask(&mut client, "system\"P 3\"");
    ask(&mut client, "\\c 10 20");
    assert_eq!(ask(&mut client, "(system\"c\";.Q.s1 1%3)~(10 20i;\"0.333\")"), Value::Bool(true));
    let mut other = node.connect();
    assert_eq!(ask(&mut other, "(system\"c\";.Q.s1 1%3)~(25 80i;\"0.3333333\")"), Value::Bool(true));
}
