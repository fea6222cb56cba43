//! Evaluates syntax nodes. Arguments are evaluated from right to left, as in q.

use crate::eval::{among, globals, suspend, trap};
use crate::io::snapshot;
use crate::qsql;
use crate::qsql::compile::outside;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Flow, Frame, Walk};
use crate::runtime::host::Made;
use crate::runtime::limits::made;
use crate::runtime::scope;
use crate::runtime::values::truth;
use crate::syntax::ast::{Assign, Code, Kind, Node};
use crate::syntax::{lambda, prims};
use crate::verbs::above::Evaluate;
use crate::verbs::amend::Amend;
use crate::verbs::function::{is_elided, project};
use crate::verbs::rows::keys_of_dictionaries;
use crate::verbs::tables::unique_names;
use crate::verbs::{amend, append, arith, call, fold, index};
use crate::vm;
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Items, Sym, Table, Value, Vector};
use std::sync::Arc;

/// Adds a node's source position to an error.
fn placed(flow: Flow, at: u32) -> Flow {
    match flow {
        Flow::Error(error) => Flow::Error(error.place(at)),
        returned => returned,
    }
}

/// Evaluates the code of a lambda with its arguments.
pub(crate) fn run(context: &mut Context, code: &Code, arguments: Vec<Value>) -> Result<Value, QError> {
    context.enter()?;
    let mut locals: Vec<Option<Value>> = arguments.into_iter().map(Some).collect();
    locals.resize(code.locals.len(), None);
    run_in(context, code, &mut Frame { locals, is_owners: code.is_owners, among: Vec::new() })
}

/// Evaluates code with the locals of a frame; the caller finds their final values in it.
pub(crate) fn run_in(context: &mut Context, code: &Code, frame: &mut Frame) -> Result<Value, QError> {
    // The columns of the calling query are not in the lambda's scope.
    let scopes = std::mem::take(&mut context.scopes);
    let result = context.statements(&code.body, frame);
    snapshot::offer(context);
    context.scopes = scopes;
    match result {
        Ok(value) | Err(Flow::Return(value)) => Ok(value),
        Err(Flow::Error(error)) => Err(error),
    }
}

pub(crate) fn node(context: &mut Context, node: &Node, frame: &mut Frame) -> Walk {
    if context.debugs {
        return debugged(context, node, frame);
    }
    evaluated(context, node, frame)
}

/// [`node`] in an evaluation that can be suspended. Apart, because code after the usual evaluation costs every node a copy of its result.
#[cold]
#[inline(never)]
fn debugged(context: &mut Context, node: &Node, frame: &mut Frame) -> Walk {
    match evaluated(context, node, frame) {
        Err(Flow::Error(error)) => suspend::offer(context, error, node.at, frame),
        result => result,
    }
}

#[inline(always)]
fn evaluated(context: &mut Context, node: &Node, frame: &mut Frame) -> Walk {
    match &node.kind {
        Kind::Const(value) => Ok(value.clone()),
        Kind::Local(slot) => {
            Ok(frame.locals.get(usize::from(*slot)).and_then(Clone::clone).unwrap_or_else(Value::empty))
        }
        Kind::Global(name) => Ok(globals::value(context, *name).map_err(|e| e.of_variable(node.at))?),
        // A name of a parse tree.
        Kind::Name(name) => match frame.among.iter().find(|(local, _)| local == name) {
            Some((_, value)) => {
                let value = value.clone();
                context.host.makes_code(Made::Value(&value))?;
                Ok(value)
            }
            None => Ok(globals::applied(context, *name).map_err(|e| e.place(node.at))?),
        },
        Kind::Column(name, outer) => match scope::column(&mut context.scopes, *name) {
            Some(column) => Ok(column),
            None => match globals::dotted(context, *name, |c, stem| scope::column(&mut c.scopes, stem))? {
                Some(part) => Ok(part),
                None => outside(context, *name, outer, frame),
            },
        },
        Kind::Apply(f, arguments) => context.application(f, arguments, frame).map_err(|flow| placed(flow, f.at)),
        Kind::Derive(..) | Kind::Compose(..) | Kind::List(_) | Kind::Table { .. } | Kind::Query(_) => {
            context.enter()?;
            Ok(made(context.making(node, frame)?)?)
        }
        Kind::Assign(assign) => context.assign(assign, frame).map_err(|flow| placed(flow, node.at)),
        Kind::Cond(parts) => context.cond(parts, frame),
        Kind::Match(parts) => context.match_parts(parts, frame),
        _ => {
            context.enter()?;
            context.controlling(node, frame)
        }
    }
}

