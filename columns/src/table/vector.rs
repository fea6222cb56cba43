//! Vectors: shared slices, with one variant for each kdb+ type.

use super::domains;
use super::symbol;
use super::value::Value;
use crate::kernel::blocks;
use crate::kernel::num::{Int, Num};
use crate::kernel::sym::Sym;
use crate::sys::budget::{self, BLOCK};
use crate::sys::shared::{Nests, Shared};
use proto::types;
use std::any::Any;
use std::ops::Range;

/// Attribute of a vector: a guarantee about its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attr {
    #[default]
    None,
    Sorted,
    Unique,
    Parted,
    Grouped,
    /// No guarantee: a list as a file holds it, until it is changed or cut. `type` gives this number, that of a mapped list.
    Mapped(i8),
}

/// A vector and its attribute.
#[derive(Clone, Debug)]
pub struct Vector {
    pub attr: Attr,
    pub items: Items,
}

/// A vector's items. Booleans are bytes 0 and 1.
#[derive(Clone, Debug)]
pub enum Items {
    List(Shared<Value>),
    Bool(Shared<u8>),
    Guid(Shared<[u8; 16]>),
    Byte(Shared<u8>),
    Short(Shared<i16>),
    Int(Shared<i32>),
    Long(Shared<i64>),
    Real(Shared<f32>),
    Float(Shared<f64>),
    Char(Shared<u8>),
    Sym(Shared<Sym>),
    Timestamp(Shared<i64>),
    Month(Shared<i32>),
    Date(Shared<i32>),
    Datetime(Shared<f64>),
    Timespan(Shared<i64>),
    Minute(Shared<i32>),
    Second(Shared<i32>),
    Time(Shared<i32>),
    /// Symbols enumerated over a global, whose name comes first: a list of symbols, or a table keyed by them.
    Enum(Sym, Shared<Sym>),
    /// Keys of a keyed table or row numbers of a plain one; the name of the table's global comes first.
    Link(Sym, Shared<i64>),
}

/// Items by memory layout, to select the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    List(&'a [Value]),
    U8(&'a [u8]),
    Guid(&'a [[u8; 16]]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Sym(&'a [Sym]),
}

/// Runs the same expression on the shared slice of any variant.
macro_rules! on_shared {
    ($items:expr, $s:ident => $body:expr) => {
        match $items {
            Items::List($s) => $body,
            Items::Guid($s) => $body,
            Items::Bool($s) | Items::Byte($s) | Items::Char($s) => $body,
            Items::Short($s) => $body,
            Items::Int($s)
            | Items::Month($s)
            | Items::Date($s)
            | Items::Minute($s)
            | Items::Second($s)
            | Items::Time($s) => $body,
            Items::Long($s) | Items::Timestamp($s) | Items::Timespan($s) | Items::Link(_, $s) => $body,
            Items::Real($s) => $body,
            Items::Float($s) | Items::Datetime($s) => $body,
            Items::Sym($s) | Items::Enum(_, $s) => $body,
        }
    };
}

/// Makes items of the same variant from an expression over the shared slice.
macro_rules! map_shared {
    ($items:expr, $s:ident => $body:expr) => {
        match $items {
            Items::List($s) => Items::List($body),
            Items::Bool($s) => Items::Bool($body),
            Items::Guid($s) => Items::Guid($body),
            Items::Byte($s) => Items::Byte($body),
            Items::Short($s) => Items::Short($body),
            Items::Int($s) => Items::Int($body),
            Items::Long($s) => Items::Long($body),
            Items::Real($s) => Items::Real($body),
            Items::Float($s) => Items::Float($body),
            Items::Char($s) => Items::Char($body),
            Items::Sym($s) => Items::Sym($body),
            Items::Timestamp($s) => Items::Timestamp($body),
            Items::Month($s) => Items::Month($body),
            Items::Date($s) => Items::Date($body),
            Items::Datetime($s) => Items::Datetime($body),
            Items::Timespan($s) => Items::Timespan($body),
            Items::Minute($s) => Items::Minute($body),
            Items::Second($s) => Items::Second($body),
            Items::Time($s) => Items::Time($body),
            Items::Enum(domain, $s) => Items::Enum(*domain, $body),
            Items::Link(domain, $s) => Items::Link(*domain, $body),
        }
    };
}

