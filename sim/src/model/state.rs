//! A state of the whole model: numbers of the processes' states, messages in flight, and the events that may still happen.

use super::{Bounds, PLACES};
use std::collections::HashMap;

/// Remaining events, four bits for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left(u64);

/// Kind of event whose number is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Update,
    Crash,
    Cut,
    Roll,
    DayEnd,
    Fill,
    Twin,
    TooLong,
    Idle,
    Wake,
    Written,
    Report,
}

impl Left {
    pub fn of(bounds: &Bounds) -> Left {
        let Bounds { updates, crashes, cuts, rolls, day_ends, fills, twins, too_long, .. } = *bounds;
        let Bounds { idles, wakes, written, reports, .. } = *bounds;
        let all = [updates, crashes, cuts, rolls, day_ends, fills, twins, too_long, idles, wakes, written, reports];
        Left(all.iter().rev().fold(0, |left, count| left << 4 | u64::from(*count & 15)))
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

/// A place for a node: its process and its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    pub node: u32,
    pub wires: u32,
}

/// A state of the whole model, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub tick: u32,
    pub left: Left,
    pub places: [Place; PLACES],
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wire {
    /// Each end still has it open.
    pub node: bool,
    pub tick: bool,
    /// Messages in flight.
    pub up: Vec<u32>,
    pub down: Vec<u32>,
}

/// Connections of a place: the node's own, and one whose end the tickerplant has not seen.
pub type Wires = [Option<Wire>; 2];

/// Interned sets of connections.
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
            // Neither end has it any more.
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
