//! A node under tickerplants in q: the paper's `.u.asg`, and stock kdb+tick, emulated byte for byte.

use crate::rdb_support::{Asked, Door, Guest, Log, Node, called, long, put_tables};
use elastick::rdb::policy::Phase;
use elastick::rdb::shared::Ending;
use proto::{MessageKind, Value, types};

const DATE: i32 = 9821;

/// Replies to the query with which a node identifies the tickerplant.
fn in_q(guest: &mut Guest, has_queue: bool) {
    let (kind, value) = guest.next();
    assert_eq!((kind, called(&value)), (MessageKind::Sync, ".u.asg.join".to_string()));
    guest.answer(|w| w.error(b".u.asg.join"));
    let (kind, value) = guest.next();
    assert_eq!((kind, called(&value)), (MessageKind::Sync, "`asg in key`.u".to_string()));
    guest.answer(|w| w.atom_bool(has_queue));
}

fn paper(options: &[(&str, &str)]) -> (Door, Node, Guest) {
    let door = Door::open();
    let node = Node::start(door.port(), options);
    let mut guest = door.accept();
    in_q(&mut guest, true);
    subscribed(&mut guest);
    (door, node, guest)
}

fn subscribed(guest: &mut Guest) {
    let (kind, value) = guest.next();
    assert_eq!((kind, called(&value)), (MessageKind::Sync, ".u.t!{0#value x}each .u.t".to_string()));
    guest.answer(|w| {
        w.dict_head();
        w.symbols(["trade", "quote"]);
        w.list_head(2);
        for _ in 0..2 {
            w.table_head(["time", "sym", "n"]);
            w.vector(types::TIMESPAN, types::ATTR_NONE, &[] as &[i64]);
            w.vector_head(types::SYMBOL, types::ATTR_GROUPED, 0);
            w.vector(types::LONG, types::ATTR_NONE, &[] as &[i64]);
        }
    });
    let (kind, value) = guest.next();
    assert_eq!(kind, MessageKind::Async);
    let none = Value::Symbol(Vec::new());
    let name = |text: &str| Value::Symbol(text.as_bytes().to_vec());
    let Value::List { items, .. } = value else { panic!("{value:?}") };
    assert_eq!(items, [name(".u.asg.sub"), none.clone(), none, name("rdb")]);
}

/// `.sub.rep`, as `.u.asg.add` sends it.
fn rep(guest: &mut Guest, log: &Log, start: i64, tip: i64) {
    guest.tell(|w| {
        w.list_head(4);
        w.symbol(".sub.rep");
        put_tables(w);
        w.symbol(format!(":{}", log.path().display()));
        w.vector(types::LONG, 0, &[start, tip]);
    });
}

#[test]
fn under_the_papers_tickerplant_a_node_replays_and_takes_the_feed_without_missing_one() {
    let mut log = Log::new("paper-replay");
    log.update("trade", &[0]);
    log.row("trade", 1);
    log.update("trade", &[2]);
    log.row("trade", 3);
    let (_door, node, mut guest) = paper(&[]);
    rep(&mut guest, &log, 1, 4);
    guest.publish("trade", &[4]);
    guest.publish("trade", &[5, 6]);
    node.until_values("trade", 1..7);
    assert_eq!(node.windows(), [(1, 6, true)]);
    node.until_requested(Asked::Ready);
}

#[test]
fn a_roll_under_the_papers_tickerplant_is_its_lambda_with_the_count_of_messages() {
    let log = Log::new("paper-roll");
    let (_door, node, mut guest) = paper(&[("memory", "2MiB"), ("scale", "30"), ("roll-threshold", "60")]);
    rep(&mut guest, &log, 0, 0);
    let values: Vec<i64> = (0..1000).collect();
    for _ in 0..100 {
        guest.publish("trade", &values);
    }
    let (kind, value) = guest.next();
    assert_eq!((kind, called(&value)), (MessageKind::Async, "{.u.asg.roll[.z.w;x]}".to_string()));
    let Value::List { items, .. } = value else { panic!("{value:?}") };
    let Value::Lambda { namespace, .. } = &items[0] else { panic!("{items:?}") };
    assert!(namespace.is_empty());
    let next = long(&items[1]);
    node.until("the node to have rolled", |state| state.phase == Phase::Rolled);
    assert_eq!(node.values("trade").len() as i64, next * 1000);
    node.until_requested(Asked::AtLeast(2));
    guest.end_of_day(DATE);
    assert_eq!(node.until_ending(), Ending::Terminated);
}

