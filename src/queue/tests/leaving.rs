//! Draining nodes: which node holds a window and which one serves it, at each step.

use super::*;

fn leave(handle: i32) -> QueueEvent {
    QueueEvent::Leaving { handle: Handle(handle), leaving: Leaving { by_ns: 1_000 * S, replaced: false } }
}

fn take_over(handle: i32, window: Window) -> Action {
    Action::Rebuild { handle: Handle(handle), window, hidden: true }
}

fn handed(handle: i32, window: Window) -> Action {
    Action::Handed { handle: Handle(handle), window }
}

fn show(handle: i32, window: Window) -> Action {
    Action::Show { handle: Handle(handle), window }
}

fn left(handle: i32) -> Action {
    Action::Left { handle: Handle(handle) }
}

/// `a` has rolled with `[0,90)`, `b` is live, and `c` waits.
fn three() -> Bench {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 90);
    b
}

#[test]
fn a_window_changes_hands_when_the_other_has_proved_it_and_not_before() {
    let mut b = three();
    assert_eq!(b.step(leave(1)), [take_over(3, w(0, 90))]);
    assert_eq!((b.held(1), b.held(3)), (vec![w(0, 90)], vec![]));
    assert_eq!(b.rebuilt(3, w(0, 90)), [verify(3, w(0, 90))]);
    assert_eq!((b.held(1), b.held(3)), (vec![w(0, 90)], vec![]));
    assert_eq!(b.proved(3, w(0, 90), true), [handed(1, w(0, 90)), show(3, w(0, 90)), left(1)]);
    assert_eq!(b.held(3), [w(0, 90)]);
    assert!(b.queue.by_handle(Handle(1)).is_none(), "it is no longer in the table");
}

#[test]
fn the_table_shows_draining_nodes_and_takeovers() {
    let mut b = three();
    b.step(leave(1));
    let shown: Vec<_> = b.queue.rows().iter().map(|row| (row.state, row.held.clone(), row.leaving_ns)).collect();
    let expected = [("leaving", vec![w(0, 90)], Some(1_000 * S)), ("live", vec![], None), ("taking", vec![], None)];
    assert_eq!(shown, expected);
}

#[test]
fn a_live_one_keeps_its_window_until_it_rolls_and_hands_it_on_then() {
    let mut b = three();
    assert_eq!(b.step(leave(2)), []);
    assert_eq!(b.state(2), State::Live);
    assert_eq!(b.roll(2, 100), [stop(2), verify(2, w(90, 100)), live(3, 100, 100), need(1, 4, Some(3))]);
    assert_eq!(b.join(4, "d"), [joined(4), take_over(4, w(90, 100))]);
    b.rebuilt(4, w(90, 100));
    assert_eq!(b.proved(4, w(90, 100), true), [handed(2, w(90, 100)), show(4, w(90, 100)), left(2)]);
}

#[test]
fn a_live_one_that_took_nothing_leaves_with_its_roll() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.join(2, "b");
    b.step(leave(1));
    assert_eq!(b.roll(1, 0), [stop(1), left(1), live(2, 0, 0)]);
}

#[test]
fn one_that_waits_leaves_at_once() {
    let mut b = three();
    assert_eq!(b.step(leave(3)), [left(3)]);
    assert_eq!(b.queue.subscribers().len(), 2);
}

#[test]
fn one_that_rebuilds_hands_the_window_back() {
    let mut b = three();
    b.disconnect(1);
    assert_eq!(b.pass(2 * S), [rebuild(3, w(0, 90))]);
    assert_eq!(b.step(leave(3)), [stop(3), left(3), need(1, 2, Some(2))]);
    assert_eq!(b.lost("rdb"), [w(0, 90)]);
}

#[test]
fn one_that_takes_over_and_leaves_itself_leaves_the_window_where_it_is() {
    let mut b = three();
    b.step(leave(1));
    assert_eq!(b.step(leave(3)), [stop(3), left(3), need(1, 3, Some(2))]);
    assert_eq!(b.held(1), [w(0, 90)]);
}

#[test]
fn without_a_standby_a_node_is_requested() {
    let mut b = Bench::rolled();
    assert_eq!(b.step(leave(1)), [need(1, 3, Some(2))]);
    assert_eq!(b.join(3, "c"), [joined(3), take_over(3, w(0, 90))]);
}

#[test]
fn the_open_window_and_lost_ones_are_given_first() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 40);
    b.roll(2, 90);
    b.step(leave(1));
    b.disconnect(2);
    b.pass(2 * S);
    b.roll(3, 95);
    assert_eq!(b.join(4, "d"), [joined(4), live(4, 95, 100), need(2, 5, Some(4))]);
    assert_eq!(b.join(5, "e"), [joined(5), rebuild(5, w(40, 90))]);
    assert_eq!(b.join(6, "f"), [joined(6), take_over(6, w(0, 40))]);
}

