//! Repeated application of one function: the interface of the VM to the iterators.

use super::feed::{Feed, MAX_ARGUMENTS, Source};
use super::quick::quick;
use super::results::Results;
use super::run::Outcome;
use super::{Runner, lambda_of};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::op::Op;
use crate::runtime::scalar::Scalar;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::function::{as_primitive, is_elided, is_variadic, project, valence};
use crate::verbs::trace;
use columns::kernel::num::Num;
use columns::kernel::zip::Arithmetic;
use columns::table::function::{Function, Lambda};
use columns::table::{Items, Sym, Value, Vector};
use std::ops::Range;

/// Source of an argument of a function that is applied repeatedly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given<'a> {
    /// Result of the previous application.
    Total,
    /// Next item of a list.
    Item(&'a Value),
    /// Previous item of a list.
    Before(&'a Value),
    /// Same value each time.
    Fixed(&'a Value),
}

impl Given<'_> {
    /// Returns the argument of a round; `None` for the total.
    pub fn value(&self, round: usize) -> Option<Value> {
        match self {
            Given::Total => None,
            Given::Item(list) => Some(list.at(round)),
            Given::Before(list) => Some(list.at(round.wrapping_sub(1))),
            Given::Fixed(value) => Some((*value).clone()),
        }
    }
}

/// A function prepared for repeated application.
pub(crate) struct Many<'f> {
    f: &'f Value,
    arguments: usize,
    /// The operator, if the function is an atomic primitive of two arguments.
    op: Option<Op>,
    runner: Option<Runner<'f>>,
    /// Arguments bound by a projection, `None` where an argument is passed.
    held: Vec<Option<Value>>,
    /// Consecutive applications by the evaluator.
    misses: u8,
}

/// Limit of `misses`, after which the evaluator does all: setting up the VM again each time costs more than it saves.
const MAX_MISSES: u8 = 4;

/// Returns the lambda of a function or of a projection, with the bound arguments.
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
            && self.misses < MAX_MISSES
            && let Some((lambda, held)) = target(self.f, self.arguments)
            && held.len() <= MAX_ARGUMENTS
        {
            self.runner = Runner::new(context, lambda, held.len());
            self.held = held;
        }
    }

    /// Whether [`Many::along`] has a fast path.
    pub fn is_quick(&self) -> bool {
        self.op.is_some() || self.runner.is_some()
    }

    /// Folds the longs of a list from index `from` into a long, for operators closed over longs. Returns the index after the last item folded.
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

    /// Runs rounds until the evaluator is needed. Returns the first round not completed, and the result of the round before if it
    /// is not an atom; `total` then holds the last atom.
    ///
    /// # Errors
    /// Errors of the function; `stop` and `wsfull` at the limits of the evaluation.
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

    /// Applies the function once in the VM; `None` if that is not possible.
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
        Some(result.map_err(|error| trace::left(context, runner.lambda, Sym::NULL, error)))
    }

    /// Applies the function to an atom in the VM; `None` if that is not possible or the result is not an atom.
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
            Outcome::Failed(error) => Some(Err(trace::left(context, runner.lambda, Sym::NULL, *error))),
        }
    }

    /// Applies the function while `test` holds, from an atom on, until the evaluator is needed.
    ///
    /// # Errors
    /// Errors of the functions; `stop` and `wsfull` at the limits of the evaluation.
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

    /// Releases the runner, whose copies of globals an evaluation may invalidate.
    fn let_go(&mut self, context: &mut Context) {
        if let Some(runner) = self.runner.take() {
            runner.finish(context);
        }
    }

    /// Applies the function by the evaluator.
    pub fn apply(&mut self, context: &mut Context, arguments: Vec<Value>) -> Result<Value, QError> {
        let was_ready = self.runner.is_some();
        self.let_go(context);
        // An elided argument among several of a derived function leaves its place open, as when it is written between brackets. Words
        // and lambdas take it as a value: `-8!/:enlist x` has the bytes of whatever `x` is.
        let is_derived = matches!(self.f, Value::Func(f) if matches!(**f, Function::Derived { .. }));
        let is_open = is_derived && arguments.len() > 1 && arguments.iter().any(is_elided);
        let result = match is_open && (is_variadic(self.f) || arguments.len() <= valence(self.f)) {
            true => {
                Ok(project(self.f.clone(), arguments.into_iter().map(|x| Some(x).filter(|x| !is_elided(x))).collect()))
            }
            false => context.apply(self.f, arguments),
        };
        self.misses = self.misses.saturating_add(1);
        if was_ready {
            self.get_ready(context);
        }
        result
    }

    /// Applies the function in the VM if possible, else by the evaluator.
    pub fn either(&mut self, context: &mut Context, arguments: Vec<Value>) -> Result<Value, QError> {
        match self.quickly(context, &arguments) {
            Some(result) => result,
            None => self.apply(context, arguments),
        }
    }

    /// [`Many::either`]; releases the runner of `other` too before the evaluator runs.
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

/// Runs rounds of an atomic operator. Returns the first round not completed.
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

/// Returns the feed source of an argument; `register` puts a fixed value into a register.
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
    /// [`Many::along`]; `held` are the arguments bound by a projection.
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
        let mut sources = [Source::Total; MAX_ARGUMENTS];
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
        let mut arguments = [Scalar::Unset; MAX_ARGUMENTS];
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
            Outcome::Failed(error) => Err(trace::left(context, self.lambda, Sym::NULL, *error)),
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

/// Returns an atom as a scalar; `None` for a value that is not a scalar.
pub(crate) fn atom(value: &Value) -> Option<Scalar> {
    Scalar::of(value)
}
