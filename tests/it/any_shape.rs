//! Calls every function that a peer can call with arguments of every type and shape. Each call must get a reply with a readable
//! error, and leave the state unchanged.

use crate::harness::{Process, elastick, wait_for};
use crate::rdb_process::live;
use crate::tick_support::{PATIENCE, Tick, call, trades};
use elastick::net::client::{Client, ClientError};
use proto::{Items, Limits, Value, types};

/// Every atom type with an ordinary value, its null and its infinities.
fn atoms() -> Vec<Value> {
    let mut all = vec![
        Value::Bool(false),
        Value::Bool(true),
        Value::Guid([0; 16]),
        Value::Guid([7; 16]),
        Value::Byte(0),
        Value::Byte(255),
    ];
    all.extend([0, 7, i16::MIN, i16::MAX, -i16::MAX].map(Value::Short));
    // Not the handle of a connection: applying it would send to that client and wait for its reply.
    all.extend([0, -1, 1007, i32::MIN, i32::MAX, -i32::MAX].map(Value::Int));
    all.extend([0, -1, 7, i64::MIN, i64::MAX, -i64::MAX].map(Value::Long));
    all.extend([0.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(Value::Real));
    all.extend([0.5, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Value::Float));
    all.extend([b'a', b' ', 0, 255].map(Value::Char));
    let names: [&[u8]; 7] = [b"", b"trade", b"nosuch", b".u.t", b"\xff\xfe", b"`trade", b":/tmp"];
    all.extend(names.map(Value::symbol));
    for time in [0, i64::MIN, i64::MAX] {
        all.extend([Value::Timestamp(time), Value::Timespan(time)]);
    }
    for time in [0, i32::MIN, i32::MAX] {
        all.extend([
            Value::Month(time),
            Value::Date(time),
            Value::Minute(time),
            Value::Second(time),
            Value::Time(time),
        ]);
    }
    all.extend([Value::Datetime(0.5), Value::Datetime(f64::NAN), Value::Datetime(f64::INFINITY)]);
    all
}

fn vector(items: Items) -> Value {
    Value::Vector { attr: types::ATTR_NONE, items }
}

/// Empty and long vectors, lists, dictionaries, tables, functions.
fn others() -> Vec<Value> {
    let deep = |levels: usize| (0..levels).fold(Value::Long(1), |inner, _| Value::list([inner]));
    let keys = || Value::symbols(["a", "b"]);
    let table = || Value::table([("time", Value::timespans([0, 1])), ("sym", keys()), ("id", Value::longs([1, 2]))]);
    let keyed = Value::Dict {
        sorted: false,
        keys: Box::new(Value::table([("k", keys())])),
        values: Box::new(Value::table([("v", Value::longs([1, 2]))])),
    };
    let lambda = || Value::lambda("{x+y}");
    vec![
        Value::list([]),
        Value::list([Value::list([])]),
        Value::list([Value::Long(1), Value::symbol("a"), Value::chars("text")]),
        Value::list([Value::chars("trade"), Value::chars("quote")]),
        Value::list((0..1000).map(|_| Value::NULL)),
        deep(3),
        deep(100),
        deep(300),
        Value::bools([true, false]),
        Value::bytes([]),
        Value::bytes(vec![1; 5000]),
        Value::shorts([]),
        Value::ints([]),
        Value::ints([1, i32::MIN]),
        Value::longs([]),
        Value::longs([1, i64::MIN, i64::MAX]),
        Value::longs((0..10_000).collect::<Vec<i64>>()),
        Value::reals([0.5]),
        Value::floats([]),
        Value::floats([f64::NAN]),
        Value::chars(""),
        Value::chars("trade"),
        Value::chars("`trade"),
        Value::chars("price>10"),
        Value::chars(vec![b'x'; 20_000]),
        Value::symbols::<&str>([]),
        Value::symbols(["trade", "note"]),
        Value::symbols(["", "nosuch"]),
        Value::symbols((0..500).map(|at| format!("s{at}"))),
        Value::longs([3, 1, 2]).with_attr(types::ATTR_GROUPED),
        vector(Items::Guid(vec![[1; 16]])),
        Value::timestamps([i64::MIN]),
        vector(Items::Month(vec![1])),
        Value::dates([0, 9000]),
        vector(Items::Datetime(vec![0.5])),
        Value::timespans([]),
        vector(Items::Minute(vec![1])),
        vector(Items::Second(vec![])),
        Value::times([1]),
        Value::dict(Value::symbols::<&str>([]), Value::list([])),
        Value::dict(keys(), Value::longs([1, 2])),
        Value::dict(keys(), Value::list([Value::NULL, deep(5)])),
        Value::dict(Value::longs([1, 2]), keys()),
        Value::dict(Value::symbols(["memory", "rows"]), Value::list([Value::chars("much"), Value::symbol("many")])),
        Value::dict(
            Value::symbols(["proto", "node", "queue"]),
            Value::list([Value::Long(1), Value::symbol("n"), Value::symbol("q")]),
        ),
        table(),
        Value::table([("a", Value::longs([]))]),
        Value::table([
            ("tab", keys()),
            ("updates", Value::longs([1, 2])),
            ("rows", Value::longs([1, 2])),
            ("hash", Value::longs([1, 2])),
        ]),
        keyed,
        Value::NULL,
        Value::Unary(255),
        Value::Unary(9),
        Value::Binary(1),
        Value::Iterator(0),
        lambda(),
        Value::lambda("{.u.asg.roll[.z.w;x]}"),
        Value::lambda("{'`x}"),
        Value::Projection(vec![lambda(), Value::Long(1)]),
        Value::Projection(vec![lambda(), Value::Unary(255), Value::Long(1)]),
        Value::Composition(vec![lambda(), Value::Unary(9)]),
        Value::Derived(107, Box::new(lambda())),
        Value::Derived(106, Box::new(Value::Binary(1))),
    ]
}

fn shapes() -> Vec<Value> {
    let all = [atoms(), others()].concat();
    assert!(all.len() > 100, "{}", all.len());
    all
}

/// Calls with 0 to 9 arguments, and with each shape at each position; the other arguments are plausible values.
fn calls(name: &str, shapes: &[Value]) -> Vec<Value> {
    let usual = [Value::symbol("trade"), Value::symbol(""), Value::symbol("q")];
    let mut calls: Vec<Value> = (0..10).map(|count| call(name, (0..count).map(|_| Value::Long(1)))).collect();
    calls.extend((0..10).map(|count| call(name, (0..count).map(|_| Value::NULL))));
    for shape in shapes {
        calls.push(call(name, [shape.clone()]));
        for place in 0..3 {
            let mut arguments = usual.clone();
            arguments[place] = shape.clone();
            calls.push(call(name, arguments[..=place.max(1)].to_vec()));
        }
        calls.push(call(name, [shape.clone(), shape.clone(), shape.clone(), shape.clone()]));
    }
    calls
}

/// Whether an error text is empty or Rust debug output.
fn is_unclear(text: &str) -> bool {
    let debug = ["Some(", "None)", "Err(", "Ok(", "panicked", "unwrap", " { ", "::Value", "Sym("];
    text.trim_matches(['`', '\'', ' ']).is_empty() || debug.iter().any(|part| text.contains(part))
}

/// Namespaces of the language, which its own cases test.
const LIBRARIES: [&str; 3] = [".Q", ".h", ".j"];

struct Peer<'a> {
    connect: &'a dyn Fn() -> Client,
    /// Expression for the state that a rejected call must not change.
    state: &'a str,
}

