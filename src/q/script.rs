//! Script files: expressions over several lines by indentation, comments, blocks of comment.

use super::error::QError;
use super::eval_line;
use super::limits::Limits;
use super::session::Session;

/// A script's error and the line, from 1, on which its expression starts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct ScriptError {
    pub line: usize,
    pub error: QError,
}

/// Runs a script's expressions in order; what they print stays in the session.
///
/// # Errors
/// The first error, with its line. What was defined before it stays defined.
pub fn run(text: &[u8], session: &mut Session) -> Result<(), ScriptError> {
    for (line, expression) in expressions(text) {
        eval_line(session, &expression, &Limits::default()).map_err(|error| ScriptError { line, error })?;
    }
    Ok(())
}

/// The expressions of a script, each with the line on which it starts.
///
/// A line that is indented, or starts with a closing brace, continues the one before. A lone `/` opens a comment that a
/// lone `\` closes; a lone `\` outside one ends the script.
pub fn expressions(text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut out: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut in_comment = false;
    for (i, line) in text.split(|c| *c == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let trimmed = line.trim_ascii();
        if in_comment {
            in_comment = trimmed != b"\\";
            continue;
        }
        match line.first() {
            _ if line.trim_ascii_end() == b"/" => in_comment = true,
            _ if line.trim_ascii_end() == b"\\" => break,
            None | Some(b'/') => {}
            Some(c) if c.is_ascii_whitespace() || *c == b'}' => {
                if let Some((_, expression)) = out.last_mut()
                    && !trimmed.starts_with(b"/")
                {
                    expression.push(b'\n');
                    expression.extend_from_slice(line);
                }
            }
            Some(_) => out.push((i + 1, line.to_vec())),
        }
    }
    out
}
