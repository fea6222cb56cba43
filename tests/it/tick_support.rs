//! Test helpers: a tickerplant process and its clients.

use crate::harness::{Directory, Process, elastick, wait_for};
use elastick::net::Client;
use proto::{Limits, MessageKind, Value, encode};
use std::path::Path;
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(60);

const SCHEMA: &str = "trade:([]time:`timespan$();sym:`symbol$();id:`long$())\n\
                      note:([]time:`timestamp$();sym:`symbol$();text:())\n\
                      idle:([]time:`timespan$();sym:`symbol$();id:`long$())\n";

/// A running tickerplant with its own directory.
pub struct Tick {
    pub process: Process,
    pub port: u16,
    pub directory: Directory,
}

impl Tick {
    pub fn start(name: &str, options: &[&str]) -> Tick {
        let directory = Directory::new(name);
        std::fs::write(directory.path().join("sym.q"), SCHEMA).expect("a schema can be written");
        Tick::in_directory(directory, options)
    }

    fn in_directory(directory: Directory, options: &[&str]) -> Tick {
        let path = directory.path().to_string_lossy().into_owned();
        let mut arguments = vec!["tick", "sym", &path, "-p", "127.0.0.1:0", "--schemas", &path, "--unix-sockets="];
        arguments.extend(options);
        let mut process = Process::start(&mut elastick(&arguments));
        let port = process.number_after("listening on");
        Tick { process, port, directory }
    }

    /// Restarts on the same day, after this process has exited.
    pub fn restarted(self, options: &[&str]) -> Tick {
        let Tick { process, directory, .. } = self;
        drop(process);
        Tick::in_directory(directory, options)
    }

    /// Restarts on the same day, after `change` has modified its directory.
    pub fn restarted_after(self, options: &[&str], change: impl Fn(&Path)) -> Tick {
        let Tick { mut process, directory, .. } = self;
        process.stop();
        drop(process);
        change(directory.path());
        Tick::in_directory(directory, options)
    }

    pub fn client(&self) -> Client {
        let address = format!("127.0.0.1:{}:test:", self.port).parse().expect("an address");
        Client::connect(&address, PATIENCE, Limits::default()).expect("the tickerplant answers")
    }
}

pub fn call(name: &str, arguments: impl IntoIterator<Item = Value>) -> Value {
    Value::list(std::iter::once(Value::symbol(name)).chain(arguments))
}

/// Trades with these numbers, with alternating symbols.
pub fn trades(ids: std::ops::Range<i64>) -> Value {
    let syms = ["A", "B", "C"];
    let of = |id: i64| syms[usize::try_from(id).unwrap_or(0) % 3];
    let columns = [Value::symbols(ids.clone().map(of)), Value::longs(ids.collect::<Vec<i64>>())];
    call(".u.upd", [Value::symbol("trade"), Value::list(columns)])
}

pub fn all(table: &str) -> Value {
    call(".u.sub", [Value::symbol(table), Value::symbol("")])
}

/// The next message to a subscriber.
pub fn told(client: &mut Client) -> Value {
    let message = client.next_message(Some(Instant::now() + PATIENCE)).expect("connected").expect("a message in time");
    assert_eq!(message.header.kind, MessageKind::Async);
    proto::decode::object(&message.body, message.header.endian, &Limits::default()).expect("an object").0
}

/// The name of the function that a message calls.
pub fn name_of(message: &Value) -> String {
    let name = message.item(0).and_then(|name| name.as_symbol().map(<[u8]>::to_vec)).unwrap_or_default();
    String::from_utf8_lossy(&name).into_owned()
}

/// The numbers of the trades in an update.
pub fn ids(update: &Value) -> Vec<i64> {
    let table = update.item(2).expect("an update");
    table.column("id").and_then(Value::as_longs).expect("trades").to_vec()
}

/// The update index of an indexed update.
pub fn index(update: &Value) -> i64 {
    update.item(3).and_then(|index| index.as_long()).expect("an index")
}

/// Reads updates until this many trades have arrived.
pub fn take_ids(client: &mut Client, count: usize) -> Vec<i64> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let message = told(client);
        if name_of(&message) == "upd" {
            taken.extend(ids(&message));
        }
    }
    taken
}

/// Repeats a query until it returns `wanted`.
pub fn eventually(client: &mut Client, question: &str, wanted: &Value) {
    let mut seen = Value::NULL;
    let met = || {
        seen = client.query(question).expect("an answer");
        (seen == *wanted).then_some(())
    };
    wait_for(&format!("{question} to be {wanted:?}"), met);
}

/// Bytes of a whole async message.
pub fn async_bytes(value: &Value) -> Vec<u8> {
    encode::message(MessageKind::Async, value).expect("encodes")
}
