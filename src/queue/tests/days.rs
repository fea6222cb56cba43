//! End of the day, and restart of the tickerplant.

use super::*;

const TOMORROW: Date = Date(TODAY.0 + 1);

/// `a` is rolled, `b` live, `c` waiting.
fn three() -> Bench {
    three_with(Params::default())
}

fn three_with(params: Params) -> Bench {
    let mut b = Bench::with(params);
    for (handle, node) in [(1, "a"), (2, "b"), (3, "c")] {
        b.join(handle, node);
    }
    b.publish(100);
    b.roll(1, 90);
    b
}

impl Bench {
    pub fn day_end(&mut self) -> Vec<Action> {
        let actions = self.step(QueueEvent::DayEnd { new_date: Date(self.queue.date().0 + 1) });
        self.tip = 0;
        actions
    }

    pub fn restart(&mut self) -> Vec<Action> {
        self.queue = self.restored();
        self.step(QueueEvent::Restored)
    }
}

#[test]
fn at_the_end_of_the_day_the_live_node_stays_and_all_others_leave() {
    let mut b = three();
    assert_eq!(b.day_end(), [end(1), verify(2, w(90, 100)), end(3)]);
    assert_eq!(b.queue.date(), TOMORROW);
    let rows: Vec<_> = b.queue.rows().into_iter().map(|r| (r.handle, r.first_index, r.last_index)).collect();
    assert_eq!(rows, [(Some(2), Some(i(0)), None)]);
    assert_eq!(b.pass(S), []);
}

#[test]
fn the_live_ones_last_window_is_only_recorded() {
    let mut b = three();
    b.day_end();
    let proved = QueueEvent::Proved { handle: Handle(2), window: w(90, 100), date: TODAY, ok: false };
    let actions = b.all(proved);
    let alarm = Note::new("the node's window differs from the log");
    let alarm = alarm.queue(&QueueName(b"rdb".to_vec())).node("b").window(w(90, 100)).date(TODAY);
    assert_eq!(actions, [Action::Alarm(alarm)]);
    assert_eq!(b.state(2), State::Live);
}

#[test]
fn standbys_may_stay() {
    let mut b = three_with(Params { standbys_kept: 1, ..Params::default() });
    b.join(4, "d");
    assert_eq!(b.day_end(), [end(1), verify(2, w(90, 100)), end(4)]);
    assert_eq!(b.state(3), State::Waiting);
}

#[test]
fn one_standby_stays_while_the_live_one_is_away() {
    let mut b = three();
    b.join(4, "d");
    b.disconnect(2);
    assert_eq!(b.day_end(), [end(1), end(4)]);
    assert_eq!(b.pass(2 * S), [live(3, 0, 0)]);
}

#[test]
fn no_node_becomes_live_in_the_step_that_ends_the_day() {
    let mut b = three();
    b.disconnect(2);
    b.now_ns += 60 * S;
    assert_eq!(b.day_end(), [end(1)]);
    assert_eq!(b.pass(0), [live(3, 0, 0)], "but in the next, of the new day");
}

#[test]
fn the_stream_of_a_window_stops_at_the_end_of_its_day() {
    let mut b = three();
    b.disconnect(1);
    assert_eq!(b.pass(2 * S), [rebuild(3, w(0, 90))]);
    assert_eq!(b.day_end(), [verify(2, w(90, 100)), stop(3), end(3)]);
}

#[test]
fn lost_windows_end_with_their_day() {
    let mut b = three();
    b.disconnect(1);
    b.disconnect(3);
    b.pass(2 * S);
    let actions = b.all(QueueEvent::DayEnd { new_date: TOMORROW });
    let note = Note::new("the day ended before any node held the window");
    let note = Action::Note(note.queue(&QueueName(b"rdb".to_vec())).window(w(0, 90)).date(TODAY));
    assert_eq!(actions.first(), Some(&note));
    assert_eq!(b.lost("rdb"), []);
}

#[test]
fn an_empty_queue_ends_with_its_day() {
    let mut b = Bench::new();
    b.subscribe(1, "rdb");
    b.publish(10);
    b.disconnect(1);
    b.day_end();
    assert!(b.queue.lines().is_empty() && b.queue.rows().is_empty());
}

#[test]
fn a_live_node_that_missed_the_end_drops_and_is_live_again() {
    let mut b = three();
    b.disconnect(2);
    b.disconnect(3);
    b.day_end();
    b.publish(5);
    assert_eq!(b.step(rejoining(4, "b", &[], Some((90, 100)))), [dropped(4), live(4, 0, 5)]);
}

