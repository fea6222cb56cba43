//! Nodes that are full before their first row, and nodes that make no progress.

use super::tests::{BUDGET_BYTES, greeted, node_on, node_with_a_window, two_longs};
use super::*;
use crate::log::Proof;
use crate::protocol::{FromNode, Live, Rebuild, ToNode};
use crate::rdb::update::Update;

const DATE: i32 = 10_957;

/// Fills a node's memory with what a query or a client's variable would use.
fn fill(node: &mut Ingest, percent: u64) {
    let bytes = BUDGET_BYTES / 100 * percent;
    node.shared.global_bytes.store(bytes.cast_signed(), std::sync::atomic::Ordering::Relaxed);
    node.watch();
}

fn live(node: &mut Ingest, first: u64, tip: u64) {
    let tables = node.intake.store().schemas().cloned().collect();
    node.react(ToNode::Live(Live {
        first,
        tip,
        position: Some(1),
        log: None,
        date: DATE,
        epoch: 1,
        tables,
        samples: Vec::new(),
    }));
}

/// Returns whether the node sent a roll at `next` without having taken an update.
fn gives_back(node: &mut Ingest, next: u64) -> bool {
    let mut roll = Vec::new();
    FromNode::Rolling { next, proof: Proof::new(), date: Some(DATE) }.append(&mut roll).expect("it is small");
    let sent = node.take_output();
    sent.windows(roll.len()).any(|part| part == roll)
}

/// The node is to rebuild the window [3,7), of which it can read no log.
fn rebuild(node: &mut Ingest, hidden: bool) {
    let (first, last, samples) = (3, 7, Vec::new());
    node.react(ToNode::Rebuild(Rebuild { first, last, log: None, date: DATE, hidden, samples }));
}

#[test]
fn a_full_node_that_is_made_live_gives_its_window_back_and_waits() {
    let (mut node, requests, _answers) = node_on(DATE, None);
    fill(&mut node, 80);
    live(&mut node, 3, 9);
    assert!(gives_back(&mut node, 3), "the tickerplant is notified");
    assert_eq!((node.policy.phase(), node.intake.open_window()), (Phase::Waiting, None));
    assert_eq!(node.progress.counters().windows_declined, 1);
    assert!(
        requests.try_iter().any(|request| matches!(request, FleetRequest::AtLeast(_))),
        "another node is requested"
    );
    fill(&mut node, 0);
    live(&mut node, 3, 9);
    assert_eq!((node.policy.phase(), node.intake.next()), (Phase::Live, Some(3)), "with room it is live");
}

#[test]
fn a_full_node_that_is_to_rebuild_gives_the_window_back_and_waits() {
    let (mut node, _requests, _answers) = node_on(DATE, None);
    fill(&mut node, 90);
    rebuild(&mut node, false);
    assert!(gives_back(&mut node, 3));
    assert_eq!((node.policy.phase(), node.intake.open_window()), (Phase::Waiting, None));
}

#[test]
fn a_node_that_gave_back_a_hidden_rebuild_shows_its_next_window() {
    let (mut node, ..) = node_with_a_window();
    node.step(PolicyEvent::Dropped);
    fill(&mut node, 90);
    rebuild(&mut node, true);
    assert_eq!(node.policy.phase(), Phase::Waiting);
    fill(&mut node, 0);
    live(&mut node, 7, 7);
    assert!(node.feed(&two_longs(7)));
    let shown = node.shared.view().state;
    assert_eq!(shown.windows.iter().map(|shown| (shown.window.first, shown.open)).collect::<Vec<_>>(), [(7, true)]);
}

#[test]
fn a_node_whose_only_window_goes_elsewhere_waits_again() {
    let (mut node, ..) = node_with_a_window();
    assert!(node.feed(&two_longs(3)));
    node.step(PolicyEvent::Memory { used_bytes: BUDGET_BYTES, budget_bytes: BUDGET_BYTES });
    assert_eq!(node.policy.phase(), Phase::Rolled);
    node.react(ToNode::Recheck { first: 3, last: 4 });
    assert_eq!((node.policy.phase(), node.intake.rows()), (Phase::Waiting, 0));
}

