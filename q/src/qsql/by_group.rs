//! Columns of a query with `by`: aggregates as partial aggregates in one pass, everything else group by group.

use super::compile::{atom, row_wise};
use super::groups::Grouped;
use super::{Selected, within};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::syntax::ast::{Kind, Node};
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::aggregate;
use crate::verbs::aggregate::{Aggregate, Aggregation};
use crate::verbs::rowwise::RowWise;
use columns::table::{Items, Value, Vector};

/// A column expression in terms of aggregates: atomic functions of aggregates and atoms.
enum GroupWise {
    Atom(Value),
    /// Index of a request.
    Aggregate(usize),
    Apply(Value, Vec<GroupWise>),
}

/// The requests of all columns together.
#[derive(Default)]
struct Plan {
    expressions: Vec<RowWise>,
    requests: Vec<Aggregation>,
}

impl Plan {
    /// Returns the index of a request, which is added if new.
    fn put(&mut self, aggregate: Aggregate, arguments: Vec<RowWise>) -> usize {
        let arguments: Vec<usize> = arguments
            .into_iter()
            .map(|argument| match self.expressions.iter().position(|known| known.is_same(&argument)) {
                Some(at) => at,
                None => {
                    self.expressions.push(argument);
                    self.expressions.len() - 1
                }
            })
            .collect();
        let known = self.requests.iter().position(|r| r.aggregate == aggregate && r.arguments == arguments);
        known.unwrap_or_else(|| {
            self.requests.push(Aggregation { aggregate, arguments });
            self.requests.len() - 1
        })
    }
}

/// Returns the aggregate and its arguments, if the node applies one.
fn as_aggregate(node: &Node) -> Option<(Aggregate, Vec<&Node>)> {
    let Kind::Apply(f, arguments) = &node.kind else { return None };
    let Kind::Const(f) = &f.kind else { return None };
    let aggregate = aggregate::of(f)?;
    let arguments: Vec<&Node> = arguments.iter().map(Option::as_ref).collect::<Option<_>>()?;
    (arguments.len() == aggregate.arity()).then_some((aggregate, arguments))
}

fn has_aggregate(node: &Node) -> bool {
    as_aggregate(node).is_some()
        || matches!(&node.kind, Kind::Apply(_, arguments) if arguments.iter().flatten().any(has_aggregate))
}

fn group_wise(
    context: &mut Context,
    node: &Node,
    plan: &mut Plan,
    selected: &Selected,
    frame: &mut Frame,
) -> Walk<Option<GroupWise>> {
    if let Some((aggregate, arguments)) = as_aggregate(node) {
        let mut given = Vec::with_capacity(arguments.len());
        for argument in arguments.into_iter().rev() {
            let Some(expression) = row_wise(context, argument, selected, frame)? else { return Ok(None) };
            given.push(expression);
        }
        given.reverse();
        return Ok(Some(GroupWise::Aggregate(plan.put(aggregate, given))));
    }
    if let Some(atom) = atom(context, node, selected, frame)? {
        return Ok(Some(GroupWise::Atom(atom)));
    }
    let Kind::Apply(f, arguments) = &node.kind else { return Ok(None) };
    let Kind::Const(f) = &f.kind else { return Ok(None) };
    if !prims::is_atomic(f) {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(arguments.len());
    for argument in arguments.iter().rev() {
        let Some(argument) = argument else { return Ok(None) };
        let Some(part) = group_wise(context, argument, plan, selected, frame)? else { return Ok(None) };
        parts.push(part);
    }
    parts.reverse();
    Ok(Some(GroupWise::Apply(f.clone(), parts)))
}

impl GroupWise {
    /// Computes one item per group.
    fn finish(&self, context: &mut Context, results: &[Items]) -> Result<Value, QError> {
        match self {
            GroupWise::Atom(atom) => Ok(atom.clone()),
            GroupWise::Aggregate(at) => Ok(results.get(*at).cloned().ok_or(QError::named("type"))?.into()),
            GroupWise::Apply(f, parts) => {
                let mut arguments = Vec::with_capacity(parts.len());
                for part in parts {
                    arguments.push(part.finish(context, results)?);
                }
                context.apply(f, arguments)
            }
        }
    }
}

/// Returns one value per group for each column; `None` for a column that must be evaluated group by group.
pub(super) fn aggregated(
    context: &mut Context,
    nodes: &[&Node],
    selected: &Selected,
    grouped: &mut Grouped,
    frame: &mut Frame,
) -> Walk<Vec<Option<Value>>> {
    let mut plan = Plan::default();
    let mut columns = Vec::with_capacity(nodes.len());
    for node in nodes {
        let before = plan.requests.len();
        let column = if has_aggregate(node) { group_wise(context, node, &mut plan, selected, frame)? } else { None };
        if column.is_none() {
            plan.requests.truncate(before);
        }
        columns.push(column);
    }
    if plan.requests.is_empty() {
        return Ok(nodes.iter().map(|_| None).collect());
    }
    let results = grouped.aggregate(&context.allowance, &plan.expressions, &plan.requests, selected.count())?;
    let Some(results) = results else {
        // An aggregate has no kernel: try the columns one by one.
        let [_, _, ..] = nodes else { return Ok(vec![None]) };
        let mut out = Vec::with_capacity(nodes.len());
        for node in nodes {
            out.extend(aggregated(context, std::slice::from_ref(node), selected, grouped, frame)?);
        }
        return Ok(out);
    };
    let mut out = Vec::with_capacity(columns.len());
    for column in columns {
        out.push(match column {
            Some(column) => Some(column.finish(context, &results)?),
            None => None,
        });
    }
    Ok(out)
}

/// Returns one value per group for each column expression.
pub(super) fn values(
    context: &mut Context,
    nodes: &[&Node],
    selected: &Selected,
    grouped: &mut Grouped,
    frame: &mut Frame,
) -> Walk<Vec<Value>> {
    let mut out = Vec::with_capacity(nodes.len());
    for (node, value) in nodes.iter().zip(aggregated(context, nodes, selected, grouped, frame)?) {
        out.push(match value {
            Some(value) => value,
            None => {
                let mut results = Vec::new();
                for rows in grouped.members(&context.allowance, selected)?.to_vec() {
                    context.tick()?;
                    results.push(within(context, &selected.table, Some(&rows), |c| c.node(node, frame))?);
                }
                Value::collapse(results)
            }
        });
    }
    Ok(out)
}

/// [`values`] as columns.
pub(super) fn columns(
    context: &mut Context,
    nodes: &[&Node],
    selected: &Selected,
    grouped: &mut Grouped,
    frame: &mut Frame,
) -> Walk<Vec<Vector>> {
    let values = values(context, nodes, selected, grouped, frame)?;
    Ok(values.into_iter().map(|v| v.into_vector().ok_or(QError::named("type"))).collect::<Result<_, _>>()?)
}
