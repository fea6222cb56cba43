//! Values: what q expressions compute with.

use super::function::Function;
use super::vector::{Attr, Items, Vector};
use crate::kernel::num::{Int, Num};
use crate::kernel::sym::Sym;
use crate::sys::budget;
use crate::sys::shared::{Held, Nests, depth_around};
use std::sync::Arc;

/// Any q value. Temporal atoms are held as the integer that travels, so `0N` is that type's minimum.
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
    /// A symbol enumerated over the global whose name comes first.
    Enum(Sym, Sym),
    /// A key of a keyed table, or a row number of a plain one, whose global's name comes first.
    Link(Sym, i64),
    /// A simple vector or a general list, with its attribute.
    Vector(Vector),
    Dict(Held<Dict>),
    Table(Arc<Table>),
    Func(Held<Function>),
}

/// A dictionary; with tables on both sides, a keyed table.
#[derive(Clone, Debug)]
pub struct Dict {
    /// Type 127: keys carry `` `s# `` and lookup steps.
    pub sorted: bool,
    pub keys: Value,
    pub values: Value,
}

/// A table: names and as many columns of one length.
#[derive(Clone, Debug)]
pub struct Table {
    pub sorted: bool,
    pub names: Vec<Sym>,
    pub columns: Vec<Vector>,
}

/// Atoms and simple vectors are 0, everything else one more than the deepest of what it holds. What it costs does not depend
/// on how much that is.
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
}

impl Nests for Dict {
    const MAY_NEST: bool = true;

    fn depth(&self) -> u16 {
        depth_around([&self.keys, &self.values])
    }
}

/// A table holds a dictionary that holds the list of its columns, as it travels.
impl Nests for Table {
    const MAY_NEST: bool = true;

    fn depth(&self) -> u16 {
        depth_around(&self.columns).saturating_add(2)
    }
}

/// Names among which one is looked for without a look at what the evaluation may use.
const NAMES_FEW: usize = 64;
/// Names between two such looks, where there are more.
const NAMES_AT_ONCE: usize = 1024;

/// Where a name stands among those of columns. A search for each of a million names takes a million times a million steps, so
/// one among many ends at the limits of this thread's evaluation: it answers none, and [`budget::take`] gives the reason.
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

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.columns.first().map_or(0, Vector::len)
    }

    pub fn column(&self, name: Sym) -> Option<&Vector> {
        self.columns.get(place(&self.names, name)?)
    }

    /// A row as a dictionary; past the end, of nulls.
    pub fn row(&self, index: usize) -> Value {
        let values: Vec<Value> = self.columns.iter().map(|c| c.items.get(index)).collect();
        Value::dict(Value::symbols(self.names.clone()), Value::collapse(values))
    }

    /// The table of the rows that `pick` makes of each column.
    pub fn map(&self, mut pick: impl FnMut(&Vector) -> Vector) -> Table {
        Table { sorted: false, names: self.names.clone(), columns: self.columns.iter().map(&mut pick).collect() }
    }

    /// Rows by index; an index past the end gives nulls.
    pub fn rows<I: Int>(&self, rows: &[I]) -> Table {
        self.map(|c| c.items.gather(rows).into())
    }
}

impl Dict {
    pub fn new(keys: Value, values: Value) -> Dict {
        Dict { sorted: false, keys, values }
    }

    /// Keys and values as tables, where this is a keyed table.
    pub fn keyed(&self) -> Option<(&Table, &Table)> {
        match (&self.keys, &self.values) {
            (Value::Table(k), Value::Table(v)) => Some((k, v)),
            _ => None,
        }
    }
}

