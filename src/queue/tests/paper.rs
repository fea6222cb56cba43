//! Known defects of the paper's code, each with a test that this queue does not have it.

use super::*;

/// `.sub.replayUpd` skips one update too many. Here the successor's window starts at the update index where its predecessor's ends, and the
/// first subscriber of a day starts at update 0.
#[test]
fn no_update_falls_between_two_windows() {
    let mut b = Bench::new();
    b.publish(5);
    assert_eq!(b.subscribe(1, "rdb"), [live(1, 0, 5)]);
    b.subscribe(2, "rdb");
    b.publish(95);
    b.roll(1, 60);
    let rows = b.queue.rows();
    assert_eq!((rows[0].first_index, rows[0].last_index), (Some(i(0)), Some(i(60))));
    assert_eq!(rows[1].first_index, Some(i(60)));
}

/// `.u.asg.zpc` rolls every subscriber that was ever live: a rolled one that disconnects makes a second one live, and its `lastI` becomes
/// 0.
#[test]
fn a_sealed_node_that_disconnects_leaves_one_live_node() {
    let mut b = Bench::new();
    for handle in 1..4 {
        b.subscribe(handle, "rdb");
    }
    b.publish(100);
    b.roll(1, 90);
    let actions = b.disconnect(1);
    assert!(!actions.iter().any(|a| matches!(a, Action::MakeLive { .. })), "{actions:?}");
    assert_eq!(b.queue.subscribers().iter().filter(|s| s.state == State::Live).count(), 1);
    assert_eq!(b.queue.rows()[0].last_index, Some(i(90)));
}

/// The paper loses a rolled subscriber's window for the day.
#[test]
fn a_rolled_ones_share_is_rebuilt_for_the_papers_kind_too() {
    let mut b = Bench::new();
    for handle in 1..4 {
        b.subscribe(handle, "rdb");
    }
    b.publish(100);
    b.roll(1, 90);
    assert_eq!(b.disconnect(1), [rebuild(3, w(0, 90))]);
}

/// A live subscriber that crashes gets `lastI` 0; only the `max` over the queue hides that.
#[test]
fn a_crashed_live_ones_whole_share_goes_to_the_next() {
    let mut b = Bench::new();
    for handle in 1..4 {
        b.subscribe(handle, "rdb");
    }
    b.publish(100);
    b.roll(1, 40);
    assert_eq!(b.disconnect(2), [live(3, 40, 100)]);
}

/// A standby that disconnects causes no roll, and is never promoted later.
#[test]
fn a_waiting_one_that_disconnects_is_never_made_live() {
    let mut b = Bench::new();
    for handle in 1..4 {
        b.subscribe(handle, "rdb");
    }
    b.publish(100);
    assert_eq!(b.disconnect(2), []);
    assert_eq!(b.roll(1, 90).last(), Some(&live(3, 90, 100)));
}

/// A roll during replay is final: the subscriber stays rolled, and its successor gets the remaining updates.
#[test]
fn a_roll_during_replay_hands_the_rest_to_the_next() {
    let mut b = Bench::new();
    b.publish(1_000);
    assert_eq!(b.subscribe(1, "rdb"), [live(1, 0, 1_000)]);
    b.subscribe(2, "rdb");
    assert_eq!(b.roll(1, 300), [stop(1), live(2, 300, 1_000)]);
    assert_eq!(b.roll(1, 1_000), []);
    assert_eq!(b.held(1), [w(0, 300)]);
}

/// `.u.asg.tab` is defined with 8 columns and gets 10.
#[test]
fn the_table_has_the_papers_ten_columns_first() {
    let papers = ["time", "handle", "tabs", "syms", "ip", "queue", "live", "rolled", "firstI", "lastI"];
    assert_eq!(COLUMNS[..10], papers);
}

/// `.u.asg.end` uses a date that is not among its arguments.
#[test]
fn the_ended_day_is_named_to_subscribers() {
    let mut b = Bench::new();
    b.subscribe(1, "rdb");
    b.subscribe(2, "rdb");
    assert_eq!(b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 3) }), [end(2)]);
}

/// The paper ends a warm standby with the rolled subscribers; here it may stay.
#[test]
fn a_warm_standby_can_be_kept_over_night() {
    let mut b = Bench::with(Params { standbys_kept: 1, ..Params::default() });
    b.subscribe(1, "rdb");
    b.subscribe(2, "rdb");
    assert_eq!(b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 1) }), []);
    assert_eq!(b.state(2), State::Waiting);
}

/// The paper keeps all queue state in the tickerplant's memory; after a restart every subscriber replays the day.
#[test]
fn a_restart_forgets_no_window() {
    let mut b = Bench::rolled();
    b.queue = b.restored();
    b.step(QueueEvent::Restored);
    assert_eq!(b.step(rejoining(3, "b", &[], Some((90, 97)))), [joined(3), resume(3, 97)]);
}
