//! Parse trees: expressions as q values, for `parse`, `eval` and functional qSQL.

use crate::qsql;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Flow, Frame};
use crate::runtime::host::Made;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::runtime::{limits, locked};
use crate::syntax::ast::{Assign, Kind, Node, Query, Verb};
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::function;
use crate::verbs::tables::unique_names;
use columns::table::symbol::text;
use columns::table::{Items, Sym, Table, Value, Vector};
use std::sync::Arc;

/// Converts a parse tree to syntax: symbols are names, one-item lists are constants. A name stays [`Kind::Name`], because the
/// tree is data.
pub(crate) fn to_node(tree: &Value) -> std::result::Result<Node, QError> {
    limits::step()?;
    Ok(match tree {
        Value::Sym(name) => {
            let outside = Box::new(Node::new(0, Kind::Name(*name)));
            Node::new(0, Kind::Column(*name, outside))
        }
        Value::Vector(Vector { items: Items::Sym(names), .. }) if names.len() == 1 => Node::constant(tree.at(0)),
        // `` `f`x `` applies: as a list of a name and its arguments, it is a vector.
        Value::Vector(Vector { items: Items::Sym(names), .. }) if names.len() > 1 => {
            let all = names.iter().map(|name| to_node(&Value::Sym(*name)));
            let mut all = all.collect::<std::result::Result<Vec<Node>, QError>>()?.into_iter();
            let f = all.next().ok_or_else(type_error)?;
            Node::new(0, Kind::Apply(Box::new(f), all.map(Some).collect()))
        }
        Value::Vector(Vector { items: Items::List(l), .. }) => match &l[..] {
            [] => Node::constant(tree.clone()),
            [one] => Node::constant(one.clone()),
            [f, arguments @ ..] => {
                let word = match f {
                    Value::Sym(word) => text(*word),
                    Value::Char(b';') => b";",
                    _ => b"",
                };
                if let Some(node) = control(word, arguments)? {
                    return Ok(node);
                }
                if let [target, value] = arguments
                    && (prims::is_glyph(f, ":") || matches!(f, Value::Null))
                {
                    return assignment(target, value, matches!(f, Value::Null), None);
                }
                // `(+:;`a;1)`: the unary form of an operator, which takes one argument, marks an assignment through it.
                if let [target, value] = arguments
                    && let Some(through) = prims::binary_form(f)
                    && is_target(target)
                {
                    return assignment(target, value, false, Some(through));
                }
                if let ([reason], true) = (arguments, prims::is_glyph(f, "'"))
                    && is_text(reason)
                {
                    return Ok(Node::new(0, Kind::Signal(Box::new(to_node(reason)?))));
                }
                if prims::is_glyph(f, "$") && arguments.len() > 2 {
                    let parts = arguments.iter().filter(|part| !function::is_elided(part)).map(statement);
                    return Ok(Node::new(0, Kind::Cond(parts.collect::<std::result::Result<_, _>>()?)));
                }
                // An error in the arguments ends the conversion before the head, which may be as large.
                let arguments: Vec<Option<Node>> =
                    arguments.iter().map(to_argument).collect::<std::result::Result<_, QError>>()?;
                Node::new(0, Kind::Apply(Box::new(to_node(f)?), arguments))
            }
        },
        constant => Node::constant(constant.clone()),
    })
}

fn to_argument(tree: &Value) -> std::result::Result<Option<Node>, QError> {
    match tree {
        _ if function::is_elided(tree) => Ok(None),
        _ => to_node(tree).map(Some),
    }
}

/// Whether the argument of `'` is the text of an error rather than a function to iterate.
fn is_text(tree: &Value) -> bool {
    match tree {
        Value::Vector(Vector { items: Items::Char(_), .. }) => true,
        Value::Vector(Vector { items: Items::Sym(names), .. }) => names.len() == 1,
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            matches!(&l[..], [f, _, ..] if [",", "$", "string", "raze"].iter().any(|name| prims::name_of(f) == Some(name)))
        }
        _ => false,
    }
}

/// Converts a tree at a place where a return may stand, `(":";x)`: the whole tree, a branch of `$`, or a statement.
fn statement(tree: &Value) -> std::result::Result<Node, QError> {
    if let Value::Vector(Vector { items: Items::List(l), .. }) = tree
        && let [Value::Char(b':'), returned] = &l[..]
    {
        return Ok(Node::new(0, Kind::Return(Box::new(to_node(returned)?))));
    }
    to_node(tree)
}

