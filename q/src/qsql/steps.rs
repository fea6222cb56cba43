//! Queries of a table on disk read what they need: of the columns in the first where-clause all rows; of those in each further clause, and of the
//! other columns that the query uses, the rows that are left.

use crate::io::files::folder::{Chosen, Part};
use crate::qsql::{self, Selected};
use crate::runtime::context::Context;
use crate::runtime::frame::{Frame, Walk};
use crate::syntax::ast::{Kind, Node};
use crate::syntax::{prims, resolve};
use columns::table::symbol::text;
use columns::table::{Items, Sym, Table, Vector};
use std::sync::Arc;

/// Returns the columns that expressions use, also as the head of `column.part`, and the names that have such a part.
pub(super) fn columns_of<'n>(nodes: impl Iterator<Item = &'n Node>) -> (Vec<Sym>, Vec<Sym>) {
    let (mut found, mut dotted) = (Vec::new(), Vec::new());
    for node in nodes {
        resolve::walk(node, &mut |n| {
            if let Kind::Column(name, _) = n.kind {
                let stem = text(name).split(|c| *c == b'.').next().unwrap_or_default();
                let stem = crate::runtime::values::symbol(stem).unwrap_or(name);
                if !found.contains(&stem) {
                    found.push(stem);
                }
                if stem != name && !dotted.contains(&name) {
                    dotted.push(name);
                }
            }
        });
    }
    (found, dotted)
}

/// What a query reads of a table.
pub(super) struct Reading<'q> {
    pub filters: &'q [Node],
    /// Columns of the query, with those of the clauses.
    pub needed: Vec<Sym>,
    /// Whether the query uses `i`, the rows' numbers in their part.
    pub numbers: bool,
}

/// Whether `i` is among these names.
pub(super) fn uses_numbers(names: &[Sym]) -> bool {
    names.iter().any(|name| text(*name) == b"i")
}

/// Adds the virtual column `i`, also to a table that has no column to say how many rows there are.
fn add_numbers(table: &mut Table, is_used: bool, numbers: impl FnOnce() -> Vector) {
    let name = prims::name("i");
    if (is_used || table.columns.is_empty()) && table.column(name).is_none() {
        table.names.push(name);
        table.columns.push(numbers());
    }
}

/// Row numbers of a whole part.
pub(super) fn row_numbers(rows: usize) -> Vector {
    Items::Long((0..rows as i64).collect()).into()
}

impl Reading<'_> {
    /// Reads the rows of a part that the clauses select.
    pub fn selected(&self, context: &mut Context, part: &Part, frame: &mut Frame) -> Walk<Selected> {
        let mut clauses = self.filters.iter();
        let Some(first) = clauses.next() else {
            let (mut table, rows) = part.columns(context, Some(&self.needed))?;
            add_numbers(&mut table, self.numbers, || row_numbers(rows));
            return Ok(Selected::whole(Arc::new(table)));
        };
        let (names, _) = columns_of(std::iter::once(first));
        let (mut table, count) = part.columns(context, Some(&names))?;
        let read = table.names.iter().find(|name| part.names().contains(name)).copied();
        add_numbers(&mut table, self.numbers, || row_numbers(count));
        let found = qsql::filter(context, Arc::new(table), std::slice::from_ref(first), frame)?;
        // Columns that were read, of the rows that are left; and these rows' numbers.
        let mut known = found.all(context)?;
        let mut rows = found.into_rows();
        for clause in clauses {
            let (names, _) = columns_of(std::iter::once(clause));
            self.read(context, part, &names, &mut known, &Chosen { rows: &rows, count, read })?;
            let found = qsql::filter(context, Arc::new(known), std::slice::from_ref(clause), frame)?;
            known = found.all(context)?;
            let left = found.into_rows();
            rows = Arc::new(left.iter().filter_map(|at| rows.get(*at as usize)).copied().collect());
        }
        self.read(context, part, &self.needed, &mut known, &Chosen { rows: &rows, count, read })?;
        let mut table = Table::new(Vec::new(), Vec::new());
        // In the order of the part's columns; those of clauses alone are not needed any more.
        let virtual_column = prims::name("i");
        let all = part.field().into_iter().chain(part.names().iter().copied()).chain([virtual_column]);
        for name in all {
            if let (true, Some(column), None) = (self.needed.contains(&name), known.column(name), table.column(name)) {
                table.names.push(name);
                table.columns.push(column.clone());
            }
        }
        add_numbers(&mut table, false, || Items::Long(rows.iter().map(|row| i64::from(*row)).collect()).into());
        Ok(Selected::whole(Arc::new(table)))
    }

    /// Reads the columns in `names` that are not known yet.
    fn read(&self, context: &mut Context, part: &Part, names: &[Sym], known: &mut Table, chosen: &Chosen) -> Walk<()> {
        let is_wanted = |name: &&Sym| known.column(**name).is_none();
        let wanted: Vec<Sym> = names.iter().filter(is_wanted).copied().collect();
        let more = part.rows(context, &wanted, chosen)?;
        known.names.extend(more.names);
        known.columns.extend(more.columns);
        let rows = chosen.rows;
        add_numbers(known, self.numbers, || Items::Long(rows.iter().map(|row| i64::from(*row)).collect()).into());
        Ok(())
    }
}
