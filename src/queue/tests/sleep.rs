//! Queues that sleep, and the requests for their first nodes.

use super::*;
use crate::config::Wake;

pub(super) const IDLE: i64 = 60 * S;

pub(super) fn params(wake: Wake, idle_ns: i64) -> Params {
    Params { groups: vec![b"g".to_vec()], wake, idle_ns, ..Params::default() }
}

fn bench(wake: Wake) -> Bench {
    Bench::with(params(wake, i64::MAX))
}

pub(super) fn at(handle: i32, instance: &str) -> QueueEvent {
    let (group, instance) = (Some(b"g".to_vec()), Some(instance.as_bytes().to_vec()));
    QueueEvent::Join(Join { group, instance, ..joining(handle, &format!("n{handle}")) })
}

/// A status report of a node that was last queried so long ago.
pub(super) fn report(handle: i32, next: Option<u64>, quiet_ns: i64) -> QueueEvent {
    let status = Status { next: next.map(i), quiet_ns: Some(quiet_ns), ..Status::default() };
    QueueEvent::Status { handle: Handle(handle), status }
}

pub(super) fn request(desired: usize) -> Action {
    Action::Request { group: b"g".to_vec(), desired }
}

pub(super) fn ends(handle: i32) -> Action {
    Action::Sleep { handle: Handle(handle) }
}

impl Bench {
    /// Reports of these nodes, whose last query was long ago.
    pub(super) fn quiet(&mut self, handles: &[i32]) -> Vec<Action> {
        handles.iter().flat_map(|handle| self.act(report(*handle, None, 10 * IDLE))).collect()
    }

    /// Steps an event. Returns the actions other than messages to nodes about their group, and needs that no node can meet.
    pub(super) fn act(&mut self, event: QueueEvent) -> Vec<Action> {
        let mut actions = self.step(event);
        actions.retain(|of| !matches!(of, Action::Group { .. } | Action::NeedNode { via: None, .. }));
        actions
    }

    pub(super) fn later(&mut self, ns: i64) -> Vec<Action> {
        self.now_ns += ns;
        self.act(QueueEvent::Tick)
    }

    pub(super) fn sleepers(&self) -> usize {
        self.queue.sleeping()
    }
}

/// Three nodes: `n1` and `n2` are rolled, `n3` is live, at 100 updates.
pub(super) fn three(params: Params) -> Bench {
    let mut b = Bench::with(params);
    for handle in 1..=3 {
        b.act(at(handle, &format!("i{handle}")));
    }
    b.publish(100);
    b.roll(1, 40);
    b.roll(2, 80);
    b.proved(1, w(0, 40), true);
    b.proved(2, w(40, 80), true);
    b
}

#[test]
fn the_first_update_of_a_new_tickerplant_requests_a_node() {
    let mut b = bench(Wake::FirstUpdate);
    assert_eq!(b.later(S), []);
    assert_eq!(b.queue.wakes_beyond(), Some(i(0)));
    b.publish(1);
    assert_eq!(b.later(S), [request(1)]);
    assert_eq!(b.queue.wakes_beyond(), None);
    b.publish(5);
    assert_eq!(b.later(S), [], "the request stands");
    assert_eq!(b.act(at(1, "i1"))[..2], [joined(1), live(1, 0, 6)]);
    assert_eq!(b.later(100 * S), [], "a node is there that can ask");
}

#[test]
fn a_request_is_repeated_until_a_node_comes() {
    let mut b = bench(Wake::FirstUpdate);
    b.publish(1);
    b.later(S);
    let due_ns = b.queue.next_deadline_ns().expect("a repetition");
    assert_eq!(b.later(due_ns - b.now_ns), [request(1)]);
}

#[test]
fn by_schedule_nothing_is_requested() {
    let mut b = bench(Wake::Schedule);
    b.publish(1);
    assert_eq!((b.later(S), b.queue.wakes_beyond()), (vec![], None));
    b.act(at(1, "i1"));
    b.day_end();
    assert_eq!(b.act(report(1, Some(0), 0)), [], "the live node stays");
    assert_eq!(b.state(1), State::Live);
}

