//! Name resolution: parameters and locals become slots, other names globals by their full names.

use crate::runtime::author;
use crate::runtime::error::QError;
use crate::runtime::values::symbol;
use crate::syntax::ast::{Code, Kind, Node};
use crate::syntax::{prims, words};
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use std::collections::HashSet;

/// Maximum number of locals of a function; name lookup is a linear search among them. kdb+ allows 110.
const MAX_LOCALS: usize = 1024;

struct Scope {
    locals: Vec<Sym>,
    namespace: Sym,
    in_query: u32,
}

/// Resolves a lambda's body. Undeclared parameters are `x`, and `y` and `z` up to the last one used.
pub(crate) fn lambda(parameters: Option<Vec<Sym>>, body: &mut [Node], namespace: Sym) -> Result<Code, QError> {
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
    // Names assigned with `::` before any assignment made them local.
    let mut as_globals: HashSet<Sym> = HashSet::new();
    let mut confused = None;
    for node in body.iter() {
        crate::runtime::limits::pace()?;
        walk(node, &mut |n| {
            if locals.len() > MAX_LOCALS {
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
                Kind::Assign(assign) if assign.pattern => targets(&assign.target, &mut add),
                Kind::Assign(assign) if !assign.global && assign.through.is_none() && assign.indices.is_empty() => {
                    if let Kind::Name(name) = assign.target.kind {
                        add(name);
                    }
                }
                Kind::Match(parts) => {
                    for part in parts.iter().skip(1).step_by(2).take((parts.len() - 1) / 2) {
                        targets(part, &mut add);
                    }
                }
                _ => {}
            }
        });
    }
    if let Some((name, at)) = confused {
        return Err(QError::signal(text(name)).place(at));
    }
    if locals.len() > MAX_LOCALS {
        return Err(QError::with("locals", format!("a function may have at most {MAX_LOCALS} locals")));
    }
    let mut scope = Scope { locals, namespace, in_query: 0 };
    for node in body.iter_mut() {
        scope.resolve(node)?;
    }
    Ok(Code { parameters, locals: scope.locals, start: 0, is_owners: author::is_owner(), body: body.to_vec() })
}

/// Resolves a text: every name is a global except `locals`.
pub(crate) fn program(body: &mut [Node], namespace: Sym, locals: Vec<Sym>) -> Result<Code, QError> {
    let mut scope = Scope { locals, namespace, in_query: 0 };
    for node in body.iter_mut() {
        scope.resolve(node)?;
    }
    Ok(Code {
        parameters: Vec::new(),
        locals: scope.locals,
        start: 0,
        is_owners: author::is_owner(),
        body: body.to_vec(),
    })
}

/// The children of a node, for read-only walks.
pub(crate) fn children(node: &Node) -> Vec<&Node> {
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
            let rest = q.limit.as_ref().into_iter().chain(q.order_node()).chain(std::iter::once(&q.from));
            named.chain(&q.filters).chain(rest).collect()
        }
    }
}

/// Calls `look` for a node and all nodes below it.
pub(crate) fn walk(node: &Node, look: &mut impl FnMut(&Node)) {
    look(node);
    for child in children(node) {
        walk(child, look);
    }
}

/// The variable among q's own words, which every namespace sees and text cannot assign.
pub(super) const WORD: &[u8] = b"csv";

/// The namespace of the module to which a namespace belongs: `.m.a.0b` of `.m.a.0b.c`. Its last part alone begins with a zero.
pub(crate) fn module_of(space: &[u8]) -> Option<&[u8]> {
    let mut end = b".m".len();
    for part in space.strip_prefix(b".m.")?.split(|c| *c == b'.') {
        end += 1 + part.len();
        if part.first() == Some(&b'0') {
            return space.get(..end);
        }
    }
    None
}

/// The full name of a member of the module in evaluation, which outside modules is the root: `.f` of `.z.m.f`, or the module itself.
fn of_module(member: &[u8], namespace: Sym) -> Result<Sym, QError> {
    match (module_of(text(namespace)), member) {
        (Some(module), _) => symbol(&[module, member].concat()),
        (None, [b'.', rest @ ..]) if !rest.is_empty() => symbol(rest),
        (None, _) => symbol(b"."),
    }
}

/// A global's full name as seen from `namespace`.
pub fn qualify(name: Sym, namespace: Sym) -> Result<Sym, QError> {
    let plain = text(name);
    if let Some(member) = plain.strip_prefix(b".z.m").filter(|member| matches!(member.first(), None | Some(b'.'))) {
        return of_module(member, namespace);
    }
    if namespace == Sym::NULL || plain.first() == Some(&b'.') || plain == WORD {
        return Ok(name);
    }
    symbol(&[text(namespace), b".", plain].concat())
}

