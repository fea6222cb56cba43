use super::link::{MAX_PAUSE, PAUSE_WITHOUT_LOG};
use super::*;
use crate::config::options::Protocol;
use crate::config::units::Scale;
use crate::log::Proof;
use crate::metrics::health::Level;
use crate::net::message;
use crate::protocol::foreign::{self, Replay};
use crate::protocol::{FromNode, Live, Rebuild, ToNode};
use crate::rdb::policy::Params;
use crate::rdb::shared::Moment;
use crate::rdb::update::Update;
use crate::table::schema::{ColumnSchema, Schema};
use crate::table::symbol::intern;
use crate::table::{Attr, Sym};
use proto::{FrameReader, HEADER_BYTES, Limits, MessageKind, Writer};
use std::sync::mpsc::channel;

pub(super) const BUDGET_BYTES: u64 = 1 << 20;

fn options() -> NodeOptions {
    let policy = Params::new(Scale::At(40.0), 70.0).expect("in order");
    NodeOptions::carried(Protocol::Auto, BUDGET_BYTES, policy)
}

/// A node without messages so far, with its channel of fleet requests.
fn node() -> (Ingest, Receiver<FleetRequest>, Sender<FleetReply>) {
    let store = Store::new(usize::try_from(BUDGET_BYTES).expect("small"));
    let shared = Arc::new(Shared::new(Env::system().clock, store.shared()));
    let name = || "n1".to_string();
    let identity = Identity {
        node: name(),
        queue: "rdb".to_string(),
        port: 1,
        group: "g".to_string(),
        instance: name(),
        process: String::new(),
    };
    let ((request_sender, requests), (answers, answer_receiver)) = (channel(), channel());
    let meter = Meter::of_budget(BUDGET_BYTES);
    let ingest = Ingest::new(
        Env::system(),
        Arc::new(options()),
        identity,
        shared,
        store,
        meter,
        (request_sender, answer_receiver),
    );
    (ingest.expect("a budget needs no figures of the system"), requests, answers)
}

/// The lists of joined instances that a node has sent to its fleet thread.
fn watched(requests: &Receiver<FleetRequest>) -> Vec<Vec<String>> {
    let joined = |request| match request {
        FleetRequest::Joined(names) => Some(names),
        _ => None,
    };
    requests.try_iter().filter_map(joined).collect()
}

#[test]
fn a_node_that_has_rolled_watches_launches_while_its_tickerplant_says_so() {
    let (mut node, requests, _answers) = node();
    let joined = || vec!["n1".to_string(), "n2".to_string()];
    node.step(PolicyEvent::BecameLive);
    node.react(ToNode::Group { desired: 2, joined: joined() });
    node.step(PolicyEvent::Memory { used_bytes: BUDGET_BYTES, budget_bytes: BUDGET_BYTES });
    assert_eq!(watched(&requests), [vec![], joined(), vec![]], "what it knew is of the time before it rolled");
    node.react(ToNode::Group { desired: 3, joined: joined() });
    node.react(ToNode::Group { desired: 3, joined: Vec::new() });
    assert_eq!(watched(&requests), [joined(), vec![]]);
}

#[test]
fn a_request_under_way_is_for_fewer_nodes_once_fewer_are_needed() {
    let (mut node, requests, _answers) = node();
    node.step(PolicyEvent::BecameLive);
    for desired in [3, 2, 2] {
        node.react(ToNode::Group { desired, joined: vec!["n1".to_string()] });
    }
    let fewer: Vec<FleetRequest> =
        requests.try_iter().filter(|request| matches!(request, FleetRequest::AtMost(_))).collect();
    assert_eq!(fewer, [FleetRequest::AtMost(2)]);
}

#[test]
fn the_end_of_the_day_clears_requests_to_the_fleet() {
    let (mut node, requests, _answers) = node();
    node.react(ToNode::End { date: 10_957 });
    assert!(requests.try_iter().any(|request| request == FleetRequest::DayEnd));
}

