//! One function on many atoms: what the iterators call.

use super::feed::{ARGUMENTS_MOST, Feed, Source};
use super::operate::quick;
use super::run::Outcome;
use super::scalar::Scalar;
use super::{Runner, lambda_of};
use crate::apply::as_primitive;
use crate::arith::Op;
use crate::context::Context;
use crate::error::QError;
use crate::prims;
use columns::kernel::num::Num;
use columns::kernel::zip::Arithmetic;
use columns::table::function::{Function, Lambda};
use columns::table::{Items, Sym, Value, Vector};
use std::ops::Range;

/// An argument of a function that is applied many times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// What the application before gave.
    Total,
    /// The next item of a list.
    Item(&'a Value),
    /// The item before that.
    Before(&'a Value),
    /// The same each time.
    Fixed(&'a Value),
}

impl Given<'_> {
    /// The argument of a round, if that is not the total.
    pub fn value(&self, round: usize) -> Option<Value> {
        match self {
            Given::Total => None,
            Given::Item(list) => Some(list.at(round)),
            Given::Before(list) => Some(list.at(round.wrapping_sub(1))),
            Given::Fixed(value) => Some((*value).clone()),
        }
    }
}

/// A function that is about to be applied many times.
pub(crate) struct Many<'f> {
    f: &'f Value,
    arguments: usize,
    /// Where it works item by item on two arguments.
    op: Option<Op>,
    runner: Option<Runner<'f>>,
    /// The arguments that a projection of a lambda has; the others are given, in their order.
    held: Vec<Option<Value>>,
    /// How often in turn the evaluator had to be asked.
    misses: u8,
}

/// After so many the evaluator does it all: getting ready anew each time costs more than it saves.
const MISSES_MOST: u8 = 4;

/// The lambda that a function is, or that it is a projection of, and the arguments that it has already.
fn target(f: &Value, arguments: usize) -> Option<(&Lambda, Vec<Option<Value>>)> {
    if let Some(lambda) = lambda_of(f) {
        return Some((lambda, vec![None; arguments]));
    }
    let Value::Func(function) = f else { return None };
    let Function::Projection { function, arguments: held } = &**function else { return None };
    let lambda = lambda_of(function)?;
    let mut all = held.clone();
    let holes = all.iter().filter(|a| a.is_none()).count();
    all.extend((holes..arguments).map(|_| None));
    (holes <= arguments).then_some((lambda, all))
}

