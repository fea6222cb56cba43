//! The shell without a log: effects of its steps, members, and proofs.

use super::*;
use crate::env::SystemDisk;
use crate::queue::{Join, NodeName, Now, QueueError, QueueName, Subscribe, Subscription};
use std::net::Ipv4Addr;

const A: Handle = Handle(5);
const B: Handle = Handle(6);

fn shell() -> QueueShell {
    let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
    QueueShell::open(&disk, Params::default(), Date(1), None).expect("nothing is opened").0
}

fn at(tip: u64) -> At<'static> {
    At { tip: UpdateIndex(tip), now: Now::default(), log: None }
}

fn window(first: u64, last: u64) -> Window {
    Window::new(UpdateIndex(first), UpdateIndex(last)).expect("a window")
}

fn all() -> Arc<Subscription> {
    Arc::new(Subscription { tabs: vec![Vec::new()], syms: vec![vec![Vec::new()]] })
}

/// A node joins as a member, and the queue is stepped.
fn join(shell: &mut QueueShell, handle: Handle, is_foreign: bool) -> Vec<What> {
    shell.joins(handle, Member::node(all(), is_foreign, 0));
    let join = Join {
        handle,
        node: NodeName(format!("node{}", handle.0).into_bytes()),
        queue: QueueName(b"q".to_vec()),
        subscription: all(),
        ip: Ipv4Addr::LOCALHOST.into(),
        port: None,
        date: None,
        held: Vec::new(),
        open: None,
        group: None,
        instance: None,
        process: None,
        leaving: None,
    };
    of(shell.step(QueueEvent::Join(join), at(100)), handle)
}

/// The effects for one subscriber.
fn of(stepped: Stepped, handle: Handle) -> Vec<What> {
    assert!(stepped.refused.is_none());
    stepped.effects.into_iter().filter(|effect| effect.to == handle).map(|effect| effect.what).collect()
}

#[test]
fn the_first_node_is_live_and_the_second_waits() {
    let mut shell = shell();
    let joined = |drop| What::Join { subscription: all(), drop };
    let live = What::Live { subscription: all(), first: UpdateIndex(0), position: 1 };
    let first = join(&mut shell, A, false);
    assert!(first.starts_with(&[joined(false), live]), "{first:?}");
    assert_eq!(join(&mut shell, B, true), [joined(true)], "rows of another log are dropped");
    assert_eq!(shell.waiting(A), Some(ToNode::Waiting { nodes: 1 }));
    assert_eq!((shell.waiting(A), shell.waiting(B)), (None, None), "only a change is sent, and only to a live node");
}

#[test]
fn a_roll_makes_the_next_node_live_and_compares_the_proof_that_came_with_it() {
    let mut shell = shell();
    join(&mut shell, A, false);
    join(&mut shell, B, false);
    let next = UpdateIndex(90);
    shell.rolls(A, next, Date(1), Proof::new());
    let stepped = shell.step(QueueEvent::Roll { handle: A, next, date: Date(1) }, at(100));
    let (of_a, of_b): (Vec<_>, Vec<_>) = stepped.effects.into_iter().partition(|effect| effect.to == A);
    let of_a: Vec<_> = of_a.into_iter().map(|effect| effect.what).collect();
    let held = Proof::new();
    let comparison = Comparison { subscription: all(), date: Date(1), window: window(0, 90), held };
    assert!(of_a.contains(&What::StopFeed) && of_a.contains(&What::Compare(comparison)), "{of_a:?}");
    let live = |effect: &Effect| matches!(effect.what, What::Live { first: UpdateIndex(90), .. });
    assert!(of_b.iter().any(live), "{of_b:?}");
}

#[test]
fn a_proof_that_comes_after_the_roll_is_compared_when_it_arrives() {
    let mut shell = shell();
    join(&mut shell, A, false);
    shell.step(QueueEvent::Roll { handle: A, next: UpdateIndex(90), date: Date(1) }, at(100));
    assert!(matches!(shell.proved(A, Date(1), window(0, 90), Proof::new()), Proved::Wanted(Some(_))));
    assert!(matches!(shell.proved(A, Date(1), window(0, 90), Proof::new()), Proved::Unknown));
}

