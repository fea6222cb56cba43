//! Each mutant is found within bounds that pass without it.

use super::{Bounds, Failure, check};
use crate::mutants::{Defect, plant};

fn finds(defect: Defect, bounds: Bounds) {
    plant(Some(defect));
    let result = check(bounds, None, |_, _| {});
    plant(None);
    match result {
        Ok(outcome) => panic!("{defect:?} was not found in\n{outcome}"),
        Err(Failure::Found(found)) => println!("{defect:?}\n{found}"),
        Err(Failure::Bounds(what)) => panic!("{what}"),
    }
}

#[test]
fn a_replay_that_skips_one() {
    finds(Defect::SkipsOneAtReplay, Bounds { updates: 2, ..Bounds::SMALLEST });
}

#[test]
fn a_rolled_node_that_takes_the_live_one_along() {
    finds(Defect::RolledDisconnectPromotes, Bounds { updates: 2, rolls: 1, crashes: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_window_that_is_one_off() {
    finds(Defect::WindowOffByOne, Bounds { rolls: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_resume_that_takes_again_what_is_there() {
    finds(Defect::NoDedupOnResume, Bounds { cuts: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_restart_that_knows_nothing() {
    finds(Defect::StateLostAtRestart, Bounds { crashes: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_days_end_that_forgets_nothing() {
    finds(Defect::DayEndForgetsNothing, Bounds { day_ends: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_lost_window_that_no_node_rebuilds() {
    finds(Defect::LostWindowForgotten, Bounds { rolls: 1, crashes: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_rebuild_that_ends_early() {
    finds(Defect::RebuildEndsEarly, Bounds { rolls: 1, crashes: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_successor_that_starts_late() {
    finds(Defect::SuccessorStartsLate, Bounds { updates: 2, rolls: 1, ..Bounds::SMALLEST });
}

#[test]
fn an_end_of_a_connection_that_is_not_noticed() {
    finds(Defect::DisconnectNotNoticed, Bounds { crashes: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_drop_that_is_not_heeded() {
    finds(Defect::DropNotHeeded, Bounds { cuts: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_policy_that_learns_of_a_window_before_it_is_open() {
    finds(Defect::PolicyBeforeWindow, Bounds { fills: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_name_that_is_given_twice() {
    finds(Defect::NameGivenTwice, Bounds { nodes: [1, 0], twins: 1, ..Bounds::SMALLEST });
}

#[test]
fn health_counts_disconnected_nodes() {
    finds(Defect::HealthCountsAbsent, Bounds { nodes: [1, 0], cuts: 1, ..Bounds::SMALLEST });
}

#[test]
fn an_update_that_cannot_be_received_and_is_taken_for_a_broken_connection() {
    finds(Defect::UnreadableForgotten, Bounds { nodes: [1, 0], updates: 2, too_long: 1, ..Bounds::SMALLEST });
}

#[test]
fn more_that_counts_as_written_down_than_was() {
    finds(Defect::WrittenTooFar, Bounds { updates: 2, rolls: 1, written: 1, ..Bounds::SMALLEST });
}

#[test]
fn a_queue_that_wakes_up_without_what_its_nodes_held() {
    finds(Defect::SleepsUncovered, Bounds { nodes: [1, 0], idles: 1, wakes: 1, ..Bounds::SMALLEST });
}
