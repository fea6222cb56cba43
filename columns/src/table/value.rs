//! Values: the data that q expressions compute with.

use super::domains;
use super::function::Function;
use super::symbol;
use super::vector::{Attr, Items, Vector};
use crate::kernel::num::{Int, Num};
use crate::kernel::sym::Sym;
use crate::sys::budget;
use crate::sys::shared::{Held, Nests, depth_around};
use proto::types;
use std::ops::Range;
use std::sync::Arc;

/// Any q value. Temporal atoms hold the integer of the wire format, so `0N` is the minimum of that integer type.
#[derive(Clone, Debug)]
pub enum Value {
    /// The generic null `::`.
    Null,
    Bool(bool),
    Guid([u8; 16]),
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Real(f32),
    Float(f64),
    Char(u8),
    Sym(Sym),
    /// Nanoseconds from 2000.01.01.
    Timestamp(i64),
    /// Months from 2000.01.
    Month(i32),
    /// Days from 2000.01.01.
    Date(i32),
    /// Days from 2000.01.01, with a fraction.
    Datetime(f64),
    /// Nanoseconds.
    Timespan(i64),
    /// Minutes.
    Minute(i32),
    /// Seconds.
    Second(i32),
    /// Milliseconds.
    Time(i32),
    /// A symbol enumerated over a global, whose name comes first.
    Enum(Sym, Sym),
    /// A key of a keyed table or a row number of a plain one; the name of the table's global comes first.
    Link(Sym, i64),
    /// A simple vector or a general list, with its attribute.
    Vector(Vector),
    Dict(Held<Dict>),
    Table(Arc<Table>),
    Func(Held<Function>),
}

/// A dictionary; a keyed table if both sides are tables.
#[derive(Clone, Debug)]
pub struct Dict {
    /// Type 127: keys carry `` `s# `` and lookup is a step function.
    pub sorted: bool,
    pub keys: Value,
    pub values: Value,
}

/// A table: column names, and as many columns of equal length.
#[derive(Clone, Debug)]
pub struct Table {
    pub sorted: bool,
    pub names: Vec<Sym>,
    pub columns: Vec<Vector>,
}

/// 0 for atoms and simple vectors, else one more than the deepest item. Never visits items: lists, dictionaries and functions cache
/// their depth; a table takes one step per column.
impl Nests for Value {
    const MAY_NEST: bool = true;

    fn depth(&self) -> u16 {
        match self {
            Value::Vector(v) => v.depth(),
            Value::Dict(d) => d.depth(),
            Value::Table(t) => t.depth(),
            Value::Func(f) => f.depth(),
            _ => 0,
        }
    }

    fn lies_in(&self, memory: &Range<usize>) -> bool {
        matches!(self, Value::Vector(v) if v.lies_in(memory))
    }
}

impl Nests for Dict {
    const MAY_NEST: bool = true;

    fn depth(&self) -> u16 {
        depth_around([&self.keys, &self.values])
    }
}

/// As serialised, a table holds a dictionary that holds the list of its columns: two levels.
impl Nests for Table {
    const MAY_NEST: bool = true;

    fn depth(&self) -> u16 {
        depth_around(&self.columns).saturating_add(2)
    }
}

/// Up to this many names, a search does not check the budget.
const NAMES_FEW: usize = 64;
/// Names searched between two checks of the budget.
const NAMES_AT_ONCE: usize = 1024;

/// Returns the index of `name` in `names`. Searching a million columns for each of their names takes 10^12 steps, so a search
/// of many names checks this thread's budget: past it, the search returns `None` and [`budget::take`] gives the reason.
pub fn place(names: &[Sym], name: Sym) -> Option<usize> {
    if names.len() <= NAMES_FEW {
        return names.iter().position(|n| *n == name);
    }
    let mut before = 0;
    for part in names.chunks(NAMES_AT_ONCE) {
        if budget::is_over() {
            return None;
        }
        if let Some(at) = part.iter().position(|n| *n == name) {
            return Some(before + at);
        }
        before += part.len();
    }
    None
}

impl Table {
    pub fn new(names: Vec<Sym>, columns: Vec<Vector>) -> Table {
        Table { sorted: false, names, columns }
    }

    /// Returns the number of rows.
    pub fn count(&self) -> usize {
        self.columns.first().map_or(0, Vector::len)
    }

    /// Returns the column with this name. Over many columns the search stops at the budget, as in [`place`].
    pub fn column(&self, name: Sym) -> Option<&Vector> {
        self.columns.get(place(&self.names, name)?)
    }

