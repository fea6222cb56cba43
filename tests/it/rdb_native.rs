//! A node's ingest under elastick's own protocol, against a fake tickerplant, message by message.

use crate::rdb_support::{Asked, Door, Guest, Log, Node, called, entry, long, proof, sym};
use elastick::config::Limits;
use elastick::config::units::Scale;
use elastick::log::update_hash;
use elastick::metrics::health::Level;
use elastick::rdb::figures;
use elastick::rdb::policy::{Params, Phase};
use elastick::rdb::report::Constants;
use elastick::rdb::shared::Ending;
use proto::{MessageKind, Value, Writer, types};

const DATE: i32 = 9821;

/// A node that has joined and is a standby.
fn waiting(options: &[(&str, &str)]) -> (Door, Node, Guest) {
    let door = Door::open();
    let node = Node::start(door.port(), options);
    let mut guest = door.accept();
    guest.join(DATE, 0, false);
    (door, node, guest)
}

/// A node that is live from update 0 and fed.
fn live(options: &[(&str, &str)]) -> (Door, Node, Guest) {
    let (door, node, mut guest) = waiting(options);
    guest.make_live(0, 0, DATE, None);
    assert_eq!(guest.call(".u.asg.from"), [Value::Long(0)]);
    (door, node, guest)
}

fn column_bytes(values: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    crate::rdb_support::put_columns(&mut w, values);
    w.finish().expect("encodes");
    out
}

#[test]
fn a_node_joins_empty_and_reports_ready_to_the_fleet() {
    let door = Door::open();
    let node = Node::start(door.port(), &[("queue", "rdb")]);
    let joined = door.accept().join(DATE, 0, false);
    assert_eq!(entry(&joined, "node"), Value::Symbol(b"node-1".to_vec()));
    assert_eq!(entry(&joined, "port"), Value::Int(7001));
    assert_eq!(entry(&joined, "date"), Value::Date(types::NULL_INT));
    assert_eq!(entry(&joined, "live"), Value::Bool(false));
    assert_eq!(entry(&joined, "tabs"), Value::Symbol(Vec::new()));
    node.until_requested(Asked::Ready);
}

#[test]
fn a_node_waits_for_a_tickerplant_that_is_not_up_yet() {
    let port = Door::open().port();
    let node = Node::start(port, &[]);
    assert!(!node.state().connected);
    let Ok(listener) = std::net::TcpListener::bind(("127.0.0.1", port)) else { return };
    listener.accept().expect("the node comes");
}

#[test]
fn a_live_node_replays_its_window_in_place_and_then_takes_the_feed() {
    let mut log = Log::new("native-replay");
    for value in 0..200 {
        log.update(if value % 3 == 0 { "quote" } else { "trade" }, &[value, value]);
    }
    let (_door, node, mut guest) = waiting(&[]);
    guest.make_live(50, 150, DATE, Some(&log.path()));
    assert_eq!(guest.call(".u.asg.from"), [Value::Long(150)]);
    guest.feed("trade", &[150, 150], 150);
    guest.feed("trade", &[151, 151], 151);
    let twice = |value: i64| [value, value];
    node.until_values("trade", (50..152).filter(|v| v % 3 != 0 || *v >= 150).flat_map(twice));
    node.until_values("quote", (50..150).filter(|v| v % 3 == 0).flat_map(twice));
    assert_eq!(node.windows(), [(50, 152, true)]);
}

#[test]
fn a_node_that_cannot_read_the_log_requests_a_stream() {
    let (_door, node, mut guest) = waiting(&[]);
    guest.make_live(5, 9, DATE, Some(std::path::Path::new("/nowhere/sym2026.11.21")));
    assert_eq!(guest.call(".u.asg.from"), [Value::Long(5)]);
    for index in 5..9 {
        guest.feed("trade", &[index as i64], index);
    }
    node.until_values("trade", 5..9);
}