impl Value {
    /// q's `type`.
    pub fn type_number(&self) -> i16 {
        match self {
            Value::Null => 101,
            Value::Bool(_) => -1,
            Value::Guid(_) => -2,
            Value::Byte(_) => -4,
            Value::Short(_) => -5,
            Value::Int(_) => -6,
            Value::Long(_) => -7,
            Value::Real(_) => -8,
            Value::Float(_) => -9,
            Value::Char(_) => -10,
            Value::Sym(_) => -11,
            Value::Timestamp(_) => -12,
            Value::Month(_) => -13,
            Value::Date(_) => -14,
            Value::Datetime(_) => -15,
            Value::Timespan(_) => -16,
            Value::Minute(_) => -17,
            Value::Second(_) => -18,
            Value::Time(_) => -19,
            Value::Enum(..) | Value::Link(..) => -20,
            Value::Vector(v) => i16::from(v.items.type_number()),
            Value::Table(_) => 98,
            Value::Dict(d) if d.sorted => 127,
            Value::Dict(_) => 99,
            Value::Func(_) => 100,
        }
    }

    pub fn is_atom(&self) -> bool {
        self.type_number() < 0
    }

    /// Neither a list nor a dictionary nor a table: what counts as one item.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Value::Vector(_) | Value::Dict(_) | Value::Table(_))
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

    /// The item at `index` of a list, dictionary or table; an atom is its own item. Past the end, the null of the kind.
    pub fn at(&self, index: usize) -> Value {
        match self {
            Value::Vector(v) => v.items.get(index),
            Value::Table(t) => t.row(index),
            Value::Dict(d) => d.values.at(index),
            atom => atom.clone(),
        }
    }

    /// The items of a list (values of a dictionary, rows of a table); of an atom, itself.
    pub fn items(&self) -> Vec<Value> {
        match self {
            Value::Vector(Vector { items: Items::List(l), .. }) => l.to_vec(),
            Value::Dict(d) => d.values.items(),
            other => (0..other.count()).map(|i| other.at(i)).collect(),
        }
    }

    /// The first `len` items from `start`, without a copy where it is a vector.
    pub fn cut(&self, start: usize, end: usize) -> Value {
        match self {
            Value::Vector(v) => Value::Vector(v.cut(start, end)),
            Value::Table(t) => Value::table(t.map(|c| c.cut(start, end))),
            Value::Dict(d) => Value::dict(d.keys.cut(start, end), d.values.cut(start, end)),
            atom => atom.clone(),
        }
    }

    /// Items by index, nulls where an index is past the end.
    pub fn gather<I: Int>(&self, rows: &[I]) -> Value {
        match self {
            Value::Vector(v) => v.items.gather(rows).into(),
            Value::Table(t) => Value::table(t.rows(rows)),
            Value::Dict(d) => Value::dict(d.keys.gather(rows), d.values.gather(rows)),
            atom => Value::collapse(vec![atom.clone(); rows.len()]),
        }
    }

    pub fn chars(text: impl Into<Vec<u8>>) -> Value {
        Items::Char(text.into().into()).into()
    }

    /// A string as q writes it: one character is an atom nowhere but in literals, so this stays a vector.
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

    pub fn list(items: Vec<Value>) -> Value {
        Items::List(items.into()).into()
    }

    pub fn empty() -> Value {
        Value::list(Vec::new())
    }

    /// A dictionary. An atom stands for as many of it as there are keys.
    pub fn dict(keys: Value, values: Value) -> Value {
        let values = if values.is_scalar() { Value::collapse(vec![values; keys.count()]) } else { values };
        Value::Dict(Held::new(Dict::new(keys, values)))
    }

    /// A dictionary that holds one name in place of its values: flipped, a table on disk.
    pub fn symbols_to(names: &[Sym], place: Sym) -> Value {
        Value::Dict(Held::new(Dict::new(Value::symbols(names.to_vec()), Value::Sym(place))))
    }

    pub fn table(table: Table) -> Value {
        Value::Table(Arc::new(table))
    }

    pub fn func(function: Function) -> Value {
        Value::Func(Held::new(function))
    }

    /// A list of these items: a simple vector if all are atoms of one type, a table if all are dictionaries with the
    /// same symbols as keys, else a general list.
    pub fn collapse(items: Vec<Value>) -> Value {
        match Items::collapse(items) {
            Ok(simple) => simple.into(),
            Err(items) => Value::rows_to_table(&items).unwrap_or_else(|| Value::list(items)),
        }
    }