#[test]
fn all_nodes_end_with_the_day_and_the_first_update_wakes_the_queue() {
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.act(at(4, "i4"));
    assert_eq!(b.day_end(), [end(1), end(2), verify(3, w(80, 100)), end(4)]);
    assert_eq!(b.act(report(3, Some(100), 0)), [], "it has not reached the end of the day yet");
    assert_eq!(b.state(3), State::Live);
    assert_eq!(b.act(report(3, Some(0), 0)), [stop(3), ends(3)]);
    assert_eq!((b.queue.subscribers().len(), b.sleepers()), (0, 1));
    assert_eq!(b.later(1_000 * S), []);
    assert_eq!(b.queue.wakes_beyond(), Some(i(0)));
    b.publish(1);
    assert_eq!(b.later(S), [request(1)]);
    b.publish(99);
    let actions = b.act(at(5, "i5"));
    assert_eq!(actions[..2], [joined(5), live(5, 0, 100)], "no update is missing");
}

#[test]
fn a_queue_sleeps_over_a_restart_of_the_tickerplant() {
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.day_end();
    b.act(report(3, Some(0), 0));
    assert_eq!((b.restart(), b.sleepers()), (vec![], 1));
    assert_eq!(b.later(100 * S), []);
    b.publish(1);
    assert_eq!(b.later(S), [request(1)]);
}

#[test]
fn an_update_before_the_live_node_has_ended_keeps_it() {
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.day_end();
    b.publish(1);
    assert_eq!(b.act(report(3, Some(0), 0)), []);
    assert_eq!((b.state(3), b.sleepers()), (State::Live, 0));
}

#[test]
fn a_node_that_its_fleet_keeps_goes_on() {
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.day_end();
    b.act(report(3, Some(0), 0));
    b.disconnect(3);
    let actions = b.act(at(6, "i3"));
    assert_eq!(actions[..2], [joined(6), live(6, 0, 0)]);
    assert_eq!(b.act(report(6, Some(0), 60 * S)), []);
    assert_eq!((b.state(6), b.sleepers()), (State::Live, 1));
    b.publish(1);
    assert_eq!((b.later(S), b.sleepers()), (vec![], 0));
}

#[test]
fn a_first_update_does_not_wake_a_queue_that_waits_for_queries() {
    let mut b = three(params(Wake::FirstQuery, i64::MAX));
    b.day_end();
    b.act(report(3, Some(0), 0));
    b.publish(30);
    assert_eq!((b.later(S), b.queue.wakes_beyond()), (vec![], None));
    assert_eq!(b.act(QueueEvent::Wake), [request(1)]);
    assert_eq!(b.act(at(7, "i7"))[..2], [joined(7), live(7, 0, 30)]);
}

#[test]
fn the_first_query_of_a_day_requests_as_many_nodes_as_the_day_before_says() {
    let mut b = three(params(Wake::FirstQuery, i64::MAX));
    b.day_end();
    b.act(report(3, Some(0), 0));
    b.publish(100);
    b.restart();
    assert_eq!(b.act(QueueEvent::Wake), [request(3)], "a node was full after 40 updates");
    assert_eq!(b.lost("rdb"), [w(0, 40), w(40, 80)]);
    assert_eq!(b.act(at(7, "i7"))[..2], [joined(7), live(7, 80, 100)]);
    assert!(b.act(at(8, "i8")).contains(&rebuild(8, w(0, 40))));
}

#[test]
fn queries_announced_to_a_tickerplant_that_never_had_a_node_request_one() {
    for wake in [Wake::FirstQuery, Wake::Schedule] {
        let mut b = bench(wake);
        assert_eq!(b.act(QueueEvent::Wake), [request(1)]);
        b.act(at(1, "i1"));
        assert_eq!(b.later(100 * S), []);
    }
}

#[test]
fn an_idle_group_sleeps_and_wakes_with_a_node_for_each_window() {
    let mut b = three(params(Wake::Schedule, IDLE));
    b.later(IDLE - S);
    assert_eq!(b.quiet(&[1, 2, 3]), []);
    b.now_ns += 2 * S;
    let actions = b.quiet(&[3]);
    assert_eq!(actions, [ends(1), ends(2), stop(3), ends(3)]);
    assert_eq!((b.queue.subscribers().len(), b.sleepers()), (0, 1));
    assert_eq!(b.lost("rdb"), [w(0, 40), w(40, 80)]);
    assert_eq!((b.restart(), b.later(100 * S)), (vec![], vec![]));
    b.publish(1);
    assert_eq!(b.later(S), [request(3)]);
    assert_eq!(b.act(at(11, "i11"))[..2], [joined(11), live(11, 80, 101)]);
    assert!(b.act(at(12, "i12")).contains(&rebuild(12, w(0, 40))));
    assert!(b.act(at(13, "i13")).contains(&rebuild(13, w(40, 80))));
}

