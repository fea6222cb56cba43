//! Aggregates over partitions by map and reduce: a query that gives each partition's part of the aggregates, and one that combines the parts. So a
//! query over many partitions holds one of them in memory, and their groups.

use super::{compile, names};
use crate::runtime::frame::Walk;
use crate::syntax::ast::{Kind, Node, Query, Verb};
use crate::syntax::{prims, resolve};
use columns::table::symbol::text;
use columns::table::{Sym, Value};

/// The two queries. The first has the groups of the query given; its columns have names that no text can have.
pub(super) struct Reduced {
    pub map: Query,
    pub reduce: Query,
    /// Parts that are summed. Sums of reals are rounded to reals: added up, they differ from the sum of all rows.
    pub summed: Vec<Sym>,
}

/// Columns, and their names if they have been given any.
type Named = Vec<(Option<Sym>, Node)>;

struct Plan<'a> {
    /// Columns of the table.
    columns: &'a [Sym],
    /// Parts of the aggregates.
    parts: Named,
    /// Those that are summed.
    summed: Vec<Sym>,
}

/// A name that no text can have: `0`, `1`.
fn part_name(number: usize) -> Walk<Sym> {
    Ok(crate::runtime::values::symbol(number.to_string().as_bytes())?)
}

fn column(name: Sym, at: u32) -> Node {
    let outer = Node::new(at as usize, Kind::Global(name));
    Node::new(at as usize, Kind::Column(name, Box::new(outer)))
}

fn apply(f: Value, arguments: Vec<Node>, at: u32) -> Node {
    let f = Node::new(at as usize, Kind::Const(f));
    Node::new(at as usize, Kind::Apply(Box::new(f), arguments.into_iter().map(Some).collect()))
}

fn keyword(name: &str, arguments: Vec<Node>, at: u32) -> Option<Node> {
    Some(apply(prims::keyword(name.as_bytes())?, arguments, at))
}

fn binary(glyph: &str, x: Node, y: Node, at: u32) -> Node {
    apply(prims::glyph(glyph), vec![x, y], at)
}

fn constant(value: f64, at: u32) -> Node {
    Node::new(at as usize, Kind::Const(Value::Float(value)))
}