impl Nests for Vector {
    const MAY_NEST: bool = true;

    fn depth(&self) -> u16 {
        if let Items::List(items) = &self.items { items.depth() } else { 0 }
    }

    fn lies_in(&self, memory: &Range<usize>) -> bool {
        matches!(&self.items, Items::List(items) if memory.contains(&(items.as_ptr() as usize)))
    }
}

/// Item types of vectors: makes a vector of a given type number from items of a storage class.
pub trait Element: Clone + Nests + Sized + 'static {
    /// Makes a vector of type `number`; if `number` does not fit the storage class, of the class's plain type.
    fn wrap(number: i8, items: Shared<Self>) -> Items;
    /// Value that a missing item reads as.
    fn missing() -> Self;
}

macro_rules! element {
    ($t:ty, $missing:expr, $plain:ident $(, $number:path => $variant:ident)*) => {
        impl Element for $t {
            fn wrap(number: i8, items: Shared<Self>) -> Items {
                match number {
                    $($number => Items::$variant(items),)*
                    _ => Items::$plain(items),
                }
            }
            fn missing() -> Self {
                $missing
            }
        }
    };
}
element!([u8; 16], [0; 16], Guid);
element!(i16, i16::NULL, Short);
element!(i32, i32::NULL, Int, types::MONTH => Month, types::DATE => Date, types::MINUTE => Minute, types::SECOND => Second, types::TIME => Time);
element!(i64, i64::NULL, Long, types::TIMESTAMP => Timestamp, types::TIMESPAN => Timespan);
element!(f32, f32::NAN, Real);
element!(f64, f64::NAN, Float, types::DATETIME => Datetime);
element!(Sym, Sym::NULL, Sym);
element!(u8, 0, Byte, types::BOOL => Bool, types::CHAR => Char);
element!(Value, Value::empty(), List);

fn gather<T: Clone, I: Int>(items: &[T], rows: &[I], missing: T) -> Vec<T> {
    let pick = |i: &I| usize::try_from(i.to_long()).ok().and_then(|i| items.get(i)).unwrap_or(&missing).clone();
    let mut out = Vec::with_capacity(rows.len());
    for rows in rows.chunks(BLOCK) {
        // Past a limit the result is discarded, whatever it holds.
        if budget::spend(rows.len()) {
            break;
        }
        out.extend(rows.iter().map(pick));
    }
    out.resize(rows.len(), missing);
    out
}

/// The null in place of a value like this one: of an atom the null of its type, of a vector, table or dictionary an empty one, of a general
/// list a list of the nulls of its items.
fn null_like(value: &Value) -> Value {
    match value {
        Value::Vector(Vector { items: Items::List(items), .. }) if !items.is_empty() && !budget::spend(items.len()) => {
            let nulls = items.iter().map(null_like).collect();
            Items::collapse(nulls).unwrap_or_else(|nulls| Items::List(nulls.into())).into()
        }
        Value::Vector(v) => Value::Vector(v.cut(0, 0)),
        table @ Value::Table(_) => table.cut(0, 0),
        Value::Dict(d) => Value::dict(d.keys.cut(0, 0), d.values.cut(0, 0)),
        // A namespace begins with the generic null. A list of functions gives it too: functions have no typed null.
        Value::Null | Value::Func(_) => Value::Null,
        atom if atom.is_atom() => Value::null_of(-atom.type_number()),
        _ => Value::empty(),
    }
}

