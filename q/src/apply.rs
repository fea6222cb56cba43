//! Application: of functions, and of lists, dictionaries and tables to their indices.

use super::ast::{Kind, Node};
use super::context::{Context, Running};
use super::error::QError;
use super::footprint;
use super::index;
use super::iterate;
use super::lambda;
use super::limits::made;
use super::prims::{self, Run};
use super::process;
use columns::table::function::{Function, Iterator, Lambda};
use columns::table::symbol::text;
use columns::table::{Sym, Value, Vector};
use std::sync::Arc;

impl Context<'_> {
    /// Applies `f` to arguments of which `None` are holes. What lacks arguments becomes a projection.
    pub(super) fn apply_holes(&mut self, f: &Value, arguments: Vec<Option<Value>>) -> Result<Value, QError> {
        self.enter()?;
        if let [None] = arguments[..] {
            return self.apply(f, vec![Value::Null]);
        }
        if arguments.iter().all(Option::is_some) {
            return self.apply(f, arguments.into_iter().flatten().collect());
        }
        if let Value::Sym(name) = f {
            let global = self.global(*name)?;
            return self.apply_holes(&global, arguments);
        }
        match f {
            Value::Func(_) => {
                if arguments.len() > valence(f).max(1) && !is_variadic(f) {
                    return Err(QError::named("rank"));
                }
                made(project(f.clone(), arguments))
            }
            _ => self.apply(f, arguments.into_iter().map(|a| a.unwrap_or(Value::Null)).collect()),
        }
    }

    /// Applies `f` to these arguments.
    pub fn apply(&mut self, f: &Value, arguments: Vec<Value>) -> Result<Value, QError> {
        self.enter()?;
        made(self.applied(f, arguments)?)
    }

    fn applied(&mut self, f: &Value, mut arguments: Vec<Value>) -> Result<Value, QError> {
        // The name is that of this application alone, whatever it turns out to apply.
        let name = std::mem::take(&mut self.callee);
        let function = match f {
            Value::Func(function) => function,
            Value::Null => return arguments.into_iter().next().ok_or(QError::named("rank")),
            Value::Sym(name) if process::is_address(*name) => return process::one_shot(self, *name, arguments),
            Value::Sym(name) => {
                let global = self.global(*name)?;
                return self.apply(&global, arguments);
            }
            Value::Int(_) | Value::Long(_) => {
                let handle = f.as_long().unwrap_or(0);
                let message = if arguments.len() == 1 { arguments.remove(0) } else { Value::collapse(arguments) };
                return self.send(handle, message);
            }
            data => return index::deep(self, data, &arguments),
        };
        match &**function {
            Function::Lambda(l) => {
                let code = lambda::code(l)?;
                let wanted = code.parameters.len();
                if arguments.len() < wanted {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                if arguments.len() > wanted && !(wanted == 0 && matches!(arguments[..], [Value::Null])) {
                    return Err(QError::named("rank"));
                }
                arguments.truncate(wanted);
                let caller = self.running.replace(f.clone());
                self.frames.push(Running { lambda: l.clone(), name, called_at: self.at });
                let result = match self.by_machine(l, &arguments) {
                    Some(result) => result,
                    None => self.run(code, arguments),
                };
                self.running = caller;
                if let Some(frame) = self.frames.pop() {
                    self.at = frame.called_at;
                }
                result.map_err(|error| self.left(l, name, error))
            }
            Function::View(l) => {
                let value = self.view_value(l)?;
                self.apply(&value, arguments)
            }
            Function::Primitive(index) => self.primitive(f, *index, arguments),
            Function::Coded(..) => Err(QError::named("nyi")),
            Function::OnDisk { .. } => {
                let table = super::files::table_of(self, f)?;
                self.apply(&table, arguments)
            }
            Function::Native(name) => {
                let wanted = usize::from(self.host.native(*name).unwrap_or(0));
                if arguments.len() < wanted {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                if wanted == 0 && matches!(arguments[..], [Value::Null]) {
                    arguments.clear();
                }
                if arguments.len() > wanted {
                    return Err(QError::named("rank"));
                }
                self.host.call(*name, &arguments)
            }
            Function::Projection { function, arguments: held } => {
                let mut new = arguments.into_iter();
                let mut all: Vec<Option<Value>> = Vec::with_capacity(held.len());
                for h in held {
                    all.push(match h {
                        Some(value) => Some(value.clone()),
                        None => new.next(),
                    });
                }
                all.extend(new.map(Some));
                self.apply_holes(function, all)
            }
            Function::Composition(parts) => {
                let (last, before) = parts.split_last().ok_or(QError::named("rank"))?;
                if arguments.len() < valence(last) {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                let mut result = self.apply(last, arguments)?;
                for part in before.iter().rev() {
                    result = self.apply(part, vec![result])?;
                }
                Ok(result)
            }
            Function::Derived { iterator, function } => iterate::apply(self, *iterator, function, arguments),
        }
    }

    /// An error on its way out of a lambda that was called by `name`, null where that is not known.
    pub(super) fn left(&self, lambda: &Lambda, name: Sym, error: QError) -> QError {
        let name = self.traced_name(lambda, name, self.frames.len());
        let start = lambda::code(lambda).map_or(0, |code| code.start);
        error.leave(&name, &lambda.source, start)
    }

    /// What a trace calls a lambda that so many others run around: the global by which it was called or which holds it; one that
    /// is written inside another has that one's name with `@` behind it.
    pub(super) fn traced_name(&self, lambda: &Lambda, called: Sym, depth: usize) -> Vec<u8> {
        let (mut lambda, mut called, mut marks) = (lambda, called, 0);
        for around in (0..=depth).rev() {
            let known = !called.is_null() && text(called) != b".z.s";
            let name = if known { called } else { self.name_of(lambda) };
            if !name.is_null() {
                return [text(name), &vec![b'@'; marks]].concat();
            }
            let outer = around.checked_sub(1).and_then(|i| self.frames.get(i));
            let Some(outer) = outer.filter(|outer| is_within(&outer.lambda.source, &lambda.source)) else { break };
            (lambda, called, marks) = (&outer.lambda, outer.name, marks + 1);
        }
        Vec::new()
    }

    /// The name in its namespace under which a lambda is held.
    pub(super) fn holder_of(&self, lambda: &Lambda) -> Result<Option<Sym>, QError> {
        for short in self.host.names(lambda.namespace) {
            let full = super::resolve::qualify(short, lambda.namespace)?;
            if let Some(Value::Func(f)) = self.host.global(full)
                && matches!(&*f, Function::Lambda(l) if Arc::ptr_eq(&l.code, &lambda.code))
            {
                return Ok(Some(short));
            }
        }
        Ok(None)
    }

    /// The root global that holds a lambda, for traces.
    fn name_of(&self, lambda: &Lambda) -> Sym {
        let holds = |name: &Sym| match self.host.global(*name) {
            Some(Value::Func(f)) => matches!(&*f, Function::Lambda(l) if Arc::ptr_eq(&l.code, &lambda.code)),
            _ => false,
        };
        self.host.names(Sym::NULL).into_iter().find(holds).unwrap_or(Sym::NULL)
    }

    fn primitive(&mut self, f: &Value, index: u16, mut arguments: Vec<Value>) -> Result<Value, QError> {
        let primitive = prims::get(index).ok_or(QError::named("nyi"))?;
        if arguments.iter().any(Value::is_enumerated) && !prims::keeps_domain(primitive) {
            arguments = arguments.into_iter().map(Value::plain).collect();
        }
        match (&primitive.run, arguments.len()) {
            (Run::Unary(run), 1) => {
                let x = arguments.remove(0);
                footprint::ask(primitive.name, &[&x])?;
                run(self, x)
            }
            (Run::Binary(run), 2) => {
                let y = arguments.remove(1);
                let x = arguments.remove(0);
                footprint::ask(primitive.name, &[&x, &y])?;
                run(self, x, y)
            }
            (Run::Binary(_), 1) => Ok(project(f.clone(), arguments.into_iter().map(Some).collect())),
            (Run::Many(least, most, run), n) => {
                if n < usize::from(*least) {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                if n > usize::from(*most) {
                    return Err(QError::named("rank"));
                }
                run(self, arguments)
            }
            _ => Err(QError::named("rank")),
        }
    }

    /// Whether a handle is that of another process: a remote caller's message may be sent on, but not to a file.
    fn is_open(&self, handle: i64) -> bool {
        self.host.open_handles().into_iter().any(|open| i64::from(open).unsigned_abs() == handle.unsigned_abs())
    }

    /// Who asks may be sent to, as may what it has opened and what a session is connected with; other handles are the process's.
    fn may_send(&self, handle: i64) -> bool {
        let caller = self.host.caller();
        caller.may_use_sockets()
            || handle.saturating_abs() == i64::from(caller.handle)
            || self.host.owns(handle)
            || (caller.grants.relay && self.is_open(handle))
    }

    /// A message to a handle: 0 is this process, -1 and -2 its standard output and error.
    pub(super) fn send(&mut self, handle: i64, message: Value) -> Result<Value, QError> {
        match handle {
            0 => super::message(self, &message),
            1 | 2 => {
                let text = message.as_text().ok_or(QError::named("type"))?;
                if handle == 1 {
                    self.host.print(text)?;
                } else {
                    self.host.print_error(text)?;
                }
                Ok(Value::Long(handle))
            }
            -1 | -2 => {
                let mut text = match message.as_text() {
                    Some(text) => text.to_vec(),
                    None => {
                        let mut all = Vec::new();
                        for line in message.items() {
                            all.extend_from_slice(line.as_text().ok_or(QError::named("type"))?);
                            all.push(b'\n');
                        }
                        all.pop();
                        all
                    }
                };
                text.push(b'\n');
                if handle == -1 {
                    self.host.print(&text)?;
                } else {
                    self.host.print_error(&text)?;
                }
                Ok(Value::Long(handle))
            }
            _ if !self.may_send(handle) => Err(QError::with("access", "no such handle")),
            _ => self.host.send(handle, &message),
        }
    }
}

/// Whether the text of a lambda stands in that of another.
fn is_within(outer: &[u8], inner: &[u8]) -> bool {
    !inner.is_empty() && outer.len() > inner.len() && outer.windows(inner.len()).any(|part| part == inner)
}

/// `f` with these arguments, holes where there are none.
pub(super) fn project(function: Value, arguments: Vec<Option<Value>>) -> Value {
    Value::func(Function::Projection { function, arguments })
}

pub(super) fn is_variadic(f: &Value) -> bool {
    match f {
        Value::Func(function) => match &**function {
            Function::Primitive(index) => prims::get(*index).is_some_and(|p| matches!(p.run, Run::Many(..))),
            Function::Derived { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

/// The primitive that a function is, or that a lambda like `{x+y}` comes to.
pub(super) fn as_primitive(f: &Value) -> Option<u16> {
    let Value::Func(function) = f else { return None };
    match &**function {
        Function::Primitive(index) => Some(*index),
        Function::Lambda(l) => {
            let code = lambda::code(l).ok()?;
            let ([_, _], [Node { kind: Kind::Apply(f, arguments), .. }]) = (&code.parameters[..], &code.body[..])
            else {
                return None;
            };
            let local = |node: &Option<Node>, slot: u16| matches!(node, Some(Node { kind: Kind::Local(own), .. }) if *own == slot);
            match (&f.kind, &arguments[..]) {
                (Kind::Const(f), [x, y]) if local(x, 0) && local(y, 1) => as_primitive(f),
                _ => None,
            }
        }
        _ => None,
    }
}

/// How many arguments a function waits for; 1 for one that is nested too deeply to be applied.
pub(super) fn valence(f: &Value) -> usize {
    let Value::Func(function) = f else { return 1 };
    if columns::sys::stack::is_deep() {
        return 1;
    }
    match &**function {
        Function::Lambda(l) => lambda::code(l).map_or(1, |c| c.parameters.len()),
        Function::Primitive(index) => match prims::get(*index).map(|p| &p.run) {
            Some(Run::Unary(_)) => 1,
            Some(Run::Many(least, ..)) => usize::from((*least).max(1)),
            _ => 2,
        },
        Function::Coded(kind, _) => usize::from(*kind == 102) + 1,
        Function::Native(_) | Function::View(_) | Function::OnDisk { .. } => 1,
        Function::Projection { function, arguments } => {
            let holes = arguments.iter().filter(|a| a.is_none()).count();
            holes + valence(function).saturating_sub(arguments.len())
        }
        Function::Composition(parts) => parts.last().map_or(1, valence),
        Function::Derived { iterator, function } => match iterator {
            Iterator::Each => valence(function),
            Iterator::EachLeft | Iterator::EachRight => 2,
            Iterator::EachPrior => 1,
            Iterator::Over | Iterator::Scan => {
                let inner = valence(function);
                if inner > 2 { inner } else { 1 }
            }
        },
    }
}

/// q's `type` of a value, functions told apart.
pub fn type_of(value: &Value) -> i16 {
    match value {
        Value::Func(function) => match &**function {
            Function::Lambda(_) | Function::View(_) => 100,
            Function::Primitive(index) => prims::get(*index).map_or(101, |p| match p.name {
                "<>" | "<=" | ">=" => 105,
                _ => i16::from(p.code.0),
            }),
            Function::Coded(kind, _) => i16::from(*kind),
            Function::Native(_) => 100,
            Function::Projection { .. } => 104,
            Function::Composition(_) => 105,
            Function::Derived { iterator, .. } => i16::from(iterator.type_number()),
            Function::OnDisk { .. } => 98,
        },
        Value::Vector(Vector { .. }) => value.type_number(),
        other => other.type_number(),
    }
}
