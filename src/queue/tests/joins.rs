//! Nodes that join again, and which windows they keep.

use super::*;

#[test]
fn a_node_whose_windows_were_given_away_drops_everything_and_waits() {
    let mut b = Bench::of_nodes(4);
    b.disconnect(1);
    assert_eq!(b.pass(2 * S), [live(2, 0, 100)]);
    assert_eq!(b.step(rejoining(5, "a", &[], Some((0, 60)))), [dropped(5)]);
    assert_eq!(b.state(5), State::Waiting);
    assert_eq!(b.roll(2, 100).last(), Some(&live(3, 100, 100)), "after the nodes that waited meanwhile");
}

#[test]
fn a_rolled_node_that_comes_back_keeps_its_window_and_its_proof() {
    let mut b = Bench::of_nodes(4);
    b.roll(1, 90);
    b.proved(1, w(0, 90), true);
    b.disconnect(1);
    assert_eq!(b.step(rejoining(5, "a", &[w(0, 90)], None)), [joined(5)]);
    assert_eq!((b.state(5), b.held(5)), (State::Rolled, vec![w(0, 90)]));
    assert_eq!(b.queue.rows()[0].verified, Verified::Yes);
}

#[test]
fn a_proof_that_was_under_way_when_the_connection_ended_is_wanted_again() {
    let mut b = Bench::of_nodes(4);
    b.roll(1, 90);
    b.disconnect(1);
    let (handle, date) = (Handle(5), b.queue.date());
    let actions = b.step(rejoining(5, "a", &[w(0, 90)], None));
    assert!(actions.contains(&Action::Verify { handle, window: w(0, 90), date }), "{actions:?}");
    b.proved(5, w(0, 90), true);
    assert_eq!(b.queue.rows()[0].verified, Verified::Yes);
}

#[test]
fn a_need_that_a_live_node_may_have_missed_is_sent_again() {
    let mut b = Bench::rolled();
    b.disconnect(1);
    assert_eq!(b.pass(2 * S), [need(1, 2, Some(2))]);
    b.disconnect(2);
    let actions = b.step(rejoining(5, "b", &[], Some((90, 100))));
    assert_eq!(actions, [joined(5), resume(5, 100), need(1, 2, Some(5))]);
}

#[test]
fn an_unassigned_lost_window_goes_back_to_its_node() {
    let mut b = Bench::rolled();
    b.disconnect(1);
    b.pass(60 * S);
    assert_eq!(b.lost("rdb"), [w(0, 90)]);
    assert_eq!(b.step(rejoining(5, "a", &[w(0, 90)], None)).first(), Some(&joined(5)));
    assert_eq!((b.lost("rdb"), b.held(5)), (vec![], vec![w(0, 90)]));
}

#[test]
fn a_node_that_restarted_empty_gives_its_windows_to_standbys() {
    let mut b = Bench::of_nodes(4);
    b.roll(1, 90);
    b.disconnect(1);
    assert_eq!(b.join(5, "a"), [joined(5), rebuild(3, w(0, 90))]);
    assert_eq!(b.state(5), State::Waiting);
}

#[test]
fn a_live_node_that_restarted_empty_leaves_its_window_to_the_next() {
    let mut b = Bench::of_nodes(4);
    b.disconnect(1);
    assert_eq!(b.join(5, "a"), [joined(5), live(2, 0, 100)]);
}

#[test]
fn a_lost_roll_is_reported_by_the_next_join() {
    let mut b = Bench::of_nodes(4);
    b.disconnect(1);
    let actions = b.step(rejoining(5, "a", &[w(0, 80)], None));
    assert_eq!(actions, [joined(5), verify(5, w(0, 80)), live(2, 80, 100)]);
    assert_eq!(b.state(5), State::Rolled);
}

#[test]
fn a_rebuild_whose_end_was_lost_is_reported_by_the_next_join() {
    let mut b = Bench::of_nodes(4);
    b.roll(1, 90);
    b.disconnect(1);
    b.pass(2 * S);
    assert_eq!(b.state(3), State::Rebuilding { window: w(0, 90), rejections: 0 });
    b.disconnect(3);
    assert_eq!(b.step(rejoining(5, "c", &[w(0, 90)], None)), [joined(5), verify(5, w(0, 90))]);
    assert_eq!(b.state(5), State::Rolled);
}

#[test]
fn a_part_of_a_rebuild_is_kept_and_the_rest_goes_on() {
    let mut b = Bench::of_nodes(4);
    b.roll(1, 90);
    b.disconnect(1);
    b.pass(2 * S);
    b.disconnect(3);
    let actions = b.step(rejoining(5, "c", &[w(0, 30)], None));
    assert_eq!(actions, [joined(5), verify(5, w(0, 30)), rebuild(4, w(30, 90))]);
}

#[test]
fn an_interrupted_rebuild_begins_again() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 90);
    b.disconnect(1);
    b.pass(2 * S);
    b.disconnect(3);
    assert_eq!(b.step(rejoining(5, "c", &[], None))[..2], [joined(5), rebuild(5, w(0, 90))]);
}

#[test]
fn a_command_to_go_live_that_never_arrived_is_given_again() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    b.disconnect(1);
    assert_eq!(b.step(rejoining(5, "a", &[], None)), [joined(5), live(5, 0, 100)]);
}

#[test]
fn a_second_connection_of_a_node_replaces_the_first() {
    let mut b = Bench::of_nodes(4);
    let close = Action::Close { handle: Handle(1) };
    assert_eq!(b.step(rejoining(5, "a", &[], Some((0, 60)))), [close, joined(5), resume(5, 60)]);
    assert_eq!(b.disconnect(1), [], "the end of the first is no news");
    assert_eq!(b.state(5), State::Live);
}

