//! Suspends an evaluation at an error, where the host has a debugger, and continues it.
//! <https://code.kx.com/q/basics/debug/#resume>

use crate::eval::among;
use crate::runtime::context::{Context, Running, RunningCode};
use crate::runtime::error::{Locals, QError, Scope};
use crate::runtime::frame::{Flow, Frame, Walk};
use crate::runtime::host::{self, Resume};
use crate::runtime::limits::made;
use crate::runtime::settings;
use crate::syntax::ast::{Kind, Node};
use crate::syntax::lambda;
use crate::verbs::above::Evaluate;
use crate::verbs::function::{is_elided, project};
use crate::verbs::{arith, call, trace};
use columns::table::function::Function;
use columns::table::{Sym, Value};

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
    if among::is_left_operand(f, arguments, &called) {
        given.truncate(1);
        return Ok(made(project(called, given))?);
    }
    context.among = among::among(context, f, given.len(), frame);
    swap_locals(context, frame);
    let result = match (&f.kind, &given[..]) {
        (Kind::Const(Value::Func(function)), [Some(_)] | [Some(_), Some(_)])
            if let Function::Primitive(index) = &**function
                && (given.len() < 2 || !given.iter().flatten().any(is_elided)) =>
        {
            if let [Some(x), Some(y)] = &given[..]
                && let Some(result) = arith::scalars(*index, x, y)
            {
                swap_locals(context, frame);
                return Ok(result);
            }
            let given: Vec<Value> = given.into_iter().flatten().collect();
            let result = match &given[..] {
                [x, y] => call::run2(context, *index, x.clone(), y.clone()),
                _ => given.first().cloned().map_or(Ok(Value::Null), |x| call::run1(context, *index, x)),
            };
            result.map_err(|error| error.failed(*index, &given))
        }
        _ => context.apply_holes(&called, given),
    };
    context.among = Vec::new();
    swap_locals(context, frame);
    Ok(result?)
}

/// Offers an error to the host at the node in which it arose: as in kdb+, only within a function or another text, and not where a trap
/// handles it. Returns what the node evaluates to.
#[cold]
pub(super) fn offer(context: &mut Context, error: QError, at: u32, frame: &mut Frame) -> Walk {
    let depth = context.frames.len();
    if depth == 0 || context.traps > 0 || host::is_limit(&error) || !error.is_new_at(depth) {
        return Err(Flow::Error(error));
    }
    let at = error.position().unwrap_or(at);
    swap_locals(context, frame);
    let namespace = context.host.namespace();
    let mut scopes: Vec<Scope> = context.frames.iter().rev().map(|level| scope_of(level, namespace)).collect();
    scopes.push(Scope { namespace, ..Scope::default() });
    let inner = error.trace().len();
    let mut whole = error.clone().within(trace::levels(context, at).into_iter().zip(scopes).collect());
    let resume = context.host.suspend(&mut whole);
    for (level, running) in context.frames.iter_mut().rev().enumerate() {
        if let Some(scope) = whole.scope(inner.saturating_add(level)) {
            set_locals(running, &scope.locals);
        }
    }
    swap_locals(context, frame);
    // What else the process has evaluated in the meantime may have had other settings.
    settings::set_precision(context.host.console().precision);
    match resume {
        Resume::With(value) => Ok(value),
        Resume::Pass => Err(error.passed().into()),
        Resume::Abort => Err(error.ended().into()),
        Resume::Signal(name) => Err(QError::from_debugger(name, depth).into()),
    }
}

/// Moves the locals of the running lambda to where the debugger finds them, or back. They are moved and not copied, so that a change in
/// place stays one.
fn swap_locals(context: &mut Context, frame: &mut Frame) {
    if let Some(level) = context.frames.last_mut() {
        std::mem::swap(&mut level.locals, &mut frame.locals);
    }
}

/// What a level refers to; `current` is the namespace of a text that is no lambda.
fn scope_of(level: &Running, current: Sym) -> Scope {
    let Some((lambda, Ok(code))) = level.lambda().map(|lambda| (lambda, lambda::code(lambda))) else {
        return Scope { namespace: current, ..Scope::default() };
    };
    let known = |(name, value): (&Sym, &Option<Value>)| Some((*name, value.clone()?));
    let locals = code.locals.iter().zip(&level.locals).filter_map(known).collect();
    let function = Some(Value::func(Function::Lambda(lambda.clone())));
    Scope { locals, namespace: lambda.namespace, function }
}

/// Gives a level the locals that the debugger has left.
fn set_locals(level: &mut Running, locals: &Locals) {
    let Running { code, locals: own, .. } = level;
    let RunningCode::Lambda { lambda, .. } = code else { return };
    let Ok(code) = lambda::code(lambda) else { return };
    for (name, local) in code.locals.iter().zip(own) {
        if let Some((_, value)) = locals.iter().find(|(known, _)| known == name) {
            *local = Some(value.clone());
        }
    }
}
