//! Standbys that cannot take a window.

use super::*;

fn reports(b: &mut Bench, handle: i32, memory: f64) -> Vec<Action> {
    let status = Status { memory_percent: Some(memory), roll_percent: Some(70.0), ..Status::default() };
    b.step(QueueEvent::Status { handle: Handle(handle), status })
}

#[test]
fn a_full_standby_is_passed_over() {
    let mut b = Bench::of_nodes(3);
    reports(&mut b, 2, 80.0);
    assert_eq!(b.roll(1, 90), [stop(1), verify(1, w(0, 90)), live(3, 90, 100)]);
    assert_eq!(b.state(2), State::Waiting);
}

#[test]
fn a_standby_that_has_room_again_gets_the_window_that_waits() {
    let mut b = Bench::of_nodes(2);
    reports(&mut b, 2, 80.0);
    assert_eq!(b.roll(1, 90), [stop(1), verify(1, w(0, 90)), need(1, 3, Some(1))], "another node is requested");
    assert_eq!(reports(&mut b, 2, 71.0), []);
    assert_eq!(reports(&mut b, 2, 69.0), [live(2, 90, 100)]);
}

#[test]
fn a_live_node_that_gives_its_window_back_untouched_waits_and_the_next_is_live() {
    let mut b = Bench::new();
    for (handle, node) in [(1, "a"), (2, "b")] {
        b.join(handle, node);
    }
    b.publish(100);
    assert_eq!(b.roll(1, 0), [stop(1), live(2, 0, 100)]);
    assert_eq!((b.state(1), b.state(2)), (State::Waiting, State::Live));
}

#[test]
fn a_window_given_back_is_offered_again_after_pauses_that_double() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    assert_eq!(b.roll(1, 0), [stop(1), need(1, 2, Some(1))]);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let due = b.queue.next_deadline_ns().expect("it is offered again");
        let mut paused = due - b.now_ns;
        let mut actions = b.pass(paused);
        while !actions.iter().any(|action| matches!(action, Action::MakeLive { .. })) {
            let more = b.queue.next_deadline_ns().expect("it is offered again") - b.now_ns;
            paused += more;
            actions = b.pass(more);
        }
        pauses.push(paused / S);
        b.roll(1, 0);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn a_rebuild_given_back_untouched_leaves_the_window_lost() {
    let mut b = Bench::of_nodes(3);
    b.roll(1, 90);
    b.disconnect(1);
    assert!(b.pass(2 * S).contains(&rebuild(3, w(0, 90))));
    b.roll(3, 0);
    assert_eq!(b.state(3), State::Waiting);
    assert_eq!(b.queue.lines()[&q("rdb")].lost.iter().map(|lost| lost.window).collect::<Vec<_>>(), [w(0, 90)]);
    assert_eq!(b.pass(S), [rebuild(3, w(0, 90))]);
}

#[test]
fn an_unassignable_window_is_logged_once() {
    let mut b = Bench::of_nodes(2);
    reports(&mut b, 2, 80.0);
    let alarms = |actions: Vec<Action>| actions.iter().filter(|action| matches!(action, Action::Alarm(_))).count();
    let roll = QueueEvent::Roll { handle: Handle(1), next: i(90), date: TODAY };
    assert_eq!(alarms(b.all(roll)), 1);
    assert_eq!(alarms(b.all(QueueEvent::Tick)), 0);
}

#[test]
fn no_more_than_two_full_standbys_are_replaced() {
    let mut b = Bench::new();
    for handle in 1..=6 {
        b.join(handle, &format!("n{handle}"));
        reports(&mut b, handle, 80.0);
    }
    b.publish(10);
    b.roll(1, 5);
    let live = b.queue.subscribers().iter().find(|sub| sub.state == State::Rolled).expect("it has rolled");
    assert_eq!(b.queue.position(live), 3, "itself, and two that are full");
}