    fn rows_to_table(items: &[Value]) -> Option<Value> {
        let Some(Value::Dict(first)) = items.first() else { return None };
        // Rows hold tables of rows that hold tables: twice as many on every level.
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
        let column = |c: usize| Value::collapse(rows.iter().map(|r| r.values.at(c)).collect()).into_vector();
        let columns: Option<Vec<Vector>> = (0..names.len()).map(column).collect();
        columns.filter(|c| !c.is_empty()).map(|columns| Value::table(Table::new(names.to_vec(), columns)))
    }

    /// A list of one item, as q's `enlist`.
    pub fn enlist(self) -> Value {
        Value::collapse(vec![self])
    }

    pub fn as_vector(&self) -> Option<&Vector> {
        match self {
            Value::Vector(v) => Some(v),
            _ => None,
        }
    }

    pub fn into_vector(self) -> Option<Vector> {
        match self {
            Value::Vector(v) => Some(v),
            Value::Table(t) => Some(Items::List((0..t.count()).map(|i| t.row(i)).collect()).into()),
            _ => None,
        }
    }

    /// The bytes of a string, or of a char atom.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self {
            Value::Vector(Vector { items: Items::Char(c), .. }) => Some(c),
            Value::Char(c) => Some(std::slice::from_ref(c)),
            _ => None,
        }
    }

    /// The symbols of a symbol vector, or of a symbol atom.
    pub fn as_symbols(&self) -> Option<&[Sym]> {
        match self {
            Value::Vector(Vector { items: Items::Sym(s) | Items::Enum(_, s), .. }) => Some(s),
            Value::Sym(s) | Value::Enum(_, s) => Some(std::slice::from_ref(s)),
            _ => None,
        }
    }

    /// The integer behind a boolean, byte, short, int, long or temporal atom, widened with its null.
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

    /// What is enumerated as plain symbols or longs; everything else as it is.
    pub fn plain(self) -> Value {
        match self {
            Value::Enum(_, s) => Value::Sym(s),
            Value::Link(_, i) => Value::Long(i),
            Value::Vector(Vector { attr, items: items @ (Items::Enum(..) | Items::Link(..)) }) => {
                Value::Vector(Vector { attr, items: items.plain() })
            }
            other => other,
        }
    }

    /// Whether this is an enumerated atom or vector.
    pub fn is_enumerated(&self) -> bool {
        matches!(
            self,
            Value::Enum(..) | Value::Link(..) | Value::Vector(Vector { items: Items::Enum(..) | Items::Link(..), .. })
        )
    }

    /// A numeric atom as a float.
    pub fn as_float(&self) -> Option<f64> {
        Some(match self {
            Value::Real(f) => f64::from(*f),
            Value::Float(f) | Value::Datetime(f) => *f,
            other => other.as_long()?.to_float(),
        })
    }

    /// An atom of type `-number` from a long, as a cast makes it.
    pub fn from_long(number: i8, long: i64) -> Value {
        Items::from_longs(number, vec![long]).get(0)
    }

    /// The vector with this atom as its only item; a list is itself.
    pub fn to_items(&self) -> Items {
        match self {
            Value::Vector(v) => v.items.clone(),
            atom => match Items::collapse(vec![atom.clone()]) {
                Ok(items) => items,
                Err(items) => Items::List(items.into()),
            },
        }
    }

    /// A null of a type: what a missing item of a vector of that type reads as.
    pub fn null_of(number: i8) -> Value {
        match number {
            1 => Value::Bool(false),
            2 => Value::Guid([0; 16]),
            4 => Value::Byte(0),
            10 => Value::Char(b' '),
            11 => Value::Sym(Sym::NULL),
            8 => Value::Real(f32::NAN),
            9 => Value::Float(f64::NAN),
            15 => Value::Datetime(f64::NAN),
            5..=7 | 12..=14 | 16..=19 => Value::from_long(number, i64::NULL),
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
