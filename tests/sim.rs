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
    // Once, a node that waited for its end was made live, and its fleet kept it: it took nothing.
    holds(400_279, 1, Faults::Hell);
    // Once, the auditor looked for what a subscriber was told before it was in the file, by a tickerplant whose host then lost its
    // power, at its place in the log of the next one, to which it was sent again.
    holds(600_035, 1, Faults::Hell);
    // Once, a start that was refused for what a power cut had done was the last writer of its boot to the next start, which trusted
    // the side file and went on behind a hole.
    holds(600_110, 1, Faults::Hell);
    // Once, a node that waited for its end kept the window that it was given until its fleet had answered.
    holds(600_008, 1, Faults::Hell);
    // Once, a node was asked for while one of the day before still counted, and was never asked for again.
    holds(600_021, 1, Faults::Hell);
    // Once, what the side file had said of an end that was cut off came back in the next power cut, and what the log had there by then
    // was taken for damage.
    holds(700_300, 1, Faults::Hell);
    // Once, a record that was synced was given up with the hole that a power cut had left behind it.
    holds(700_410, 1, Faults::Hell);
    // Once, a log that could not be made as a sync failed was not made again: its first bytes, and its name, were not on the disk.
    holds(700_322, 1, Faults::Hell);
    // Once, the world was looked at while a node that was paused over the day's end had not come round yet.
    holds(700_340, 1, Faults::Hell);
    // Once, a feed on another host did not see all of a log that had ended meanwhile, and sent again what was in it.
    holds(800_445, 1, Faults::Hell);
    // Once, zeros that a power cut had left made an update whole of which some columns had never reached the disk.
    holds(841_170, 1, Faults::Hell);
    // Once, what was left of a window that was rebuilt over the day's end was sent into the next day.
    holds(842_481, 1, Faults::Hell);
    // Once, the world was looked at while the log waited for a file system that had hung.
    holds(800_520, 1, Faults::Hell);
}

/// The trace of seed 9.
fn trace() -> String {
    run_seed(9, 1, Faults::Hell, false, true, None)
        .map(|(_, trace)| trace)
        .expect("it comes right")
        .expect("it was kept")
}

#[test]
fn one_seed_is_one_run() {
    // The second one has a process that knows the first one's symbols, and another world beside it.
    let (one, beside) = (trace(), std::thread::spawn(|| drop(run_seed(10, 1, Faults::Hell, false, false, None))));
    let other = trace();
    let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other);
    assert!(one == other, "two runs of seed 9 differ at {differs:?}");
    beside.join().expect("a world ends");
}

#[test]
fn a_run_of_nothing_is_refused() {
    for count in ["--seeds", "--days", "--threads"] {
        let program = env!("CARGO_BIN_EXE_elastick");
        let output =
            std::process::Command::new(program).args(["sim", count, "0"]).output().expect("the simulator runs");
        assert_eq!(output.status.code(), Some(2), "{count}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(count), "{count} is named");
    }
}
