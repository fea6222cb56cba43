//! Expressions of clients at the tickerplant: they run beside the event loop, and subscribe and read `.u` at one moment.

use crate::harness::wait_for;
use crate::rdb_process::refused;
use crate::tick_program::with;
use crate::tick_support::{Tick, all, async_bytes, eventually, ids, name_of, take_ids, told, trades};
use elastick::net::client::{Client, ClientError};
use proto::{Limits, Value};
use std::time::Duration;

/// Sends an expression that no time limit ends before the test does.
fn keep_busy(client: &mut Client, before: &str) {
    client.send_async(&Value::chars(format!("{before}while[1b;1]"))).expect("sent");
    client.flush().expect("sent");
}

#[test]
fn updates_go_on_while_an_expression_about_u_never_ends() {
    let tick = Tick::start("expressions-loop", &[]);
    let (mut busy, mut feed, mut subscriber) = (tick.client(), tick.client(), tick.client());
    subscriber.request(&all("trade")).expect("subscribed");
    keep_busy(&mut busy, ".u.i;");
    for id in 0..20 {
        feed.request(&trades(id..id + 1)).expect("published");
    }
    assert_eq!(take_ids(&mut subscriber, 20), (0..20).collect::<Vec<i64>>());
    assert_eq!(feed.query("(.u.sub[`note;`];1)1").expect("another query thread"), Value::Long(1));
}

#[test]
fn an_expression_about_u_has_the_time_of_a_query() {
    let tick = Tick::start("expressions-time", &["-T", "1"]);
    for text in [".u.i; while[1b;1]", ".u.sub[`trade;`];while[1b;1]"] {
        let ended = tick.client().query(text);
        assert!(matches!(&ended, Err(ClientError::Server(name)) if name == b"stop"), "{text}: {ended:?}");
    }
}

#[test]
fn the_port_is_that_of_the_process() {
    let tick = Tick::start("expressions-port", &[]);
    let port = Value::Int(i32::from(tick.port));
    for text in ["\\p", "system\"p\""] {
        assert_eq!(tick.client().query(text).expect(text), port);
    }
}

/// Subscribes by an expression, which returns an index, while updates arrive, and asserts that those from this index on follow.
fn subscribe_while_publishing(name: &str, text: &str, options: &[&str]) {
    let tick = Tick::start(name, options);
    let mut feed = tick.client();
    let bytes: Vec<u8> = (0..5000).flat_map(|id| async_bytes(&trades(id..id + 1))).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for part in bytes.chunks(bytes.len() / 50) {
                feed.send_raw(part).and_then(|()| feed.flush()).expect("sent");
            }
        });
        for _ in 0..20 {
            let mut late = tick.client();
            let answer = late.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let first = answer.as_long().unwrap_or_else(|| panic!("{text}: {answer:?}"));
            let count = usize::try_from(5000 - first).expect("a count");
            assert_eq!(take_ids(&mut late, count), (first..5000).collect::<Vec<i64>>(), "{text}");
        }
    });
}

#[test]
fn subscription_and_index_are_of_one_moment_while_updates_arrive() {
    let texts = [
        "first last(.u.sub[`;`];.u `i`L)",
        "first last({.u.sub[x;`]}each`note`trade;.u`i`L)",
        "{[t;s]r:.u.sub\\:[t;s];.u.i}[`trade`note;`]",
        "{i:.u.i;.u.sub[`note;`];.u.sub[`trade;`];i}[]",
        "{.u.sub[`trade;`A];.u.add[`trade;`B`C];.u.i}[]",
    ];
    for (number, text) in texts.iter().enumerate() {
        subscribe_while_publishing(&format!("expressions-atomic-{number}"), text, &[]);
    }
}

#[test]
fn the_response_to_a_subscription_comes_before_its_updates() {
    let tick = Tick::start("expressions-order", &[]);
    let mut client = tick.client();
    // Its own update would leave before the response otherwise.
    let text = "{r:.u.sub[`trade;`];.u.upd[`trade;(`A;7)];neg[.z.w](`first;.u.i);count r}[]";
    assert_eq!(client.query(text).expect("answered"), Value::Long(2));
    assert_eq!(name_of(&told(&mut client)), "first");
    assert_eq!(ids(&told(&mut client)), [7]);
}

