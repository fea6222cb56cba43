//! qSQL: where-clauses become row selections, groups dense ids, aggregates partial aggregates; the evaluator computes everything
//! else over column vectors.

mod by_group;
pub(crate) mod compile;
mod counted;
mod entries;
mod filter;
mod groups;
mod indexed;
mod keys;
mod parted;
mod reduce;
pub mod restrict;
mod splayed;
mod steps;
pub(crate) mod tree;
mod update;

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::scope::Scope;
use crate::runtime::{gather, limits};
use crate::syntax::ast::{Kind, Node, Query, Verb};
use crate::syntax::prims;
use crate::syntax::resolve::column_name;
use crate::verbs::above::Evaluate;
use crate::verbs::aggregate::{Aggregate, Aggregation};
use crate::verbs::attributes::mark_sorted;
use crate::verbs::rowwise::RowWise;
use crate::verbs::{find, sort, tables};

use columns::table::{Attr, Items, Sym, Table, Value, Vector};
pub(crate) use filter::filter;
use groups::Grouped;
use keys::group;
use std::sync::Arc;

/// A table and the rows selected by its where-clauses.
pub(crate) struct Selected {
    table: Arc<Table>,
    rows: Option<Arc<Vec<u32>>>,
}

impl Selected {
    fn count(&self) -> usize {
        self.rows.as_ref().map_or(self.table.count(), |r| r.len())
    }

    pub(crate) fn whole(table: Arc<Table>) -> Selected {
        Selected { table, rows: None }
    }

    pub(crate) fn row_numbers(&self) -> Vec<usize> {
        match &self.rows {
            Some(rows) => rows.iter().map(|r| *r as usize).collect(),
            None => (0..self.table.count()).collect(),
        }
    }

    fn into_rows(self) -> Arc<Vec<u32>> {
        self.rows.unwrap_or_else(|| Arc::new((0..self.table.count() as u32).collect()))
    }

    pub(crate) fn all(&self, context: &Context) -> Result<Table, QError> {
        match &self.rows {
            Some(rows) => gather::rows(&context.allowance, &self.table, rows),
            None => Ok((*self.table).clone()),
        }
    }
}

/// Evaluates `f` with the columns of `table`, restricted to `rows`, as names in scope.
fn within<T>(
    context: &mut Context,
    table: &Arc<Table>,
    rows: Option<&Arc<Vec<u32>>>,
    f: impl FnOnce(&mut Context) -> Walk<T>,
) -> Walk<T> {
    context.scopes.push(Scope { table: Arc::clone(table), rows: rows.cloned(), cut: Vec::new() });
    let result = f(context);
    context.scopes.pop();
    result
}

/// Runs a query.
pub(crate) fn template(context: &mut Context, query: &Query, frame: &mut Frame) -> Walk<Value> {
    let from = splayed::from(context, query, frame)?;
    // `..t` is the root's t, whatever the namespace; the names in the phrases are of the namespace.
    if let Value::Sym(name) = &from
        && columns::table::symbol::text(*name).starts_with(b"..")
    {
        let root = context.named(*name)?;
        let held = context.global(root)?;
        let result = over(context, query, held, frame)?;
        return match query.verb {
            Verb::Select | Verb::Exec => Ok(result),
            Verb::Update | Verb::Delete => {
                context.set_global(root, result)?;
                Ok(from)
            }
        };
    }
    let found = match &from {
        Value::Sym(name) => Value::Sym(tables::located(context, *name)?),
        held => held.clone(),
    };
    match (over(context, query, found.clone(), frame)?, &found, &from) {
        // Where the table was changed, its name is the result: as it was given.
        (Value::Sym(changed), Value::Sym(full), Value::Sym(given)) if changed == *full => Ok(Value::Sym(*given)),
        (result, ..) => Ok(result),
    }
}

