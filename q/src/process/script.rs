//! Script files.

pub use crate::syntax::script::{Lines, expressions, expressions_of};

use crate::process::entry::eval_line;
use crate::process::session::Session;
use crate::runtime::error::QError;
use crate::runtime::limits::Limits;

/// Error of a script, with the first line (from 1) of the expression that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{column}:\n{shown}", column = self.column(), shown = self.shown().trim_end())]
pub struct ScriptError {
    pub line: usize,
    pub error: QError,
}

impl ScriptError {
    /// The source text with its caret, with control characters replaced: they could control the terminal.
    fn shown(&self) -> String {
        let is_command = |c: char| c.is_control() && c != '\n' && c != '\t';
        String::from_utf8_lossy(&self.error.shown()).replace(is_command, "\u{fffd}")
    }

    /// Column of the error, for an expression on one line.
    fn column(&self) -> String {
        match self.error.trace().last() {
            Some(place) if !place.text.contains(&b'\n') => format!(", column {}", place.at.saturating_add(1)),
            _ => String::new(),
        }
    }
}

/// Evaluates the expressions of a script in order, each within the limits. Output stays in the session.
///
/// # Errors
/// The first error, with its line. Earlier definitions remain.
pub fn run(text: &[u8], session: &mut Session, limits: &Limits) -> Result<(), ScriptError> {
    for (line, expression) in expressions(text) {
        eval_line(session, &expression, limits).map_err(|error| ScriptError { line, error })?;
    }
    Ok(())
}
