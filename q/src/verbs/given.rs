//! Reasons for the errors that kdb+ gives as a bare name: which arguments a primitive was given.

use crate::runtime::error::QError;
use crate::verbs::format::integer;
use crate::verbs::function::type_of;
use columns::table::symbol::text;
use columns::table::{Items, Sym, Value};
use proto::types;
use std::fmt::{self, Display, Formatter};

/// What is noted of an argument before a call, which consumes it: cheap, because nearly all calls succeed.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    type_number: i8,
    special: Special,
    /// q's `count`.
    count: usize,
    /// Value of a whole number.
    number: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    No,
    /// `::`.
    Null,
    KeyedTable,
}

impl Given {
    #[inline]
    pub(crate) fn of(value: &Value) -> Given {
        let number = match value {
            Value::Long(i) => Some(*i),
            Value::Int(i) => Some(i64::from(*i)),
            _ => None,
        };
        let special = match value {
            Value::Null => Special::Null,
            Value::Dict(dict) if dict.keyed().is_some() => Special::KeyedTable,
            _ => Special::No,
        };
        Given { type_number: type_of(value), special, count: value.count(), number }
    }

    /// The first two of several arguments; only calls with up to two are explained.
    #[inline]
    pub(crate) fn first_two(values: &[Value]) -> [Given; 2] {
        [0, 1].map(|i| Given::of(values.get(i).unwrap_or(&Value::Null)))
    }

    fn is_list(self) -> bool {
        (types::LIST..types::TABLE).contains(&self.type_number)
    }
}

/// As a person would call it: `a long`, `a string`, `a list of symbols`.
impl Display for Given {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.type_number {
            _ if self.special == Special::Null => f.write_str("::"),
            _ if self.special == Special::KeyedTable => f.write_str("a keyed table"),
            types::LIST => f.write_str("a general list"),
            types::CHAR => f.write_str("a string"),
            types::ITERATOR => f.write_str("an iterator"),
            types::TABLE..=types::SORTED_DICT => write!(f, "a {}", types::name(self.type_number)),
            types::ENUM => f.write_str("an enumeration"),
            list if list > 0 => write!(f, "a list of {}s", types::name(list)),
            atom => match -atom {
                types::ENUM => f.write_str("an item of an enumeration"),
                types::INT => f.write_str("an int"),
                _ => write!(f, "a {}", types::name(atom)),
            },
        }
    }
}

/// Adds to an error without a reason what the primitive was given. An error that comes from a function which the primitive has called stays as
/// it is: its reason is elsewhere.
#[cold]
pub(crate) fn explain(error: QError, primitive: &str, given: &[Given]) -> QError {
    if !error.detail.is_empty() || error.has_place() {
        return error;
    }
    let detail = match (&*error.name, given) {
        // More arguments than are described.
        (_, []) => return error,
        (b"type", _) => format!("{primitive} was given {}", in_words(given)),
        (b"length", [x, y]) if x.is_list() && y.is_list() && x.count != y.count => {
            format!("{primitive} was given lists of {} and {} items", x.count, y.count)
        }
        (b"domain", _) => {
            let values: Vec<_> = given.iter().map(|g| g.number.map_or_else(|| g.to_string(), integer)).collect();
            format!("{primitive} was given {}", values.join(" and "))
        }
        _ => return error,
    };
    error.because(detail)
}

/// `'type` of data that is applied: lists, dictionaries and tables are indexed.
#[cold]
pub(crate) fn explain_index(error: QError, data: &Value, indices: &[Value]) -> QError {
    if *error.name != *b"type" || !error.detail.is_empty() || error.has_place() {
        return error;
    }
    let indices: Vec<Given> = indices.iter().map(Given::of).collect();
    let data = Given::of(data);
    let detail = match data.type_number {
        atom if atom < 0 => format!("{data} is no function, it cannot be applied to {}", in_words(&indices)),
        _ => format!("{data} was indexed by {}", in_words(&indices)),
    };
    error.because(detail)
}

/// `'rank` of a function that was given `given` arguments and takes at most `most`.
#[cold]
pub(crate) fn too_many(most: usize, given: usize) -> QError {
    QError::with("rank", format!("the function takes {} and was given {given}", counted(most, "argument")))
}

/// `'length` of a row with `given` items.
#[cold]
pub(crate) fn other_width(columns: usize, given: usize) -> QError {
    QError::with(
        "length",
        format!("the table has {} and the row {}", counted(columns, "column"), counted(given, "item")),
    )
}

fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

fn in_words(given: &[Given]) -> String {
    let mut out = String::new();
    for (i, one) in given.iter().enumerate() {
        out += match i {
            0 => "",
            _ if i + 1 == given.len() => " and ",
            _ => ", ",
        };
        out += &one.to_string();
    }
    out
}

/// `'mismatch` of rows with columns `new` for a table with columns `own`.
#[cold]
pub(crate) fn other_columns(own: &[Sym], new: &[Sym]) -> QError {
    let absent = |from: &[Sym], names: &[Sym]| {
        // Hashed: tables may have a hundred thousand columns.
        let from: std::collections::HashSet<Sym> = from.iter().copied().collect();
        let absent = names.iter().filter(|name| !from.contains(name)).take(MAX_NAMED);
        absent.map(|name| String::from_utf8_lossy(text(*name)).into_owned()).collect::<Vec<_>>().join(", ")
    };
    let (unknown, lacking) = (absent(own, new), absent(new, own));
    let detail = match (unknown.is_empty(), lacking.is_empty()) {
        (false, false) => format!("the table has no column {unknown}, and the new rows lack {lacking}"),
        (false, true) => format!("the table has no column {unknown}"),
        (true, false) => format!("the new rows lack the column {lacking}"),
        (true, true) => String::new(),
    };
    QError::with("mismatch", detail)
}

/// `'type` of a column of new rows.
#[cold]
pub(crate) fn other_type(column: Sym, own: &Items, new: &Items) -> QError {
    let words = |items: &Items| Given::of(&Value::from(items.clone())).to_string();
    let name = String::from_utf8_lossy(text(column));
    QError::with("type", format!("column {name} is {} and was given {}", words(own), words(new)))
}

/// Most columns of one kind that an error names.
const MAX_NAMED: usize = 8;
