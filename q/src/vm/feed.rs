//! Arguments and results of a function run along lists: one item of each list per round, without leaving the VM between rounds.

use super::results::Results;
use crate::runtime::registers::WINDOW;
use crate::runtime::scalar::Scalar;
use columns::table::{Items, Value, Vector};

/// Limit of arguments of a function run along lists.
pub(super) const MAX_ARGUMENTS: usize = 8;

/// Source of an argument in each round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// Result of the previous round.
    Total,
    /// Next item of a list of longs, of floats, or of any type.
    Longs(&'a [i64]),
    Floats(&'a [f64]),
    Item(&'a Value),
    /// Previous item of a list.
    Before(&'a Value),
    /// Same value in each round.
    Fixed(Scalar),
}

/// Iteration state of a run along lists.
pub(super) struct Feed<'a> {
    sources: &'a [Source<'a>],
    /// Current round, which is also the index into the lists, and the end.
    pub at: usize,
    end: usize,
    /// Result of the last completed round.
    pub total: Scalar,
    out: Option<&'a mut Results>,
}

impl<'a> Feed<'a> {
    pub fn new(
        sources: &'a [Source<'a>],
        rounds: std::ops::Range<usize>,
        total: Scalar,
        out: Option<&'a mut Results>,
    ) -> Feed<'a> {
        Feed { sources, at: rounds.start, end: rounds.end, total, out }
    }

    /// Loads the arguments of the first round into the first registers; false at the end or if an argument is not an atom.
    pub fn load(&self, registers: &mut [Scalar]) -> bool {
        let total = self.total;
        self.load_with(|| total, registers)
    }

    /// [`Feed::load`], with `total` as the previous round's result.
    #[inline(always)]
    fn load_with(&self, total: impl Fn() -> Scalar, registers: &mut [Scalar]) -> bool {
        if self.at >= self.end {
            return false;
        }
        for (register, source) in registers.iter_mut().zip(self.sources) {
            match source {
                Source::Total => *register = total(),
                Source::Fixed(value) => register.take(value),
                Source::Longs(longs) => match longs.get(self.at) {
                    Some(long) => *register = Scalar::Long(*long),
                    None => return false,
                },
                Source::Floats(floats) => match floats.get(self.at) {
                    Some(float) => *register = Scalar::Float(*float),
                    None => return false,
                },
                Source::Item(list) => {
                    if !load(list, self.at, register) {
                        return false;
                    }
                }
                Source::Before(list) => {
                    if self.at == 0 || !load(list, self.at - 1, register) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Stores the atom that a round returned and loads the arguments of the next round; false if there is none. `result` rebuilds
    /// the atom at each use, because a copy from memory would stall on the preceding store.
    #[inline(always)]
    pub fn goes_on(&mut self, result: impl Fn() -> Scalar, registers: &mut [Scalar; WINDOW]) -> bool {
        self.take(&result);
        self.load_with(result, registers)
    }

    /// Stores the result of a round.
    #[inline(always)]
    pub fn take(&mut self, result: &impl Fn() -> Scalar) {
        self.total = result();
        if let Some(out) = &mut self.out {
            out.push_atom(&result());
        }
        self.at += 1;
    }
}

/// Reads an item of a list; false if it is not an atom, or past the end.
#[inline]
fn load(list: &Value, index: usize, to: &mut Scalar) -> bool {
    match list {
        Value::Vector(Vector { items: Items::Long(v), .. }) => match v.get(index) {
            Some(long) => *to = Scalar::Long(*long),
            None => return false,
        },
        Value::Vector(Vector { items: Items::Float(v), .. }) => match v.get(index) {
            Some(float) => *to = Scalar::Float(*float),
            None => return false,
        },
        Value::Vector(v) if index < v.len() => match Scalar::of(&list.at(index)) {
            Some(atom) => *to = atom,
            None => return false,
        },
        _ => return false,
    }
    true
}
