//! qSQL over partitions on disk. Leading clauses on the partition field select partitions; the remaining clauses and the columns
//! used by the query are read partition by partition. Aggregates and groups are computed over the selected rows of all
//! partitions, but for groups by the partition field first; those and any other query partition by partition.

use crate::io::files::database;
use crate::io::files::database::Partitions;
use crate::qsql::counted;
use crate::qsql::reduce::{self, Reduced};
use crate::qsql::steps::{Reading, columns_of, row_numbers, uses_numbers};
use crate::qsql::{self, Selected};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Flow, Frame, Walk};
use crate::syntax::ast::{Kind, Node, Query, Verb};
use crate::syntax::prims;
use crate::verbs::attributes::mark_sorted;
use crate::verbs::{find, rows, shape};
use columns::table::symbol::text;
use columns::table::{Items, Sym, Table, Value};
use std::sync::Arc;

/// Whether a name has a value for each row of a partition: a stored column, or `i`.
fn is_in_rows(columns: &[Sym], name: Sym) -> bool {
    columns.contains(&name) || text(name) == b"i"
}

/// Tells which names in a query over a partitioned table are columns, and which are variables.
struct Meaning<'q> {
    field: Sym,
    columns: &'q [Sym],
    frame: &'q Frame,
}

impl Meaning<'_> {
    fn is_of_rows(&self, name: Sym) -> bool {
        name == self.field || is_in_rows(self.columns, name)
    }

    /// Whether an expression uses a column, the partition field or `i`.
    fn reads(&self, node: &Node) -> bool {
        columns_of(std::iter::once(node)).0.into_iter().any(|name| self.is_of_rows(name))
    }

    /// As in kdb+, the first column decides whether the result is that of all partitions together or of each: `date,n:count i` counts in each.
    fn aggregates_first(&self, query: &Query) -> bool {
        query.columns.first().is_some_and(|(_, node)| self.aggregates(node))
    }

    /// The function that a node applies, if it is known before the query runs: a constant, or the value of a local.
    fn function<'n>(&'n self, node: &'n Node) -> Option<&'n Value> {
        match &node.kind {
            Kind::Const(f) => Some(f),
            Kind::Local(at) => self.frame.locals.get(usize::from(*at))?.as_ref(),
            Kind::Column(name, outside) if !self.is_of_rows(*name) => self.function(outside),
            _ => None,
        }
    }

    /// Whether an expression gives one value for any number of rows: an aggregate, alone or combined with operands that use no columns.
    fn aggregates(&self, node: &Node) -> bool {
        const NAMES: [&str; 21] = [
            "count", "first", "last", "sum", "prd", "min", "max", "avg", "wavg", "wsum", "var", "dev", "cov", "cor",
            "med", "all", "any", "svar", "sdev", "scov", "distinct",
        ];
        let parts: Vec<&Node> = match &node.kind {
            Kind::Apply(f, arguments) => {
                if self.function(f).and_then(prims::name_of).is_some_and(|name| NAMES.contains(&name)) {
                    return true;
                }
                if self.reads(f) {
                    return false;
                }
                arguments.iter().flatten().collect()
            }
            Kind::List(parts) | Kind::Cond(parts) => parts.iter().collect(),
            _ => return false,
        };
        // One visit for each node: a client chooses the nesting depth, and two visits at every level would take exponential time.
        let mut is_any = false;
        for part in parts {
            if self.aggregates(part) {
                is_any = true;
            } else if self.reads(part) {
                return false;
            }
        }
        is_any
    }
}

/// Whether groups are those of a partition: by the field first, which no two partitions have the same value of.
fn is_by_field(parts: &Partitions, by: &[(Option<Sym>, Node)]) -> Result<bool, QError> {
    let is_field = |node: &Node| matches!(node.kind, Kind::Column(name, _) if name == parts.field);
    Ok(by.first().is_some_and(|(_, node)| is_field(node))
        && find::groups(&parts.values.items)?.firsts.len() == parts.values.len())
}

