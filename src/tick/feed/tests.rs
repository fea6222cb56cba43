//! Compares any schedule of updates, subscriptions, slow readers, log reads and ends of days with a model: every subscriber gets exactly
//! its subscription, in order.

use super::*;
use crate::table::Attr;
use crate::table::schema::{ColumnSchema, Schema};
use crate::table::symbol::intern;
use crate::tick::core::schema::Form;
use crate::tick::core::{Rules, Stamp, call, publish};
use crate::tick::filter::Symbols;
use proptest::prelude::*;
use proto::{HEADER_BYTES, Header, Limits, Value, decode, encode};
use std::collections::HashMap;

const LIMITS: Limits = Limits { max_message_bytes: 1 << 20, max_decompressed_bytes: 1 << 20, max_depth: 64 };

fn tables() -> Arc<Tables> {
    let sym = |text: &str| intern(text.as_bytes()).unwrap();
    let column = |(name, ty): (&str, i8)| ColumnSchema { name: sym(name), ty, attr: Attr::None };
    let schema = |name: &str| Schema {
        name: sym(name),
        columns: [("time", 16), ("sym", 11), ("id", 7), ("note", 0)].map(column).to_vec(),
        keys: 0,
    };
    Arc::new(Tables::new([schema("a"), schema("b")]).unwrap())
}

/// A row: table, symbol and number.
type Row = (usize, u8, i64);

/// An update in the log: rows, table and columns.
type Logged = (Vec<Row>, usize, Vec<u8>);

/// Output to a subscriber: rows and ends of days.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Row(i64),
    End,
}

#[derive(Clone, Debug)]
enum Op {
    /// An event-loop iteration: updates, each with rows of one table.
    Turn(Vec<(usize, Vec<u8>)>),
    Subscribe(usize, Vec<Option<Option<u8>>>),
    /// The socket of a subscriber accepts that many bytes.
    Drain(usize, usize),
    /// A log read in progress completes with about that many bytes.
    Read(usize, usize),
    Flush,
    /// The new day's log already has these updates.
    EndDay(Vec<(usize, Vec<u8>)>),
    /// A subscriber outside batch mode requests the day from a fraction of the tip on.
    StartFrom(usize, u8),
    Remove(usize),
}

const SUBSCRIBERS: usize = 4;

/// The second half of the subscribers is in batch mode.
fn merged(subscriber: usize) -> bool {
    subscriber >= SUBSCRIBERS / 2
}

fn key(subscriber: usize, wanted: &[Option<Option<u8>>]) -> LaneKey {
    let symbols = |one: &Option<u8>| one.map_or(Symbols::All, |s| Symbols::Some([vec![s]].into()));
    LaneKey {
        tables: wanted.iter().map(|w| w.as_ref().map(symbols)).collect(),
        form: if subscriber == 0 { Form::Indexed } else { Form::Table },
        merged: merged(subscriber),
        compress: subscriber == 1,
    }
}

fn wants(key: &LaneKey, (table, sym, _): &Row) -> bool {
    match &key.tables[*table] {
        None => false,
        Some(Symbols::All) => true,
        Some(Symbols::Some(symbols)) => symbols.contains([*sym].as_slice()),
    }
}

#[derive(Default)]
struct Boxes {
    sent: HashMap<usize, Vec<u8>>,
    waiting: HashMap<usize, usize>,
    notify: HashMap<usize, usize>,
    highest: usize,
}

impl Outboxes<usize> for Boxes {
    fn waiting_bytes(&self, subscriber: usize) -> usize {
        self.waiting.get(&subscriber).copied().unwrap_or(0)
    }
    fn all_waiting_bytes(&self) -> usize {
        self.waiting.values().sum()
    }
    fn send(&mut self, subscriber: usize, messages: Bytes) {
        self.sent.entry(subscriber).or_default().extend_from_slice(&messages);
        let waiting = self.waiting.entry(subscriber).or_default();
        *waiting += messages.len();
        self.highest = self.highest.max(*waiting);
    }
    fn notify_below(&mut self, subscriber: usize, bytes: usize) {
        self.notify.insert(subscriber, bytes);
    }
}

/// Expected output of a subscriber for each table, with the state it is computed from.
#[derive(Clone, Default)]
struct Expected {
    key: Option<LaneKey>,
    seen: [Vec<Seen>; 2],
    /// Its subscription ended in between, and its count of rows with it.
    has_ended: bool,
}

impl Expected {
    fn rows<'a>(&mut self, rows: impl IntoIterator<Item = &'a Row>) {
        let Some(key) = &self.key else { return };
        for row in rows.into_iter().filter(|row| wants(key, row)) {
            self.seen[row.0].push(Seen::Row(row.2));
        }
    }
}

