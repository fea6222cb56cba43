//! One function on many atoms: what the iterators call.

use super::operate::quick;
use super::run::Outcome;
use super::scalar::Scalar;
use super::{Runner, lambda_of};
use crate::kernel::num::Num;
use crate::kernel::zip::Arithmetic;
use crate::q::apply::as_primitive;
use crate::q::arith::Op;
use crate::q::context::Context;
use crate::q::error::QError;
use crate::q::prims;
use crate::table::{Items, Sym, Value, Vector};

/// A result without the evaluator.
pub(in crate::q) enum Answer {
    Atom(Scalar),
    Value(Value),
}

/// A function that is about to be applied many times.
pub(in crate::q) struct Many<'f> {
    f: &'f Value,
    arguments: usize,
    /// Where it works item by item on two arguments.
    op: Option<Op>,
    runner: Option<Runner<'f>>,
    /// How often in turn the evaluator had to be asked.
    misses: u8,
}

/// After so many the evaluator does it all: getting ready anew each time costs more than it saves.
const MISSES_MOST: u8 = 4;

impl<'f> Many<'f> {
    pub fn new(context: &mut Context, f: &'f Value, arguments: usize) -> Many<'f> {
        let direct = if arguments == 2 && context.allowance.limits().machine { as_primitive(f) } else { None };
        let op = direct.and_then(prims::atomic_op);
        let mut many = Many { f, arguments, op, runner: None, misses: 0 };
        many.get_ready(context);
        many
    }

    fn get_ready(&mut self, context: &mut Context) {
        if self.op.is_none()
            && let Some(lambda) = lambda_of(self.f)
        {
            self.runner = Runner::new(context, lambda, self.arguments);
        }
    }

    /// Whether [`Many::quickly`] can answer anything.
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

    /// The result for atoms; `None` where [`Many::apply`] has to be asked.
    #[inline(always)]
    pub fn quickly(&mut self, context: &mut Context, arguments: &[Scalar]) -> Option<Result<Answer, QError>> {
        if let (Some(op), [x, y]) = (self.op, arguments) {
            return quick(op, x, y).map(|result| Ok(Answer::Atom(result)));
        }
        let runner = self.runner.as_mut()?;
        match runner.call_atoms(context, arguments) {
            Outcome::Left => None,
            Outcome::Done(Scalar::Object(place)) => {
                runner.machine.objects.get(place as usize).map(|object| Ok(Answer::Value(object.clone())))
            }
            Outcome::Done(result) => {
                self.misses = 0;
                Some(Ok(Answer::Atom(result)))
            }
            Outcome::Failed(error) => Some(Err(context.left(runner.lambda, Sym::NULL, error))),
        }
    }

    fn on_values(&mut self, context: &mut Context, arguments: &[Value]) -> Option<Result<Answer, QError>> {
        let runner = self.runner.as_mut()?;
        let result = runner.call(context, arguments)?;
        Some(result.map(Answer::Value).map_err(|error| context.left(runner.lambda, Sym::NULL, error)))
    }

    /// The result by the evaluator.
    pub fn apply(&mut self, context: &mut Context, arguments: Vec<Value>) -> Result<Value, QError> {
        // What it does may change what the machine has taken as given.
        let was_ready = self.runner.take().map(|runner| runner.finish(context)).is_some();
        let result = context.apply(self.f, arguments);
        self.misses = self.misses.saturating_add(1);
        if was_ready && self.misses < MISSES_MOST {
            self.get_ready(context);
        }
        result
    }

    /// As [`Many::quickly`] or else [`Many::apply`].
    pub fn either<const N: usize>(&mut self, context: &mut Context, arguments: [Value; N]) -> Result<Value, QError> {
        if self.is_quick() {
            let registers = arguments.each_ref().map(|a| Scalar::of(a).unwrap_or(Scalar::Unset));
            let result = if registers.iter().any(|r| matches!(r, Scalar::Unset)) {
                self.on_values(context, &arguments)
            } else {
                self.quickly(context, &registers)
            };
            match result {
                Some(Ok(Answer::Value(value))) => return Ok(value),
                Some(Ok(Answer::Atom(atom))) => {
                    if let Some(value) = atom.value(&[]) {
                        return Ok(value);
                    }
                }
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
        self.apply(context, arguments.into())
    }

    pub fn finish(self, context: &mut Context) {
        if let Some(runner) = self.runner {
            runner.finish(context);
        }
    }
}

/// The item of a simple vector.
#[inline]
pub(in crate::q) fn atom_at(list: &Value, index: usize) -> Option<Scalar> {
    match list {
        Value::Vector(Vector { items: Items::Long(v), .. }) => v.get(index).map(|v| Scalar::Long(*v)),
        Value::Vector(Vector { items: Items::Float(v), .. }) => v.get(index).map(|v| Scalar::Float(*v)),
        Value::Vector(_) => Scalar::of(&list.at(index)),
        _ => None,
    }
}

/// An atom as the machine takes it.
pub(in crate::q) fn atom(value: &Value) -> Option<Scalar> {
    Scalar::of(value)
}

/// Results in the order in which they come, packed as long as they are of one type.
pub(in crate::q) enum Results {
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

    /// Takes an atom; false for what is none.
    #[inline]
    pub fn push_atom(&mut self, atom: Scalar) -> bool {
        match (&mut *self, atom) {
            (Results::Longs(v), Scalar::Long(l)) => v.push(l),
            (Results::Floats(v), Scalar::Float(f)) => v.push(f),
            (Results::Bools(v), Scalar::Bool(b)) => v.push(u8::from(b)),
            (Results::None, Scalar::Long(l)) => *self = Results::Longs(vec![l]),
            (Results::None, Scalar::Float(f)) => *self = Results::Floats(vec![f]),
            (Results::None, Scalar::Bool(b)) => *self = Results::Bools(vec![u8::from(b)]),
            (_, other) => match other.value(&[]) {
                Some(value) => self.push(value),
                None => return false,
            },
        }
        true
    }

    pub fn push(&mut self, value: Value) {
        match (&mut *self, &value) {
            (Results::None | Results::Longs(_), Value::Long(_))
            | (Results::None | Results::Floats(_), Value::Float(_))
            | (Results::None | Results::Bools(_), Value::Bool(_)) => {
                if let Some(atom) = Scalar::of(&value) {
                    self.push_atom(atom);
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
