//! Days of clusters that sleep, against hand calculation.

use super::tests::{GIB, HOUR_NS, flat, setup};
use super::*;
use crate::config::Wake;

const MINUTE_NS: u64 = 60 * SECOND_NS;

fn near(is: u64, wanted: u64, within_ns: u64) {
    assert!(is.abs_diff(wanted) <= within_ns, "{} s, expected {} s", is as f64 / 1e9, wanted as f64 / 1e9);
}

/// Nodes of 1 GiB that roll at 75 % and have a lead time of a minute.
fn sleeping(wake: Wake, idle_ns: Option<u64>, queries: std::ops::Range<u64>) -> Setup {
    let sleep = Sleep { wake, idle_ns, prepare_ns: None, queries };
    Setup { min: 0, sleep: Some(sleep), ..setup(Scale::At(50.0), 75.0, 60) }
}

/// So many bytes between 08:00 and 16:00, and none before and after.
fn market(bytes: u64) -> Shape {
    Shape::parse_csv(&format!("08:00,{bytes}\n16:00,0\n")).unwrap()
}

#[test]
fn the_first_update_brings_one_node_and_the_end_of_the_day_takes_it() {
    let run = play(&sleeping(Wake::FirstUpdate, None, 0..0), &market(GIB / 4)).unwrap();
    let [node] = run.nodes.as_slice() else { panic!("{run:#?}") };
    near(node.requested_ns, 8 * HOUR_NS, SECOND_NS);
    near(node.live_ns.unwrap(), 8 * HOUR_NS + MINUTE_NS, SECOND_NS);
    assert_eq!((node.ended_ns, node.held_bytes), (None, GIB / 4));
    near(run.zero_ns, 8 * HOUR_NS, SECOND_NS);
    let [waking] = run.wakings.as_slice() else { panic!("{run:#?}") };
    assert_eq!(waking.nodes, 1);
    near(waking.wait_ns().unwrap(), MINUTE_NS, SECOND_NS);
    assert_eq!(run.behind_ns, 0);
}

#[test]
fn an_idle_cluster_is_at_zero_after_the_last_update() {
    let run = play(&sleeping(Wake::FirstUpdate, Some(HOUR_NS), 0..0), &market(GIB / 4)).unwrap();
    let [node] = run.nodes.as_slice() else { panic!("{run:#?}") };
    near(node.ended_ns.unwrap(), 17 * HOUR_NS, 2 * MINUTE_NS);
    near(run.zero_ns, 15 * HOUR_NS, 3 * MINUTE_NS);
}

#[test]
fn queries_keep_an_idle_cluster_there() {
    let run = play(&sleeping(Wake::FirstUpdate, Some(HOUR_NS), 9 * HOUR_NS..20 * HOUR_NS), &market(GIB / 4)).unwrap();
    let [node] = run.nodes.as_slice() else { panic!("{run:#?}") };
    near(node.ended_ns.unwrap(), 21 * HOUR_NS, 2 * MINUTE_NS);
}

#[test]
fn the_first_query_brings_a_node_for_each_window_at_once() {
    // 3 GiB a day: four nodes are full at midnight, and by 11:00 the log has 1.375 GiB, which are two windows.
    let run = play(&sleeping(Wake::FirstQuery, None, 11 * HOUR_NS..18 * HOUR_NS), &flat(GIB / 8)).unwrap();
    let [waking] = run.wakings.as_slice() else { panic!("{run:#?}") };
    near(waking.at_ns, 11 * HOUR_NS, SECOND_NS);
    assert_eq!((waking.nodes, waking.bytes >> 20), (2, 1408));
    // A lead time, and then 0.75 GiB at 100 MiB/s, on both nodes at once.
    near(waking.wait_ns().unwrap(), MINUTE_NS + 7_680_000_000, SECOND_NS);
    near(run.zero_ns, 11 * HOUR_NS, SECOND_NS);
    let held: u64 = run.nodes.iter().map(|node| node.held_bytes).sum();
    assert_eq!((held, run.nodes.len()), (3 * GIB, 5), "every byte of the day is on one node");
}

#[test]
fn a_calendar_brings_the_first_node_before_the_market() {
    let mut setup = sleeping(Wake::Calendar, None, 0..0);
    setup.sleep.as_mut().unwrap().prepare_ns = Some(7 * HOUR_NS + HOUR_NS / 2);
    let run = play(&setup, &market(GIB / 4)).unwrap();
    let [node] = run.nodes.as_slice() else { panic!("{run:#?}") };
    near(node.joined_ns, 7 * HOUR_NS + 31 * MINUTE_NS, SECOND_NS);
}

#[test]
fn by_schedule_the_live_node_stays_overnight_unless_it_is_idle() {
    let run = play(&sleeping(Wake::Schedule, None, 0..0), &market(GIB / 4)).unwrap();
    let [node] = run.nodes.as_slice() else { panic!("{run:#?}") };
    assert_eq!((node.requested_ns, node.ended_ns, run.zero_ns), (0, None, 0));
    let run = play(&sleeping(Wake::Schedule, Some(2 * HOUR_NS), 0..0), &market(GIB / 4)).unwrap();
    near(run.zero_ns, 14 * HOUR_NS, 3 * MINUTE_NS);
}
