//! Simulated days: a smoke of a few seeds, and seeds that once found something.

use elastick::sim::{Faults, Options, run, run_seed};

fn holds(seed: u64, seeds: u64, faults: Faults) {
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
    holds(1, 1, Faults::None);
    let trace = || run_seed(9, 1, Faults::Hell, false, true, None).map(|(_, trace)| trace.unwrap_or_default());
    let (one, other) = (trace(), trace());
    assert!(one.is_ok(), "{one:?}");
    assert!(one == other, "two runs of seed 9 differ");
}

/// Each planted defect, and a seed whose day comes right without it.
#[cfg(feature = "defects")]
mod planted {
    use super::*;
    use elastick::defect::Defect;

    const CAUGHT: [(Defect, Faults, u64); 16] = [
        (Defect::SkipsOneAtReplay, Faults::Hell, 11),
        (Defect::RolledDisconnectPromotes, Faults::Hell, 10),
        (Defect::RollInReplayUndone, Faults::Hell, 10),
        (Defect::StateLostAtRestart, Faults::Hell, 8),
        (Defect::WindowOffByOne, Faults::Hell, 8),
        (Defect::NoDedupOnResume, Faults::Hell, 8),
        (Defect::SyncErrorIgnored, Faults::Hell, 9),
        (Defect::AckBeforeDurable, Faults::Hell, 10),
        (Defect::RejoinsOneLate, Faults::Hell, 11),
        (Defect::SlowSubscriberLosesUpdates, Faults::Hell, 2),
        (Defect::DayEndForgetsNothing, Faults::None, 2),
        (Defect::LostWindowForgotten, Faults::Hell, 9),
        (Defect::RebuildEndsEarly, Faults::Hell, 9),
        (Defect::SuccessorStartsLate, Faults::Hell, 9),
        (Defect::DisconnectNotNoticed, Faults::Hell, 8),
        (Defect::DropNotHeeded, Faults::Hell, 8),
    ];

    #[test]
    fn each_is_caught() {
        for (defect, faults, seed) in CAUGHT {
            let options = Options { seed, seeds: 1, days: 1, faults, trace: false, threads: 1, defect: Some(defect) };
            let (_, failures) = run(&options, |_| {});
            assert!(!failures.is_empty(), "{defect:?} was not caught by seed {seed}");
        }
    }
}
