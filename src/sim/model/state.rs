//! A state of the whole: numbers of the processes' states, what is under way between them, and what may still happen.

use super::{Bounds, PLACES};
use std::collections::HashMap;

/// What may still happen, four bits for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Update,
    Crash,
    Cut,
    Roll,
    DayEnd,
    Fill,
    Twin,
}

impl Left {
    pub fn of(bounds: &Bounds) -> Left {
        let Bounds { updates, crashes, cuts, rolls, day_ends, fills, twins, .. } = *bounds;
        let all = [updates, crashes, cuts, rolls, day_ends, fills, twins];
        Left(all.iter().rev().fold(0, |left, count| left << 4 | u32::from(*count & 15)))
    }

    pub fn has(self, kind: Kind) -> bool {
        self.0 >> (kind as u32 * 4) & 15 > 0
    }

    pub fn without(self, kind: Kind) -> Left {
        match self.has(kind) {
            true => Left(self.0.wrapping_sub(1 << (kind as u32 * 4))),
            false => self,
        }
    }
}

/// A place for a node: what is there, and its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    pub node: u32,
    pub wires: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub tick: u32,
    pub left: Left,
    pub places: [Place; PLACES],
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wire {
    /// Each end has it open still.
    pub node: bool,
    pub tick: bool,
    /// Messages under way.
    pub up: Vec<u32>,
    pub down: Vec<u32>,
}

/// The connections of a place: the node's own, and one of which the tickerplant has not seen the end.
pub type Wires = [Option<Wire>; 2];

/// Each set of connections is known by a number.
#[derive(Default)]
pub struct AllWires {
    all: Vec<Wires>,
    numbers: HashMap<Wires, u32>,
}

impl AllWires {
    pub fn get(&self, number: u32) -> Wires {
        usize::try_from(number).ok().and_then(|number| self.all.get(number)).cloned().unwrap_or_default()
    }

    pub fn number(&mut self, mut wires: Wires) -> u32 {
        for wire in &mut wires {
            // Nobody has it any more.
            if wire.as_ref().is_some_and(|wire| !wire.node && !wire.tick) {
                *wire = None;
            }
        }
        if let Some(number) = self.numbers.get(&wires) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(wires.clone());
        self.numbers.insert(wires, number);
        number
    }
}
