//! Executes the steps of a program, in one function of three loops:
//!
//! - rounds: the whole program once for each item of a [`Feed`], or once without one;
//! - `'frame`: one entry into a function, by a call or a return;
//! - steps: fetch, count on, and an arm of the `match` for each kind of step: values, arithmetic, lists, jumps, calls and returns.
//!
//! A step leaves the loop in four ways: at the next step; at a jump (`pc` is set); into another frame (`call!`, `give!`); or out of the run,
//! with `Ok(false)` where the VM cannot go on and the evaluator starts over, or with an error of the limits (`tick!`, `stack`).
//!
//! Macros, where functions would do elsewhere: each arm is straight code for the commonest types, with the frame's registers, the steps and
//! `pc` in registers of the processor throughout. With the same arms as inlined methods of a struct, which return a `Result`, the compiler
//! spills them and merges jumps into conditional moves: at best 8 % slower in the median of `benches/loops.rs`, 24 % in a fold of floats.

use super::feed::Feed;
use super::objects::{keep, owned, share};
use super::operate::{amend, append, compare, item, other, quick_item, quick_unary, through, truth, unary};
use super::operate::{div_by, mod_by};
use super::quick::quick;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::op::Op;
use crate::runtime::registers::{Frame, Registers, WINDOW};
use crate::runtime::scalar::Scalar;
use crate::syntax::steps::{Early, LinkedProgram, Step};
use crate::verbs::arith::{holds, long_div, long_mod};
use columns::kernel::num::Num;
use columns::kernel::zip::{Arithmetic, Comparison};
use columns::sys::{snapshot, stack};

/// Backward jumps and calls between two checks of time and memory.
const STRIDE: u32 = 1 << 10;
/// Rounds along lists before the first check.
const FIRST_ROUNDS: u32 = 1 << 6;
/// Approximate stack use of a call in the evaluator: limits calls in the VM to about the same depth.
const CALL_BYTES: usize = 512;

/// How a run ended.
pub(super) enum Outcome {
    /// Result in [`Registers::result`].
    Done,
    /// Bail-out: nothing has changed, the evaluator starts over.
    Left,
    Failed(Box<QError>),
}

const ADD: Op = Op::Arithmetic(Arithmetic::Add);
const SUBTRACT: Op = Op::Arithmetic(Arithmetic::Subtract);
const MULTIPLY: Op = Op::Arithmetic(Arithmetic::Multiply);

/// Returns the result of a function that its guard ends; `base` is the register of its first argument.
#[inline]
fn early(result: Early, r: &[Scalar; WINDOW], base: usize, constants: &[Scalar]) -> Option<Scalar> {
    let given = |parameter: u8| r.get(base + usize::from(parameter));
    match result {
        Early::Constant(index) => constants.get(usize::from(index)).copied(),
        Early::Parameter(parameter) => match given(parameter)? {
            Scalar::Long(long) => Some(Scalar::Long(*long)),
            Scalar::Float(float) => Some(Scalar::Float(*float)),
            // Ownership of a list is tracked in frames only.
            Scalar::Unset | Scalar::Object(_) => None,
            other => Some(*other),
        },
        Early::Sum(parameter, number) => match given(parameter)? {
            Scalar::Long(long) => Some(Scalar::Long(long.plus(number))),
            _ => None,
        },
    }
}

impl Registers {
    /// Runs a program from the first step of its first unit, once or, with a feed, once per round.
    pub(super) fn run(
        &mut self,
        context: &mut Context,
        program: &LinkedProgram,
        arguments: &[Scalar],
        feed: Option<&mut Feed>,
    ) -> Outcome {
        self.frames.clear();
        self.owners.clear();
        self.owners.resize(self.objects.len(), 0);
        for (register, argument) in self.stack.iter_mut().zip(arguments) {
            register.take(argument);
        }
        match self.steps(context, program, feed) {
            Ok(true) => Outcome::Done,
            Ok(false) => Outcome::Left,
            Err(failed) => {
                let (error, unit, pc) = *failed;
                Outcome::Failed(Box::new(trace(&self.frames, context, program, error, unit, pc)))
            }
        }
    }