#[test]
fn a_roll_ends_the_window_exactly_and_later_updates_are_dropped() {
    let (_door, node, mut guest) = live(&[("memory", "2MiB"), ("scale", "30"), ("roll-threshold", "60")]);
    let values: Vec<i64> = (0..1000).collect();
    let mut index = 0;
    while node.state().phase != Phase::Rolled {
        guest.feed("trade", &values, index);
        index += 1;
        assert!(index < 10_000, "the node never rolls");
    }
    let rolling = guest.call(".u.asg.rolling");
    let next = long(&rolling[0]);
    let updates = next as u64;
    let hash = (0..updates).fold(0u64, |sum, _| sum.wrapping_add(update_hash(&column_bytes(&values))));
    assert_eq!(proof(&rolling[1]), [("trade".to_string(), next, next * 1000, hash.cast_signed())]);
    assert_eq!(rolling[2], Value::Date(DATE));
    assert_eq!(node.windows(), [(0, updates, false)]);
    node.until_requested(Asked::AtLeast(4));
    guest.feed("trade", &values, index);
    guest.have_rebuilt(0, 0, DATE, None);
    assert_eq!(node.values("trade").len() as u64, updates * 1000);
}

#[test]
fn a_roll_during_replay_leaves_the_rest_to_the_successor() {
    let mut log = Log::new("native-roll-in-replay");
    let values: Vec<i64> = (0..2000).collect();
    for _ in 0..100 {
        log.update("trade", &values);
    }
    let (_door, node, mut guest) = waiting(&[("memory", "2MiB"), ("scale", "30"), ("roll-threshold", "60")]);
    guest.make_live(10, 100, DATE, Some(&log.path()));
    let rolling = guest.call(".u.asg.rolling");
    let next = long(&rolling[0]);
    assert!((11..100).contains(&next), "{next}");
    assert_eq!(proof(&rolling[1])[0].1, next - 10);
    node.until("the node to have rolled", |state| state.phase == Phase::Rolled);
    assert_eq!(node.values("trade").len() as i64, (next - 10) * 2000);
}

#[test]
fn a_cut_resumes_with_the_next_update_without_gap_or_duplicate() {
    let (door, node, mut guest) = live(&[]);
    for index in 0..7 {
        guest.feed("trade", &[index as i64], index);
    }
    node.until_values("trade", 0..7);
    drop(guest);
    let mut guest = door.accept();
    let joined = guest.join(DATE, 9, false);
    assert_eq!(entry(&joined, "live"), Value::Bool(true));
    assert_eq!((long(&entry(&joined, "first")), long(&entry(&joined, "next"))), (0, 7));
    assert_eq!(entry(&joined, "date"), Value::Date(DATE));
    for index in 7..12 {
        guest.feed("trade", &[index as i64], index);
    }
    node.until_values("trade", 0..12);
    assert_eq!(node.windows(), [(0, 12, true)]);
}

#[test]
fn a_cut_during_replay_resumes_where_the_replay_was() {
    let mut log = Log::new("native-cut-in-replay");
    for value in 0..20 {
        log.update("trade", &[value]);
    }
    let (door, node, mut guest) = waiting(&[]);
    // The announced tip is beyond the end of the file: the node keeps retrying.
    guest.make_live(0, 30, DATE, Some(&log.path()));
    node.until_values("trade", 0..20);
    drop(guest);
    let mut guest = door.accept();
    let joined = guest.join(DATE, 30, false);
    assert_eq!(long(&entry(&joined, "next")), 20);
    for index in 20..31 {
        guest.feed("trade", &[index as i64], index);
    }
    node.until_values("trade", 0..31);
}

#[test]
fn a_rolled_node_holds_its_window_over_a_cut() {
    let (door, node, mut guest) = live(&[("memory", "2MiB"), ("scale", "30"), ("roll-threshold", "60")]);
    let values: Vec<i64> = (0..1000).collect();
    for index in 0..100 {
        guest.feed("trade", &values, index);
    }
    let next = long(&guest.call(".u.asg.rolling")[0]);
    drop(guest);
    let joined = door.accept().join(DATE, 100, false);
    assert_eq!(entry(&joined, "live"), Value::Bool(false));
    assert_eq!(entry(&joined, "held"), Value::longs([0, next]));
    assert_eq!(node.values("trade").len() as i64, next * 1000);
}

