//! Walks the syntax. Arguments are evaluated from the last to the first, as q does.

use super::amend::{self, Amend};
use super::apply::project;
use super::arith;
use super::ast::{Assign, Code, Kind, Node};
use super::cast;
use super::context::Context;
use super::error::QError;
use super::limits::made;
use super::machine;
use super::prims;
use super::query;
use super::system;
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Items, Sym, Table, Value, Vector};
use std::sync::Arc;

/// Why a walk ended early.
pub(super) enum Flow {
    Error(QError),
    /// `:x` in a lambda.
    Return(Value),
}

impl From<QError> for Flow {
    fn from(error: QError) -> Flow {
        Flow::Error(error)
    }
}

/// The locals of a running lambda.
pub(super) struct Frame {
    pub locals: Vec<Option<Value>>,
}

type Walk = Result<Value, Flow>;

/// An error on its way out of a node whose place in the text this is.
fn placed(flow: Flow, at: u32) -> Flow {
    match flow {
        Flow::Error(error) => Flow::Error(error.place(at)),
        returned => returned,
    }
}

impl Context<'_> {
    /// Runs code with its parameters given.
    pub(super) fn run(&mut self, code: &Code, arguments: Vec<Value>) -> Result<Value, QError> {
        self.enter()?;
        let mut locals: Vec<Option<Value>> = arguments.into_iter().map(Some).collect();
        locals.resize(code.locals.len(), None);
        let mut frame = Frame { locals };
        // A lambda's names mean nothing of the query that calls it.
        let scopes = std::mem::take(&mut self.scopes);
        let result = self.statements(&code.body, &mut frame);
        self.scopes = scopes;
        match result {
            Ok(value) | Err(Flow::Return(value)) => Ok(value),
            Err(Flow::Error(error)) if self.host.debugs() => {
                let known = |(name, value): (&Sym, Option<Value>)| Some((*name, value?));
                Err(error.keep(code.locals.iter().zip(frame.locals).filter_map(known).collect()))
            }
            Err(Flow::Error(error)) => Err(error),
        }
    }

    fn statements(&mut self, body: &[Node], frame: &mut Frame) -> Walk {
        let Some((last, before)) = body.split_last() else { return Ok(Value::Null) };
        for node in before {
            // Its value is gone before the next statement: `l,:1` leaves nobody else holding the list.
            self.eval(node, frame)?;
        }
        self.eval(last, frame)
    }

    pub(super) fn eval(&mut self, node: &Node, frame: &mut Frame) -> Walk {
        match &node.kind {
            Kind::Const(value) => Ok(value.clone()),
            Kind::Local(slot) => {
                Ok(frame.locals.get(usize::from(*slot)).and_then(Clone::clone).unwrap_or_else(Value::empty))
            }
            Kind::Global(name) | Kind::Name(name) => Ok(self.global(*name).map_err(|e| e.place(node.at))?),
            Kind::Column(name, outer) => match query::column(&mut self.scopes, *name) {
                Some(column) => Ok(column),
                None => match self.dotted(*name, |c, stem| query::column(&mut c.scopes, stem))? {
                    Some(part) => Ok(part),
                    None => self.eval(outer, frame),
                },
            },
            Kind::Apply(f, arguments) => self.application(f, arguments, frame).map_err(|flow| placed(flow, f.at)),
            Kind::Derive(..) | Kind::Compose(..) | Kind::List(_) | Kind::Table { .. } | Kind::Query(_) => {
                self.enter()?;
                Ok(made(self.making(node, frame)?)?)
            }
            Kind::Assign(assign) => self.assign(assign, frame).map_err(|flow| placed(flow, node.at)),
            Kind::Cond(parts) => self.cond(parts, frame),
            Kind::Match(parts) => self.match_parts(parts, frame),
            _ => {
                self.enter()?;
                self.controlling(node, frame)
            }
        }
    }

    /// Nodes that make something of several: apart from the others, so that what they need takes no room on the stack of those.
    fn making(&mut self, node: &Node, frame: &mut Frame) -> Walk {
        match &node.kind {
            Kind::Derive(iterator, f) => {
                let function = self.eval(f, frame)?;
                Ok(Value::func(Function::Derived { iterator: *iterator, function }))
            }
            Kind::Compose(f, g) => {
                let g = self.eval(g, frame)?;
                let f = self.eval(f, frame)?;
                Ok(Value::func(Function::Composition(vec![f, g])))
            }
            Kind::List(nodes) => {
                let mut items = Vec::with_capacity(nodes.len());
                for node in nodes.iter().rev() {
                    items.push(self.eval(node, frame)?);
                }
                items.reverse();
                Ok(Value::collapse(items))
            }
            Kind::Table { keys, columns, keyed_only } => self.table_literal(keys, columns, *keyed_only, frame),
            Kind::Query(template) => query::template(self, template, frame).map_err(|flow| placed(flow, node.at)),
            _ => Ok(Value::Null),
        }
    }

    /// Nodes that say what is evaluated next.
    fn controlling(&mut self, node: &Node, frame: &mut Frame) -> Walk {
        match &node.kind {
            Kind::If(parts) => {
                if let Some((test, body)) = parts.split_first()
                    && truth(&self.eval(test, frame)?)?
                {
                    self.statements(body, frame)?;
                }
                Ok(Value::Null)
            }
            Kind::While(parts) => {
                if let Some((test, body)) = parts.split_first() {
                    while truth(&self.eval(test, frame)?)? {
                        self.tick()?;
                        self.statements(body, frame)?;
                    }
                }
                Ok(Value::Null)
            }
            Kind::Do(parts) => {
                if let Some((times, body)) = parts.split_first() {
                    let times = self.eval(times, frame)?.as_long().ok_or(QError::named("type"))?;
                    for _ in 0..times {
                        self.tick()?;
                        self.statements(body, frame)?;
                    }
                }
                Ok(Value::Null)
            }
            Kind::Seq(body) => self.statements(body, frame),
            Kind::Return(value) => Err(Flow::Return(self.eval(value, frame)?)),
            Kind::Signal(value) => {
                let signal = self.eval(value, frame)?;
                let name = match &signal {
                    Value::Sym(s) => text(*s).to_vec(),
                    Value::Char(_) => return Err(QError::named("stype").place(node.at).into()),
                    other => other.as_text().ok_or(QError::named("stype"))?.to_vec(),
                };
                Err(QError::signal(name).place(node.at).into())
            }
            Kind::View(name, source) => {
                let view = super::views::view(Arc::clone(source), self.host.namespace())?;
                self.set_global(*name, view)?;
                Ok(Value::Null)
            }
            _ => Ok(Value::Null),
        }
    }

    /// The value of a global, of q's own names first.
    pub(super) fn global(&mut self, name: Sym) -> Result<Value, QError> {
        let written = text(name);
        if written.first() == Some(&b'.')
            && let Some(own) = system::variable(self, written)
        {
            return Ok(own);
        }
        if let Some(value) = self.host.global(name) {
            return match &value {
                Value::Func(f) => match &**f {
                    Function::View(lambda) => self.view_value(lambda),
                    _ => Ok(value),
                },
                _ => Ok(value),
            };
        }
        if self.host.native(name).is_some() {
            return Ok(Value::func(Function::Native(name)));
        }
        if let Some(own) = prims::keyword(written.strip_prefix(b".q.").unwrap_or(written)) {
            self.host.names_word();
            return Ok(own);
        }
        if let Some(own) = super::prelude::value(self, name)? {
            return Ok(own);
        }
        if let Some(space) = self.namespace(name) {
            return Ok(space);
        }
        let part = self.dotted(name, |c, stem| c.host.global(stem))?;
        part.ok_or_else(|| QError::signal(written))
    }

    /// `time.minute`: a part of what the stem of a name is.
    fn dotted(
        &mut self,
        name: Sym,
        value_of: impl Fn(&mut Self, Sym) -> Option<Value>,
    ) -> Result<Option<Value>, QError> {
        let written = text(name);
        let Some(dot) = written.iter().rposition(|c| *c == b'.').filter(|dot| *dot > 0) else { return Ok(None) };
        let (stem, part) = written.split_at(dot);
        // A stem that nobody has named yet may still be a column and a part of it.
        let value = match columns::table::symbol::find(stem).and_then(|stem| value_of(self, stem)) {
            Some(value) => value,
            // `a.b.c`: from the first part on.
            None => {
                let Some(dot) = stem.iter().position(|c| *c == b'.').filter(|dot| *dot > 0) else { return Ok(None) };
                let first = stem.get(..dot).and_then(columns::table::symbol::find);
                let Some(mut value) = first.and_then(|f| value_of(self, f)) else { return Ok(None) };
                for part in stem.get(dot + 1..).unwrap_or_default().split(|c| *c == b'.') {
                    let column = columns::table::symbol::find(part);
                    value = match column.and_then(|c| super::enums::follow(self, &value, c)) {
                        Some(held) => held?,
                        None => return Ok(None),
                    };
                }
                value
            }
        };
        let column = columns::table::symbol::find(part.get(1..).unwrap_or_default());
        match &value {
            Value::Table(t) => Ok(column.and_then(|column| t.column(column).cloned().map(Value::from))),
            Value::Dict(d) if matches!(d.keys, Value::Vector(_)) => match column {
                Some(column) => Ok(super::find::position(&d.keys, &Value::Sym(column))?.map(|at| d.values.at(at))),
                None => Ok(None),
            },
            key if key.is_enumerated() => match column.and_then(|c| super::enums::follow(self, key, c)) {
                Some(held) => held.map(Some),
                None => Ok(None),
            },
            _ => cast::part_of(self, part.get(1..).unwrap_or_default(), &value).transpose(),
        }
    }

    fn application(&mut self, f: &Node, arguments: &[Option<Node>], frame: &mut Frame) -> Walk {
        self.enter()?;
        match arguments {
            [Some(x), Some(y)] => {
                let y = self.eval(y, frame)?;
                let x = self.eval(x, frame)?;
                if let Kind::Const(Value::Func(function)) = &f.kind
                    && let Function::Primitive(index) = &**function
                {
                    if let Some(result) = arith::scalars(*index, &x, &y) {
                        return Ok(result);
                    }
                    self.at = f.at;
                    if self.debugs {
                        let given = [x.clone(), y.clone()];
                        return Ok(prims::run2(self, *index, x, y).map_err(|e| e.failed(*index, &given))?);
                    }
                    return Ok(prims::run2(self, *index, x, y)?);
                }
                let called = self.callee(f, frame)?;
                Ok(self.apply(&called, vec![x, y])?)
            }
            [Some(x)] => {
                let x = self.eval(x, frame)?;
                if let Kind::Const(Value::Func(function)) = &f.kind
                    && let Function::Primitive(index) = &**function
                {
                    self.at = f.at;
                    if self.debugs {
                        let given = [x.clone()];
                        return Ok(prims::run1(self, *index, x).map_err(|e| e.failed(*index, &given))?);
                    }
                    return Ok(prims::run1(self, *index, x)?);
                }
                let called = self.callee(f, frame)?;
                Ok(self.apply(&called, vec![x])?)
            }
            _ => {
                let mut given = Vec::with_capacity(arguments.len());
                for argument in arguments.iter().rev() {
                    given.push(match argument {
                        Some(node) => Some(self.eval(node, frame)?),
                        None => None,
                    });
                }
                given.reverse();
                let called = self.callee(f, frame)?;
                Ok(self.apply_holes(&called, given)?)
            }
        }
    }

    /// The function of an application; the name of a global is kept for traces.
    fn callee(&mut self, f: &Node, frame: &mut Frame) -> Walk {
        let value = self.eval(f, frame)?;
        self.at = f.at;
        self.callee = match f.kind {
            Kind::Global(name) => name,
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
                [otherwise] => return self.eval(otherwise, frame),
                [test, then, more @ ..] => {
                    if truth(&self.eval(test, frame)?)? {
                        return self.eval(then, frame);
                    }
                    rest = more;
                }
            }
        }
    }

    fn assign(&mut self, assign: &Assign, frame: &mut Frame) -> Walk {
        self.enter()?;
        let value = self.eval(&assign.value, frame)?;
        if assign.pattern {
            return self.bind(&assign.target, value, frame);
        }
        if assign.through.is_none() && assign.indices.is_empty() {
            self.store(&assign.target, value.clone(), frame)?;
            return Ok(value);
        }
        // `x+:1` of atoms, as loops have it.
        if assign.indices.is_empty()
            && let Some(index) = assign.through.as_ref().and_then(prims::index_of)
            && let Kind::Local(slot) = assign.target.kind
            && let Some(Some(old)) = frame.locals.get_mut(usize::from(slot))
            && let Some(new) = arith::scalars(index, old, &value)
        {
            *old = new.clone();
            return Ok(new);
        }
        let mut path = Vec::with_capacity(assign.indices.len());
        for index in assign.indices.iter().rev() {
            path.push(match index {
                Some(node) => self.eval(node, frame)?,
                None => Value::Null,
            });
        }
        path.reverse();
        if let Some(result) = self.in_place(assign, &path, &value, frame) {
            return Ok(result);
        }
        let old = match self.take(&assign.target, frame) {
            Ok(old) => old,
            // What has no value yet starts from the operator's own nothing.
            Err(undefined) => {
                let start = assign.through.as_ref().filter(|_| path.is_empty()).and_then(prims::identity);
                start.filter(|_| matches!(assign.target.kind, Kind::Global(_))).ok_or(undefined)?
            }
        };
        let change = Amend { function: assign.through.as_ref(), value: Some(&value) };
        let appends = path.is_empty() && assign.through.as_ref().is_some_and(|f| prims::is_glyph(f, ","));
        let new = if appends {
            super::append::append_to(self, old, value.clone())?
        } else {
            amend::deep(self, old, &path, &change)?
        };
        let new = made(new)?;
        self.store(&assign.target, new.clone(), frame)?;
        Ok(if path.is_empty() { new } else { value })
    }

    /// `x[i]:v`, `x[i]op:v` and `x,:v` of a simple vector that nobody else holds, and atoms: the result, if that is what it
    /// is and it is done.
    fn in_place(&mut self, assign: &Assign, path: &[Value], value: &Value, frame: &mut Frame) -> Option<Value> {
        let atom = machine::atom(value)?;
        let through = assign.through.as_ref();
        let appends = through.is_some_and(|f| prims::is_glyph(f, ","));
        let op = through.and_then(prims::index_of).and_then(prims::atomic_op);
        let index = match path {
            [] if appends => None,
            [index] if through.is_none() || op.is_some() => Some(machine::atom(index)?),
            _ => return None,
        };
        let change = |x: &mut Value| {
            let change = match index {
                Some(index) => machine::put(x, index, atom, op),
                None => machine::push(x, atom),
            };
            (change == machine::Change::Done).then(|| if appends { x.clone() } else { value.clone() })
        };
        match assign.target.kind {
            Kind::Local(slot) => change(frame.locals.get_mut(usize::from(slot))?.as_mut()?),
            Kind::Global(name) if !super::enums::is_domain(name) => {
                let mut result = None;
                self.host.edit(name, &mut |x| result = change(x));
                result
            }
            _ => None,
        }
    }

    /// The old value of what is assigned to; a local's is moved out, so that it can be changed in place.
    fn take(&mut self, target: &Node, frame: &mut Frame) -> Walk {
        match &target.kind {
            Kind::Local(slot) => {
                let local = frame.locals.get_mut(usize::from(*slot)).and_then(Option::take);
                Ok(local.unwrap_or_else(Value::empty))
            }
            _ => self.eval(target, frame),
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
            Kind::Global(name) => Ok(self.set_global(*name, value)?),
            _ => Err(QError::named("assign").into()),
        }
    }

    pub(super) fn set_global(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        let written = text(name);
        if prims::keyword(written).is_some() {
            return Err(QError::named("assign"));
        }
        if matches!(written, b".z.w" | b".z.u" | b".z.a" | b".z.p" | b".z.P") {
            return Err(QError::named("assign"));
        }
        if let (b'.', Value::Dict(members)) = (written.first().copied().unwrap_or(0), &value)
            && (written == b"." || self.host.global(name).is_none())
            && let Some(Value::Dict(old)) = self.namespace(name)
        {
            return self.set_members(name, &old, members);
        }
        if !super::enums::is_domain(name) {
            return self.host.assign(name, value);
        }
        let old = self.host.global(name);
        self.host.assign(name, value.clone())?;
        match old {
            Some(old) => super::enums::domain_changed(self, name, &old, &value),
            None => Ok(()),
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
                held.push(if is_hole(node) { None } else { Some(self.eval(node, frame)?) });
            }
            held.reverse();
            let with_names = project(prims::glyph("!"), vec![Some(Value::symbols(names)), None]);
            let parts = vec![with_names, project(prims::glyph("enlist"), held)];
            return Ok(Value::func(Function::Composition(parts)));
        }
        let mut fields = Vec::with_capacity(keys.len() + columns.len());
        for ((_, node), name) in keys.iter().chain(columns).rev().zip(names.iter().rev()) {
            fields.push((*name, self.eval(node, frame)?));
        }
        fields.reverse();
        if keyed_only {
            return Ok(Value::dict(
                Value::symbols(names),
                Value::collapse(fields.into_iter().map(|(_, v)| v).collect()),
            ));
        }
        let values = fields.split_off(keys.len());
        let rows = fields.iter().chain(&values).find(|(_, v)| !v.is_scalar()).map(|(_, v)| v.count());
        let rows = rows.ok_or(QError::with("rank", "a table needs a list among its columns"))?;
        let values = columns_of(self, values, rows)?;
        if fields.is_empty() {
            return Ok(values);
        }
        let keys = columns_of(self, fields, rows)?;
        Ok(Value::dict(keys, values))
    }
}

/// Names in order, those that come again with a number behind them.
pub(super) fn unique_names(given: impl Iterator<Item = Sym>) -> Result<Vec<Sym>, QError> {
    let mut out: Vec<Sym> = Vec::new();
    for name in given {
        let mut unique = name;
        let mut number = 0;
        while super::limits::place(&out, unique)?.is_some() {
            super::limits::step()?;
            number += 1;
            unique = super::parse::symbol(&[text(name), number.to_string().as_bytes()].concat())?;
        }
        out.push(unique);
    }
    Ok(out)
}

/// A table of these columns; atoms are repeated.
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

/// Whether a condition holds: an integer atom that is not zero.
pub(super) fn truth(value: &Value) -> Result<bool, QError> {
    match value {
        Value::Bool(b) => Ok(*b),
        Value::Float(f) => Ok(*f != 0.0),
        Value::Real(f) => Ok(*f != 0.0),
        other => other.as_long().map(|l| l != 0).ok_or(QError::named("type")),
    }
}