struct World {
    feed: Feed<usize>,
    boxes: Boxes,
    jobs: Vec<ReadJob<usize>>,
    /// Updates of each day.
    log: Vec<Vec<Logged>>,
    expected: Vec<Expected>,
    next_id: i64,
}

fn limits() -> FeedLimits {
    FeedLimits {
        outbox_bytes: 1500,
        crowded_outbox_bytes: 400,
        outboxes_bytes: 4000,
        low_bytes: 300,
        chunk_bytes: 600,
        recent_bytes: 500,
        marks: 1000,
        lanes: 100,
    }
}

impl World {
    fn new() -> World {
        World {
            feed: Feed::new(tables(), limits(), 0),
            boxes: Boxes::default(),
            jobs: Vec::new(),
            log: vec![Vec::new()],
            expected: vec![Expected::default(); SUBSCRIBERS],
            next_id: 0,
        }
    }

    fn batch(&mut self, updates: &[(usize, Vec<u8>)]) -> Batch {
        let mut batch = Batch::new(self.feed.tip().index);
        for (table, syms) in updates.iter().filter(|(_, syms)| !syms.is_empty()) {
            let rows: Vec<Row> = syms.iter().zip(self.next_id..).map(|(sym, id)| (*table, *sym, id)).collect();
            self.next_id += rows.len() as i64;
            let data = Value::list([
                Value::timespans(vec![1; rows.len()]),
                Value::symbols(rows.iter().map(|row| [row.1])),
                Value::longs(rows.iter().map(|row| row.2).collect::<Vec<_>>()),
                Value::list(rows.iter().map(|row| Value::chars("x".repeat(row.2 as usize % 5)))),
            ]);
            let mut bytes = Vec::new();
            encode::encode_object(&data, &mut bytes).unwrap();
            let call = call::Call { table: if *table == 0 { b"a" } else { b"b" }, data: &bytes };
            let update = publish(&tables(), &call, Stamp::default(), Rules::exact(&LIMITS), &mut batch).unwrap().update;
            let columns = batch.columns(&update).to_vec();
            self.log.last_mut().unwrap().push((rows, *table, columns));
        }
        batch
    }

    fn pump(&mut self, subscriber: usize) {
        self.jobs.extend(self.feed.pump(subscriber, &mut self.boxes));
    }

    fn flush(&mut self) {
        let from = self.feed.merged_tip() as usize;
        let pending: Vec<_> = self.log.last().unwrap()[from..].to_vec();
        let mut merged_batch = Batch::new(0);
        let tables = tables();
        for (_, table, columns) in &pending {
            let rows = pending_rows(columns);
            merged_batch.push(*table, &tables.get(*table).unwrap().record_head, columns, rows);
        }
        self.feed.publish_merged(&merged_batch, &mut self.boxes);
        for subscriber in (0..SUBSCRIBERS).filter(|s| merged(*s)) {
            self.expected[subscriber].rows(pending.iter().flat_map(|(rows, ..)| rows));
            self.pump_if_due(subscriber);
        }
    }