/// A node of elastick's tickerplant on a day, with the day that it was in when it joined.
pub(super) fn node_on(date: i32, missed_date: Option<i32>) -> (Ingest, Receiver<FleetRequest>, Sender<FleetReply>) {
    let (mut node, requests, answers) = node();
    node.link.set_dialect(Dialect::Elastick);
    missed_date.into_iter().chain([date]).for_each(|date| node.day.joined(date, 0));
    (node, requests, answers)
}

#[test]
fn the_end_of_a_day_that_was_missed_is_heeded_after_joining_on_the_next() {
    let (mut node, requests, _answers) = node_on(10_958, Some(10_957));
    node.react(ToNode::End { date: 10_957 });
    assert!(requests.try_iter().any(|request| request == FleetRequest::DayEnd));
}

#[test]
fn the_end_of_a_day_before_this_node_came_is_not_its_own() {
    let (mut node, requests, _answers) = node_on(10_958, None);
    node.react(ToNode::End { date: 10_957 });
    assert!(requests.try_iter().all(|request| request != FleetRequest::DayEnd));
}

/// Passes one message to a node.
fn deliver(node: &mut Ingest, kind: MessageKind, build: impl FnOnce(&mut Writer<'_>)) {
    let bytes = message::message(kind, build).expect("it is small");
    let mut frames = FrameReader::new(Limits::default());
    frames.extend(&bytes);
    let (header, body) = frames.next().expect("it is whole").expect("it is there");
    node.message(&header, &body[HEADER_BYTES..]);
}

#[test]
fn a_day_that_ends_before_the_node_knows_its_date_ends_for_the_node_too() {
    let (mut node, requests, _answers) = node_on(10_957, None);
    node.intake.open(0, None);
    node.step(PolicyEvent::BecameLive);
    node.react(ToNode::End { date: 10_957 });
    node.turn().expect("it requests the date");
    // Sent already; the response is about the day after it.
    deliver(&mut node, MessageKind::Async, |writer| {
        writer.list_head(2);
        writer.symbol(".u.end");
        writer.atom_date(10_958);
    });
    deliver(&mut node, MessageKind::Response, |writer| writer.atom_date(10_959));
    node.turn().expect("nothing is wrong");
    assert_eq!(requests.try_iter().filter(|request| *request == FleetRequest::DayEnd).count(), 2);
    assert_eq!(node.day.date(), Some(10_959));
}

#[test]
fn a_node_that_is_fed_another_update_than_the_next_resumes_over_another_connection() {
    let (mut node, _requests, _answers) = node_on(10_957, None);
    node.intake.open(3, None);
    node.step(PolicyEvent::BecameLive);
    let update = Update { table: b"trade", names: None, count: 0, objects: &[], index: Some(5) };
    assert!(!node.feed(&update));
    let turned = node.turn();
    assert!(matches!(turned, Err(Fault::Surprise(_))), "{turned:?}");
    node.ended(turned);
    let open = node.intake.open_window().map(|open| (open.window.first, open.window.next));
    assert_eq!((open, node.progress.counters().resyncs), (Some((3, 3)), 1), "with what it has");
}

#[test]
fn a_draining_node_gives_back_new_windows() {
    let (mut node, _requests, _answers) = node();
    node.step(PolicyEvent::DayEnd);
    assert_eq!(node.policy.phase(), Phase::Terminated);
    let (tables, date, log, samples) = (Vec::new(), 10_957, None, Vec::new());
    node.react(ToNode::Live(Live { first: 3, tip: 9, position: None, log, date, epoch: 1, tables, samples }));
    assert!(node.intake.open_window().is_none());
    let mut expected = Vec::new();
    FromNode::Rolling { next: 3, proof: Proof::new(), date: Some(10_957) }.append(&mut expected).expect("it is small");
    assert!(node.take_output().ends_with(&expected), "it rolls where its window begins");
}

#[test]
fn a_draining_node_gives_back_a_window_of_a_tickerplant_in_q() {
    let (mut node, _requests, answers) = node();
    node.link.set_dialect(Dialect::Paper);
    node.step(PolicyEvent::DayEnd);
    assert_eq!(node.policy.phase(), Phase::Terminated);
    node.react(ToNode::Replay(Replay { tables: Vec::new(), log: None, first: 3, tip: 9 }));
    let mut expected = Vec::new();
    foreign::append_paper_roll(&mut expected, 3).expect("it is small");
    assert!(node.take_output().ends_with(&expected), "it rolls where its window begins");
    answers.send(FleetReply::TerminateRefused).expect("the node listens");
    node.watch();
    assert!(node.intake.open_window().is_none());
    assert_eq!(node.policy.phase(), Phase::Waiting, "its fleet keeps it, and it holds nothing");
}

#[test]
fn a_node_that_its_fleet_keeps_joins_again_on_a_new_connection_if_it_has_got_a_window() {
    let (mut node, _requests, answers) = node();
    greeted(&mut node);
    node.link.set_dialect(Dialect::Elastick);
    node.step(PolicyEvent::DayEnd);
    answers.send(FleetReply::TerminateRefused).expect("the node listens");
    node.watch();
    let (tables, date, log, samples) = (Vec::new(), 10_957, None, Vec::new());
    node.react(ToNode::Live(Live { first: 3, tip: 9, position: None, log, date, epoch: 1, tables, samples }));
    assert!(node.intake.open_window().is_some());
    let turned = node.turn();
    assert!(matches!(&turned, Err(Fault::JoinsAgain(_))), "{turned:?}");
}

/// A node whose window of the table `a`, of longs, begins at 3.
pub(super) fn node_with_a_window() -> (Ingest, Receiver<FleetRequest>, Sender<FleetReply>) {
    let (mut node, requests, answers) = node_on(10_957, None);
    let column = ColumnSchema { name: symbol("n"), ty: 7, attr: Attr::None };
    let tables = vec![Schema { name: symbol("a"), keys: 0, columns: vec![column] }];
    node.react(ToNode::Live(Live {
        first: 3,
        tip: 3,
        position: None,
        log: None,
        date: 10_957,
        epoch: 1,
        tables,
        samples: Vec::new(),
    }));
    (node, requests, answers)
}

/// Marks the connection as joined.
pub(super) fn greeted(node: &mut Ingest) {
    node.link.opened(true, Instant::now());
    node.link.joined();
}

/// An update of the table `a` with two rows.
pub(super) fn two_longs(index: u64) -> Update<'static> {
    const OBJECTS: [u8; 22] = [7, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    Update { table: b"a", names: None, count: 1, objects: &OBJECTS, index: Some(index) }
}

fn symbol(name: &str) -> Sym {
    intern(name.as_bytes()).expect("there is room")
}

#[test]
fn a_window_of_which_the_log_showed_a_part_is_rebuilt_once_the_rest_was_streamed() {
    let (mut node, ..) = node_with_a_window();
    let (log, date, hidden, samples) = (None, 10_957, false, Vec::new());
    assert!(node.react(ToNode::Rebuild(Rebuild { first: 3, last: 5, log, date, hidden, samples })));
    assert!(node.feed(&two_longs(3)));
    node.begin_replay(None, Vec::new(), 4, 5);
    assert!(node.feed(&two_longs(4)));
    assert!(node.react(ToNode::Streamed { first: 4, last: 5 }));
    assert!(node.intake.open_window().is_none(), "it is whole");
}

#[test]
fn a_window_is_shown_before_its_first_rows() {
    let (node, ..) = node_with_a_window();
    let shown = node.shared.view().state;
    assert_eq!(shown.windows.iter().map(|shown| (shown.window.first, shown.open)).collect::<Vec<_>>(), [(3, true)]);
}

#[test]
fn a_query_does_not_see_later_updates() {
    let (mut node, ..) = node_with_a_window();
    let before = node.shared.view();
    assert!(node.feed(&two_longs(3)));
    let rows = |moment: &Moment| moment.table(symbol("a")).map(|table| table.count());
    assert_eq!((rows(&before), rows(&node.shared.view())), (Some(0), Some(2)));
}

/// Passes a join response of a tickerplant with this log, epoch and writer to a node.
fn joined(node: &mut Ingest, log: u64, epoch: i64, writer: u64, drop: bool) -> Result<(), Fault> {
    node.opened(true).expect("it failures to join");
    deliver(node, MessageKind::Response, |w| {
        w.dict_head();
        w.symbols(["epoch", "date", "tip", "log", "tables", "drop", "id", "writer"]);
        w.list_head(8);
        w.atom_long(epoch);
        w.atom_date(10_957);
        w.atom_long(9);
        w.symbol(":/data/sym2030.01.01");
        w.list_head(1);
        w.list_head(2);
        w.symbol("a");
        w.table_head(["n"]);
        w.vector(proto::types::LONG, 0, &[] as &[i64]);
        w.atom_bool(drop);
        w.symbol(format!("{log:016x}"));
        w.symbol(format!("{writer:016x}"));
    });
    node.turn()
}

#[test]
fn a_lower_epoch_of_another_log_is_no_old_writer_and_its_rows_are_other_rows() {
    let (mut node, ..) = node_with_a_window();
    joined(&mut node, 1, 7, 1, false).expect("the first that it learns of");
    assert!(node.feed(&two_longs(3)));
    joined(&mut node, 2, 1, 1, true).expect("an emptied directory");
    assert!(node.intake.open_window().is_none() && node.intake.rows() == 0);
    assert_eq!(node.log.writer().map(|of| (of.log.0, of.epoch)), Some((2, 1)));
}

#[test]
fn a_log_that_became_another_while_the_tickerplant_takes_the_rows_for_its_own_is_joined_anew_with_nothing() {
    let (mut node, ..) = node_with_a_window();
    joined(&mut node, 1, 7, 1, false).expect("the first that it learns of");
    let result = joined(&mut node, 2, 8, 1, false);
    assert!(matches!(result, Err(Fault::JoinsAgain(_))), "{result:?}");
    assert!(node.intake.open_window().is_none());
}

#[test]
fn an_old_writer_of_the_same_log_is_rejected_and_health_says_so() {
    let (mut node, ..) = node_with_a_window();
    joined(&mut node, 1, 7, 1, false).expect("the first that it learns of");
    let health = |node: &Ingest| {
        let name = |text: &str| crate::table::symbol::intern(text.as_bytes()).expect("room for a symbol");
        let policy = node.options.policy.clone();
        let constants = crate::rdb::report::Constants {
            node: name("n1"),
            queue: name("rdb"),
            port: 0,
            policy,
            instance: String::new(),
            group: String::new(),
        };
        crate::rdb::figures::health(&node.shared, &constants, &node.options.limits, &[])
    };
    assert!(health(&node).is_ok());
    let result = joined(&mut node, 1, 6, 3, false);
    assert!(matches!(result, Err(Fault::Connection(_))), "{result:?}");
    assert!(health(&node).level() == Level::Failed && health(&node).to_string().contains("replaced"));
    assert!(node.intake.open_window().is_some(), "its rows are of the writer that replaced that one");
    joined(&mut node, 1, 8, 4, false).expect("the next writer");
    assert!(health(&node).is_ok());
}

#[test]
fn a_log_that_was_moved_is_retried_at_growing_intervals() {
    let (mut node, ..) = node_with_a_window();
    let mut failures = |times: u32| -> Vec<Duration> {
        (0..times).map(|_| node.ended(Err(Fault::NoLog("nothing is there".to_string())))).collect()
    };
    let pauses = failures(20);
    assert!(pauses.is_sorted() && pauses.iter().skip(10).all(|pause| *pause == PAUSE_WITHOUT_LOG), "{pauses:?}");
    assert!(
        pauses.iter().take(3).sum::<Duration>() < MAX_PAUSE,
        "a log that comes soon is not waited for long: {pauses:?}"
    );
}
