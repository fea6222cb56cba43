//! Each mutant is caught by the seed that the table in `sim/README.md` names, and that seed's day passes without it.

use super::Faults;
use super::mutants::Defect;
use super::run::{Cluster, run_several};
use std::collections::BTreeSet;

/// Mutants that a simulated day cannot reach: they need a second process under a node's name, or an update that one node can never receive.
/// The model checker finds them.
const OF_THE_MODEL: &[Defect] = &[Defect::NameGivenTwice, Defect::UnreadableForgotten];

/// Parses the README's table: mutant, level of faults, seed.
fn table() -> Vec<(Defect, Faults, u64)> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("it is there");
    let rows = readme.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, name, faults, seed, ..] = cells.as_slice() else { return None };
        let defect = Defect::ALL.into_iter().find(|defect| format!("{defect:?}") == *name)?;
        Some((defect, Faults::from_name(faults)?, seed.parse().ok()?))
    });
    rows.collect()
}

/// Cluster of a mutant's day: those of the lease need two tickerplants.
fn cluster(defect: Defect) -> Cluster {
    Cluster { tickerplants: if defect.of_lease().is_some() { 2 } else { 1 }, sleeps: defect.needs_sleep() }
}

/// Tests every fourth row, from `first` on.
fn are_caught(first: usize) {
    for (defect, faults, seed) in table().into_iter().skip(first).step_by(4) {
        let day = run_several(seed, 1, faults, (false, false), Some(defect), cluster(defect));
        let what = day.err().map(|failure| failure.what);
        assert!(what.is_some(), "{defect:?} was not caught by seed {seed}");
        let by_auditor = what.as_ref().is_some_and(|what| !what.starts_with("a panic: "));
        assert!(by_auditor, "{defect:?} was caught by no rule of the auditor: {what:?}");
    }
}

#[test]
fn without_a_defect_the_days_of_the_table_come_right() {
    let day_of = |(defect, faults, seed): (Defect, Faults, u64)| (faults.name(), seed, cluster(defect));
    let days: BTreeSet<(&str, u64, Cluster)> = table().into_iter().map(day_of).collect();
    for (faults, seed, cluster) in days {
        let day = Faults::from_name(faults).map(|faults| run_several(seed, 1, faults, (false, false), None, cluster));
        assert_eq!(day.and_then(Result::err), None);
    }
}

#[test]
fn the_table_has_each_defect_once() {
    let named: Vec<Defect> = table().into_iter().map(|(defect, ..)| defect).collect();
    let expected: Vec<Defect> = Defect::ALL.into_iter().filter(|defect| !OF_THE_MODEL.contains(defect)).collect();
    assert_eq!(named, expected);
}

#[test]
fn each_is_caught_1() {
    are_caught(0);
}

#[test]
fn each_is_caught_2() {
    are_caught(1);
}

#[test]
fn each_is_caught_3() {
    are_caught(2);
}

#[test]
fn each_is_caught_4() {
    are_caught(3);
}
