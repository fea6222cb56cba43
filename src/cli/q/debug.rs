//! Debugger for a suspended evaluation: its call stack, the locals of each frame, and how it continues.

use crate::q::QError;
use crate::q::error::Locals;
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
    /// The evaluation continues with the value of a text, which has the locals in scope.
    With(Vec<u8>),
    /// An expression or a command, with the locals in its scope.
    Evaluate,
}

impl Suspended {
    pub fn new(error: QError) -> Suspended {
        Suspended { error, level: 0 }
    }

    /// The error, with the locals as expressions have left them.
    pub fn into_error(self) -> QError {
        self.error
    }

    /// Namespace of the current frame.
    pub fn namespace(&self) -> Sym {
        self.error.scope(self.level).map_or(Sym::NULL, |scope| scope.namespace)
    }

    /// Returns the variables visible to an expression: locals of the current frame, its function, and the primitive that failed with its arguments.
    pub fn locals(&self) -> Locals {
        let scope = self.error.scope(self.level);
        let mut locals = scope.map_or_else(Locals::new, |scope| scope.locals.clone());
        let named = |name: &[u8], value: &Value| Some((symbol::intern(name).ok()?, value.clone()));
        locals.extend(scope.and_then(|scope| named(b".z.s", scope.function.as_ref()?)));
        if let Some((primitive, given)) = self.error.what_failed() {
            locals.extend(named(b".z.ex", primitive).into_iter().chain(named(b".z.ey", given)));
        }
        locals
    }

    /// Takes back what an expression has made of [`Suspended::locals`].
    pub fn set_locals(&mut self, mut locals: Locals) {
        if let Some(scope) = self.error.scope_mut(self.level) {
            locals.truncate(scope.locals.len());
            scope.locals = locals;
        }
    }

    /// Interprets a line: `` ` `` goes up, `.` down, `&` shows the frame, `.Q.bt[]` the stack, `:value` continues with a value in the place
    /// of what failed. `'name` ends the innermost function with the error `name`; `'` alone ends it with an error whose name is empty. `\` ends the
    /// whole evaluation.
    pub fn interpret(&mut self, line: &[u8]) -> DebugAction {
        match command(line) {
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
            b".Q.bt[]" | b".Q.bt`" | b".Q.bt[];" => DebugAction::Print(self.error.backtrace(self.level)),
            b":" => DebugAction::End(Resume::With(Value::Null)),
            [b':', text @ ..] => DebugAction::With(text.to_vec()),
            line => {
                signalled(line).map_or(DebugAction::Evaluate, |name| DebugAction::End(Resume::Signal(name.to_vec())))
            }
        }
    }
}

/// A line without blanks around it; one of a single word also without the comment behind it.
fn command(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    match line.split_at_checked(end) {
        Some((word, rest)) if rest.trim_ascii_start().starts_with(b"/") => word,
        _ => line,
    }
}

/// The name in `'name`, `` '`name `` or `'"name"`; empty in `'`.
fn signalled(line: &[u8]) -> Option<&[u8]> {
    let name = line.strip_prefix(b"'")?;
    if let Some(text) = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")) {
        return (!text.iter().any(|byte| matches!(byte, b'"' | b'\\'))).then_some(text);
    }
    let name = name.strip_prefix(b"`").unwrap_or(name);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._".contains(byte);
    name.iter().all(is_name).then_some(name)
}
