//! Names to places: parameters and locals to slots, the rest to globals by their full names.

use super::ast::{Code, Kind, Node};
use super::error::QError;
use super::parse::symbol;
use super::pattern;
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use std::collections::HashSet;

/// Locals of a function. A name is looked for among all of them wherever it stands; kdb+ takes 110.
const LOCALS_MOST: usize = 1024;

struct Scope {
    locals: Vec<Sym>,
    namespace: Sym,
    in_query: u32,
}

/// A lambda's code. Without declared parameters they are `x`, `y` and `z` as far as they are used.
pub(super) fn lambda(parameters: Option<Vec<Sym>>, body: &mut [Node], namespace: Sym) -> Result<Code, QError> {
    let parameters = match parameters {
        Some(names) => names,
        None => {
            let implicit = [symbol(b"x")?, symbol(b"y")?, symbol(b"z")?];
            let mut used = 1;
            for node in body.iter() {
                walk_outside(node, &mut |n| {
                    if let Kind::Name(name) = n.kind {
                        used = used.max(implicit.iter().position(|i| *i == name).map_or(0, |p| p + 1));
                    }
                });
            }
            implicit.into_iter().take(used).collect()
        }
    };
    if parameters.len() > 8 {
        return Err(QError::with("params", "more than 8 parameters"));
    }
    let mut locals = parameters.clone();
    // Names that were assigned as globals before any assignment made them locals.
    let mut as_globals: HashSet<Sym> = HashSet::new();
    let mut confused = None;
    for node in body.iter() {
        super::limits::pace()?;
        walk(node, &mut |n| {
            if locals.len() > LOCALS_MOST {
                return;
            }
            if let Kind::Assign(assign) = &n.kind
                && assign.global
                && let Kind::Name(name) = assign.target.kind
                && !locals.contains(&name)
            {
                as_globals.insert(name);
            }
            let at = if let Kind::Assign(assign) = &n.kind { assign.target.at } else { n.at };
            let mut add = |name: Sym| {
                if as_globals.contains(&name) && !locals.contains(&name) {
                    confused.get_or_insert((name, at));
                }
                if !locals.contains(&name) && !text(name).contains(&b'.') {
                    locals.push(name);
                }
            };
            match &n.kind {
                Kind::Assign(assign) if assign.pattern => pattern::targets(&assign.target, &mut add),
                Kind::Assign(assign) if !assign.global && assign.through.is_none() && assign.indices.is_empty() => {
                    if let Kind::Name(name) = assign.target.kind {
                        add(name);
                    }
                }
                Kind::Match(parts) => {
                    for part in parts.iter().skip(1).step_by(2).take((parts.len() - 1) / 2) {
                        pattern::targets(part, &mut add);
                    }
                }
                _ => {}
            }
        });
    }
    if let Some((name, at)) = confused {
        return Err(QError::signal(text(name)).place(at));
    }
    if locals.len() > LOCALS_MOST {
        return Err(QError::with("locals", format!("a function may have {LOCALS_MOST} locals")));
    }
    let mut scope = Scope { locals, namespace, in_query: 0 };
    for node in body.iter_mut() {
        scope.resolve(node)?;
    }
    Ok(Code { parameters, locals: scope.locals, start: 0, body: body.to_vec() })
}

/// A text's code: every name is a global, but for those of `locals`.
pub(super) fn program(body: &mut [Node], namespace: Sym, locals: Vec<Sym>) -> Result<Code, QError> {
    let mut scope = Scope { locals, namespace, in_query: 0 };
    for node in body.iter_mut() {
        scope.resolve(node)?;
    }
    Ok(Code { parameters: Vec::new(), locals: scope.locals, start: 0, body: body.to_vec() })
}

/// The children of a node, for walks that only look.
pub(super) fn children(node: &Node) -> Vec<&Node> {
    match &node.kind {
        Kind::Const(_) | Kind::Name(_) | Kind::Local(_) | Kind::Global(_) | Kind::View(..) => Vec::new(),
        Kind::Column(_, outer) => vec![outer],
        Kind::Derive(_, n) | Kind::Return(n) | Kind::Signal(n) => vec![n],
        Kind::Compose(f, g) => vec![f, g],
        Kind::Apply(f, arguments) => std::iter::once(&**f).chain(arguments.iter().flatten()).collect(),
        Kind::Assign(a) => {
            let mut all: Vec<&Node> = vec![&a.value, &a.target];
            all.extend(a.indices.iter().flatten());
            all
        }
        Kind::List(n) | Kind::Cond(n) | Kind::If(n) | Kind::While(n) | Kind::Do(n) | Kind::Seq(n) | Kind::Match(n) => {
            n.iter().collect()
        }
        Kind::Table { keys, columns, .. } => keys.iter().chain(columns).map(|(_, n)| n).collect(),
        Kind::Query(q) => {
            let named = q.columns.iter().chain(q.by.iter().flatten()).map(|(_, n)| n);
            named.chain(&q.filters).chain(q.limit.as_ref()).chain(std::iter::once(&q.from)).collect()
        }
    }
}

pub(super) fn walk(node: &Node, look: &mut impl FnMut(&Node)) {
    look(node);
    for child in children(node) {
        walk(child, look);
    }
}

/// As [`walk`], but not into the phrases of templates, whose names are columns first: of those, only `from` is seen.
fn walk_outside(node: &Node, look: &mut impl FnMut(&Node)) {
    look(node);
    match &node.kind {
        Kind::Query(query) => {
            walk_outside(&query.from, look);
            query.limit.iter().for_each(|n| walk_outside(n, look));
        }
        _ => children(node).into_iter().for_each(|child| walk_outside(child, look)),
    }
}

