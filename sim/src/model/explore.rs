//! Breadth-first search over all states, so that a violation is shown with a shortest path.

use super::Bounds;
use super::heal::Healer;
use super::state::State;
use super::steps::{Act, Model};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::fmt;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// Most steps of a path that are printed: a path that never comes to rest is endless.
const MAX_WAY: usize = 60;

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub states: usize,
    /// Transitions between states.
    pub steps: u64,
    /// Length of the longest of the shortest paths to a state.
    pub depth: u32,
    /// Whether every reachable state was visited.
    pub exhaustive: bool,
    pub tick_states: usize,
    pub tick_steps: usize,
    pub node_states: usize,
    pub node_steps: usize,
    /// Pairs of processes with equal fingerprints that were compared.
    pub compared: u64,
    /// States on paths to rest.
    pub healing: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.exhaustive { "all there are" } else { "not all: out of time" };
        writeln!(f, "states               {} ({all})", self.states)?;
        writeln!(f, "steps                {}", self.steps)?;
        writeln!(f, "longest way          {}", self.depth)?;
        writeln!(f, "on the ways to rest  {}", self.healing)?;
        writeln!(f, "tickerplant          {} states, {} steps", self.tick_states, self.tick_steps)?;
        writeln!(f, "node                 {} states, {} steps", self.node_states, self.node_steps)?;
        writeln!(f, "pairs compared       {}", self.compared)
    }
}

/// A broken rule, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub what: String,
    /// Steps of the path, in words.
    pub way: Vec<String>,
    /// Index in the path from which no further fault occurs.
    pub healing_from: usize,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.way.iter().enumerate().take(MAX_WAY) {
            if number == self.healing_from {
                writeln!(f, "     from here on nothing goes wrong any more")?;
            }
            writeln!(f, "{:3}  {step}", number.saturating_add(1))?;
        }
        if self.way.len() > MAX_WAY {
            writeln!(f, "     and {} more", self.way.len().saturating_sub(MAX_WAY))?;
        }
        write!(f, "     {}", self.what)
    }
}

/// Reason why the search ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The bounds exceed what a model can have; the text says how.
    Bounds(String),
    Found(Box<Found>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Bounds(what) => f.write_str(what),
            Failure::Found(found) => found.fmt(f),
        }
    }
}

impl From<Box<Found>> for Failure {
    fn from(found: Box<Found>) -> Failure {
        Failure::Found(found)
    }
}

/// State of a search.
struct Explorer {
    model: Model,
    healer: Healer,
    states: Vec<State>,
    /// Predecessor of each state, and the act that led from it.
    before: Vec<(u32, Act)>,
    depths: Vec<u32>,
    known: HashTable<u32>,
    hasher: FixedState,
    steps: u64,
}

fn at<T>(of: &[T], number: u32) -> Option<&T> {
    of.get(usize::try_from(number).ok()?)
}

impl Explorer {
    /// Adds a state. Returns true if it is new.
    fn enter(&mut self, state: State, before: u32, act: Act) -> bool {
        let hash = self.hasher.hash_one(state);
        if self.known.find(hash, |known| at(&self.states, *known) == Some(&state)).is_some() {
            return false;
        }
        let number = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        let depth = at(&self.depths, before).map_or(0, |depth| depth.saturating_add(1));
        self.states.push(state);
        self.before.push((before, act));
        self.depths.push(depth);
        let (states, hasher) = (&self.states, &self.hasher);
        self.known.insert_unique(hash, number, |known| at(states, *known).map_or(0, |state| hasher.hash_one(state)));
        true
    }

    /// Returns the path to a state in words, and what follows it.
    fn found(&mut self, number: u32, last: Option<Act>, healing: &[Act], what: String) -> Found {
        let mut acts = Vec::new();
        let mut from = number;
        while from > 0 {
            let Some((before, act)) = at(&self.before, from) else { break };
            acts.push(*act);
            from = *before;
        }
        acts.reverse();
        acts.extend(last);
        let healing_from = if healing.is_empty() { usize::MAX } else { acts.len() };
        acts.extend(healing);
        let mut way = Vec::new();
        let mut state = self.states.first().copied().unwrap_or_default();
        for act in acts {
            way.push(self.model.words(&state, act));
            match self.model.step(&state, act) {
                Ok(next) => state = next,
                Err(_) => break,
            }
        }
        Found { what, way, healing_from }
    }

    fn run(&mut self, ends: Option<Instant>, report: &mut dyn FnMut(usize, usize)) -> Result<bool, Box<Found>> {
        let mut number = 0u32;
        while let Some(state) = at(&self.states, number).copied() {
            if number.is_multiple_of(1024) {
                if ends.is_some_and(|ends| Instant::now() >= ends) {
                    return Ok(false);
                }
                report(self.states.len(), usize::try_from(number).unwrap_or(0));
            }
            if let Err((what, healing)) = self.healer.heal(&mut self.model, &state) {
                return Err(Box::new(self.found(number, None, &healing, what)));
            }
            let acts = match self.model.acts(&state) {
                Ok(acts) => acts,
                Err(what) => return Err(Box::new(self.found(number, None, &[], what))),
            };
            for act in acts {
                self.steps = self.steps.saturating_add(1);
                let next = match self.model.step(&state, act) {
                    Ok(next) => next,
                    Err(what) => return Err(Box::new(self.found(number, Some(act), &[], what))),
                };
                if self.enter(next, number, act)
                    && let Err(what) = self.model.judge(&next)
                {
                    return Err(Box::new(self.found(number, Some(act), &[], what)));
                }
            }
            number = number.saturating_add(1);
        }
        Ok(true)
    }
}

/// Visits all states within the bounds, or as many as time permits. Calls `told` with the numbers of known and of visited states.
///
/// # Errors
/// Bounds that are too large, or the first broken rule, with a shortest path to it.
pub fn check(bounds: Bounds, time: Option<Duration>, mut report: impl FnMut(usize, usize)) -> Result<Outcome, Failure> {
    bounds.fit().map_err(Failure::Bounds)?;
    let nothing = |what: String| Box::new(Found { what, way: Vec::new(), healing_from: usize::MAX });
    let ends = time.and_then(|time| Instant::now().checked_add(time));
    let mut model = Model::new(bounds);
    let result = model.first().map_err(nothing).and_then(|start| {
        let mut explorer = Explorer {
            model,
            healer: Healer::default(),
            states: Vec::new(),
            before: Vec::new(),
            depths: Vec::new(),
            known: HashTable::new(),
            hasher: FixedState::default(),
            steps: 0,
        };
        explorer.enter(start, 0, Act::TickStarts);
        let exhaustive = explorer.run(ends, &mut report)?;
        let Explorer { model, healer, states, depths, steps, .. } = explorer;
        Ok(Outcome {
            states: states.len(),
            steps,
            depth: depths.last().copied().unwrap_or(0),
            exhaustive,
            tick_states: model.ticks.states(),
            tick_steps: model.ticks.steps(),
            node_states: model.nodes.states(),
            node_steps: model.nodes.steps(),
            compared: model.ticks.compared.saturating_add(model.nodes.compared),
            healing: healer.states(),
        })
    });
    Ok(result?)
}
