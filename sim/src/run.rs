//! Runs many seeds over threads. Every tenth seed runs twice and must be identical, byte for byte.

use super::mutants::{self, Defect};
use super::plan::{Faults, Plan};
use super::report::Report;
use super::trace::Trace;
use super::world::World;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub seeds: u64,
    pub days: u64,
    pub faults: Faults,
    pub cluster: Cluster,
    /// Prints every event.
    pub trace: bool,
    pub threads: usize,
    /// Mutant to seed.
    pub defect: Option<Defect>,
}

/// A failed seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    /// Days completed before the failure.
    pub day: u64,
    pub at_ns: u64,
    pub what: String,
    pub faults: &'static str,
    /// Set if two runs of the seed differ: number of days of the run. To reproduce it, run ten seeds of which this is the tenth, which is
    /// run twice.
    pub differs_in: Option<u64>,
    pub cluster: Cluster,
}

/// What a run has that its seed does not draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// Tickerplants that share a log directory, and a lease if there are several.
    pub tickerplants: usize,
    /// Whether the cluster sleeps.
    pub sleeps: bool,
}

impl From<usize> for Cluster {
    fn from(tickerplants: usize) -> Cluster {
        Cluster { tickerplants, sleeps: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} day {} at {} ns: {}", self.seed, self.day, self.at_ns, self.what)?;
        let mut several = match self.cluster.tickerplants {
            1 => String::new(),
            number => format!(" --tickerplants {number}"),
        };
        if self.cluster.sleeps {
            several.push_str(" --sleep");
        }
        if let Some(days) = self.differs_in {
            let first = self.seed.wrapping_sub(TWICE_EVERY - 1);
            return write!(
                f,
                "again: elastick-sim days --seed {first} --seeds {TWICE_EVERY} --days {days} --faults {}{several}",
                self.faults
            );
        }
        let days = self.day.saturating_add(1);
        write!(
            f,
            "again: elastick-sim days --seed {} --days {days} --faults {}{several} --trace",
            self.seed, self.faults
        )
    }
}

/// Every n-th seed is run twice.
const TWICE_EVERY: u64 = 10;

/// Progress, reported after every seed.
pub struct Progress<'a> {
    pub done: u64,
    pub of: u64,
    pub report: &'a Report,
    /// The failure of this seed, if it failed.
    pub failure: Option<&'a Failure>,
}

/// Runs one seed. Returns its counts, and its trace if `keep` is set.
///
/// # Errors
/// The first rule that was broken, or a panic of the code under test.
pub fn run_seed(
    seed: u64,
    days: u64,
    faults: Faults,
    print: bool,
    keep: bool,
    defect: Option<Defect>,
) -> Result<(Report, Option<String>), Failure> {
    run_several(seed, days, faults, (print, keep), defect, 1)
}

/// As [`run_seed`], with several tickerplants or a cluster that sleeps.
///
/// # Errors
/// As [`run_seed`].
pub fn run_several(
    seed: u64,
    days: u64,
    faults: Faults,
    (print, keep): (bool, bool),
    defect: Option<Defect>,
    cluster: impl Into<Cluster>,
) -> Result<(Report, Option<String>), Failure> {
    let cluster = cluster.into();
    let mut at = (0, 0);
    mutants::plant(defect);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let plan = Plan { tickerplants: cluster.tickerplants, ..Plan::of(seed, faults)? };
        let plan = if cluster.sleeps { plan.sleeping(seed) } else { plan };
        let trace = Trace { lines: keep.then(String::new), print, ..Trace::default() };
        let mut world = World::new(seed, plan, trace);
        let plan = format!("{:?}", world.plan);
        world.trace.say(|| plan);
        for day in 0..days {
            let result = world.day();
            at = (day, world.now_ns);
            result.map_err(|broken| broken.0)?;
        }
        world.close();
        Ok::<_, String>((world.report.clone(), world.trace.lines.take()))
    }));
    mutants::plant(None);
    let what = match outcome {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            format!("a panic: {}", text.unwrap_or_default())
        }
    };
    Err(Failure { seed, day: at.0, at_ns: at.1, what, faults: faults.name(), differs_in: None, cluster })
}