impl Items {
    /// q's type number, 0 to 20.
    pub const fn type_number(&self) -> i8 {
        match self {
            Items::List(_) => types::LIST,
            Items::Bool(_) => types::BOOL,
            Items::Guid(_) => types::GUID,
            Items::Byte(_) => types::BYTE,
            Items::Short(_) => types::SHORT,
            Items::Int(_) => types::INT,
            Items::Long(_) => types::LONG,
            Items::Real(_) => types::REAL,
            Items::Float(_) => types::FLOAT,
            Items::Char(_) => types::CHAR,
            Items::Sym(_) => types::SYMBOL,
            Items::Timestamp(_) => types::TIMESTAMP,
            Items::Month(_) => types::MONTH,
            Items::Date(_) => types::DATE,
            Items::Datetime(_) => types::DATETIME,
            Items::Timespan(_) => types::TIMESPAN,
            Items::Minute(_) => types::MINUTE,
            Items::Second(_) => types::SECOND,
            Items::Time(_) => types::TIME,
            Items::Enum(..) | Items::Link(..) => types::ENUM,
        }
    }

    pub fn len(&self) -> usize {
        on_shared!(self, s => s.len())
    }

    /// Number of values that share the items.
    pub fn holders(&self) -> usize {
        on_shared!(self, s => s.holders())
    }

    /// Returns what is kept with the items while they grow in place ([`Shared::indexed`]).
    pub(super) fn kept<I: Any + Default + Send + Sync>(&mut self) -> Option<&mut I> {
        on_shared!(self, s => s.indexed::<I>().map(|(_, kept)| kept))
    }

    /// Calls `look` with the index of type `I` that is kept with the items, which may be shared. Returns `None` if there is none.
    pub(super) fn with_kept<I: Any, R>(&self, look: impl FnOnce(&mut I) -> R) -> Option<R> {
        on_shared!(self, s => s.with_kept_index::<I, R>(|_, kept| look(kept)))
    }

    /// Bytes of the items, without the memory that the items of a list own.
    pub fn held_bytes(&self) -> usize {
        fn of<T>(items: &[T]) -> usize {
            size_of_val(items)
        }
        on_shared!(self, s => of(s))
    }

