//! Breadth-first search over all states, so that a violation is shown with a shortest path.

use super::rest::Rest;
use super::state::{Act, Setting, State};
use super::{Bounds, Defect, MAX_PROCESSES, terms};
use foldhash::quality::RandomState;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::fmt;
use std::hash::BuildHasher;

/// Result of a search in which every state was visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub states: u64,
    pub steps: u64,
    /// Length of the longest of the shortest paths to a state.
    pub depth: u32,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "states               {} (all there are)", self.states)?;
        writeln!(f, "steps                {}", self.steps)?;
        writeln!(f, "longest way          {}", self.depth)
    }
}

/// A broken rule, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub what: &'static str,
    pub way: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in (1u32..).zip(&self.way) {
            writeln!(f, "{number:3}  {step}")?;
        }
        write!(f, "     {}", self.what)
    }
}

/// States to expand: each with its number.
type Waiting = VecDeque<(u32, State)>;

/// Checks every order of events. `progress` gets the number of states from time to time.
///
/// # Errors
/// A broken rule; bounds that exceed what a model can have, as a rule broken at once.
pub fn check(bounds: Bounds, defect: Option<Defect>, mut progress: impl FnMut(u64)) -> Result<Outcome, Box<Found>> {
    let refused = |what| Box::new(Found { what, way: Vec::new() });
    if bounds.processes == 0 || bounds.processes > MAX_PROCESSES {
        return Err(refused("a model has 1 to 3 processes"));
    }
    let terms = terms(bounds).map_err(|_| refused("the terms of the lease contradict one another"))?;
    let setting = Setting { terms, defect };
    let [hasher, other] = [RandomState::default(), RandomState::default()];
    let mut known: HashSet<u128> = HashSet::new();
    let fingerprint = |state: &State| {
        let salted = other.hash_one(state);
        u128::from(hasher.hash_one(state)) << 64 | u128::from(salted)
    };
    let mut before: Vec<(u32, Act, u32)> = vec![(0, Act::Time(None), 0)];
    let first = State::first(bounds, &setting);
    known.insert(fingerprint(&first));
    let mut waiting: Waiting = VecDeque::from([(0, first)]);
    let mut rest = Rest::default();
    let mut outcome = Outcome { states: 1, ..Outcome::default() };
    while let Some((number, state)) = waiting.pop_front() {
        let broken = match state.violation() {
            Some(what) => Err((what, Vec::new())),
            None => rest.check(&state, &setting),
        };
        if let Err((what, acts)) = broken {
            let path = way(&before, number).into_iter();
            return Err(Box::new(Found { what, way: path.chain(acts.iter().map(Act::to_string)).collect() }));
        }
        for act in state.acts() {
            let next = state.after(act, &setting);
            outcome.steps = outcome.steps.saturating_add(1);
            if !known.insert(fingerprint(&next)) {
                continue;
            }
            let depth = at(&before, number).map_or(0, |(_, _, depth)| depth.saturating_add(1));
            outcome.depth = outcome.depth.max(depth);
            waiting.push_back((u32::try_from(before.len()).unwrap_or(u32::MAX), next));
            before.push((number, act, depth));
            outcome.states = outcome.states.saturating_add(1);
            if outcome.states.is_multiple_of(10_000) {
                progress(outcome.states);
            }
        }
    }
    Ok(outcome)
}

fn at(before: &[(u32, Act, u32)], number: u32) -> Option<(u32, Act, u32)> {
    before.get(usize::try_from(number).ok()?).copied()
}

/// Returns the path to a state, in words.
fn way(before: &[(u32, Act, u32)], mut number: u32) -> Vec<String> {
    let mut way = Vec::new();
    while number > 0 {
        let Some((from, act, _)) = at(before, number) else { break };
        way.push(act.to_string());
        number = from;
    }
    way.reverse();
    way
}