impl<'f> Many<'f> {
    pub fn new(context: &mut Context, f: &'f Value, arguments: usize) -> Many<'f> {
        let direct = if arguments == 2 && context.allowance.limits().machine { as_primitive(f) } else { None };
        let op = direct.and_then(prims::atomic_op);
        let mut many = Many { f, arguments, op, runner: None, held: Vec::new(), misses: 0 };
        many.get_ready(context);
        many
    }

    fn get_ready(&mut self, context: &mut Context) {
        if self.op.is_none()
            && self.runner.is_none()
            && self.misses < MISSES_MOST
            && let Some((lambda, held)) = target(self.f, self.arguments)
            && held.len() <= ARGUMENTS_MOST
        {
            self.runner = Runner::new(context, lambda, held.len());
            self.held = held;
        }
    }

    /// Whether [`Many::along`] can do anything.
    pub fn is_quick(&self) -> bool {
        self.op.is_some() || self.runner.is_some()
    }

    /// Folds longs behind `from` into a long, for the arithmetic that keeps to longs; where it went to.
    pub fn sum_longs(&self, context: &Context, sum: &mut Scalar, list: &Value, from: usize) -> Result<usize, QError> {
        let (Value::Vector(Vector { items: Items::Long(items), .. }), Scalar::Long(total)) = (list, &mut *sum) else {
            return Ok(from);
        };
        let step: fn(i64, i64) -> i64 = match self.op {
            Some(Op::Arithmetic(Arithmetic::Add)) => i64::plus,
            Some(Op::Arithmetic(Arithmetic::Subtract)) => i64::minus,
            Some(Op::Arithmetic(Arithmetic::Multiply)) => i64::times,
            _ => return Ok(from),
        };
        for chunk in items.get(from..).unwrap_or_default().chunks(1 << 16) {
            context.check()?;
            *total = chunk.iter().fold(*total, |total, item| step(total, *item));
        }
        Ok(items.len())
    }

    /// Goes through rounds as far as it can without the evaluator. Answers at which round it stopped, and the last result if
    /// that is no atom any more; `total` is the last atom then.
    ///
    /// # Errors
    /// Those of the function; at the limits.
    pub fn along(
        &mut self,
        context: &mut Context,
        given: &[Given],
        rounds: Range<usize>,
        total: &mut Scalar,
        out: Option<&mut Results>,
    ) -> Result<(usize, Option<Value>), QError> {
        let from = rounds.start;
        let (at, larger) = match (self.op, &mut self.runner) {
            (Some(op), _) => (rounds_of(context, op, given, rounds, total, out)?, None),
            (None, Some(runner)) => runner.along(context, &self.held, given, rounds, total, out)?,
            (None, None) => (from, None),
        };
        if at > from {
            self.misses = 0;
        }
        Ok((at, larger))
    }

    /// Applied once by the machine, if that can do it.
    fn quickly(&mut self, context: &mut Context, arguments: &[Value]) -> Option<Result<Value, QError>> {
        if let (Some(op), [x, y]) = (self.op, arguments) {
            return quick(op, &Scalar::of(x)?, &Scalar::of(y)?).and_then(|result| result.value(&[])).map(Ok);
        }
        let runner = self.runner.as_mut()?;
        let result = if self.held.iter().all(Option::is_none) {
            runner.call(context, arguments)?
        } else {
            let mut given = arguments.iter();
            let all: Option<Vec<Value>> =
                self.held.iter().map(|h| h.as_ref().or_else(|| given.next()).cloned()).collect();
            runner.call(context, &all?)?
        };
        Some(result.map_err(|error| context.left(runner.lambda, Sym::NULL, error)))
    }

    /// An atom from an atom by the machine, if it can do that.
    fn atom(&mut self, context: &mut Context, x: &Scalar) -> Option<Result<Scalar, QError>> {
        let runner = self.runner.as_mut().filter(|_| self.held.len() == 1)?;
        runner.runs = runner.runs.saturating_add(1);
        runner.machine.objects.truncate(runner.held);
        match runner.machine.run(context, &runner.program, std::slice::from_ref(x), None) {
            Outcome::Done if !matches!(runner.machine.result, Scalar::Object(_)) => Some(Ok(runner.machine.result)),
            Outcome::Done => None,
            Outcome::Left => {
                runner.left += 1;
                None
            }
            Outcome::Failed(error) => Some(Err(context.left(runner.lambda, Sym::NULL, *error))),
        }
    }

    /// Applies again and again as long as `test` holds, from an atom on as far as the machine can do both.
    ///
    /// # Errors
    /// Those of the functions; at the limits.
    pub fn as_long_as(
        &mut self,
        context: &mut Context,
        test: &mut Many,
        x: &mut Scalar,
        mut out: Option<&mut Results>,
    ) -> Result<(), QError> {
        loop {
            context.tick()?;
            match test.atom(context, x) {
                Some(Ok(Scalar::Bool(true))) => {}
                Some(Err(error)) => return Err(error),
                _ => return Ok(()),
            }
            match self.atom(context, x) {
                Some(result) => x.take(&result?),
                None => return Ok(()),
            }
            if let Some(out) = &mut out {
                out.push_atom(x);
            }
        }
    }

    /// Ends what the machine has taken as given: something is about to be evaluated.
    fn let_go(&mut self, context: &mut Context) {
        if let Some(runner) = self.runner.take() {
            runner.finish(context);
        }
    }

    /// The result by the evaluator.
    pub fn apply(&mut self, context: &mut Context, arguments: Vec<Value>) -> Result<Value, QError> {
        let was_ready = self.runner.is_some();
        self.let_go(context);
        let result = context.apply(self.f, arguments);
        self.misses = self.misses.saturating_add(1);
        if was_ready {
            self.get_ready(context);
        }
        result
    }

    /// By the machine or else by the evaluator.
    pub fn either(&mut self, context: &mut Context, arguments: Vec<Value>) -> Result<Value, QError> {
        match self.quickly(context, &arguments) {
            Some(result) => result,
            None => self.apply(context, arguments),
        }
    }

    /// As [`Many::either`], where `other` must not take anything as given over what the evaluator does.
    pub fn either_beside(&mut self, context: &mut Context, argument: Value, other: &mut Many) -> Result<Value, QError> {
        if let Some(result) = self.quickly(context, std::slice::from_ref(&argument)) {
            return result;
        }
        let was_ready = other.runner.is_some();
        other.let_go(context);
        let result = self.apply(context, vec![argument]);
        if was_ready {
            other.get_ready(context);
        }
        result
    }

    pub fn finish(mut self, context: &mut Context) {
        self.let_go(context);
    }
}

/// Rounds of a function that works item by item; at which one it had to stop.
fn rounds_of(
    context: &mut Context,
    op: Op,
    given: &[Given],
    rounds: Range<usize>,
    total: &mut Scalar,
    out: Option<&mut Results>,
) -> Result<usize, QError> {
    let from = rounds.start;
    let [Some(x), Some(y)] = [given.first(), given.get(1)].map(|g| g.and_then(|g| source(g, &mut |v| Scalar::of(v))))
    else {
        return Ok(from);
    };
    let sources = [x, y];
    let mut feed = Feed::new(&sources, rounds, *total, out);
    let mut arguments = [Scalar::Unset; 2];
    while feed.load(&mut arguments) {
        context.tick()?;
        let [x, y] = &arguments;
        match quick(op, x, y) {
            Some(result) => feed.take(&|| result),
            None => break,
        }
    }
    total.take(&feed.total);
    Ok(feed.at)
}

/// Where the machine takes an argument from; what stays the same is put into a register by `register`.
fn source<'a>(given: &Given<'a>, register: &mut dyn FnMut(&Value) -> Option<Scalar>) -> Option<Source<'a>> {
    Some(match given {
        Given::Total => Source::Total,
        Given::Item(Value::Vector(Vector { items: Items::Long(longs), .. })) => Source::Longs(longs),
        Given::Item(Value::Vector(Vector { items: Items::Float(floats), .. })) => Source::Floats(floats),
        Given::Item(list) => Source::Item(list),
        Given::Before(list) => Source::Before(list),
        Given::Fixed(value) => Source::Fixed(register(value)?),
    })
}

