//! One test per rule of assigning and handing off windows.

use super::*;

#[test]
fn the_first_is_live_from_0_and_the_second_waits() {
    let mut b = Bench::new();
    b.publish(100);
    assert_eq!(b.join(1, "a"), [joined(1), live(1, 0, 100)]);
    assert_eq!(b.join(2, "b"), [joined(2)]);
    assert_eq!((b.state(1), b.state(2)), (State::Live, State::Waiting));
}

#[test]
fn a_roll_closes_the_window_and_makes_the_longest_waiting_standby_live() {
    let mut b = Bench::of_nodes(3);
    assert_eq!(b.roll(1, 90), [stop(1), verify(1, w(0, 90)), live(2, 90, 100)]);
    assert_eq!(b.held(1), [w(0, 90)]);
    assert_eq!((b.state(1), b.state(2), b.state(3)), (State::Rolled, State::Live, State::Waiting));
}

#[test]
fn nodes_that_stay_missing_are_requested_again() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    b.roll(1, 90);
    assert_eq!(b.pass(30 * S - 1), []);
    assert_eq!(b.queue.next_deadline_ns(), Some(b.now_ns + 1));
    assert_eq!(b.pass(1), [need(1, 2, Some(1))]);
    assert_eq!(b.pass(30 * S), [need(1, 2, Some(1))]);
    b.join(2, "b");
    assert_eq!(b.queue.next_deadline_ns(), None);
    assert_eq!(b.pass(30 * S), []);
}

#[test]
fn missing_nodes_are_reported_to_another_node_if_the_first_stays_silent() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 30);
    b.roll(2, 60);
    b.disconnect(1);
    assert_eq!(b.pass(2 * S), [need(1, 3, Some(3))]);
    assert_eq!(b.pass(30 * S), [need(1, 3, Some(2))]);
    assert_eq!(b.pass(30 * S - 1), [], "the number sent to the other node stands");
    assert_eq!(b.pass(1), [need(1, 3, Some(3))], "the live one has its turn again");
    b.pass(30 * S);
    assert_eq!(b.disconnect(2), [need(1, 3, Some(3))], "the other node may not have received it");
}

#[test]
fn without_a_standby_the_next_node_starts_where_the_last_one_ended() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    assert_eq!(b.roll(1, 90), [stop(1), verify(1, w(0, 90)), need(1, 2, Some(1))]);
    b.publish(50);
    assert_eq!(b.join(2, "b"), [joined(2), live(2, 90, 150)]);
}

#[test]
fn a_roll_sent_twice_changes_nothing() {
    let mut b = Bench::rolled();
    assert_eq!(b.roll(1, 95), []);
    assert_eq!(b.held(1), [w(0, 90)]);
    assert_eq!(b.state(2), State::Live);
}

#[test]
fn a_roll_of_a_node_that_is_not_live_is_rejected_and_changes_nothing() {
    let mut b = Bench::of_nodes(2);
    let before = b.queue.snapshot();
    assert_eq!(b.roll(2, 50), [refused(2, QueueError::NotReceiving("waiting"))]);
    assert_eq!(b.roll(9, 50), [refused(9, QueueError::NotSubscribed)]);
    assert_eq!(b.queue.snapshot().changes, before.changes);
}

#[test]
fn a_roll_beyond_the_tip_is_brought_back_to_it() {
    let mut b = Bench::of_nodes(2);
    assert_eq!(b.roll(1, 500), [stop(1), verify(1, w(0, 100)), live(2, 100, 100)]);
}

#[test]
fn a_roll_before_the_window_leaves_all_of_it_to_the_next() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 50);
    assert_eq!(b.roll(2, 20), [stop(2), live(3, 50, 100)]);
    assert_eq!(b.held(2), []);
}

#[test]
fn a_live_node_resumes_within_its_grace() {
    let mut b = Bench::of_nodes(2);
    assert_eq!(b.disconnect(1), []);
    assert_eq!(b.pass(2 * S - 1), []);
    assert_eq!(b.step(rejoining(3, "a", &[], Some((0, 70)))), [joined(3), resume(3, 70)]);
    assert_eq!(b.state(2), State::Waiting);
}

#[test]
fn after_the_grace_the_next_takes_the_whole_window() {
    let mut b = Bench::of_nodes(2);
    b.disconnect(1);
    assert_eq!(b.queue.next_deadline_ns(), Some(b.now_ns + 2 * S));
    assert_eq!(b.pass(2 * S), [live(2, 0, 100)]);
}