#[test]
fn a_node_being_replaced_is_not_sent_missing_nodes_while_another_is_there() {
    let mut b = three();
    b.roll(2, 95);
    let leaving = |replaced| QueueEvent::Leaving { handle: Handle(1), leaving: Leaving { by_ns: 1_000 * S, replaced } };
    b.step(leaving(true));
    b.disconnect(3);
    assert_eq!(b.pass(2 * S), [need(2, 3, Some(2))]);
    assert_eq!(b.pass(30 * S), [need(2, 3, Some(2))]);
    // A draining node that its fleet does not replace asks too, after all others.
    assert_eq!(b.step(leaving(false)), [need(2, 4, Some(2))]);
    assert_eq!(b.pass(30 * S), [need(2, 4, Some(1))]);
}

#[test]
fn one_that_takes_over_is_sent_that_window_and_nothing_else() {
    let mut b = three();
    b.step(leave(1));
    let sent = |b: &Bench, first, last| b.queue.by_handle(Handle(3)).unwrap().replays(i(first), i(last));
    assert!(sent(&b, 0, 90) && sent(&b, 40, 90));
    assert!(!sent(&b, 0, 91) && !sent(&b, 90, 40));
    b.rebuilt(3, w(0, 90));
    assert!(!sent(&b, 0, 90), "it has said that it has it");
}

#[test]
fn a_stream_requested_before_another_rebuild_is_not_sent() {
    let mut b = three();
    b.step(leave(1));
    b.disconnect(1);
    b.step(rejoining(5, "a", &[w(0, 50)], None));
    let rebuilds = b.queue.by_handle(Handle(3)).unwrap();
    assert!(!rebuilds.replays(i(0), i(90)));
    assert!(rebuilds.replays(i(50), i(90)));
    assert!(!b.queue.by_handle(Handle(2)).unwrap().replays(i(90), i(95)), "a live one is fed");
}

#[test]
fn someone_of_the_papers_kind_takes_nothing_over() {
    let mut b = Bench::rolled();
    b.subscribe(3, "rdb");
    assert_eq!(b.step(leave(1)), []);
    assert_eq!(b.state(3), State::Waiting);
    assert_eq!(b.join(4, "d"), [joined(4), take_over(4, w(0, 90))]);
}

#[test]
fn one_of_the_papers_kind_cannot_leave() {
    let mut b = Bench::new();
    b.subscribe(1, "rdb");
    assert_eq!(b.step(leave(1)), [refused(1, QueueError::NoName)]);
    assert_eq!(b.step(leave(9)), [refused(9, QueueError::NotSubscribed)]);
}

#[test]
fn a_part_that_fits_is_kept_out_of_sight_until_the_rest_is_proved() {
    let mut b = three();
    b.step(leave(1));
    // The node's roll stops what is still being sent of the window.
    assert_eq!(b.roll(3, 50), [stop(3), verify(3, w(0, 50)), need(1, 4, Some(2))]);
    assert_eq!(b.proved(3, w(0, 50), true), []);
    assert_eq!((b.held(1), b.held(3)), (vec![w(0, 90)], vec![]));
    assert_eq!(b.join(4, "d"), [joined(4), take_over(4, w(50, 90))]);
    b.rebuilt(4, w(50, 90));
    let actions = b.proved(4, w(50, 90), true);
    assert_eq!(actions, [handed(1, w(0, 90)), show(3, w(0, 50)), show(4, w(50, 90)), left(1)]);
    assert_eq!((b.held(3), b.held(4)), (vec![w(0, 50)], vec![w(50, 90)]));
}

#[test]
fn a_proof_that_differs_sends_the_same_node_back_to_the_log() {
    let mut b = three();
    b.step(leave(1));
    for _ in 0..3 {
        b.rebuilt(3, w(0, 90));
        let again = [Action::Recheck { handle: Handle(3), window: w(0, 90) }, take_over(3, w(0, 90))];
        assert_eq!(b.proved(3, w(0, 90), false), again);
    }
    b.rebuilt(3, w(0, 90));
    assert_eq!(b.proved(3, w(0, 90), false), [handed(1, w(0, 90)), show(3, w(0, 90)), left(1)]);
    assert_eq!(b.queue.rows().iter().find(|row| row.handle == Some(3)).unwrap().verified, Verified::No);
}

#[test]
fn if_the_leaver_goes_first_the_rebuild_goes_on_and_is_seen() {
    let mut b = three();
    b.step(leave(1));
    b.disconnect(1);
    assert_eq!(b.pass(2 * S), [show(3, w(0, 90))]);
    assert_eq!(b.state(3), State::Rebuilding { window: w(0, 90), rejections: 0 });
    assert_eq!(b.rebuilt(3, w(0, 90)), [verify(3, w(0, 90))]);
    assert_eq!(b.held(3), [w(0, 90)]);
}

#[test]
fn the_stream_of_a_takeover_stops_when_the_draining_node_changes_it() {
    let mut b = three();
    b.step(leave(1));
    b.disconnect(1);
    // The node joins again with part of the window: the other node restarts its takeover with the rest.
    let actions = b.step(rejoining(5, "a", &[w(0, 50)], None));
    let anew = [stop(3), Action::Drop { handle: Handle(3) }, rebuild(3, w(50, 90))];
    let of_3: Vec<Action> = actions.into_iter().filter(|action| anew.contains(action)).collect();
    assert_eq!(of_3, anew);
}