impl Context<'_> {
    fn statements(&mut self, body: &[Node], frame: &mut Frame) -> Walk {
        let Some((last, before)) = body.split_last() else { return Ok(Value::Null) };
        for node in before {
            // The statement's value is dropped before the next one: after `l,:1` the list has no second reference.
            self.node(node, frame)?;
        }
        self.node(last, frame)
    }

    /// Nodes that build a value, in a function of their own to keep the stack frame of the others small.
    fn making(&mut self, node: &Node, frame: &mut Frame) -> Walk {
        match &node.kind {
            Kind::Derive(iterator, f) => {
                let function = self.node(f, frame)?;
                Ok(Value::func(Function::Derived { iterator: *iterator, function }))
            }
            Kind::Compose(f, g) => {
                let g = self.node(g, frame)?;
                let f = self.node(f, frame)?;
                Ok(Value::func(Function::Composition(vec![f, g])))
            }
            Kind::List(nodes) => {
                let mut items = Vec::with_capacity(nodes.len());
                for node in nodes.iter().rev() {
                    items.push(self.node(node, frame)?);
                }
                items.reverse();
                if items.iter().any(is_elided) {
                    return Ok(self.apply_holes(&prims::glyph("enlist"), items.into_iter().map(Some).collect())?);
                }
                Ok(Value::collapse(items))
            }
            Kind::Table { keys, columns, keyed_only } => {
                self.table_literal(keys, columns, *keyed_only, frame).map_err(|flow| placed(flow, node.at))
            }
            Kind::Query(template) => qsql::template(self, template, frame).map_err(|flow| placed(flow, node.at)),
            _ => Ok(Value::Null),
        }
    }

    /// Control nodes.
    fn controlling(&mut self, node: &Node, frame: &mut Frame) -> Walk {
        match &node.kind {
            Kind::If(parts) => {
                if let Some((test, body)) = parts.split_first()
                    && truth(&self.node(test, frame)?)?
                {
                    self.statements(body, frame)?;
                }
                Ok(Value::Null)
            }
            Kind::While(parts) => {
                if let Some((test, body)) = parts.split_first() {
                    while truth(&self.node(test, frame)?)? {
                        self.tick()?;
                        self.statements(body, frame)?;
                    }
                }
                Ok(Value::Null)
            }
            Kind::Do(parts) => {
                if let Some((times, body)) = parts.split_first() {
                    let times = self.node(times, frame)?.as_long().ok_or(QError::named("type"))?;
                    for _ in 0..times {
                        self.tick()?;
                        self.statements(body, frame)?;
                    }
                }
                Ok(Value::Null)
            }
            Kind::Seq(body) => self.statements(body, frame),
            Kind::Return(value) => Err(Flow::Return(self.node(value, frame)?)),
            Kind::Signal(value) => {
                let signal = self.node(value, frame)?;
                Err(trap::signalled(&signal, node.at).into())
            }
            Kind::View(name, source) => {
                let view = crate::eval::views::view(Arc::clone(source), Sym::NULL)?;
                // The owner may define a view whose name is a keyword, as kdb+'s own `sp.q` does. In text the keyword keeps its meaning.
                if self.host.caller().remote && prims::keyword(text(*name)).is_some() {
                    return Err(QError::named("assign").into());
                }
                self.host.assign(*name, view)?;
                Ok(Value::Null)
            }
            _ => Ok(Value::Null),
        }
    }

    fn application(&mut self, f: &Node, arguments: &[Option<Node>], frame: &mut Frame) -> Walk {
        if self.debugs {
            return suspend::application(self, f, arguments, frame);
        }
        self.enter()?;
        snapshot::offer(self);
        match arguments {
            [Some(x), Some(y)] => {
                let y = self.node(y, frame)?;
                let x = self.node(x, frame)?;
                if let Kind::Const(Value::Func(function)) = &f.kind
                    && let Function::Primitive(index) = &**function
                {
                    if let Some(result) = arith::scalars(*index, &x, &y) {
                        return Ok(result);
                    }
                    if is_elided(&x) || is_elided(&y) {
                        return self.leave_open(f, x, y, frame);
                    }
                    self.at = f.at;
                    if frame.is_owners && is_owners_operation(*index, arguments) {
                        self.host.acts_as_owner(true);
                        let result = call::run2(self, *index, x, y);
                        self.host.acts_as_owner(false);
                        return Ok(result?);
                    }
                    return Ok(call::run2(self, *index, x, y)?);
                }
                if is_elided(&x) || is_elided(&y) {
                    return self.leave_open(f, x, y, frame);
                }
                let called = self.callee(f, frame)?;
                Ok(self.apply(&called, vec![x, y])?)
            }
            [Some(x)] => {
                let x = self.node(x, frame)?;
                if let Kind::Const(Value::Func(function)) = &f.kind
                    && let Function::Primitive(index) = &**function
                {
                    self.at = f.at;
                    return Ok(call::run1(self, *index, x)?);
                }
                let called = self.callee(f, frame)?;
                Ok(self.apply(&called, vec![x])?)
            }
            _ => {
                let mut given = Vec::with_capacity(arguments.len());
                for argument in arguments.iter().rev() {
                    given.push(match argument {
                        Some(node) => Some(self.node(node, frame)?),
                        None => None,
                    });
                }
                given.reverse();
                let called = self.callee(f, frame)?;
                if among::is_left_operand(f, arguments, &called) {
                    given.truncate(1);
                    return Ok(made(project(called, given))?);
                }
                self.among = among::among(self, f, given.len(), frame);
                let result = self.apply_holes(&called, given);
                self.among = Vec::new();
                Ok(result?)
            }
        }
    }

    /// Applies a function of two arguments of which one was elided: a projection.
    #[cold]
    fn leave_open(&mut self, f: &Node, x: Value, y: Value, frame: &mut Frame) -> Walk {
        let called = self.callee(f, frame)?;
        Ok(self.apply_holes(&called, vec![Some(x), Some(y)])?)
    }

    /// Evaluates the function of an application, and records a global's name for backtraces.
    pub(super) fn callee(&mut self, f: &Node, frame: &mut Frame) -> Walk {
        let value = self.node(f, frame)?;
        self.at = f.at;
        self.callee = match f.kind {
            Kind::Global(name) | Kind::Name(name) => name,
            _ => Sym::NULL,
        };
        Ok(value)
    }

    fn cond(&mut self, parts: &[Node], frame: &mut Frame) -> Walk {
        self.enter()?;
        let mut rest = parts;
        loop {
            match rest {
                [] => return Ok(Value::Null),
                [otherwise] => return self.node(otherwise, frame),
                [test, then, more @ ..] => {
                    if truth(&self.node(test, frame)?)? {
                        return self.node(then, frame);
                    }
                    rest = more;
                }
            }
        }
    }

    /// The values of i and j in `x[i;j]:y`. As in all of q, the last one is evaluated first.
    fn path(&mut self, assign: &Assign, frame: &mut Frame) -> Walk<Vec<Value>> {
        let mut path = Vec::with_capacity(assign.indices.len());
        for index in assign.indices.iter().rev() {
            path.push(match index {
                // An elided value is every item, as an elided index.
                Some(node) => Some(self.node(node, frame)?).filter(|index| !is_elided(index)).unwrap_or(Value::Null),
                None => Value::Null,
            });
        }
        path.reverse();
        Ok(path)
    }

    fn assign(&mut self, assign: &Assign, frame: &mut Frame) -> Walk {
        self.enter()?;
        snapshot::offer(self);
        if let Kind::Name(name) = assign.target.kind
            && let full = globals::named(self, name)?
            && full != name
        {
            self.host.makes_code(Made::Other)?;
            let target = Node { kind: Kind::Global(full), ..assign.target.clone() };
            return self.assign(&Assign { target, ..assign.clone() }, frame);
        }
        let value = self.node(&assign.value, frame)?;
        if assign.pattern {
            return self.bind(&assign.target, value, frame);
        }
        if assign.through.is_none() && assign.indices.is_empty() {
            self.store(&assign.target, value.clone(), frame)?;
            self.was_assigned(&assign.target, &[])?;
            define(self, assign);
            return Ok(value);
        }
        // Fast path for `x+:1` on atoms, common in loops.
        if assign.indices.is_empty()
            && let Some(index) = assign.through.as_ref().and_then(prims::index_of)
            && let Kind::Local(slot) = assign.target.kind
            && let Some(Some(old)) = frame.locals.get_mut(usize::from(slot))
            && let Some(new) = arith::scalars(index, old, &value)
        {
            *old = new.clone();
            return Ok(new);
        }
        let path = self.path(assign, frame)?;
        if let Some(result) = self.appended_in_place(assign, &path, &value, frame) {
            let result = result?;
            self.was_assigned(&assign.target, &path)?;
            return Ok(result);
        }
        let change = (&path[..], assign.through.as_ref(), &value);
        if let Some(item) = self.change_in_place(&assign.target.kind, change, frame) {
            self.was_assigned(&assign.target, &path)?;
            return Ok(if assign.through.is_some() { item } else { value });
        }
        let shared = match assign.target.kind {
            Kind::Global(name) if frame.is_owners => self.host.global_to_change(name),
            _ => None,
        };
        let shared = shared.filter(|value| !matches!(value, Value::Func(_)));
        let is_hidden = self.is_hidden(&assign.target, shared.as_ref());
        let old = match shared.map_or_else(|| self.take(&assign.target, frame), Ok) {
            Ok(old) => old,
            // An undefined global is the value itself, or starts from the operator's identity.
            Err(undefined) => {
                let is_global = matches!(assign.target.kind, Kind::Global(_) | Kind::Name(_));
                let through = assign.through.as_ref().filter(|_| path.is_empty() && is_global);
                if through.is_some_and(|f| keeps(f, &value)) {
                    self.store(&assign.target, value.clone(), frame)?;
                    self.was_assigned(&assign.target, &path)?;
                    return Ok(value);
                }
                through.and_then(fold::identity).ok_or(undefined)?
            }
        };
        let change = Amend { function: assign.through.as_ref(), value: Some(&value) };
        let appends = path.is_empty() && assign.through.as_ref().is_some_and(|f| prims::is_glyph(f, ","));
        let new = if appends {
            append::append_to(self, old, value.clone())?
        } else {
            amend::deep(self, old, &path, &change)?
        };
        let new = made(new)?;
        // As kdb+ has it, `x[i]:v` returns `v`, `x[i]+:v` the new item.
        let result = match (&assign.through, &path[..]) {
            (None, [_, ..]) => value,
            _ if is_hidden => Value::Null,
            (_, []) => new.clone(),
            (Some(_), path) => index::deep(self, &new, path)?,
        };
        self.store(&assign.target, new, frame)?;
        self.was_assigned(&assign.target, &path)?;
        Ok(result)
    }

    pub(super) fn was_assigned(&mut self, target: &Node, path: &[Value]) -> Result<(), QError> {
        match target.kind {
            Kind::Global(name) | Kind::Name(name) => self.was_set(name, path),
            _ => Ok(()),
        }
    }

    /// Whether the caller may not read a value that the owner's code changes: the assignment's result must not show it either.
    fn is_hidden(&self, target: &Node, changed: Option<&Value>) -> bool {
        let (Kind::Global(name), Some(changed)) = (&target.kind, changed) else { return false };
        self.host.is_restricted()
            && !self.host.global(*name).is_some_and(|seen| crate::eval::views::identical(&seen, changed))
    }

    /// `x,:v` in place, on a value without other references. Returns the new value; `None` if the general path is needed.
    fn appended_in_place(
        &mut self,
        assign: &Assign,
        path: &[Value],
        value: &Value,
        frame: &mut Frame,
    ) -> Option<Result<Value, QError>> {
        if !path.is_empty() || !assign.through.as_ref().is_some_and(|f| prims::is_glyph(f, ",")) {
            return None;
        }
        let Some(atom) = vm::atom(value) else { return self.grown(assign, value, frame) };
        let push = |x: &mut Value| (vm::push(x, atom) == vm::Change::Done).then(|| x.clone());
        let pushed = match assign.target.kind {
            Kind::Local(slot) => push(frame.locals.get_mut(usize::from(slot))?.as_mut()?),
            Kind::Global(name) if !crate::verbs::enums::is_domain(name) => {
                let mut result = None;
                self.host.edit(name, &mut |x| result = push(x));
                result
            }
            _ => None,
        };
        pushed.map(Ok).or_else(|| self.grown(assign, value, frame))
    }

    /// `x,:v` in place: rows of a table, items of a vector with an attribute.
    fn grown(&mut self, assign: &Assign, value: &Value, frame: &mut Frame) -> Option<Result<Value, QError>> {
        match assign.target.kind {
            Kind::Local(slot) => {
                let x = frame.locals.get_mut(usize::from(slot))?.as_mut()?;
                let done = append::in_place(self, x, value)?;
                Some(done.map(|()| x.clone()))
            }
            Kind::Global(name) => append::in_place_global(self, name, value),
            _ => None,
        }
    }

    /// Returns the old value of an assignment's target; a local's is moved out, so that it can be changed in place. Where a failed change can
    /// be continued, the local keeps its value.
    fn take(&mut self, target: &Node, frame: &mut Frame) -> Walk {
        match &target.kind {
            Kind::Local(slot) if !self.debugs => {
                let local = frame.locals.get_mut(usize::from(*slot)).and_then(Option::take);
                Ok(local.unwrap_or_else(Value::empty))
            }
            _ => self.node(target, frame),
        }
    }

    pub(super) fn store(&mut self, target: &Node, value: Value, frame: &mut Frame) -> Result<(), Flow> {
        match &target.kind {
            Kind::Local(slot) => {
                if let Some(local) = frame.locals.get_mut(usize::from(*slot)) {
                    *local = Some(value);
                }
                Ok(())
            }
            Kind::Global(name) if frame.is_owners => {
                self.host.acts_as_owner(true);
                let stored = self.set_global(*name, value);
                self.host.acts_as_owner(false);
                Ok(stored?)
            }
            Kind::Global(name) => Ok(self.set_global(*name, value)?),
            Kind::Name(name) => {
                self.host.makes_code(Made::Other)?;
                Ok(self.set_global(*name, value)?)
            }
            _ => Err(QError::named("assign").into()),
        }
    }

    fn table_literal(
        &mut self,
        keys: &[(Option<Sym>, Node)],
        columns: &[(Option<Sym>, Node)],
        keyed_only: bool,
        frame: &mut Frame,
    ) -> Walk {
        let names = unique_names(keys.iter().chain(columns).map(|(name, _)| name.unwrap_or(prims::name("x"))))?;
        let is_hole = |node: &Node| matches!(&node.kind, Kind::Seq(body) if body.is_empty());
        if keyed_only && keys.iter().any(|(_, node)| is_hole(node)) {
            let mut held = Vec::with_capacity(keys.len());
            for (_, node) in keys.iter().rev() {
                held.push(if is_hole(node) { None } else { Some(self.node(node, frame)?) });
            }
            held.reverse();
            let with_names = project(prims::glyph("!"), vec![Some(Value::symbols(names))]);
            let parts = vec![with_names, project(prims::glyph("enlist"), held)];
            return Ok(Value::func(Function::Composition(parts)));
        }
        let mut fields = Vec::with_capacity(keys.len() + columns.len());
        for ((_, node), name) in keys.iter().chain(columns).rev().zip(names.iter().rev()) {
            fields.push((*name, self.node(node, frame)?));
        }
        fields.reverse();
        if keyed_only {
            return Ok(Value::dict(
                Value::symbols(names),
                Value::collapse(fields.into_iter().map(|(_, v)| v).collect()),
            ));
        }
        let mut values = fields.split_off(keys.len());
        let rows = fields.iter().chain(&values).find(|(_, v)| !v.is_scalar()).map(|(_, v)| v.count());
        let rows = rows.ok_or(QError::with("rank", "at least one column of a table must be a list"))?;
        let of_rows =
            if fields.is_empty() { keys_of_dictionaries(values.iter_mut().map(|(_, value)| value))? } else { None };
        let values = columns_of(self, values, rows)?;
        if let Some(keys) = of_rows {
            return Ok(Value::dict(keys, values));
        }
        if fields.is_empty() {
            return Ok(values);
        }
        let keys = columns_of(self, fields, rows)?;
        Ok(Value::dict(keys, values))
    }
}