    fn pump_if_due(&mut self, subscriber: usize) {
        let waiting = self.boxes.waiting_bytes(subscriber);
        if self.boxes.notify.get(&subscriber).is_some_and(|below| waiting <= *below) {
            self.boxes.notify.remove(&subscriber);
            self.pump(subscriber);
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Turn(updates) => {
                let batch = self.batch(updates);
                let day = self.log.last().unwrap();
                let rows: Vec<Row> =
                    day[batch.first_index() as usize..].iter().flat_map(|(rows, ..)| rows.clone()).collect();
                self.feed.publish(batch, &mut self.boxes);
                for subscriber in (0..SUBSCRIBERS).filter(|s| !merged(*s)) {
                    self.expected[subscriber].rows(&rows);
                }
            }
            Op::Subscribe(subscriber, wanted) => {
                let key = key(*subscriber, wanted);
                self.feed.subscribe(*subscriber, key.clone()).unwrap();
                // A subscriber that unsubscribes during catch-up still gets the rest of its subscription first.
                self.expected[*subscriber].has_ended |= key.is_empty();
                self.expected[*subscriber].key = (!key.is_empty()).then_some(key);
            }
            Op::Drain(subscriber, bytes) => {
                let waiting = self.boxes.waiting.entry(*subscriber).or_default();
                *waiting = waiting.saturating_sub(*bytes);
                self.pump_if_due(*subscriber);
            }
            Op::Read(which, bytes) => {
                if self.jobs.is_empty() {
                    return;
                }
                let job = self.jobs.remove(which % self.jobs.len());
                let day = &self.log[job.from.day as usize];
                let (mut frames, mut sent) = (Vec::new(), 0);
                let mut reached = job.from.index;
                while reached < job.until && (frames.len() < *bytes || reached == job.from.index) {
                    let (rows, table, columns) = &day[reached as usize];
                    sent += job.spec.encode_columns(&tables(), *table, columns, rows.len(), reached, &mut frames);
                    reached += 1;
                }
                let read = CaughtUp { messages: frames.into(), reached, rows: sent as u64 };
                self.feed.chunk(job.subscriber, job.serial, read, &mut self.boxes);
                self.pump(job.subscriber);
            }
            Op::Flush => self.flush(),
            Op::EndDay(there) => {
                self.flush();
                self.log.push(Vec::new());
                drop(self.batch(there));
                let there: Vec<Row> = self.log.last().unwrap().iter().flat_map(|(rows, ..)| rows.clone()).collect();
                let tip = self.log.last().unwrap().len() as u64;
                let end = encode::message(proto::MessageKind::Async, &Value::symbol("end")).unwrap().into();
                self.feed.end_day(&end, tip, &mut self.boxes);
                for expected in self.expected.iter_mut().filter(|expected| expected.key.is_some()) {
                    expected.seen.iter_mut().for_each(|seen| seen.push(Seen::End));
                    expected.rows(&there);
                }
            }
            Op::StartFrom(subscriber, part) => {
                let Some(key) = self.expected[*subscriber].key.clone() else { return };
                let day = self.log.last().unwrap();
                let first = day.len() * usize::from(*part) / 255;
                self.feed.start_from(*subscriber, key, first as u64).unwrap();
                self.boxes.sent.remove(subscriber);
                let mut expected = Expected { key: self.expected[*subscriber].key.clone(), ..Expected::default() };
                expected.rows(day[first..].iter().flat_map(|(rows, ..)| rows));
                self.expected[*subscriber] = expected;
                self.pump(*subscriber);
            }
            Op::Remove(subscriber) => {
                self.feed.remove(*subscriber);
                self.boxes.sent.remove(subscriber);
                self.expected[*subscriber] = Expected::default();
            }
        }
    }

    /// Delivers everything in progress.
    fn settle(&mut self) {
        self.flush();
        while self.feed.behind() > 0 || !self.jobs.is_empty() {
            for subscriber in 0..SUBSCRIBERS {
                self.boxes.waiting.insert(subscriber, 0);
                self.pump(subscriber);
            }
            self.run(&Op::Read(0, 5000));
        }
    }

    fn seen(&self, subscriber: usize) -> [Vec<Seen>; 2] {
        let mut seen = [Vec::new(), Vec::new()];
        let mut rest = self.boxes.sent.get(&subscriber).map_or(&[][..], Vec::as_slice);
        while !rest.is_empty() {
            let header = Header::parse(rest).unwrap();
            let (message, after) = rest.split_at(header.total_bytes as usize);
            rest = after;
            let plain = proto::compress::decompress(message, &LIMITS).unwrap();
            let (value, _) = decode::object(&plain[HEADER_BYTES..], header.endian, &LIMITS).unwrap();
            let Some(parts) = value.as_list() else {
                seen.iter_mut().for_each(|seen| seen.push(Seen::End));
                continue;
            };
            let table = usize::from(parts[1].as_symbol() == Some(b"b"));
            let ids = parts[2].column("id").unwrap().as_longs().unwrap();
            seen[table].extend(ids.iter().map(|id| Seen::Row(*id)));
        }
        seen
    }
}

fn pending_rows(columns: &[u8]) -> usize {
    i32::from_le_bytes(columns[2..6].try_into().unwrap()) as usize
}

