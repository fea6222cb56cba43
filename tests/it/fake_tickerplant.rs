//! A fake tickerplant that logs, and breaks connections on request of a test.

use crate::harness::Directory;
use elastick::access::Anyone;
use elastick::config::{Limits, Listen};
use elastick::log::{Proof, columns_of, update_hash};
use elastick::net::{CloseReason, ConnId, Control, Listeners, NetLimits, Parts, Peer, Reactor, Service, message};
use proto::{Endian, Header, MessageKind, Value, View, decode, encode, log as records};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Faults to inject.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Closes the connection after this many updates and ignores later ones in flight.
    pub break_after: BTreeSet<u64>,
    /// Closes the connection instead of replying to each of these, once.
    pub break_at: BTreeSet<&'static str>,
    /// Rejects every update whose number is a multiple of this.
    pub refuse_every: Option<u64>,
    /// Has no log that other processes can read.
    pub no_log: bool,
}

struct Fake {
    faults: Faults,
    log: File,
    path: PathBuf,
    heard: u64,
    taken: Arc<Mutex<Proof>>,
}

/// Runs in a thread until the test process ends. Returns the port and the accepted updates.
pub fn start(directory: &Directory, faults: Faults) -> (u16, Arc<Mutex<Proof>>) {
    let path = directory.path().join("sym2026.11.21");
    let mut log = File::create(&path).expect("a log");
    log.write_all(&records::FILE_HEAD).expect("written");
    let taken = Arc::new(Mutex::new(Proof::new()));
    let fake = Fake { faults, log, path, heard: 0, taken: Arc::clone(&taken) };
    let listen = Listen { host: "127.0.0.1".to_string(), first: 0, last: 0, reuse: false };
    let listeners = Listeners::tcp(&listen).expect("a port");
    let port = listeners.port();
    let parts = Parts::new().expect("a readiness queue");
    let limits = NetLimits::of(&Limits::default());
    let mut reactor =
        Reactor::new(parts, listeners, Box::new(Anyone::new(BTreeSet::new())), limits, fake).expect("a loop");
    std::thread::spawn(move || reactor.run());
    (port, taken)
}

fn empty_tables() -> [(&'static str, Value); 2] {
    let trade = [
        ("time", Value::timespans([])),
        ("sym", Value::symbols([""; 0])),
        ("price", Value::floats([])),
        ("size", Value::ints([])),
    ];
    let quote = [
        ("time", Value::timespans([])),
        ("sym", Value::symbols([""; 0])),
        ("bid", Value::floats([])),
        ("ask", Value::floats([])),
    ];
    [("trade", Value::table(trade)), ("quote", Value::table(quote))]
}

impl Fake {
    fn taken_updates(&self) -> u64 {
        self.taken.lock().expect("not poisoned").total().updates
    }

    fn answer(&self, question: &[u8]) -> Result<Value, Vec<u8>> {
        match question {
            b".u.t" => Ok(Value::symbols(empty_tables().map(|(name, _)| name))),
            b".u `i`j`L" => {
                let path = if self.faults.no_log { "/nowhere".to_string() } else { self.path.display().to_string() };
                let tip = i64::try_from(self.taken_updates()).expect("few");
                Ok(Value::list([Value::Long(tip), Value::Long(i64::MIN), Value::symbol(format!(":{path}"))]))
            }
            _ => {
                let table = question.strip_prefix(b"0#").unwrap_or_default();
                let found = empty_tables().into_iter().find(|(name, _)| name.as_bytes() == table);
                found.map(|(_, table)| table).ok_or_else(|| question.to_vec())
            }
        }
    }

    /// Returns false if the update was rejected.
    fn take(&mut self, call: &View<'_>) -> bool {
        self.heard += 1;
        if self.faults.refuse_every.is_some_and(|every| self.heard.is_multiple_of(every)) {
            return false;
        }
        let parts: Vec<View<'_>> = call.list().expect("a call").iter().collect();
        let [_, table, data] = &parts[..] else { panic!("not a call of .u.upd") };
        let (table, columns) = (table.symbol().expect("a table's name"), data.list().expect("columns"));
        let mut record = Vec::new();
        records::write_record_head(table, columns.count, &mut record);
        record.extend_from_slice(columns.body);
        self.log.write_all(&record).expect("logged");
        let (bytes, rows) = columns_of(data);
        self.taken.lock().expect("not poisoned").add(table, rows, update_hash(bytes));
        true
    }
}

fn calls_another(call: &View<'_>) -> bool {
    call.list().and_then(|call| call.iter().next()).is_some_and(|function| function.text() != Some(b".u.upd"))
}

impl Service for Fake {
    fn opened(&mut self, _: ConnId, _: &Peer, _: &mut Control) {}

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        let (view, _) = View::parse(body, header.endian, &proto::Limits::default()).expect("a whole object");
        let reply = match view.chars() {
            Some(question) => {
                if std::str::from_utf8(question).is_ok_and(|question| self.faults.break_at.remove(question)) {
                    return ctl.close(conn, "a test wants it");
                }
                let answer = self.answer(question);
                answer.map(|value| encode::message(MessageKind::Response, &value).expect("it can travel"))
            }
            // As kdb+: an unknown function signals its name.
            None if calls_another(&view) => Err(b".u.confirm".to_vec()),
            None if self.take(&view) => {
                Ok(encode::message(MessageKind::Response, &Value::Unary(0)).expect("it can travel"))
            }
            None => Err(b"length".to_vec()),
        };
        if view.chars().is_none() && !calls_another(&view) && self.faults.break_after.remove(&self.heard) {
            return ctl.close(conn, "a test wants it");
        }
        if let Some(request) = ctl.request() {
            ctl.reply(request, reply.map_or_else(|text| message::error(&text), Into::into));
        }
    }

    fn iteration_ended(&mut self, _: &mut Control) {}

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, _: ConnId, _: &CloseReason, _: &mut Control) {}

    fn woken(&mut self, _: &mut Control) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timer(&mut self, _: &mut Control) {}
}

/// Writes a log of these records.
pub fn write_log(path: &std::path::Path, updates: &[(&str, Value)]) {
    let mut bytes = records::FILE_HEAD.to_vec();
    for (table, data) in updates {
        let record = Value::list([Value::symbol("upd"), Value::symbol(table), data.clone()]);
        encode::encode_object(&record, &mut bytes).expect("it can travel");
        let _ = decode::object(&bytes[8..], Endian::Little, &proto::Limits::default()).expect("a record");
    }
    std::fs::write(path, bytes).expect("written");
}