/// Whether `x op: y` of an undefined x is y itself, so that x has its type: for `^`, and for `+`, `*`, `|` and `&` of numbers, tables and dictionaries. A boolean is
/// counted instead, from the operator's identity.
fn keeps(f: &Value, y: &Value) -> bool {
    let is_one_of = |names: &[&str]| names.iter().any(|name| prims::is_glyph(f, name));
    let is_number = matches!(y.type_number().abs(), proto::types::SHORT..=proto::types::FLOAT);
    is_one_of(&["^"])
        || is_one_of(&["+", "*", "|", "&"]) && (is_number || matches!(y, Value::Table(_) | Value::Dict(_)))
}

/// Whether an application that the owner has written acts with the owner's rights: its name or number is in the text, not a value that a
/// client could have passed, and the primitive calls no function.
fn is_owners_operation(index: u16, arguments: &[Option<Node>]) -> bool {
    let Some(Some(Node { kind: Kind::Const(first), .. })) = arguments.first() else { return false };
    match (prims::get(index).map_or("", |p| p.name), first) {
        // `` `.cfg upsert x `` assigns the names that are the keys of x, which may be a client's.
        ("insert" | "upsert", Value::Sym(name)) => !text(*name).starts_with(b":") && !is_space(text(*name)),
        ("set", Value::Sym(name)) => !text(*name).starts_with(b":"),
        ("!", Value::Long(-30)) => true,
        _ => false,
    }
}