impl Plan<'_> {
    fn is_column(&self, name: Sym) -> bool {
        let stem = text(name).split(|c| *c == b'.').next().unwrap_or_default();
        stem == b"i" || self.columns.iter().any(|known| text(*known) == stem)
    }

    fn uses_columns(&self, node: &Node) -> bool {
        let mut uses = false;
        resolve::walk(node, &mut |n| uses |= matches!(n.kind, Kind::Column(name, _) if self.is_column(name)));
        uses
    }

    /// Adds a part; returns the column that has it.
    fn part(&mut self, node: Node) -> Walk<Node> {
        let (name, at) = (part_name(self.parts.len())?, node.at);
        self.parts.push((Some(name), node));
        Ok(column(name, at))
    }

    /// `f` of a part, where `f` of all rows is `f` of the partitions' results; `None` without such a primitive.
    fn combined(&mut self, f: &str, part: Option<Node>, at: u32) -> Walk<Option<Node>> {
        let Some(part) = part else { return Ok(None) };
        if f == "sum" {
            self.summed.push(part_name(self.parts.len())?);
        }
        let part = self.part(part)?;
        Ok(keyword(f, vec![part], at))
    }

    /// The combination of an aggregate's parts; `None` if it has none.
    fn aggregate(&mut self, f: &'static str, node: &Node, arguments: &[&Node]) -> Walk<Option<Node>> {
        if !arguments.iter().all(|x| compile::is_row_wise(x)) {
            return Ok(None);
        }
        let at = node.at;
        match (f, arguments) {
            ("count", [_]) => self.combined("sum", Some(node.clone()), at),
            ("sum" | "min" | "max" | "first" | "last" | "all" | "any", [_]) => self.combined(f, Some(node.clone()), at),
            ("wsum", [_, _]) => self.combined("sum", Some(node.clone()), at),
            // Null items have no part in a mean, neither in the sum nor in the count.
            ("avg", [x]) => {
                let sum = keyword("sum", vec![binary("*", (*x).clone(), constant(1.0, at), at)], at);
                let known = keyword("sum", vec![binary("<>", (*x).clone(), constant(f64::NAN, at), at)], at);
                self.mean(sum, known, at)
            }
            ("wavg", [w, x]) => {
                let sum = keyword("wsum", vec![(*w).clone(), (*x).clone()], at);
                let known = binary("<>", (*x).clone(), constant(f64::NAN, at), at);
                let weights = binary("*", (*w).clone(), constant(1.0, at), at);
                let weights = keyword("sum", vec![binary("*", weights, known, at)], at);
                self.mean(sum, weights, at)
            }
            _ => Ok(None),
        }
    }

    fn mean(&mut self, sum: Option<Node>, weights: Option<Node>, at: u32) -> Walk<Option<Node>> {
        let sum = self.combined("sum", sum, at)?;
        let weights = self.combined("sum", weights, at)?;
        Ok(sum.zip(weights).map(|(sum, weights)| binary("%", sum, weights, at)))
    }

    /// An expression of aggregates in terms of their parts; `None` if it needs the rows.
    fn reduced(&mut self, node: &Node) -> Walk<Option<Node>> {
        if !self.uses_columns(node) {
            return Ok(Some(node.clone()));
        }
        let Kind::Apply(f, arguments) = &node.kind else { return Ok(None) };
        let Kind::Const(function) = &f.kind else { return Ok(None) };
        let Some(given) = arguments.iter().map(Option::as_ref).collect::<Option<Vec<&Node>>>() else {
            return Ok(None);
        };
        if let Some(name) = prims::name_of(function)
            && let Some(combined) = self.aggregate(name, node, &given)?
        {
            return Ok(Some(combined));
        }
        if !prims::is_atomic(function) {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(given.len());
        for x in given {
            let Some(part) = self.reduced(x)? else { return Ok(None) };
            parts.push(Some(part));
        }
        Ok(Some(Node::new(node.at as usize, Kind::Apply(f.clone(), parts))))
    }
}

/// Whether groups of this key are the same in a partition and in all of them: the key of a row depends on that row only.
fn is_key(node: &Node) -> bool {
    match &node.kind {
        // `` `minute$time ``
        Kind::Apply(f, arguments) => match (&f.kind, &arguments[..]) {
            (Kind::Const(f), [Some(to), Some(x)]) if prims::is_glyph(f, "$") => {
                matches!(to.kind, Kind::Const(_)) && is_key(x)
            }
            _ => compile::is_row_wise(node),
        },
        _ => compile::is_row_wise(node),
    }
}

/// The two queries of the same groups: `parts` of each partition, and `combined` of all parts.
fn grouped(query: &Query, parts: Named, combined: Named) -> Walk<Reduced> {
    let by = query.by.as_deref().unwrap_or_default();
    let (mut keys, mut groups) = (Vec::with_capacity(by.len()), Vec::with_capacity(by.len()));
    for ((at, (given, node)), name) in by.iter().enumerate().zip(names(by)?) {
        let key = part_name(parts.len().saturating_add(at))?;
        keys.push((Some(key), node.clone()));
        let is_value = query.verb == Verb::Exec && by.len() == 1 && given.is_none();
        groups.push((Some(name).filter(|_| !is_value), column(key, node.at)));
    }
    let whole = Query { filters: Vec::new(), ..query.clone() };
    let by = |keys| query.by.is_some().then_some(keys);
    let map = Query { verb: Verb::Select, columns: parts, by: by(keys), ..whole.clone() };
    Ok(Reduced { map, reduce: Query { columns: combined, by: by(groups), ..whole }, summed: Vec::new() })
}