/// Runs a query on the partitioned table `table`.
pub(crate) fn template(
    context: &mut Context,
    query: &Query,
    (columns, table): (Vec<Sym>, Sym),
    frame: &mut Frame,
) -> Walk<Value> {
    let parts = database::partitions_of(context, table)?;
    if matches!(query.verb, Verb::Update | Verb::Delete) {
        return Err(
            QError::with("par", "a partitioned table cannot be changed as a whole; change its partitions").into()
        );
    }
    if query.limit.is_some() || query.order.is_some() {
        return Err(QError::with("nyi", "select[…] from a partitioned table").into());
    }
    let (chosen, filters) = choose(context, (&parts, &columns), &query.filters, frame)?;
    let by = query.by.as_deref().unwrap_or_default();
    let named = query.columns.iter().chain(by).map(|(_, node)| node);
    let (needed, dotted) = columns_of(named.chain(filters));
    let all = query.columns.is_empty();
    let numbers = uses_numbers(&needed) && !all;
    let by_field = query.verb == Verb::Select && !query.distinct && !all && is_by_field(&parts, by)?;
    let meaning = Meaning { field: parts.field, columns: &columns, frame };
    let whole = !by_field && (query.by.is_some() || query.distinct || meaning.aggregates_first(query));
    // Of these the heads of the partitions' columns have the numbers.
    let counts = filters.is_empty()
        && !uses_numbers(&columns)
        && counted::only_counts(query)
        && (query.by.is_none() || by_field && by.len() == 1);
    if counts && !chosen.is_empty() {
        return count_rows(context, query, (&parts, table), chosen, frame);
    }
    let together = whole || query.verb == Verb::Exec;
    let reduced = match together && chosen.len() > 1 && (!all || dotted.is_empty()) {
        true => reduce::reduced(query, &columns, parts.field)?,
        false => None,
    };
    let needed = if all { [&[parts.field], &columns[..]].concat() } else { needed };
    let reading = Reading { filters, needed, numbers };
    let mut rows_of = Rows { parts: &parts, table, reading, dotted: &dotted, links: None };
    if let Some(queries) = reduced
        && let Some(result) = by_parts(context, &queries, &mut rows_of, &chosen, frame)?
    {
        return Ok(result);
    }
    let mut left: Vec<Table> = Vec::new();
    let mut results: Vec<Value> = Vec::new();
    for index in chosen {
        let selected = rows_of.selected(context, index, frame)?;
        if together || all {
            let mut rows = selected.all(context)?;
            if all {
                // What links refer to serves the clauses only.
                let own = rows.names.iter().take_while(|name| !dotted.contains(name)).count();
                rows.names.truncate(own);
                rows.columns.truncate(own);
            }
            left.push(rows);
        } else {
            results.push(qsql::select(context, query, &selected, frame)?);
        }
    }
    if by_field && !results.is_empty() {
        return Ok(keyed(context, &results, by.len())?);
    }
    if !results.is_empty() {
        return Ok(joined(context, results)?);
    }
    if left.is_empty() {
        let mut none = parts.head(context, table, 0)?;
        if let (Some(last), false) = (parts.values.len().checked_sub(1), all) {
            parts.follow(context, last, &mut none, &dotted)?;
        }
        if numbers {
            none.names.push(prims::name("i"));
            none.columns.push(row_numbers(0));
        }
        left.push(none);
    }
    let Value::Table(rows) = joined(context, left.into_iter().map(Value::table).collect())? else {
        return Err(Flow::from(QError::named("type")));
    };
    let selected = Selected::whole(rows);
    if query.verb == Verb::Exec {
        qsql::exec(context, query, &selected, frame)
    } else {
        qsql::select(context, query, &selected, frame)
    }
}

/// Reads partitions of a table.
struct Rows<'q> {
    parts: &'q Partitions,
    table: Sym,
    reading: Reading<'q>,
    /// Names such as `link.price` and `time.minute`.
    dotted: &'q [Sym],
    /// Those that are columns of a table to which a link refers, once a partition has told.
    links: Option<Vec<Sym>>,
}

impl Rows<'_> {
    /// Reads the rows of a partition that the clauses select.
    fn selected(&mut self, context: &mut Context, index: usize, frame: &mut Frame) -> Walk<Selected> {
        let Rows { parts, table, reading, dotted, links } = self;
        let part = parts.part(context, index, *table)?;
        let links = match links {
            Some(links) => links,
            None => links.insert(parts.links(context, &part, dotted)?),
        };
        if links.is_empty() {
            return reading.selected(context, &part, frame);
        }
        // A link holds rows of another table.
        let (mut held, rows) = part.columns(context, Some(&reading.needed))?;
        if reading.numbers && held.column(prims::name("i")).is_none() {
            held.names.push(prims::name("i"));
            held.columns.push(row_numbers(rows));
        }
        parts.follow(context, index, &mut held, links)?;
        qsql::filter(context, Arc::new(held), reading.filters, frame)
    }
}