fn over(context: &mut Context, query: &Query, from: Value, frame: &mut Frame) -> Walk<Value> {
    // Columns of some of the rows cannot be removed. Without the error the columns would be lost in all of them.
    if query.verb == Verb::Delete && !query.columns.is_empty() && !query.filters.is_empty() {
        return Err(QError::with("nyi", "delete removes either columns or rows, which where selects").into());
    }
    if query.verb == Verb::Delete
        && let Some(result) = delete_names(context, query, &from)?
    {
        return Ok(result);
    }
    if let Some((columns, place)) = crate::verbs::on_disk::described(context, &from)
        && !crate::runtime::paths::is_path(place)
    {
        return crate::qsql::parted::template(context, query, (columns, place), frame);
    }
    if let Some(changed) = entries::over_record(context, query, &from, frame)? {
        return Ok(changed);
    }
    if let Some((columns, atoms)) = entries::entries(context, &from)? {
        return entries::over_entries(context, query, from, columns, atoms, frame);
    }
    let (mut selected, keys) = match splayed::part(context, query, &from)? {
        Some(part) if splayed::only_counts(query, &part) => {
            let rows = part.count(context)?;
            return counted::counted(context, query, rows, frame);
        }
        Some(part) => (splayed::selected(context, query, &part, frame)?, 0),
        None => {
            let (table, keys) = tables::flat(context, &from)?;
            check_rows(table.count())?;
            (filter(context, table, &query.filters, frame)?, keys)
        }
    };
    let result = match query.verb {
        Verb::Select => {
            let plain = query.columns.is_empty() && query.by.is_none();
            // The limit applies before the select phrase; for groups and distinct rows, after it.
            if query.by.is_none() && !query.distinct {
                selected = shorten_rows(context, query, selected, frame)?;
            }
            let mut result = select(context, query, &selected, frame)?;
            if query.by.is_some() || query.distinct {
                result = shorten(context, query, result, frame)?;
            }
            return Ok(match &result {
                Value::Table(t) if plain && keys > 0 => crate::verbs::rows::key_by(keys, t)?,
                _ => result,
            });
        }
        Verb::Exec => return exec(context, query, &selected, frame),
        Verb::Update => update::update(context, query, &selected, frame)?,
        Verb::Delete => delete(query, &selected)?,
    };
    let result = crate::verbs::rows::key_by(keys.min(result.columns.len()), &result)?;
    match from {
        // A table in a file is not changed.
        Value::Sym(name) if !crate::runtime::paths::is_path(name) => {
            context.set_global(name, result)?;
            // A handler gets the clauses by which rows were deleted.
            let clauses = query.filters.iter().filter(|_| query.verb == Verb::Delete).map(tree::from_node);
            context.was_set(name, &clauses.collect::<Result<Vec<Value>, QError>>().unwrap_or_default())?;
            Ok(from)
        }
        _ => Ok(result),
    }
}

/// Rows are numbered with 32 bits.
fn check_rows(count: usize) -> Result<(), QError> {
    match u32::try_from(count) {
        Ok(_) => Ok(()),
        Err(_) => Err(QError::with("limit", "more than 4294967295 rows")),
    }
}