/// The last rows of each group: those of the partitions' last rows. All columns but the keys are the result, so that the keys have their names.
fn last_rows(query: &Query) -> Walk<Reduced> {
    let by = query.by.as_deref().unwrap_or_default();
    let names = names(by)?;
    let keys = by.iter().zip(&names).map(|((_, node), name)| (Some(*name), node.clone())).collect();
    let groups = by.iter().zip(&names).map(|((_, node), name)| (Some(*name), column(*name, node.at))).collect();
    let whole = Query { filters: Vec::new(), ..query.clone() };
    Ok(Reduced {
        map: Query { by: Some(keys), ..whole.clone() },
        reduce: Query { by: Some(groups), ..whole },
        summed: Vec::new(),
    })
}

/// Distinct rows: those of the partitions' distinct rows.
fn distinct(query: &Query, plan: &Plan) -> Walk<Option<Reduced>> {
    let is_plain = |(_, node): &(Option<Sym>, Node)| plan.uses_columns(node) && compile::is_row_wise(node);
    // `exec distinct a,b` is a dictionary of all items.
    let is_of_rows = query.verb == Verb::Select || query.columns.len() == 1;
    if query.by.is_some() || !is_of_rows || !query.columns.iter().all(is_plain) {
        return Ok(None);
    }
    let (mut parts, mut combined) = (Vec::new(), Vec::new());
    for ((at, (given, node)), name) in query.columns.iter().enumerate().zip(names(&query.columns)?) {
        let part = part_name(at)?;
        parts.push((Some(part), node.clone()));
        combined.push((Some(name).filter(|_| !is_value(query, *given)), column(part, node.at)));
    }
    grouped(query, parts, combined).map(Some)
}

/// An expression with the distinct items of a column in it, such as `count distinct sym`: the column, and the expression with `part` in its place.
fn of_distinct(node: &Node, part: Sym, plan: &Plan) -> Option<(Node, Node)> {
    let Kind::Apply(f, arguments) = &node.kind else { return None };
    let (Kind::Const(function), [Some(x)]) = (&f.kind, &arguments[..]) else { return None };
    let (wanted, inner) = match prims::name_of(function) {
        Some("distinct") if plan.uses_columns(x) && compile::is_row_wise(x) => (x.clone(), column(part, x.at)),
        _ => of_distinct(x, part, plan)?,
    };
    Some((wanted, Node::new(node.at as usize, Kind::Apply(f.clone(), vec![Some(inner)]))))
}

/// Whether the result of a query with this column is the value alone.
fn is_value(query: &Query, given: Option<Sym>) -> bool {
    query.verb == Verb::Exec && query.columns.len() == 1 && given.is_none()
}

/// The queries whose result is that of `query` over all partitions; `None` if it needs their rows together.
pub(super) fn reduced(query: &Query, columns: &[Sym], field: Sym) -> Walk<Option<Reduced>> {
    let by = query.by.as_deref().unwrap_or_default();
    let columns = [columns, &[field]].concat();
    let mut plan = Plan { columns: &columns, parts: Vec::new(), summed: Vec::new() };
    if !by.iter().all(|(_, node)| is_key(node) && plan.uses_columns(node)) {
        return Ok(None);
    }
    if query.columns.is_empty() {
        let is_last = query.by.is_some() && query.verb == Verb::Select && !query.distinct;
        return if is_last { last_rows(query).map(Some) } else { Ok(None) };
    }
    if query.distinct {
        return distinct(query, &plan);
    }
    if let ([(given, node)], None) = (&query.columns[..], &query.by)
        && let Some((wanted, combined)) = of_distinct(node, part_name(0)?, &plan)
    {
        let name = names(&query.columns)?.first().copied().filter(|_| !is_value(query, *given));
        let mut queries = grouped(query, vec![(Some(part_name(0)?), wanted)], vec![(name, combined)])?;
        queries.map.distinct = true;
        return Ok(Some(queries));
    }
    let mut combined = Vec::with_capacity(query.columns.len());
    for ((given, node), name) in query.columns.iter().zip(names(&query.columns)?) {
        let Some(node) = plan.reduced(node)? else { return Ok(None) };
        combined.push((Some(name).filter(|_| !is_value(query, *given)), node));
    }
    match plan.parts.is_empty() {
        true => Ok(None),
        false => grouped(query, plan.parts, combined).map(|queries| Some(Reduced { summed: plan.summed, ..queries })),
    }
}