/// A global's full name as seen from `namespace`.
pub fn qualify(name: Sym, namespace: Sym) -> Result<Sym, QError> {
    let plain = text(name);
    if namespace == Sym::NULL || plain.first() == Some(&b'.') {
        return Ok(name);
    }
    symbol(&[text(namespace), b".", plain].concat())
}

impl Scope {
    fn resolve(&mut self, node: &mut Node) -> Result<(), QError> {
        super::limits::pace()?;
        match &mut node.kind {
            Kind::Name(name) => {
                let name = *name;
                let slot = self.locals.iter().position(|l| *l == name).and_then(|s| u16::try_from(s).ok());
                let outside = match slot {
                    Some(slot) => Kind::Local(slot),
                    None => Kind::Global(qualify(name, self.namespace)?),
                };
                node.kind = if self.in_query > 0 {
                    Kind::Column(name, Box::new(Node { at: node.at, height: 1, kind: outside }))
                } else {
                    outside
                };
                Ok(())
            }
            Kind::Const(_) | Kind::Local(_) | Kind::Global(_) | Kind::Column(..) => Ok(()),
            Kind::Derive(_, n) | Kind::Return(n) | Kind::Signal(n) => self.resolve(n),
            Kind::Compose(f, g) => {
                self.resolve(f)?;
                self.resolve(g)
            }
            Kind::Apply(f, arguments) => {
                self.resolve(f)?;
                arguments.iter_mut().flatten().try_for_each(|a| self.resolve(a))
            }
            Kind::Assign(assign) => {
                let in_query = std::mem::take(&mut self.in_query);
                self.resolve(&mut assign.target)?;
                self.in_query = in_query;
                if assign.global
                    && let Kind::Local(_) = assign.target.kind
                {
                    assign.global = false;
                }
                assign.indices.iter_mut().flatten().try_for_each(|i| self.resolve(i))?;
                self.resolve(&mut assign.value)
            }
            Kind::View(name, _) => {
                *name = qualify(*name, self.namespace)?;
                Ok(())
            }
            // In a template `$` of three is the operator, which has two arguments: `'rank`.
            Kind::Cond(parts) if self.in_query > 0 => {
                let at = node.at as usize;
                let parts = std::mem::take(parts).into_iter().map(Some).collect();
                let dollar = Node::new(at, Kind::Const(super::prims::glyph("$")));
                node.kind = Kind::Apply(Box::new(dollar), parts);
                self.resolve(node)
            }
            Kind::List(n)
            | Kind::Cond(n)
            | Kind::If(n)
            | Kind::While(n)
            | Kind::Do(n)
            | Kind::Seq(n)
            | Kind::Match(n) => n.iter_mut().try_for_each(|n| self.resolve(n)),
            Kind::Table { keys, columns, .. } => {
                for (name, field) in keys.iter_mut().chain(columns) {
                    if name.is_none() {
                        *name = column_name(field);
                    }
                    self.resolve(field)?;
                }
                Ok(())
            }
            Kind::Query(query) => {
                self.resolve(&mut query.from)?;
                if let Some(limit) = &mut query.limit {
                    self.resolve(limit)?;
                }
                self.in_query += 1;
                let named = query.columns.iter_mut().chain(query.by.iter_mut().flatten()).map(|(_, n)| n);
                let result = named.chain(&mut query.filters).try_for_each(|n| self.resolve(n));
                self.in_query -= 1;
                result
            }
        }
    }
}

/// The name that a column without one gets: that of an operator's left operand (of its right one where the left is a
/// symbol, as in `` `p#sym ``), or of a function's last argument.
pub(super) fn column_name(node: &Node) -> Option<Sym> {
    let mut node = node;
    loop {
        node = match &node.kind {
            Kind::Name(name) | Kind::Column(name, _) => {
                let written = text(*name);
                let last = written
                    .iter()
                    .rposition(|c| *c == b'.')
                    .map_or(written, |dot| written.get(dot + 1..).unwrap_or_default());
                return symbol(last).ok().filter(|_| written != b"i");
            }
            Kind::Apply(f, arguments) => {
                let operator = matches!(&f.kind, Kind::Const(f) if super::prims::is_operator(f));
                match (operator, &arguments[..]) {
                    (true, [Some(Node { kind: Kind::Const(Value::Sym(_)), .. }), Some(right)]) => right,
                    (true, _) => arguments.first()?.as_ref()?,
                    _ => arguments.last()?.as_ref()?,
                }
            }
            _ => return None,
        };
    }
}

/// As [`globals`], without what stands in the phrases of templates.
pub(super) fn globals_outside(node: &Node, names: &mut Vec<Sym>) {
    walk_outside(node, &mut |n| match &n.kind {
        Kind::Global(name) if !names.contains(name) => names.push(*name),
        Kind::Const(Value::Func(f)) => {
            if let columns::table::Function::Lambda(l) = &**f
                && let Ok(inner) = super::lambda::code(l)
            {
                inner.body.iter().for_each(|node| globals_outside(node, names));
            }
        }
        _ => {}
    });
}

/// The globals that code refers to, also in the lambdas inside it.
pub fn globals(code: &Code, names: &mut Vec<Sym>) {
    for node in &code.body {
        walk(node, &mut |n| match &n.kind {
            Kind::Global(name) if !names.contains(name) => names.push(*name),
            Kind::Const(Value::Func(f)) => {
                if let columns::table::Function::Lambda(l) = &**f
                    && let Ok(inner) = super::lambda::code(l)
                {
                    globals(inner, names);
                }
            }
            _ => {}
        });
    }
}