#[test]
fn a_live_node_that_missed_the_end_is_live_again_though_its_old_connection_has_not_ended() {
    let mut b = three_with(Params { standbys_kept: 0, ..Params::default() });
    b.disconnect(3);
    b.pass(60 * S);
    b.day_end();
    b.publish(5);
    let actions = b.step(rejoining(4, "b", &[], Some((90, 100))));
    assert_eq!(actions, [Action::Close { handle: Handle(2) }, dropped(4), live(4, 0, 5)]);
}

#[test]
fn a_rolled_node_that_missed_the_end_drops_and_ends() {
    let mut b = three();
    b.disconnect(1);
    b.day_end();
    assert_eq!(b.step(rejoining(4, "a", &[w(0, 90)], None)), [dropped(4), end(4)]);
    assert_eq!(b.queue.rows().len(), 1);
}

#[test]
fn a_roll_that_was_under_way_closes_no_window_of_the_new_day() {
    let mut b = three();
    b.day_end();
    b.publish(50);
    let roll = QueueEvent::Roll { handle: Handle(2), next: i(95), date: TODAY };
    // `.u.end` was queued in the feed, which was stopped.
    assert_eq!(b.step(roll), [stop(2), end(2)]);
    assert!(b.queue.rows().is_empty(), "it ends by itself");
    assert_eq!(b.join(5, "e"), [joined(5), live(5, 0, 50)]);
}

#[test]
fn a_roll_of_a_day_to_come_is_rejected() {
    let mut b = three();
    let roll = QueueEvent::Roll { handle: Handle(2), next: i(95), date: TOMORROW };
    assert_eq!(b.step(roll), [refused(2, QueueError::OtherDay(TOMORROW))]);
}

#[test]
fn a_day_does_not_end_into_itself_or_the_past() {
    let mut b = three();
    let before = b.queue.snapshot();
    assert_eq!(b.step(QueueEvent::DayEnd { new_date: TODAY }), []);
    assert_eq!(b.queue.snapshot(), before);
}

#[test]
fn after_a_restart_nodes_resume_with_what_they_hold() {
    let mut b = three();
    assert_eq!(b.restart(), []);
    assert_eq!(b.step(rejoining(5, "b", &[], Some((90, 100)))), [joined(5), resume(5, 100)]);
    assert_eq!(b.step(rejoining(6, "c", &[], None)), [joined(6)]);
    assert_eq!(b.step(rejoining(7, "a", &[w(0, 90)], None)), [joined(7), verify(7, w(0, 90))]);
    assert_eq!(b.roll(5, 100), [stop(5), verify(5, w(90, 100)), live(6, 100, 100)]);
}

#[test]
fn after_a_restart_nodes_have_longer_to_come_back() {
    let mut b = three();
    b.restart();
    b.join(9, "new");
    assert_eq!(b.pass(30 * S - 1), []);
    assert_eq!(b.pass(1), [live(9, 90, 100), need(1, 2, Some(9))]);
}

#[test]
fn subscribers_without_identity_do_not_survive_a_restart() {
    let mut b = Bench::new();
    b.subscribe(1, "rdb");
    b.subscribe(2, "rdb");
    b.publish(100);
    b.roll(1, 90);
    assert_eq!(b.restart(), [need(2, 2, None)]);
    assert_eq!(b.lost("rdb"), [w(0, 90)]);
    assert_eq!(b.subscribe(1, "rdb"), [live(1, 90, 100)]);
    assert_eq!(b.subscribe(2, "rdb"), [rebuild(2, w(0, 90))]);
}

#[test]
fn updates_that_the_log_lost_in_a_crash_are_nobodys() {
    let mut b = three();
    b.roll(2, 100);
    b.tip = 95;
    assert_eq!(b.restart(), [need(2, 3, None)]);
    assert_eq!(b.lost("rdb"), [w(90, 95)]);
    let actions = b.step(rejoining(5, "b", &[w(90, 100)], None));
    assert_eq!(actions, [dropped(5), live(5, 95, 95), need(1, 3, Some(5))], "it holds what the log has not");
    let kept = b.step(rejoining(6, "a", &[w(0, 90)], None));
    assert_eq!(kept, [joined(6), verify(6, w(0, 90))], "it holds nothing of that");
}
