//! Databases on disk: loading with `\l`, partitions and segments, and access to tables that stay on disk.

use super::folder::{Part, splayed_of};
use super::{kept, loaded, refused, splayed};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::paths::is_path;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::prims::name;
use crate::verbs::above::Evaluate;
use crate::verbs::on_disk::{described, held, place_of};
use crate::verbs::{format, take, tok};
use columns::table::function::Function;
use columns::table::symbol::{intern, text};
use columns::table::{Items, Sym, Table, Value, Vector};
use proto::types;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

type Held<T> = std::result::Result<T, QError>;

fn symbol(bytes: &[u8]) -> Held<Sym> {
    intern(bytes).map_err(QError::from)
}

fn path_symbol(path: &Path) -> Held<Sym> {
    symbol(&[b":", path.as_os_str().as_bytes()].concat())
}

/// Entries of a directory, sorted.
fn entries(context: &Context, folder: &Path) -> Held<Vec<PathBuf>> {
    super::reach::check(context, folder)?;
    let found = std::fs::read_dir(folder).map_err(|e| refused(folder, &e))?;
    let mut found: Vec<PathBuf> = found.flatten().map(|e| e.path()).collect();
    found.sort();
    Ok(found)
}

fn file_name(path: &Path) -> &[u8] {
    path.file_name().map(OsStrExt::as_bytes).unwrap_or_default()
}

/// Partition field and type implied by a directory name.
fn field_of(written: &[u8]) -> Option<(&'static str, i8)> {
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let parts: Vec<&[u8]> = written.split(|c| *c == b'.').collect();
    match &parts[..] {
        [y, m, d] if y.len() == 4 && m.len() == 2 && d.len() == 2 && [y, m, d].iter().all(|p| digits(p)) => {
            Some(("date", types::DATE))
        }
        [y, m] if y.len() == 4 && m.len() == 2 && digits(y) && digits(m) => Some(("month", types::MONTH)),
        [n] if n.len() == 4 && digits(n) => Some(("year", types::LONG)),
        [n] if digits(n) => Some(("int", types::LONG)),
        _ => None,
    }
}

/// Directory of a partition below its root.
pub(crate) fn partition_folder(root: &Path, value: &Value) -> PathBuf {
    let mut written = format::item(value, crate::runtime::settings::precision());
    if matches!(value, Value::Month(_)) && written.ends_with(b"m") {
        written.pop();
    }
    root.join(std::ffi::OsStr::from_bytes(&written))
}

/// Partition field and partition values found below a root.
fn partitions(context: &Context, root: &Path, field: Option<&'static str>) -> Held<(Option<&'static str>, Vec<Value>)> {
    let (mut field, mut values) = (field, Vec::new());
    for entry in entries(context, root)?.iter().filter(|e| e.is_dir()) {
        let written = file_name(entry);
        let Some((found, t)) = field_of(written) else { continue };
        if *field.get_or_insert(found) == found {
            values.push(tok::parse_text(t, written)?);
        }
    }
    Ok((field, values))
}

/// Options for loading a directory.
pub(crate) struct Manner {
    /// Changes the working directory, as `\l` does, if the caller may.
    pub enters: bool,
    /// Runs the scripts in it.
    pub runs_scripts: bool,
}

/// `\l folder`: loads a splayed table as the global of its name; for a database, its partitioned and splayed tables, its other
/// files as globals, and its scripts.
pub(crate) fn load(context: &mut Context, path: &Path, manner: &Manner) -> Result {
    if path.join(".d").exists() {
        let table = symbol(file_name(path))?;
        loaded::load(context, table, path)?;
        return Ok(Value::Sym(table));
    }
    let root = if manner.enters && context.host.caller().may_use_system() {
        context.host.alters()?;
        std::env::set_current_dir(path).map_err(|e| refused(path, &e))?;
        PathBuf::from(".")
    } else {
        path.to_owned()
    };
    let found = entries(context, &root)?;
    let is_script = |e: &PathBuf| matches!(e.extension().map(OsStrExt::as_bytes), Some(b"q" | b"k"));
    for entry in found.iter().filter(|e| e.is_file() && !is_script(e)) {
        let written = file_name(entry);
        if written.starts_with(b".") || written.ends_with(b"#") || written == b"par.txt" {
            continue;
        }
        match kept::get(context, entry) {
            Ok(value) => context.set_global(symbol(written)?, value)?,
            // Skip files that are no values, such as notes. A damaged file of a value, such as `sym`, is an error.
            Err(error) if super::head::is_value(entry) => return Err(error),
            Err(_) => {}
        }
    }
    for entry in found.iter().filter(|e| e.join(".d").exists()) {
        loaded::load(context, symbol(file_name(entry))?, entry)?;
    }
    partitioned(context, &root)?;
    if manner.runs_scripts {
        for script in found.iter().filter(|e| e.is_file() && is_script(e)) {
            context.script(script.as_os_str().as_bytes())?;
        }
    }
    Ok(Value::Null)
}

