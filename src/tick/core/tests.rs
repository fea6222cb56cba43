//! Which updates are accepted and in which form; which are rejected and why.

use super::call::recognise;
use super::*;
use crate::table::Attr;
use crate::table::schema::{ColumnSchema, Schema};
use crate::table::symbol::intern;
use proptest::prelude::*;
use proto::{Endian, Limits, Value, View, encode};

const LIMITS: Limits = Limits { max_message_bytes: 1 << 20, max_decompressed_bytes: 1 << 20, max_depth: 64 };
const NOW: Stamp = Stamp { timestamp_ns: 846_000_000_123_456_789 };

fn schema(name: &str, columns: &[(&str, i8)]) -> Schema {
    let sym = |text: &str| intern(text.as_bytes()).unwrap();
    let column = |&(name, ty): &(&str, i8)| ColumnSchema { name: sym(name), ty, attr: Attr::None };
    Schema { name: sym(name), columns: columns.iter().map(column).collect(), keys: 0 }
}

fn tables() -> Tables {
    let tables = [
        schema("trade", &[("time", 16), ("sym", 11), ("price", 9), ("size", 7), ("side", 10)]),
        schema("stamped", &[("time", 12), ("sym", 11), ("price", 9)]),
        schema("note", &[("time", 16), ("sym", 11), ("text", 0)]),
        schema("pair", &[("time", 16), ("sym", 11), ("other", 11)]),
        schema("q", &[("time", 16), ("sym", 11)]),
    ];
    Tables::new(tables).unwrap()
}

fn call(function: Value, table: Value, data: Value) -> Vec<u8> {
    let mut body = Vec::new();
    encode::encode_object(&Value::list([function, table, data]), &mut body).unwrap();
    body
}

/// Returns the log record of an update, or the reason of its rejection.
fn published(table: &str, data: Value) -> Result<Value, String> {
    let body = call(Value::chars(".u.upd"), Value::symbol(table), data);
    let mut batch = Batch::new(7);
    let tables = tables();
    match publish(&tables, &recognise(&body).unwrap(), NOW, &LIMITS, &mut batch) {
        Ok(update) if update.rows == 0 => Ok(Value::list([])),
        Ok(update) => {
            assert_eq!((batch.updates(), batch.tip()), (&[update][..], 8));
            let (record, used) = proto::decode::object(batch.bytes(), Endian::Little, &LIMITS).unwrap();
            assert_eq!(used, batch.bytes().len());
            Ok(record)
        }
        Err(refusal) => {
            assert!(batch.is_empty() && batch.bytes().is_empty());
            Err(String::from_utf8(refusal.signal()).unwrap())
        }
    }
}

fn record(table: &str, columns: impl IntoIterator<Item = Value>) -> Result<Value, String> {
    Ok(Value::list([Value::symbol("upd"), Value::symbol(table), Value::list(columns)]))
}

fn of_day() -> i64 {
    NOW.timestamp_ns.rem_euclid(DAY_NS)
}

fn row(price: f64) -> Vec<Value> {
    vec![Value::symbol("A"), Value::Float(price), Value::Long(3), Value::Char(b'B')]
}

fn columns_of_row(time: i64, price: f64) -> [Value; 5] {
    [Value::timespans([time]), Value::symbols(["A"]), Value::floats([price]), Value::longs([3]), Value::chars("B")]
}

#[test]
fn a_row_becomes_columns_of_one() {
    let with_time = [vec![Value::Timespan(5)], row(1.5)].concat();
    assert_eq!(published("trade", Value::list(with_time)), record("trade", columns_of_row(5, 1.5)));
}

#[test]
fn a_row_without_time_is_given_the_time_of_day() {
    assert_eq!(published("trade", Value::list(row(2.0))), record("trade", columns_of_row(of_day(), 2.0)));
}

#[test]
fn the_time_is_a_timestamp_where_the_schema_says_so() {
    let columns = [Value::timestamps([NOW.timestamp_ns]), Value::symbols(["A"]), Value::floats([1.0])];
    let row = [Value::symbol("A"), Value::Float(1.0)];
    assert_eq!(published("stamped", Value::list(row)), record("stamped", columns));
}

#[test]
fn columns_are_taken_as_they_are_without_attributes() {
    let sorted = Value::timespans([1, 2]).with_attr(1);
    let columns = [Value::symbols(["A", "B"]), Value::floats([1.0, 2.0]), Value::longs([1, 2]), Value::chars("BS")];
    let given = [vec![sorted], columns.to_vec()].concat();
    let kept = [vec![Value::timespans([1, 2])], columns.to_vec()].concat();
    assert_eq!(published("trade", Value::list(given)), record("trade", kept));
}

#[test]
fn columns_without_time_are_given_one_for_each_row() {
    let columns = [Value::symbols(["A", "B"]), Value::floats([1.0, 2.0]), Value::longs([1, 2]), Value::chars("BS")];
    let stamped = [vec![Value::timespans([of_day(); 2])], columns.to_vec()].concat();
    assert_eq!(published("trade", Value::list(columns)), record("trade", stamped));
}