/// `` delete a from `. `` and `` delete k from d ``: deletes globals of a namespace or keys of a dictionary; without names, all of them.
fn delete_names(context: &mut Context, query: &Query, from: &Value) -> Result<Option<Value>, QError> {
    let held = match from {
        Value::Sym(name) => match context.host.global(*name) {
            // A part of a global dictionary.
            None if context.namespace(*name).is_none() => context.global(*name).ok(),
            held => held,
        },
        other => Some(other.clone()),
    };
    let deletes_all = query.columns.is_empty();
    let has_rows = match (&held, from) {
        (Some(Value::Dict(d)), _) => d.keyed().is_some(),
        (None, Value::Sym(space)) => context.namespace(*space).is_none(),
        _ => true,
    };
    if deletes_all && !query.filters.is_empty() && !has_rows {
        return Err(QError::with("type", "only the rows of a table can be selected by where"));
    }
    match (&held, from) {
        (Some(Value::Dict(d)), _) if d.keyed().is_none() => {
            let rest = match deletes_all {
                true => crate::verbs::take::take(context, Value::Long(0), Value::Dict(d.clone()))?,
                false => crate::verbs::take::drop(context, Value::symbols(deleted(query)?), Value::Dict(d.clone()))?,
            };
            if let Value::Sym(name) = from {
                context.set_global(*name, rest)?;
                return Ok(Some(from.clone()));
            }
            Ok(Some(rest))
        }
        // The null symbol lists the namespaces, and is none of them.
        (None, Value::Sym(space)) if *space == Sym::NULL => Err(QError::named("type")),
        (None, Value::Sym(space)) => match context.namespace(*space) {
            Some(Value::Dict(members)) => {
                let names = match deletes_all {
                    true => {
                        members.keys.as_symbols().unwrap_or_default().iter().copied().filter(|n| !n.is_null()).collect()
                    }
                    false => deleted(query)?,
                };
                context.delete_names(*space, &names)?;
                Ok(Some(from.clone()))
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The name to delete, exactly as written: in `delete i from t`, `i` is a column and not the row number.
fn deleted_name((given, node): &(Option<Sym>, Node)) -> Option<Sym> {
    match node.kind {
        Kind::Name(written) | Kind::Column(written, _) => Some(given.unwrap_or(written)),
        _ => given.or_else(|| column_name(node)),
    }
}

fn deleted(query: &Query) -> Result<Vec<Sym>, QError> {
    query.columns.iter().map(|field| deleted_name(field).ok_or(QError::named("type"))).collect()
}

/// Names of the result's columns; duplicates get a numeric suffix.
fn names(fields: &[(Option<Sym>, Node)]) -> Result<Vec<Sym>, QError> {
    crate::verbs::tables::unique_names(
        fields.iter().map(|(name, node)| name.or_else(|| column_name(node)).unwrap_or(prims::name("x"))),
    )
}

pub(crate) fn select(context: &mut Context, query: &Query, selected: &Selected, frame: &mut Frame) -> Walk<Value> {
    if let Some(by) = &query.by {
        return grouped_select(context, query, by, selected, frame);
    }
    if query.columns.is_empty() {
        let all = selected.all(context)?;
        return Ok(if query.distinct { distinct(all)? } else { Value::table(all) });
    }
    let values = evaluate(context, &query.columns, selected, frame)?;
    let rows = values.iter().find(|v| !v.is_scalar()).map(Value::count);
    let mut columns = Vec::with_capacity(values.len());
    for value in values {
        let column = match rows {
            Some(rows) if value.is_scalar() => Value::collapse(vec![value; rows]),
            None => Value::collapse(vec![value]),
            _ => value,
        };
        let column = match column {
            Value::Vector(v) => v,
            other => other.into_vector().ok_or(QError::named("type"))?,
        };
        if rows.is_some_and(|r| column.len() != r) {
            return Err(QError::named("length").into());
        }
        columns.push(column);
    }
    let table = Table::new(names(&query.columns)?, columns);
    Ok(if query.distinct { distinct(table)? } else { Value::table(table) })
}

fn distinct(table: Table) -> Result<Value, QError> {
    let firsts = find::row_groups(&table.columns)?.firsts;
    Ok(Value::table(table.rows(&firsts)))
}

/// Evaluates the columns over the selected rows.
fn evaluate(
    context: &mut Context,
    fields: &[(Option<Sym>, Node)],
    selected: &Selected,
    frame: &mut Frame,
) -> Walk<Vec<Value>> {
    within(context, &selected.table, selected.rows.as_ref(), |c| {
        let mut out = Vec::with_capacity(fields.len());
        for (_, node) in fields {
            out.push(c.node(node, frame)?);
        }
        Ok(out)
    })
}

fn grouped_select(
    context: &mut Context,
    query: &Query,
    by: &[(Option<Sym>, Node)],
    selected: &Selected,
    frame: &mut Frame,
) -> Walk<Value> {
    let mut grouped = group(context, by, selected, frame)?;
    let key_names = names(by)?;
    let (value_names, columns) = if query.columns.is_empty() {
        // Without columns, the result is the last row of each group.
        let request = Aggregation { aggregate: Aggregate::Last, arguments: vec![0] };
        let number = [RowWise::Number(selected.rows.clone())];
        let lasts = grouped.aggregate(&context.allowance, &number, &[request], selected.count())?;
        let lasts = lasts.and_then(|mut l| l.pop()).and_then(|l| crate::verbs::convert::rows(&l)).unwrap_or_default();
        let mut names = Vec::new();
        let mut columns = Vec::new();
        for (name, column) in selected.table.names.iter().zip(&selected.table.columns) {
            if limits::place(&key_names, *name)?.is_none() {
                names.push(*name);
                columns.push(column.items.gather(&lasts).into());
            }
        }
        (names, columns)
    } else {
        let nodes: Vec<&Node> = query.columns.iter().map(|(_, node)| node).collect();
        (names(&query.columns)?, by_group::columns(context, &nodes, selected, &mut grouped, frame)?)
    };
    let mut keys = Table::new(key_names, grouped.keys(&context.allowance)?);
    mark_sorted(&mut keys);
    Ok(Value::dict(Value::table(keys), Value::table(Table::new(value_names, columns))))
}

pub(crate) fn exec(context: &mut Context, query: &Query, selected: &Selected, frame: &mut Frame) -> Walk<Value> {
    if let Some([(None, Node { kind: Kind::Const(Value::Bool(false)), .. })]) = query.by.as_deref() {
        return select(context, &Query { verb: Verb::Select, by: None, ..query.clone() }, selected, frame);
    }
    // Without columns, the result is the last row of each group, as for select: `exec by x:c` has the functional form of `select by x:c`.
    if let (Some(by), true) = (&query.by, query.columns.is_empty()) {
        let all = select(context, &Query { verb: Verb::Select, ..query.clone() }, selected, frame)?;
        return Ok(match (&all, &by[..]) {
            (Value::Dict(d), [(None, _)]) => match &d.keys {
                Value::Table(keys) => Value::dict(
                    keys.columns.first().map_or(Value::Null, |key| Value::of_column(key.clone())),
                    d.values.clone(),
                ),
                _ => all,
            },
            _ => all,
        });
    }
    if let Some(by) = &query.by {
        let mut grouped = group(context, by, selected, frame)?;
        let key_names = names(by)?;
        let keys = |context: &Context, grouped: &mut Grouped| -> Result<Value, QError> {
            let keys = grouped.keys(&context.allowance)?;
            Ok(match &keys[..] {
                // Rows of a table are its keys.
                // `exec sum v by k from t` sorts its groups by k, so the keys of the result have `` `s# ``.
                [only] if by.first().is_some_and(|(name, _)| name.is_none()) => match &only.items {
                    Items::List(_) => Value::of_column(only.clone()),
                    items => Vector { attr: Attr::Sorted, items: items.clone() }.into(),
                },
                _ => Value::table(Table::new(key_names.clone(), keys)),
            })
        };
        if let [(None, node)] = &query.columns[..] {
            let mut values = by_group::values(context, &[node], selected, &mut grouped, frame)?;
            return Ok(Value::dict(keys(context, &mut grouped)?, values.pop().unwrap_or(Value::Null)));
        }
        let nodes: Vec<&Node> = query.columns.iter().map(|(_, node)| node).collect();
        let columns = by_group::columns(context, &nodes, selected, &mut grouped, frame)?;
        let values: Value = match <[Vector; 1]>::try_from(columns) {
            Ok(one) => Value::table(Table::new(names(&query.columns)?, one.to_vec())),
            Err(columns) => Value::table(Table::new(names(&query.columns)?, columns)),
        };
        return Ok(Value::dict(keys(context, &mut grouped)?, values));
    }
    if query.columns.is_empty() {
        let all = selected.all(context)?;
        let last = all.count().wrapping_sub(1);
        return Ok(all.row(last));
    }
    let mut values = evaluate(context, &query.columns, selected, frame)?;
    if values.len() == 1 && query.columns.first().is_some_and(|(name, _)| name.is_none()) {
        let only = match values.remove(0) {
            Value::Vector(column) => Value::of_column(column),
            other => other,
        };
        return Ok(if query.distinct { crate::verbs::sets::distinct(context, only)? } else { only });
    }
    Ok(Value::dict(Value::symbols(names(&query.columns)?), Value::collapse(values)))
}

fn delete(query: &Query, selected: &Selected) -> Walk<Table> {
    let table = &selected.table;
    if query.columns.is_empty() {
        let mut gone = vec![selected.rows.is_none(); table.count()];
        for row in selected.rows.iter().flat_map(|r| r.iter()) {
            if let Some(slot) = gone.get_mut(*row as usize) {
                *slot = true;
            }
        }
        let kept: Vec<u32> = gone.iter().enumerate().filter(|(_, g)| !**g).map(|(i, _)| i as u32).collect();
        return Ok(table.rows(&kept));
    }
    // As in kdb+, a column that is not there needs no deletion.
    let gone = deleted(query)?;
    let mut out = Table::new(Vec::new(), Vec::new());
    for (name, column) in table.names.iter().zip(&table.columns) {
        if limits::place(&gone, *name)?.is_none() {
            out.names.push(*name);
            out.columns.push(column.clone());
        }
    }
    Ok(out)
}

/// The rows in the order of their keys, of which there is one for each row.
fn ranked(keys: Value, descending: bool, rows: usize) -> Result<Vec<u32>, QError> {
    let keys = keys.into_vector().ok_or(QError::named("type"))?;
    if keys.len() != rows {
        return Err(QError::named("length"));
    }
    sort::rows_ascending(&keys.items, descending)
}

/// `select[n;>column]` without groups: selects and orders rows.
fn shorten_rows(context: &mut Context, query: &Query, selected: Selected, frame: &mut Frame) -> Walk<Selected> {
    if query.order.is_none() && query.limit.is_none() {
        return Ok(selected);
    }
    let count = selected.count();
    let order = match &query.order {
        Some((descending, by)) => {
            let keys = within(context, &selected.table, selected.rows.as_ref(), |c| c.node(by, frame))?;
            Some(ranked(keys, *descending, count)?)
        }
        None => None,
    };
    let range = match &query.limit {
        Some(limit) => crate::verbs::take::sublist_range(&context.node(limit, frame)?, count)?,
        None => 0..count,
    };
    let row = |at: usize| {
        let at = order.as_ref().map_or(at as u32, |order| order.get(at).copied().unwrap_or(0));
        selected.rows.as_ref().map_or(at, |rows| rows.get(at as usize).copied().unwrap_or(0))
    };
    let rows = range.map(row).collect();
    Ok(Selected { rows: Some(Arc::new(rows)), table: selected.table })
}

/// `select[n;>column]` with groups: selects and orders groups.
fn shorten(context: &mut Context, query: &Query, result: Value, frame: &mut Frame) -> Walk<Value> {
    let mut result = result;
    if let Some((descending, by)) = &query.order {
        let (flat, keys) = tables::flat(context, &result)?;
        let by = within(context, &flat, None, |c| c.node(by, frame))?;
        let rows = ranked(by, *descending, flat.count())?;
        result = crate::verbs::rows::key_by(keys, &flat.rows(&rows))?;
    }
    if let Some(limit) = &query.limit {
        let limit = context.node(limit, frame)?;
        result = crate::verbs::take::sublist(context, limit, result)?;
    }
    Ok(result)
}