#[test]
fn a_live_node_of_the_papers_counts_from_nothing_on_the_new_day() {
    let log = Log::new("paper-end");
    let (_door, node, mut guest) = paper(&[]);
    rep(&mut guest, &log, 0, 0);
    guest.publish("trade", &[1]);
    node.until_values("trade", [1]);
    guest.end_of_day(DATE);
    guest.publish("trade", &[2]);
    node.until_values("trade", [2]);
    assert_eq!(node.windows(), [(0, 1, true)]);
}

#[test]
fn a_cut_under_the_papers_tickerplant_starts_anew_with_nothing() {
    let log = Log::new("paper-cut");
    let (door, node, mut guest) = paper(&[]);
    rep(&mut guest, &log, 0, 0);
    guest.publish("trade", &[1]);
    node.until_values("trade", [1]);
    drop(guest);
    let mut guest = door.accept();
    in_q(&mut guest, true);
    subscribed(&mut guest);
    node.until("the rows to be gone", |state| state.rows == 0 && state.phase == Phase::Waiting);
}

#[test]
fn a_wrong_update_from_a_tickerplant_in_q_is_rejected_whole_and_counted() {
    let mut log = Log::new("paper-wrong");
    log.update("trade", &[0]);
    log.wrong();
    let (_door, node, mut guest) = paper(&[]);
    rep(&mut guest, &log, 0, 2);
    guest.publish("trade", &[2]);
    node.until_values("trade", [0, 2]);
    assert_eq!(node.until("the refusal", |s| s.updates_refused == 1).windows[0].window.next, 3);
}

fn stock(door: &Door, log: Option<(&Log, i64)>) -> Guest {
    let mut guest = door.accept();
    in_q(&mut guest, false);
    let (kind, value) = guest.next();
    assert_eq!((kind, called(&value)), (MessageKind::Sync, "(.u.sub[`;`];`.u `i`L)".to_string()));
    guest.answer(|w| {
        w.list_head(2);
        put_tables(w);
        w.list_head(2);
        match log {
            Some((log, updates)) => {
                w.atom_long(updates);
                w.symbol(format!(":{}", log.path().display()));
            }
            None => {
                w.null();
                w.null();
            }
        }
    });
    guest
}

#[test]
fn under_a_stock_tickerplant_a_node_is_an_rdb() {
    let mut log = Log::new("stock");
    log.update("trade", &[0, 1]);
    log.row("trade", 2);
    log.update("quote", &[9]);
    log.row("trade", 77);
    let door = Door::open();
    let node = Node::start(door.port(), &[]);
    let mut guest = stock(&door, Some((&log, 3)));
    guest.publish("trade", &[3]);
    node.until_values("trade", 0..4);
    guest.end_of_day(DATE);
    guest.publish("trade", &[8]);
    node.until_values_again("trade", [8]);
    assert_eq!(node.state().protocol, "stock");
}

#[test]
fn a_stock_tickerplant_without_a_log_feeds_from_now_on() {
    let door = Door::open();
    let node = Node::start(door.port(), &[]);
    let mut guest = stock(&door, None);
    guest.publish("trade", &[3]);
    node.until_values("trade", [3]);
}

#[test]
fn after_a_cut_a_stock_log_is_replayed_from_its_start() {
    let mut log = Log::new("stock-cut");
    log.update("trade", &[0]);
    let door = Door::open();
    let node = Node::start(door.port(), &[]);
    let mut guest = stock(&door, Some((&log, 1)));
    guest.publish("trade", &[1]);
    node.until_values("trade", 0..2);
    log.update("trade", &[1]);
    log.update("trade", &[2]);
    drop(guest);
    let _guest = stock(&door, Some((&log, 3)));
    node.until_values_again("trade", 0..3);
}