    /// Executes steps. Returns whether there is a result (false is a bail-out); an error carries its unit and the step after it.
    fn steps(
        &mut self,
        context: &mut Context,
        program: &LinkedProgram,
        mut feed: Option<&mut Feed>,
    ) -> Result<bool, Box<(QError, u16, usize)>> {
        let held = self.objects.len();
        let deepest = stack::limit_bytes() / CALL_BYTES;
        let mut fuel = if feed.is_some() { FIRST_ROUNDS } else { STRIDE };
        let mut unit = 0u16;
        let mut base = 0usize;
        let mut pc = 0usize;
        let mut called = true;
        loop {
            let ended: u8 = 'frame: loop {
                let Some(code) = program.units.get(usize::from(unit)) else { return Ok(false) };
                if self.stack.len() < base + WINDOW {
                    self.stack.resize(base + 4 * WINDOW, Scalar::Unset);
                }
                let Some(r) = self.stack.get_mut(base..).and_then(<[Scalar]>::first_chunk_mut::<WINDOW>) else {
                    return Ok(false);
                };
                if called && code.locals > code.parameters {
                    for local in r.iter_mut().take(code.locals.into()).skip(code.parameters.into()) {
                        *local = Scalar::Unset;
                    }
                }
                called = false;
                let steps = &code.steps[..];
                // A register of this frame.
                macro_rules! r {
                    ($register:expr) => {
                        r[usize::from($register)]
                    };
                }
                // Register number across all frames, from 1, as stored in `owners`.
                macro_rules! own {
                    ($register:expr) => {
                        u32::try_from(base + usize::from($register) + 1).unwrap_or(0)
                    };
                }
                // Stores what a primitive returned, which may be a list.
                macro_rules! keep {
                    ($to:expr, $value:expr) => {
                        match $value {
                            Some(value) => {
                                if !keep(&mut self.objects, &mut self.owners, &mut r!($to), own!($to), value) {
                                    return Ok(false);
                                }
                            }
                            None => return Ok(false),
                        }
                    };
                }
                // Any atomic operator.
                macro_rules! binary {
                    ($to:expr, $op:expr, $x:expr, $y:expr) => {{
                        let (x, y) = ($x, $y);
                        match quick($op, x, y) {
                            Some(result) => r!($to).take(&result),
                            None => keep!($to, through(context, &self.objects, $op, *x, *y)),
                        }
                    }};
                }
                // Stores an atom; bails out without one.
                macro_rules! put {
                    ($to:expr, $value:expr) => {
                        match $value {
                            Some(value) => r!($to).take(value),
                            None => return Ok(false),
                        }
                    };
                }
                // Addition, subtraction and multiplication: pairs of longs and of floats without a call.
                macro_rules! arithmetic {
                    ($to:expr, $x:expr, $y:expr, $op:expr, $method:ident, $sign:tt) => {
                        match (&$x, &$y) {
                            (Scalar::Long(x), Scalar::Long(y)) => r!($to) = Scalar::Long(x.$method(*y)),
                            (Scalar::Float(x), Scalar::Float(y)) => r!($to) = Scalar::Float(x $sign y),
                            (x, y) => binary!($to, $op, x, y),
                        }
                    };
                }
                macro_rules! constant {
                    ($index:expr) => {
                        match program.constants.get(usize::from($index)) {
                            Some(constant) => constant,
                            None => return Ok(false),
                        }
                    };
                }
                // Jumps unless a comparison holds.
                macro_rules! unless {
                    ($x:expr, $y:expr, $c:expr, $target:expr) => {
                        match (&$x, &$y) {
                            (Scalar::Long(x), Scalar::Long(y)) => {
                                if !holds($c, x.cmp(y)) {
                                    pc = usize::from($target);
                                }
                            }
                            (x, y) => match compare(context, &self.objects, $c, x, y) {
                                Some(true) => {}
                                Some(false) => pc = usize::from($target),
                                None => return Ok(false),
                            },
                        }
                    };
                }
                // Counts a backward jump or call; now and then checks time and memory.
                macro_rules! tick {
                    () => {
                        fuel -= 1;
                        if fuel == 0 {
                            fuel = STRIDE;
                            context.check().map_err(|error| Box::new((error, unit, pc)))?;
                            if snapshot::is_wanted() {
                                show_stack(&self.frames, context, program, unit, pc);
                            }
                        }
                    };
                }
                // Enters a unit: its arguments are in the registers from `$shift` on, it returns to step `$back`.
                macro_rules! call {
                    ($to:expr, $shift:expr, $callee:expr, $back:expr) => {{
                        let mut entry = 0;
                        // A call that the guard ends needs no frame.
                        if let Some(Some(guard)) = program.units.get(usize::from($callee)).map(|unit| &unit.guard)
                            && let Some(Scalar::Long(x)) = r.get(usize::from($shift) + usize::from(guard.parameter))
                        {
                            if holds(guard.comparison, x.cmp(&guard.bound)) {
                                if let Some(result) = early(guard.result, r, usize::from($shift), &program.constants) {
                                    r!($to).take(&result);
                                    pc = $back;
                                    continue;
                                }
                            } else {
                                entry = usize::from(guard.otherwise);
                            }
                        }
                        tick!();
                        if self.frames.len() >= deepest {
                            return Err(Box::new((QError::named("stack"), unit, $back)));
                        }
                        self.frames.push(Frame { unit, pc: $back as u32, to: $to, shift: $shift });
                        unit = $callee;
                        base += usize::from($shift);
                        pc = entry;
                        called = true;
                        continue 'frame;
                    }};
                }
                // Returns to the caller with a long, or else with register `$x`: a long just stored is not read back, which would stall.
                macro_rules! give {
                    ($long:expr, $x:expr) => {{
                        let long: Option<i64> = $long;
                        let Some(frame) = self.frames.pop() else { break 'frame $x };
                        let other = if long.is_some() { Scalar::Unset } else { r!($x) };
                        let held_by = own!($x);
                        base -= usize::from(frame.shift);
                        unit = frame.unit;
                        pc = frame.pc as usize;
                        let to = base + usize::from(frame.to);
                        let Some(register) = self.stack.get_mut(to) else { return Ok(false) };
                        match (long, other) {
                            (Some(long), _) => *register = Scalar::Long(long),
                            (None, Scalar::Unset) => return Ok(false),
                            (None, other) => {
                                if let Scalar::Object(place) = other
                                    && let Some(owner) = self.owners.get_mut(place as usize)
                                {
                                    // Ownership of the result moves from the callee to the caller's register.
                                    *owner = if *owner == held_by { u32::try_from(to + 1).unwrap_or(0) } else { 0 };
                                }
                                *register = other;
                            }
                        }
                        continue 'frame;
                    }};
                }
                loop {
                    let Some(step) = steps.get(pc) else { return Ok(false) };
                    pc += 1;
                    match *step {
                        // Values.
                        Step::Constant { to, index } => put!(to, program.constants.get(usize::from(index))),
                        Step::Global { to, index } => put!(to, self.globals.get(usize::from(index))),
                        Step::Copy { to, x } => match &r!(x) {
                            Scalar::Unset => return Ok(false),
                            Scalar::Long(long) => r!(to) = Scalar::Long(*long),
                            Scalar::Float(float) => r!(to) = Scalar::Float(*float),
                            value => {
                                let value = *value;
                                share(&mut self.owners, value);
                                r!(to) = value;
                            }
                        },
                        // Arithmetic.
                        Step::Add { to, x, y } => arithmetic!(to, r!(x), r!(y), ADD, plus, +),
                        Step::Subtract { to, x, y } => arithmetic!(to, r!(x), r!(y), SUBTRACT, minus, -),
                        Step::Multiply { to, x, y } => arithmetic!(to, r!(x), r!(y), MULTIPLY, times, *),
                        Step::AddLong { to, x, y } => match &r!(x) {
                            Scalar::Long(x) => r!(to) = Scalar::Long(x.plus(i64::from(y))),
                            x => binary!(to, ADD, x, &Scalar::Long(i64::from(y))),
                        },
                        Step::SubtractLong { to, x, y } => match &r!(x) {
                            Scalar::Long(x) => r!(to) = Scalar::Long(x.minus(i64::from(y))),
                            x => binary!(to, SUBTRACT, x, &Scalar::Long(i64::from(y))),
                        },
                        Step::MultiplyLong { to, x, y } => match &r!(x) {
                            Scalar::Long(x) => r!(to) = Scalar::Long(x.times(i64::from(y))),
                            x => binary!(to, MULTIPLY, x, &Scalar::Long(i64::from(y))),
                        },
                        Step::AddConstant { to, x, index } => {
                            arithmetic!(to, r!(x), *constant!(index), ADD, plus, +);
                        }
                        Step::MultiplyConstant { to, x, index } => {
                            arithmetic!(to, r!(x), *constant!(index), MULTIPLY, times, *);
                        }
                        Step::SubtractConstant { to, x, index } => {
                            arithmetic!(to, r!(x), *constant!(index), SUBTRACT, minus, -);
                        }
                        Step::SubtractFrom { to, x, index } => {
                            arithmetic!(to, *constant!(index), r!(x), SUBTRACT, minus, -);
                        }
                        Step::DivLong { to, x, y } => match &r!(x) {
                            Scalar::Long(x) => r!(to) = Scalar::Long(div_by(*x, y)),
                            x => binary!(to, Op::Div, x, &Scalar::Long(i64::from(y))),
                        },
                        Step::ModLong { to, x, y } => match &r!(x) {
                            Scalar::Long(x) => r!(to) = Scalar::Long(mod_by(*x, y)),
                            x => binary!(to, Op::Mod, x, &Scalar::Long(i64::from(y))),
                        },
                        Step::Div { to, x, y } => match (&r!(x), &r!(y)) {
                            (Scalar::Long(x), Scalar::Long(y)) => r!(to) = Scalar::Long(long_div(*x, *y)),
                            (x, y) => binary!(to, Op::Div, x, y),
                        },
                        Step::Mod { to, x, y } => match (&r!(x), &r!(y)) {
                            (Scalar::Long(x), Scalar::Long(y)) => r!(to) = Scalar::Long(long_mod(*x, *y)),
                            (x, y) => binary!(to, Op::Mod, x, y),
                        },
                        Step::Divide { to, x, y } => match (&r!(x), &r!(y)) {
                            (Scalar::Float(x), Scalar::Float(y)) => r!(to) = Scalar::Float(x / y),
                            (x, y) => binary!(to, Op::Divide, x, y),
                        },
                        Step::Binary { to, x, y, op } => binary!(to, op, &r!(x), &r!(y)),
                        Step::BinaryLong { to, x, y, op } => binary!(to, op, &r!(x), &Scalar::Long(i64::from(y))),
                        Step::Other { to, x, y, primitive } => {
                            keep!(to, other(context, &self.objects, primitive, r!(x), r!(y)));
                        }
                        Step::Unary { to, x, monad, primitive } => match quick_unary(&self.objects, monad, &r!(x)) {
                            Some(result) => r!(to).take(&result),
                            None => keep!(to, unary(context, &self.objects, primitive, r!(x))),
                        },
                        // Lists.
                        Step::Amend { x, y, value, op } => {
                            match owned(&mut self.objects, &mut self.owners, r!(x), own!(x)) {
                                Some(place) if amend(context, &mut self.objects, place, r!(y), r!(value), op) => {
                                    r!(x) = Scalar::Object(place as u32);
                                }
                                _ => return Ok(false),
                            }
                        }
                        Step::Append { x, y } => match owned(&mut self.objects, &mut self.owners, r!(x), own!(x)) {
                            Some(place) if append(context, &mut self.objects, place, r!(y)) => {
                                r!(x) = Scalar::Object(place as u32);
                            }
                            _ => return Ok(false),
                        },
                        Step::Item { to, x, y } => match quick_item(&self.objects, &r!(x), &r!(y)) {
                            Some(result) => r!(to).take(&result),
                            None => keep!(to, item(context, &self.objects, r!(x), r!(y))),
                        },
                        Step::GlobalItem { to, index, y } => {
                            let Some(global) = self.globals.get(usize::from(index)).copied() else { return Ok(false) };
                            match quick_item(&self.objects, &global, &r!(y)) {
                                Some(result) => r!(to).take(&result),
                                None => keep!(to, item(context, &self.objects, global, r!(y))),
                            }
                        }
                        // Jumps.
                        Step::Jump { target } => pc = usize::from(target),
                        Step::Again { target } => {
                            tick!();
                            pc = usize::from(target);
                        }
                        Step::Unless { x, target } => match truth(&r!(x)) {
                            Some(true) => {}
                            Some(false) => pc = usize::from(target),
                            None => return Ok(false),
                        },
                        Step::UnlessEqual { x, y, target } => unless!(r!(x), r!(y), Comparison::Equal, target),
                        Step::UnlessUnequal { x, y, target } => unless!(r!(x), r!(y), Comparison::Unequal, target),
                        Step::UnlessLess { x, y, target } => unless!(r!(x), r!(y), Comparison::Less, target),
                        Step::UnlessAtMost { x, y, target } => unless!(r!(x), r!(y), Comparison::AtMost, target),
                        Step::UnlessEqualLong { x, target, y } => {
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::Equal, target);
                        }
                        Step::UnlessUnequalLong { x, target, y } => {
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::Unequal, target);
                        }
                        Step::UnlessLessLong { x, target, y } => {
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::Less, target);
                        }
                        Step::UnlessMoreLong { x, target, y } => {
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::More, target);
                        }
                        Step::UnlessAtMostLong { x, target, y } => {
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::AtMost, target);
                        }
                        Step::UnlessAtLeastLong { x, target, y } => {
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::AtLeast, target);
                        }
                        Step::Times { x } => match r!(x).value(&[]).and_then(|times| times.as_long()) {
                            Some(times) => r!(x) = Scalar::Long(times),
                            None => return Ok(false),
                        },
                        Step::Countdown { x, target } => match &r!(x) {
                            Scalar::Long(left) if *left > 0 => r!(x) = Scalar::Long(left - 1),
                            _ => pc = usize::from(target),
                        },
                        // Calls and returns.
                        Step::Call { to, base, unit: callee } => call!(to, base, callee, pc),
                        Step::CallLess { to, base, x, unit: callee, y } => {
                            match &r!(x) {
                                Scalar::Long(x) => r!(base) = Scalar::Long(x.minus(i64::from(y))),
                                x => binary!(base, SUBTRACT, x, &Scalar::Long(i64::from(y))),
                            }
                            // Step `pc` is the unfused call: skip it on return.
                            call!(to, base, u16::from(callee), pc + 1)
                        }
                        Step::Return { x } => {
                            give!(if let Scalar::Long(long) = &r!(x) { Some(*long) } else { None }, x)
                        }
                        Step::ReturnConstant { index } => {
                            // Register 0 may be overwritten: the function reads no register after its return.
                            put!(0u8, program.constants.get(usize::from(index)));
                            give!(if let Scalar::Long(long) = &r!(0u8) { Some(*long) } else { None }, 0u8)
                        }
                        Step::ReturnIfLess { x, result, target, y } => {
                            let pc_now = pc;
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::Less, target);
                            if pc == pc_now {
                                give!(if let Scalar::Long(long) = &r!(result) { Some(*long) } else { None }, result)
                            }
                        }
                        Step::ReturnIfAtMost { x, result, target, y } => {
                            let pc_now = pc;
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::AtMost, target);
                            if pc == pc_now {
                                give!(if let Scalar::Long(long) = &r!(result) { Some(*long) } else { None }, result)
                            }
                        }
                        Step::ReturnIfEqual { x, result, target, y } => {
                            let pc_now = pc;
                            unless!(r!(x), Scalar::Long(i64::from(y)), Comparison::Equal, target);
                            if pc == pc_now {
                                give!(if let Scalar::Long(long) = &r!(result) { Some(*long) } else { None }, result)
                            }
                        }
                        Step::ReturnSum { x, y } => match (&r!(x), &r!(y)) {
                            (Scalar::Long(a), Scalar::Long(b)) => {
                                let sum = a.plus(*b);
                                r!(x) = Scalar::Long(sum);
                                give!(Some(sum), x)
                            }
                            (Scalar::Float(a), Scalar::Float(b)) => {
                                r!(x) = Scalar::Float(a + b);
                                give!(None, x)
                            }
                            (a, b) => {
                                binary!(x, ADD, a, b);
                                give!(if let Scalar::Long(long) = &r!(x) { Some(*long) } else { None }, x)
                            }
                        },
                        Step::Leave => return Ok(false),
                    }
                }
            };
            // The outermost function returned; its result is in register `ended`.
            let Some(r) = self.stack.first_chunk_mut::<WINDOW>() else { return Ok(false) };
            let result = &r[usize::from(ended)];
            let Some(feed) = feed.as_deref_mut() else {
                self.result.take(result);
                return Ok(!matches!(self.result, Scalar::Unset));
            };
            self.result = Scalar::Null;
            let goes_on = match *result {
                Scalar::Long(long) => feed.goes_on(|| Scalar::Long(long), r),
                Scalar::Float(float) => feed.goes_on(|| Scalar::Float(float), r),
                Scalar::Unset => return Ok(false),
                Scalar::Object(place) => {
                    self.result = Scalar::Object(place);
                    return Ok(true);
                }
                other => feed.goes_on(|| other, r),
            };
            if !goes_on {
                return Ok(true);
            }
            if self.objects.len() > held {
                self.objects.truncate(held);
                self.owners.truncate(held);
            }
            fuel -= 1;
            if fuel == 0 {
                fuel = STRIDE;
                context.check().map_err(|error| Box::new((error, unit, pc)))?;
            }
            (unit, base, pc, called) = (0, 0, 0, true);
        }
    }
}

