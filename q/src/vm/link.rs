//! Links a lambda's code with that of the lambdas that it calls.

use crate::runtime::context::Context;
use crate::runtime::scalar::Scalar;
use crate::syntax::steps::{Callee, Early, Guard, Linked, LinkedProgram, Step, Unit};
use columns::kernel::zip::Comparison;
use columns::table::function::Function;
use columns::table::{Sym, Value};
use std::sync::Arc;

/// Limit of lambdas linked into a program.
const MAX_UNITS: usize = 64;

/// Returns the code of a lambda held by a global.
pub(super) fn global_unit(context: &Context, name: Sym) -> Option<Arc<Unit>> {
    unit_of(&context.host.global(name)?)
}

/// Returns the code of a lambda.
pub(super) fn unit_of(value: &Value) -> Option<Arc<Unit>> {
    let Value::Func(function) = value else { return None };
    let Function::Lambda(lambda) = &**function else { return None };
    super::slot(lambda)?.unit(lambda)
}

fn position(list: &mut Vec<Sym>, name: Sym) -> Option<u16> {
    let at = list.iter().position(|n| *n == name).unwrap_or_else(|| {
        list.push(name);
        list.len() - 1
    });
    u16::try_from(at).ok()
}

/// Links a lambda; `None` if the VM cannot run one of the lambdas that it calls.
pub(super) fn program(context: &Context, first: Arc<Unit>) -> Option<LinkedProgram> {
    let mut units = vec![first];
    let mut program = LinkedProgram {
        units: Vec::new(),
        constants: Vec::new(),
        objects: Vec::new(),
        globals: Vec::new(),
        busy: false,
        called: Vec::new(),
    };
    let mut next = 0;
    while let Some(unit) = units.get(next).cloned() {
        let constants = program.constants.len();
        for value in &unit.constants {
            let scalar = Scalar::of(value);
            program.constants.push(match scalar {
                Some(scalar) => scalar,
                None => {
                    program.objects.push(value.clone());
                    Scalar::Object(u32::try_from(program.objects.len() - 1).ok()?)
                }
            });
        }
        let mut steps = unit.steps.clone();
        let mut names = Vec::new();
        for (place, step) in steps.iter_mut().enumerate() {
            match *step {
                Step::Constant { ref mut index, .. }
                | Step::AddConstant { ref mut index, .. }
                | Step::MultiplyConstant { ref mut index, .. }
                | Step::SubtractConstant { ref mut index, .. }
                | Step::SubtractFrom { ref mut index, .. } => {
                    *index = u16::try_from(constants + usize::from(*index)).ok()?;
                }
                Step::Global { to, index } => {
                    let name = *unit.globals.get(usize::from(index))?;
                    *step = Step::Global { to, index: position(&mut program.globals, name)? };
                }
                Step::Call { to, base, unit: site } => {
                    let site = unit.sites.get(usize::from(site))?;
                    let called = match &site.callee {
                        Callee::Own => Arc::clone(&unit),
                        Callee::Lambda(unit) => Arc::clone(unit),
                        Callee::Global(name) => {
                            let data = !matches!(context.host.global(*name)?, Value::Func(_));
                            if data && site.arguments == 1 {
                                let index = position(&mut program.globals, *name)?;
                                *step = Step::GlobalItem { to, index, y: base };
                                continue;
                            }
                            names.push((u32::try_from(place).ok()?, *name));
                            global_unit(context, *name)?
                        }
                    };
                    if usize::from(called.parameters) != site.arguments {
                        return None;
                    }
                    let known = units.iter().position(|u| Arc::ptr_eq(u, &called)).unwrap_or_else(|| {
                        units.push(called);
                        units.len() - 1
                    });
                    let known = u16::try_from(known).ok()?;
                    if let Callee::Global(name) = site.callee
                        && !program.called.contains(&(name, known))
                    {
                        program.called.push((name, known));
                    }
                    *step = Step::Call { to, base, unit: known };
                }
                _ => {}
            }
        }
        program.busy |= steps.iter().any(|s| matches!(s, Step::Again { .. } | Step::Call { .. }));
        let (parameters, locals) = (unit.parameters, unit.locals);
        let guard = guard(&steps, parameters, &program.constants);
        program.units.push(Linked { unit, parameters, locals, steps, guard, names });
        next += 1;
        if next > MAX_UNITS {
            return None;
        }
    }
    for linked in &mut program.units {
        join(&mut linked.steps);
    }
    Some(program)
}

