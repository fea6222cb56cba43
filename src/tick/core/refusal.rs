//! Why an update is rejected: kdb+'s error name, and a description.

use proto::{DecodeError, View, types};
use std::fmt;

/// A rejected update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Table name as the publisher sent it.
    pub table: Vec<u8>,
    pub reason: Reason,
}

/// Reason of a rejection. Types are wire codes: negative for atoms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    UnknownTable {
        /// Names of the tables there are, the likeliest first.
        tables: String,
    },
    /// The data is not columns, a row or a table.
    NoData {
        found: Found,
    },
    /// The number of columns is neither that of the table nor, where that is allowed, one less for the time.
    ColumnCount {
        expected: usize,
        without_time: bool,
        found: usize,
    },
    ColumnType {
        column: String,
        expected: i8,
        found: Found,
        /// With `--coerce` the update would be accepted.
        coercible: bool,
    },
    /// A value that the column's type does not have (`--coerce`).
    ColumnValue {
        column: String,
        expected: i8,
        row: usize,
        /// The value and its type.
        value: String,
    },
    ColumnLength {
        column: String,
        expected: usize,
        found: usize,
    },
    /// A table with columns that are not in the schema, or without some that are.
    ColumnNames {
        /// Names of the columns that the data lacks, and of those that the schema lacks; empty if there are none.
        missing: String,
        unknown: String,
    },
    /// Data that is read as one row because it begins with a string, and why it is rejected (`--coerce`).
    TextRow(Box<Reason>),
    /// Larger than a log record may be.
    TooLong {
        bytes: u64,
    },
    Malformed(DecodeError),
    /// The log cannot be written any more.
    LogFailed,
    /// Under `--replica-missing refuse`: too few followers confirm.
    NotReplicated,
    /// The lease of this tickerplant is over: another one may be active.
    LeaseOver,
    /// The publisher's roles do not include this table.
    NoRole,
    /// Clients may not change data (`-b`).
    Blocked,
    /// The publisher's id or sequence number.
    Sequence {
        term: &'static str,
        text: String,
    },
}

/// What was found in place of data or of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An object of this type.
    Object(i8),
    /// The generic null `::`, as which clients send Python's `None` and the like.
    Null,
    /// A list with a string in it.
    Strings,
    /// A list with an object of this type in it.
    List(i8),
}

impl Found {
    pub fn of(object: &View<'_>) -> Found {
        if object.is_null() { Found::Null } else { Found::Object(object.type_code()) }
    }

    /// Describes a list by an item that does not fit.
    pub fn in_list(item: &View<'_>) -> Found {
        match item.type_code() {
            types::CHAR => Found::Strings,
            ty if ty > 0 && !item.is_null() => Found::List(ty),
            _ => Found::of(item),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Object(ty) => f.write_str(&type_words(*ty)),
            Found::Null => f.write_str("generic null (::)"),
            Found::Strings => f.write_str("list of strings"),
            Found::List(ty) => write!(f, "list with a {}", type_words(*ty)),
        }
    }
}

/// Names listed in one text, and bytes shown of each.
const LISTED: usize = 8;
const NAME_BYTES: usize = 64;

/// A text that a publisher has chosen: its first bytes, escaped.
pub(super) struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get(..NAME_BYTES).filter(|start| start.len() < self.0.len()) {
            Some(start) => write!(f, "{}...", start.escape_ascii()),
            None => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

/// Returns names, separated by commas: the first ones, and how many more there are.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut names = names.into_iter();
    let shown: Vec<String> = names.by_ref().take(LISTED).map(|name| Shown(name).to_string()).collect();
    match names.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether an error with only this name would show nothing: an error text ends at its first NUL.
pub fn is_blank(name: &[u8]) -> bool {
    name.iter().take_while(|byte| **byte != 0).all(u8::is_ascii_whitespace)
}

impl Reason {
    /// Returns kdb+'s error name.
    pub fn term(&self) -> &'static str {
        match self {
            Reason::TextRow(reason) => reason.term(),
            Reason::UnknownTable { .. } => "table",
            Reason::NoData { .. } | Reason::ColumnType { .. } | Reason::ColumnValue { .. } => "type",
            Reason::ColumnCount { .. } | Reason::ColumnLength { .. } => "length",
            Reason::ColumnNames { .. } => "mismatch",
            Reason::TooLong { .. } => "limit",
            Reason::Malformed(error) => error.term(),
            Reason::LogFailed | Reason::NotReplicated => "io",
            Reason::LeaseOver => "passive",
            Reason::NoRole => "access",
            Reason::Blocked => "noupdate",
            Reason::Sequence { term, .. } => term,
        }
    }
}

