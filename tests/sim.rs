//! Simulated days: a smoke of a few seeds, and seeds that once found something.

use elastick::sim::{Faults, Options, run, run_seed};
use std::sync::{Mutex, PoisonError};

/// One at a time: symbols count in the memory of nodes, and are the process's.
static ONE: Mutex<()> = Mutex::new(());

fn holds(seed: u64, seeds: u64, faults: Faults) {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options { seed, seeds, days: 1, faults, trace: false, threads: 2, defect: None };
    let (report, failures) = run(&options, |_| {});
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(report.days, seeds);
}

#[test]
fn days_without_faults_come_right() {
    // Once, nodes that had rolled replaced those that came after them.
    holds(0, 3, Faults::None);
}

#[test]
fn days_with_faults_come_right() {
    // Once, in seed 20, a node that rolled behind the end of its day was never told of it.
    holds(20, 2, Faults::Some);
}

#[test]
fn days_with_all_faults_come_right() {
    holds(8, 4, Faults::Hell);
}

#[test]
fn one_seed_is_one_run() {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let trace = || run_seed(9, 1, Faults::Hell, false, true, None).map(|(_, trace)| trace.unwrap_or_default());
    // The first makes every symbol known.
    let (_, one, other) = (trace(), trace(), trace());
    assert!(one.is_ok(), "{one:?}");
    let differs = one.iter().flat_map(|one| one.lines()).zip(other.iter().flat_map(|other| other.lines()));
    assert!(one == other, "two runs of seed 9 differ at {:?}", differs.into_iter().find(|(one, other)| one != other));
}

/// Each planted defect, and a seed whose day comes right without it.
#[cfg(feature = "defects")]
mod planted {
    use super::*;
    use elastick::defect::Defect;

    const CAUGHT: [(Defect, Faults, u64); 19] = [
        (Defect::SkipsOneAtReplay, Faults::Hell, 204),
        (Defect::RolledDisconnectPromotes, Faults::Hell, 201),
        (Defect::RollInReplayUndone, Faults::Hell, 205),
        (Defect::ScalesTwiceOnRetry, Faults::Fleet, 203),
        (Defect::StateLostAtRestart, Faults::Hell, 209),
        (Defect::PublishBeforeLog, Faults::Hell, 207),
        (Defect::WindowOffByOne, Faults::Hell, 202),
        (Defect::NoDedupOnResume, Faults::Hell, 201),
        (Defect::SyncErrorIgnored, Faults::Hell, 203),
        (Defect::AckBeforeDurable, Faults::Hell, 200),
        (Defect::RejoinsOneLate, Faults::Hell, 207),
        (Defect::SlowSubscriberLosesUpdates, Faults::Hell, 207),
        (Defect::DayEndForgetsNothing, Faults::None, 200),
        (Defect::LostWindowForgotten, Faults::Hell, 200),
        (Defect::RebuildEndsEarly, Faults::Hell, 201),
        (Defect::SuccessorStartsLate, Faults::Hell, 202),
        (Defect::DisconnectNotNoticed, Faults::Hell, 201),
        (Defect::DropNotHeeded, Faults::Hell, 202),
        (Defect::RolledNodeReplacesOthers, Faults::None, 203),
    ];

    fn are_caught(some: &[(Defect, Faults, u64)]) {
        let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        for &(defect, faults, seed) in some {
            let options = Options { seed, seeds: 1, days: 1, faults, trace: false, threads: 1, defect: Some(defect) };
            let (_, failures) = run(&options, |_| {});
            assert!(!failures.is_empty(), "{defect:?} was not caught by seed {seed}");
        }
    }

    #[test]
    fn half_of_them_are_caught() {
        are_caught(&CAUGHT[..10]);
    }

    #[test]
    fn the_other_half_are_caught() {
        are_caught(&CAUGHT[10..]);
    }
}
