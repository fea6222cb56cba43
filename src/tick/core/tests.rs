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
    published_by(EXACT, table, data)
}

const EXACT: Rules<'_> = Rules { limits: &LIMITS, coerce: false };
const COERCE: Rules<'_> = Rules { limits: &LIMITS, coerce: true };

fn published_by(rules: Rules<'_>, table: &str, data: Value) -> Result<Value, String> {
    let body = call(Value::chars(".u.upd"), Value::symbol(table), data);
    let mut batch = Batch::new(7);
    let tables = tables();
    match publish(&tables, &recognise(&body).unwrap(), NOW, rules, &mut batch) {
        Ok(Accepted { update, .. }) if update.rows == 0 => Ok(Value::list([])),
        Ok(Accepted { update, is_coerced }) => {
            assert!(rules.coerce || !is_coerced);
            assert_eq!((batch.updates(), batch.tip()), (&[update][..], 8));
            let (record, used) = proto::decode::object(batch.bytes(), Endian::Little, &LIMITS).unwrap();
            assert_eq!(used, batch.bytes().len());
            Ok(record)
        }
        Err(refusal) => {
            assert!(batch.is_empty() && batch.bytes().is_empty());
            Err(refusal.to_string())
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
    for (table, data, expected) in [
        ("quot", Value::list(row(1.0)), "quot: no such table; there are q, note, pair, trade, stamped"),
        ("trade", Value::Long(1), "type: data for trade must be a list of columns, one row or a table, not long"),
        (
            "trade",
            Value::NULL,
            "type: data for trade must be a list of columns, one row or a table, not generic null (::)",
        ),
        ("trade", with(0, Value::NULL), "type: trade.sym is symbol, got generic null (::): send symbols"),
        ("trade", Value::list([Value::symbol("A")]), "length: trade has 5 columns, or 4 without the time; got 1"),
        (
            "trade",
            with(1, Value::Long(1)),
            "type: trade.price is float, got long: send floats, or start the tickerplant with --coerce",
        ),
        (
            "trade",
            with(2, Value::Float(1.0)),
            "type: trade.size is long, got float: send longs, or start the tickerplant with --coerce",
        ),
        (
            "trade",
            with(3, Value::chars("B")),
            "type: trade.side is char, got char vector: send chars, or start the tickerplant with --coerce",
        ),
        (
            "trade",
            with(0, Value::chars("A")),
            "type: trade.sym is symbol, got char vector: send symbols, or start the tickerplant with --coerce",
        ),
        (
            "trade",
            Value::list([vec![Value::Timestamp(1)], row(1.0)].concat()),
            "type: trade.time is timespan, got timestamp: send timespans",
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
            "mismatch: stamped has columns that the data lacks: price; the data has columns that stamped lacks: cost",
        ),
        (
            "trade",
            Value::table([("sym", Value::symbols(["A"])), ("price", Value::floats([1.0]))]),
            "mismatch: trade has columns that the data lacks: size, side",
        ),
        ("a\n", Value::list(row(1.0)), "a\\n: no such table; there are q, note, pair, trade, stamped"),
        (" ", Value::list(row(1.0)), "type: the name of the table is missing; there are q, note, pair, trade, stamped"),
    ] {
        assert_eq!(published(table, data).as_ref().map_err(String::as_str), Err(expected));
    }
}

#[test]
fn a_rejection_is_short_whatever_was_sent() {
    let names: Vec<String> = (0..5000).map(|number| format!("column{number}{}", "\u{1}".repeat(200))).collect();
    let column = || Value::longs([1]);
    let wide = Value::table(names.iter().map(|name| (name.as_str(), column())).collect::<Vec<_>>());
    let error = published("stamped", wide).unwrap_err();
    assert!(error.ends_with(" and 4992 more") && error.len() < 4096, "{error}");
    let error = published(&"\u{1}".repeat(100_000), Value::list(row(1.0))).unwrap_err();
    assert!(error.contains("...: no such table") && error.len() < 1024, "{error}");
    let long = Value::list([Value::symbol("A"), Value::chars("\0".repeat(100_000))]);
    let error = published_by(COERCE, "pair", long).unwrap_err();
    assert!(error.contains("in row 0 cannot be converted") && error.len() < 1024, "{error}");
}

#[test]
fn a_rejection_names_the_remedy_that_helps() {
    let strings = Value::list([Value::chars("A"), Value::chars("BC")]);
    let mixed = Value::list([Value::symbol("A"), Value::Long(1)]);
    let floats = || Value::floats([1.0, 2.0]);
    for (columns, expected) in [
        (
            vec![strings, floats()],
            "sym is symbol, got list of strings: send symbols, or start the tickerplant with --coerce",
        ),
        (vec![mixed, floats()], "sym is symbol, got long: send symbols"),
        // A vector with Python's `None` in it.
        (
            vec![Value::list([Value::symbol("A"), Value::NULL]), floats()],
            "sym is symbol, got generic null (::): send symbols, or start the tickerplant with --coerce",
        ),
        (vec![Value::symbols(["A", "B"]), Value::NULL], "price is float, got generic null (::): send floats"),
        (vec![Value::longs([1, 2]), floats()], "sym is symbol, got long vector: send symbols"),
        // A character vector as long as the rows is no column of symbols.
        (vec![Value::chars("AB"), floats()], "sym is symbol, got char vector: send symbols"),
        (
            vec![Value::symbols(["A", "B"]), Value::longs([1, i64::MAX - 1])],
            "price is float, got long vector: send floats",
        ),
    ] {
        assert_eq!(published("stamped", Value::list(columns)), Err(format!("type: stamped.{expected}")));
    }
}

#[test]
fn coercion_accepts_what_python_sends() {
    let rows = |symbols: Vec<&str>, prices: Vec<f64>| {
        record(
            "stamped",
            [Value::timestamps(vec![NOW.timestamp_ns; prices.len()]), Value::symbols(symbols), Value::floats(prices)],
        )
    };
    let strings = |texts: &[&str]| Value::list(texts.iter().map(Value::chars).collect::<Vec<_>>());
    for (data, logged) in [
        (Value::list([Value::chars("AAPL"), Value::Long(187)]), rows(vec!["AAPL"], vec![187.0])),
        (Value::list([Value::chars("A"), Value::Float(1.5)]), rows(vec!["A"], vec![1.5])),
        (Value::list([Value::Char(b'A'), Value::Float(1.5)]), rows(vec!["A"], vec![1.5])),
        (Value::list([strings(&["A", "BCD"]), Value::longs([1, 2])]), rows(vec!["A", "BCD"], vec![1.0, 2.0])),
        (Value::list([strings(&["A", ""]), Value::ints([1, 2])]), rows(vec!["A", ""], vec![1.0, 2.0])),
        (
            Value::list([Value::symbols(["A", "B"]), Value::list([Value::Long(1), Value::Float(2.5)])]),
            rows(vec!["A", "B"], vec![1.0, 2.5]),
        ),
        (
            Value::table([("sym", strings(&["A", "B"])), ("price", Value::shorts([1, 2]))]),
            rows(vec!["A", "B"], vec![1.0, 2.0]),
        ),
        (Value::list([Value::symbols(["A", "B"]), Value::Long(7)]), rows(vec!["A", "B"], vec![7.0, 7.0])),
    ] {
        assert_eq!(published_by(COERCE, "stamped", data.clone()), logged, "{data:?}");
        assert!(published("stamped", data).is_err_and(|error| error.contains("--coerce")));
    }
    let nulls = Value::list([Value::symbols(["A", "B"]), Value::list([Value::NULL, Value::Float(2.5)])]);
    let logged = published_by(COERCE, "stamped", nulls).unwrap();
    assert!(format!("{logged:?}").contains("NaN"), "{logged:?}");
}

#[test]
fn data_that_begins_with_a_string_is_one_row() {
    let row = Value::list([Value::chars("AAPL"), Value::floats([1.0, 2.0])]);
    let logged = record(
        "note",
        [Value::timespans([of_day()]), Value::symbols(["AAPL"]), Value::list([Value::floats([1.0, 2.0])])],
    );
    assert_eq!(published_by(COERCE, "note", row.clone()), logged);
    let error = "type: note.sym is symbol, got char vector: send symbols, or start the tickerplant with --coerce";
    assert_eq!(published("note", row), Err(error.to_string()));
    let columns = Value::list([Value::chars("AB"), Value::floats([1.0, 2.0])]);
    let error =
        "type: stamped.price is float, got float vector: send floats; data that begins with a string is one row";
    assert_eq!(published_by(COERCE, "stamped", columns), Err(error.to_string()));
}

#[test]
fn coercion_names_the_row_whose_value_does_not_fit() {
    let columns = [Value::symbols(["A", "B"]), Value::longs([1, 1 << 60])];
    let expected =
        "type: stamped.price is float, and the long 1152921504606846976 in row 1 cannot be converted to it unchanged";
    assert_eq!(published_by(COERCE, "stamped", Value::list(columns)), Err(expected.to_string()));
    for (side, words) in
        [(Value::chars("A\0B"), "the string \"A\\x00B\""), (Value::symbol("BUY"), "the symbol \"BUY\"")]
    {
        let row = [Value::symbol("A"), Value::Float(1.0), Value::Long(1), side];
        let expected = format!("type: trade.side is char, and {words} in row 0 cannot be converted to it unchanged");
        assert_eq!(published_by(COERCE, "trade", Value::list(row)), Err(expected));
    }
    let expected = "type: trade.size is long, and the float 1.5 in row 0 cannot be converted to it unchanged";
    let row = [Value::symbol("A"), Value::Float(1.0), Value::Float(1.5), Value::Char(b'B')];
    assert_eq!(published_by(COERCE, "trade", Value::list(row)), Err(expected.to_string()));
    let columns = [Value::symbols(["A", "B"]), Value::symbols(["1", "2"])];
    let expected = "type: stamped.price is float, got symbol vector: send floats";
    assert_eq!(published_by(COERCE, "stamped", Value::list(columns)), Err(expected.to_string()));
}

/// Each conversion, and the values that each type does not have.
#[test]
fn coercion_keeps_every_value() {
    use Value as V;
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let ok: &[(i8, V, V)] = &[
        (6, V::longs([1, -5, i64::MIN, i64::MAX, -i64::MAX]), V::ints([1, -5, i32::MIN, i32::MAX, -i32::MAX])),
        (5, V::ints([32766, -32766, i32::MIN]), V::shorts([32766, -32766, i16::MIN])),
        (7, V::shorts([7, i16::MIN, i16::MAX]), V::longs([7, i64::MIN, i64::MAX])),
        (7, V::bools([true, false]), V::longs([1, 0])),
        (7, V::floats([3.0, nan, inf, -inf]), V::longs([3, i64::MIN, i64::MAX, -i64::MAX])),
        (9, V::longs([1 << 53, i64::MAX]), V::floats([9_007_199_254_740_992.0, inf])),
        (9, V::reals([0.5, -2.0]), V::floats([0.5, -2.0])),
        (8, V::ints([1 << 24, -3]), V::reals([16_777_216.0, -3.0])),
        (10, V::symbols(["B", ""]), V::chars("B ")),
        (10, V::list([V::chars("B"), V::Char(b'S')]), V::chars("BS")),
        (16, V::times([1500, i32::MIN]), V::timespans([1_500_000_000, i64::MIN])),
        (16, V::list([V::Minute(570)]), V::timespans([570 * 60_000_000_000])),
        (19, V::list([V::Second(90), V::Minute(1)]), V::times([90_000, 60_000])),
        (12, V::dates([1, i32::MIN, i32::MAX]), V::timestamps([DAY_NS, i64::MIN, i64::MAX])),
    ];
    let wrong: &[(i8, V)] = &[
        (6, V::longs([i64::from(i32::MAX)])),
        (6, V::longs([-i64::from(i32::MAX)])),
        (5, V::longs([32767])),
        (7, V::floats([1.5])),
        (7, V::floats([9_007_199_254_740_994.0])),
        (9, V::longs([(1 << 53) + 1])),
        (8, V::longs([(1 << 24) + 1])),
        (8, V::floats([0.5])),
        (10, V::symbols(["BS"])),
        (12, V::dates([200_000])),
        (19, V::timespans([1])),
        (14, V::timestamps([0])),
        (7, V::chars("1")),
        (11, V::longs([1])),
        (1, V::longs([1])),
        (4, V::longs([1])),
    ];
    let converted = |ty: i8, given: &V| {
        let tables = Tables::new([schema("t", &[("time", 16), ("sym", 11), ("x", ty)])]).unwrap();
        let rows = match given {
            V::List { items, .. } => items.len(),
            other => (0..).take_while(|at| other.item(*at).is_some()).count(),
        };
        let data = V::list([V::symbols(vec!["A"; rows]), given.clone()]);
        let body = call(V::chars(".u.upd"), V::symbol("t"), data);
        let mut batch = Batch::new(0);
        let accepted = publish(&tables, &recognise(&body).unwrap(), NOW, COERCE, &mut batch).ok()?;
        assert!(accepted.is_coerced && accepted.update.rows == rows);
        let (record, _) = proto::decode::object(batch.bytes(), Endian::Little, &LIMITS).unwrap();
        record.item(2).and_then(|columns| columns.item(2))
    };
    for (ty, given, kept) in ok {
        assert_eq!(converted(*ty, given).as_ref(), Some(kept), "{given:?} as {ty}");
    }
    for (ty, given) in wrong {
        assert_eq!(converted(*ty, given), None, "{given:?} as {ty}");
    }
}

#[test]
fn an_atom_is_not_repeated_beyond_the_limit() {
    let long = "x".repeat(10_000);
    let given = Value::list([Value::symbols(vec!["A"; 1000]), Value::symbol(&long)]);
    assert!(published("pair", given).is_err_and(|error| error.starts_with("limit: ")));
}

#[test]
fn bytes_after_the_data_are_rejected() {
    let mut body = call(Value::symbol(".u.upd"), Value::symbol("q"), Value::list([Value::symbol("A")]));
    body.push(0);
    let mut batch = Batch::new(0);
    let refused = publish(&tables(), &recognise(&body).unwrap(), NOW, EXACT, &mut batch).unwrap_err();
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
        if let Ok(Accepted { update, .. }) = publish(&tables, &recognise(&body).unwrap(), NOW, COERCE, &mut batch)
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
                prop_assert_eq!(bulk::columns(spec, &data, NOW, (&LIMITS, Types::Own), &mut long), Ok(rows));
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
                let accepted = publish(&tables(), &call, NOW, COERCE, &mut batch).is_ok_and(|accepted| accepted.update.rows > 0);
                prop_assert_eq!(accepted, !batch.bytes().is_empty());
            }
        }
    }
}

