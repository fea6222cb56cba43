//! Register VM for lambdas over atoms: runs loops, recursion and folds without reference-counted values.
//!
//! A lambda's syntax is compiled once ([`compile`]) and linked with the lambdas that it calls ([`link`]). A run ([`run`]) reads
//! arguments and globals and changes nothing but its own registers. It can therefore bail out wherever the VM lacks support (a
//! list result, an error, an unknown function), and the evaluator starts over from the same arguments. Steps call the primitives
//! themselves ([`operate`] adds fast paths for the commonest types), so that VM and evaluator give the same results.

mod compile;
mod feed;
mod in_place;
mod link;
mod many;
mod nested;
mod objects;
mod operate;
mod quick;
mod results;
mod run;

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::registers::Registers;
use crate::runtime::scalar::{Scalar, is_object};
use crate::syntax::lambda;
use crate::syntax::steps::{LinkedProgram, Slot, Unit};
use columns::table::function::{Function, Lambda};
use columns::table::{Sym, Value};
pub(crate) use in_place::{Change, push};
pub(crate) use many::{Given, Many, atom};
pub(crate) use nested::{Edit, edit};
pub(crate) use results::Results;
use run::Outcome;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Minimum number of bail-outs after which a lambda that bails out in more than half of its runs is left to the evaluator.
const MAX_LEFT: u32 = 16;
/// Failed attempts to link a lambda or to read its globals after which it is left to the evaluator.
const TRIES: u32 = 64;

/// Returns the VM slot of a compiled lambda.
fn slot(lambda: &Lambda) -> Option<&Slot> {
    lambda.code.downcast_ref::<crate::syntax::compiled::Compiled>().map(|compiled| &compiled.machine)
}

impl Slot {
    /// Returns the lambda's code, compiled on first use; `None` if the VM cannot run it.
    fn unit(&self, lambda: &Lambda) -> Option<Arc<Unit>> {
        let make = || compile::unit(lambda::code(lambda).ok()?, &lambda.source).map(Arc::new);
        self.unit.get_or_init(make).clone()
    }

    /// Returns the linked program, relinked if a called global changed; `None` if the VM cannot run it.
    fn program(&self, context: &Context, lambda: &Lambda) -> Option<Arc<LinkedProgram>> {
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
        left >= MAX_LEFT && left > self.runs.load(Ordering::Relaxed) / 2
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

/// A lambda prepared for many runs, with copies of its globals. Nothing may be evaluated between two runs: it might change a global.
pub(crate) struct Runner<'l> {
    lambda: &'l Lambda,
    slot: &'l Slot,
    program: Arc<LinkedProgram>,
    machine: Box<Registers>,
    /// Number of objects that belong to the program and its globals; those of the arguments follow.
    held: usize,
    runs: u32,
    left: u32,
}

impl<'l> Runner<'l> {
    /// Returns `None` if the VM cannot run the lambda with this many arguments.
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

    /// Runs the lambda once; `None` if the evaluator has to do it.
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

    /// Returns the registers to the context.
    pub fn finish(mut self, context: &mut Context) {
        self.slot.note(self.runs, self.left);
        self.machine.objects.clear();
        self.machine.globals.clear();
        context.machine = Some(self.machine);
    }
}

/// Converts a value to a register; `None` for a value that registers cannot hold.
fn register(machine: &mut Registers, value: &Value) -> Option<Scalar> {
    match Scalar::of(value) {
        None if is_object(value) => {
            machine.objects.push(value.clone());
            Some(Scalar::Object(u32::try_from(machine.objects.len() - 1).ok()?))
        }
        scalar => scalar,
    }
}

/// Returns the lambda in a function value.
pub(crate) fn lambda_of(f: &Value) -> Option<&Lambda> {
    match f {
        Value::Func(function) => match &**function {
            Function::Lambda(lambda) => Some(lambda),
            _ => None,
        },
        _ => None,
    }
}

/// Runs a lambda in the VM; `None` if the evaluator has to do it.
pub(crate) fn run_lambda(context: &mut Context, lambda: &Lambda, arguments: &[Value]) -> Option<Result<Value, QError>> {
    let mut runner = Runner::new(context, lambda, arguments.len())?;
    let result = runner.call(context, arguments);
    runner.finish(context);
    result
}

/// Returns the root global that holds the lambda of a unit, for error traces.
fn name_of_unit(context: &Context, unit: &Arc<Unit>) -> Sym {
    context.host.find_name(&mut |value| link::unit_of(value).is_some_and(|own| Arc::ptr_eq(&own, unit)))
}