/// Loads the partitions below the root, or below each segment listed in `par.txt`.
fn partitioned(context: &mut Context, root: &Path) -> Held<()> {
    let list = root.join("par.txt");
    super::reach::check(context, &list)?;
    let listed = std::fs::read(list).ok();
    let segments: Vec<PathBuf> = match &listed {
        Some(bytes) => super::lines(bytes)
            .into_iter()
            .map(|l| l.trim_ascii())
            .filter(|l| !l.is_empty())
            .map(|l| root.join(std::ffi::OsStr::from_bytes(l.strip_prefix(b":").unwrap_or(l))))
            .collect(),
        None => vec![root.to_owned()],
    };
    let mut field = None;
    let mut all: Vec<(Value, PathBuf)> = Vec::new();
    let mut held = Vec::new();
    for segment in &segments {
        super::reach::check(context, segment)?;
        let found = partitions(context, segment, field);
        let (found, values) = match &listed {
            Some(_) => found.map_err(|error| QError::with("empty", String::from_utf8_lossy(&error.name)))?,
            None => found?,
        };
        field = found;
        held.push(Value::collapse(values.clone()));
        all.extend(values.into_iter().map(|v| (v, segment.clone())));
    }
    let Some(field) = field else {
        return match listed {
            Some(_) => Err(QError::with("empty", "the directories in par.txt have no partitions")),
            None => Ok(()),
        };
    };
    let number = |(value, _): &(Value, PathBuf)| match value {
        Value::Date(d) | Value::Month(d) => i64::from(*d),
        Value::Long(n) => *n,
        _ => i64::MIN,
    };
    all.sort_by_key(number);
    // Whether every partition is in one segment.
    let is_unique = all.windows(2).all(|pair| !matches!(pair, [a, b] if number(a) == number(b)));
    let values = Value::collapse(all.iter().map(|(value, _)| value.clone()).collect());
    let places: Held<Vec<Sym>> = all.iter().map(|(_, place)| path_symbol(place)).collect();
    let places = places?;
    super::shown::note(context, &places);
    let places = Value::symbols(places);
    let mut tables = BTreeSet::new();
    if let Some((value, place)) = all.last() {
        // A table without `.d` was only partly written. As in kdb+, reading its columns below is then an error.
        let is_table = |entry: &&PathBuf| entry.is_dir() && !file_name(entry).starts_with(b".");
        for table in entries(context, &partition_folder(place, value))?.iter().filter(is_table) {
            tables.insert(file_name(table).to_vec());
            let mut columns = super::column_names(context, table)?;
            // The partition's value stands for a stored column of the same name.
            if columns.len() > 1 {
                columns.retain(|column| *column != name(field));
            }
            let table = symbol(file_name(table))?;
            context.set_global(table, Value::func(Function::OnDisk { columns, place: table }))?;
        }
    }
    let tables: Held<Vec<Sym>> = tables.iter().map(|t| symbol(t)).collect();
    let tables = tables?;
    let counts = vec![Value::empty(); tables.len()];
    let mut set = |short: &'static str, value: Value| context.set_global(name(short), value);
    set(".Q.pf", Value::Sym(name(field)))?;
    set(".Q.PV", values.clone())?;
    set(".Q.PD", places.clone())?;
    set(".Q.pv", values.clone())?;
    set(".Q.pd", places)?;
    set(".Q.pt", Value::symbols(tables.clone()))?;
    set(".Q.pn", Value::dict(Value::symbols(tables), Value::list(counts)))?;
    set(".Q.u", Value::Bool(is_unique))?;
    set(".Q.vp", Value::dict(Value::symbols(Vec::new()), Value::empty()))?;
    if listed.is_some() {
        let segments: Held<Vec<Sym>> = segments.iter().map(|s| path_symbol(s)).collect();
        set(".Q.P", Value::symbols(segments?))?;
        set(".Q.D", Value::list(held))?;
    }
    set(field, values)
}