/// Runs all seeds, calling `told` after each. Returns the counts of passed seeds, and failures in the order in which they occurred.
pub fn run(options: &Options, report: impl Fn(Progress<'_>) + Sync) -> (Report, Vec<Failure>) {
    let (next, done, ends) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new((Report::default(), Vec::new()));
    let work = || {
        while !ends.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.seeds {
                return;
            }
            let seed = options.seed.wrapping_add(number);
            let twice = number % TWICE_EVERY == TWICE_EVERY - 1;
            let runs = |print, keep| {
                let Options { days, faults, defect, cluster, .. } = *options;
                run_several(seed, days, faults, (print, keep), defect, cluster)
            };
            let mut result = runs(options.trace, twice);
            if let (Ok(first), true) = (&result, twice) {
                let again = runs(false, true);
                if let Some(failure) = difference(first, again, seed, options) {
                    result = Err(failure);
                }
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            let failed = result.is_err();
            match result {
                Ok((report, _)) => all.0.merge(&report),
                Err(failure) => {
                    all.1.push(failure);
                    // A few failures suffice to diagnose.
                    ends.store(all.1.len() >= 5, Ordering::Relaxed);
                }
            }
            let done = done.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let failure = all.1.last().filter(|_| failed);
            report(Progress { done, of: options.seeds, report: &all.0, failure });
        }
    };
    std::thread::scope(|scope| {
        let start = |_: &usize| elastick::sys::stack::thread("days".into()).spawn_scoped(scope, work).is_ok();
        if (0..options.threads.max(1)).filter(start).count() == 0 {
            work();
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Counts and trace of a seed that passed.
type Done = (Report, Option<String>);

/// Returns how the second run of a seed differs from the first, which passed.
fn difference(first: &Done, second: Result<Done, Failure>, seed: u64, options: &Options) -> Option<Failure> {
    let failure = |day, at_ns, what| Failure {
        seed,
        day,
        at_ns,
        what,
        faults: options.faults.name(),
        differs_in: Some(options.days),
        cluster: options.cluster,
    };
    match second {
        Err(Failure { day, at_ns, what, .. }) => {
            Some(failure(day, at_ns, format!("only a second run of the seed broke a rule: {what}")))
        }
        Ok((_, trace)) if trace != first.1 => {
            Some(failure(0, 0, parts_at(first.1.as_deref().unwrap_or_default(), &trace.unwrap_or_default())))
        }
        Ok((report, _)) if report != first.0 => {
            let (one, other) = (first.0.to_string(), report.to_string());
            let of_line = |(one, other): (&str, &str)| (one != other).then(|| format!("{one} | {other}"));
            let what = one.lines().zip(other.lines()).find_map(of_line).unwrap_or_default();
            Some(failure(0, 0, format!("two runs of one seed have met different things: {what}")))
        }
        Ok(_) => None,
    }
}

/// Returns where two traces diverge.
fn parts_at(first: &str, second: &str) -> String {
    let at = first.lines().zip(second.lines()).position(|(one, other)| one != other);
    let at = at.unwrap_or(first.lines().count().min(second.lines().count()));
    let line = |of: &str| of.lines().nth(at).unwrap_or("nothing").to_string();
    format!("two runs of one seed differ at event {at}: {} | {}", line(first), line(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            seed: 0,
            seeds: 10,
            days: 3,
            faults: Faults::Some,
            cluster: 1.into(),
            trace: false,
            threads: 1,
            defect: None,
        }
    }

    /// Text of such a difference, as `elastick-sim days` prints it.
    fn differs(first: &Done, second: Result<Done, Failure>) -> Option<String> {
        difference(first, second, 9, &options()).map(|failure| failure.to_string())
    }

    #[test]
    fn runs_that_are_the_same_differ_in_nothing() {
        let done = (Report::default(), Some("one\ntwo\n".to_string()));
        assert_eq!(differs(&done, Ok(done.clone())), None);
    }

    #[test]
    fn a_second_run_that_differs_is_reported_with_the_command_to_reproduce_it() {
        let done = (Report::default(), Some("one\ntwo\n".to_string()));
        let again = "again: elastick-sim days --seed 0 --seeds 10 --days 3 --faults some";
        let trace = differs(&done, Ok((Report::default(), Some("one\nthree\n".to_string()))));
        assert_eq!(
            trace,
            Some(format!("seed 9 day 0 at 0 ns: two runs of one seed differ at event 1: two | three\n{again}"))
        );
        let mut met = Report::default();
        met.days = 1;
        let report = differs(&done, Ok((met, done.1.clone())));
        let what = "two runs of one seed have met different things: 0 days, 0 events, 0 whole audits | 1 days, 0 events, 0 whole audits";
        assert_eq!(report, Some(format!("seed 9 day 0 at 0 ns: {what}\n{again}")));
        let broken = Failure {
            seed: 9,
            day: 2,
            at_ns: 7,
            what: "a rule".to_string(),
            faults: "some",
            differs_in: None,
            cluster: 1.into(),
        };
        let what = "only a second run of the seed broke a rule: a rule";
        assert_eq!(differs(&done, Err(broken)), Some(format!("seed 9 day 2 at 7 ns: {what}\n{again}")));
    }
}