#[test]
fn if_the_leaver_goes_when_the_other_is_done_the_other_holds_the_window() {
    let mut b = three();
    b.step(leave(1));
    b.rebuilt(3, w(0, 90));
    b.disconnect(1);
    assert_eq!(b.proved(3, w(0, 90), true), [], "the leaver is away and still answers: it must hear of it");
    assert_eq!(b.pass(2 * S), [show(3, w(0, 90))]);
    assert_eq!(b.held(3), [w(0, 90)]);
}

#[test]
fn a_leaver_that_comes_back_within_its_grace_goes_on_leaving() {
    let mut b = three();
    b.step(leave(1));
    b.disconnect(1);
    b.rebuilt(3, w(0, 90));
    b.proved(3, w(0, 90), true);
    let back = b.step(rejoining(5, "a", &[w(0, 90)], None));
    assert_eq!(back, [joined(5), verify(5, w(0, 90)), handed(5, w(0, 90)), show(3, w(0, 90)), left(5)]);
}

#[test]
fn one_that_takes_over_and_is_cut_off_begins_again() {
    let mut b = three();
    b.step(leave(1));
    b.disconnect(3);
    assert_eq!(b.step(join(5, "c")), [joined(5), take_over(5, w(0, 90))]);
    b.disconnect(5);
    assert_eq!(b.pass(2 * S), [need(1, 3, Some(2))]);
    assert_eq!(b.join(6, "d"), [joined(6), take_over(6, w(0, 90))]);
}

#[test]
fn a_disconnected_node_cannot_claim_a_takeover_while_the_draining_node_holds_it() {
    let mut b = three();
    b.step(leave(1));
    b.rebuilt(3, w(0, 90));
    b.disconnect(3);
    assert_eq!(b.step(rejoining(5, "c", &[w(0, 90)], None)), [dropped(5), take_over(5, w(0, 90))]);
}

#[test]
fn a_node_disconnected_at_the_swap_claims_its_new_window() {
    let mut b = three();
    b.step(leave(1));
    b.rebuilt(3, w(0, 90));
    b.proved(3, w(0, 90), true);
    b.disconnect(3);
    assert_eq!(b.step(rejoining(5, "c", &[w(0, 90)], None)), [joined(5)]);
    assert_eq!(b.held(5), [w(0, 90)]);
}

#[test]
fn draining_survives_a_restart_in_the_journal() {
    let mut b = three();
    b.step(leave(1));
    b.queue = b.restored();
    b.step(QueueEvent::Restored);
    assert_eq!(b.step(rejoining(11, "a", &[w(0, 90)], None)), [joined(11), verify(11, w(0, 90))]);
    assert_eq!(b.step(rejoining(12, "b", &[], Some((90, 100)))), [joined(12), resume(12, 100)]);
    assert_eq!(b.step(join(13, "c")), [joined(13), take_over(13, w(0, 90))]);
    b.rebuilt(13, w(0, 90));
    assert_eq!(b.proved(13, w(0, 90), true), [handed(11, w(0, 90)), show(13, w(0, 90)), left(11)]);
}

#[test]
fn a_node_that_says_at_its_join_that_it_leaves_is_given_nothing() {
    let mut b = Bench::new();
    b.publish(10);
    let leaving = Some(Leaving { by_ns: 9 * S, replaced: true });
    let join = QueueEvent::Join(Join { leaving, ..joining(1, "a") });
    assert_eq!(b.step(join), [joined(1), left(1)]);
    let join = QueueEvent::Join(Join { leaving, date: Some(TODAY), held: vec![w(0, 5)], ..joining(2, "b") });
    assert_eq!(b.step(join), [joined(2), verify(2, w(0, 5)), need(2, 2, Some(2))]);
    assert_eq!(b.held(2), [w(0, 5)]);
}

#[test]
fn a_differing_window_of_a_draining_node_is_lost_and_its_takeover_continues() {
    let mut b = three();
    b.step(leave(1));
    let actions = b.proved(1, w(0, 90), false);
    assert_eq!(actions, [Action::Recheck { handle: Handle(1), window: w(0, 90) }, show(3, w(0, 90)), left(1)]);
    assert_eq!(b.state(3), State::Rebuilding { window: w(0, 90), rejections: 0 });
}

#[test]
fn the_end_of_the_day_leaves_nothing_to_hand_over() {
    let mut b = three();
    b.step(leave(1));
    assert_eq!(
        b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 1) }),
        [end(1), verify(2, w(90, 100)), stop(3), end(3)]
    );
    assert_eq!(b.queue.subscribers().len(), 1);
}

#[test]
fn a_leaver_that_is_live_into_the_new_day_leaves_when_its_roll_arrives() {
    let mut b = three();
    b.step(leave(2));
    b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 1) });
    b.tip = 0;
    let roll = QueueEvent::Roll { handle: Handle(2), next: i(95), date: TODAY };
    assert_eq!(b.step(roll), [stop(2), left(2)]);
}