/// Whether a name is `.`, or that of a namespace: `.cfg`.
fn is_space(name: &[u8]) -> bool {
    name.strip_prefix(b".").is_some_and(|rest| !rest.contains(&b'.'))
}

/// Builds a table from columns; atoms are repeated.
fn columns_of(context: &Context, fields: Vec<(Sym, Value)>, rows: usize) -> Result<Value, QError> {
    let mut names: Vec<Sym> = Vec::with_capacity(fields.len());
    let mut columns: Vec<Vector> = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        let column = match value {
            scalar if scalar.is_scalar() => {
                context.reserve_items(rows, 8)?;
                match Items::collapse(vec![scalar; rows]) {
                    Ok(items) => items.into(),
                    Err(items) => Items::List(items.into()).into(),
                }
            }
            list => list.into_vector().ok_or(QError::named("type"))?,
        };
        if column.len() != rows {
            return Err(QError::named("length"));
        }
        names.push(name);
        columns.push(column);
    }
    Ok(Value::table(Table::new(names, columns)))
}

/// Records where a lambda is defined: `name:{…}`.
fn define(context: &Context, assign: &Assign) {
    if let (Kind::Const(Value::Func(f)), Kind::Global(name)) = (&assign.value.kind, &assign.target.kind)
        && let Function::Lambda(lambda) = &**f
    {
        lambda::define(lambda, *name, context.host.loading_from());
    }
}
