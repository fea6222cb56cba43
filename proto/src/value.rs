//! Owned objects.

mod access;
mod build;
mod equal;

use crate::types;

/// A kdb+ object.
///
/// Two values are equal if their types, attributes and items are. A NaN equals a NaN, because both are the null.
#[derive(Clone, Debug)]
pub enum Value {
    /// Boolean atom.
    Bool(bool),
    /// Guid atom, bytes in printing order.
    Guid([u8; 16]),
    /// Byte atom.
    Byte(u8),
    /// Short atom.
    Short(i16),
    /// Int atom.
    Int(i32),
    /// Long atom.
    Long(i64),
    /// Real atom.
    Real(f32),
    /// Float atom.
    Float(f64),
    /// Character atom.
    Char(u8),
    /// Symbol atom.
    Symbol(Vec<u8>),
    /// Nanoseconds from 2000.01.01.
    Timestamp(i64),
    /// Months from 2000.01.
    Month(i32),
    /// Days from 2000.01.01.
    Date(i32),
    /// Days from 2000.01.01, with the fraction of a day.
    Datetime(f64),
    /// Nanoseconds.
    Timespan(i64),
    /// Minutes.
    Minute(i32),
    /// Seconds.
    Second(i32),
    /// Milliseconds.
    Time(i32),
    /// Vector of a simple type.
    Vector {
        /// Attribute byte.
        attr: u8,
        /// The items.
        items: Items,
    },
    /// General list.
    List {
        /// Attribute byte.
        attr: u8,
        /// The objects.
        items: Vec<Value>,
    },
    /// Dictionary, or keyed table.
    Dict {
        /// Whether it is of type 127.
        sorted: bool,
        /// Keys: a vector, list, dictionary or table.
        keys: Box<Value>,
        /// Values, of the same length.
        values: Box<Value>,
    },
    /// Table.
    Table {
        /// Attribute byte: 1 for a sorted table.
        attr: u8,
        /// Column names.
        names: Vec<Vec<u8>>,
        /// Columns of equal length.
        columns: Vec<Value>,
    },
    /// Table whose columns stay where they are: a partitioned table, or a splayed one that is not mapped.
    TableByName {
        /// Attribute byte.
        attr: u8,
        /// Column names.
        names: Vec<Vec<u8>>,
        /// Name of the partitioned table, or the directory of the splayed one.
        place: Vec<u8>,
    },
    /// Lambda.
    Lambda {
        /// Namespace without the dot, empty for the root.
        namespace: Vec<u8>,
        /// Source, braces included.
        source: Vec<u8>,
    },
    /// Primitive of one argument, by its code; 0 is `::`, 255 an elided argument.
    Unary(u8),
    /// Primitive of two arguments, by its code.
    Binary(u8),
    /// Iterator, by its code.
    Iterator(u8),
    /// A function and its arguments.
    Projection(Vec<Value>),
    /// Composition of functions.
    Composition(Vec<Value>),
    /// A function derived by an iterator: type code 106 to 111 and the function.
    Derived(i8, Box<Value>),
    /// Error, only as the body of a response: text without the quote.
    Error(Vec<u8>),
}

/// The items of a vector of a simple type.
#[derive(Clone, Debug)]
pub enum Items {
    /// Booleans.
    Bool(Vec<bool>),
    /// Guids.
    Guid(Vec<[u8; 16]>),
    /// Bytes.
    Byte(Vec<u8>),
    /// Shorts.
    Short(Vec<i16>),
    /// Ints.
    Int(Vec<i32>),
    /// Longs.
    Long(Vec<i64>),
    /// Reals.
    Real(Vec<f32>),
    /// Floats.
    Float(Vec<f64>),
    /// Characters: a string.
    Char(Vec<u8>),
    /// Symbols.
    Symbol(Vec<Vec<u8>>),
    /// Timestamps.
    Timestamp(Vec<i64>),
    /// Months.
    Month(Vec<i32>),
    /// Dates.
    Date(Vec<i32>),
    /// Datetimes.
    Datetime(Vec<f64>),
    /// Timespans.
    Timespan(Vec<i64>),
    /// Minutes.
    Minute(Vec<i32>),
    /// Seconds.
    Second(Vec<i32>),
    /// Times.
    Time(Vec<i32>),
}

