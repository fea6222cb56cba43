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

    /// Goes along a list's atoms from `from` on as far as it can without the evaluator: a fold with what was summed up so
    /// far, else each by itself. Answers how far it went, and the last result if that is no atom any more.
    ///
    /// # Errors
    /// Those of the function; at the limits.
    pub fn along(
        &mut self,
        context: &mut Context,
        total: Option<&mut Scalar>,
        list: &Value,
        from: usize,
        mut out: Option<&mut Results>,
    ) -> Result<(usize, Option<Value>), QError> {
        let folds = total.is_some();
        let mut arguments = [Scalar::Unset; 2];
        if let ([first, _], Some(total)) = (&mut arguments, &total) {
            first.take(total);
        }
        let mut at = from;
        let mut larger = None;
        while larger.is_none() {
            let [first, second] = &mut arguments;
            if !load(list, at, if folds { second } else { first }) {
                break;
            }
            context.tick()?;
            let quick_result;
            let result = if let Some(op) = self.op {
                let [x, y] = &arguments;
                match quick(op, x, y) {
                    Some(result) => {
                        quick_result = result;
                        &quick_result
                    }
                    None => break,
                }
            } else {
                let Some(runner) = &mut self.runner else { break };
                match runner.call_atoms(context, arguments.get(..1 + usize::from(folds)).unwrap_or_default()) {
                    Outcome::Left => break,
                    Outcome::Failed(error) => return Err(context.left(runner.lambda, Sym::NULL, *error)),
                    Outcome::Done => match &runner.machine.result {
                        Scalar::Object(place) => {
                            larger = runner.machine.objects.get(*place as usize).cloned();
                            at += 1;
                            continue;
                        }
                        atom => atom,
                    },
                }
            };
            if let Some(out) = &mut out {
                out.push_atom(result);
            }
            if let ([first, _], true) = (&mut arguments, folds) {
                first.take(result);
            }
            at += 1;
        }
        if let ([first, _], Some(total)) = (&arguments, total) {
            total.take(first);
        }
        if at > from {
            self.misses = 0;
        }
        Ok((at, larger))
    }

    /// The result for atoms; `None` where [`Many::apply`] has to be asked.
    fn quickly(&mut self, context: &mut Context, arguments: &[Scalar]) -> Option<Result<Value, QError>> {
        if let (Some(op), [x, y]) = (self.op, arguments) {
            return quick(op, x, y).and_then(|result| result.value(&[])).map(Ok);
        }
        let runner = self.runner.as_mut()?;
        match runner.call_atoms(context, arguments) {
            Outcome::Left => None,
            Outcome::Failed(error) => Some(Err(context.left(runner.lambda, Sym::NULL, *error))),
            Outcome::Done => {
                self.misses = 0;
                runner.machine.result.value(&runner.machine.objects).map(Ok)
            }
        }
    }

    fn on_values(&mut self, context: &mut Context, arguments: &[Value]) -> Option<Result<Value, QError>> {
        let runner = self.runner.as_mut()?;
        let result = runner.call(context, arguments)?;
        Some(result.map_err(|error| context.left(runner.lambda, Sym::NULL, error)))
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
            if let Some(result) = result {
                return result;
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
