//! Nothing goes wrong any more: whatever the state, everything comes right. What is left to be done is done in one order, which
//! depends on the state alone, so that a walk that meets an earlier one need not go on.

use super::state::{Left, State};
use super::steps::{Act, Model};
use std::collections::HashSet;

/// Steps after which something does not come to rest.
const STEPS_MOST: usize = 3_000;

#[derive(Default)]
pub struct Healer {
    /// States from which all comes right.
    good: HashSet<State>,
}

impl Healer {
    pub fn states(&self) -> usize {
        self.good.len()
    }

    /// # Errors
    /// What does not come right, and the way there.
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
            if acts.len() > STEPS_MOST {
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

/// What is done next. Time passes when there is nothing else, and another node is launched where that, too, has left a queue in
/// want of one.
fn next(model: &Model, state: &State) -> Result<Option<Act>, String> {
    let acts = model.acts(state)?;
    let rank = |act: &Act| match act {
        Act::TickStarts | Act::Drain(_) | Act::TwinEnds => 0,
        Act::TickSeesEnd(..) => 1,
        Act::NodeSeesEnd(..) => 2,
        Act::Down(..) => 3,
        Act::Up(..) => 4,
        Act::Turn(_) => 5,
        Act::Launch(_) => 6,
        Act::Connect(_) => 7,
        Act::TimePasses => 8,
        _ => u8::MAX,
    };
    let first = acts.into_iter().filter(|act| rank(act) < u8::MAX).min_by_key(rank);
    match first {
        None if model.judge_rest(state).is_err() => Ok(spare(model, state)),
        first => Ok(first),
    }
}

/// A node is launched because one is missing, if there is a place that it has not come to yet.
fn spare(model: &Model, state: &State) -> Option<Act> {
    let (nodes, all) = model.context.places();
    let is_free = |number: &u8| state.places.get(usize::from(*number)).is_some_and(|place| place.node == 0);
    (nodes..all).find(is_free).map(Act::Launch)
}