#[test]
fn a_wall_clock_that_is_set_changes_no_grace_and_no_repetition() {
    const YEAR: i64 = 365 * 86_400 * S;
    for step_ns in [-3_600 * S, 3_600 * S, -10 * YEAR, 10 * YEAR] {
        let mut b = Bench::new();
        b.join(1, "a");
        b.join(2, "b");
        b.publish(100);
        b.disconnect(1);
        b.wall_ahead_ns += step_ns;
        assert_eq!(b.pass(2 * S - 1), []);
        assert_eq!(b.pass(1), [live(2, 0, 100)], "the clock set by {step_ns}");
        assert_eq!(b.queue.by_handle(Handle(2)).and_then(|s| s.live_ns), Some(b.now().wall_ns));
        b.step(QueueEvent::Roll { handle: Handle(2), next: i(100), date: TODAY });
        let again_ns = b.queue.next_deadline_ns().expect("a node is missing");
        b.wall_ahead_ns -= step_ns;
        assert_eq!(b.pass(again_ns - b.now_ns), [need(1, 2, Some(2))], "the clock set back by {step_ns}");
    }
}

#[test]
fn after_a_reboot_every_grace_begins_anew_whatever_the_journal_has_of_the_last_steady_clock() {
    let mut b = Bench::new();
    b.now_ns = 1_000_000 * S;
    b.join(1, "a");
    b.join(2, "b");
    b.publish(100);
    b.disconnect(1);
    b.queue = b.restored();
    b.now_ns = S;
    b.step(QueueEvent::Restored);
    assert_eq!(b.queue.next_deadline_ns(), Some(31 * S));
    assert_eq!(b.step(rejoining(3, "b", &[], None)), [joined(3)]);
    assert_eq!(b.pass(30 * S), [live(3, 0, 100)]);
}

#[test]
fn someone_without_an_identity_has_no_grace() {
    let mut b = Bench::new();
    b.subscribe(1, "rdb");
    b.subscribe(2, "rdb");
    b.publish(100);
    assert_eq!(b.disconnect(1), [live(2, 0, 100)]);
}

#[test]
fn a_live_node_without_a_successor_takes_up_where_it_was_even_after_its_grace() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    b.disconnect(1);
    assert_eq!(b.pass(60 * S), [need(1, 1, None)]);
    assert_eq!(b.step(rejoining(3, "a", &[], Some((0, 70)))), [joined(3), resume(3, 70)]);
}

#[test]
fn a_lost_window_is_rebuilt_by_the_next_standby() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 90);
    assert_eq!(b.disconnect(1), []);
    assert_eq!(b.pass(2 * S), [rebuild(3, w(0, 90))]);
    assert_eq!(b.state(2), State::Live, "the live one stays as it is");
    assert_eq!(b.rebuilt(3, w(0, 90)), [verify(3, w(0, 90))]);
    assert_eq!((b.state(3), b.held(3)), (State::Rolled, vec![w(0, 90)]));
}

#[test]
fn a_lost_window_waits_for_the_next_node_and_one_is_requested() {
    let mut b = Bench::rolled();
    b.disconnect(1);
    assert_eq!(b.pass(2 * S), [need(1, 2, Some(2))]);
    assert_eq!(b.pass(29 * S), [], "said once");
    assert_eq!(b.lost("rdb"), [w(0, 90)]);
    assert_eq!(b.join(3, "c"), [joined(3), rebuild(3, w(0, 90))]);
}

#[test]
fn the_live_window_comes_before_lost_ones() {
    let mut b = Bench::rolled();
    b.disconnect(1);
    b.disconnect(2);
    assert_eq!(b.pass(2 * S), [need(2, 2, None)]);
    assert_eq!(b.join(3, "c"), [joined(3), live(3, 90, 100), need(1, 2, Some(3))]);
    assert_eq!(b.join(4, "d"), [joined(4), rebuild(4, w(0, 90))]);
}

#[test]
fn a_rebuild_that_does_not_fit_is_split() {
    let mut b = Bench::with_lost_window();
    b.join(3, "c");
    assert_eq!(b.roll(3, 40), [stop(3), verify(3, w(0, 40)), need(1, 3, Some(2))]);
    assert_eq!(b.held(3), [w(0, 40)]);
    assert_eq!(b.join(4, "d"), [joined(4), rebuild(4, w(40, 90))]);
}

#[test]
fn a_rebuilding_node_that_dies_gives_the_window_back() {
    let mut b = Bench::with_lost_window();
    b.join(3, "c");
    b.join(4, "d");
    b.disconnect(3);
    assert_eq!(b.pass(2 * S), [rebuild(4, w(0, 90))]);
}

