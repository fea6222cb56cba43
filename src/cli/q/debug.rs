//! Debugger for a suspended evaluation: its call stack, the locals of each frame, and how it continues.

use crate::q::QError;
use crate::q::host::Resume;
use crate::table::{Sym, Value, symbol};

/// A suspended evaluation, and the stack frame under inspection.
pub struct Suspended {
    error: QError,
    /// 0 is the innermost frame.
    level: usize,
}

/// Meaning of an input line in the debugger.
pub enum DebugAction {
    /// Text to print.
    Print(Vec<u8>),
    /// The evaluation continues or ends.
    End(Resume),
    /// The evaluation continues with the value of a text, which has these locals in scope.
    With(Vec<u8>, Vec<(Sym, Value)>),
    /// An expression or a command, with the locals in its scope.
    Evaluate(Vec<(Sym, Value)>),
}

impl Suspended {
    pub fn new(error: QError) -> Suspended {
        Suspended { error, level: 0 }
    }

    /// Returns the variables visible to an expression: locals of the current frame, and the primitive that failed with its arguments.
    fn locals(&self) -> Vec<(Sym, Value)> {
        let mut locals = self.error.locals(self.level).to_vec();
        if let Some((primitive, given)) = self.error.what_failed() {
            let named = |name: &[u8], value: &Value| Some((symbol::intern(name).ok()?, value.clone()));
            locals.extend(named(b".z.ex", primitive).into_iter().chain(named(b".z.ey", given)));
        }
        locals
    }

    /// Interprets a line: `` ` `` goes up, `.` down, `&` shows the frame, `.Q.bt[]` the stack, `:value` continues with a value in the place
    /// of what failed, `'name` leaves the innermost frame with another error, `\` ends the evaluation.
    pub fn interpret(&mut self, line: &[u8]) -> DebugAction {
        match line.trim_ascii() {
            b"\\" => DebugAction::End(Resume::Abort),
            b"`" => {
                self.level = (self.level + 1).min(self.error.trace().len().saturating_sub(1));
                DebugAction::Print(self.error.shown_at(self.level))
            }
            b"." => {
                self.level = self.level.saturating_sub(1);
                DebugAction::Print(self.error.shown_at(self.level))
            }
            b"&" => DebugAction::Print([b"'", &self.error.name[..], b"\n", &self.error.shown_at(self.level)].concat()),
            b".Q.bt[]" | b".Q.bt`" => DebugAction::Print(self.error.backtrace(self.level)),
            b":" => DebugAction::End(Resume::With(Value::Null)),
            [b':', text @ ..] => DebugAction::With(text.to_vec(), self.locals()),
            [b'\'', name @ ..] if name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'`') && !name.is_empty() => {
                DebugAction::End(Resume::Signal(name.strip_prefix(b"`").unwrap_or(name).to_vec()))
            }
            _ => DebugAction::Evaluate(self.locals()),
        }
    }
}