/// The partitions visible to queries.
pub(crate) struct Partitions {
    pub field: Sym,
    pub values: Vector,
    places: Vec<Sym>,
    /// Columns of the table in every partition: those that it has in the latest one.
    columns: Option<Vec<Sym>>,
}

/// Returns `.Q.pf`, `.Q.pv` and `.Q.pd` if `table` is listed in `.Q.pt`.
pub(crate) fn partitions_of(context: &mut Context, table: Sym) -> Held<Partitions> {
    let unknown = || QError::signal(text(table));
    let global = |short: &'static str| context.host.global(name(short)).ok_or_else(unknown);
    if !global(".Q.pt")?.as_symbols().unwrap_or_default().contains(&table) {
        return Err(unknown());
    }
    let Value::Sym(field) = global(".Q.pf")? else { return Err(type_error()) };
    let values = global(".Q.pv")?.into_vector().ok_or_else(type_error)?;
    let places = global(".Q.pd")?.as_symbols().ok_or_else(type_error)?.to_vec();
    let columns = described(context, &Value::Sym(table)).map(|(columns, _)| columns);
    Ok(Partitions { field, values, places, columns })
}

impl Partitions {
    fn folder(&self, context: &Context, index: usize, table: Sym) -> Held<PathBuf> {
        let place = self.places.get(index).copied().unwrap_or(Sym::NULL);
        let value = self.values.items.get(index);
        let root = super::shown::directory(context, place, &value, table, self.columns.as_deref())?;
        Ok(partition_folder(&root, &value).join(std::ffi::OsStr::from_bytes(text(table))))
    }

    /// A partition of a table: the partition field, then its columns. A column that is missing is an error when it is read, as in kdb+: a table has
    /// the same columns in all partitions.
    pub fn part(&self, context: &mut Context, index: usize, table: Sym) -> Held<Part> {
        let folder = self.folder(context, index, table)?;
        let stand_in = if folder.exists() { None } else { self.stand_in(context, table)? };
        let part = match stand_in {
            Some(table) => Part::in_memory(table, self.field),
            None => Part::splayed(context, folder, self.columns.clone())?,
        };
        Ok(part.with_field(self.field, self.values.items.get(index)))
    }

    /// Returns one partition of a table: the partition field, then the columns in `needed` (`None` for all).
    pub fn read(&self, context: &mut Context, index: usize, table: Sym, needed: Option<&[Sym]>) -> Held<Table> {
        Ok(self.part(context, index, table)?.columns(context, needed)?.0)
    }

    /// The table in `.Q.vp` that replaces one missing from a partition.
    fn stand_in(&self, context: &mut Context, table: Sym) -> Held<Option<Table>> {
        let Some(Value::Dict(d)) = context.host.global(name(".Q.vp")) else { return Ok(None) };
        let at = d.keys.as_symbols().unwrap_or_default().iter().position(|t| *t == table);
        Ok(match at.map(|at| d.values.at(at)) {
            Some(Value::Table(t)) => Some((*t).clone()),
            _ => None,
        })
    }

    /// Returns the first rows of the latest partition, with the attributes of its columns.
    pub fn head(&self, context: &mut Context, table: Sym, rows: usize) -> Held<Table> {
        let last = self.values.len().checked_sub(1).ok_or_else(|| QError::signal(text(table)))?;
        self.part(context, last, table)?.first(context, None, rows)
    }