/// Computes the parts of aggregates in each partition, then combines them. `None` if no rows are selected, if a part is no single item (the last
/// item of a list of lists), or if reals are summed.
fn by_parts(
    context: &mut Context,
    queries: &Reduced,
    rows_of: &mut Rows,
    chosen: &[usize],
    frame: &mut Frame,
) -> Walk<Option<Value>> {
    let mut results = Vec::new();
    for index in chosen {
        let selected = rows_of.selected(context, *index, frame)?;
        if selected.count() == 0 {
            continue;
        }
        let result = rows::unkey(&qsql::select(context, &queries.map, &selected, frame)?)?;
        if queries.map.by.is_none() && !queries.map.distinct && result.count() != 1 {
            return Ok(None);
        }
        if let Value::Table(t) = &result
            && queries.summed.iter().any(|part| t.column(*part).is_some_and(|c| matches!(c.items, Items::Real(_))))
        {
            return Ok(None);
        }
        results.push(result);
    }
    if results.is_empty() {
        return Ok(None);
    }
    let Value::Table(all) = joined(context, results)? else { return Err(QError::named("type").into()) };
    let all = Selected::whole(all);
    Ok(Some(match queries.reduce.verb {
        Verb::Exec => qsql::exec(context, &queries.reduce, &all, frame)?,
        _ => qsql::select(context, &queries.reduce, &all, frame)?,
    }))
}

/// Counts rows by the heads of columns: of all partitions, or of each.
fn count_rows(
    context: &mut Context,
    query: &Query,
    (parts, table): (&Partitions, Sym),
    chosen: Vec<usize>,
    frame: &mut Frame,
) -> Walk<Value> {
    let (mut rows, mut results) = (0usize, Vec::new());
    for index in chosen {
        let count = parts.part(context, index, table)?.count(context)?;
        rows = rows.saturating_add(count);
        // A partition without rows is no group, unless there is no other.
        if query.by.is_some() && (count > 0 || results.is_empty()) {
            let one = parts.values.cut(index, index.saturating_add(usize::from(count > 0)));
            let one = Selected::whole(Arc::new(Table::new(vec![parts.field], vec![one])));
            results.push(qsql::select(context, &counted::with_count(query, count)?, &one, frame)?);
        }
    }
    match query.by.is_some() {
        true => Ok(keyed(context, &results, 1)?),
        false => counted::counted(context, query, rows, frame),
    }
}

/// The groups of all partitions, which are those of the field by itself, or of the field first; `keys` columns have the keys.
fn keyed(context: &mut Context, results: &[Value], keys: usize) -> Result<Value, QError> {
    let tables = results.iter().map(rows::unkey).collect::<Result<_, _>>()?;
    let Value::Table(all) = joined(context, tables)? else { return Err(QError::named("type")) };
    let mut all = Arc::unwrap_or_clone(all);
    let values = Table::new(all.names.split_off(keys), all.columns.split_off(keys));
    // Their order is that of the partitions, of which one has all rows of a group.
    mark_sorted(&mut all);
    Ok(Value::dict(Value::table(all), Value::table(values)))
}

/// Returns the partitions selected by leading clauses on the field, and the remaining clauses. Such a clause may use variables, `date=d`, but no column
/// of the table.
fn choose<'q>(
    context: &mut Context,
    (parts, columns): (&Partitions, &[Sym]),
    filters: &'q [Node],
    frame: &mut Frame,
) -> Walk<(Vec<usize>, &'q [Node])> {
    let is_leading = |clause: &&Node| {
        let (names, _) = columns_of(std::iter::once(*clause));
        names.contains(&parts.field) && !names.iter().any(|name| is_in_rows(columns, *name))
    };
    let leading = filters.iter().take_while(is_leading).count();
    let (first, rest) = filters.split_at(leading);
    let selected = qsql::filter(context, Arc::new(database::field_table(parts)), first, frame)?;
    Ok((selected.row_numbers(), rest))
}

/// Concatenates tables.
fn joined(context: &mut Context, tables: Vec<Value>) -> Result<Value, QError> {
    let mut tables = tables.into_iter();
    let mut all = tables.next().unwrap_or(Value::Null);
    for table in tables {
        context.tick()?;
        all = shape::join(context, all, table)?;
    }
    Ok(all)
}
