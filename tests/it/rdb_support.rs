//! Test helpers: a node in this process, a fake tickerplant on a real socket, and a fake fleet that records requests.

use crate::harness::{Directory, wait_for};
use elastick::config::{Program, Settings};
use elastick::env::Env;
use elastick::fleet::{Capacity, Description, Fleet, FleetError, Identity};
use elastick::net::message;
use elastick::rdb::capacity;
use elastick::rdb::ingest::{self, Ingest};
use elastick::rdb::meter::Meter;
use elastick::rdb::options::NodeOptions;
use elastick::rdb::shared::{Ending, Shared, State};
use elastick::sys::memory::Sources;
use elastick::table::store::Store;
use elastick::table::{Items, Sym, Value as QValue, symbol};
use proto::{FrameReader, Header, Limits, MessageKind, Value, Writer, decode, handshake, types};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub fn sym(text: &str) -> Sym {
    symbol::intern(text.as_bytes()).expect("room for a symbol")
}

/// Recorded requests to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Ready,
    AtLeast(u32),
    Terminate,
}

struct Notes {
    identity: Identity,
    asked: Arc<Mutex<Vec<Asked>>>,
    keeps: bool,
}

impl Notes {
    fn note(&self, asked: Asked) {
        self.asked.lock().expect("no panic").push(asked);
    }
}

impl Fleet for Notes {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn describe(&mut self) -> Result<Description, FleetError> {
        Ok(Description { desired: 1, max: 9, ..Description::default() })
    }

    fn at_least(&mut self, desired: u32) -> Result<Capacity, FleetError> {
        self.note(Asked::AtLeast(desired));
        Ok(Capacity::Granted { desired })
    }

    fn ready(&mut self) -> Result<(), FleetError> {
        self.note(Asked::Ready);
        Ok(())
    }

    fn replace(&mut self, _: &str) -> Result<(), FleetError> {
        Ok(())
    }

    fn terminate_me(&mut self) -> Result<(), FleetError> {
        self.note(Asked::Terminate);
        if self.keeps { Err(FleetError::Refused("below the minimum".to_string())) } else { Ok(()) }
    }
}