#[test]
fn calls_of_an_expression_happen_once_and_in_order() {
    let tick = Tick::start("expressions-once", &[]);
    let (mut client, mut subscriber) = (tick.client(), tick.client());
    subscriber.request(&all("trade")).expect("subscribed");
    let text = "{before:.u.i;.u.upd[`trade;(`A;x)];between:.u.i;.u.upd[`trade;(`B;x+1)];(before;between;.u.i)}10";
    let longs = |numbers: [i64; 3]| Value::longs(numbers.to_vec());
    assert_eq!(client.query(text).expect("answered"), longs([0, 1, 2]));
    assert_eq!(client.query(text).expect("answered"), longs([2, 3, 4]));
    assert_eq!(take_ids(&mut subscriber, 4), [10, 11, 10, 11]);
    // An update that is rejected ends the expression, and those after it are not published.
    let said = refused(&mut client, ".u.upd[`trade;(`A;20)];.u.upd[`nosuch;1];.u.upd[`trade;(`A;21)]");
    assert_eq!(said, "nosuch: no such table; there are note, trade, idle");
    assert_eq!(client.query("@[{.u.upd[`nosuch;x];`sent};1;{.u.i}]").expect("answered"), Value::Long(5));
    // More calls than one iteration performs.
    assert_eq!(client.query("{.u.upd[`trade;(`C;x)]}each til 1000;.u.i").expect("answered"), Value::Long(1005));
    assert_eq!(take_ids(&mut subscriber, 1001), [vec![20], (0..1000).collect()].concat());
}

#[test]
fn a_subscription_of_a_client_that_has_gone_is_not_made() {
    let tick = Tick::start("expressions-gone", &["-T", "1"]);
    let mut client = tick.client();
    client.send_async(&Value::chars(".u.sub[`trade;`];while[1b;1]")).expect("sent");
    client.flush().expect("sent");
    drop(client);
    let mut other = tick.client();
    wait_for("the expression to end", || {
        let errors = other.query(".u.stats`queryErrors").expect("answered");
        (other.query("count .u.w`trade").expect("answered") == Value::Long(0)).then_some(errors)
    });
    eventually(&mut other, "sum count each .u.w", &Value::Long(0));
}

#[test]
fn clients_replace_nothing_that_the_start_up_files_define() {
    let program = "ok:{x in users}\nusers:`ann`test\n.z.pw:{[u;p]ok u}\n.app.f:{1}\nseen:0\nhit:{seen+:1;seen}\n";
    let (_files, tick) = with("owned", program, &[]);
    let mut client = tick.client();
    for text in [
        "ok:{1b}",
        "users:`eve",
        "users,:`eve",
        "`users set `eve",
        "@[`users;0;:;`eve]",
        "{users::`eve}[]",
        "value(`set;`users;`eve)",
        "value\"users:`eve\"",
        ".app.f:{2}",
        ".app.g:{2}",
        ".app:`a`b!1 2",
        "seen:5",
        "delete users from `.",
        "delete f from `.app",
        "![`.;();0b;enlist`seen]",
        "delete trade from `.",
        "delete w from `.u",
    ] {
        let error = refused(&mut client, text);
        assert!(error.starts_with("noupdate") || error.starts_with("access"), "{text}: {error}");
    }
    // Code of the start-up files may, also if a client calls it.
    assert_eq!(client.query("hit[];hit[]").expect("answered"), Value::Long(2));
    let address = format!("127.0.0.1:{}:eve:", tick.port).parse().expect("an address");
    assert!(matches!(
        Client::connect(&address, Duration::from_secs(30), Limits::default()),
        Err(ClientError::Refused(_))
    ));
}

/// An editor may measure a query with variables of its own, which it deletes in the same message.
#[test]
fn clients_delete_their_own_globals() {
    let (_files, tick) = with("deleted", "users:`ann`test\n", &[]);
    let mut client = tick.client();
    client.query("a:1;.st.tmp:2;.st.start:3").expect("names of the client's own");
    client.query("{.st.tmp:x;delete tmp,start from `.st;delete a from `.}7").expect("deleted");
    let left = client.query("raze string(`a in key`.;1_key`.st;users)").expect("answered");
    assert_eq!(left, client.query("raze string(0b;0#`;users)").expect("answered"));
    client.query("a:4").expect("assigned again");
    assert_eq!(tick.client().query("a").expect("answered"), Value::Long(4));
}

#[test]
fn a_login_does_not_depend_on_what_clients_define() {
    let (_files, tick) = with("login-own", ".z.pw:{[u;p]@[value;`open;0b]|u=`test}\n", &[]);
    let mut client = tick.client();
    client.query("open:1b").expect("a name of the client's own");
    let address = format!("127.0.0.1:{}:eve:", tick.port).parse().expect("an address");
    assert!(matches!(
        Client::connect(&address, Duration::from_secs(30), Limits::default()),
        Err(ClientError::Refused(_))
    ));
}

#[test]
fn assignments_of_two_clients_at_once_all_count() {
    let tick = Tick::start("expressions-count", &[]);
    tick.client().query("n:0").expect("defined");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = tick.client();
                for _ in 0..50 {
                    client.query("n+:1").expect("counted");
                }
            });
        }
    });
    assert_eq!(tick.client().query("n").expect("answered"), Value::Long(200));
}