#[test]
fn a_join_over_the_same_connection_is_a_new_start() {
    let mut b = Bench::of_nodes(4);
    assert_eq!(b.step(rejoining(1, "a", &[], Some((0, 60)))), [joined(1), resume(1, 60)]);
}

#[test]
fn updates_that_the_log_lacks_are_dropped() {
    let mut b = Bench::of_nodes(4);
    b.disconnect(1);
    assert_eq!(b.step(rejoining(5, "a", &[], Some((0, 101)))), [dropped(5), live(2, 0, 100)]);
}

#[test]
fn a_claim_of_a_window_that_another_node_holds_is_dropped_whole() {
    let mut b = Bench::of_nodes(4);
    b.roll(1, 50);
    b.roll(2, 90);
    b.disconnect(2);
    let actions = b.step(rejoining(5, "b", &[w(50, 90), w(0, 50)], None));
    assert_eq!(actions.first(), Some(&dropped(5)));
    assert_eq!(b.held(1), [w(0, 50)]);
    assert_eq!(b.state(4), State::Rebuilding { window: w(50, 90), rejections: 0 });
}

#[test]
fn an_open_window_that_begins_in_anothers_is_dropped() {
    let mut b = Bench::of_nodes(4);
    b.roll(1, 50);
    b.disconnect(2);
    assert_eq!(b.step(rejoining(5, "b", &[], Some((49, 90))))[..2], [dropped(5), live(3, 50, 100)]);
}

#[test]
fn the_same_window_claimed_twice_is_dropped() {
    let mut b = Bench::of_nodes(4);
    b.disconnect(1);
    let actions = b.step(rejoining(5, "a", &[w(0, 50), w(0, 50)], None));
    assert_eq!(actions.first(), Some(&dropped(5)));
}

#[test]
fn too_many_windows_are_dropped() {
    let mut b = Bench::with(Params { held_windows_max: 2, ..Params::default() });
    b.publish(100);
    let windows = [w(0, 1), w(2, 3), w(4, 5)];
    assert_eq!(b.step(rejoining(1, "a", &windows, None)), [dropped(1), live(1, 0, 100)]);
}

#[test]
fn without_a_journal_nodes_report_their_windows() {
    let mut b = Bench::new();
    b.publish(100);
    let rolled = rejoining(1, "a", &[w(0, 40)], None);
    assert_eq!(b.step(rolled), [joined(1), verify(1, w(0, 40)), need(1, 2, Some(1))]);
    let live = b.step(rejoining(2, "b", &[], Some((60, 95))));
    assert_eq!(live, [joined(2), resume(2, 95), need(1, 3, Some(2))], "with two here, the third is what is missing");
    assert_eq!(b.lost("rdb"), [w(40, 60)], "what nobody brings is rebuilt");
    assert_eq!(b.join(3, "c"), [joined(3), rebuild(3, w(40, 60))]);
}

#[test]
fn a_node_that_changes_its_queue_drops_its_rows() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    b.disconnect(1);
    let QueueEvent::Join(join) = rejoining(2, "a", &[], Some((0, 60))) else { unreachable!() };
    let actions = b.step(QueueEvent::Join(Join { queue: q("other"), ..join }));
    assert_eq!(actions[..2], [dropped(2), live(2, 0, 100)]);
    assert_eq!(b.queue.live(&q("rdb")), None);
}

#[test]
fn a_node_without_a_name_is_rejected() {
    let mut b = Bench::new();
    assert_eq!(b.join(1, ""), [refused(1, QueueError::NoName)]);
}

/// A node with a configured name joins from this process.
fn from_process(handle: i32, node: &str, process: &str) -> QueueEvent {
    QueueEvent::Join(Join { process: Some(process.as_bytes().to_vec()), ..joining(handle, node) })
}

#[test]
fn of_two_processes_with_one_name_the_second_is_rejected_while_the_first_is_connected() {
    let mut b = Bench::new();
    b.step(from_process(1, "a", "p1"));
    b.publish(10);
    let taken = QueueError::NameTaken(NodeName(b"a".to_vec()), IpAddr::V4(Ipv4Addr::LOCALHOST));
    for handle in 2..5 {
        assert_eq!(b.step(from_process(handle, "a", "p2")), [refused(handle, taken.clone())]);
    }
    assert_eq!(b.state(1), State::Live);
    b.disconnect(1);
    assert_eq!(b.step(from_process(6, "a", "p2")), [joined(6), live(6, 0, 10)]);
}

#[test]
fn the_same_process_takes_the_place_of_its_half_open_connection() {
    let mut b = Bench::new();
    b.step(from_process(1, "a", "p1"));
    b.publish(10);
    let again = QueueEvent::Join(Join {
        process: Some(b"p1".to_vec()),
        date: Some(TODAY),
        open: Some(OpenWindow { first: i(0), next: i(10) }),
        ..joining(2, "a")
    });
    assert_eq!(b.step(again), [Action::Close { handle: Handle(1) }, joined(2), resume(2, 10)]);
}

#[test]
fn a_join_without_a_process_takes_over_no_name_of_one_that_has_a_process() {
    let taken = || QueueError::NameTaken(NodeName(b"a".to_vec()), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut b = Bench::new();
    b.step(from_process(1, "a", "p1"));
    assert_eq!(b.join(2, "a"), [refused(2, taken())]);
    b.disconnect(1);
    assert_eq!(b.join(3, "a")[0], joined(3));
    assert_eq!(b.step(from_process(4, "a", "p1")), [refused(4, taken())]);
    // Of older versions, which send none, one may be the other's half-open connection.
    assert_eq!(b.join(5, "a")[0], Action::Close { handle: Handle(3) });
}