#[test]
fn a_node_that_must_drop_its_rows_becomes_a_standby() {
    let (door, node, mut guest) = live(&[]);
    guest.feed("trade", &[1], 0);
    node.until_values("trade", [1]);
    drop(guest);
    let mut guest = door.accept();
    guest.join(DATE, 9, true);
    node.until("the node to wait", |state| state.phase == Phase::Waiting && state.rows == 0);
    guest.make_live(9, 9, DATE, None);
    assert_eq!(guest.call(".u.asg.from"), [Value::Long(9)]);
}

#[test]
fn a_gap_or_a_duplicate_makes_the_node_resume_on_a_new_connection() {
    for wrong in [5, 2] {
        let (door, node, mut guest) = live(&[]);
        for index in 0..3 {
            guest.feed("trade", &[index as i64], index);
        }
        guest.feed("trade", &[99], wrong);
        let mut guest = door.accept();
        assert_eq!(long(&entry(&guest.join(DATE, 3, false), "next")), 3);
        guest.feed("trade", &[3], 3);
        node.until_values("trade", 0..4);
        assert_eq!(node.state().resyncs, 1);
    }
}

#[test]
fn a_closed_window_is_rebuilt_from_the_log_and_proved() {
    let mut log = Log::new("native-rebuild");
    for value in 0..30 {
        log.update("trade", &[value]);
    }
    let (_door, node, mut guest) = waiting(&[]);
    guest.have_rebuilt(10, 20, DATE, Some(&log.path()));
    let proved = guest.call(".u.asg.proved");
    assert_eq!((long(&proved[0]), long(&proved[1])), (10, 20));
    let hash = (10..20).fold(0u64, |sum, value| sum.wrapping_add(update_hash(&column_bytes(&[value]))));
    assert_eq!(proof(&proved[2]), [("trade".to_string(), 10, 10, hash.cast_signed())]);
    node.until_values("trade", 10..20);
    assert_eq!(node.windows(), [(10, 20, false)]);
}

#[test]
fn a_window_is_rebuilt_by_stream_where_the_log_is_out_of_reach() {
    let (_door, node, mut guest) = waiting(&[]);
    guest.have_rebuilt(4, 6, DATE, None);
    assert_eq!(guest.call(".u.asg.stream"), [Value::Long(4), Value::Long(6)]);
    guest.feed("trade", &[4], 4);
    guest.feed("trade", &[5], 5);
    guest.tell(|w| {
        w.list_head(3);
        w.symbol(".u.asg.streamed");
        w.atom_long(4);
        w.atom_long(6);
    });
    let proved = guest.call(".u.asg.proved");
    assert_eq!((long(&proved[0]), long(&proved[1])), (4, 6));
    node.until("the node to hold the window", |state| state.phase == Phase::Rolled);
}

#[test]
fn a_rebuild_that_is_cut_off_is_forgotten() {
    let (door, node, mut guest) = waiting(&[]);
    guest.have_rebuilt(4, 6, DATE, None);
    guest.call(".u.asg.stream");
    guest.feed("trade", &[4], 4);
    node.until_values("trade", [4]);
    drop(guest);
    let joined = door.accept().join(DATE, 6, false);
    assert_eq!(entry(&joined, "held"), Value::longs([]));
    node.until("the node to wait", |state| state.phase == Phase::Waiting && state.rows == 0);
}

#[test]
fn a_window_whose_proof_differs_is_dropped() {
    let mut log = Log::new("native-recheck");
    for value in 0..9 {
        log.update("trade", &[value]);
    }
    let (_door, node, mut guest) = waiting(&[]);
    guest.have_rebuilt(2, 5, DATE, Some(&log.path()));
    guest.call(".u.asg.proved");
    guest.tell(|w| {
        w.list_head(3);
        w.symbol(".u.asg.recheck");
        w.atom_long(2);
        w.atom_long(5);
    });
    node.until("the window to be gone", |state| state.windows.is_empty() && state.rows == 0);
}