/// Returns the guard of a function that begins with a test of a parameter and returns at once if it holds.
fn guard(steps: &[Step], parameters: u8, constants: &[Scalar]) -> Option<Guard> {
    let (first, rest) = steps.split_first()?;
    let (parameter, comparison, bound, otherwise) = match *first {
        Step::UnlessEqualLong { x, target, y } => (x, Comparison::Equal, y, target),
        Step::UnlessUnequalLong { x, target, y } => (x, Comparison::Unequal, y, target),
        Step::UnlessLessLong { x, target, y } => (x, Comparison::Less, y, target),
        Step::UnlessMoreLong { x, target, y } => (x, Comparison::More, y, target),
        Step::UnlessAtMostLong { x, target, y } => (x, Comparison::AtMost, y, target),
        Step::UnlessAtLeastLong { x, target, y } => (x, Comparison::AtLeast, y, target),
        _ => return None,
    };
    let result = match *rest {
        [Step::Return { x }, ..] if x < parameters => Early::Parameter(x),
        [Step::Constant { to, index }, Step::Return { x }, ..]
            if to == x && !matches!(constants.get(usize::from(index)), None | Some(Scalar::Object(_))) =>
        {
            Early::Constant(index)
        }
        [Step::AddLong { to, x: summand, y }, Step::Return { x }, ..] if to == x && summand < parameters => {
            Early::Sum(summand, i64::from(y))
        }
        [Step::SubtractLong { to, x: summand, y }, Step::Return { x }, ..] if to == x && summand < parameters => {
            Early::Sum(summand, -i64::from(y))
        }
        _ => return None,
    };
    (parameter < parameters).then_some(Guard { parameter, comparison, bound: i64::from(bound), result, otherwise })
}

/// Fuses common pairs of steps. The second step stays in place, because jumps may land there.
fn join(steps: &mut [Step]) {
    for place in 1..steps.len() {
        let (Some(first), Some(second)) = (steps.get(place - 1).copied(), steps.get(place).copied()) else { return };
        let joined = match (first, second) {
            (Step::SubtractLong { to: argument, x, y }, Step::Call { to, base, unit }) if argument == base => {
                match (u8::try_from(unit), i8::try_from(y)) {
                    (Ok(unit), Ok(y)) => Some(Step::CallLess { to, base, x, unit, y }),
                    _ => None,
                }
            }
            (Step::Add { to, x, y }, Step::Return { x: result }) if to == result => Some(Step::ReturnSum { x, y }),
            (Step::Constant { to, index }, Step::Return { x }) if to == x => Some(Step::ReturnConstant { index }),
            (Step::UnlessLessLong { x, target, y }, Step::Return { x: result }) => {
                i16::try_from(y).ok().map(|y| Step::ReturnIfLess { x, result, target, y })
            }
            (Step::UnlessAtMostLong { x, target, y }, Step::Return { x: result }) => {
                i16::try_from(y).ok().map(|y| Step::ReturnIfAtMost { x, result, target, y })
            }
            (Step::UnlessEqualLong { x, target, y }, Step::Return { x: result }) => {
                i16::try_from(y).ok().map(|y| Step::ReturnIfEqual { x, result, target, y })
            }
            _ => None,
        };
        if let (Some(joined), Some(step)) = (joined, steps.get_mut(place - 1)) {
            *step = joined;
        }
    }
}