#[test]
fn a_table_is_taken_by_its_column_names() {
    let table = Value::table([
        ("price", Value::floats([1.0, 2.0])),
        ("sym", Value::symbols(["A", "B"])),
        ("time", Value::timestamps([1, 2])),
    ]);
    let columns = [Value::timestamps([1, 2]), Value::symbols(["A", "B"]), Value::floats([1.0, 2.0])];
    assert_eq!(published("stamped", table), record("stamped", columns));
}

#[test]
fn a_table_may_leave_the_time_out() {
    let table = Value::table([("sym", Value::symbols(["A"])), ("price", Value::floats([1.0]))]);
    let columns = [Value::timestamps([NOW.timestamp_ns]), Value::symbols(["A"]), Value::floats([1.0])];
    assert_eq!(published("stamped", table), record("stamped", columns));
}

#[test]
fn a_row_of_one_type_arrives_as_a_vector() {
    let columns = [Value::timespans([of_day()]), Value::symbols(["A"]), Value::symbols(["B"])];
    assert_eq!(published("pair", Value::symbols(["A", "B"])), record("pair", columns));
}

#[test]
fn an_atom_among_columns_stands_for_every_row() {
    let given = [Value::symbols(["A", "B"]), Value::symbol("X")];
    let columns = [Value::timespans([of_day(); 2]), Value::symbols(["A", "B"]), Value::symbols(["X", "X"])];
    assert_eq!(published("pair", Value::list(given)), record("pair", columns));
}

#[test]
fn a_list_of_atoms_is_a_column() {
    let given = [Value::symbols(["A", "B"]), Value::list([Value::Float(1.0), Value::Float(2.0)])];
    let columns = [Value::timestamps([NOW.timestamp_ns; 2]), Value::symbols(["A", "B"]), Value::floats([1.0, 2.0])];
    assert_eq!(published("stamped", Value::list(given)), record("stamped", columns));
}

#[test]
fn a_general_column_takes_anything() {
    let one = [Value::symbol("A"), Value::chars("hello")];
    let columns = |texts: Vec<Value>| {
        let n = texts.len();
        [Value::timespans(vec![of_day(); n]), Value::symbols(vec!["A"; n]), Value::list(texts)]
    };
    assert_eq!(published("note", Value::list(one)), record("note", columns(vec![Value::chars("hello")])));
    let texts = vec![Value::chars("x"), Value::Long(1)];
    let two = [Value::symbols(["A", "A"]), Value::list(texts.clone())];
    assert_eq!(published("note", Value::list(two)), record("note", columns(texts)));
    let simple = [Value::symbols(["A", "A"]), Value::longs([1, 2])];
    assert_eq!(published("note", Value::list(simple)), record("note", columns(vec![Value::Long(1), Value::Long(2)])));
}

#[test]
fn no_rows_leave_no_trace() {
    let empty = [Value::symbols([""; 0]), Value::floats([])];
    assert_eq!(published("stamped", Value::list(empty)), Ok(Value::list([])));
}

#[test]
fn names_may_be_symbols_or_strings() {
    let data = Value::list([Value::symbol("A")]);
    for function in [Value::symbol(".u.upd"), Value::chars(".u.upd")] {
        for table in [Value::symbol("q"), Value::chars("q"), Value::Char(b'q')] {
            let body = call(function.clone(), table, data.clone());
            assert_eq!(recognise(&body).map(|call| call.table), Some(&b"q"[..]));
        }
    }
}

#[test]
fn other_messages_are_not_updates() {
    let data = Value::list([]);
    for function in [Value::symbol(".u.sub"), Value::chars(".u.updx"), Value::Long(1)] {
        assert_eq!(recognise(&call(function, Value::symbol("q"), data.clone())), None);
    }
    assert_eq!(recognise(&call(Value::symbol(".u.upd"), Value::Long(1), data)), None);
}

#[test]
fn rejections_say_what_is_wrong() {
    let with = |at: usize, value: Value| {
        let mut row = row(1.0);
        row[at] = value;
        Value::list(row)
    };
    for (table, data, said) in [
        ("nope", Value::list(row(1.0)), "nope"),
        ("trade", Value::Long(1), "type: data for trade must be a list of columns, one row or a table, not long"),
        ("trade", Value::list([Value::symbol("A")]), "length: trade has 5 columns, or 4 without the time; got 1"),
        ("trade", with(1, Value::Long(1)), "type: trade.price is float, got long"),
        ("trade", with(2, Value::Float(1.0)), "type: trade.size is long, got float"),
        ("trade", with(3, Value::chars("B")), "type: trade.side is char, got char vector"),
        ("trade", with(0, Value::chars("A")), "type: trade.sym is symbol, got char vector"),
        (
            "trade",
            Value::list([vec![Value::Timestamp(1)], row(1.0)].concat()),
            "type: trade.time is timespan, got timestamp",
        ),
        (
            "stamped",
            Value::list([Value::symbols(["A", "B"]), Value::floats([1.0])]),
            "length: stamped.price has 1 items, the columns before it 2",
        ),
        (
            "stamped",
            Value::list([Value::timestamps([1]), Value::floats([1.0])]),
            "length: stamped has 3 columns; got 2",
        ),
        (
            "stamped",
            Value::table([("sym", Value::symbols(["A"])), ("cost", Value::floats([1.0]))]),
            "mismatch: stamped and the data differ in column cost",
        ),
        (
            "stamped",
            Value::table([("sym", Value::symbols(["A"]))]),
            "mismatch: stamped and the data differ in column price",
        ),
    ] {
        assert_eq!(published(table, data).as_ref().map_err(String::as_str), Err(said));
    }
}

