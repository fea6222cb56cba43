//! Debugger for a failed expression: its call stack and the locals of each frame.

use crate::q::QError;
use crate::table::{Sym, Value, symbol};

/// A failed expression, and the stack frame under inspection.
pub struct Suspended {
    error: QError,
    /// 0 is the innermost frame.
    level: usize,
}

/// Meaning of an input line in the debugger.
pub enum DebugAction {
    /// Text to print.
    Print(Vec<u8>),
    /// The debugger is left.
    Exit,
    /// An expression or a command.
    Evaluate,
}

impl Suspended {
    /// Returns `None` for an error outside of functions.
    pub fn of(error: &QError) -> Option<Suspended> {
        (error.trace().len() > 1).then(|| Suspended { error: error.clone(), level: 0 })
    }

    /// Returns the variables visible to an expression: locals of the current frame, and the primitive that failed with its arguments.
    pub fn locals(&self) -> Vec<(Sym, Value)> {
        let mut locals = self.error.locals(self.level).to_vec();
        if let Some((primitive, given)) = self.error.what_failed() {
            let named = |name: &[u8], value: &Value| Some((symbol::intern(name).ok()?, value.clone()));
            locals.extend(named(b".z.ex", primitive).into_iter().chain(named(b".z.ey", given)));
        }
        locals
    }

    /// Interprets a line: `` ` `` goes up, `.` down, `&` shows the frame, `.Q.bt[]` the stack, `'name` leaves the innermost frame with
    /// another error, `\` leaves the debugger. The frames have already ended when the error arrives, so `:value` cannot resume them.
    pub fn interpret(&mut self, line: &[u8]) -> DebugAction {
        match line.trim_ascii() {
            b"\\" => DebugAction::Exit,
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
            [b':', ..] => DebugAction::Print(
                b"'nyi (the failed evaluation has ended: it cannot continue with another value)\n".to_vec(),
            ),
            [b'\'', name @ ..] if name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'`') && !name.is_empty() => {
                let name = name.strip_prefix(b"`").unwrap_or(name);
                self.error = self.error.clone().instead(name);
                self.level = 0;
                match self.error.trace() {
                    [_, _, ..] => DebugAction::Print(self.error.shown()),
                    _ => DebugAction::Exit,
                }
            }
            _ => DebugAction::Evaluate,
        }
    }
}