#[test]
fn at_the_end_of_the_day_a_live_node_proves_clears_and_goes_on() {
    let (_door, node, mut guest) = live(&[]);
    guest.feed("trade", &[1, 2], 0);
    guest.end_of_day(DATE);
    let proved = guest.call(".u.asg.proved");
    assert_eq!((long(&proved[0]), long(&proved[1])), (0, 1));
    assert_eq!(proved[3], Value::Date(DATE));
    let (kind, question) = guest.next();
    assert_eq!((kind, called(&question)), (MessageKind::Sync, ".u.d".to_string()));
    guest.answer(|w| w.atom_date(DATE + 3));
    guest.feed("trade", &[7], 0);
    node.until_values("trade", [7]);
    let state = node.until("the new day", |state| state.windows.iter().any(|w| w.window.next == 1));
    assert_eq!((state.phase, state.date), (Phase::Live, Some(DATE + 3)));
    assert!(!node.asked.lock().expect("no panic").contains(&Asked::Terminate));
}

#[test]
fn at_the_end_of_the_day_a_node_that_is_not_live_clears_and_is_terminated() {
    let mut log = Log::new("native-end");
    log.update("trade", &[1]);
    let (_door, node, mut guest) = waiting(&[]);
    guest.have_rebuilt(0, 1, DATE, Some(&log.path()));
    guest.call(".u.asg.proved");
    node.shared.queries_open.store(1, std::sync::atomic::Ordering::SeqCst);
    guest.end_of_day(DATE);
    node.until("the rows to be gone", |state| state.rows == 0);
    assert!(!node.asked.lock().expect("no panic").contains(&Asked::Terminate), "a query still runs");
    node.shared.queries_open.store(0, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(node.until_ending(), Ending::Terminated);
}

#[test]
fn a_node_that_the_fleet_keeps_joins_the_queue_again() {
    let door = Door::open();
    let node = Node::start_kept(door.port(), &[]);
    let mut guest = door.accept();
    guest.join(DATE, 0, false);
    guest.end_of_day(DATE);
    let joined = guest.join(DATE + 1, 0, false);
    assert_eq!(entry(&joined, "held"), Value::longs([]));
    guest.make_live(0, 0, DATE + 1, None);
    assert_eq!(guest.call(".u.asg.from"), [Value::Long(0)]);
    node.until("the node to be live", |state| state.phase == Phase::Live);
}

#[test]
fn updates_of_another_schema_are_rejected_whole_and_counted() {
    let mut log = Log::new("native-schema");
    log.update("trade", &[1]);
    log.wrong();
    log.update("orders", &[2]);
    log.update("trade", &[3]);
    let (_door, node, mut guest) = waiting(&[]);
    guest.make_live(0, 4, DATE, Some(&log.path()));
    assert_eq!(guest.call(".u.asg.from"), [Value::Long(4)]);
    node.until_values("trade", [1, 3]);
    let state = node.until("the refusals", |state| state.updates_refused == 2);
    assert_eq!((state.windows[0].window.next, state.resyncs, state.updates_missing), (4, 0, 2));
    let policy = Params::new(Scale::At(60.0), 70.0).expect("thresholds");
    let constants = Constants {
        node: sym("n1"),
        queue: sym("rdb"),
        port: 0,
        policy,
        instance: String::new(),
        group: String::new(),
    };
    let health = figures::health(&node.shared, &constants, &Limits::default(), &[]);
    let expected =
        "live, 2 updates of its windows were rejected: queries do not see them; the process log has the reasons";
    assert_eq!((health.level(), health.to_string()), (Level::Failed, expected.to_string()));
}

#[test]
fn missing_nodes_are_requested_in_the_number_that_the_tickerplant_reports() {
    let (_door, node, mut guest) = live(&[]);
    guest.tell(|w| {
        w.list_head(3);
        w.symbol(".u.asg.need");
        w.atom_long(6);
        w.atom_long(2);
    });
    node.until_requested(Asked::AtLeast(6));
}
