//! Why an update was refused: what kdb+ would signal, and what was wrong in words.

use proto::{DecodeError, types};
use std::fmt;

/// An update that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As the publisher named it.
    pub table: Vec<u8>,
    pub reason: Reason,
}

/// What was wrong. Types are wire codes: negative for atoms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    UnknownTable,
    /// The data is neither columns, nor a row, nor a table.
    NoData {
        found: i8,
    },
    /// As many columns as the table has with the time, or without it.
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
    /// A table with a column that the schema does not have, or without one that it has.
    ColumnName {
        column: String,
    },
    /// More than a log record may have.
    TooLong {
        bytes: u64,
    },
    Malformed(DecodeError),
    /// The log takes nothing any more.
    LogFailed,
}

impl Refusal {
    /// The text of the error answer: kdb+'s name, and after a colon what was wrong. An unknown table is signalled by its name
    /// alone, as u.q does.
    pub fn signal(&self) -> Vec<u8> {
        match self.reason {
            Reason::UnknownTable if self.table.is_empty() => b"type: the name of the table is missing".to_vec(),
            Reason::UnknownTable => self.table.clone(),
            _ => self.to_string().into_bytes(),
        }
    }
}

impl Reason {
    /// kdb+'s name.
    pub const fn term(&self) -> &'static str {
        match self {
            Reason::UnknownTable => "table",
            Reason::NoData { .. } | Reason::ColumnType { .. } => "type",
            Reason::ColumnCount { .. } | Reason::ColumnLength { .. } => "length",
            Reason::ColumnName { .. } => "mismatch",
            Reason::TooLong { .. } => "limit",
            Reason::Malformed(error) => error.term(),
            Reason::LogFailed => "io",
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
                write!(f, "data for {table} must be columns, one row or a table, not {}", type_words(*found))
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
            Reason::TooLong { bytes } => write!(f, "{table}: {bytes} bytes are more than a record may have"),
            Reason::Malformed(error) => write!(f, "{} (byte {} of the data)", error.kind, error.offset),
            Reason::LogFailed => write!(f, "the log of the tickerplant cannot be written, nothing is accepted"),
        }
    }
}