#[test]
fn a_finished_rebuild_reported_twice_changes_nothing() {
    let mut b = Bench::with_lost_window();
    b.join(3, "c");
    b.rebuilt(3, w(0, 90));
    assert_eq!(b.rebuilt(3, w(0, 90)), []);
    assert_eq!(b.held(3), [w(0, 90)]);
}

#[test]
fn a_rebuild_of_another_window_is_not_believed() {
    let mut b = Bench::with_lost_window();
    b.join(3, "c");
    assert_eq!(b.rebuilt(3, w(0, 80)), []);
    assert_eq!(b.state(3), State::Rebuilding { window: w(0, 90), rejections: 0 });
}

#[test]
fn a_proof_that_holds_is_shown() {
    let mut b = Bench::rolled();
    assert_eq!(b.queue.rows()[0].verified, Verified::Unknown);
    assert_eq!(b.proved(1, w(0, 90), true), []);
    assert_eq!(b.queue.rows()[0].verified, Verified::Yes);
}

#[test]
fn a_window_whose_proof_differs_is_dropped_there_and_rebuilt_elsewhere() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 90);
    let recheck = Action::Recheck { handle: Handle(1), window: w(0, 90) };
    assert_eq!(b.proved(1, w(0, 90), false), [recheck, rebuild(3, w(0, 90))]);
    assert_eq!(b.held(1), []);
    assert_eq!(b.queue.rows()[0].verified, Verified::No);
}

#[test]
fn a_proof_that_differs_raises_an_alarm_that_names_the_window() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    b.roll(1, 90);
    let event = QueueEvent::Proved { handle: Handle(1), window: w(0, 90), date: TODAY, ok: false };
    let alarm = Note::new("the node's window differs from the log");
    let alarm = Action::Alarm(alarm.queue(&QueueName(b"rdb".to_vec())).node("a").window(w(0, 90)).date(TODAY));
    assert!(b.all(event).contains(&alarm));
}

#[test]
fn a_window_without_a_proof_is_rebuilt_elsewhere() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 90);
    let unproved = |handle, window| QueueEvent::Unproved { handle: Handle(handle), window, date: TODAY };
    assert_eq!(b.all(unproved(1, w(0, 80))), [], "it does not hold this window");
    let recheck = Action::Recheck { handle: Handle(1), window: w(0, 90) };
    assert_eq!(b.step(unproved(1, w(0, 90))), [recheck, rebuild(3, w(0, 90))]);
    assert_eq!(b.held(1), []);
}

#[test]
fn a_window_that_was_proved_in_time_stays() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    b.roll(1, 90);
    b.proved(1, w(0, 90), true);
    assert_eq!(b.all(QueueEvent::Unproved { handle: Handle(1), window: w(0, 90), date: TODAY }), []);
}

#[test]
fn rebuilding_for_a_proof_that_never_holds_comes_to_an_end() {
    let mut b = Bench::rolled();
    b.proved(1, w(0, 90), false);
    for handle in 3..6 {
        b.join(handle, &format!("n{handle}"));
        b.rebuilt(handle, w(0, 90));
        b.proved(handle, w(0, 90), false);
    }
    assert_eq!(b.held(5), [w(0, 90)], "kept in the end");
    assert_eq!(b.queue.rows().last().map(|row| row.verified), Some(Verified::No));
    assert_eq!(b.lost("rdb"), []);
}

#[test]
fn a_proof_of_an_open_window_changes_nothing() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    let before = b.queue.snapshot();
    assert_eq!(b.proved(1, w(0, 90), false), []);
    assert_eq!(b.proved(7, w(0, 90), false), []);
    assert_eq!(b.queue.snapshot().changes, before.changes);
}

#[test]
fn queues_are_independent() {
    let mut b = Bench::new();
    assert_eq!(b.subscribe(1, "big"), [live(1, 0, 0)]);
    assert_eq!(b.subscribe(2, "small"), [live(2, 0, 0)]);
    assert_eq!(b.subscribe(3, "big"), []);
    b.publish(100);
    assert_eq!(b.roll(2, 60).first(), Some(&stop(2)));
    assert_eq!((b.state(1), b.state(3)), (State::Live, State::Waiting));
    assert_eq!(b.subscribe(4, "small"), [live(4, 60, 100)]);
}

