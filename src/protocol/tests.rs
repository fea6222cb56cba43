//! Every message round-trips, messages read by other programs have their published bytes, and invalid input gives an error with a
//! description.

use super::foreign::{self, Replay};
use super::*;
use crate::lease::Epoch;
use crate::log::{LogId, Proof, Sample, TableProof, WriterId};
use crate::points::{Boundary, MESSAGES};
use crate::queue::{Date, Leaving as When, OpenWindow, Status, Subscription, UpdateIndex, Window};
use crate::table::schema::ColumnSchema;
use crate::table::{Attr, Schema, symbol};
use proptest::prelude::*;
use proto::{Endian, HEADER_BYTES, Limits, View, Writer, types};
use std::path::PathBuf;

fn object(put: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    put(&mut writer);
    writer.finish().expect("encodes");
    out
}

fn view(bytes: &[u8]) -> View<'_> {
    View::parse(bytes, Endian::Little, &Limits::default()).expect("an object").0
}

/// Returns the object of a complete message.
fn body(message: &[u8]) -> View<'_> {
    view(&message[HEADER_BYTES..])
}

fn schema(name: &str, keys: usize) -> Schema {
    let column =
        |name: &str, ty: i8, attr| ColumnSchema { name: symbol::intern(name.as_bytes()).expect("room"), ty, attr };
    let sym_attr = if keys > 0 { Attr::None } else { Attr::Grouped };
    let columns = vec![column("time", types::TIMESPAN, Attr::None), column("sym", types::SYMBOL, sym_attr)];
    Schema { name: symbol::intern(name.as_bytes()).expect("room"), columns, keys }
}

fn writer() -> WriterId {
    let id = |text: &str| -> LogId { text.parse().expect("16 digits") };
    WriterId { log: id("0123456789abcdef"), epoch: 7, writer: id("fedcba9876543210") }
}

fn index() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(i64::MAX.unsigned_abs()), 0..1_000_000u64]
}

fn window() -> impl Strategy<Value = (u64, u64)> {
    (index(), index()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,12}"
}

fn log() -> impl Strategy<Value = Option<PathBuf>> {
    proptest::option::of("/[a-z/]{1,20}[a-z]").prop_map(|path| path.map(PathBuf::from))
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (index(), index(), any::<u32>());
    let sample = sample.prop_map(|(offset_bytes, length_bytes, crc)| Sample { offset_bytes, length_bytes, crc });
    proptest::collection::vec(sample, 0..4)
}

fn proof() -> impl Strategy<Value = Proof> {
    let table = (any::<u64>(), any::<u64>(), any::<u64>());
    proptest::collection::btree_map(name(), table, 0..4).prop_map(|tables| {
        let mut proof = Proof::new();
        for (name, (updates, rows, hash)) in tables {
            proof.table_mut(name.as_bytes()).merge(TableProof { updates, rows, hash });
        }
        proof
    })
}

fn to_node() -> impl Strategy<Value = ToNode> {
    let live = (index(), index(), proptest::option::of(any::<u32>()), log(), any::<i32>(), index(), samples());
    let live = live.prop_map(|(first, tip, position, log, date, epoch, samples)| {
        let tables = vec![schema("trade", 0), schema("limits", 1)];
        ToNode::Live(Live { first, tip, position, log, date, epoch, tables, samples })
    });
    let rebuild = (window(), log(), any::<i32>(), any::<bool>(), samples());
    let rebuild = rebuild.prop_map(|((first, last), log, date, hidden, samples)| {
        ToNode::Rebuild(Rebuild { first, last, log, date, hidden, samples })
    });
    let replay = (log(), window());
    let replay = replay
        .prop_map(|(log, (first, tip))| ToNode::Replay(Replay { tables: vec![schema("quote", 0)], log, first, tip }));
    prop_oneof![
        live,
        rebuild,
        replay,
        window().prop_map(|(first, last)| ToNode::Streamed { first, last }),
        window().prop_map(|(first, last)| ToNode::Recheck { first, last }),
        window().prop_map(|(first, last)| ToNode::Handed { first, last }),
        window().prop_map(|(first, last)| ToNode::Show { first, last }),
        Just(ToNode::Drop),
        Just(ToNode::Left),
        Just(ToNode::Sleep),
        any::<(u32, u32)>().prop_map(|(desired, missing)| ToNode::Need { desired, missing }),
        (any::<u32>(), proptest::collection::vec(name(), 0..3))
            .prop_map(|(desired, joined)| ToNode::Group { desired, joined }),
        index().prop_map(|nodes| ToNode::Waiting { nodes }),
        index().prop_map(|updates| ToNode::Unserved { updates }),
        proptest::option::of(index()).prop_map(|index| ToNode::Schema { schema: schema("trade", 0), index }),
        any::<i32>().prop_map(|date| ToNode::End { date }),
        name().prop_map(|reason| ToNode::Bye { reason }),
    ]
}

