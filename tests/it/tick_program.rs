//! Start-up files of the tickerplant.

use crate::harness::{Directory, elastick, wait_for};
use crate::node_program::{puts_off, puts_off_several};
use crate::rdb_process::refused;
use crate::tick_support::{Tick, all, call, ids, told, trades};
use elastick::net::client::{Client, ClientError};
use proto::{Limits, MessageKind, Value, decode};
use std::time::Duration;

pub fn with(name: &str, program: &str, options: &[&str]) -> (Directory, Tick) {
    let directory = Directory::new(&format!("tick-file-{name}"));
    let file = directory.path().join("program.q");
    std::fs::write(&file, program).expect("written");
    let file = file.to_str().expect("a path").to_string();
    let tick = Tick::start(&format!("tick-program-{name}"), &[&[file.as_str()], options].concat());
    (directory, tick)
}

#[test]
fn functions_are_there_and_updates_pass_through_the_handlers() {
    let program = "twice:{2*x}\n.z.pg:{`pg,value x}\n.z.ps:{if[not `bad~x 1;value x]}\n";
    let (_files, tick) = with("defines", program, &[]);
    let (mut client, mut feed) = (tick.client(), tick.client());
    let answer = Value::List { attr: 0, items: vec![Value::symbol("pg"), Value::Long(42)] };
    assert_eq!(client.query("twice 21").expect("answered"), answer);
    client.request(&all("trade")).expect("subscribed");
    feed.send_async(&call(".u.upd", [Value::symbol("bad"), Value::NULL])).expect("sent");
    feed.send_async(&trades(0..3)).expect("sent");
    feed.flush().expect("sent");
    assert_eq!(ids(&told(&mut client)), [0, 1, 2]);
    assert_eq!(refused(&mut client, ".z.pg:{x}"), "access");
    let rejected = Value::List { attr: 0, items: vec![Value::symbol("pg"), Value::Long(0)] };
    assert_eq!(client.query(".u.stats`refused").expect("answered"), rejected, "the handler dropped it");
}

#[test]
fn a_login_is_decided_by_the_file_while_the_day_goes_on() {
    let program = ".z.pw:{[u;p]while[u=`slow;];not u=`bob}\n";
    let (_files, tick) = with("pw", program, &["--limit-handler-time", "300ms"]);
    let login = |who: &str| {
        let address = format!("127.0.0.1:{}:{who}", tick.port).parse().expect("an address");
        Client::connect(&address, Duration::from_secs(30), Limits::default())
    };
    let mut client = login("ann:x").expect("let in");
    assert!(matches!(login("bob:x"), Err(ClientError::Refused(_))));
    assert!(matches!(login("slow:x"), Err(ClientError::Refused(_))));
    assert_eq!(client.query("1+1").expect("answered"), Value::Long(2));
}

#[test]
fn an_allow_list_holds_for_functions_of_u() {
    let directory = Directory::new("tick-allow-list");
    let names = directory.path().join("allowed");
    std::fs::write(&names, "twice\n.u.sub\n").expect("written");
    let (_files, tick) = with("allow", "twice:{2*x}\n", &["--allow", names.to_str().expect("a path")]);
    let mut client = tick.client();
    assert_eq!(client.query("twice 4").expect("answered"), Value::Long(8));
    assert_eq!(refused(&mut client, "1+1"), "access");
    client.request(&all("trade")).expect("subscribed");
    for message in [trades(0..2), call(".u.endofday", [Value::NULL]), call("other", [Value::Long(1)])] {
        let error = client.request(&message).expect_err("not in the list").to_string();
        assert!(error.starts_with("'access"), "{message:?}: {error}");
    }
    std::fs::write(&names, "twice\n.u.upd\n").expect("written");
    let (_files, tick) = with("allow-updates", "twice:{2*x}\n", &["--allow", names.to_str().expect("a path")]);
    tick.client().request(&trades(0..2)).expect("published");
}