impl Value {
    /// Returns the type code of the wire format.
    pub fn type_code(&self) -> i8 {
        match self {
            Value::Bool(_) => -types::BOOL,
            Value::Guid(_) => -types::GUID,
            Value::Byte(_) => -types::BYTE,
            Value::Short(_) => -types::SHORT,
            Value::Int(_) => -types::INT,
            Value::Long(_) => -types::LONG,
            Value::Real(_) => -types::REAL,
            Value::Float(_) => -types::FLOAT,
            Value::Char(_) => -types::CHAR,
            Value::Symbol(_) => -types::SYMBOL,
            Value::Timestamp(_) => -types::TIMESTAMP,
            Value::Month(_) => -types::MONTH,
            Value::Date(_) => -types::DATE,
            Value::Datetime(_) => -types::DATETIME,
            Value::Timespan(_) => -types::TIMESPAN,
            Value::Minute(_) => -types::MINUTE,
            Value::Second(_) => -types::SECOND,
            Value::Time(_) => -types::TIME,
            Value::Vector { items, .. } => items.type_code(),
            Value::List { .. } => types::LIST,
            Value::Dict { sorted: false, .. } => types::DICT,
            Value::Dict { sorted: true, .. } => types::SORTED_DICT,
            Value::Table { .. } | Value::TableByName { .. } => types::TABLE,
            Value::Lambda { .. } => types::LAMBDA,
            Value::Unary(_) => types::UNARY,
            Value::Binary(_) => types::BINARY,
            Value::Iterator(_) => types::ITERATOR,
            Value::Projection(_) => types::PROJECTION,
            Value::Composition(_) => types::COMPOSITION,
            Value::Derived(ty, _) => *ty,
            Value::Error(_) => types::ERROR,
        }
    }

    /// Returns q's `count`: items, pairs or rows; 1 for atoms and functions.
    pub fn len(&self) -> usize {
        match self {
            Value::Vector { items, .. } => items.len(),
            Value::List { items, .. } => items.len(),
            Value::Dict { keys, .. } => keys.len(),
            Value::Table { columns, .. } => columns.first().map_or(0, Value::len),
            _ => 1,
        }
    }

    /// Returns whether [`Value::len`] is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Items {
    /// Returns the type code of the vector.
    pub fn type_code(&self) -> i8 {
        match self {
            Items::Bool(_) => types::BOOL,
            Items::Guid(_) => types::GUID,
            Items::Byte(_) => types::BYTE,
            Items::Short(_) => types::SHORT,
            Items::Int(_) => types::INT,
            Items::Long(_) => types::LONG,
            Items::Real(_) => types::REAL,
            Items::Float(_) => types::FLOAT,
            Items::Char(_) => types::CHAR,
            Items::Symbol(_) => types::SYMBOL,
            Items::Timestamp(_) => types::TIMESTAMP,
            Items::Month(_) => types::MONTH,
            Items::Date(_) => types::DATE,
            Items::Datetime(_) => types::DATETIME,
            Items::Timespan(_) => types::TIMESPAN,
            Items::Minute(_) => types::MINUTE,
            Items::Second(_) => types::SECOND,
            Items::Time(_) => types::TIME,
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        match self {
            Items::Bool(items) => items.len(),
            Items::Guid(items) => items.len(),
            Items::Byte(items) | Items::Char(items) => items.len(),
            Items::Short(items) => items.len(),
            Items::Int(items)
            | Items::Month(items)
            | Items::Date(items)
            | Items::Minute(items)
            | Items::Second(items)
            | Items::Time(items) => items.len(),
            Items::Long(items) | Items::Timestamp(items) | Items::Timespan(items) => items.len(),
            Items::Real(items) => items.len(),
            Items::Float(items) | Items::Datetime(items) => items.len(),
            Items::Symbol(items) => items.len(),
        }
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