impl Scope {
    /// What a name stands for.
    fn named(&self, name: Sym, at: u32) -> Result<Kind, QError> {
        // `.z.M.f` is the full name of `.z.m.f`.
        let member = text(name).strip_prefix(b".z.M").filter(|m| matches!(m.first(), None | Some(b'.')));
        if let Some(member) = member {
            return Ok(Kind::Const(Value::Sym(of_module(member, self.namespace)?)));
        }
        let slot = self.locals.iter().position(|l| *l == name).and_then(|s| u16::try_from(s).ok());
        let outside = match slot {
            Some(slot) => Kind::Local(slot),
            None => match words::found(name) {
                Some((_, Some(bound))) => Kind::Const(bound),
                Some((full, None)) => Kind::Global(full),
                None => Kind::Global(qualify(name, self.namespace)?),
            },
        };
        match self.in_query {
            0 => Ok(outside),
            _ => Ok(Kind::Column(name, Box::new(Node { at, height: 1, kind: outside }))),
        }
    }

    fn resolve(&mut self, node: &mut Node) -> Result<(), QError> {
        crate::runtime::limits::pace()?;
        match &mut node.kind {
            Kind::Name(name) => {
                node.kind = self.named(*name, node.at)?;
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
                match assign.target.kind {
                    // No word of `.q`, even where it has the same name.
                    Kind::Name(name) if !self.locals.contains(&name) => {
                        assign.target.kind = Kind::Global(qualify(name, self.namespace)?);
                    }
                    _ => self.resolve(&mut assign.target)?,
                }
                self.in_query = in_query;
                if assign.global
                    && let Kind::Local(_) = assign.target.kind
                {
                    assign.global = false;
                }
                assign.indices.iter_mut().flatten().try_for_each(|i| self.resolve(i))?;
                self.resolve(&mut assign.value)
            }
            // Like kdb+, views and what they read are in the root, whatever the namespace of the text.
            Kind::View(..) => Ok(()),
            // In a template `$` with three arguments is the binary operator: `'rank`.
            Kind::Cond(parts) if self.in_query > 0 => {
                let at = node.at as usize;
                let parts = std::mem::take(parts).into_iter().map(Some).collect();
                let dollar = Node::new(at, Kind::Const(crate::syntax::prims::glyph("$")));
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
                query.limit.iter_mut().try_for_each(|n| self.resolve(n))?;
                self.in_query += 1;
                let named = query.columns.iter_mut().chain(query.by.iter_mut().flatten()).map(|(_, n)| n);
                let rest = query.filters.iter_mut().chain(query.order.as_mut().map(|(_, n)| n));
                let result = named.chain(rest).try_for_each(|n| self.resolve(n));
                self.in_query -= 1;
                result
            }
        }
    }
}

/// Operators that name a column after their right operand: what stands before them says how to change it, as in `0^size`,
/// `6h$bid` and `flags!bits code`.
const NAMED_BY_RIGHT: [&str; 5] = ["^", "$", "!", "_", "#"];

/// Default name of a column: that of an operator's left operand (of the right one of some operators, and if the left is a symbol
/// or a character), or of a function's last argument, also where an operator has three or four, as `?[c;x;y]`.
pub(crate) fn column_name(node: &Node) -> Option<Sym> {
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
            Kind::Assign(assign) => &assign.target,
            Kind::Apply(f, arguments) => {
                let operator = match &f.kind {
                    Kind::Const(f) => {
                        prims::is_operator(f) && !NAMED_BY_RIGHT.iter().any(|glyph| prims::is_glyph(f, glyph))
                    }
                    _ => false,
                };
                match (operator, &arguments[..]) {
                    (true, [Some(Node { kind: Kind::Const(Value::Sym(_) | Value::Char(_)), .. }), Some(right)]) => {
                        right
                    }
                    (true, [Some(left), Some(_)]) => left,
                    _ => arguments.last()?.as_ref()?,
                }
            }
            _ => return None,
        };
    }
}

/// The names that a pattern assigns.
pub(crate) fn targets(node: &Node, add: &mut impl FnMut(Sym)) {
    // A `dyn` closure: a generic one would instantiate a new type at each level of recursion.
    fn visit(node: &Node, add: &mut dyn FnMut(Sym)) {
        match &node.kind {
            Kind::Name(name) => add(*name),
            Kind::List(items) => items.iter().for_each(|n| visit(n, add)),
            Kind::Assign(a) => visit(&a.target, add),
            Kind::Table { keys, columns, .. } => keys.iter().chain(columns).for_each(|(_, n)| visit(n, add)),
            Kind::Apply(f, arguments) if matches!(f.kind, Kind::Const(_)) => {
                arguments.iter().flatten().for_each(|n| visit(n, add));
            }
            Kind::Seq(body) => body.iter().for_each(|n| visit(n, add)),
            _ => {}
        }
    }
    visit(node, add);
}

/// As [`walk`], but skips the phrases of templates, where names are columns first; of a template only `from` is visited.
pub(super) fn walk_outside(node: &Node, look: &mut impl FnMut(&Node)) {
    look(node);
    match &node.kind {
        Kind::Query(query) => {
            walk_outside(&query.from, look);
            query.limit.iter().for_each(|n| walk_outside(n, look));
        }
        _ => children(node).into_iter().for_each(|child| walk_outside(child, look)),
    }
}
