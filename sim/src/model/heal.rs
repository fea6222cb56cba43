//! Recovery without further faults: from every state, everything must come right. The remaining acts happen in one order that depends on
//! the state alone, so a path that reaches a state known to recover can stop.

use super::state::{Left, State};
use super::steps::{Act, Model};
use std::collections::HashSet;

/// Steps within which a state must come to rest.
const MAX_STEPS: usize = 3_000;

/// Checks recovery, and remembers the states known to recover.
#[derive(Default)]
pub struct Healer {
    /// States known to recover.
    good: HashSet<State>,
}

impl Healer {
    pub fn states(&self) -> usize {
        self.good.len()
    }

    /// Runs a state to rest without further faults.
    ///
    /// # Errors
    /// The rule that is broken, and the path to it.
    pub fn heal(&mut self, model: &mut Model, state: &State) -> Result<(), (String, Vec<Act>)> {
        let mut at = State { left: Left::default(), ..*state };
        let (mut states, mut acts) = (Vec::new(), Vec::new());
        let broken = loop {
            if self.good.contains(&at) {
                break None;
            }
            states.push(at);
            let next = match next(model, &at) {
                Ok(Some(act)) => act,
                Ok(None) => break model.judge_rest(&at).err(),
                Err(text) => break Some(text),
            };
            acts.push(next);
            match model.step(&at, next) {
                Ok(to) => at = to,
                Err(text) => break Some(text),
            }
            if let Err(text) = model.judge(&at) {
                break Some(text);
            }
            if acts.len() > MAX_STEPS {
                break Some("it does not come to rest".to_string());
            }
        };
        match broken {
            Some(text) => Err((text, acts)),
            None => {
                self.good.extend(states);
                Ok(())
            }
        }
    }
}

/// Returns the next act. Time passes only if nothing else can happen, and a further node is launched only if a queue still lacks one after that.
fn next(model: &Model, state: &State) -> Result<Option<Act>, String> {
    let acts = model.acts(state)?;
    let tick = model.tick_of(state)?;
    let is_asleep = |number: u8| tick.asleep.contains(&model.context.queue_of(number));
    let rank = |act: &Act| match act {
        Act::TickStarts | Act::Drain(_) | Act::TwinEnds => 0,
        Act::TickSeesEnd(..) => 1,
        Act::NodeSeesEnd(..) => 2,
        Act::Down(..) => 3,
        Act::Up(..) => 4,
        Act::Turn(_) => 5,
        // A sleeping queue gets its nodes once it is woken.
        Act::Launch(number) if is_asleep(*number) => u8::MAX,
        Act::Launch(_) => 6,
        Act::Connect(_) => 7,
        Act::Report(..) => 8,
        Act::TimePasses => 9,
        Act::Wake => 10,
        _ => u8::MAX,
    };
    let first = acts.into_iter().filter(|act| rank(act) < u8::MAX).min_by_key(rank);
    match first {
        None if model.judge_rest(state).is_err() => Ok(spare(model, state)),
        first => Ok(first),
    }
}

/// Returns the launch of a spare node, if a place for one is still unused.
fn spare(model: &Model, state: &State) -> Option<Act> {
    let (nodes, all) = model.context.places();
    let is_free = |number: &u8| state.places.get(usize::from(*number)).is_some_and(|place| place.node == 0);
    (nodes..all).find(is_free).map(Act::Launch)
}