    /// Which of these names, such as `link.price` and `time.minute`, are columns that links refer to.
    pub fn links(&self, context: &mut Context, part: &Part, dotted: &[Sym]) -> Held<Vec<Sym>> {
        let stem = |name: &Sym| symbol(text(*name).split(|c| *c == b'.').next().unwrap_or_default());
        let stems = dotted.iter().map(stem).collect::<Held<Vec<Sym>>>()?;
        if stems.is_empty() {
            return Ok(Vec::new());
        }
        let none = part.first(context, Some(&stems), 0)?;
        let is_link = |stem: &Sym| none.column(*stem).is_some_and(|c| matches!(c.items, Items::Link(..)));
        Ok(dotted.iter().zip(&stems).filter(|(_, stem)| is_link(stem)).map(|(name, _)| *name).collect())
    }

    /// Adds to the rows of a partition the columns that its links refer to, such as `link.price`: a link holds row numbers of a
    /// table in the same partition.
    pub fn follow(&self, context: &mut Context, index: usize, held: &mut Table, dotted: &[Sym]) -> Held<()> {
        for name in dotted {
            let (stem, column) = match text(*name).iter().position(|c| *c == b'.') {
                Some(dot) => text(*name).split_at(dot),
                None => continue,
            };
            let link = symbol(stem).ok().and_then(|stem| held.column(stem)).cloned();
            let Some(Vector { items: Items::Link(target, rows), .. }) = link else { continue };
            let Some(Value::Func(f)) = context.host.global(target) else { continue };
            if !matches!(*f, Function::OnDisk { .. }) {
                continue;
            }
            let wanted = symbol(column.get(1..).unwrap_or_default())?;
            let linked = partitions_of(context, target)?.read(context, index, target, Some(&[wanted]))?;
            let found = linked.column(wanted).ok_or_else(|| QError::no_column(text(wanted)))?;
            held.names.push(*name);
            held.columns.push(found.items.gather(&rows[..]).into());
        }
        Ok(())
    }

    /// Row count of each partition.
    pub fn counts(&self, context: &mut Context, table: Sym) -> Held<Vec<i64>> {
        let mut counts = Vec::with_capacity(self.values.len());
        for index in 0..self.values.len() {
            counts.push(self.part(context, index, table)?.count(context)? as i64);
        }
        Ok(counts)
    }
}

/// Loads a splayed table into memory. A partitioned table is never loaded whole: `'par`.
pub(crate) fn table_of(context: &mut Context, x: &Value) -> Result {
    let place = place_of(context, x).ok_or_else(type_error)?;
    if !is_path(place) {
        partitions_of(context, place)?;
        return Err(QError::with("par", "a partitioned table cannot be used as a value; select from it"));
    }
    super::get(context, &Value::Sym(place))
}

/// Returns what the console shows of a table on disk: a splayed table whole, the first rows of a partitioned one. If it cannot
/// be read, returns `x` itself.
pub(crate) fn shown(context: &mut Context, x: Value) -> Value {
    let Some((columns, place)) = described(context, &x).filter(|_| !matches!(x, Value::Sym(_))) else { return x };
    if is_path(place) {
        return table_of(context, &x).unwrap_or(x);
    }
    let most = context.host.console().rows;
    let head = |context: &mut Context| -> Result {
        let all = partitions_of(context, place)?;
        let mut rows = Value::Null;
        for index in 0..all.values.len() {
            if rows.count() > most {
                break;
            }
            let more = Value::table(all.part(context, index, place)?.first(
                context,
                Some(&columns),
                most.saturating_add(1),
            )?);
            rows = if let Value::Null = rows { more } else { crate::verbs::shape::join(context, rows, more)? };
        }
        Ok(rows)
    };
    head(context).unwrap_or(x)
}

/// Names of the columns of a splayed table, whatever its columns hold; `None` for any other value.
pub(crate) fn names(context: &mut Context, x: &Value) -> Held<Option<Vec<Sym>>> {
    Ok(splayed_of(context, x)?.map(Part::into_names))
}

