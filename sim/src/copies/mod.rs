//! Tickerplants that have a copy of the log each, and one lease: the production code of the lease (`elastick::lease::Lease`) and of the copies that it
//! names (`elastick::tick::follow::in_sync::InSync`), under random orders of events. See `README.md` here.

mod cluster;
mod node;
mod store;

pub use store::Defect;

use crate::rng::Rng;
use cluster::Cluster;
use std::fmt;

/// Steps of one run.
const STEPS: u64 = 1_500;

/// What runs have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub runs: u64,
    pub steps: u64,
    /// Updates that were acknowledged.
    pub acknowledged: u64,
    /// Times that a process became active.
    pub leaders: u64,
    /// Times that updates were cut off a log because another one had gone on.
    pub cut_back: u64,
    /// Times that a process took the lease and could not open its log.
    pub given_up: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { runs, steps, acknowledged, leaders, cut_back, given_up } = self;
        writeln!(
            f,
            "{runs} runs, {steps} steps: {leaders} leaders, {acknowledged} acknowledged updates, {cut_back} logs cut back, \
             {given_up} that a new leader could not open"
        )
    }
}

/// A run that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub seed: u64,
    pub rule: String,
    /// The last events before it.
    pub trace: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.rule)?;
        self.trace.iter().try_for_each(|event| writeln!(f, "  {event}"))
    }
}

/// Runs a seed.
///
/// # Errors
/// The rule that was broken.
pub fn run_seed(seed: u64, defect: Option<Defect>) -> Result<Tally, Broken> {
    let mut cluster = Cluster::new(Rng::new(seed), defect);
    let broken = |cluster: &Cluster, rule: String| Broken { seed, rule, trace: cluster.trace() };
    for _ in 0..STEPS {
        cluster.event();
        if let Err(rule) = cluster.check() {
            return Err(broken(&cluster, rule));
        }
    }
    match cluster.recover() {
        Ok(()) => Ok(cluster.tally()),
        Err(rule) => Err(broken(&cluster, rule)),
    }
}

/// Runs seeds from `first` on.
///
/// # Errors
/// The first one that broke a rule.
pub fn run(first: u64, runs: u64, defect: Option<Defect>, progress: impl Fn(u64)) -> Result<Tally, Box<Broken>> {
    let mut all = Tally::default();
    for seed in first..first.saturating_add(runs) {
        let one = run_seed(seed, defect).map_err(Box::new)?;
        all.runs = all.runs.saturating_add(1);
        all.steps = all.steps.saturating_add(one.steps);
        all.acknowledged = all.acknowledged.saturating_add(one.acknowledged);
        all.leaders = all.leaders.saturating_add(one.leaders);
        all.cut_back = all.cut_back.saturating_add(one.cut_back);
        all.given_up = all.given_up.saturating_add(one.given_up);
        if all.runs % 1_000 == 0 {
            progress(all.runs);
        }
    }
    Ok(all)
}
