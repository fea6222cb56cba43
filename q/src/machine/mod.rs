//! A register machine for lambdas over atoms: loops, recursion and folds without counted values.
//!
//! A lambda's syntax is compiled once ([`compile`]) and put together with the lambdas that it calls ([`link`]). A run
//! ([`run`]) reads arguments and globals and changes nothing but its own registers; so whatever the machine does not do (a
//! list as a result, an error, a function that it does not know) ends the run, and the evaluator starts over from the same
//! arguments. What each step means is said by the primitives themselves ([`operate`] has short ways for the commonest
//! types), so both give the same.

mod compile;
mod feed;
mod in_place;
mod link;
mod many;
mod operate;
mod run;
mod scalar;
mod step;

use super::context::Context;
use super::error::QError;
use super::lambda;
use columns::table::function::{Function, Lambda};
use columns::table::{Sym, Value};
pub(super) use in_place::{Change, push, put};
pub(super) use many::{Given, Many, Results, atom};
pub(super) use run::Machine;
use run::Outcome;
pub(super) use scalar::Scalar;
use scalar::is_object;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use step::{Program, Unit};

/// After so many runs that were left, a lambda that leaves more than half of them is the evaluator's alone.
const LEFT_MOST: u32 = 16;
/// How often a program is looked for whose globals were not such that the machine could run it.
const TRIES: u32 = 64;

/// What the machine knows of a lambda.
#[derive(Debug, Default)]
pub(super) struct Slot {
    unit: OnceLock<Option<Arc<Unit>>>,
    program: Mutex<Option<Arc<Program>>>,
    failures: AtomicU32,
    runs: AtomicU32,
    left: AtomicU32,
}

/// The slot of a lambda that this language compiled.
fn slot(lambda: &Lambda) -> Option<&Slot> {
    lambda.code.downcast_ref::<lambda::Compiled>().map(|compiled| &compiled.machine)
}

impl Slot {
    /// The lambda's code, if the machine can run it.
    fn unit(&self, lambda: &Lambda) -> Option<Arc<Unit>> {
        let make = || compile::unit(lambda::code(lambda).ok()?, &lambda.source).map(Arc::new);
        self.unit.get_or_init(make).clone()
    }

    /// The program as the globals are now.
    fn program(&self, context: &Context, lambda: &Lambda) -> Option<Arc<Program>> {
        if self.failures.load(Ordering::Relaxed) >= TRIES || self.is_mostly_left() {
            return None;
        }
        let unit = self.unit(lambda)?;
        let mut held = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*held
            && program.called.iter().all(|(name, unit)| {
                let is = program.units.get(usize::from(*unit)).map(|linked| &linked.unit);
                link::global_unit(context, *name).as_ref().zip(is).is_some_and(|(now, then)| Arc::ptr_eq(now, then))
            })
        {
            return Some(Arc::clone(program));
        }
        *held = link::program(context, unit).map(Arc::new);
        if held.is_none() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        held.clone()
    }

    fn is_mostly_left(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        left >= LEFT_MOST && left > self.runs.load(Ordering::Relaxed) / 2
    }

    fn note(&self, runs: u32, left: u32) {
        if runs > 0 {
            self.runs.fetch_add(runs, Ordering::Relaxed);
        }
        if left > 0 {
            self.left.fetch_add(left, Ordering::Relaxed);
        }
    }
}

/// A lambda ready to be run on many arguments, its globals as they are now. Between two runs nothing may be evaluated.
pub(super) struct Runner<'l> {
    lambda: &'l Lambda,
    slot: &'l Slot,
    program: Arc<Program>,
    machine: Box<Machine>,
    /// Objects that are not arguments.
    held: usize,
    runs: u32,
    left: u32,
}

impl<'l> Runner<'l> {
    /// `None` where the machine cannot run the lambda with so many arguments.
    pub fn new(context: &mut Context, lambda: &'l Lambda, arguments: usize) -> Option<Runner<'l>> {
        if !context.allowance.limits().machine {
            return None;
        }
        let slot = slot(lambda)?;
        let program = slot.program(context, lambda)?;
        if program.units.first().is_none_or(|first| usize::from(first.unit.parameters) != arguments) {
            return None;
        }
        let mut machine = context.machine.take().unwrap_or_default();
        machine.objects.clone_from(&program.objects);
        machine.globals.clear();
        for name in &program.globals {
            let value = context.host.global(*name);
            match value.and_then(|value| register(&mut machine, &value)) {
                Some(scalar) => machine.globals.push(scalar),
                None => {
                    slot.failures.fetch_add(1, Ordering::Relaxed);
                    context.machine = Some(machine);
                    return None;
                }
            }
        }
        let held = machine.objects.len();
        Some(Runner { lambda, slot, program, machine, held, runs: 0, left: 0 })
    }

    /// One run; `None` where the evaluator has to do it.
    pub fn call(&mut self, context: &mut Context, arguments: &[Value]) -> Option<Result<Value, QError>> {
        self.machine.objects.truncate(self.held);
        let mut registers = [Scalar::Unset; 8];
        for (to, argument) in registers.iter_mut().zip(arguments) {
            if !self.program.busy && !argument.is_scalar() {
                return None;
            }
            *to = register(&mut self.machine, argument)?;
        }
        self.runs += 1;
        match self.machine.run(context, &self.program, registers.get(..arguments.len())?, None) {
            Outcome::Done => self.machine.result.value(&self.machine.objects).map(Ok),
            Outcome::Failed(error) => Some(Err(*error)),
            Outcome::Left => {
                self.left += 1;
                None
            }
        }
    }

    /// Gives the registers back.
    pub fn finish(mut self, context: &mut Context) {
        self.slot.note(self.runs, self.left);
        self.machine.objects.clear();
        self.machine.globals.clear();
        context.machine = Some(self.machine);
    }
}

/// A value in a register.
fn register(machine: &mut Machine, value: &Value) -> Option<Scalar> {
    match Scalar::of(value) {
        None if is_object(value) => {
            machine.objects.push(value.clone());
            Some(Scalar::Object(u32::try_from(machine.objects.len() - 1).ok()?))
        }
        scalar => scalar,
    }
}

impl Context<'_> {
    /// Runs a lambda by the machine; `None` where the evaluator has to.
    pub(super) fn by_machine(&mut self, lambda: &Lambda, arguments: &[Value]) -> Option<Result<Value, QError>> {
        let mut runner = Runner::new(self, lambda, arguments.len())?;
        let result = runner.call(self, arguments);
        runner.finish(self);
        result
    }

    /// The root global that holds the lambda of a unit.
    fn name_of_unit(&self, unit: &Arc<Unit>) -> Sym {
        let holds = |name: &Sym| link::global_unit(self, *name).is_some_and(|own| Arc::ptr_eq(&own, unit));
        self.host.names(Sym::NULL).into_iter().find(holds).unwrap_or(Sym::NULL)
    }
}

/// The lambda that a value is.
pub(super) fn lambda_of(f: &Value) -> Option<&Lambda> {
    match f {
        Value::Func(function) => match &**function {
            Function::Lambda(lambda) => Some(lambda),
            _ => None,
        },
        _ => None,
    }
}