#[test]
fn a_query_or_an_update_keeps_a_group_awake() {
    let mut b = three(params(Wake::Schedule, IDLE));
    b.now_ns += 2 * IDLE;
    b.quiet(&[1, 2]);
    assert_eq!(b.act(report(3, None, 0)), [], "it was queried");
    b.publish(1);
    b.later(S);
    assert_eq!(b.quiet(&[1, 2, 3]), [], "an update has come");
    b.now_ns += IDLE;
    assert_eq!(b.quiet(&[3]).len(), 4);
}

#[test]
fn a_group_with_a_node_that_is_away_or_of_an_older_version_stays_awake() {
    let mut b = three(params(Wake::Schedule, IDLE));
    b.now_ns += 2 * IDLE;
    b.disconnect(2);
    assert_eq!(b.quiet(&[1, 3]), [], "one is away");
    let mut b = three(params(Wake::Schedule, IDLE));
    b.now_ns += 2 * IDLE;
    b.act(QueueEvent::Status { handle: Handle(2), status: Status::default() });
    assert_eq!(b.quiet(&[1, 3]), [], "one does not know how");
}

#[test]
fn announced_queries_wake_an_idle_group_and_keep_it_awake() {
    let mut b = three(params(Wake::FirstQuery, IDLE));
    b.now_ns += 2 * IDLE;
    b.quiet(&[1, 2, 3]);
    b.publish(20);
    assert_eq!(b.later(S), [], "an update does not wake it");
    assert_eq!(b.act(QueueEvent::Wake), [request(3)]);
    b.act(at(11, "i11"));
    assert_eq!(b.quiet(&[11]), []);
}

#[test]
fn a_query_on_a_node_that_its_fleet_has_kept_wakes_the_group() {
    let mut b = three(params(Wake::Schedule, IDLE));
    b.now_ns += 2 * IDLE;
    b.quiet(&[1, 2, 3]);
    let actions = b.act(at(11, "i1"));
    assert!(!actions.iter().any(|action| matches!(action, Action::NeedNode { .. })), "{actions:?}");
    assert_eq!((b.quiet(&[11]), b.sleepers()), (vec![], 1));
    assert_eq!(b.act(report(11, None, 0)), [need(2, 3, Some(11))]);
    assert_eq!(b.sleepers(), 0);
}

#[test]
fn one_launch_wakes_two_queues_of_a_group() {
    let mut b = bench(Wake::FirstUpdate);
    b.publish(1);
    b.later(S);
    b.act(at(1, "i1"));
    let join =
        Join { queue: q("other"), group: Some(b"g".to_vec()), instance: Some(b"i1".to_vec()), ..joining(2, "o") };
    b.act(QueueEvent::Join(join));
    b.day_end();
    assert_eq!(b.act(report(1, Some(0), 0)), [stop(1), ends(1)]);
    assert_eq!(b.act(report(2, Some(0), 0)), [stop(2), ends(2)]);
    assert_eq!(b.sleepers(), 2);
    b.publish(1);
    assert_eq!(b.later(S), [request(1)]);
    b.act(at(3, "i3"));
    assert_eq!(b.later(10 * S), [], "the node of the other queue is on its way");
    assert_eq!(b.later(30 * S), [request(2)], "it did not come");
}

#[test]
fn nodes_that_are_wanted_at_once_do_not_end_with_the_day() {
    let mut b = three(params(Wake::Calendar, i64::MAX));
    b.day_end();
    b.act(QueueEvent::Wake);
    assert_eq!(b.act(report(3, Some(0), 0)), []);
    assert_eq!((b.state(3), b.sleepers()), (State::Live, 0));
}