impl Runner<'_> {
    /// As [`Many::along`]; `held` are a projection's own arguments.
    fn along(
        &mut self,
        context: &mut Context,
        held: &[Option<Value>],
        given: &[Given],
        rounds: Range<usize>,
        total: &mut Scalar,
        out: Option<&mut Results>,
    ) -> Result<(usize, Option<Value>), QError> {
        let from = rounds.start;
        self.machine.objects.truncate(self.held);
        let mut sources = [Source::Total; ARGUMENTS_MOST];
        let mut given = given.iter();
        let mut only_atoms = true;
        for (slot, held) in sources.iter_mut().zip(held) {
            let argument = match held {
                Some(value) => Given::Fixed(value),
                None => match given.next() {
                    Some(given) => *given,
                    None => return Ok((from, None)),
                },
            };
            let machine = &mut self.machine;
            let Some(source) = source(&argument, &mut |value| super::register(machine, value)) else {
                return Ok((from, None));
            };
            only_atoms &= !matches!(source, Source::Fixed(Scalar::Object(_)));
            *slot = source;
        }
        if !only_atoms && !self.program.busy {
            return Ok((from, None));
        }
        let sources = sources.get(..held.len()).unwrap_or_default();
        let mut feed = Feed::new(sources, rounds, *total, out);
        let mut arguments = [Scalar::Unset; ARGUMENTS_MOST];
        if !feed.load(&mut arguments) {
            return Ok((from, None));
        }
        let arguments = arguments.get(..held.len()).unwrap_or_default();
        let outcome = self.machine.run(context, &self.program, arguments, Some(&mut feed));
        total.take(&feed.total);
        let at = feed.at;
        self.runs = self.runs.saturating_add(u32::try_from(at - from).unwrap_or(u32::MAX));
        match outcome {
            Outcome::Left => {
                self.runs = self.runs.saturating_add(1);
                self.left += 1;
                Ok((at, None))
            }
            Outcome::Failed(error) => Err(context.left(self.lambda, Sym::NULL, *error)),
            Outcome::Done => match &self.machine.result {
                Scalar::Object(place) => {
                    let larger = self.machine.objects.get(*place as usize).cloned();
                    Ok((at + usize::from(larger.is_some()), larger))
                }
                _ => Ok((at, None)),
            },
        }
    }
}

