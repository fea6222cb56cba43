//! Many worlds, one for each seed, over threads; every tenth is run twice and must be the same, byte for byte.

use super::plan::{Faults, Plan};
use super::report::Report;
use super::trace::Trace;
use super::world::World;
use crate::defect::Defect;
use crate::log::disk;
use crate::sys::clock;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub seeds: u64,
    pub days: u64,
    pub faults: Faults,
    /// Prints every event.
    pub trace: bool,
    pub threads: usize,
    /// One that is planted, where there can be one.
    pub defect: Option<Defect>,
}

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    /// Days that were over by then.
    pub day: u64,
    pub at_ns: u64,
    pub what: String,
    pub faults: &'static str,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.day.saturating_add(1);
        writeln!(f, "seed {} day {} at {} ns: {}", self.seed, self.day, self.at_ns, self.what)?;
        write!(f, "again: elastick sim --seed {} --days {days} --faults {} --trace", self.seed, self.faults)
    }
}

/// Told after every seed.
pub struct Progress<'a> {
    pub done: u64,
    pub of: u64,
    pub report: &'a Report,
    /// If this seed went wrong.
    pub failure: Option<&'a Failure>,
}

/// Runs one seed. Answers what it met, and the trace where `keep` asks for it.
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
    let mut at = (0, 0);
    #[cfg(any(test, feature = "defects"))]
    crate::defect::plant(defect);
    #[cfg(not(any(test, feature = "defects")))]
    let _ = defect;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let plan = Plan::of(seed, faults)?;
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
    #[cfg(any(test, feature = "defects"))]
    crate::defect::plant(None);
    clock::set_virtual(None);
    disk::set_virtual(None);
    let what = match outcome {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            format!("a panic: {}", text.unwrap_or_default())
        }
    };
    Err(Failure { seed, day: at.0, at_ns: at.1, what, faults: faults.name() })
}

/// Runs all seeds. Failures come in the order in which they were met; the report holds what whole seeds have met.
pub fn run(options: &Options, told: impl Fn(Progress<'_>) + Sync) -> (Report, Vec<Failure>) {
    let (next, done, ends) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new((Report::default(), Vec::new()));
    let work = || {
        while !ends.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.seeds {
                return;
            }
            let seed = options.seed.wrapping_add(number);
            let twice = number % 10 == 9;
            let mut result = run_seed(seed, options.days, options.faults, options.trace, twice, options.defect);
            if let (Ok((_, first)), true) = (&result, twice) {
                let again = run_seed(seed, options.days, options.faults, false, true, options.defect);
                let second = again.as_ref().ok().and_then(|(_, trace)| trace.as_ref());
                if first.as_ref() != second {
                    let what = difference(first.as_deref(), second.map(String::as_str));
                    let failure = Failure { seed, day: 0, at_ns: 0, what, faults: options.faults.name() };
                    result = Err(again.err().unwrap_or(failure));
                }
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            let failed = result.is_err();
            match result {
                Ok((report, _)) => all.0.merge(&report),
                Err(failure) => {
                    all.1.push(failure);
                    // Enough to look at.
                    ends.store(all.1.len() >= 5, Ordering::Relaxed);
                }
            }
            let done = done.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let failure = all.1.last().filter(|_| failed);
            told(Progress { done, of: options.seeds, report: &all.0, failure });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Where two traces part.
fn difference(first: Option<&str>, second: Option<&str>) -> String {
    let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
    let at = first.lines().zip(second.lines()).position(|(one, other)| one != other);
    let at = at.unwrap_or(first.lines().count().min(second.lines().count()));
    let line = |of: &str| of.lines().nth(at).unwrap_or("nothing").to_string();
    format!("two runs of one seed differ at event {at}: {} | {}", line(first), line(second))
}