fn op() -> impl Strategy<Value = Op> {
    let sub = 0..SUBSCRIBERS;
    let symbol = prop::sample::select(vec![b'x', b'y', b'z']);
    let update = (0usize..2, prop::collection::vec(symbol.clone(), 0..6));
    let wanted = prop::option::of(prop::option::of(symbol));
    prop_oneof![
        8 => prop::collection::vec(update.clone(), 0..6).prop_map(Op::Turn),
        2 => (sub.clone(), prop::collection::vec(wanted, 2)).prop_map(|(s, w)| Op::Subscribe(s, w)),
        6 => (sub.clone(), 0usize..1500).prop_map(|(s, n)| Op::Drain(s, n)),
        4 => (0usize..8, 0usize..1500).prop_map(|(w, n)| Op::Read(w, n)),
        2 => Just(Op::Flush),
        1 => prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(update, 0..6)].prop_map(Op::EndDay),
        1 => (0..SUBSCRIBERS / 2, any::<u8>()).prop_map(|(s, p)| Op::StartFrom(s, p)),
        1 => sub.prop_map(Op::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn every_subscriber_gets_exactly_its_selection(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new();
        for subscriber in 0..SUBSCRIBERS {
            world.run(&Op::Subscribe(subscriber, vec![Some(None), Some(None)]));
        }
        for op in &ops {
            world.run(op);
        }
        world.settle();
        for subscriber in 0..SUBSCRIBERS {
            let expected = &world.expected[subscriber];
            prop_assert_eq!(world.seen(subscriber), expected.seen.clone(), "subscriber {}", subscriber);
            let rows = expected.seen.iter().flatten().filter(|seen| matches!(seen, Seen::Row(_))).count() as u64;
            if let Some(progress) = world.feed.progress(subscriber).filter(|_| !expected.has_ended) {
                prop_assert_eq!(progress, Progress { rows, lag: 0 }, "subscriber {}", subscriber);
            }
        }
    }

    #[test]
    fn buffered_bytes_are_bounded_when_no_client_reads(turns in prop::collection::vec(1usize..40, 1..60)) {
        let mut world = World::new();
        world.run(&Op::Subscribe(0, vec![Some(None), Some(None)]));
        for rows in turns {
            world.run(&Op::Turn(vec![(0, vec![b'x'; rows])]));
        }
        prop_assert!(world.boxes.highest <= limits().outbox_bytes);
        prop_assert!(world.feed.recent_bytes <= limits().recent_bytes);
    }
}

#[test]
fn a_slow_consumer_is_named_once_and_its_lag_is_that_of_its_send_buffer() {
    let mut world = World::new();
    world.run(&Op::Subscribe(0, vec![Some(None), Some(None)]));
    world.run(&Op::Subscribe(1, vec![Some(None), Some(None)]));
    let mut turns = 0;
    while world.feed.behind() < 1 {
        world.run(&Op::Turn(vec![(0, vec![b'x'; 3])]));
        world.run(&Op::Drain(1, 5000));
        turns += 1;
    }
    assert_eq!((world.feed.take_slow(), world.feed.take_slow()), (vec![0], vec![]));
    world.run(&Op::Turn(vec![(0, vec![b'x'; 3])]));
    assert_eq!(world.feed.progress(0), Some(Progress { rows: 3 * (turns - 1), lag: 2 }));
    assert_eq!(world.feed.progress(1), Some(Progress { rows: 3 * (turns + 1), lag: 0 }));
    assert_eq!(world.feed.progress(2), None);
}

#[test]
fn equal_subscriptions_share_a_fan_out_group() {
    let mut world = World::new();
    world.feed.subscribe(0, key(0, &[Some(None), None])).unwrap();
    world.feed.subscribe(7, key(0, &[Some(None), None])).unwrap();
    assert_eq!(world.feed.lanes(), 1);
    world.feed.remove(0);
    world.feed.remove(7);
    assert_eq!(world.feed.lanes(), 0);
}

#[test]
fn a_window_is_streamed_and_its_end_announced() {
    let mut world = World::new();
    world.run(&Op::Turn(vec![(0, vec![b'x']), (0, vec![b'y']), (0, vec![b'z'])]));
    let done = encode::message(proto::MessageKind::Async, &Value::symbol("end")).unwrap().into();
    world.feed.stream(0, key(0, &[Some(None), None]), 1, 3, done).unwrap();
    world.pump(0);
    world.run(&Op::Read(0, 5000));
    assert_eq!(world.seen(0)[0], [Seen::Row(1), Seen::Row(2), Seen::End]);
    assert!(!world.feed.is_subscribed(0));
}

#[test]
fn a_subscriber_that_changes_its_mind_without_reading_is_stopped() {
    let mut world = World::new();
    world.feed.limits.marks = 3;
    world.run(&Op::Turn(vec![(0, vec![b'x'])]));
    world.feed.start_from(0, key(0, &[Some(None), None]), 0).unwrap();
    let mut outcome = Ok(());
    for turn in 0..10 {
        outcome = outcome.and(world.feed.subscribe(0, key(0, &[Some((turn % 2 == 0).then_some(b'x')), None])));
        world.run(&Op::Turn(vec![(0, vec![b'x'])]));
    }
    assert_eq!(outcome, Err(FeedError::TooManyMarks(3)));
}
