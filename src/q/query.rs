//! qSQL: where-clauses to selections, groups to dense ids, aggregates as partials, everything else by the evaluator
//! over column vectors.

use super::aggregate::{self, Grouping};
use super::ast::{Kind, Node, Query, Verb};
use super::context::Context;
use super::error::QError;
use super::eval::{Flow, Frame};
use super::find;
use super::prims;
use super::resolve::column_name;
use super::sort;
use super::tables;
use crate::kernel::keys::Groups;
use crate::table::symbol::text;
use crate::table::{Attr, Items, Sym, Table, Value, Vector};
use std::sync::Arc;

/// A table whose columns are names, and which of its rows count.
pub(super) struct Scope {
    table: Arc<Table>,
    /// `None`: all rows, and columns are used without a copy.
    rows: Option<Arc<Vec<u32>>>,
    /// Columns already cut down to the rows.
    cut: Vec<(Sym, Value)>,
}

/// A column of the innermost table, cut down to its rows; `i` is the row number.
pub(super) fn column(scopes: &mut [Scope], name: Sym) -> Option<Value> {
    let scope = scopes.last_mut()?;
    let whole = match scope.table.column(name) {
        Some(column) => column,
        None if text(name) == b"i" => {
            let rows = match &scope.rows {
                Some(rows) => rows.iter().map(|r| i64::from(*r)).collect(),
                None => (0..scope.table.count() as i64).collect(),
            };
            return Some(Value::longs(rows));
        }
        None => return None,
    };
    let Some(rows) = &scope.rows else { return Some(whole.clone().into()) };
    if let Some((_, cut)) = scope.cut.iter().find(|(n, _)| *n == name) {
        return Some(cut.clone());
    }
    let cut: Value = whole.items.gather(rows).into();
    scope.cut.push((name, cut.clone()));
    Some(cut)
}

pub(super) type Walk<T> = Result<T, Flow>;

/// The rows of a table that its where-clauses leave.
pub(super) struct Selected {
    table: Arc<Table>,
    rows: Option<Arc<Vec<u32>>>,
}

impl Selected {
    fn count(&self) -> usize {
        self.rows.as_ref().map_or(self.table.count(), |r| r.len())
    }

    pub(super) fn whole(table: Arc<Table>) -> Selected {
        Selected { table, rows: None }
    }

    pub(super) fn row_numbers(&self) -> Vec<usize> {
        match &self.rows {
            Some(rows) => rows.iter().map(|r| *r as usize).collect(),
            None => (0..self.table.count()).collect(),
        }
    }

    pub(super) fn all(&self) -> Table {
        match &self.rows {
            Some(rows) => self.table.rows(rows),
            None => (*self.table).clone(),
        }
    }
}

/// Evaluates with the columns of `table`, cut to `rows`, as names.
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

/// Runs a template.
pub(super) fn template(context: &mut Context, query: &Query, frame: &mut Frame) -> Walk<Value> {
    let from = context.eval(&query.from, frame)?;
    if query.verb == Verb::Delete
        && let Some(result) = delete_names(context, query, &from)?
    {
        return Ok(result);
    }
    if let Some((columns, place)) = super::files::database::described(context, &from)
        && !super::files::is_path(place)
    {
        return super::parted::template(context, query, (columns, place), frame);
    }
    let (table, keys) = tables::flat(context, &from)?;
    if table.count() > u32::MAX as usize {
        return Err(QError::with("limit", "more than 4294967295 rows").into());
    }
    let mut selected = filter(context, table, &query.filters, frame)?;
    let result = match query.verb {
        Verb::Select => {
            let plain = query.columns.is_empty() && query.by.is_none();
            // The select phrase sees only the rows that the limit leaves; groups are limited when they are made.
            if query.by.is_none() && !query.distinct {
                selected = shorten_rows(context, query, selected, frame)?;
            }
            let mut result = select(context, query, &selected, frame)?;
            if query.by.is_some() || query.distinct {
                result = shorten(context, query, result, frame)?;
            }
            return Ok(match &result {
                Value::Table(t) if plain && keys > 0 => tables::key_by(keys, t)?,
                _ => result,
            });
        }
        Verb::Exec => return exec(context, query, &selected, frame),
        Verb::Update => update(context, query, &selected, frame)?,
        Verb::Delete => delete(query, &selected)?,
    };
    let result = tables::key_by(keys.min(result.columns.len()), &result)?;
    if let Value::Sym(name) = from {
        context.set_global(name, result)?;
        return Ok(from);
    }
    Ok(result)
}

