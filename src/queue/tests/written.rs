//! Updates that another process has written down.

use super::*;

impl Bench {
    fn written(&mut self, next: u64) -> Vec<Action> {
        let date = self.queue.date();
        let mut actions = self.step(QueueEvent::Written { handle: Handle(99), next: i(next), date });
        actions.retain(|of| !matches!(of, Action::NeedNode { via: None, .. } | Action::Group { .. }));
        actions
    }
}

/// `a` holds `[0,40)`, `b` `[40,80)`, `c` is live from 80, at 100 updates.
fn three() -> Bench {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 40);
    b.roll(2, 80);
    b
}

fn ends(handle: i32) -> Action {
    Action::Sleep { handle: Handle(handle) }
}

#[test]
fn a_node_whose_windows_are_written_down_ends_and_the_others_stay() {
    let mut b = three();
    assert_eq!(b.written(39), []);
    assert_eq!(b.written(60), [ends(1)]);
    assert_eq!((b.queue.written(), b.held(2), b.state(3)), (i(60), vec![w(40, 80)], State::Live));
    assert_eq!(b.written(50), [], "an earlier index changes nothing");
    assert_eq!(b.written(100), [ends(2)]);
    assert_eq!((b.queue.subscribers().len(), b.state(3)), (1, State::Live));
    assert_eq!(b.queue.unserved(&q("rdb"), i(100)), 0);
}

#[test]
fn a_lost_window_that_is_written_down_is_not_rebuilt() {
    let mut b = three();
    b.disconnect(1);
    b.pass(2 * S);
    assert_eq!(b.lost("rdb"), [w(0, 40)]);
    assert_eq!(b.written(40), []);
    assert_eq!(b.lost("rdb"), []);
    let actions = b.join(4, "d");
    assert!(!actions.iter().any(|of| matches!(of, Action::Rebuild { .. })), "{actions:?}");
    assert_eq!(b.state(4), State::Waiting);
}

#[test]
fn the_next_live_node_begins_behind_what_is_written_down() {
    let mut b = Bench::new();
    b.publish(70);
    b.written(50);
    assert_eq!(b.join(1, "a")[..2], [joined(1), live(1, 50, 70)]);
    b.written(60);
    b.disconnect(1);
    b.pass(2 * S);
    assert_eq!(b.join(2, "b")[..2], [joined(2), live(2, 60, 70)]);
}

#[test]
fn a_node_that_comes_back_with_what_is_written_down_drops_it() {
    let mut b = three();
    b.disconnect(1);
    b.written(40);
    assert_eq!(b.held(2), [w(40, 80)]);
    let actions = b.step(rejoining(5, "a", &[w(0, 40)], None));
    assert!(actions.contains(&ends(5)), "{actions:?}");
}

#[test]
fn a_report_of_another_day_or_beyond_the_tip_is_rejected() {
    let mut b = three();
    assert_eq!(b.written(101), [refused(99, QueueError::WrittenBeyond(i(101), i(100)))]);
    let yesterday = Date(TODAY.0 - 1);
    let event = QueueEvent::Written { handle: Handle(99), next: i(1), date: yesterday };
    assert_eq!(b.step(event), [refused(99, QueueError::WrittenOtherDay(yesterday, TODAY))]);
}

#[test]
fn what_is_written_down_outlasts_a_restart_and_ends_with_the_day() {
    let mut b = three();
    b.written(40);
    b.restart();
    assert_eq!(b.queue.written(), i(40));
    b.day_end();
    assert_eq!(b.queue.written(), i(0));
}

#[test]
fn no_node_takes_over_from_a_draining_one_what_is_written_down() {
    let mut b = three();
    b.join(4, "d");
    let leaving = Leaving { by_ns: 1_000 * S, replaced: false };
    let leave = |handle: i32| QueueEvent::Leaving { handle: Handle(handle), leaving };
    let handed = |handle: i32, window: Window| Action::Handed { handle: Handle(handle), window };
    b.written(40);
    // The node of `[0,40)` has ended; that of `[40,80)` drains, and `d` takes over.
    b.step(leave(2));
    assert_eq!(b.state(4).name(), "taking");
    let actions = b.written(80);
    for action in [handed(2, w(40, 80)), Action::Left { handle: Handle(2) }, Action::Drop { handle: Handle(4) }] {
        assert!(actions.contains(&action), "{actions:?}");
    }
    assert_eq!(b.state(4), State::Waiting);
}
