//! Random runs of three tickerplants with a copy each and one lease. More: `elastick-sim copies`.

use elastick_sim::copies::{Defect, run};

#[test]
fn each_copy_that_the_lease_names_has_everything_acknowledged() {
    match run(1, 1_000, None, |_| {}) {
        Ok(tally) => {
            println!("{tally}");
            assert!(
                tally.acknowledged > 1_000 && tally.leaders > 1_000 && tally.cut_back > 10 && tally.given_up > 10,
                "{tally}"
            );
        }
        Err(broken) => panic!("{broken}"),
    }
}

#[test]
fn each_seeded_bug_is_found() {
    for defect in Defect::ALL {
        let found = run(1, 2_000, Some(defect), |_| {});
        let Err(broken) = found else { panic!("{defect:?} was not found") };
        println!("{defect:?}: seed {}: {}", broken.seed, broken.rule);
    }
}