fn when() -> impl Strategy<Value = When> {
    (0..i64::MAX, any::<bool>()).prop_map(|(by_ns, replaced)| When { by_ns, replaced })
}

fn status() -> impl Strategy<Value = Status> {
    let percent = || proptest::option::of(0.0..200.0f64);
    let count = || proptest::option::of(index());
    let span = || proptest::option::of(0..i64::MAX);
    let date = || proptest::option::of((i32::MIN + 1..i32::MAX).prop_map(Date));
    let times = (any::<bool>(), span(), proptest::option::of(any::<u32>()), span(), date());
    ((percent(), percent(), percent()), (count(), count(), count(), count()), times).prop_map(
        |(
            (memory_percent, scale_percent, roll_percent),
            (rows, bytes, next, refused),
            (scaled, lead_ns, fleet_max, quiet_ns, date),
        )| Status {
            memory_percent,
            scale_percent,
            roll_percent,
            rows,
            bytes,
            next: next.map(UpdateIndex),
            scaled,
            lead_ns,
            refused,
            fleet_max,
            quiet_ns,
            date,
        },
    )
}

fn from_node() -> impl Strategy<Value = FromNode> {
    let date = || proptest::option::of(any::<i32>());
    prop_oneof![
        index().prop_map(|next| FromNode::From { next }),
        window().prop_map(|(first, last)| FromNode::Stream { first, last }),
        (index(), proof(), date()).prop_map(|(next, proof, date)| FromNode::Rolling { next, proof, date }),
        (window(), proof(), date()).prop_map(|((first, last), proof, date)| FromNode::Proved {
            first,
            last,
            proof,
            date
        }),
        (when(), name()).prop_map(|(when, reason)| FromNode::Leaving(Leaving { when, reason: reason.into_bytes() })),
        status().prop_map(FromNode::Status),
    ]
}

fn join() -> impl Strategy<Value = Join> {
    let bytes = |name: String| name.into_bytes();
    let optional = move || proptest::option::of(name().prop_map(bytes));
    let held = proptest::collection::vec(window(), 0..3);
    let open = proptest::option::of(window());
    let filter = (proptest::collection::vec(name(), 0..3), proptest::collection::vec(name(), 0..3));
    let known = (proptest::option::of(1..u16::MAX), proptest::option::of(0..i32::MAX), any::<bool>());
    let names = (name(), name(), optional(), optional(), optional(), optional());
    (names, filter, held, open, known, proptest::option::of(when())).prop_map(
        move |(
            (node, queue, group, instance, process, owner),
            (tables, symbols),
            held,
            open,
            (port, date, known),
            leaving,
        )| {
            let index = UpdateIndex;
            Join {
                node: bytes(node),
                queue: bytes(queue),
                subscription: Filter { tables, symbols },
                port,
                date,
                held: held.into_iter().filter_map(|(first, last)| Window::new(index(first), index(last))).collect(),
                open: open.map(|(first, next)| OpenWindow { first: index(first), next: index(next) }),
                group,
                instance,
                process,
                owner,
                writer: known.then(writer),
                leaving,
            }
        },
    )
}

/// Returns the tickerplant's reading of a filter.
fn selected(filter: &Filter) -> Subscription {
    let bytes = |names: &[String]| names.iter().map(|name| name.clone().into_bytes()).collect::<Vec<_>>();
    let all = || vec![Vec::new()];
    let tabs = if filter.tables.is_empty() { all() } else { bytes(&filter.tables) };
    let symbols = if filter.symbols.is_empty() { all() } else { bytes(&filter.symbols) };
    Subscription { syms: vec![symbols; tabs.len()], tabs }
}