#[test]
fn a_group_that_is_configured_no_more_has_its_queues_back() {
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.day_end();
    b.act(report(3, Some(0), 0));
    b.queue.params.groups.clear();
    assert_eq!(b.sleepers(), 0);
    b.publish(1);
    assert_eq!(b.act(at(5, "i5"))[..2], [joined(5), live(5, 0, 1)]);
}

#[test]
fn a_restart_between_the_end_of_the_day_and_the_end_of_the_node_ends_it_all_the_same() {
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.day_end();
    b.restart();
    let today = b.queue.date();
    let open = OpenWindow { first: i(0), next: i(0) };
    let back = |handle: i32, date: Date, open: Option<OpenWindow>| match at(handle, "i3") {
        QueueEvent::Join(join) => {
            QueueEvent::Join(Join { node: NodeName(b"n3".to_vec()), date: Some(date), open, ..join })
        }
        other => other,
    };
    assert_eq!(b.act(back(13, today, Some(open)))[..1], [joined(13)]);
    assert_eq!(b.act(report(13, Some(0), 0)), [stop(13), ends(13)]);
    assert_eq!((b.queue.subscribers().len(), b.sleepers()), (0, 1));

    // Nodes were away at the end of the day.
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    let yesterday = b.queue.date();
    b.day_end();
    b.restart();
    let open = OpenWindow { first: i(80), next: i(100) };
    let actions = b.act(back(13, yesterday, Some(open)));
    assert!(actions.contains(&Action::EndOfDay { handle: Handle(13), date: yesterday }), "{actions:?}");
    let QueueEvent::Join(join) = at(14, "i1") else { return };
    let rolled = Join { node: NodeName(b"n1".to_vec()), date: Some(yesterday), held: vec![w(0, 40)], ..join };
    let actions = b.act(QueueEvent::Join(rolled));
    assert!(actions.contains(&Action::EndOfDay { handle: Handle(14), date: yesterday }), "{actions:?}");
    assert_eq!((b.queue.subscribers().len(), b.sleepers()), (0, 1));
}

#[test]
fn the_date_of_a_report_says_whether_a_node_has_finished_the_day() {
    let dated = |date: Date| {
        let status = Status { next: Some(i(3)), date: Some(date), quiet_ns: Some(0), ..Status::default() };
        QueueEvent::Status { handle: Handle(3), status }
    };
    let mut b = Bench::with(params(Wake::FirstQuery, i64::MAX));
    b.act(at(3, "i3"));
    b.publish(5);
    b.day_end();
    b.publish(3);
    assert_eq!(b.act(report(3, Some(3), 0)), [], "without a date it may still be on its way to the end of the day");
    assert_eq!(b.act(dated(TODAY)), [], "it is");
    let new = b.queue.date();
    assert_eq!(b.act(dated(new)), [stop(3), ends(3)]);
}

#[test]
fn a_node_that_rolls_in_the_new_day_before_its_report_wakes_its_queue() {
    let mut b = Bench::with(params(Wake::FirstQuery, i64::MAX));
    b.act(at(3, "i3"));
    b.publish(5);
    b.day_end();
    b.publish(30);
    assert_eq!(b.sleepers(), 1);
    b.roll(3, 20);
    b.later(S);
    assert_eq!((b.state(3), b.sleepers()), (State::Rolled, 0));
    let status = Status { next: Some(i(20)), date: Some(b.queue.date()), quiet_ns: Some(0), ..Status::default() };
    assert_eq!(b.act(QueueEvent::Status { handle: Handle(3), status }), [], "its window stays");
}

#[test]
fn updates_do_not_keep_a_node_over_the_end_of_a_day_whose_queue_waits_for_queries() {
    let mut b = three(params(Wake::FirstQuery, i64::MAX));
    b.day_end();
    b.publish(90);
    assert_eq!(b.act(report(3, Some(85), 0)), [], "it may still be on its way to the end of the day");
    assert_eq!(b.act(report(3, Some(20), 0)), [stop(3), ends(3)]);
    assert_eq!((b.queue.subscribers().len(), b.sleepers()), (0, 1));
    assert_eq!(b.act(QueueEvent::Wake), [request(3)]);
    assert_eq!(b.act(at(7, "i7"))[..2], [joined(7), live(7, 80, 90)], "no update is missing");
}
