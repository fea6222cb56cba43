//! The store compared with the simplest model: a vector of rows.

use super::*;
use crate::table::schema::ColumnSchema;
use crate::table::symbol::intern;
use proptest::prelude::*;
use proto::Writer;

const BUDGET_BYTES: usize = 64 << 20;

fn sym(text: &str) -> Sym {
    intern(text.as_bytes()).expect("room")
}

fn schema(name: &str, columns: &[(&str, i8)]) -> Schema {
    let column = |&(name, ty): &(&str, i8)| ColumnSchema {
        name: sym(name),
        ty,
        attr: if name == "sym" { Attr::Grouped } else { Attr::None },
    };
    Schema { name: sym(name), columns: columns.iter().map(column).collect(), keys: 0 }
}

/// A table with a column of each kind of storage.
fn wide() -> Schema {
    schema("wide", &[("time", 16), ("sym", 11), ("price", 9), ("n", 6), ("side", 10), ("note", 0), ("id", 2), ("h", 5)])
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    time: i64,
    sym: String,
    price: f64,
    n: i32,
    side: u8,
    note: Vec<u8>,
    id: [u8; 16],
    h: i16,
}

fn write(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.vector(types::TIMESPAN, 0, &rows.iter().map(|r| r.time).collect::<Vec<_>>());
    w.symbols(rows.iter().map(|r| &r.sym));
    w.vector(types::FLOAT, 0, &rows.iter().map(|r| r.price).collect::<Vec<_>>());
    w.vector(types::INT, 0, &rows.iter().map(|r| r.n).collect::<Vec<_>>());
    w.vector(types::CHAR, 0, &rows.iter().map(|r| r.side).collect::<Vec<_>>());
    w.list_head(rows.len());
    rows.iter().for_each(|r| w.chars(&r.note));
    w.vector(types::GUID, 0, &rows.iter().map(|r| r.id).collect::<Vec<_>>());
    w.vector(types::SHORT, 0, &rows.iter().map(|r| r.h).collect::<Vec<_>>());
    w.finish().expect("encodes");
    out
}

fn write_single(row: &Row) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.atom(types::TIMESPAN, row.time);
    w.symbol(&row.sym);
    w.atom(types::FLOAT, row.price);
    w.atom(types::INT, row.n);
    w.atom(types::CHAR, row.side);
    w.chars(&row.note);
    w.atom(types::GUID, row.id);
    w.atom(types::SHORT, row.h);
    w.finish().expect("encodes");
    out
}

fn read(value: &Value) -> Vec<Row> {
    let Value::Table(table) = value else { panic!("no table") };
    let [time, sym, price, n, side, note, id, h] = table.columns.as_slice() else { panic!("columns") };
    let (Items::Timespan(time), Items::Sym(sym), Items::Float(price)) = (&time.items, &sym.items, &price.items) else {
        panic!("types")
    };
    let (Items::Int(n), Items::Char(side), Items::List(note)) = (&n.items, &side.items, &note.items) else {
        panic!("types")
    };
    let (Items::Guid(id), Items::Short(h)) = (&id.items, &h.items) else { panic!("types") };
    (0..time.len())
        .map(|i| Row {
            time: time[i],
            sym: String::from_utf8(symbol::text(sym[i]).to_vec()).expect("utf-8"),
            price: price[i],
            n: n[i],
            side: side[i],
            note: match &note[i] {
                Value::Vector(Vector { items: Items::Char(text), .. }) => text.to_vec(),
                other => panic!("{other:?}"),
            },
            id: id[i],
            h: h[i],
        })
        .collect()
}

fn row() -> impl Strategy<Value = Row> {
    let text = proptest::string::string_regex("[a-zA-Z.]{0,20}").expect("pattern");
    let note = proptest::collection::vec(any::<u8>(), 0..12);
    (any::<i64>(), text, -1e9..1e9, any::<i32>(), any::<u8>(), note, any::<[u8; 16]>(), any::<i16>())
        .prop_map(|(time, sym, price, n, side, note, id, h)| Row { time, sym, price, n, side, note, id, h })
}