fn type_words(ty: i8) -> String {
    let name = types::name(ty);
    if (types::BOOL..=types::TIME).contains(&ty) { format!("{name} vector") } else { name.to_string() }
}

impl fmt::Display for Refusal {
    /// kdb+'s error name, a colon and the description. For an unknown table the name is the table's, as in u.q.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = Shown(&self.table);
        match &self.reason {
            Reason::UnknownTable { tables } if is_blank(&self.table) => {
                write!(f, "type: the name of the table is missing; there are {tables}")
            }
            Reason::UnknownTable { tables } => write!(f, "{table}: no such table; there are {tables}"),
            Reason::TextRow(reason) => {
                self.describe(reason, f)?;
                f.write_str("; data that begins with a string is one row")
            }
            reason => self.describe(reason, f),
        }
    }
}

impl Refusal {
    fn describe(&self, reason: &Reason, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = Shown(&self.table);
        write!(f, "{}: ", reason.term())?;
        match reason {
            Reason::NoData { found } => {
                write!(f, "data for {table} must be a list of columns, one row or a table, not {found}")
            }
            Reason::ColumnCount { expected, without_time, found } => {
                let less = expected.saturating_sub(1);
                let hint = if *without_time { format!(", or {less} without the time") } else { String::new() };
                write!(f, "{table} has {expected} columns{hint}; got {found}")
            }
            Reason::ColumnType { column, expected, found, coercible } => {
                let name = types::name(*expected);
                let other = if *coercible { ", or start the tickerplant with --coerce" } else { "" };
                write!(f, "{table}.{column} is {name}, got {found}: send {name}s{other}")
            }
            Reason::ColumnValue { column, expected, row, value } => {
                let name = types::name(*expected);
                write!(f, "{table}.{column} is {name}, and {value} in row {row} cannot be converted to it unchanged")
            }
            Reason::ColumnLength { column, expected, found } => {
                write!(f, "{table}.{column} has {found} items, the columns before it {expected}")
            }
            Reason::ColumnNames { missing, unknown } => {
                let parts = [
                    (!missing.is_empty()).then(|| format!("{table} has columns that the data lacks: {missing}")),
                    (!unknown.is_empty()).then(|| format!("the data has columns that {table} lacks: {unknown}")),
                ];
                f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
            }
            Reason::TooLong { bytes } => write!(f, "{table}: a record of {bytes} bytes is too long (--limit-message)"),
            Reason::Malformed(error) => write!(f, "{} (byte {} of the data)", error.kind, error.offset),
            Reason::NotReplicated => {
                write!(
                    f,
                    "too few followers confirm, and the tickerplant rejects updates without (--replica-missing refuse)"
                )
            }
            Reason::LogFailed => write!(f, "the tickerplant cannot write its log and rejects all updates"),
            Reason::LeaseOver => {
                write!(f, "this tickerplant has no lease any more, or gives it back; another one takes over")
            }
            Reason::NoRole => write!(f, "publishing {table} needs the role publish for it (users file, -u or -U)"),
            Reason::Blocked => write!(f, "clients may not publish (-b)"),
            Reason::Sequence { text, .. } => f.write_str(text),
            Reason::UnknownTable { .. } | Reason::TextRow(_) => Ok(()),
        }
    }
}