proptest! {
    #[test]
    fn messages_of_a_tickerplant_survive_a_round_trip(message in to_node()) {
        let bytes = message.encode().expect("encodes");
        prop_assert_eq!(ToNode::decode(&body(&bytes)), Ok(Some(message)));
    }

    #[test]
    fn messages_of_a_node_survive_a_round_trip(message in from_node()) {
        let mut bytes = Vec::new();
        message.append(&mut bytes).expect("encodes");
        let items: Vec<View<'_>> = body(&bytes).list().expect("a call").iter().collect();
        let name = std::str::from_utf8(items[0].symbol().expect("a name")).expect("text");
        prop_assert_eq!(FromNode::decode(name, &items[1..]), Ok(Some(message)));
    }

    #[test]
    fn a_join_is_read_as_it_was_written(join in join()) {
        let mut bytes = Vec::new();
        join.append(&mut bytes).expect("encodes");
        let items: Vec<View<'_>> = body(&bytes).list().expect("a call").iter().collect();
        let read = Join::decode(&items[1..]).expect("decodes");
        prop_assert_eq!(&read.subscription, &selected(&join.subscription));
        prop_assert_eq!(Join { subscription: join.subscription.clone(), ..without(read) }, join);
    }

    #[test]
    fn the_answer_to_a_join_is_read_as_it_was_written(
        tip in index(), date in any::<i32>(), drop in any::<bool>(), log in log(), is_known in any::<bool>(),
    ) {
        let writer = is_known.then(writer);
        let epoch = Epoch(writer.map_or(0, |of| of.epoch));
        let joined = Joined { epoch, writer, log, date, tip, tables: vec![schema("trade", 0)], drop };
        prop_assert_eq!(Joined::decode(&body(&joined.encode().expect("encodes"))), Ok(joined.clone()));
    }

    #[test]
    fn random_objects_are_read_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok((view, _)) = View::parse(&bytes, Endian::Little, &Limits::default()) {
            let _ = ToNode::decode(&view);
            let _ = Joined::decode(&view);
            let _ = Join::decode(&[view]);
            for row in [names::FROM, names::STREAM, names::ROLLING, names::PROVED, names::LEAVING, names::STATUS] {
                let _ = FromNode::decode(row, &[view, view, view, view]);
            }
        }
    }
}

#[test]
fn a_join_with_a_name_that_is_too_long_is_rejected_without_repeating_it() {
    let named = |bytes: usize, is_group: bool| {
        let long = vec![b'x'; bytes];
        let (node, group) = if is_group { (b"n".to_vec(), Some(long)) } else { (long, None) };
        let join = Join {
            node,
            queue: b"q".to_vec(),
            subscription: Filter::default(),
            port: None,
            date: None,
            held: Vec::new(),
            open: None,
            group,
            instance: None,
            process: None,
            owner: None,
            writer: None,
            leaving: None,
        };
        let mut bytes = Vec::new();
        join.append(&mut bytes).expect("encodes");
        let items: Vec<View<'_>> = body(&bytes).list().expect("a call").iter().collect();
        Join::decode(&items[1..]).map(drop)
    };
    for is_group in [false, true] {
        assert_eq!(named(read::MAX_NAME_BYTES, is_group), Ok(()));
        let error = named(read::MAX_NAME_BYTES + 1, is_group).expect_err("too long");
        assert!(error.term == "limit" && error.detail.ends_with("a name of 256 bytes is longer than 255"), "{error}");
    }
}

/// Returns a join without its subscription, for comparison of the rest.
fn without(join: Join<Subscription>) -> Join {
    let Join { node, queue, port, date, held, open, group, instance, process, owner, writer, leaving, .. } = join;
    let subscription = Filter::default();
    Join { node, queue, subscription, port, date, held, open, group, instance, process, owner, writer, leaving }
}

fn put_trade(w: &mut Writer<'_>) {
    w.symbol("trade");
    w.table_head(["time", "sym"]);
    w.vector(types::TIMESPAN, 0, &[] as &[i64]);
    w.vector_head(types::SYMBOL, types::ATTR_GROUPED, 0);
}

#[test]
fn schemas_are_read_as_pairs_and_one_after_the_other() {
    let pairs = object(|w| {
        w.list_head(1);
        w.list_head(2);
        put_trade(w);
    });
    let flat = object(|w| {
        w.list_head(2);
        put_trade(w);
    });
    let schemas = [tables::read_pairs(&view(&pairs)), tables::read_pairs(&view(&flat))];
    assert_eq!(schemas, [Ok(vec![schema("trade", 0)]), Ok(vec![schema("trade", 0)])]);
}