/// Publishes data of `trade` with the number 42 of `feed1`. Returns the records of the batch, and its first update index after them.
fn numbered(data: Value) -> (Result<usize, String>, Vec<Value>, u64) {
    let body = call(Value::chars(".u.upd"), Value::symbol("trade"), data);
    let sequence = crate::log::Sequence { user: b"ann", publisher: b"feed1", seq: 42 };
    let (mut batch, tables) = (Batch::new(7), tables());
    let call = recognise(&body).unwrap();
    let published = publish_sequenced(&tables, (&call, &sequence), NOW, Rules::exact(&LIMITS), &mut batch);
    let mut records = Vec::new();
    let mut rest = batch.bytes();
    while !rest.is_empty() {
        let (record, used) = proto::decode::object(rest, Endian::Little, &LIMITS).unwrap();
        records.push(record);
        rest = &rest[used..];
    }
    (published.map(|accepted| accepted.update.rows).map_err(|refusal| refusal.to_string()), records, batch.tip())
}

#[test]
fn a_number_is_logged_right_before_its_update() {
    let row =
        Value::list([Value::symbols(["a", "b"]), Value::floats([1.0, 2.0]), Value::longs([1, 2]), Value::chars("BS")]);
    let (rows, records, tip) = numbered(row);
    assert_eq!((rows, records.len(), tip), (Ok(2), 2, 9));
    let number: Vec<Value> = (1..4).filter_map(|at| records[0].item(at)).collect();
    assert_eq!(number, [Value::symbol("ann"), Value::symbol("feed1"), Value::Long(42)]);
    assert!(records[0].item(4).is_some_and(|hash| hash != Value::Long(i64::MIN)));
    assert_eq!(records[1].item(0), Some(Value::symbol("upd")));
}

#[test]
fn without_rows_the_number_alone_is_logged_and_a_rejected_update_leaves_nothing() {
    let empty = Value::list([Value::symbols([""; 0]), Value::floats([]), Value::longs([]), Value::chars("")]);
    let (rows, records, tip) = numbered(empty);
    assert_eq!((rows, records.len(), tip), (Ok(0), 1, 8));
    assert_eq!(records[0].item(4), Some(Value::Long(i64::MIN)));
    let (rejected, records, tip) = numbered(Value::Long(1));
    assert!(rejected.is_err_and(|reason| reason.starts_with("type: ")));
    assert_eq!((records.len(), tip), (0, 7));
}