/// Table with the columns and types of one on disk, for `cols`, `meta` and the like. A row shows the type of nested columns.
pub(crate) fn schema(context: &mut Context, x: &Value) -> Held<Option<Table>> {
    let Some(place) = place_of(context, x) else { return Ok(None) };
    if is_path(place) {
        return match splayed_of(context, x)? {
            Some(part) => part.first(context, None, 1).map(Some),
            None => match table_of(context, x)? {
                Value::Table(t) => Ok(Some((*t).clone())),
                _ => Err(type_error()),
            },
        };
    }
    partitions_of(context, place)?.head(context, place, 1).map(Some)
}

/// `count` of a table on disk; `None` for any other value.
pub(crate) fn count(context: &mut Context, x: &Value) -> Held<Option<i64>> {
    let Some(place) = place_of(context, x).filter(|_| !matches!(x, Value::Sym(_))) else { return Ok(None) };
    if is_path(place) {
        return Ok(Some(match splayed_of(context, x)? {
            Some(part) => part.count(context)?,
            None => table_of(context, x)?.count(),
        } as i64));
    }
    Ok(Some(partitions_of(context, place)?.counts(context, place)?.iter().sum()))
}

/// `.Q.cn t`: counts the rows of each partition of a table, at every call, and stores the counts in `.Q.pn`; not for clients and `reval`, which may not
/// change it.
pub(crate) fn q_cn(context: &mut Context, x: Value) -> Result {
    let place = place_of(context, &x).ok_or_else(type_error)?;
    let counts = Value::longs(partitions_of(context, place)?.counts(context, place)?);
    let may_store = !context.host.caller().remote && !context.host.is_read_only();
    if let Some(Value::Dict(known)) = context.host.global(name(".Q.pn")).filter(|_| may_store) {
        let tables = known.keys.as_symbols().unwrap_or_default();
        let held = |(i, t): (usize, &Sym)| if *t == place { counts.clone() } else { known.values.at(i) };
        let all = tables.iter().enumerate().map(held).collect();
        context.set_global(name(".Q.pn"), Value::dict(known.keys.clone(), Value::list(all)))?;
    }
    Ok(counts)
}

/// `.Q.qp t`: `1b` for a partitioned table, `0b` for a splayed one, `0` for anything else.
pub(crate) fn q_qp(context: &mut Context, x: Value) -> Result {
    if let Value::Table(t) = &x
        && splayed::is_splayed(t)
    {
        return Ok(Value::Bool(false));
    }
    let place = if let Value::Func(_) = x { place_of(context, &x) } else { None };
    Ok(place.map_or(Value::Long(0), |p| Value::Bool(!is_path(p))))
}

/// `x sublist y`. Of a partitioned table `(start;count) sublist t` reads these rows only, by `.Q.ind`; `n sublist t` is `'par`.
pub(crate) fn sublist(context: &mut Context, x: Value, y: Value) -> Result {
    let place = if let Value::Func(_) = y { place_of(context, &y) } else { None };
    if let (Value::Vector(_), Some(table)) = (&x, place.filter(|place| !is_path(*place))) {
        let counts = partitions_of(context, table)?.counts(context, table)?;
        let rows = take::sublist_range(&x, usize::try_from(counts.iter().sum::<i64>()).unwrap_or(0))?;
        context.reserve_items(rows.len(), 8)?;
        let by_number = context.library(symbol(b".Q.ind")?)?.ok_or_else(type_error)?;
        return context.call2(&by_number, y, Value::longs(rows.map(|row| row as i64).collect()));
    }
    let y = held(context, y)?;
    take::sublist(context, x, y)
}

/// `.Q.lo[folder;enter;scripts]`: loads a directory.
pub(crate) fn q_lo(context: &mut Context, x: Vec<Value>) -> Result {
    let [folder, enters, scripts] = &x[..] else { return Err(QError::named("rank")) };
    let is_set = |v: &Value| !matches!(v, Value::Bool(false)) && v.as_long() != Some(0);
    let path = super::path(context, folder)?;
    load(context, &path, &Manner { enters: is_set(enters), runs_scripts: is_set(scripts) })
}

/// The partition values as a one-column table, against which the clauses that select partitions are evaluated.
pub(crate) fn field_table(parts: &Partitions) -> Table {
    Table::new(vec![parts.field], vec![parts.values.clone()])
}