#[test]
fn the_papers_replay_has_a_window_and_a_log() {
    let message = object(|w| {
        w.list_head(4);
        w.symbol(".sub.rep");
        w.list_head(1);
        w.list_head(2);
        put_trade(w);
        w.symbol(":/data/sym2024.05.01");
        w.vector(types::LONG, 0, &[3i64, 17]);
    });
    let Ok(Some(ToNode::Replay(replay))) = ToNode::decode(&view(&message)) else { panic!("no replay") };
    assert_eq!((replay.first, replay.tip), (3, 17));
    assert_eq!(replay.log, Some(PathBuf::from("/data/sym2024.05.01")));
}

#[test]
fn a_stock_tickerplant_without_a_log_has_nothing_to_replay() {
    let message = object(|w| {
        w.list_head(2);
        w.list_head(1);
        w.list_head(2);
        put_trade(w);
        w.list_head(2);
        w.null();
        w.null();
    });
    let answer = foreign::stock_answer(&view(&message)).expect("an answer");
    assert_eq!((answer.log, answer.first, answer.tip), (None, 0, 0));
}

#[test]
fn a_window_that_ends_before_it_begins_is_rejected_in_words() {
    let message = object(|w| {
        w.list_head(3);
        w.symbol(".u.asg.recheck");
        w.atom_long(5);
        w.atom_long(2);
    });
    assert_eq!(ToNode::decode(&view(&message)), Err(Malformed::of_type(".u.asg.recheck: no window")));
}

#[test]
fn a_value_of_the_wrong_type_is_rejected_by_its_name() {
    let status = object(|w| {
        w.dict_head();
        w.symbols(["memory", "rows"]);
        w.list_head(2);
        w.atom_float(1.0);
        w.symbol("many");
    });
    let detail = ".u.asg.status: rows is missing or of the wrong type";
    assert_eq!(FromNode::decode(names::STATUS, &[view(&status)]), Err(Malformed::of_type(detail)));
}

#[test]
fn another_version_of_the_protocol_is_not_implemented() {
    let join = object(|w| {
        w.dict_head();
        w.symbols(["proto"]);
        w.list_head(1);
        w.atom_long(VERSION + 1);
    });
    assert_eq!(Join::decode(&[view(&join)]).map_err(|error| error.term), Err("nyi"));
}

#[test]
fn the_papers_roll_travels_as_a_lambda_and_a_long() {
    let mut out = Vec::new();
    foreign::append_paper_roll(&mut out, 9746).expect("encodes");
    let text = b"{.u.asg.roll[.z.w;x]}";
    let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0];
    expected.extend_from_slice(&[0, 0, 2, 0, 0, 0, 0x64, 0, 10, 0, 21, 0, 0, 0]);
    expected.extend_from_slice(text);
    expected.push(0xf9);
    expected.extend_from_slice(&9746i64.to_le_bytes());
    expected[4] = u8::try_from(expected.len()).expect("short");
    assert_eq!(out, expected);
}

#[test]
fn the_papers_subscription_is_three_symbols() {
    let mut out = Vec::new();
    foreign::append_paper_subscribe(&mut out, &Filter::default(), "q.r-asg").expect("encodes");
    assert_eq!(&out[HEADER_BYTES..], b"\0\0\x04\0\0\0\xf5.u.asg.sub\0\xf5\0\xf5\0\xf5q.r-asg\0");
}

#[test]
fn every_failpoint_of_a_message_names_one() {
    let tick = [names::JOIN, names::FROM, names::STREAM, names::ROLLING, names::PROVED, names::LEAVING, names::STATUS];
    let node = [
        names::JOINED,
        names::DROP,
        names::LIVE,
        names::REBUILD,
        names::RECHECK,
        names::HANDED,
        names::SHOW,
        names::END,
        names::BYE,
        "update",
    ];
    for (at, messages) in MESSAGES {
        let known = match at {
            Boundary::TickTakes | Boundary::NodeSends => &tick[..],
            Boundary::TickSends | Boundary::NodeTakes => &node,
        };
        for message in *messages {
            assert!(known.iter().any(|name| name.rsplit('.').next() == Some(message)), "{at:?} {message}");
        }
    }
}
