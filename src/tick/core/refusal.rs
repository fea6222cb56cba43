//! Why an update is rejected: kdb+'s error name, and a description.

use proto::{DecodeError, types};
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
    UnknownTable,
    /// The data is not columns, a row or a table.
    NoData {
        found: i8,
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
        found: i8,
    },
    ColumnLength {
        column: String,
        expected: usize,
        found: usize,
    },
    /// A table with a column that is not in the schema, or without one that is.
    ColumnName {
        column: String,
    },
    /// Larger than a log record may be.
    TooLong {
        bytes: u64,
    },
    Malformed(DecodeError),
    /// The log cannot be written any more.
    LogFailed,
    /// The publisher's roles do not include this table.
    NoRole,
    /// Clients may not change data (`-b`).
    Blocked,
}

impl Refusal {
    /// Returns the text of the error response: kdb+'s error name, a colon and the description. For an unknown table it is the table's
    /// name, as in u.q.
    pub fn signal(&self) -> Vec<u8> {
        match self.reason {
            Reason::UnknownTable if is_blank(&self.table) => b"type: the name of the table is missing".to_vec(),
            Reason::UnknownTable => self.table.clone(),
            _ => self.to_string().into_bytes(),
        }
    }
}

/// Whether an error with only this name would show nothing: an error text ends at its first NUL.
pub fn is_blank(name: &[u8]) -> bool {
    name.iter().take_while(|byte| **byte != 0).all(u8::is_ascii_whitespace)
}

impl Reason {
    /// Returns kdb+'s error name.
    pub const fn term(&self) -> &'static str {
        match self {
            Reason::UnknownTable => "table",
            Reason::NoData { .. } | Reason::ColumnType { .. } => "type",
            Reason::ColumnCount { .. } | Reason::ColumnLength { .. } => "length",
            Reason::ColumnName { .. } => "mismatch",
            Reason::TooLong { .. } => "limit",
            Reason::Malformed(error) => error.term(),
            Reason::LogFailed => "io",
            Reason::NoRole => "access",
            Reason::Blocked => "noupdate",
        }
    }
}

fn type_words(ty: i8) -> String {
    let name = types::name(ty);
    if (types::BOOL..=types::TIME).contains(&ty) { format!("{name} vector") } else { name.to_string() }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.escape_ascii();
        write!(f, "{}: ", self.reason.term())?;
        match &self.reason {
            Reason::UnknownTable => write!(f, "no table {table}"),
            Reason::NoData { found } => {
                write!(f, "data for {table} must be a list of columns, one row or a table, not {}", type_words(*found))
            }
            Reason::ColumnCount { expected, without_time, found } => {
                let less = expected.saturating_sub(1);
                let hint = if *without_time { format!(", or {less} without the time") } else { String::new() };
                write!(f, "{table} has {expected} columns{hint}; got {found}")
            }
            Reason::ColumnType { column, expected, found } => {
                write!(f, "{table}.{column} is {}, got {}", types::name(*expected), type_words(*found))
            }
            Reason::ColumnLength { column, expected, found } => {
                write!(f, "{table}.{column} has {found} items, the columns before it {expected}")
            }
            Reason::ColumnName { column } => write!(f, "{table} and the data differ in column {column}"),
            Reason::TooLong { bytes } => write!(f, "{table}: a record of {bytes} bytes is too long (--limit-message)"),
            Reason::Malformed(error) => write!(f, "{} (byte {} of the data)", error.kind, error.offset),
            Reason::LogFailed => write!(f, "the tickerplant cannot write its log and rejects all updates"),
            Reason::NoRole => write!(f, "you may not publish {table} (users file, -u or -U)"),
            Reason::Blocked => write!(f, "clients may not publish (-b)"),
        }
    }
}