#[test]
fn an_atom_is_not_repeated_beyond_the_limit() {
    let long = "x".repeat(10_000);
    let given = Value::list([Value::symbols(vec!["A"; 1000]), Value::symbol(&long)]);
    assert!(published("pair", given).is_err_and(|said| said.starts_with("limit: ")));
}

#[test]
fn bytes_after_the_data_are_rejected() {
    let mut body = call(Value::symbol(".u.upd"), Value::symbol("q"), Value::list([Value::symbol("A")]));
    body.push(0);
    let mut batch = Batch::new(0);
    let refused = publish(&tables(), &recognise(&body).unwrap(), NOW, &LIMITS, &mut batch).unwrap_err();
    assert_eq!(refused.reason.term(), "badmsg");
}

#[test]
fn tables_must_begin_with_time_and_sym() {
    let wrong = schema("wrong", &[("sym", 11), ("time", 16)]);
    assert!(matches!(Tables::new([wrong]), Err(super::schema::SchemaError::TimeSym(_))));
}

/// A value for a column of any type.
fn any_item() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::Long),
        any::<i64>().prop_map(Value::Timespan),
        any::<i64>().prop_map(Value::Timestamp),
        (0u8..4).prop_map(|n| Value::Float(f64::from(n))),
        "[a-c]{0,3}".prop_map(Value::symbol),
        "[a-c]{0,3}".prop_map(Value::chars),
        any::<u8>().prop_map(Value::Char),
        prop::collection::vec("[a-c]{0,3}", 0..3).prop_map(Value::symbols),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(Value::timespans),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(Value::longs),
        prop::collection::vec((0u8..4).prop_map(f64::from), 0..3).prop_map(Value::floats),
    ]
}

proptest! {
    /// Every accepted update is a record that all readers can rely on.
    #[test]
    fn an_accepted_update_fits_its_schema(
        table in prop::sample::select(vec!["trade", "stamped", "note", "pair", "q"]),
        items in prop::collection::vec(any_item(), 0..6),
    ) {
        let body = call(Value::symbol(".u.upd"), Value::symbol(table), Value::list(items));
        let tables = tables();
        let mut batch = Batch::new(0);
        if let Ok(update) = publish(&tables, &recognise(&body).unwrap(), NOW, &LIMITS, &mut batch)
            && update.rows > 0
        {
            let spec = tables.get(update.table).unwrap();
            let (view, used) = View::parse(batch.bytes(), Endian::Little, &LIMITS).unwrap();
            prop_assert_eq!(used, batch.bytes().len());
            let record = proto::log::record(view).unwrap();
            prop_assert_eq!(record.table, table.as_bytes());
            let columns: Vec<View<'_>> = record.columns.list().unwrap().iter().collect();
            prop_assert_eq!(columns.len(), spec.columns.len());
            for (column, spec) in columns.iter().zip(&spec.columns) {
                prop_assert_eq!((column.type_code(), column.count()), (spec.ty, update.rows));
            }
        }
    }

    /// Fast path and slow path give the same result.
    #[test]
    fn both_ways_agree(items in prop::collection::vec(any_item(), 1..6)) {
        let mut data = Vec::new();
        encode::encode_object(&Value::list(items), &mut data).unwrap();
        let tables = tables();
        for spec in tables.iter() {
            let (mut short, mut long) = (Vec::new(), Vec::new());
            if let Some(rows) = plain::columns(spec, &data, NOW, &mut short) {
                prop_assert_eq!(bulk::columns(spec, &data, NOW, &LIMITS, &mut long), Ok(rows));
                prop_assert_eq!(short, long);
            }
        }
    }

    /// Invalid bytes are rejected without a panic.
    #[test]
    fn any_bytes_are_accepted_or_rejected(
        body in prop::collection::vec(any::<u8>(), 0..60),
        cut in 0usize..200,
        flip in any::<(usize, u8)>(),
    ) {
        let mut good = call(Value::symbol(".u.upd"), Value::symbol("trade"), Value::list(row(1.0)));
        good.truncate(good.len().saturating_sub(cut));
        if let Some(byte) = flip.0.checked_rem(good.len().max(1)).and_then(|at| good.get_mut(at)) {
            *byte ^= flip.1;
        }
        for body in [body, good] {
            if let Some(call) = recognise(&body) {
                let mut batch = Batch::new(0);
                let accepted = publish(&tables(), &call, NOW, &LIMITS, &mut batch).is_ok_and(|update| update.rows > 0);
                prop_assert_eq!(accepted, !batch.bytes().is_empty());
            }
        }
    }
}