/// Converts `if`, `while`, `do` and `;` at the head of a parse tree.
fn control(word: &[u8], arguments: &[Value]) -> std::result::Result<Option<Node>, QError> {
    let make: fn(Vec<Node>) -> Kind = match word {
        b"if" => Kind::If,
        b"while" => Kind::While,
        b"do" => Kind::Do,
        b";" => Kind::Seq,
        _ => return Ok(None),
    };
    let parts: std::result::Result<Vec<Node>, QError> = arguments.iter().map(statement).collect();
    Ok(Some(Node::new(0, make(parts?))))
}

/// Whether a tree is a name, or a name with indices.
fn is_target(tree: &Value) -> bool {
    match tree {
        Value::Sym(_) => true,
        Value::Vector(Vector { items: Items::Sym(names), .. }) => names.len() > 1,
        Value::Vector(Vector { items: Items::List(parts), .. }) => matches!(&parts[..], [Value::Sym(_), _, ..]),
        _ => false,
    }
}

/// Converts `(:;`name;tree)` and `(:;(`name;index);tree)`; with `through`, `(+:;`name;tree)`.
fn assignment(
    target: &Value,
    value: &Value,
    global: bool,
    through: Option<Value>,
) -> std::result::Result<Node, QError> {
    let (name, indices) = match target {
        Value::Sym(name) => (*name, Vec::new()),
        list => match (&list.at(0), list.count()) {
            (Value::Sym(name), 2..) => {
                let indices: std::result::Result<Vec<Option<Node>>, QError> =
                    list.items().iter().skip(1).map(to_argument).collect();
                (*name, indices?)
            }
            (f, 2..) if prims::is_glyph(f, "enlist") && through.is_none() => {
                let pattern = Assign {
                    target: to_pattern(target)?,
                    global: false,
                    indices: Vec::new(),
                    through: None,
                    value: to_node(value)?,
                    pattern: true,
                };
                return Ok(Node::new(0, Kind::Assign(Box::new(pattern))));
            }
            _ => return Err(QError::named("assign")),
        },
    };
    let assign = Assign {
        target: Node::new(0, Kind::Name(name)),
        global,
        indices,
        through,
        value: to_node(value)?,
        pattern: false,
    };
    Ok(Node::new(0, Kind::Assign(Box::new(assign))))
}

/// Converts the target of a pattern assignment, `(enlist;`a;`b)`: names are assigned, other trees compared.
fn to_pattern(tree: &Value) -> std::result::Result<Node, QError> {
    limits::step()?;
    Ok(match tree {
        Value::Sym(name) => Node::new(0, Kind::Name(*name)),
        Value::Vector(Vector { items: Items::List(l), .. }) => match &l[..] {
            [f, items @ ..] if prims::is_glyph(f, "enlist") => {
                let items: std::result::Result<Vec<Node>, QError> = items.iter().map(to_pattern).collect();
                Node::new(0, Kind::List(items?))
            }
            _ => to_node(tree)?,
        },
        other => to_node(other)?,
    })
}

/// `eval x`: evaluates a parse tree.
pub(crate) fn eval(context: &mut Context, x: Value) -> Result {
    context.host.makes_code(Made::Other)?;
    let node = statement(&x)?;
    run(context, |c, frame| c.node(&node, frame))
}

fn run(context: &mut Context, f: impl FnOnce(&mut Context, &mut Frame) -> std::result::Result<Value, Flow>) -> Result {
    let among = std::mem::take(&mut context.among);
    match f(context, &mut Frame { locals: Vec::new(), is_owners: false, among }) {
        Ok(value) | Err(Flow::Return(value)) => Ok(value),
        Err(Flow::Error(error)) => Err(error),
    }
}

fn nodes(x: &Value) -> std::result::Result<Vec<Node>, QError> {
    match x {
        Value::Vector(Vector { items: Items::List(l), .. }) => l.iter().map(to_node).collect(),
        Value::Vector(v) if v.is_empty() => Ok(Vec::new()),
        Value::Vector(_) => limits::items(x)?.iter().map(to_node).collect(),
        one => Ok(vec![to_node(one)?]),
    }
}

fn fields(x: &Value) -> std::result::Result<Vec<(Option<Sym>, Node)>, QError> {
    let Value::Dict(d) = x else { return Err(type_error()) };
    if d.keys.count() == 0 {
        // `()!()` has no symbols to name columns, and no columns.
        return Ok(Vec::new());
    }
    let names = d.keys.as_symbols().ok_or_else(type_error)?;
    let mut out = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        let item = d.values.at(i);
        out.push((Some(*name), to_node(&item)?));
    }
    Ok(out)
}