#[test]
fn a_waiting_node_keeps_its_place_over_a_short_cut_only() {
    let mut b = Bench::new();
    for (handle, node) in [(1, "a"), (2, "b"), (3, "c")] {
        b.join(handle, node);
    }
    b.publish(10);
    b.disconnect(2);
    b.step(rejoining(4, "b", &[], None));
    b.disconnect(4);
    assert_eq!(b.roll(1, 10), [stop(1), verify(1, w(0, 10)), live(3, 10, 10)], "a disconnected node is passed over");
    b.pass(2 * S);
    assert!(b.queue.subscribers().iter().all(|s| s.node != Some(NodeName(b"b".to_vec()))));
}

#[test]
fn a_connection_is_in_one_queue_once() {
    let mut b = Bench::new();
    b.subscribe(1, "big");
    assert_eq!(b.subscribe(1, "big"), [refused(1, QueueError::AlreadySubscribed(q("big")))]);
    assert_eq!(b.subscribe(1, "small"), [refused(1, QueueError::AlreadySubscribed(q("big")))]);
    assert_eq!(b.join(1, "a"), [refused(1, QueueError::AlreadySubscribed(q("big")))]);
}

#[test]
fn the_number_of_subscribers_is_limited() {
    let mut b = Bench::with(Params { subscribers_max: 2, ..Params::default() });
    b.subscribe(1, "rdb");
    b.join(2, "a");
    assert_eq!(b.join(3, "b"), [refused(3, QueueError::TooManySubscribers(2))]);
    assert_eq!(b.subscribe(3, "rdb"), [refused(3, QueueError::TooManySubscribers(2))]);
    b.disconnect(2);
    assert_eq!(b.join(3, "a"), [joined(3)], "a node that comes back is not one more");
}

#[test]
fn the_number_of_queues_is_limited() {
    let mut b = Bench::with(Params { queues_max: 1, ..Params::default() });
    b.subscribe(1, "rdb");
    assert_eq!(b.subscribe(2, "other"), [refused(2, QueueError::TooManyQueues(1))]);
}

#[test]
fn an_empty_queue_without_windows_is_removed() {
    let mut b = Bench::with(Params { queues_max: 1, lost_rows_max: 0, ..Params::default() });
    b.subscribe(1, "rdb");
    b.disconnect(1);
    assert!(b.queue.lines().is_empty());
    assert_eq!(b.subscribe(2, "other"), [live(2, 0, 0)]);
}

#[test]
fn rows_of_the_lost_are_limited() {
    let mut b = Bench::with(Params { lost_rows_max: 3, ..Params::default() });
    for handle in 0..10 {
        b.subscribe(handle, "rdb");
        b.disconnect(handle);
    }
    assert_eq!(b.queue.rows().len(), 3);
    assert!(b.queue.rows().iter().all(|row| row.state == "lost" && row.handle.is_none()));
}

#[test]
fn a_status_is_shown_and_decides_nothing() {
    let mut b = Bench::new();
    b.join(1, "a");
    let records = b.records.len();
    let status = Status { memory_percent: Some(61.5), rows: Some(12), bytes: Some(900), ..Status::default() };
    assert_eq!(b.step(QueueEvent::Status { handle: Handle(1), status }), []);
    let row = &b.queue.rows()[0];
    assert_eq!((row.memory_percent, row.rows, row.bytes, row.port), (Some(61.5), Some(12), Some(900), Some(5011)));
    assert_eq!(b.records.len(), records, "and is not journalled");
}

#[test]
fn a_row_shows_the_windows_as_the_paper_prints_them() {
    let mut b = Bench::new();
    b.subscribe(7, "rdb");
    b.subscribe(9, "rdb");
    b.publish(9_800);
    b.roll(7, 9_746);
    let shown: Vec<_> = b.queue.rows().into_iter().map(|r| (r.handle, r.first_index, r.last_index, r.state)).collect();
    assert_eq!(shown, [(Some(7), Some(i(0)), Some(i(9_746)), "rolled"), (Some(9), Some(i(9_746)), None, "live")]);
}

#[test]
fn the_position_counts_native_nodes_that_take_part() {
    let mut b = Bench::new();
    for (handle, node) in [(1, "a"), (2, "b"), (3, "c")] {
        b.join(handle, node);
    }
    b.subscribe(4, "rdb");
    let position = |b: &Bench| b.queue.position(b.queue.by_handle(Handle(2)).expect("in the table"));
    assert_eq!(position(&b), 1);
    b.publish(10);
    b.roll(1, 10);
    assert_eq!(position(&b), 2);
}