    /// Returns a row as a dictionary; past the end, one of nulls.
    pub fn row(&self, index: usize) -> Value {
        let values: Vec<Value> = self.columns.iter().map(|c| c.items.get(index)).collect();
        Value::dict(Value::symbols(self.names.clone()), Value::collapse(values))
    }

    /// Returns the table with `pick` applied to each column.
    pub fn map(&self, mut pick: impl FnMut(&Vector) -> Vector) -> Table {
        Table { sorted: false, names: self.names.clone(), columns: self.columns.iter().map(&mut pick).collect() }
    }

    /// Returns rows by index; an index past the end gives nulls.
    pub fn rows<I: Int>(&self, rows: &[I]) -> Table {
        self.map(|c| c.items.gather(rows).into())
    }
}

impl Dict {
    pub fn new(keys: Value, values: Value) -> Dict {
        Dict { sorted: false, keys, values }
    }

    /// Returns keys and values as tables, if this is a keyed table.
    pub fn keyed(&self) -> Option<(&Table, &Table)> {
        match (&self.keys, &self.values) {
            (Value::Table(k), Value::Table(v)) => Some((k, v)),
            _ => None,
        }
    }
}

impl Value {
    /// The value as a result of its own: a list that a file holds is a mapped list no longer.
    pub fn unmapped(mut self) -> Value {
        if let Value::Vector(Vector { attr: attr @ Attr::Mapped(_), .. }) = &mut self {
            *attr = Attr::None;
        }
        self
    }

    /// Whether this is a dictionary whose keys are symbols: under a name such as `.cfg` it is a namespace as it is.
    pub fn has_names(&self) -> bool {
        matches!(self, Value::Dict(d) if d.keys.as_symbols().is_some())
    }

    /// q's `type`.
    pub fn type_number(&self) -> i8 {
        match self {
            Value::Null => types::UNARY,
            Value::Bool(_) => -types::BOOL,
            Value::Guid(_) => -types::GUID,
            Value::Byte(_) => -types::BYTE,
            Value::Short(_) => -types::SHORT,
            Value::Int(_) => -types::INT,
            Value::Long(_) => -types::LONG,
            Value::Real(_) => -types::REAL,
            Value::Float(_) => -types::FLOAT,
            Value::Char(_) => -types::CHAR,
            Value::Sym(_) => -types::SYMBOL,
            Value::Timestamp(_) => -types::TIMESTAMP,
            Value::Month(_) => -types::MONTH,
            Value::Date(_) => -types::DATE,
            Value::Datetime(_) => -types::DATETIME,
            Value::Timespan(_) => -types::TIMESPAN,
            Value::Minute(_) => -types::MINUTE,
            Value::Second(_) => -types::SECOND,
            Value::Time(_) => -types::TIME,
            Value::Enum(..) | Value::Link(..) => -types::ENUM,
            Value::Vector(v) => v.items.type_number(),
            Value::Table(_) => types::TABLE,
            Value::Dict(d) if d.sorted => types::SORTED_DICT,
            Value::Dict(_) => types::DICT,
            Value::Func(_) => types::LAMBDA,
        }
    }

    /// Returns whether q's `type` is negative.
    pub fn is_atom(&self) -> bool {
        self.type_number() < 0
    }

