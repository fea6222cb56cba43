//! A process of the model, identified by its state fingerprint.
//!
//! Production's processes cannot be copied, but they are deterministic: the same inputs lead to the same state. A process is therefore
//! rebuilt by replaying the inputs of the shortest known path to it, and each transition is cached: it runs once, however many states of
//! the whole contain it. Two paths to equal fingerprints (*shape* in code: a text of everything that decides future behaviour) count as one
//! state; of every few such pairs one is compared: the same input must give the same result.

use super::Context;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Most processes that stay in memory, so that the next step need not rebuild them.
const KEPT: usize = 512;
/// Sampling rate of the comparison of equal fingerprints: 1 in 16.
const COMPARED: u64 = 16;

/// A deterministic process that the model can rebuild by replaying its inputs.
pub trait Part: Sized {
    type Input: Clone + Eq + Hash + std::fmt::Debug;
    type Output: Eq + std::fmt::Debug;
    /// State that the rules inspect; a function of the fingerprint.
    type Facts;

    /// The process before any input.
    fn new(context: &Context) -> Self;
    fn tell(&mut self, input: &Self::Input, context: &mut Context) -> Self::Output;
    fn look(&mut self, context: &Context) -> (String, Self::Facts);
}

/// A known state: the state and input that first led to it, and its facts.
struct Known<P: Part> {
    from: u32,
    input: Option<P::Input>,
    facts: Rc<P::Facts>,
    /// One input of this state, to compare others with an equal fingerprint by.
    given: Option<P::Input>,
}

/// Resulting state and output of a step.
type Step<P> = (u32, Rc<<P as Part>::Output>);

/// Cache of all known states and steps of one kind of process.
pub struct Parts<P: Part> {
    known: Vec<Known<P>>,
    numbers: HashMap<u128, u32>,
    steps: HashMap<(u32, P::Input), Step<P>>,
    kept: VecDeque<(u32, P)>,
    merged: u64,
    pub compared: u64,
}

fn hash_of(shape: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, shape).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

impl<P: Part> Parts<P> {
    /// Knows the process without any input as number 0.
    pub fn new(context: &Context) -> Parts<P> {
        let mut parts = Parts {
            known: Vec::new(),
            numbers: HashMap::new(),
            steps: HashMap::new(),
            kept: VecDeque::new(),
            merged: 0,
            compared: 0,
        };
        let mut first = P::new(context);
        parts.place(&mut first, 0, None, context);
        parts
    }

    pub fn states(&self) -> usize {
        self.known.len()
    }

    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// # Errors
    /// There is no such state.
    pub fn facts(&self, number: u32) -> Result<&Rc<P::Facts>, String> {
        let known = usize::try_from(number).ok().and_then(|number| self.known.get(number));
        known.map(|known| &known.facts).ok_or_else(|| format!("no state {number}"))
    }

    /// Gives a process an input. Returns the resulting state and output.
    ///
    /// # Errors
    /// A panic, or two processes with equal fingerprints behaved differently: the fingerprint lacks something.
    pub fn step(&mut self, from: u32, input: &P::Input, context: &mut Context) -> Result<Step<P>, String> {
        let key = (from, input.clone());
        if let Some((to, output)) = self.steps.get(&key) {
            return Ok((*to, Rc::clone(output)));
        }
        let mut part = self.make(from, context);
        // A failed assertion of the code under test counts as a broken rule.
        let output = catch_unwind(AssertUnwindSafe(|| part.tell(input, context)));
        let output = Rc::new(output.map_err(|panic| format!("a panic: {}", words(&*panic)))?);
        let (to, is_new) = self.place(&mut part, from, Some(input), context);
        self.steps.insert(key, (to, Rc::clone(&output)));
        if let Some(known) = usize::try_from(from).ok().and_then(|from| self.known.get_mut(from)) {
            known.given.get_or_insert_with(|| input.clone());
        }
        if !is_new {
            self.merged = self.merged.wrapping_add(1);
        }
        match !is_new && self.merged.is_multiple_of(COMPARED) {
            true => self.compare(to, part, context)?,
            false => self.keep(to, part),
        }
        Ok((to, output))
    }

    fn keep(&mut self, number: u32, part: P) {
        if self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((number, part));
    }

    /// Returns a process in that state.
    fn make(&mut self, number: u32, context: &mut Context) -> P {
        if let Some(at) = self.kept.iter().rposition(|(kept, _)| *kept == number)
            && let Some((_, part)) = self.kept.remove(at)
        {
            return part;
        }
        let mut given = Vec::new();
        let mut at = number;
        while let Some(known) = usize::try_from(at).ok().and_then(|at| self.known.get(at)) {
            let Some(input) = &known.input else { break };
            given.push(input.clone());
            at = known.from;
        }
        let mut part = P::new(context);
        for input in given.iter().rev() {
            part.tell(input, context);
        }
        part
    }

    fn place(&mut self, part: &mut P, from: u32, input: Option<&P::Input>, context: &Context) -> (u32, bool) {
        let (shape, facts) = part.look(context);
        let next = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(hash_of(&shape)).or_insert(next);
        if number == next {
            self.known.push(Known { from, input: input.cloned(), facts: Rc::new(facts), given: None });
        }
        (number, number == next)
    }

    /// Checks that another process with an equal fingerprint does what the known one did.
    fn compare(&mut self, number: u32, mut part: P, context: &mut Context) -> Result<(), String> {
        let known = usize::try_from(number).ok().and_then(|number| self.known.get(number));
        let Some(input) = known.and_then(|known| known.given.clone()) else {
            self.keep(number, part);
            return Ok(());
        };
        let Some((to, expected)) = self.steps.get(&(number, input.clone())).cloned() else { return Ok(()) };
        let output = part.tell(&input, context);
        let (shape, _) = part.look(context);
        self.compared = self.compared.wrapping_add(1);
        if output == *expected && self.numbers.get(&hash_of(&shape)) == Some(&to) {
            self.keep(to, part);
            return Ok(());
        }
        let mut other = self.make(to, context);
        let (expected_shape, _) = other.look(context);
        Err(format!(
            "a shape lacks something: told {input:?}, one\n  says {expected:?} and is {expected_shape}\nthe other\n  says {output:?} and is {shape}"
        ))
    }
}
