//! `update`: assigns columns at the selected rows, with or without groups.

use super::groups::Grouped;
use super::keys::group;
use super::{Selected, by_group, evaluate, names, within};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Frame, Walk};
use crate::syntax::ast::{Node, Query};
use crate::verbs::above::Evaluate;
use crate::verbs::fit::{Width, of_width};
use columns::table::{Items, Table, Value, Vector};

/// Returns `column` with `values` at `rows`; a new column is null elsewhere.
fn scatter(old: Option<&Vector>, values: Value, rows: Option<&[u32]>, count: usize) -> Result<Vector, QError> {
    let expected = rows.map_or(count, <[u32]>::len);
    if is_one(&values) || matches!(values, Value::Dict(_)) {
        let repeated = Value::collapse(vec![values; expected.max(1)]);
        let repeated = repeated.into_vector().ok_or(QError::named("type"))?.cut(0, expected);
        return scatter(old, repeated.into(), rows, count);
    }
    let Some(mut values) = values.into_vector() else { return Err(QError::named("type")) };
    if values.len() != expected {
        return Err(QError::named("length"));
    }
    let Some(rows) = rows else { return Ok(values) };
    // Integers take the width of the column: TorQ counts hits, ints, with `1+hits`.
    match old.map(|old| of_width(old.items.type_number(), &values.items)).transpose()? {
        Some(Width::Changed(items)) => values = items.into(),
        Some(Width::TooSmall) => return Err(QError::named("type")),
        Some(Width::Same) | None => {}
    }
    let (a, b) = (old.map(|o| o.items.type_number()), values.items.type_number());
    if a.is_some_and(|a| a != b && a != 0 && !values.is_empty()) {
        return Err(QError::named("type"));
    }
    // Every row gets a new value: gather the values in row order.
    if old.is_none() && rows.len() == count {
        let mut from = vec![0u32; count];
        for (place, row) in (0..).zip(rows) {
            if let Some(slot) = from.get_mut(*row as usize) {
                *slot = place;
            }
        }
        return Ok(values.items.gather(&from).into());
    }
    // Concatenate old and new values, then gather each row's item.
    let base = match old {
        Some(old) => old.items.clone(),
        None => values.items.gather(&vec![-1i64; count]),
    };
    // Memory for the concatenation, the row numbers and the gathered result.
    let bytes = base.held_bytes().saturating_add(values.items.held_bytes());
    crate::runtime::limits::room(bytes.saturating_mul(2).saturating_add(count.saturating_mul(size_of::<i64>())))?;
    let both = base.join(&values.items);
    let mut from: Vec<i64> = (0..count as i64).collect();
    for (i, row) in rows.iter().enumerate() {
        if let Some(slot) = from.get_mut(*row as usize) {
            *slot = (count + i) as i64;
        }
    }
    Ok(both.gather(&from).into())
}

/// Whether a value is that of every row: an atom, or a record of a column of records.
fn is_one(value: &Value) -> bool {
    value.is_scalar() || matches!(value, Value::Dict(d) if d.keyed().is_none())
}

/// Per-row results collected group by group: a vector while types agree, else a list.
struct Spread {
    vector: Option<Items>,
    rest: Vec<Value>,
}

impl Spread {
    /// Appends the result of a group of `count` rows; an atom or a record is repeated.
    fn put(&mut self, value: Value, count: usize, room: usize) {
        if self.rest.is_empty()
            && let Value::Vector(v) = &value
            && !matches!(v.items, Items::List(_))
        {
            match self.vector.take() {
                None => {
                    self.vector = Some(v.items.cut(0, 0).with_room(room).join(&v.items));
                    return;
                }
                Some(all) if all.type_number() == v.items.type_number() && !all.is_enumerated() => {
                    self.vector = Some(all.join(&v.items));
                    return;
                }
                Some(all) => self.vector = Some(all),
            }
        }
        if let Some(all) = self.vector.take() {
            self.rest.extend((0..all.len()).map(|i| all.get(i)));
        }
        for i in 0..count {
            self.rest.push(if is_one(&value) { value.clone() } else { value.at(i) });
        }
    }

    fn finish(self) -> Value {
        self.vector.map_or_else(|| Value::collapse(self.rest), Value::from)
    }
}

/// Evaluates a column expression group by group: one item per row of the group, or one atom for all.
fn by_groups(
    context: &mut Context,
    node: &Node,
    selected: &Selected,
    grouped: &mut Grouped,
    frame: &mut Frame,
) -> Walk<Value> {
    let mut all = Spread { vector: None, rest: Vec::new() };
    let room = selected.count();
    for member in grouped.members(&context.allowance, selected)?.to_vec() {
        context.tick()?;
        let value = within(context, &selected.table, Some(&member), |c| c.node(node, frame))?;
        if !is_one(&value) && value.count() != member.len() {
            return Err(QError::named("length").into());
        }
        all.put(value, member.len(), room);
    }
    Ok(all.finish())
}

pub(super) fn update(context: &mut Context, query: &Query, selected: &Selected, frame: &mut Frame) -> Walk<Table> {
    let mut out = Table { sorted: false, ..(*selected.table).clone() };
    let count = out.count();
    let column_names = names(&query.columns)?;
    let mut results = Vec::with_capacity(column_names.len());
    if let Some(by) = &query.by {
        let mut grouped = group(context, by, selected, frame)?;
        let nodes: Vec<&Node> = query.columns.iter().map(|(_, node)| node).collect();
        let aggregated = by_group::aggregated(context, &nodes, selected, &mut grouped, frame)?;
        for (node, value) in nodes.into_iter().zip(aggregated) {
            results.push(match value {
                Some(value) => {
                    (value.gather(grouped.ids(&context.allowance)?), selected.rows.as_ref().map(|r| r.to_vec()))
                }
                None => {
                    let value = by_groups(context, node, selected, &mut grouped, frame)?;
                    let members = grouped.members(&context.allowance, selected)?;
                    (value, Some(members.iter().flat_map(|m| m.iter().copied()).collect()))
                }
            });
        }
    } else {
        let rows = selected.rows.as_ref().map(|r| r.to_vec());
        for value in evaluate(context, &query.columns, selected, frame)? {
            results.push((value, rows.clone()));
        }
    }
    for (name, (value, rows)) in column_names.iter().zip(results) {
        let at = crate::runtime::limits::place(&out.names, *name)?;
        let whole = rows.as_ref().is_some_and(|r| r.len() == count);
        let old = at.and_then(|a| out.columns.get(a));
        // Symbols and keys among those of an enumeration must be in its domain; whole columns are replaced.
        let value = match old.map(|o| &o.items) {
            Some(Items::Enum(domain, _) | Items::Link(domain, _))
                if rows.is_some() && !whole && !value.is_enumerated() =>
            {
                crate::verbs::enums::enumerate(context, *domain, value)?
            }
            _ => value,
        };
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
