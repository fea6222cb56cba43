//! The model checker of the lease within bounds that take seconds. Larger bounds: `elastick-sim lease`.

use elastick_sim::lease::{Bounds, Defect, check};

/// Two processes, nothing goes wrong.
const QUIET: Bounds = Bounds { processes: 2, time: 6, lost: 0, late: 0, pauses: 0, kills: 0, requests: 0, drift: 0 };

fn holds(bounds: Bounds) {
    match check(bounds, None, |_| {}) {
        Ok(outcome) => println!("{bounds:?}\n{outcome}"),
        Err(found) => panic!("{bounds:?}\n{found}"),
    }
}

#[test]
fn every_order_without_faults_has_one_active_process() {
    holds(Bounds { time: 8, ..QUIET });
}

#[test]
fn every_order_of_a_lost_call_comes_right() {
    holds(Bounds { lost: 1, time: 5, ..QUIET });
}

#[test]
fn every_order_of_two_lost_calls_comes_right() {
    holds(Bounds { lost: 2, time: 4, ..QUIET });
}

#[test]
fn every_order_of_a_late_write_comes_right() {
    holds(Bounds { late: 1, time: 5, ..QUIET });
}

#[test]
fn every_order_of_a_pause_comes_right() {
    holds(Bounds { pauses: 1, time: 5, ..QUIET });
}

#[test]
fn every_order_of_a_kill_comes_right() {
    holds(Bounds { kills: 1, time: 5, ..QUIET });
}

#[test]
fn every_order_of_a_request_to_step_down_comes_right() {
    holds(Bounds { requests: 1, time: 5, ..QUIET });
}

#[test]
fn every_order_with_clocks_that_fall_behind_comes_right() {
    holds(Bounds { drift: 1, time: 8, ..QUIET });
}

#[test]
fn every_order_of_a_pause_and_a_lost_call_comes_right() {
    holds(Bounds { pauses: 1, lost: 1, time: 3, ..QUIET });
}

#[test]
fn three_processes_have_one_active_among_them() {
    holds(Bounds { processes: 3, time: 3, ..QUIET });
}

/// The bounds within which each bug is found.
fn bounds_for(defect: Defect) -> Bounds {
    match defect {
        Defect::NoCondition => Bounds { time: 1, ..QUIET },
        Defect::RenewsByStaleRead | Defect::NoFenceAtLog => Bounds { pauses: 1, ..QUIET },
        Defect::DeletesAtRelease => Bounds { requests: 1, time: 2, ..QUIET },
        Defect::SkipsReadBack => Bounds { lost: 1, time: 4, ..QUIET },
        Defect::TrustsWallClock => QUIET,
        Defect::NoMargin => Bounds { drift: 1, lost: 3, time: 9, ..QUIET },
        Defect::RenewsOnce => QUIET,
    }
}

#[test]
fn every_seeded_bug_is_found() {
    for defect in Defect::ALL {
        let bounds = bounds_for(defect);
        match check(bounds, Some(defect), |_| {}) {
            Ok(outcome) => panic!("{defect:?} was not found within {bounds:?}\n{outcome}"),
            Err(found) => println!("{defect:?}\n{found}\n"),
        }
    }
}
