//! Suspends an evaluation at an error, where the host has a debugger, and continues it.
//! <https://code.kx.com/q/basics/debug/#resume>

use crate::runtime::context::{Context, Running};
use crate::runtime::error::{Locals, QError};
use crate::runtime::frame::{Flow, Frame, Walk};
use crate::runtime::host::{self, Resume};
use crate::runtime::settings;
use crate::syntax::ast::{Kind, Node};
use crate::syntax::lambda;
use crate::verbs::above::Evaluate;
use crate::verbs::{call, trace};
use columns::table::Value;
use columns::table::function::Function;

/// An application in an evaluation that can be suspended: the debugger sees the locals of the caller, and what a primitive was applied to.
#[cold]
#[inline(never)]
pub(super) fn application(context: &mut Context, f: &Node, arguments: &[Option<Node>], frame: &mut Frame) -> Walk {
    context.enter()?;
    let mut given = Vec::with_capacity(arguments.len());
    for argument in arguments.iter().rev() {
        given.push(match argument {
            Some(node) => Some(context.node(node, frame)?),
            None => None,
        });
    }
    given.reverse();
    let called = context.callee(f, frame)?;
    keep_locals(context, frame);
    let result = match (&f.kind, &given[..]) {
        (Kind::Const(Value::Func(function)), [Some(_)] | [Some(_), Some(_)])
            if let Function::Primitive(index) = &**function =>
        {
            let given: Vec<Value> = given.into_iter().flatten().collect();
            let result = match &given[..] {
                [x, y] => call::run2(context, *index, x.clone(), y.clone()),
                _ => given.first().cloned().map_or(Ok(Value::Null), |x| call::run1(context, *index, x)),
            };
            result.map_err(|error| error.failed(*index, &given))
        }
        _ => context.apply_holes(&called, given),
    };
    forget_locals(context);
    Ok(result?)
}

/// Offers an error to the host at the node in which it arose: as in kdb+, only within a function or another text, and not where a trap
/// handles it. Returns what the node evaluates to.
#[cold]
pub(super) fn offer(context: &mut Context, error: QError, at: u32, frame: &Frame) -> Walk {
    let depth = context.frames.len();
    if depth == 0 || context.traps > 0 || host::is_limit(&error) || !error.is_new_at(depth) {
        return Err(Flow::Error(error));
    }
    let at = error.position().unwrap_or(at);
    keep_locals(context, frame);
    let mut locals: Vec<Locals> = context.frames.iter().rev().map(named).collect();
    locals.push(Locals::new());
    let around = trace::levels(context, at).into_iter().zip(locals).collect();
    let resume = context.host.suspend(&error.clone().within(around));
    forget_locals(context);
    // What else the process has evaluated in the meantime may have had other settings.
    settings::set_precision(context.host.console().precision);
    match resume {
        Resume::With(value) => Ok(value),
        Resume::Pass => Err(error.passed().into()),
        Resume::Abort => Err(error.ended().into()),
        Resume::Signal(name) => Err(QError::from_debugger(name, depth).into()),
    }
}

/// Shows the debugger the locals of the running lambda, from now until [`forget_locals`].
fn keep_locals(context: &mut Context, frame: &Frame) {
    if let Some(level) = context.frames.last_mut() {
        level.locals = frame.locals.clone();
    }
}

/// Ends [`keep_locals`]: an assignment that follows has the values to itself, and changes them in place.
fn forget_locals(context: &mut Context) {
    if let Some(level) = context.frames.last_mut() {
        level.locals.clear();
    }
}

/// Names and values of the locals of a level.
fn named(level: &Running) -> Locals {
    let Some(Ok(code)) = level.lambda().map(lambda::code) else { return Locals::new() };
    let known = |(name, value): (&_, &Option<Value>)| Some((*name, value.clone()?));
    code.locals.iter().zip(&level.locals).filter_map(known).collect()
}