#[test]
fn names_of_the_tickerplant_cannot_be_set() {
    let directory = Directory::new("tick-bad-file");
    let file = directory.path().join("bad.q");
    for (text, reason) in [
        (".z.ph:{x}\n", "handler .z.ph is not supported by the tickerplant"),
        (".u.i:5\n", ".u.i belongs to the tickerplant"),
        ("1+`a\n", "bad.q, line 1:\n'type"),
    ] {
        std::fs::write(&file, text).expect("written");
        let mut command = elastick(&["tick", "sym", directory.path().to_str().expect("a path")]);
        let output = command.args([file.as_os_str()]).args(["-p", "127.0.0.1:0"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

fn pushed(client: &mut Client) -> Value {
    let by = std::time::Instant::now() + Duration::from_secs(60);
    let message = client.next_message(Some(by)).expect("the connection lives").expect("a message");
    assert_eq!(message.header.kind, MessageKind::Async);
    decode::object(&message.body, message.header.endian, &Limits::default()).expect("an object").0
}

#[test]
fn an_expression_sends_to_its_client_once() {
    let (_files, tick) = with("sends", "work:{neg[.z.w](`got;x);x}\n", &[]);
    let (mut client, mut other) = (tick.client(), tick.client());
    assert_eq!(client.query("work 5").expect("answered"), Value::Long(5));
    assert_eq!(pushed(&mut client), call("got", [Value::Long(5)]));
    // These are evaluated twice internally: one assigns, one reads .u.
    assert_eq!(client.query("{kept::work x;kept}6").expect("answered"), Value::Long(6));
    assert_eq!(client.query("{work count get`$\".u\",\".t\"}[]").expect("answered"), Value::Long(3));
    assert_eq!(pushed(&mut client), call("got", [Value::Long(6)]));
    assert_eq!(pushed(&mut client), call("got", [Value::Long(3)]));
    assert!(client.next_message(Some(std::time::Instant::now())).expect("the connection lives").is_none());
    let Value::Int(handle) = client.query(".z.w").expect("answered") else { panic!("a handle") };
    assert_eq!(refused(&mut other, &format!("neg[{handle}]1")), "access");
    assert_eq!(refused(&mut client, ".z.w\"1\""), "nyi");
}

#[test]
fn an_answer_may_be_put_off() {
    let program = "waits:0Ni\nforget:{waits::0Ni}\n.z.pg:{$[x~\"later\";[waits::.z.w;-30!(::)];value x]}\nfree:{-30!(waits;0b;x)}\n\
                   fail:{-30!(waits;1b;x)}\ngive:{-30!x}\npass:{x!y}\nrun:{x y}\n";
    let (_files, tick) = with("deferred", program, &[]);
    let (mut client, mut other) = (tick.client(), tick.client());
    puts_off(&mut client, &mut other);
    puts_off_several(&mut client, &mut other, false);
    assert!(refused(&mut other, "free 3").contains("not expecting a response"));
    // Deferred and replied to within one message.
    let ask = |client: &mut Client, text: &str| client.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(ask(&mut client, "{-30!(::);-30!(.z.w;0b;x);`nobody}7"), Value::Long(7));
    assert_eq!(ask(&mut client, "{-30!(::);kept::x;-30!(.z.w;0b;.u.t);kept}8"), ask(&mut other, ".u.t"));
    assert_eq!(refused(&mut client, "{-30!(::);-30!(.z.w;1b;\"no\");`nobody}9"), "no");
    // Exactly one reply is sent, also if the message fails after it.
    assert_eq!(ask(&mut client, "{-30!(::);-30!(.z.w;0b;x);'`late}1"), Value::Long(1));
    assert!(refused(&mut client, "{-30!(.z.w;0b;x)}1").contains("not expecting a response"));
    assert_eq!(ask(&mut client, "{-30!(::);-30!(.z.w;0b;x);@[{-30!(.z.w;0b;x)};x;{kept::x}]}1"), Value::Long(1));
    assert!(ask(&mut client, "kept").as_text().is_some_and(|text| text.ends_with(b"not expecting a response msg")));
    // A deferred reply of another client cannot be sent here.
    assert_eq!(refused(&mut client, "{-30!(::);-30!(1000+.z.w;0b;x)}1"), "access");
    assert_eq!(ask(&mut client, "1+1"), Value::Long(2));
}

#[test]
fn a_timer_of_the_file_runs_beside_updates() {
    let program = "n:0\nclients:()\n.z.pg:{if[x~\"in\";clients::clients,.z.w];value $[x~\"in\";\"1\";x]}\n\
                   .z.ts:{n::n+1;neg[clients]@\\:(`tick;n);if[n=2;.u.upd[`trade;(`A;7)]]}\n\\t 20\n";
    let (_files, tick) = with("timer", program, &[]);
    let (mut client, mut subscriber) = (tick.client(), tick.client());
    subscriber.request(&all("trade")).expect("subscribed");
    client.query("in").expect("answered");
    let Value::List { items, .. } = pushed(&mut client) else { panic!("a call") };
    assert_eq!(items[0], Value::symbol("tick"));
    wait_for("some calls", || (client.query("n>3").expect("answered") == Value::Bool(true)).then_some(()));
    subscriber.request(&trades(3..4)).expect("published");
    wait_for("the updates", || ids(&told(&mut subscriber)).contains(&3).then_some(()));
}