fn is_empty(x: &Value) -> bool {
    matches!(x, Value::Vector(v) if v.is_empty())
}

/// `?[t;c;b;a]` with up to six arguments: functional select and exec.
pub(crate) fn select(context: &mut Context, arguments: Vec<Value>) -> Result {
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next();
    let (Some(t), Some(c), Some(b), Some(a)) = (next(), next(), next(), next()) else {
        return Err(QError::named("rank"));
    };
    let limit = next().map(Node::constant);
    let order = next().map(|o| match (o.count(), o.at(0)) {
        (1, pair) if !pair.is_scalar() => pair,
        _ => o,
    });
    let order = match order {
        Some(o) if o.count() > 1 => Some((prims::is_glyph(&o.at(0), ">:"), to_node(&o.at(1))?)),
        _ => None,
    };
    let mut distinct = false;
    let mut verb = Verb::Select;
    let by = match &b {
        Value::Bool(true) => {
            distinct = true;
            None
        }
        Value::Bool(false) => None,
        empty if is_empty(empty) => {
            verb = Verb::Exec;
            None
        }
        // `?[t;c;(0#`)!0#`;a]` groups by no column: all rows are one group.
        Value::Dict(by) if by.keys.count() == 0 => {
            verb = Verb::Exec;
            None
        }
        Value::Dict(_) => Some(fields(&b)?),
        tree => {
            verb = Verb::Exec;
            Some(vec![(None, to_node(tree)?)])
        }
    };
    // `?[t;();();()]` is all columns, as in kdb+; `?[t;();();(0#`)!()]` names no column, and is an empty dictionary.
    if let (true, Value::Dict(none)) = (is_empty(&b), &a)
        && none.keys.count() == 0
    {
        return Ok(Value::dict(Value::symbols(Vec::new()), Value::empty()));
    }
    let columns = match &a {
        Value::Dict(_) => fields(&a)?,
        empty if is_empty(empty) => Vec::new(),
        tree => {
            verb = Verb::Exec;
            vec![(None, to_node(tree)?)]
        }
    };
    // A list of names makes one group, keyed by the null symbol.
    let one_group = b.as_symbols().is_some_and(|names| names.len() > 1);
    let by = by.filter(|_| !one_group);
    let query = Query { verb, distinct, limit, order, columns, by, from: Node::constant(t), filters: nodes(&c)? };
    let all = run(context, |c, frame| qsql::template(c, &query, frame))?;
    if matches!(&b, Value::Dict(by) if by.keys.count() == 0) {
        return Ok(all.enlist());
    }
    if !one_group {
        return Ok(all);
    }
    let values = match all {
        row @ Value::Dict(_) => Value::collapse(vec![row]),
        value => Value::list(vec![value]),
    };
    Ok(Value::dict(Value::symbols(vec![Sym::NULL]), values))
}

/// `?[t;rows;tree]`: evaluates the tree over these rows, or over all if `rows` is `::`.
pub(crate) fn simple_exec(context: &mut Context, t: Arc<Table>, rows: &Value, tree: &Value) -> Result {
    let from = match rows {
        Value::Null => t,
        rows => Arc::new(t.rows(&crate::verbs::convert::rows(&rows.to_items()).ok_or_else(type_error)?)),
    };
    let query = Query {
        verb: Verb::Exec,
        distinct: false,
        limit: None,
        order: None,
        columns: vec![(None, to_node(tree)?)],
        by: None,
        from: Node::constant(Value::Table(from)),
        filters: Vec::new(),
    };
    run(context, |c, frame| qsql::template(c, &query, frame))
}

/// `![t;c;b;a]`: functional update, or delete if `a` is a list of names.
pub(crate) fn update(context: &mut Context, arguments: Vec<Value>) -> Result {
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next();
    let (Some(t), Some(c), Some(b), Some(a)) = (next(), next(), next(), next()) else {
        return Err(QError::named("rank"));
    };
    let by = if let Value::Dict(_) = &b { Some(fields(&b)?) } else { None };
    let (verb, columns) = match &a {
        Value::Dict(_) => (Verb::Update, fields(&a)?),
        names => {
            let names = names.as_symbols().map(<[Sym]>::to_vec).unwrap_or_default();
            let column = |n: &Sym| (Some(*n), Node::constant(Value::Null));
            (Verb::Delete, names.iter().map(column).collect())
        }
    };
    let query = Query {
        verb,
        distinct: false,
        limit: None,
        order: None,
        columns,
        by,
        from: Node::constant(t),
        filters: nodes(&c)?,
    };
    run(context, |c, frame| qsql::template(c, &query, frame))
}

