//! Launches that are under way when a queue falls asleep.

use super::sleep::{IDLE, at, ends, params, report, request, three};
use super::*;
use crate::config::Wake;

/// A report of a live node that has requested its successor and was last queried long ago.
fn scaled(handle: i32, next: u64, fleet_max: Option<u32>) -> QueueEvent {
    let status =
        Status { next: Some(i(next)), scaled: true, fleet_max, quiet_ns: Some(10 * IDLE), ..Status::default() };
    QueueEvent::Status { handle: Handle(handle), status }
}

fn is_let_go(actions: &[Action], handle: i32) -> bool {
    let joins = actions.contains(&joined(handle));
    assert!(joins, "a join has a reply: {actions:?}");
    actions.contains(&ends(handle))
}

/// Three nodes of which the live one has requested a fourth; then the group falls asleep.
fn dormant() -> Bench {
    let mut b = three(params(Wake::Schedule, IDLE));
    b.now_ns += 2 * IDLE;
    b.quiet(&[1, 2]);
    assert!(b.act(scaled(3, 100, None)).contains(&ends(3)));
    assert_eq!(b.sleepers(), 1);
    b
}

#[test]
fn an_instance_requested_before_its_queue_fell_asleep_ends_as_it_joins() {
    let mut b = dormant();
    assert!(is_let_go(&b.act(at(4, "i4")), 4));
    assert_eq!((b.queue.subscribers().len(), b.sleepers()), (0, 1));
    assert!(!is_let_go(&b.act(at(5, "i5")), 5), "one was under way: this one was started on purpose");
    assert_eq!(b.state(5), State::Live);
}

#[test]
fn it_may_join_again_if_its_fleet_keeps_it() {
    let mut b = dormant();
    assert!(is_let_go(&b.act(at(4, "i4")), 4));
    b.disconnect(4);
    assert!(!is_let_go(&b.act(at(14, "i4")), 14));
    let mut b = dormant();
    assert!(!is_let_go(&b.act(at(11, "i1")), 11), "a node of before");
    assert!(is_let_go(&b.act(at(4, "i4")), 4));
}

#[test]
fn a_node_whose_launch_took_longer_than_the_idle_time_waits_for_queries_that_long() {
    let mut b = dormant();
    b.act(QueueEvent::Wake);
    b.later(2 * IDLE);
    for handle in 5..=7 {
        b.act(at(handle, &format!("i{handle}")));
    }
    for (handle, window) in [(6, w(0, 40)), (7, w(40, 80))] {
        b.rebuilt(handle, window);
        b.proved(handle, window, true);
    }
    b.later(IDLE - S);
    assert_eq!((b.quiet(&[5, 6, 7]), b.sleepers()), (vec![], 0));
    b.later(S);
    b.quiet(&[5, 6, 7]);
    assert_eq!(b.sleepers(), 1);
}

#[test]
fn a_node_that_was_lost_and_is_back_does_not_keep_its_group_awake() {
    let mut b = three(params(Wake::Schedule, IDLE));
    b.disconnect(1);
    b.later(3 * S);
    assert_eq!(b.lost("rdb"), [w(0, 40)]);
    let QueueEvent::Join(join) = at(1, "i1") else { return };
    b.act(QueueEvent::Join(Join { date: Some(TODAY), held: vec![w(0, 40)], ..join }));
    b.proved(1, w(0, 40), true);
    b.later(2 * IDLE);
    b.quiet(&[1, 2, 3]);
    assert_eq!(b.sleepers(), 1);
}

#[test]
fn it_stays_if_the_queue_is_awake_by_then() {
    for wakes in [true, false] {
        let mut b = dormant();
        if wakes {
            assert_eq!(b.act(QueueEvent::Wake), [request(3)]);
        } else {
            b.publish(1);
            assert_eq!(b.later(S), [request(3)]);
        }
        assert!(!is_let_go(&b.act(at(4, "i4")), 4));
        assert_eq!(b.state(4), State::Live);
    }
}

#[test]
fn one_that_comes_long_afterwards_was_started_on_purpose() {
    let mut b = dormant();
    b.later(Params::default().launch_ns);
    assert!(!is_let_go(&b.act(at(4, "i4")), 4));
}