    /// Returns whether this counts as one item: it is not a list, dictionary or table.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Value::Vector(_) | Value::Dict(_) | Value::Table(_))
    }

    /// Whether this is `()`, the general list without items.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Value::Vector(Vector { items: Items::List(items), .. }) if items.is_empty())
    }

    /// q's `count`.
    pub fn count(&self) -> usize {
        match self {
            Value::Vector(v) => v.len(),
            Value::Dict(d) => d.keys.count(),
            Value::Table(t) => t.count(),
            _ => 1,
        }
    }

    /// Returns the item at `index` of a list, dictionary or table; an atom returns itself. Past the end, the null of the type.
    pub fn at(&self, index: usize) -> Value {
        match self {
            Value::Vector(v) => v.items.get(index),
            Value::Table(t) => t.row(index),
            Value::Dict(d) => d.values.at(index),
            atom => atom.clone(),
        }
    }

    /// Returns the items of a list, the values of a dictionary, the rows of a table, or an atom itself.
    pub fn items(&self) -> Vec<Value> {
        match self {
            Value::Vector(Vector { items: Items::List(l), .. }) => l.to_vec(),
            Value::Dict(d) => d.values.items(),
            other => (0..other.count()).map(|i| other.at(i)).collect(),
        }
    }

    /// Returns the items `start..end`; of a vector, without a copy.
    pub fn cut(&self, start: usize, end: usize) -> Value {
        match self {
            Value::Vector(v) => Value::Vector(v.cut(start, end)),
            Value::Table(t) => Value::table(t.map(|c| c.cut(start, end))),
            Value::Dict(d) => {
                let values = match d.values.cut(start, end) {
                    Value::Vector(values) => Value::of_column(values),
                    values => values,
                };
                Value::dict(d.keys.cut(start, end), values)
            }
            atom => atom.clone(),
        }
    }

    /// Returns items by index; an index past the end gives a null. The result is a table where the items are dictionaries with the same keys.
    pub fn gather<I: Int>(&self, rows: &[I]) -> Value {
        match self {
            Value::Vector(v) => Value::of_column(v.items.gather(rows).into()),
            Value::Table(t) => Value::table(t.rows(rows)),
            Value::Dict(d) => Value::dict(d.keys.gather(rows), d.values.gather(rows)),
            atom => Value::collapse(vec![atom.clone(); rows.len()]),
        }
    }

    /// A string. It stays a vector even if it has one character.
    pub fn chars(text: impl Into<Vec<u8>>) -> Value {
        Items::Char(text.into().into()).into()
    }

    pub fn symbols(names: Vec<Sym>) -> Value {
        Items::Sym(names.into()).into()
    }

    pub fn longs(items: Vec<i64>) -> Value {
        Items::Long(items.into()).into()
    }

    pub fn floats(items: Vec<f64>) -> Value {
        Items::Float(items.into()).into()
    }

    pub fn bools(items: Vec<u8>) -> Value {
        Items::Bool(items.into()).into()
    }

    /// A general list, even if all items are atoms of one type; see [`Value::collapse`].
    pub fn list(items: Vec<Value>) -> Value {
        Items::List(items.into()).into()
    }

    /// The empty general list `()`.
    pub fn empty() -> Value {
        Value::list(Vec::new())
    }

    /// Makes a dictionary. An atom as `values` is repeated for each key.
    pub fn dict(keys: Value, values: Value) -> Value {
        let values = if values.is_scalar() { Value::collapse(vec![values; keys.count()]) } else { values };
        Value::Dict(Held::new(Dict::new(keys, values)))
    }

    /// Makes a dictionary with one name in place of its values: q's form of a table on disk, flipped.
    pub fn symbols_to(names: &[Sym], place: Sym) -> Value {
        Value::Dict(Held::new(Dict::new(Value::symbols(names.to_vec()), Value::Sym(place))))
    }

    pub fn table(table: Table) -> Value {
        Value::Table(Arc::new(table))
    }

    pub fn func(function: Function) -> Value {
        Value::Func(Held::new(function))
    }

    /// Makes a list of these items: a simple vector if all are atoms of one type, a table if all are dictionaries with
    /// the same symbol keys, else a general list.
    pub fn collapse(items: Vec<Value>) -> Value {
        match Items::collapse(items) {
            Ok(simple) => simple.into(),
            Err(items) => Value::rows_to_table(&items).unwrap_or_else(|| Value::list(items)),
        }
    }

    fn rows_to_table(items: &[Value]) -> Option<Value> {
        let Some(Value::Dict(first)) = items.first() else { return None };
        // Rows can hold tables of rows that hold tables, so the work may double on every level.
        if budget::is_over() {
            return None;
        }
        let Value::Vector(Vector { items: Items::Sym(names), .. }) = &first.keys else { return None };
        let mut rows = Vec::with_capacity(items.len());
        for item in items {
            let Value::Dict(d) = item else { return None };
            match &d.keys {
                Value::Vector(Vector { items: Items::Sym(n), .. }) if n == names && !d.sorted => rows.push(d),
                _ => return None,
            }
        }
        // A column keeps like dictionaries as they are: to make tables of them would double the work on every level.
        let items = |c: usize| rows.iter().map(|r| r.values.at(c)).collect();
        let column = |c| Items::collapse(items(c)).unwrap_or_else(|items| Items::List(items.into())).into();
        let columns: Vec<Vector> = (0..names.len()).map(column).collect();
        (!columns.is_empty()).then(|| Value::table(Table::new(names.to_vec(), columns)))
    }

    /// Returns a column of a table, or items picked from a list, as a value. Like dictionaries are a table, which a column
    /// keeps as a list of its rows.
    pub fn of_column(column: Vector) -> Value {
        match &column.items {
            Items::List(l) if matches!(l.first(), Some(Value::Dict(_))) => Value::collapse(l.to_vec()),
            _ => column.into(),
        }
    }

    /// Returns a list of this one item, as q's `enlist`.
    pub fn enlist(self) -> Value {
        Value::collapse(vec![self])
    }

    pub fn as_vector(&self) -> Option<&Vector> {
        match self {
            Value::Vector(v) => Some(v),
            _ => None,
        }
    }

    /// Returns a vector as it is, and a table as the list of its rows; `None` for other values.
    pub fn into_vector(self) -> Option<Vector> {
        match self {
            Value::Vector(v) => Some(v),
            Value::Table(t) => Some(Items::List((0..t.count()).map(|i| t.row(i)).collect()).into()),
            _ => None,
        }
    }

    /// Returns the bytes of a string or a char atom.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self {
            Value::Vector(Vector { items: Items::Char(c), .. }) => Some(c),
            Value::Char(c) => Some(std::slice::from_ref(c)),
            _ => None,
        }
    }

    /// Returns the symbols of a symbol vector or a symbol atom.
    pub fn as_symbols(&self) -> Option<&[Sym]> {
        match self {
            Value::Vector(Vector { items: Items::Sym(s) | Items::Enum(_, s), .. }) => Some(s),
            Value::Sym(s) | Value::Enum(_, s) => Some(std::slice::from_ref(s)),
            _ => None,
        }
    }

    /// Returns the integer of a boolean, byte, char, short, int, long or link atom, or of a temporal atom other than a datetime, as a long;
    /// null stays null.
    pub fn as_long(&self) -> Option<i64> {
        Some(match self {
            Value::Bool(b) => i64::from(*b),
            Value::Byte(b) | Value::Char(b) => i64::from(*b),
            Value::Short(i) => i.to_long(),
            Value::Int(i) | Value::Month(i) | Value::Date(i) | Value::Minute(i) | Value::Second(i) | Value::Time(i) => {
                i.to_long()
            }
            Value::Long(i) | Value::Timestamp(i) | Value::Timespan(i) | Value::Link(_, i) => *i,
            _ => return None,
        })
    }

    /// Returns enumerated symbols or longs as plain ones, other values unchanged.
    pub fn plain(self) -> Value {
        match self {
            Value::Enum(_, s) => Value::Sym(if symbol::position(s).is_some() { Sym::NULL } else { s }),
            Value::Link(domain, i) => Value::from_long(domains::item_type(domain), i),
            Value::Vector(Vector { attr, items: items @ (Items::Enum(..) | Items::Link(..)) }) => {
                Value::Vector(Vector { attr, items: items.plain() })
            }
            other => other,
        }
    }

    /// Returns whether this is an enumerated atom or vector.
    pub fn is_enumerated(&self) -> bool {
        matches!(
            self,
            Value::Enum(..) | Value::Link(..) | Value::Vector(Vector { items: Items::Enum(..) | Items::Link(..), .. })
        )
    }

    /// Returns a numeric atom as a float.
    pub fn as_float(&self) -> Option<f64> {
        Some(match self {
            Value::Real(f) => f64::from(*f),
            Value::Float(f) | Value::Datetime(f) => *f,
            other => other.as_long()?.to_float(),
        })
    }

    /// Casts a long to an atom of type `-number`.
    pub fn from_long(number: i8, long: i64) -> Value {
        Items::from_longs(number, vec![long]).get(0)
    }

    /// Returns the items of a vector, or a vector with this atom as its only item.
    pub fn to_items(&self) -> Items {
        match self {
            Value::Vector(v) => v.items.clone(),
            atom => match Items::collapse(vec![atom.clone()]) {
                Ok(items) => items,
                Err(items) => Items::List(items.into()),
            },
        }
    }

    /// Returns the null of a type, which a missing item of a vector of that type reads as.
    pub fn null_of(number: i8) -> Value {
        match number {
            types::BOOL => Value::Bool(false),
            types::GUID => Value::Guid([0; 16]),
            types::BYTE => Value::Byte(0),
            types::CHAR => Value::Char(b' '),
            types::SYMBOL => Value::Sym(Sym::NULL),
            types::REAL => Value::Real(f32::NAN),
            types::FLOAT => Value::Float(f64::NAN),
            types::DATETIME => Value::Datetime(f64::NAN),
            types::SHORT..=types::LONG | types::TIMESTAMP..=types::DATE | types::TIMESPAN..=types::TIME => {
                Value::from_long(number, i64::NULL)
            }
            _ => Value::empty(),
        }
    }
}

impl From<Items> for Value {
    fn from(items: Items) -> Value {
        Value::Vector(Vector { attr: Attr::None, items })
    }
}

impl From<Vector> for Value {
    fn from(vector: Vector) -> Value {
        Value::Vector(vector)
    }
}
