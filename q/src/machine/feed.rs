//! What a function is run along: an item of each list a round, without leaving the machine between two of them.

use super::many::Results;
use super::scalar::Scalar;
use super::step::WINDOW;
use columns::table::{Items, Value, Vector};

/// Most arguments of a function that is run along lists.
pub(super) const ARGUMENTS_MOST: usize = 8;

/// Where each argument of a round comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// The result of the round before.
    Total,
    /// The next item of a list: of longs, of floats, of anything.
    Longs(&'a [i64]),
    Floats(&'a [f64]),
    Item(&'a Value),
    /// The item before that.
    Before(&'a Value),
    /// The same in each round.
    Fixed(Scalar),
}

/// A round after the other.
pub(super) struct Feed<'a> {
    sources: &'a [Source<'a>],
    /// The round, counted as the lists' items are, and where they end.
    pub at: usize,
    end: usize,
    /// The result of the last round that was finished.
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

    /// Puts the arguments of the first round into the first registers; false where there is none, or one of them is no atom.
    pub fn load(&self, registers: &mut [Scalar]) -> bool {
        let total = self.total;
        self.load_with(|| total, registers)
    }

    /// As [`Feed::load`]; `total` is what the round before gave.
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

    /// Takes in the result of a round that was finished, an atom, and says whether there is a next one, whose arguments are
    /// in their registers then. The result is made anew wherever it is put: copied as it lies, it would be waited for.
    #[inline(always)]
    pub fn goes_on(&mut self, result: impl Fn() -> Scalar, registers: &mut [Scalar; WINDOW]) -> bool {
        self.take(&result);
        self.load_with(result, registers)
    }

    /// Takes in the result of a round.
    #[inline(always)]
    pub fn take(&mut self, result: &impl Fn() -> Scalar) {
        self.total = result();
        if let Some(out) = &mut self.out {
            out.push_atom(&result());
        }
        self.at += 1;
    }
}

/// Reads an item of a simple vector; false for what is no atom, and past the end.
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