#[test]
fn a_node_proves_an_ended_day_once_and_nothing_follows_if_it_does_not() {
    let mut shell = shell();
    join(&mut shell, A, false);
    join(&mut shell, B, false);
    assert!(
        matches!(shell.proved(A, Date(0), window(0, 50), Proof::new()), Proved::Unknown),
        "no such day has ended here"
    );
    shell.step(QueueEvent::DayEnd { new_date: Date(2) }, at(100));
    assert_eq!(shell.overdue(i64::MAX), None);
    // Its last update may be an earlier one, if it does not receive all.
    assert!(matches!(shell.proved(A, Date(1), window(0, 70), Proof::new()), Proved::Wanted(Some(_))));
    for (handle, last) in [(A, 70), (A, 100), (B, 100)] {
        assert!(matches!(shell.proved(handle, Date(1), window(0, last), Proof::new()), Proved::Unknown));
    }
}

#[test]
fn a_proof_that_no_step_wanted_is_dropped() {
    let mut shell = shell();
    join(&mut shell, A, false);
    shell.rolls(A, UpdateIndex(90), Date(1), Proof::new());
    shell.drop_early_proof();
    let stepped = shell.step(QueueEvent::Roll { handle: A, next: UpdateIndex(90), date: Date(1) }, at(100));
    assert!(!stepped.effects.iter().any(|effect| matches!(effect.what, What::Compare(_))));
    assert!(shell.next_deadline_ns().is_some(), "it is expected now");
}

#[test]
fn a_rejected_event_has_its_reason_and_a_rejected_join_changes_no_membership() {
    let mut shell = shell();
    let stepped = shell.step(QueueEvent::Roll { handle: A, next: UpdateIndex(1), date: Date(1) }, at(100));
    assert_eq!(stepped.refused, Some(QueueError::NotSubscribed));
    let before = shell.joins(A, Member::node(all(), true, 0));
    shell.join_refused(A, before);
    assert!(shell.member(A).is_none());
    join(&mut shell, A, false);
    let before = shell.joins(A, Member::node(all(), true, 0));
    shell.join_refused(A, before);
    assert!(shell.member(A).is_some_and(|member| !member.is_foreign));
}

#[test]
fn a_day_that_ends_before_the_feed_position_feeds_from_its_start_once() {
    let mut shell = shell();
    join(&mut shell, A, false);
    shell.feeds_from_start(A);
    let requested = UpdateIndex(7);
    assert_eq!([shell.feed_position(A, requested), shell.feed_position(A, requested)], [UpdateIndex(0), requested]);
}

#[test]
fn a_paper_subscriber_is_fed_from_the_tip_after_its_replay() {
    let mut shell = shell();
    shell.subscribes(A, Member::paper(all()));
    let (queue, ip) = (QueueName(b"q".to_vec()), Ipv4Addr::LOCALHOST.into());
    let stepped = shell.step(QueueEvent::Subscribe(Subscribe { handle: A, queue, subscription: all(), ip }), at(100));
    let live = What::LivePaper { subscription: all(), first: UpdateIndex(0) };
    assert!(of(stepped, A).contains(&live) && shell.nodes().next().is_none());
}

#[test]
fn only_members_are_reported_as_disconnected() {
    let mut shell = shell();
    join(&mut shell, A, false);
    assert!(shell.is_node(A) && shell.disconnected(A));
    assert!(!shell.disconnected(A) && !shell.is_node(A));
}

#[test]
fn a_node_that_sends_nothing_is_silent_after_five_seconds_the_live_one_first() {
    const S: i64 = 1_000_000_000;
    let mut shell = shell();
    join(&mut shell, A, false);
    join(&mut shell, B, false);
    shell.subscribes(Handle(7), Member::paper(all()));
    let silent = |shell: &QueueShell, now_ns| -> Vec<(Option<Handle>, i64)> {
        shell.silent(now_ns).into_iter().map(|(sub, silence_ns)| (sub.handle, silence_ns)).collect()
    };
    assert_eq!(silent(&shell, 5 * S - 1), []);
    assert_eq!(
        silent(&shell, 5 * S),
        [(Some(A), 5 * S), (Some(B), 5 * S)],
        "a subscriber of the paper reports nothing"
    );
    shell.heard(A, 3 * S);
    assert_eq!(silent(&shell, 7 * S), [(Some(B), 7 * S)]);
    shell.heard(B, 7 * S);
    assert_eq!(silent(&shell, 7 * S), []);
    shell.step(QueueEvent::Disconnect { handle: A }, at(100));
    shell.disconnected(A);
    assert_eq!(silent(&shell, 20 * S), [(Some(B), 13 * S)], "a disconnected node is reported as away");
}