impl Peer<'_> {
    /// Calls these functions with every shape, or with one in `every`. Returns the numbers of rejected and accepted calls.
    fn calls_all(&self, functions: &[String], every: usize, wrong: &mut Vec<String>) -> (usize, usize) {
        let all = shapes();
        let (mut refused, mut taken) = (0, 0);
        for (number, name) in functions.iter().enumerate() {
            let shapes: Vec<Value> = all.iter().skip(number % every).step_by(every).cloned().collect();
            // A new connection per function: a subscription would push messages to the old one.
            let mut client = (self.connect)();
            let mut asking = (self.connect)();
            let mut state = |about: &str| {
                (!self.state.is_empty())
                    .then(|| asking.query(self.state).unwrap_or_else(|error| panic!("{about}: {error}")))
            };
            let mut before = state(name);
            for message in calls(name, &shapes) {
                let shown = || format!("{message:?}").chars().take(300).collect::<String>();
                match client.request(&message) {
                    Ok(_) => {
                        taken += 1;
                        before = state(name);
                    }
                    Err(ClientError::Server(text)) => {
                        refused += 1;
                        let text = String::from_utf8_lossy(&text).into_owned();
                        if is_unclear(&text) {
                            wrong.push(format!("{}: unclear error {text:?}", shown()));
                        }
                        let after = state(name);
                        if after != before {
                            wrong.push(format!("{}: {text}, and yet {after:?} was {before:?}", shown()));
                            before = after;
                        }
                    }
                    Err(error) => {
                        wrong.push(format!("{}: no answer: {error}", shown()));
                        client = (self.connect)();
                    }
                }
            }
        }
        (refused, taken)
    }

    /// Fully qualified names of the functions in these namespaces.
    fn functions(&self, namespaces: &[&str]) -> Vec<String> {
        let mut client = (self.connect)();
        let mut found = Vec::new();
        for namespace in namespaces {
            let names = client.query(&format!("key`{namespace}")).expect("a namespace");
            for name in names.as_symbols().unwrap_or_default() {
                let name = format!("{namespace}.{}", String::from_utf8_lossy(name));
                let is_function = client.query(&format!("@[{{100h<=type value x}};`{name};0b]"));
                if is_function.is_ok_and(|is_it| is_it == Value::Bool(true)) && !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        found
    }
}

fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

#[test]
fn the_functions_of_a_tickerplant() {
    let mut tick = Tick::start("any-shape", &["--limit-clock-jump", "48h"]);
    let address = format!("127.0.0.1:{}", tick.port);
    let mut node =
        Process::start(&mut elastick(&["rdb", &address, "-p", "127.0.0.1:0", "--unix-sockets=", "--node", "holder"]));
    let port = node.number_after("listening on");
    let mut holder = {
        let address = format!("127.0.0.1:{port}:test:").parse().expect("an address");
        Client::connect(&address, PATIENCE, Limits::default()).expect("the node answers")
    };
    let mut feed = tick.client();
    feed.request(&trades(0..100)).expect("taken");
    wait_for("the node to hold them", || (holder.query("count trade").ok()? == Value::Long(100)).then_some(()));
    let peer = Peer {
        connect: &|| tick.client(),
        state: "(select queue,state,node,firstI,lastI,tabs,syms from .u.asg.tab where not null node;.u.w;.u.i;.u.d;.u.t)",
    };
    let functions = peer.functions(&[".u", ".u.asg"]);
    // Separately, because a call of `.u.endofday` succeeds and ends the day.
    let (ends, functions): (Vec<_>, Vec<_>) = functions.into_iter().partition(|name| name == ".u.endofday");
    for name in [".u.sub", ".u.asg.status", ".u.upd"] {
        assert!(functions.iter().any(|known| known == name), "{functions:?}");
    }
    let mut wrong = Vec::new();
    let (refused, taken) = peer.calls_all(&functions, 1, &mut wrong);
    peer.calls_all(&peer.functions(&LIBRARIES), 10, &mut wrong);
    let (of_ends, _) = peer.calls_all(&ends, 10, &mut wrong);
    report(&wrong);
    assert!(refused > 1000 && taken > 20 && of_ends > 0);
    feed.request(&trades(100..200)).expect("the next update is taken");
    assert!(tick.process.stop().success());
}

#[test]
fn the_functions_of_a_node() {
    // The time limit ends an index of a thousand nulls in each of four dimensions.
    let mut scene = live(&["--unix-sockets=", "--limit-query-time", "1s"]);
    scene.guest.feed("trade", &[1, 2, 3], 0);
    let mut client = scene.connect();
    scene.holds(&mut client, 3);
    let peer = Peer { connect: &|| scene.connect(), state: "(count trade;.rdb.windows)" };
    let mut own = peer.functions(&[".rdb", ".u", ".u.asg", ".z"]);
    // Tables and dictionaries can be called too.
    own.extend([".rdb.windows", ".rdb.stats"].map(String::from));
    let mut wrong = Vec::new();
    peer.calls_all(&own, 1, &mut wrong);
    let functions = peer.functions(&LIBRARIES);
    let (refused, taken) = peer.calls_all(&functions, 10, &mut wrong);
    report(&wrong);
    assert!(refused > 1000 && taken > 20);
    scene.guest.feed("trade", &[4, 5], 1);
    scene.holds(&mut client, 5);
}

#[test]
fn the_functions_of_a_fleet() {
    let arguments =
        ["fleet", "-p", "127.0.0.1:0", "--group", "trade", "--min", "0", "--max", "3", "--", "sleep", "1000"];
    let mut fleet = Process::start(&mut elastick(&arguments));
    let port = fleet.number_after("at port");
    let address: elastick::config::Address = format!("127.0.0.1:{port}:test:").parse().expect("an address");
    let connect = || Client::connect(&address, PATIENCE, Limits::default()).expect("the fleet answers");
    let peer = Peer { connect: &connect, state: "" };
    let names = [
        "describe",
        "desired",
        "set",
        "ready",
        "protect",
        "notice",
        "released",
        "leaving",
        "replace",
        "terminate",
        "nosuch",
        "",
    ];
    let mut wrong = Vec::new();
    let (refused, _) = peer.calls_all(&names.map(|name| format!(".fleet.{name}")), 1, &mut wrong);
    report(&wrong);
    assert!(refused > 1000);
    let deep = (0..200).fold(Value::Long(1), |inner, _| Value::list([inner]));
    let mut client = connect();
    for message in [deep.clone(), call(".fleet.describe", [deep])] {
        let Err(ClientError::Server(text)) = client.request(&message) else { panic!("not refused") };
        assert!(text.starts_with(b"limit"), "{}", String::from_utf8_lossy(&text));
    }
    client.request(&call(".fleet.set", [Value::symbol("trade"), Value::Long(2)])).expect("set");
    let group = client.request(&call(".fleet.describe", [Value::symbol("trade")])).expect("described");
    assert_eq!(group.lookup("desired"), Some(Value::Long(2)));
}
