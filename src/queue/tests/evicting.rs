//! Eviction of nodes whose processes are gone, and removal of queues without nodes.

use super::*;
use crate::queue::evict::MAX_EVICTED;

/// A node joins from the process `p` and its handle.
fn from(handle: i32, node: &str, process: &str) -> Join {
    Join { process: Some(process.as_bytes().to_vec()), ..joining(handle, node) }
}

fn evict(node: &str, process: &str) -> QueueEvent {
    QueueEvent::Evict { node: NodeName(node.as_bytes().to_vec()), process: process.as_bytes().to_vec() }
}

fn evicted(handle: i32, node: &str) -> Action {
    refused(handle, QueueError::Evicted(NodeName(node.as_bytes().to_vec())))
}

/// `a` holds `[0,90)`, `b` is live from 90, `c` and `d` wait.
fn scene() -> Bench {
    let mut b = Bench::new();
    for (handle, node) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        b.step(QueueEvent::Join(from(handle, node, &format!("p{handle}"))));
    }
    b.publish(100);
    b.roll(1, 90);
    b
}

#[test]
fn windows_of_an_evicted_node_go_to_standbys_at_once() {
    let mut b = scene();
    let close = |handle| Action::Close { handle: Handle(handle) };
    assert_eq!(b.step(evict("a", "p1")), [stop(1), close(1), rebuild(3, w(0, 90))]);
    assert_eq!(b.step(evict("b", "p2")), [stop(2), close(2), live(4, 90, 100), need(1, 1, Some(4))][..3]);
    assert_eq!(b.queue.by_handle(Handle(1)), None);
    // The connections close afterwards.
    assert_eq!((b.disconnect(1), b.disconnect(2)), (vec![], vec![]));
}

#[test]
fn an_evicted_process_that_comes_back_is_rejected_and_another_one_of_the_name_is_not() {
    let mut b = scene();
    b.step(evict("a", "p1"));
    let claims = Join { date: Some(TODAY), held: vec![w(0, 90)], ..from(5, "a", "p1") };
    assert_eq!(b.step(QueueEvent::Join(claims)), [evicted(5, "a")]);
    assert_eq!(b.step(QueueEvent::Join(from(6, "another", "p1"))), [evicted(6, "another")]);
    assert_eq!(b.step(QueueEvent::Join(from(7, "a", "p9"))), [joined(7)]);
    assert_eq!(b.step(evict("a", "p1")), [], "the name belongs to another process");
    assert_eq!(b.state(7), State::Waiting);
}

#[test]
fn an_eviction_holds_over_a_restart_and_the_end_of_the_day() {
    let mut b = scene();
    b.step(evict("a", "p1"));
    b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 1) });
    b.tip = 0;
    b.queue = b.restored();
    b.step(QueueEvent::Restored);
    assert_eq!(b.step(QueueEvent::Join(from(5, "a", "p1"))), [evicted(5, "a")]);
}

#[test]
fn evicting_twice_or_before_a_join_changes_no_row() {
    let mut b = scene();
    b.step(evict("a", "p1"));
    let before = b.queue.rows();
    assert_eq!((b.step(evict("a", "p1")), b.step(evict("nobody", "p8"))), (vec![], vec![]));
    assert_eq!(b.queue.rows(), before);
    assert_eq!(b.step(QueueEvent::Join(from(5, "nobody", "p8"))), [evicted(5, "nobody")]);
}

#[test]
fn remembered_processes_are_bounded() {
    let mut b = scene();
    for n in 0..=MAX_EVICTED {
        b.queue.step(evict("nobody", &format!("x{n}")), i(b.tip), b.now());
    }
    let is_evicted = |n: usize| b.queue.is_evicted(&format!("x{n}").into_bytes());
    assert_eq!((is_evicted(0), is_evicted(1), is_evicted(MAX_EVICTED)), (false, true, true));
}

#[test]
fn a_queue_is_forgotten_only_without_nodes() {
    let mut b = scene();
    let forget = || QueueEvent::Forget { handle: Handle(99), queue: q("rdb") };
    assert_eq!(b.step(forget()), [refused(99, QueueError::QueueInUse(q("rdb"), "a".into()))]);
    for handle in 1..5 {
        b.disconnect(handle);
    }
    // Within its grace period a node may come back.
    assert!(matches!(b.step(forget())[..], [Action::Refused { .. }]));
    b.pass(2 * S);
    assert_eq!(b.lost("rdb"), [w(0, 90)]);
    assert_eq!(b.step(forget()), []);
    assert_eq!((b.queue.lines().len(), b.queue.rows()), (0, vec![]));
    assert_eq!(b.step(forget()), []);
    assert_eq!(b.step(QueueEvent::Join(from(6, "e", "p6"))), [joined(6), live(6, 0, 100)]);
}

#[test]
fn the_next_live_node_does_not_take_the_instance_of_an_evicted_one_for_one_that_has_come_up() {
    let mut b = Bench::new();
    for (handle, node) in [(1, "a"), (2, "b")] {
        let (group, instance) = (Some(b"g".to_vec()), Some(format!("i{handle}").into_bytes()));
        b.step(QueueEvent::Join(Join { group, instance, ..from(handle, node, &format!("p{handle}")) }));
    }
    b.publish(100);
    let actions = b.step(evict("a", "p1"));
    let joined: Vec<_> = actions.iter().filter(|action| matches!(action, Action::Group { .. })).collect();
    assert_eq!(joined, [&Action::Group { handle: Handle(2), desired: 2, joined: vec![b"i2".to_vec()] }]);
}
