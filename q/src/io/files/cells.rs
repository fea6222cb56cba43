//! Text parsed into columns: what the forms of `0:` share.

use super::bytes_of;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::type_error;
use crate::syntax::literal::letter_type;
use crate::verbs::tok::parse_text;
use columns::table::{Items, Value, Vector};
use proto::types;

/// Parses the column types: `None` skips a column, 0 keeps it as text.
pub(super) fn types(spec: &Value) -> std::result::Result<Vec<Option<i8>>, QError> {
    let letters = spec.as_text().ok_or_else(type_error)?;
    let one = |c: &u8| match c {
        b' ' => Ok(None),
        b'*' => Ok(Some(0)),
        c => letter_type(c.to_ascii_lowercase()).map(Some).ok_or_else(type_error),
    };
    letters.iter().map(one).collect()
}

/// Returns the text to parse (contents of a file, joined lines or the operand itself), and whether it is a single line.
pub(super) fn source(context: &Context, y: &Value) -> std::result::Result<(Vec<u8>, bool), QError> {
    match y {
        Value::Sym(_) => Ok((bytes_of(context, y)?, false)),
        Value::Vector(Vector { items: Items::Char(text), .. }) => Ok((text.to_vec(), !text.contains(&b'\n'))),
        Value::Vector(Vector { items: Items::List(l), .. }) => {
            if matches!(l.first(), Some(Value::Sym(_))) {
                return Ok((bytes_of(context, y)?, false));
            }
            let mut all = Vec::new();
            for line in l.iter() {
                all.extend_from_slice(line.as_text().ok_or_else(type_error)?);
                all.push(b'\n');
            }
            Ok((all, false))
        }
        Value::Vector(v) if v.is_empty() => Ok((Vec::new(), false)),
        _ => Err(type_error()),
    }
}

/// Number of cells that are parsed before they join their column.
const PART: usize = 1024;

/// A column that is being parsed.
pub(super) struct Cells {
    /// `None` for a column that is left out, 0 for one of texts.
    number: Option<i8>,
    whole: Items,
    part: Vec<Value>,
}

impl Cells {
    pub fn new(number: Option<i8>) -> Cells {
        Cells { number, whole: Items::empty_of(number.unwrap_or(types::LIST)), part: Vec::new() }
    }

    /// Parses the text of the next cell.
    ///
    /// # Errors
    /// `limit` for more symbols than there may be.
    pub fn push(&mut self, text: &[u8]) -> std::result::Result<(), QError> {
        let Some(number) = self.number else { return Ok(()) };
        self.part.push(parse_text(number, text)?);
        if self.part.len() >= PART {
            self.join();
        }
        Ok(())
    }

    fn join(&mut self) {
        let part = std::mem::take(&mut self.part);
        let texts = self.number == Some(types::LIST);
        let part = if texts {
            Items::List(part.into())
        } else {
            Items::collapse(part).unwrap_or_else(|part| Items::List(part.into()))
        };
        let whole = std::mem::replace(&mut self.whole, Items::empty_of(types::LIST));
        self.whole = whole.join(&part);
    }

    /// Returns the column; `None` if its type was a blank, which skips it.
    pub fn finish(mut self) -> Option<Value> {
        self.number?;
        if !self.part.is_empty() {
            self.join();
        }
        Some(self.whole.into())
    }
}

/// Returns the columns, or their items for a single line of text.
pub(super) fn answer(columns: Vec<Value>, single: bool) -> Value {
    if single { Value::collapse(columns.iter().map(|c| c.at(0)).collect()) } else { Value::list(columns) }
}