/// Returns the parse tree of an expression.
pub(crate) fn from_node(node: &Node) -> std::result::Result<Value, QError> {
    limits::step()?;
    let list = |f: Value, nodes: &[Node]| -> Result {
        let mut out = vec![f];
        for node in nodes {
            out.push(from_node(node)?);
        }
        Ok(Value::list(out))
    };
    let word = |w: &'static str| Value::Sym(prims::name(w));
    match &node.kind {
        Kind::Const(value @ (Value::Sym(_) | Value::Vector(Vector { items: Items::Sym(_), .. }))) => Ok(match value {
            Value::Sym(s) => Value::symbols(vec![*s]),
            vector => Value::list(vec![vector.clone()]),
        }),
        Kind::Const(value) => Ok(value.clone()),
        Kind::Name(name) | Kind::Global(name) | Kind::Column(name, _) => Ok(Value::Sym(*name)),
        Kind::Local(_) => Err(QError::named("nyi")),
        Kind::Apply(f, arguments) => {
            let mut out = vec![from_node(f)?];
            // An infix operator without right operand is written with its left operand only, as `+[1;]` is not. Nor is a derived function, because
            // `f/` with one argument folds.
            let written = match (&f.kind, &arguments[..]) {
                (Kind::Const(name), [Some(x), None]) if prims::is_infix(name) && x.at < f.at => 1,
                (Kind::Const(Value::Null), [Some(_), None]) => 1,
                _ => arguments.len(),
            };
            for argument in arguments.iter().take(written) {
                out.push(match argument {
                    Some(node) => from_node(node)?,
                    // `f[]` is `f[::]`.
                    None if arguments.len() == 1 => Value::Null,
                    None => function::elided(),
                });
            }
            Ok(Value::list(out))
        }
        Kind::Derive(iterator, f) => Ok(Value::list(vec![prims::glyph(iterator.glyph()), from_node(f)?])),
        Kind::Compose(f, g) => Ok(Value::list(vec![prims::glyph("'"), from_node(f)?, from_node(g)?])),
        Kind::Assign(a) => {
            let mut target = from_node(&a.target)?;
            if !a.indices.is_empty() {
                let mut out = vec![target];
                for index in &a.indices {
                    out.push(index.as_ref().map_or_else(|| Ok(function::elided()), from_node)?);
                }
                target = Value::list(out);
            }
            let plain = || prims::glyph(if a.global { "::" } else { ":" });
            let verb = a.through.as_ref().map_or_else(plain, prims::unary_form);
            Ok(Value::list(vec![verb, target, from_node(&a.value)?]))
        }
        Kind::List(nodes) => list(prims::glyph("enlist"), nodes),
        Kind::Cond(nodes) => list(prims::glyph("$"), nodes),
        Kind::If(nodes) => list(word("if"), nodes),
        Kind::While(nodes) => list(word("while"), nodes),
        Kind::Do(nodes) => list(word("do"), nodes),
        Kind::Seq(nodes) => match &nodes[..] {
            // Parentheses around a projection: `(1+)`.
            [one] => from_node(one),
            _ => list(Value::Char(b';'), nodes),
        },
        Kind::Return(n) => list(Value::Char(b':'), std::slice::from_ref(&**n)),
        Kind::Signal(n) => list(prims::glyph("'"), std::slice::from_ref(&**n)),
        Kind::Match(nodes) => list(prims::glyph(":"), nodes),
        Kind::View(name, source) => {
            let body = crate::syntax::parse::program(source, Sym::NULL)?.code.body;
            let tree = body.first().map_or(Ok(Value::Null), from_node)?;
            Ok(Value::list(vec![Value::Null, Value::Sym(*name), tree]))
        }
        Kind::Table { keys, columns, keyed_only } => table_tree(keys, columns, *keyed_only),
        Kind::Query(q) => query_tree(q),
    }
}