/// Ends connections at the same update.
fn fail(node: &mut Ingest, times: u32, fault: impl Fn() -> Fault) {
    for _ in 0..times {
        greeted(node);
        node.ended(Err(fault()));
    }
}

fn over_a_limit() -> Fault {
    Fault::Unreadable("limit".to_string())
}

#[test]
fn a_live_node_that_cannot_receive_an_update_hands_its_window_on() {
    let (mut node, requests, _answers) = node_with_a_window();
    assert!(node.feed(&two_longs(3)));
    fail(&mut node, 2, over_a_limit);
    assert_eq!((node.policy.phase(), node.intake.next()), (Phase::Live, Some(4)));
    fail(&mut node, 1, over_a_limit);
    let held: Vec<_> = node.intake.held().iter().map(|held| (held.first, held.next)).collect();
    assert_eq!((node.policy.phase(), held), (Phase::Rolled, vec![(3, 4)]), "the next join says where it ends");
    assert!(requests.try_iter().any(|request| matches!(request, FleetRequest::AtLeast(_))));
}

#[test]
fn an_update_that_this_node_cannot_receive_either_is_left_out() {
    let (mut node, ..) = node_with_a_window();
    fail(&mut node, 3, over_a_limit);
    live(&mut node, 3, 9);
    assert_eq!((node.intake.next(), node.progress.counters().updates_left_out), (Some(4), 1));
    assert!(node.feed(&two_longs(4)), "what comes behind it is taken");
}

#[test]
fn a_live_node_that_resumes_claims_to_be_behind_an_update_that_it_cannot_receive() {
    let (mut node, ..) = node_with_a_window();
    fail(&mut node, 3, over_a_limit);
    assert_eq!(node.intake.next(), Some(3));
    node.opened(true).expect("it can ask");
    assert_eq!((node.intake.next(), node.progress.counters().updates_left_out), (Some(4), 1), "it is fed from there");
}

#[test]
fn a_rebuild_that_always_ends_at_one_update_keeps_what_it_has() {
    let (mut node, ..) = node_with_a_window();
    for _ in 0..3 {
        greeted(&mut node);
        rebuild(&mut node, false);
        assert!(node.feed(&two_longs(3)));
        node.ended(Err(over_a_limit()));
    }
    let held: Vec<_> = node.intake.held().iter().map(|held| (held.first, held.next)).collect();
    assert_eq!((node.policy.phase(), held), (Phase::Rolled, vec![(3, 4)]));
}

#[test]
fn connections_that_break_with_nothing_to_take_are_no_lack_of_progress() {
    let (mut node, ..) = node_with_a_window();
    fail(&mut node, 20, || Fault::Connection("closed".to_string()));
    assert_eq!(node.policy.phase(), Phase::Live);
    node.day.began_undated(5);
    fail(&mut node, 7, || Fault::Connection("closed".to_string()));
    assert_eq!(node.policy.phase(), Phase::Live);
    fail(&mut node, 1, || Fault::Connection("closed".to_string()));
    assert_eq!(
        (node.policy.phase(), node.progress.counters().windows_given_up),
        (Phase::Waiting, 1),
        "with nothing it waits again"
    );
}

#[test]
fn an_update_larger_than_an_empty_node_is_left_out() {
    let (mut node, ..) = node_with_a_window();
    let rows = usize::try_from(BUDGET_BYTES).expect("small");
    let mut objects = vec![7, 0];
    objects.extend_from_slice(&u32::try_from(rows).expect("small").to_le_bytes());
    objects.resize(6 + rows * 8, 0);
    let large = Update { table: b"a", names: None, count: 1, objects: &objects, index: Some(4) };
    assert!(node.feed(&two_longs(3)));
    node.feed(&large);
    assert_eq!((node.policy.phase(), node.intake.next()), (Phase::Live, Some(5)), "no node would do better");
    assert_eq!((node.progress.counters().updates_left_out, node.intake.rows()), (1, 2));
    assert!(node.feed(&two_longs(5)));
}