#[test]
fn a_successor_that_has_come_or_that_the_fleet_does_not_launch_is_not_awaited() {
    let mut b = three(params(Wake::Schedule, IDLE));
    b.act(at(4, "i4"));
    b.now_ns += 2 * IDLE;
    b.quiet(&[1, 2, 4]);
    assert!(b.act(scaled(3, 100, None)).contains(&ends(4)));
    assert!(!is_let_go(&b.act(at(5, "i5")), 5));
    let mut b = three(params(Wake::Schedule, IDLE));
    b.now_ns += 2 * IDLE;
    b.quiet(&[1, 2]);
    assert!(b.act(scaled(3, 100, Some(3))).contains(&ends(3)));
    assert!(!is_let_go(&b.act(at(5, "i5")), 5));
}

#[test]
fn the_end_of_the_day_lets_a_launch_go_as_well() {
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.act(scaled(3, 100, None));
    b.day_end();
    assert!(is_let_go(&b.act(at(4, "i4")), 4), "the live node may still be there");
    assert!(b.act(report(3, Some(0), 0)).contains(&ends(3)));
    b.publish(1);
    assert_eq!(b.later(S), [request(1)]);
    // With the first update the cluster is awake, whichever instance comes.
    let mut b = three(params(Wake::FirstUpdate, i64::MAX));
    b.act(scaled(3, 100, None));
    b.day_end();
    b.publish(1);
    b.later(S);
    assert!(!is_let_go(&b.act(at(4, "i4")), 4));
}

#[test]
fn nodes_that_were_missing_at_the_end_of_the_day_are_let_go() {
    let mut b = three(params(Wake::FirstQuery, i64::MAX));
    // The live node rolls, and its successor, which it is asked to request, has not come.
    b.roll(3, 100);
    b.day_end();
    assert!(is_let_go(&b.act(at(4, "i4")), 4));
}

#[test]
fn a_first_node_that_has_not_come_by_the_end_of_the_day_is_let_go() {
    let mut b = three(params(Wake::FirstQuery, i64::MAX));
    b.day_end();
    b.act(report(3, Some(0), 0));
    assert_eq!(b.act(QueueEvent::Wake), [request(1)]);
    b.day_end();
    assert!(is_let_go(&b.act(at(4, "i4")), 4));
    assert_eq!(b.sleepers(), 1);
}

#[test]
fn both_queues_of_an_instance_let_its_nodes_go() {
    let other = |handle: i32, instance: &str| {
        let (group, instance) = (Some(b"g".to_vec()), Some(instance.as_bytes().to_vec()));
        QueueEvent::Join(Join { queue: q("other"), group, instance, ..joining(handle, &format!("o{handle}")) })
    };
    let mut b = Bench::with(params(Wake::Schedule, IDLE));
    b.act(at(1, "i1"));
    b.act(other(2, "i1"));
    b.publish(9);
    b.later(S);
    b.later(2 * IDLE);
    b.quiet(&[2]);
    assert!(b.act(scaled(1, 9, None)).contains(&ends(2)), "both sleep");
    assert!(is_let_go(&b.act(other(4, "i2")), 4), "the queue whose node has requested nothing");
    assert!(is_let_go(&b.act(at(5, "i2")), 5), "and the other one");
    b.disconnect(5);
    assert!(!is_let_go(&b.act(at(6, "i2")), 6), "its fleet has kept it");
    assert_eq!(b.sleepers(), 2);
}

#[test]
fn a_query_on_a_node_of_one_queue_does_not_keep_the_whole_group_awake_for_ever() {
    let join = |handle: i32, queue: &str| {
        let (group, instance) = (Some(b"g".to_vec()), Some(format!("k{handle}").into_bytes()));
        let known = Join { queue: q(queue), group, instance, ..joining(handle, &format!("k{handle}")) };
        QueueEvent::Join(known)
    };
    let mut b = Bench::with(params(Wake::Schedule, IDLE));
    b.act(join(1, "rdb"));
    b.act(join(2, "other"));
    b.publish(1);
    b.later(S);
    b.later(2 * IDLE);
    b.quiet(&[1, 2]);
    assert_eq!(b.sleepers(), 2);
    // The fleet keeps both; one is queried.
    b.act(join(1, "rdb"));
    b.act(join(2, "other"));
    b.act(report(1, None, 0));
    assert_eq!(b.sleepers(), 1);
    b.later(2 * IDLE);
    b.quiet(&[1, 2]);
    assert_eq!((b.queue.subscribers().len(), b.sleepers()), (0, 2));
}
