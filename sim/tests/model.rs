//! The model checker within small bounds, which take seconds. Larger bounds: `elastick-sim model`.

use elastick_sim::model::{Bounds, check};
use std::process::Command;

fn holds(bounds: Bounds) {
    match check(bounds, None, |_, _| {}) {
        Ok(outcome) => {
            println!("{bounds:?}\n{outcome}");
            assert!(outcome.exhaustive);
        }
        Err(found) => panic!("{bounds:?}\n{found}"),
    }
}

#[test]
fn every_order_of_a_roll_comes_right() {
    holds(Bounds { updates: 2, rolls: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_crash_comes_right() {
    holds(Bounds { crashes: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_broken_connection_and_a_roll_comes_right() {
    // Regression: a window whose roll was lost with the connection was never verified.
    holds(Bounds { nodes: [1, 0], cuts: 1, rolls: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_days_end_comes_right() {
    holds(Bounds { day_ends: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_two_crashes_comes_right() {
    holds(Bounds { nodes: [1, 0], crashes: 2, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_crash_and_a_days_end_comes_right() {
    holds(Bounds { nodes: [1, 0], crashes: 1, day_ends: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_broken_connection_and_a_days_end_comes_right() {
    holds(Bounds { nodes: [1, 0], cuts: 1, day_ends: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_two_days_ends_comes_right() {
    // Regression: a node that received the second day end before the reply with the date took one day's update for another's.
    holds(Bounds { nodes: [1, 0], updates: 2, day_ends: 2, ..Bounds::SMALLEST });
}

#[test]
fn every_order_in_two_queues_comes_right() {
    holds(Bounds { nodes: [1, 1], rolls: 1, ..Bounds::SMALLEST });
}

#[test]
fn bounds_that_are_too_large_are_all_that_is_wrong() {
    for bound in ["--nodes", "--others", "--updates", "--day-ends"] {
        let program = env!("CARGO_BIN_EXE_elastick-sim");
        let output = Command::new(program).args(["model", bound, "16"]).output().expect("the model runs");
        assert_eq!(output.status.code(), Some(2), "{bound}");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(words.contains("a model has") && !words.contains("rule"), "{words}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{bound}");
    }
}

#[test]
fn every_order_of_a_full_node_comes_right() {
    holds(Bounds { nodes: [1, 0], fills: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_second_process_of_one_name_comes_right() {
    holds(Bounds { nodes: [1, 0], twins: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_an_update_that_is_too_long_for_one_node_comes_right() {
    holds(Bounds { updates: 2, too_long: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_second_process_of_one_name_and_a_crash_comes_right() {
    holds(Bounds { nodes: [1, 0], twins: 1, crashes: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_an_idle_queue_that_wakes_comes_right() {
    holds(Bounds { nodes: [1, 0], updates: 2, idles: 1, ..Bounds::SMALLEST });
    holds(Bounds { nodes: [1, 0], idles: 1, wakes: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_write_down_and_a_roll_comes_right() {
    holds(Bounds { updates: 2, rolls: 1, written: 1, ..Bounds::SMALLEST });
}

#[test]
fn every_order_of_a_days_end_after_which_nodes_end_comes_right() {
    holds(Bounds { nodes: [1, 0], day_ends: 1, reports: 1, ..Bounds::SMALLEST });
}