/// An atom as the machine takes it.
pub(crate) fn atom(value: &Value) -> Option<Scalar> {
    Scalar::of(value)
}

/// Results in the order in which they come, packed as long as they are of one type.
pub(crate) enum Results {
    None,
    Longs(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<u8>),
    Values(Vec<Value>),
}

impl Results {
    /// No results yet; in the end there may be `most`.
    pub fn new() -> Results {
        Results::None
    }

    /// Takes an atom.
    #[inline]
    pub fn push_atom(&mut self, atom: &Scalar) {
        match (&mut *self, atom) {
            (Results::Longs(v), Scalar::Long(l)) => v.push(*l),
            (Results::Floats(v), Scalar::Float(f)) => v.push(*f),
            (Results::Bools(v), Scalar::Bool(b)) => v.push(u8::from(*b)),
            (Results::None, Scalar::Long(l)) => *self = Results::Longs(vec![*l]),
            (Results::None, Scalar::Float(f)) => *self = Results::Floats(vec![*f]),
            (Results::None, Scalar::Bool(b)) => *self = Results::Bools(vec![u8::from(*b)]),
            (_, other) => {
                if let Some(value) = other.value(&[]) {
                    self.push(value);
                }
            }
        }
    }

    pub fn push(&mut self, value: Value) {
        match (&mut *self, &value) {
            (Results::None | Results::Longs(_), Value::Long(_))
            | (Results::None | Results::Floats(_), Value::Float(_))
            | (Results::None | Results::Bools(_), Value::Bool(_)) => {
                if let Some(atom) = Scalar::of(&value) {
                    self.push_atom(&atom);
                }
            }
            (Results::Values(values), _) => values.push(value),
            _ => self.spread(value),
        }
    }

    /// Takes a value of another type than those before it.
    fn spread(&mut self, value: Value) {
        let mut values = match std::mem::replace(self, Results::None) {
            Results::None => Vec::new(),
            Results::Longs(v) => v.into_iter().map(Value::Long).collect(),
            Results::Floats(v) => v.into_iter().map(Value::Float).collect(),
            Results::Bools(v) => v.into_iter().map(|b| Value::Bool(b != 0)).collect(),
            Results::Values(v) => v,
        };
        values.push(value);
        *self = Results::Values(values);
    }

    pub fn len(&self) -> usize {
        match self {
            Results::None => 0,
            Results::Longs(v) => v.len(),
            Results::Floats(v) => v.len(),
            Results::Bools(v) => v.len(),
            Results::Values(v) => v.len(),
        }
    }

    /// All of them as a list, as [`Value::collapse`] makes it.
    pub fn into_value(self) -> Value {
        match self {
            Results::None => Value::collapse(Vec::new()),
            Results::Longs(v) => Value::longs(v),
            Results::Floats(v) => Value::floats(v),
            Results::Bools(v) => Value::bools(v),
            Results::Values(v) => Value::collapse(v),
        }
    }
}