/// Answers a request for the call stack.
#[cold]
fn show_stack(frames: &[Frame], context: &Context, program: &LinkedProgram, unit: u16, pc: usize) {
    let error = trace(frames, context, program, QError::named(""), unit, pc);
    let own = context.frames.last().and_then(|level| level.lambda());
    match program.units.first() {
        // An iterator applies the lambda, which has no level of its own then.
        Some(first) if own.is_none_or(|own| own.source != first.unit.source) => {
            let name = super::name_of_unit(context, &first.unit);
            let error = error.leave(columns::table::symbol::text(name), &first.unit.source, first.unit.start);
            crate::io::snapshot::answer(context, error.trace().to_vec(), context.at);
        }
        _ => {
            let at = error.position().unwrap_or(context.at);
            crate::io::snapshot::answer(context, error.trace().to_vec(), at);
        }
    }
}

/// Adds the frames that the evaluator would report to an error. The caller adds the outermost function.
fn trace(frames: &[Frame], context: &Context, program: &LinkedProgram, error: QError, unit: u16, pc: usize) -> QError {
    let (mut error, mut unit, mut pc) = (error, unit, pc);
    for frame in frames.iter().rev().take(QError::MAX_TRACE + 1) {
        if let Some(code) = program.units.get(usize::from(unit)) {
            let caller = program.units.get(usize::from(frame.unit));
            let site = frame.pc.wrapping_sub(1);
            let called_by = caller.and_then(|c| c.names.iter().find(|(place, _)| *place == site));
            let name = called_by.map_or_else(|| super::name_of_unit(context, &code.unit), |(_, name)| *name);
            let at = code.unit.at.get(pc.wrapping_sub(1)).copied().unwrap_or(code.unit.start);
            error = error.place(at).leave(columns::table::symbol::text(name), &code.unit.source, code.unit.start);
        }
        (unit, pc) = (frame.unit, frame.pc as usize);
    }
    let code = program.units.get(usize::from(unit));
    match code.and_then(|c| c.unit.at.get(pc.wrapping_sub(1))) {
        Some(at) => error.place(*at),
        None => error,
    }
}