fn query_tree(q: &Query) -> Result {
    let named = |fields: &[(Option<Sym>, Node)]| -> Result {
        let mut names = Vec::with_capacity(fields.len());
        let mut trees = Vec::with_capacity(fields.len());
        for (name, node) in fields {
            names.push(name.or_else(|| crate::syntax::resolve::column_name(node)).unwrap_or(prims::name("x")));
            trees.push(from_node(node)?);
        }
        Ok(Value::dict(Value::symbols(names), Value::collapse(trees)))
    };
    let filters: std::result::Result<Vec<Value>, QError> = q.filters.iter().map(from_node).collect();
    let filters = filters?;
    let c = if filters.is_empty() { Value::empty() } else { Value::list(vec![Value::list(filters)]) };
    let b = match &q.by {
        Some(by) => match &by[..] {
            [(None, Node { kind: Kind::Const(all @ Value::Bool(false)), .. })] if q.verb == Verb::Exec => all.clone(),
            [(None, only)] if q.verb == Verb::Exec => from_node(only)?.enlist(),
            _ => named(by)?,
        },
        None if q.verb == Verb::Exec => Value::empty(),
        None => Value::Bool(q.distinct),
    };
    let a = match (&q.columns[..], q.verb) {
        ([], Verb::Delete) => Value::symbols(Vec::new()),
        ([], _) => Value::empty(),
        ([(None, node)], Verb::Exec) => Value::list(vec![from_node(node)?]),
        (columns, Verb::Delete) => {
            let names = columns.iter().map(|field| qsql::deleted_name(field).unwrap_or_default());
            Value::list(vec![Value::symbols(names.collect())])
        }
        (columns, _) => named(columns)?,
    };
    let f = if matches!(q.verb, Verb::Select | Verb::Exec) { "?" } else { "!" };
    let mut tree = vec![prims::glyph(f), from_node(&q.from)?, c, b, a];
    if q.limit.is_some() || q.order.is_some() {
        tree.push(q.limit.as_ref().map_or(Ok(Value::Long(i64::MAX)), from_node)?);
    }
    if let Some((descending, by)) = &q.order {
        let order = prims::glyph(if *descending { ">:" } else { "<:" });
        tree.push(Value::list(vec![Value::list(vec![order, from_node(by)?])]));
    }
    Ok(Value::list(tree))
}

/// `reval x`: `eval` without write access.
pub(crate) fn reval(context: &mut Context, x: Value) -> Result {
    context.host.makes_code(Made::Other)?;
    let node = to_node(&x)?;
    let mut guarded = crate::runtime::read_only::ReadOnly { host: &mut *context.host };
    let mut inner = Context::within(&mut guarded, context.allowance.again());
    run(&mut inner, |c, frame| c.node(&node, frame))
}

/// Tree of a table literal, `(flip;(!;names;(enlist;…)))`; for a keyed table one each for keys and values.
fn table_tree(keys: &[(Option<Sym>, Node)], columns: &[(Option<Sym>, Node)], keyed_only: bool) -> Result {
    let given = |(name, node): &(Option<Sym>, Node)| {
        name.or_else(|| crate::syntax::resolve::column_name(node)).unwrap_or(prims::name("x"))
    };
    let names = unique_names(keys.iter().chain(columns).map(given))?;
    let (key_names, column_names) = names.split_at(keys.len().min(names.len()));
    let side = |names: &[Sym], fields: &[(Option<Sym>, Node)], table: bool| -> Result {
        let mut trees = vec![prims::glyph("enlist")];
        for (_, node) in fields {
            trees.push(from_node(node)?);
        }
        let names = Value::list(vec![Value::symbols(names.to_vec())]);
        let dict = Value::list(vec![prims::glyph("!"), names, Value::list(trees)]);
        Ok(if table { Value::list(vec![prims::glyph("+:"), dict]) } else { dict })
    };
    if keyed_only {
        return side(key_names, keys, false);
    }
    let values = side(column_names, columns, true)?;
    match keys.is_empty() {
        true => Ok(values),
        false => Ok(Value::list(vec![prims::glyph("!"), side(key_names, keys, true)?, values])),
    }
}

/// `parse x`: returns the parse tree of text.
pub(crate) fn parse(context: &mut Context, x: Value) -> Result {
    context.host.makes_code(Made::Other)?;
    let text = locked::unmarked(x.as_text().ok_or_else(type_error)?);
    if let Some(command) = text.strip_prefix(b"\\") {
        return Ok(Value::list(vec![prims::keyword(b"system").ok_or_else(type_error)?, Value::chars(command)]));
    }
    // `parse` is a level of the call stack of its own.
    tree_of(text, context.host.namespace())
        .map_err(|error| error.place(0).leave(b"", text, 0).leave_native("(.q.parse)\n"))
}

/// The parse tree of a text, whose lambdas belong to the namespace `space`.
fn tree_of(text: &[u8], space: Sym) -> Result {
    let program = crate::syntax::parse::program_in(text, Sym::NULL, space)?;
    match &program.code.body[..] {
        [one] => from_node(one),
        many => {
            let mut out = vec![Value::Char(b';')];
            for node in many {
                out.push(from_node(node)?);
            }
            Ok(Value::list(out))
        }
    }
}