/// A node's ingest, stopped at the end of its test.
pub struct Node {
    pub shared: Arc<Shared>,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Node {
    pub fn start(port: u16, options: &[(&str, &str)]) -> Node {
        Node::start_in(port, options, false)
    }

    /// A node whose fleet refuses to release it.
    pub fn start_kept(port: u16, options: &[(&str, &str)]) -> Node {
        Node::start_in(port, options, true)
    }

    fn start_in(port: u16, options: &[(&str, &str)], keeps: bool) -> Node {
        let address = format!("127.0.0.1:{port}");
        let flag = |name: &str| match options.iter().find(|(option, _)| *option == name) {
            Some((_, value)) => Some(value.to_string()),
            None if name == "tickerplant" => Some(address.clone()),
            None if name == "memory" => Some("64MiB".to_string()),
            None if name == "scale" => Some("60".to_string()),
            None => None,
        };
        let settings = Settings::resolve(Program::Rdb, &flag, &|_| None, &|_| Ok(String::new())).expect("settings");
        let options = Arc::new(NodeOptions::resolve(&settings).expect("options"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let identity = Identity { instance: "n1".to_string(), group: "g".to_string() };
        let fleet = Box::new(Notes { identity: identity.clone(), asked: Arc::clone(&asked), keeps });
        let meter = Meter::new(Sources::default(), options.memory_bytes);
        let store = Store::new(usize::try_from(meter.budget_bytes().expect("figures")).expect("fits"));
        let shared = Arc::new(Shared::new(Env::system().clock, store.shared()));
        let node = ingest::Identity {
            node: "node-1".to_string(),
            queue: "rdb".to_string(),
            port: 7001,
            group: identity.group.clone(),
            instance: identity.instance.clone(),
            process: String::new(),
        };
        let fleet = capacity::start(&Env::system(), fleet, options.launch_timeout).expect("thread");
        let fleet = (fleet.requests, fleet.answers);
        let mut ingest =
            Ingest::new(Env::system(), options, node, Arc::clone(&shared), store, meter, fleet).expect("figures");
        let thread = std::thread::spawn(move || ingest.run(|| {}));
        Node { shared, asked, thread: Some(thread) }
    }

    pub fn state(&self) -> Arc<State> {
        self.shared.state()
    }

    /// Waits until the state satisfies the condition.
    pub fn until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> Arc<State> {
        wait_for(what, || Some(self.state()).filter(|state| wanted(state)))
    }

    /// The `n` column of a table.
    pub fn values(&self, table: &str) -> Vec<i64> {
        let tables = self.shared.tables.current();
        let Some(QValue::Table(table)) = tables.get(sym(table)).map(|table| table.snapshot(usize::MAX)) else {
            return Vec::new();
        };
        match table.columns.get(2).map(|column| &column.items) {
            Some(Items::Long(values)) => values.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    pub fn until_values(&self, table: &str, expected: impl IntoIterator<Item = i64>) {
        let expected: Vec<i64> = expected.into_iter().collect();
        wait_for(&format!("{table} to hold {} rows", expected.len()), || {
            let values = self.values(table);
            assert!(values.len() <= expected.len(), "{} rows are too many, {}", values.len(), expected.len());
            (values == expected).then_some(())
        });
    }

    /// Like [`Node::until_values`], but other rows may come first.
    pub fn until_values_again(&self, table: &str, expected: impl IntoIterator<Item = i64>) {
        let expected: Vec<i64> = expected.into_iter().collect();
        wait_for(&format!("{table} to hold {expected:?}"), || (self.values(table) == expected).then_some(()));
    }

    /// Windows as (first, next, open).
    pub fn windows(&self) -> Vec<(u64, u64, bool)> {
        self.state().windows.iter().map(|shown| (shown.window.first, shown.window.next, shown.open)).collect()
    }

    pub fn until_requested(&self, asked: Asked) {
        wait_for(&format!("the fleet to be asked {asked:?}"), || {
            self.asked.lock().expect("no panic").contains(&asked).then_some(())
        });
    }

    pub fn until_ending(&self) -> Ending {
        wait_for("the node to end", || self.shared.ending())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.end(Ending::Requested);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the ingest thread panicked");
        }
    }
}

/// Writes the list of (name; empty table).
pub type Tables = fn(&mut Writer<'_>);

/// Listener of the fake tickerplant.
pub struct Door(TcpListener, Tables);

impl Door {
    pub fn open() -> Door {
        Door::open_with(put_tables)
    }

    /// A fake tickerplant with other tables.
    pub fn open_with(tables: Tables) -> Door {
        Door(TcpListener::bind("127.0.0.1:0").expect("a port"), tables)
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().expect("bound").port()
    }

    /// The next node that connects, after its handshake.
    pub fn accept(&self) -> Guest {
        let (mut stream, _) = self.0.accept().expect("a node connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        stream.set_nodelay(true).expect("a socket");
        let mut hello = Vec::new();
        let mut byte = [0; 1];
        while hello.last() != Some(&0) {
            stream.read_exact(&mut byte).expect("a handshake");
            hello.push(byte[0]);
        }
        stream.write_all(&[handshake::CAPABILITY]).expect("connected");
        Guest { stream, frames: FrameReader::new(Limits::default()), tables: self.1 }
    }
}

/// A node that has connected.
pub struct Guest {
    stream: TcpStream,
    frames: FrameReader,
    tables: Tables,
}

impl Guest {
    /// The next message other than a status report.
    pub fn next(&mut self) -> (MessageKind, Value) {
        loop {
            let (kind, value) = self.receive();
            if called(&value) != ".u.asg.status" {
                return (kind, value);
            }
        }
    }

    fn receive(&mut self) -> (MessageKind, Value) {
        loop {
            if let Some((header, message)) = self.frames.next().expect("a message") {
                let header: Header = header;
                let value = decode::object(&message[proto::HEADER_BYTES..], header.endian, &Limits::default());
                return (header.kind, value.expect("an object").0);
            }
            let read = self.stream.read(self.frames.spare()).expect("a message in time");
            assert!(read > 0, "the node closed the connection");
            self.frames.filled(read);
        }
    }

    /// The arguments of the next message, which must be a call of `function`.
    pub fn call(&mut self, function: &str) -> Vec<Value> {
        let (_, value) = self.next();
        assert_eq!(called(&value), function, "{value:?}");
        match value {
            Value::List { items, .. } => items.into_iter().skip(1).collect(),
            Value::Vector { .. } => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    pub fn write(&mut self, kind: MessageKind, put: impl FnOnce(&mut Writer<'_>)) {
        let bytes = message::message(kind, put).expect("encodes");
        self.stream.write_all(&bytes).expect("connected");
    }

    pub fn tell(&mut self, put: impl FnOnce(&mut Writer<'_>)) {
        self.write(MessageKind::Async, put);
    }

    pub fn answer(&mut self, put: impl FnOnce(&mut Writer<'_>)) {
        self.write(MessageKind::Response, put);
    }

    /// An update of the feed with its index.
    pub fn feed(&mut self, table: &str, values: &[i64], index: u64) {
        self.feed_columns(table, &["time", "sym", "n"], |w| put_columns(w, values), index);
    }

    pub fn feed_columns(&mut self, table: &str, names: &[&str], put: impl FnOnce(&mut Writer<'_>), index: u64) {
        self.tell(|w| {
            w.list_head(4);
            w.symbol("upd");
            w.symbol(table);
            w.table_head(names);
            put(w);
            w.atom_long(index as i64);
        });
    }

    /// An update as kdb+tick publishes it.
    pub fn publish(&mut self, table: &str, values: &[i64]) {
        self.tell(|w| {
            w.list_head(3);
            w.symbol("upd");
            w.symbol(table);
            w.table_head(["time", "sym", "n"]);
            put_columns(w, values);
        });
    }

    pub fn end_of_day(&mut self, date: i32) {
        self.tell(|w| {
            w.list_head(2);
            w.symbol(".u.end");
            w.atom_date(date);
        });
    }

    /// Replies to `.u.asg.join`; returns its dictionary.
    pub fn join(&mut self, date: i32, tip: u64, drop: bool) -> Value {
        let (kind, value) = self.next();
        assert_eq!((kind, called(&value)), (MessageKind::Sync, ".u.asg.join".to_string()));
        let tables = self.tables;
        self.answer(|w| {
            w.dict_head();
            w.symbols(["epoch", "date", "tip", "log", "tables", "drop"]);
            w.list_head(6);
            w.atom_long(1);
            w.atom_date(date);
            w.atom_long(tip as i64);
            w.symbol("");
            tables(w);
            w.atom_bool(drop);
        });
        match value {
            Value::List { items, .. } => items.into_iter().nth(1).expect("a dictionary"),
            other => panic!("{other:?}"),
        }
    }

    /// Sends `.u.asg.live` with a log, or without one that the node can read.
    pub fn make_live(&mut self, first: u64, tip: u64, date: i32, log: Option<&Path>) {
        let tables = self.tables;
        self.tell(|w| {
            w.list_head(2);
            w.symbol(".u.asg.live");
            w.dict_head();
            w.symbols(["first", "tip", "position", "log", "date", "epoch", "tables"]);
            w.list_head(7);
            w.atom_long(first as i64);
            w.atom_long(tip as i64);
            w.atom_long(3);
            w.symbol(log.map_or(String::new(), |log| format!(":{}", log.display())));
            w.atom_date(date);
            w.atom_long(1);
            tables(w);
        });
    }

    /// Sends `.u.asg.rebuild`.
    pub fn have_rebuilt(&mut self, first: u64, last: u64, date: i32, log: Option<&Path>) {
        self.tell(|w| {
            w.list_head(2);
            w.symbol(".u.asg.rebuild");
            w.dict_head();
            w.symbols(["first", "last", "log", "date"]);
            w.list_head(4);
            w.atom_long(first as i64);
            w.atom_long(last as i64);
            w.symbol(log.map_or(String::new(), |log| format!(":{}", log.display())));
            w.atom_date(date);
        });
    }
}

/// The function that a message calls: its name, the string, or a lambda's source.
pub fn called(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Vector { items: proto::Items::Char(chars), .. } => text(chars),
        Value::Vector { items: proto::Items::Symbol(names), .. } => names.first().map(|n| text(n)).unwrap_or_default(),
        Value::List { items, .. } => match items.first() {
            Some(Value::Symbol(name)) => text(name),
            Some(Value::Lambda { source, .. }) => text(source),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// The value of a dictionary at a key.
pub fn entry(dict: &Value, key: &str) -> Value {
    let Value::Dict { keys, values, .. } = dict else { panic!("{dict:?}") };
    let Value::Vector { items: proto::Items::Symbol(keys), .. } = keys.as_ref() else { panic!("{keys:?}") };
    let at = keys.iter().position(|name| name == key.as_bytes()).unwrap_or_else(|| panic!("no {key}"));
    let Value::List { items, .. } = values.as_ref() else { panic!("{values:?}") };
    items[at].clone()
}

pub fn long(value: &Value) -> i64 {
    match value {
        Value::Long(long) => *long,
        other => panic!("{other:?} is no long"),
    }
}

/// Rows of a proof as (table, updates, rows, hash).
pub fn proof(value: &Value) -> Vec<(String, i64, i64, i64)> {
    let Value::Table { columns, .. } = value else { panic!("{value:?}") };
    let Value::Vector { items: proto::Items::Symbol(names), .. } = &columns[0] else { panic!("{columns:?}") };
    let longs = |column: &Value| match column {
        Value::Vector { items: proto::Items::Long(longs), .. } => longs.clone(),
        other => panic!("{other:?}"),
    };
    let (updates, rows, hashes) = (longs(&columns[1]), longs(&columns[2]), longs(&columns[3]));
    let row = |i: usize| (String::from_utf8_lossy(&names[i]).into_owned(), updates[i], rows[i], hashes[i]);
    (0..names.len()).map(row).collect()
}

pub fn put_columns(w: &mut Writer<'_>, values: &[i64]) {
    w.vector(types::TIMESPAN, types::ATTR_NONE, values);
    w.symbols(values.iter().map(|value| format!("S{}", value % 10)).collect::<Vec<_>>());
    w.vector(types::LONG, types::ATTR_NONE, values);
}

/// The tables of every test: `trade` and `quote` with time, sym and a number.
pub fn put_tables(w: &mut Writer<'_>) {
    w.list_head(2);
    for name in ["trade", "quote"] {
        w.list_head(2);
        w.symbol(name);
        w.table_head(["time", "sym", "n"]);
        w.vector(types::TIMESPAN, types::ATTR_NONE, &[] as &[i64]);
        w.vector_head(types::SYMBOL, types::ATTR_GROUPED, 0);
        w.vector(types::LONG, types::ATTR_NONE, &[] as &[i64]);
    }
}

/// Writes a log as kdb+ does.
pub struct Log {
    directory: Directory,
    bytes: Vec<u8>,
    pub updates: u64,
}

impl Log {
    pub fn new(name: &str) -> Log {
        let log = Log { directory: Directory::new(name), bytes: proto::log::FILE_HEAD.to_vec(), updates: 0 };
        std::fs::write(log.path(), &log.bytes).expect("a file");
        log
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("sym2026.11.21")
    }

    fn append(&mut self, put: impl FnOnce(&mut Writer<'_>)) {
        let mut w = Writer::new(&mut self.bytes);
        put(&mut w);
        w.finish().expect("encodes");
        std::fs::write(self.path(), &self.bytes).expect("a file");
        self.updates += 1;
    }

    /// An update as a list of columns.
    pub fn update(&mut self, table: &str, values: &[i64]) {
        self.append(|w| {
            w.list_head(3);
            w.symbol("upd");
            w.symbol(table);
            w.list_head(3);
            put_columns(w, values);
        });
    }

    /// An update of one row as kdb+tick logs it: a list of atoms.
    pub fn row(&mut self, table: &str, value: i64) {
        self.append(|w| {
            w.list_head(3);
            w.symbol("upd");
            w.symbol(table);
            w.list_head(3);
            w.atom_timespan(value);
            w.symbol("A");
            w.atom_long(value);
        });
    }

    /// A record with a column of another type.
    pub fn wrong(&mut self) {
        self.append(|w| {
            w.list_head(3);
            w.symbol("upd");
            w.symbol("trade");
            w.list_head(3);
            w.vector(types::TIMESPAN, 0, &[1i64]);
            w.symbols(["A"]);
            w.vector(types::FLOAT, 0, &[1.0]);
        });
    }
}
