//! Messages of a user who tries everything: calls of every function with arguments that fit or do not, changed bytes, logins.

use elastick::tick::plant::functions::FUNCTIONS;
use fastrand::Rng;
use proto::{MessageKind, Value, encode};

#[derive(Clone, Debug)]
pub enum Message {
    /// A call, whole or with some of its bytes changed.
    Call { value: Value, is_sync: bool, bytes: Option<Vec<u8>> },
    /// The first bytes of a connection.
    Login(Vec<u8>),
}

const NAMES: [&str; 12] =
    ["trade", "note", "idle", "rdb", "spare", "", "A", "nothing", "force", "theirs", "owned", "admin"];

/// Names of functions that are called beside those of `.u`.
const OTHERS: [&str; 10] =
    ["upd", "value", "insert", "upsert", "set", "owned", "run", ".z.pg", "system", ".u.asg.live"];

fn one<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(0..of.len())]
}

fn dictionary(random: &mut Rng) -> Value {
    let keys =
        ["proto", "node", "queue", "tabs", "syms", "port", "date", "held", "live", "first", "next", "by", "reason"];
    let held: Vec<&str> = keys.into_iter().filter(|_| random.u8(0..4) > 0).collect();
    let values: Vec<Value> = held
        .iter()
        .map(|key| match *key {
            "proto" | "first" | "next" => Value::Long(random.i64(-1..5)),
            "node" | "queue" => Value::symbol(one(random, &NAMES)),
            "tabs" | "syms" => Value::symbol(""),
            "port" => Value::Int(5000),
            "date" => Value::Date(random.i32(9800..9900)),
            "held" => Value::longs([0, random.i64(0..9)]),
            "live" => Value::Bool(random.bool()),
            "by" => Value::Long(0),
            _ => argument(random, 1),
        })
        .collect();
    Value::Dict { sorted: false, keys: Box::new(Value::symbols(held)), values: Box::new(Value::list(values)) }
}

fn argument(random: &mut Rng, depth: u8) -> Value {
    match random.u8(0..14) {
        0..=3 => Value::symbol(one(random, &NAMES)),
        4 => Value::Long(random.i64(-2..10)),
        5 => Value::Int(random.i32(0..12)),
        6 => Value::Date(random.i32(9800..9900)),
        7 => Value::symbols([one(random, &NAMES), one(random, &NAMES)]),
        8 => Value::longs([0, random.i64(0..9), i64::MIN]),
        9 => Value::NULL,
        10 => Value::chars(one(random, &["trade", "value `.", "select from trade", "exit 0", ""])),
        11 => dictionary(random),
        12 => Value::list([Value::symbols(["A"]), Value::longs([random.i64(0..9)])]),
        _ if depth > 0 => Value::list((0..random.usize(0..4)).map(|_| argument(random, depth - 1)).collect::<Vec<_>>()),
        _ => Value::Bool(true),
    }
}

fn call(random: &mut Rng) -> Value {
    let (name, parameters) = match random.usize(0..FUNCTIONS.len() + 4) {
        at if at < FUNCTIONS.len() => (FUNCTIONS[at].name, FUNCTIONS[at].parameters),
        _ => (one(random, &OTHERS), &["x", "y"][..]),
    };
    let mut items = vec![Value::symbol(name)];
    for parameter in parameters {
        items.push(match *parameter {
            // Arguments that fit are what gets furthest.
            "table" | "tables" if random.bool() => Value::symbol(one(random, &["trade", "note", "idle"])),
            "symbols" if random.bool() => Value::symbol(one(random, &["", "A", "B"])),
            "node" if name == ".u.asg.join" => dictionary(random),
            "queue" if random.bool() => Value::symbol(one(random, &["rdb", "spare"])),
            "data" if random.bool() => Value::list([Value::symbols(["A"]), Value::longs([random.i64(0..9)])]),
            "status" | "leaving" if random.bool() => dictionary(random),
            "first" | "last" | "next" | "count" if random.bool() => Value::Long(random.i64(0..6)),
            _ => argument(random, 2),
        });
    }
    if random.u8(0..8) == 0 {
        items.push(argument(random, 1));
    }
    Value::list(items)
}

/// A whole message with some bytes of its body changed.
fn changed(random: &mut Rng, mut whole: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(proto::HEADER_BYTES..whole.len());
        whole[at] = random.u8(..);
    }
    whole
}

fn first_bytes(random: &mut Rng) -> Vec<u8> {
    let mut bytes = one(random, &["admin:", "admin:y", ":", "", "nobody:x", "GET / HTTP/1.1\r\n\r\n", "rdb:y\x00x"])
        .as_bytes()
        .to_vec();
    for _ in 0..random.usize(0..6) {
        bytes.push(random.u8(1..));
    }
    bytes.push(random.u8(0..7));
    bytes.push(0);
    bytes
}

pub fn next(random: &mut Rng) -> Message {
    if random.u8(0..40) == 0 {
        return Message::Login(first_bytes(random));
    }
    let (value, is_sync) = (call(random), random.u8(0..3) > 0);
    let kind = if is_sync { MessageKind::Sync } else { MessageKind::Async };
    let is_changed = random.u8(0..5) < 2;
    let bytes = is_changed.then(|| encode::message(kind, &value).ok()).flatten();
    Message::Call { value, is_sync, bytes: bytes.map(|whole| changed(random, whole)) }
}