/// `` delete a from `. `` and `` delete k from d ``: globals of a namespace, keys of a dictionary.
fn delete_names(context: &mut Context, query: &Query, from: &Value) -> Result<Option<Value>, QError> {
    let held = match from {
        Value::Sym(name) => context.host.global(*name),
        other => Some(other.clone()),
    };
    match (&held, from) {
        (Some(Value::Dict(d)), _) if d.keyed().is_none() => {
            let rest = super::shape::drop(context, Value::symbols(names(&query.columns)?), Value::Dict(Arc::clone(d)))?;
            if let Value::Sym(name) = from {
                context.set_global(*name, rest)?;
                return Ok(Some(from.clone()));
            }
            Ok(Some(rest))
        }
        (None, Value::Sym(space)) if context.namespace(*space).is_some() => {
            for name in names(&query.columns)? {
                let root = text(*space) == b"." || *space == Sym::NULL;
                let full = if root { name } else { super::resolve::qualify(name, *space)? };
                context.host.remove(full)?;
            }
            Ok(Some(from.clone()))
        }
        _ => Ok(None),
    }
}

pub(super) fn filter(context: &mut Context, table: Arc<Table>, filters: &[Node], frame: &mut Frame) -> Walk<Selected> {
    let mut rows: Option<Arc<Vec<u32>>> = None;
    for clause in filters {
        context.check()?;
        if rows.is_none()
            && let Some(found) = indexed(context, &table, clause, frame)?
        {
            rows = Some(Arc::new(found));
            continue;
        }
        let count = rows.as_ref().map_or(table.count(), |r| r.len());
        let holds = within(context, &table, rows.as_ref(), |c| c.eval(clause, frame))?;
        rows = Some(Arc::new(keep(&holds, rows.as_deref(), count)?));
    }
    Ok(Selected { table, rows })
}