#[derive(Clone, Debug)]
enum Step {
    Update(Vec<Row>),
    Single(Row),
    /// An update cut off after this many bytes.
    Torn(Vec<Row>, usize),
    Snapshot,
    Cut(usize, usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let rows = proptest::collection::vec(row(), 0..20).boxed();
    prop_oneof![
        6 => rows.prop_map(Step::Update),
        3 => row().prop_map(Step::Single),
        3 => (proptest::collection::vec(row(), 1..5), 0usize..400).prop_map(|(rows, at)| Step::Torn(rows, at)),
        3 => Just(Step::Snapshot),
        1 => (0usize..60, 0usize..60).prop_map(|(a, b)| Step::Cut(a, b)),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #[test]
    fn the_store_holds_what_a_vector_of_rows_holds(steps in proptest::collection::vec(step(), 1..60)) {
        let mut store = Store::new(BUDGET_BYTES);
        store.define([wide()]).expect("reserve");
        let shared = store.shared();
        let mut model: Vec<Row> = Vec::new();
        let mut held: Vec<(Value, Vec<Row>)> = Vec::new();
        for step in steps {
            match step {
                Step::Update(rows) => {
                    prop_assert_eq!(store.append(0, 8, &write(&rows)), Ok(rows.len()));
                    model.extend(rows);
                }
                Step::Single(row) => {
                    prop_assert_eq!(store.append(0, 8, &write_single(&row)), Ok(1));
                    model.push(row);
                }
                Step::Torn(rows, at) => {
                    let bytes = write(&rows);
                    if at < bytes.len() {
                        prop_assert!(store.append(0, 8, &bytes[..at]).is_err());
                    }
                }
                Step::Snapshot => {
                    let snapshot = shared.current().get(sym("wide")).expect("table").snapshot(usize::MAX);
                    held.push((snapshot, model.clone()));
                }
                Step::Cut(a, b) => {
                    let cut = a.min(b).min(model.len())..a.max(b).min(model.len());
                    store.cut(std::slice::from_ref(&cut)).expect("reserve");
                    model.drain(cut);
                }
                Step::Clear => {
                    store.clear().expect("reserve");
                    model.clear();
                }
            }
        }
        held.push((shared.current().get(sym("wide")).expect("table").snapshot(usize::MAX), model));
        for (snapshot, rows) in held {
            prop_assert_eq!(read(&snapshot), rows);
        }
    }
}

fn trade() -> Schema {
    schema("trade", &[("time", 16), ("sym", 11), ("price", 9), ("size", 7), ("side", 10), ("ex", 11)])
}

fn trades(rows: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.vector(types::TIMESPAN, 0, &(0..rows as i64).collect::<Vec<_>>());
    w.symbols((0..rows).map(|_| format!("STORE{}", random.u32(0..500))).collect::<Vec<_>>());
    w.vector(types::FLOAT, 0, &vec![1.5; rows]);
    w.vector(types::LONG, 0, &vec![100i64; rows]);
    w.vector(types::CHAR, 0, &vec![b'B'; rows]);
    w.symbols(vec!["N"; rows]);
    w.finish().expect("encodes");
    out
}

fn trade_store() -> Store {
    let mut store = Store::new(BUDGET_BYTES);
    store.define([trade()]).expect("reserve");
    store
}

#[test]
fn an_update_of_another_shape_is_rejected_in_words_and_leaves_nothing() {
    let mut store = trade_store();
    let good = trades(3, 1);
    let mut swapped = Vec::new();
    let mut w = Writer::new(&mut swapped);
    w.vector(types::TIMESPAN, 0, &[1i64]);
    w.symbols(["A"]);
    w.vector(types::LONG, 0, &[1i64]);
    w.finish().expect("encodes");
    let refused = store.append(0, 6, &swapped).expect_err("type");
    assert_eq!(refused.to_string(), "table trade, column price: type: it has type long, the schema has float");
    assert_eq!(store.append(0, 5, &good).expect_err("columns").to_string(), "length: table trade has 6 columns, got 5");
    assert_eq!(store.rows(), [0]);
    assert_eq!(store.append(0, 6, &good), Ok(3));
}

#[test]
fn columns_of_unequal_length_are_rejected() {
    let mut store = trade_store();
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.vector(types::TIMESPAN, 0, &[1i64, 2]);
    w.symbols(["A"]);
    w.finish().expect("encodes");
    let refused = store.append(0, 6, &bytes).expect_err("length");
    assert_eq!(refused.to_string(), "table trade, column sym: length: it has 1 rows, the other columns have 2");
}

#[test]
fn a_full_table_rejects_whole_updates_and_says_so() {
    let mut store = Store::new(1 << 16);
    store.define([trade()]).expect("reserve");
    let update = trades(5000, 2);
    assert_eq!(store.append(0, 6, &update), Ok(5000));
    let refused = store.append(0, 6, &update).expect_err("full");
    assert!(refused.is_full(), "{refused}");
    assert_eq!(store.rows(), [5000]);
}

#[test]
fn columns_of_the_default_trade_table_take_33_bytes_a_row() {
    let mut store = trade_store();
    for seed in 0..20 {
        store.append(0, 6, &trades(10_000, seed)).expect("taken");
    }
    let usage = store.usage();
    assert_eq!(usage.column_bytes, 33 * 200_000);
    assert!(usage.index_bytes <= 4 * 200_000, "{usage:?}");
}

#[test]
fn a_clear_gives_the_memory_back_once_no_query_holds_it() {
    let mut store = trade_store();
    store.append(0, 6, &trades(10_000, 1)).expect("taken");
    let tables = store.shared().current();
    store.clear().expect("reserve");
    assert_eq!(store.usage().column_bytes, 0);
    let held = tables.get(sym("trade")).expect("table");
    assert_eq!((held.rows(), store.rows()), (10_000, vec![0]));
    assert_eq!(store.shared().current().get(sym("trade")).expect("table").rows(), 0);
}

#[test]
fn the_index_is_found_by_its_column_and_agrees_with_a_scan() {
    let mut store = trade_store();
    for seed in 0..20 {
        store.append(0, 6, &trades(10_000, seed)).expect("taken");
    }
    let tables = store.shared().current();
    let table = tables.get(sym("trade")).expect("table");
    let Value::Table(snapshot) = table.snapshot(150_000) else { panic!("no table") };
    let [_, symbols, .., exchanges] = snapshot.columns.as_slice() else { panic!("columns") };
    let (Items::Sym(symbols), Items::Sym(exchanges)) = (&symbols.items, &exchanges.items) else { panic!("types") };
    let wanted = sym("STORE7");
    let scan: Vec<u32> = symbols.iter().zip(0..).filter(|(s, _)| **s == wanted).map(|(_, row)| row).collect();
    assert_eq!(table.index_of(symbols).expect("index").rows(symbols, wanted), scan);
    assert!(table.index_of(exchanges).is_none());
}

#[test]
fn queries_read_whole_updates_while_the_feed_appends() {
    let mut store = trade_store();
    let shared = store.shared();
    let reading = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < 50_000 {
            let tables = shared.current();
            let table = tables.get(sym("trade")).expect("table");
            let rows = table.rows();
            assert_eq!(rows % 100, 0);
            let Value::Table(snapshot) = table.snapshot(rows) else { panic!("no table") };
            let Some(Items::Timespan(times)) = snapshot.columns.first().map(|c| &c.items) else { panic!("type") };
            assert!(times.iter().enumerate().all(|(row, time)| *time == (row % 100) as i64));
            seen = rows;
        }
    });
    let update = trades(100, 1);
    for _ in 0..500 {
        store.append(0, 6, &update).expect("taken");
    }
    reading.join().expect("reader");
}

#[test]
fn hidden_rows_are_taken_in_but_seen_by_no_query_until_they_are_shown_all_at_once() {
    let mut store = Store::new(BUDGET_BYTES);
    store.define([schema("a", &[("n", 7)])]).expect("reserve");
    let shared = store.shared();
    let seen = || shared.current().get(sym("a")).expect("table").rows();
    let mut row = Vec::new();
    let mut w = Writer::new(&mut row);
    w.vector(types::LONG, 0, &[1i64, 2]);
    w.finish().expect("encodes");
    store.set_hidden(true).expect("reserve");
    let before = shared.current();
    store.append(0, 1, &row).expect("taken");
    assert_eq!((store.rows(), seen()), (vec![2], 0));
    store.set_hidden(false).expect("reserve");
    assert_eq!((seen(), before.get(sym("a")).expect("table").rows()), (2, 0));
    assert_eq!(shared.current().changes(), store.changes());
    assert!(before.changes() < store.changes());
}