    /// Bytes of a serialised item; of lists and symbols, the minimum.
    pub fn wire_bytes(&self) -> usize {
        match self.raw() {
            Raw::U8(_) | Raw::Sym(_) => 1,
            Raw::List(_) | Raw::I16(_) => 2,
            Raw::I32(_) | Raw::F32(_) => 4,
            Raw::I64(_) | Raw::F64(_) => 8,
            Raw::Guid(_) => 16,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the items as a slice by memory layout.
    pub fn raw(&self) -> Raw<'_> {
        match self {
            Items::List(s) => Raw::List(s),
            Items::Guid(s) => Raw::Guid(s),
            Items::Bool(s) | Items::Byte(s) | Items::Char(s) => Raw::U8(s),
            Items::Short(s) => Raw::I16(s),
            Items::Int(s) | Items::Month(s) | Items::Date(s) | Items::Minute(s) | Items::Second(s) | Items::Time(s) => {
                Raw::I32(s)
            }
            Items::Long(s) | Items::Timestamp(s) | Items::Timespan(s) | Items::Link(_, s) => Raw::I64(s),
            Items::Real(s) => Raw::F32(s),
            Items::Float(s) | Items::Datetime(s) => Raw::F64(s),
            Items::Sym(s) | Items::Enum(_, s) => Raw::Sym(s),
        }
    }

    /// Returns the item at `index`; past the end, the null of the type (for a general list, of its first item's type).
    pub fn get(&self, index: usize) -> Value {
        macro_rules! at {
            ($s:ident, $variant:ident) => {
                $s.get(index).map(|v| Value::$variant(v.clone()))
            };
        }
        let item = match self {
            Items::List(s) => s.get(index).cloned(),
            Items::Bool(s) => s.get(index).map(|b| Value::Bool(*b != 0)),
            Items::Guid(s) => at!(s, Guid),
            Items::Byte(s) => at!(s, Byte),
            Items::Short(s) => at!(s, Short),
            Items::Int(s) => at!(s, Int),
            Items::Long(s) => at!(s, Long),
            Items::Real(s) => at!(s, Real),
            Items::Float(s) => at!(s, Float),
            Items::Char(s) => at!(s, Char),
            Items::Sym(s) => at!(s, Sym),
            Items::Timestamp(s) => at!(s, Timestamp),
            Items::Month(s) => at!(s, Month),
            Items::Date(s) => at!(s, Date),
            Items::Datetime(s) => at!(s, Datetime),
            Items::Timespan(s) => at!(s, Timespan),
            Items::Minute(s) => at!(s, Minute),
            Items::Second(s) => at!(s, Second),
            Items::Time(s) => at!(s, Time),
            Items::Enum(domain, s) => s.get(index).map(|v| Value::Enum(*domain, *v)),
            Items::Link(domain, s) => s.get(index).map(|v| Value::Link(*domain, *v)),
        };
        item.unwrap_or_else(|| self.missing())
    }

    /// Value that an item past the end reads as.
    pub fn missing(&self) -> Value {
        match self {
            Items::List(s) => s.first().map_or_else(Value::empty, null_like),
            Items::Enum(domain, _) => Value::Enum(*domain, Sym::NULL),
            Items::Link(domain, _) => Value::Link(*domain, i64::NULL),
            simple => Value::null_of(simple.type_number()),
        }
    }

    /// Returns the first item, or a null, so many times.
    pub fn filled(&self, count: usize) -> Items {
        fn fill<T: Element>(number: i8, s: &Shared<T>, count: usize) -> Items {
            T::wrap(number, vec![s.first().cloned().unwrap_or_else(T::missing); count].into())
        }
        match self {
            Items::Enum(domain, s) => Items::Enum(*domain, vec![s.first().copied().unwrap_or(Sym::NULL); count].into()),
            Items::Link(domain, s) => Items::Link(*domain, vec![s.first().copied().unwrap_or(i64::NULL); count].into()),
            simple => {
                let number = simple.type_number();
                on_shared!(simple, s => fill(number, s, count))
            }
        }
    }

    /// Returns items by index; an index that is negative or past the end gives a null.
    pub fn gather<I: Int>(&self, rows: &[I]) -> Items {
        match self {
            Items::List(s) => {
                // The null of a long list costs as much as the list.
                let is_past = |row: &I| usize::try_from(row.to_long()).map_or(true, |row| row >= s.len());
                let missing = if rows.iter().any(is_past) { self.missing() } else { Value::empty() };
                match Items::collapse(gather(s, rows, missing)) {
                    Ok(simple) => simple,
                    Err(items) => Items::List(items.into()),
                }
            }
            Items::Char(s) => Items::Char(gather(s, rows, b' ').into()),
            Items::Enum(domain, s) => Items::Enum(*domain, gather(s, rows, Sym::NULL).into()),
            Items::Link(domain, s) => Items::Link(*domain, gather(s, rows, i64::NULL).into()),
            simple => {
                fn pick<T: Element, I: Int>(number: i8, s: &Shared<T>, rows: &[I]) -> Items {
                    T::wrap(number, gather(s, rows, T::missing()).into())
                }
                let number = simple.type_number();
                on_shared!(simple, s => pick(number, s, rows))
            }
        }
    }

    pub fn is_enumerated(&self) -> bool {
        matches!(self, Items::Enum(..) | Items::Link(..))
    }

    /// Returns a copy of the items with capacity for `count` in total.
    pub fn with_room(self, count: usize) -> Items {
        fn roomy<T: Clone + Nests>(items: &Shared<T>, count: usize) -> Shared<T> {
            let mut held = Vec::with_capacity(count.max(items.len()));
            held.extend_from_slice(items);
            held.into()
        }
        map_shared!(&self, s => roomy(s, count))
    }

    /// Returns whether both have the same type, memory and length.
    pub fn is_same_memory(&self, other: &Items) -> bool {
        let place = |items: &Items| on_shared!(items, s => (s.as_ptr().cast::<u8>(), s.len()));
        self.type_number() == other.type_number() && place(self) == place(other)
    }

    /// Returns items `start..end`, without a copy. Clips the range to the items.
    pub fn cut(&self, start: usize, end: usize) -> Items {
        map_shared!(self, s => s.cut(start..end))
    }

    /// Returns an empty vector of a type number; for an unknown one, the empty general list.
    pub fn empty_of(number: i8) -> Items {
        match number {
            types::BOOL | types::BYTE | types::CHAR => u8::wrap(number, Shared::default()),
            types::GUID => Items::Guid(Shared::default()),
            types::SHORT => Items::Short(Shared::default()),
            types::INT | types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME => {
                i32::wrap(number, Shared::default())
            }
            types::LONG | types::TIMESTAMP | types::TIMESPAN => i64::wrap(number, Shared::default()),
            types::REAL => Items::Real(Shared::default()),
            types::FLOAT | types::DATETIME => f64::wrap(number, Shared::default()),
            types::SYMBOL => Items::Sym(Shared::default()),
            _ => Items::List(Shared::default()),
        }
    }

    /// Casts longs to an integer, temporal or float type: nulls stay nulls, numbers out of range become infinities.
    pub fn from_longs(number: i8, longs: Vec<i64>) -> Items {
        fn narrow<T: Int + Nests>(longs: &[i64]) -> Shared<T> {
            blocks::map(longs, |l| T::from_long(*l))
        }
        match number {
            types::BOOL => Items::Bool(blocks::map(&longs, |l| u8::from(*l != 0))),
            types::CHAR => Items::Char(blocks::map(&longs, |l| if l.is_null() { b' ' } else { *l as u8 })),
            types::BYTE => Items::Byte(blocks::map(&longs, |l| *l as u8)),
            types::SHORT => Items::Short(narrow(&longs)),
            types::INT | types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME => {
                i32::wrap(number, narrow(&longs))
            }
            types::REAL => Items::Real(blocks::map(&longs, |l| l.to_float() as f32)),
            types::FLOAT | types::DATETIME => f64::wrap(number, blocks::map(&longs, |l| l.to_float())),
            _ => i64::wrap(number, longs.into()),
        }
    }

    /// Returns a simple vector if all items are atoms of one type.
    ///
    /// # Errors
    /// The items, if they are not.
    pub fn collapse(items: Vec<Value>) -> Result<Items, Vec<Value>> {
        let Some(number) = items.first().map(Value::type_number) else { return Err(items) };
        if number >= 0 || items.iter().any(|i| i.type_number() != number) {
            return Err(items);
        }
        macro_rules! all {
            ($variant:ident) => {
                Items::$variant(
                    items.iter().filter_map(|v| if let Value::$variant(i) = v { Some(*i) } else { None }).collect(),
                )
            };
        }
        if number == -types::ENUM {
            return Items::collapse_enumerated(items);
        }
        Ok(match -number {
            types::BOOL => Items::Bool(items.iter().map(|v| u8::from(matches!(v, Value::Bool(true)))).collect()),
            types::GUID => all!(Guid),
            types::BYTE => all!(Byte),
            types::SHORT => all!(Short),
            types::INT => all!(Int),
            types::LONG => all!(Long),
            types::REAL => all!(Real),
            types::FLOAT => all!(Float),
            types::CHAR => all!(Char),
            types::SYMBOL => all!(Sym),
            types::TIMESTAMP => all!(Timestamp),
            types::MONTH => all!(Month),
            types::DATE => all!(Date),
            types::DATETIME => all!(Datetime),
            types::TIMESPAN => all!(Timespan),
            types::MINUTE => all!(Minute),
            types::SECOND => all!(Second),
            _ => all!(Time),
        })
    }

    /// Makes a vector of enumerated atoms of one domain.
    fn collapse_enumerated(items: Vec<Value>) -> Result<Items, Vec<Value>> {
        match items.first() {
            Some(Value::Enum(domain, _)) => {
                let symbol = |v: &Value| match v {
                    Value::Enum(own, s) if own == domain => Some(*s),
                    _ => None,
                };
                let symbols: Option<Shared<Sym>> = items.iter().map(symbol).collect();
                symbols.map(|s| Items::Enum(*domain, s)).ok_or(items)
            }
            Some(Value::Link(domain, _)) => {
                let key = |v: &Value| match v {
                    Value::Link(own, key) if own == domain => Some(*key),
                    _ => None,
                };
                let keys: Option<Shared<i64>> = items.iter().map(key).collect();
                keys.map(|k| Items::Link(*domain, k)).ok_or(items)
            }
            _ => Err(items),
        }
    }

    /// Returns enumerated items as plain symbols, keys or numbers of rows, others unchanged. Items beyond the end of their domain become null symbols.
    pub fn plain(&self) -> Items {
        match self {
            Items::Enum(_, s) => Items::Sym(symbol::without_placeholders(s).map_or_else(|| s.clone(), Shared::from)),
            Items::Link(domain, s) => match domains::item_type(*domain) {
                types::LONG => Items::Long(s.clone()),
                number => Items::from_longs(number, s.to_vec()),
            },
            other => other.clone(),
        }
    }

    /// Returns these items followed by those of `other`: a simple vector if both have the same type, else a general list.
    pub fn join(self, other: &Items) -> Items {
        fn both<T: Clone + Nests>(x: Shared<T>, y: &Shared<T>) -> Shared<T> {
            x.followed_by(y)
        }
        macro_rules! same {
            ($($variant:ident)*) => {
                match (self, other) {
                    (Items::Enum(a, x), Items::Enum(b, y)) if a == *b => Items::Enum(a, both(x, y)),
                    (Items::Link(a, x), Items::Link(b, y)) if a == *b => Items::Link(a, both(x, y)),
                    // Joined to other values, the items of a foreign key become plain keys, as enumerated symbols become plain symbols.
                    (x @ Items::Link(..), y) => x.plain().join(&y.plain()),
                    (x, y @ Items::Link(..)) if x.type_number() == y.plain().type_number() => x.join(&y.plain()),
                    (x @ Items::Enum(..), y) if symbol::has_placeholders() => x.plain().join(&y.plain()),
                    (x @ Items::Sym(_), y @ Items::Enum(..)) if symbol::has_placeholders() => x.join(&y.plain()),
                    (Items::Enum(_, x) | Items::Sym(x), Items::Enum(_, y) | Items::Sym(y)) => Items::Sym(both(x, y)),
                    $((Items::$variant(x), Items::$variant(y)) => Items::$variant(both(x, y)),)*
                    // Atoms cannot make a mixed list simple.
                    (Items::List(x), y) if x.iter().any(|item| item.type_number() != -y.type_number()) => {
                        let more: Vec<Value> = (0..y.len()).map(|i| y.get(i)).collect();
                        Items::List(both(x, &more.into()))
                    }
                    (x, y) => {
                        let all = (0..x.len()).map(|i| x.get(i)).chain((0..y.len()).map(|i| y.get(i))).collect();
                        match Items::collapse(all) {
                            Ok(simple) => simple,
                            Err(items) => Items::List(items.into()),
                        }
                    }
                }
            };
        }
        if let Items::List(x) = &self
            && x.is_empty()
        {
            return other.clone();
        }
        same!(List Bool Guid Byte Short Int Long Real Float Char Timestamp Month Date Datetime Timespan Minute Second Time)
    }
}

impl Vector {
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns items `start..end` without a copy. A part of a sorted vector is sorted; other attributes are dropped.
    pub fn cut(&self, start: usize, end: usize) -> Vector {
        let attr = if self.attr == Attr::Sorted { Attr::Sorted } else { Attr::None };
        Vector { attr, items: self.items.cut(start, end) }
    }
}

impl From<Items> for Vector {
    fn from(items: Items) -> Vector {
        Vector { attr: Attr::None, items }
    }
}