/// The rows of a first clause `column=symbol` or `column in symbols` by the column's index, where the host has one.
fn indexed(context: &mut Context, table: &Table, clause: &Node, frame: &mut Frame) -> Walk<Option<Vec<u32>>> {
    /// More symbols than this are found as fast by a scan.
    const MOST: usize = 64;
    let Kind::Apply(f, arguments) = &clause.kind else { return Ok(None) };
    let (Kind::Const(f), [Some(x), Some(y)]) = (&f.kind, arguments.as_slice()) else { return Ok(None) };
    let Kind::Column(name, _) = &x.kind else { return Ok(None) };
    let Some(Vector { attr: Attr::Grouped, items: Items::Sym(column) }) = table.column(*name) else { return Ok(None) };
    let wanted = match &y.kind {
        Kind::Const(value) => value.clone(),
        Kind::Local(_) | Kind::Global(_) => context.eval(y, frame)?,
        Kind::Column(name, outer) if table.column(*name).is_none() => match outer.kind {
            Kind::Local(_) | Kind::Global(_) if text(*name) != b"i" => context.eval(outer, frame)?,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let symbols = match (&wanted, prims::is_glyph(f, "="), prims::name_of(f)) {
        (Value::Sym(symbol), true, _) | (Value::Sym(symbol), _, Some("in")) => vec![*symbol],
        (wanted, false, Some("in")) => match wanted.as_symbols() {
            Some(symbols) if symbols.len() <= MOST => symbols.to_vec(),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let mut found = Vec::new();
    let mut seen: Vec<Sym> = Vec::new();
    for symbol in symbols {
        if seen.contains(&symbol) {
            continue;
        }
        let Some(rows) = context.host.rows_of(column, symbol) else { return Ok(None) };
        found.extend(rows);
        seen.push(symbol);
    }
    if seen.len() > 1 {
        found.sort_unstable();
    }
    Ok(Some(found))
}

/// The rows where a clause holds.
fn keep(holds: &Value, rows: Option<&Vec<u32>>, count: usize) -> Result<Vec<u32>, QError> {
    let row = |i: usize| rows.map_or(i as u32, |r| r.get(i).copied().unwrap_or(0));
    match holds {
        Value::Vector(Vector { items: Items::Bool(bits), .. }) => {
            if bits.len() != count {
                return Err(QError::named("length"));
            }
            let total = bits.iter().map(|b| usize::from(*b)).sum();
            let mut out = Vec::with_capacity(total);
            for (i, bit) in bits.iter().enumerate() {
                if *bit != 0 {
                    out.push(row(i));
                }
            }
            Ok(out)
        }
        Value::Vector(v) => {
            let bits = super::arith::longs(&v.items, 7).map_err(|_| QError::named("type"))?;
            if bits.len() != count {
                return Err(QError::named("length"));
            }
            Ok(bits.iter().enumerate().filter(|(_, b)| **b != 0).map(|(i, _)| row(i)).collect())
        }
        atom => Ok(if super::eval::truth(atom)? { (0..count).map(row).collect() } else { Vec::new() }),
    }
}

/// Names of the result's columns; those that come twice get a number behind them.
fn names(fields: &[(Option<Sym>, Node)]) -> Result<Vec<Sym>, QError> {
    super::eval::unique_names(
        fields.iter().map(|(name, node)| name.or_else(|| column_name(node)).unwrap_or(prims::name("x"))),
    )
}

pub(super) fn select(context: &mut Context, query: &Query, selected: &Selected, frame: &mut Frame) -> Walk<Value> {
    if let Some(by) = &query.by {
        return grouped_select(context, query, by, selected, frame);
    }
    if query.columns.is_empty() {
        let all = selected.all();
        return Ok(if query.distinct { distinct(all) } else { Value::table(all) });
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
    Ok(if query.distinct { distinct(table) } else { Value::table(table) })
}

fn distinct(table: Table) -> Value {
    let firsts = find::row_groups(&table.columns).firsts;
    Value::table(table.rows(&firsts))
}

/// The values of the columns over the selected rows.
fn evaluate(
    context: &mut Context,
    fields: &[(Option<Sym>, Node)],
    selected: &Selected,
    frame: &mut Frame,
) -> Walk<Vec<Value>> {
    within(context, &selected.table, selected.rows.as_ref(), |c| {
        let mut out = Vec::with_capacity(fields.len());
        for (_, node) in fields {
            out.push(c.eval(node, frame)?);
        }
        Ok(out)
    })
}

/// Groups of the selected rows, numbered in the order of their keys.
struct Grouped {
    groups: Groups,
    /// One item per group.
    keys: Vec<Vector>,
    /// For each group the rows of the table.
    members: Option<Vec<Arc<Vec<u32>>>>,
}

fn group(context: &mut Context, by: &[(Option<Sym>, Node)], selected: &Selected, frame: &mut Frame) -> Walk<Grouped> {
    let values = evaluate(context, by, selected, frame)?;
    let count = selected.count();
    let mut columns: Vec<Vector> = Vec::with_capacity(values.len());
    for value in values {
        let column = if value.is_scalar() { Value::collapse(vec![value; count]) } else { value };
        let column = column.into_vector().ok_or(QError::named("type"))?;
        if column.len() != count {
            return Err(QError::named("length").into());
        }
        columns.push(column);
    }
    let mut groups = find::row_groups(&columns);
    if columns.is_empty() {
        groups = Groups { ids: vec![0; count], firsts: if count > 0 { vec![0] } else { Vec::new() } };
    }
    let keys: Vec<Vector> = columns.iter().map(|c| c.items.gather(&groups.firsts).into()).collect();
    let order = sort::rows_by_columns(&keys.iter().collect::<Vec<_>>(), groups.firsts.len(), false);
    let mut place = vec![0u32; order.len()];
    for (new, old) in order.iter().enumerate() {
        if let Some(slot) = place.get_mut(*old as usize) {
            *slot = new as u32;
        }
    }
    for id in &mut groups.ids {
        *id = place.get(*id as usize).copied().unwrap_or(0);
    }
    groups.firsts = order.iter().map(|o| groups.firsts.get(*o as usize).copied().unwrap_or(0)).collect();
    let keys = keys.iter().map(|k| k.items.gather(&order).into()).collect();
    Ok(Grouped { groups, keys, members: None })
}

impl Grouped {
    fn members(&mut self, selected: &Selected) -> &[Arc<Vec<u32>>] {
        let groups = &self.groups;
        self.members.get_or_insert_with(|| {
            let mut members = groups.members();
            if let Some(rows) = &selected.rows {
                for member in members.iter_mut().flatten() {
                    *member = rows.get(*member as usize).copied().unwrap_or(0);
                }
            }
            members.into_iter().map(Arc::new).collect()
        })
    }
}

/// An aggregate applied to expressions, where that is what a column is.
fn as_aggregate(node: &Node) -> Option<(aggregate::Aggregate, Vec<&Node>)> {
    let Kind::Apply(f, arguments) = &node.kind else { return None };
    let Kind::Const(f) = &f.kind else { return None };
    let aggregate = aggregate::of(f)?;
    let arguments: Option<Vec<&Node>> = arguments.iter().map(Option::as_ref).collect();
    let arguments = arguments?;
    let wanted =
        if matches!(aggregate, aggregate::Aggregate::WeightedAvg | aggregate::Aggregate::WeightedSum) { 2 } else { 1 };
    (arguments.len() == wanted).then_some((aggregate, arguments))
}

/// Whether an expression gives for each row what it gives for that row alone: it can be evaluated over all groups at
/// once before it is aggregated.
fn is_row_wise(node: &Node) -> bool {
    match &node.kind {
        Kind::Const(v) => v.is_atom(),
        Kind::Column(..) => true,
        Kind::Apply(f, arguments) => {
            let atomic = matches!(&f.kind, Kind::Const(f) if prims::is_atomic(f));
            atomic && arguments.iter().all(|a| a.as_ref().is_some_and(is_row_wise))
        }
        _ => false,
    }
}

/// One value per group of one column's expression.
fn per_group(
    context: &mut Context,
    node: &Node,
    selected: &Selected,
    grouped: &mut Grouped,
    frame: &mut Frame,
) -> Walk<Value> {
    let n = grouped.groups.firsts.len();
    if let Some((aggregate, arguments)) = as_aggregate(node)
        && arguments.iter().all(|a| is_row_wise(a))
    {
        let values = within(context, &selected.table, selected.rows.as_ref(), |c| {
            let mut out = Vec::with_capacity(arguments.len());
            for argument in &arguments {
                out.push(c.eval(argument, frame)?);
            }
            Ok(out)
        })?;
        let count = selected.count();
        if values.iter().all(|v| matches!(v, Value::Vector(v) if v.len() == count)) {
            let items: Vec<Items> = values.into_iter().map(|v| v.to_items()).collect();
            let by = Grouping { ids: Some(&grouped.groups.ids), groups: n };
            if let Some(result) = aggregate::grouped(aggregate, &items, count, by)? {
                return Ok(result.into());
            }
        }
    }
    let mut out = Vec::with_capacity(n);
    for rows in grouped.members(selected).to_vec() {
        context.tick()?;
        out.push(within(context, &selected.table, Some(&rows), |c| c.eval(node, frame))?);
    }
    Ok(Value::collapse(out))
}

/// As [`per_group`], as a column.
fn group_column(
    context: &mut Context,
    node: &Node,
    selected: &Selected,
    grouped: &mut Grouped,
    frame: &mut Frame,
) -> Walk<Vector> {
    let value = per_group(context, node, selected, grouped, frame)?;
    Ok(value.into_vector().ok_or(QError::named("type"))?)
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
        // Without columns: the last row of each group.
        let lasts: Vec<u32> = grouped.members(selected).iter().filter_map(|m| m.last().copied()).collect();
        let mut names = Vec::new();
        let mut columns = Vec::new();
        for (name, column) in selected.table.names.iter().zip(&selected.table.columns) {
            if !key_names.contains(name) {
                names.push(*name);
                columns.push(column.items.gather(&lasts).into());
            }
        }
        (names, columns)
    } else {
        let mut columns = Vec::with_capacity(query.columns.len());
        for (_, node) in &query.columns {
            context.check()?;
            columns.push(group_column(context, node, selected, &mut grouped, frame)?);
        }
        (names(&query.columns)?, columns)
    };
    let mut keys = Table::new(key_names, grouped.keys);
    if let [only] = &mut keys.columns[..] {
        only.attr = crate::table::Attr::Sorted;
    }
    Ok(Value::dict(Value::table(keys), Value::table(Table::new(value_names, columns))))
}

pub(super) fn exec(context: &mut Context, query: &Query, selected: &Selected, frame: &mut Frame) -> Walk<Value> {
    if let Some([(None, Node { kind: Kind::Const(Value::Bool(false)), .. })]) = query.by.as_deref() {
        return select(context, &Query { verb: Verb::Select, by: None, ..query.clone() }, selected, frame);
    }
    if let Some(by) = &query.by {
        let mut grouped = group(context, by, selected, frame)?;
        let key_names = names(by)?;
        let keys: Value = match &grouped.keys[..] {
            [only] if by.first().is_some_and(|(name, _)| name.is_none()) => only.clone().into(),
            _ => Value::table(Table::new(key_names, grouped.keys.clone())),
        };
        if let [(None, node)] = &query.columns[..] {
            let values = per_group(context, node, selected, &mut grouped, frame)?;
            return Ok(Value::dict(keys, values));
        }
        let mut columns = Vec::with_capacity(query.columns.len());
        for (_, node) in &query.columns {
            columns.push(group_column(context, node, selected, &mut grouped, frame)?);
        }
        let values: Value = match <[Vector; 1]>::try_from(columns) {
            Ok(one) => Value::table(Table::new(names(&query.columns)?, one.to_vec())),
            Err(columns) => Value::table(Table::new(names(&query.columns)?, columns)),
        };
        return Ok(Value::dict(keys, values));
    }
    if query.columns.is_empty() {
        let all = selected.all();
        let last = all.count().wrapping_sub(1);
        return Ok(all.row(last));
    }
    let mut values = evaluate(context, &query.columns, selected, frame)?;
    if values.len() == 1 && query.columns.first().is_some_and(|(name, _)| name.is_none()) {
        let only = values.remove(0);
        return Ok(if query.distinct { super::sets::distinct(context, only)? } else { only });
    }
    Ok(Value::dict(Value::symbols(names(&query.columns)?), Value::collapse(values)))
}

/// `column` with `values` at `rows`; a new column is null elsewhere.
fn scatter(old: Option<&Vector>, values: Value, rows: Option<&[u32]>, count: usize) -> Result<Vector, QError> {
    let wanted = rows.map_or(count, <[u32]>::len);
    if values.is_scalar() || matches!(values, Value::Dict(_)) {
        let repeated = Value::collapse(vec![values; wanted.max(1)]);
        let repeated = repeated.into_vector().ok_or(QError::named("type"))?.cut(0, wanted);
        return scatter(old, repeated.into(), rows, count);
    }
    let Some(values) = values.into_vector() else { return Err(QError::named("type")) };
    if values.len() != wanted {
        return Err(QError::named("length"));
    }
    let Some(rows) = rows else { return Ok(values) };
    let (a, b) = (old.map(|o| o.items.type_number()), values.items.type_number());
    if a.is_some_and(|a| a != b && a != 0 && !values.is_empty()) {
        return Err(QError::named("type"));
    }
    // New values first, then the old: each row says where its item lies.
    let base = match old {
        Some(old) => old.items.clone(),
        None => values.items.gather(&vec![-1i64; count]),
    };
    let both = base.join(&values.items);
    let mut from: Vec<i64> = (0..count as i64).collect();
    for (i, row) in rows.iter().enumerate() {
        if let Some(slot) = from.get_mut(*row as usize) {
            *slot = (count + i) as i64;
        }
    }
    Ok(both.gather(&from).into())
}

fn update(context: &mut Context, query: &Query, selected: &Selected, frame: &mut Frame) -> Walk<Table> {
    let mut out = (*selected.table).clone();
    let count = out.count();
    let column_names = names(&query.columns)?;
    let mut results = Vec::with_capacity(column_names.len());
    if let Some(by) = &query.by {
        let mut grouped = group(context, by, selected, frame)?;
        for (_, node) in &query.columns {
            let mut values: Vec<Value> = Vec::with_capacity(selected.count());
            let mut rows: Vec<u32> = Vec::with_capacity(selected.count());
            for member in grouped.members(selected).to_vec() {
                context.tick()?;
                let value = within(context, &selected.table, Some(&member), |c| c.eval(node, frame))?;
                if !value.is_scalar() && value.count() != member.len() {
                    return Err(QError::named("length").into());
                }
                for i in 0..member.len() {
                    values.push(if value.is_scalar() { value.clone() } else { value.at(i) });
                }
                rows.extend_from_slice(&member);
            }
            results.push((Value::collapse(values), Some(rows)));
        }
    } else {
        let rows = selected.rows.as_ref().map(|r| r.to_vec());
        for value in evaluate(context, &query.columns, selected, frame)? {
            results.push((value, rows.clone()));
        }
    }
    for (name, (value, rows)) in column_names.iter().zip(results) {
        let at = out.names.iter().position(|n| n == name);
        let whole = rows.as_ref().is_some_and(|r| r.len() == count);
        let old = at.and_then(|a| out.columns.get(a));
        let new = scatter(if whole && query.by.is_some() { None } else { old }, value, rows.as_deref(), count)?;
        match at.and_then(|a| out.columns.get_mut(a)) {
            Some(column) => *column = new,
            None => {
                out.names.push(*name);
                out.columns.push(new);
            }
        }
    }
    Ok(out)
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
    let gone = names(&query.columns)?;
    let mut out = Table::new(Vec::new(), Vec::new());
    for name in &gone {
        super::index::column(table, *name)?;
    }
    for (name, column) in table.names.iter().zip(&table.columns) {
        if !gone.contains(name) {
            out.names.push(*name);
            out.columns.push(column.clone());
        }
    }
    Ok(out)
}

/// `select[n;>column]` of rows: those of them that are wanted, in their order.
fn shorten_rows(context: &mut Context, query: &Query, selected: Selected, frame: &mut Frame) -> Walk<Selected> {
    if query.order.is_none() && query.limit.is_none() {
        return Ok(selected);
    }
    let count = selected.count();
    let order = match query.order {
        Some((descending, name)) => {
            let column = super::index::column(&selected.table, name)?;
            let keys = selected.rows.as_ref().map(|rows| column.items.gather(rows));
            Some(sort::rows_ascending(keys.as_ref().unwrap_or(&column.items), descending))
        }
        None => None,
    };
    let wanted = match &query.limit {
        Some(limit) => super::shape::sublist_range(&context.eval(limit, frame)?, count)?,
        None => 0..count,
    };
    let row = |at: usize| {
        let at = order.as_ref().map_or(at as u32, |order| order.get(at).copied().unwrap_or(0));
        selected.rows.as_ref().map_or(at, |rows| rows.get(at as usize).copied().unwrap_or(0))
    };
    let rows = wanted.map(row).collect();
    Ok(Selected { rows: Some(Arc::new(rows)), table: selected.table })
}

/// `select[n;>column]` of groups.
fn shorten(context: &mut Context, query: &Query, result: Value, frame: &mut Frame) -> Walk<Value> {
    let mut result = result;
    if let Some((descending, name)) = query.order {
        let (flat, keys) = tables::flat(context, &result)?;
        let column = super::index::column(&flat, name)?;
        let rows = sort::rows_ascending(&column.items, descending);
        result = tables::key_by(keys, &flat.rows(&rows))?;
    }
    if let Some(limit) = &query.limit {
        let limit = context.eval(limit, frame)?;
        result = super::shape::sublist(context, limit, result)?;
    }
    Ok(result)
}
