//! What an error has left to look at: the texts on its way, and the locals of each.

use crate::q::QError;
use crate::table::{Sym, Value, symbol};

/// An error and the text on its way that is looked at.
pub struct Suspended {
    error: QError,
    /// 0 for the innermost.
    level: usize,
}

/// What a line means while something is suspended.
pub enum Meant {
    /// To be shown.
    Shown(Vec<u8>),
    /// Nothing is left of it.
    Left,
    /// An expression, or a command.
    Expression,
}

impl Suspended {
    /// None for an error that came through no function.
    pub fn of(error: &QError) -> Option<Suspended> {
        (error.trace().len() > 1).then(|| Suspended { error: error.clone(), level: 0 })
    }

    /// What an expression sees: the locals of the text that is looked at, and what failed.
    pub fn locals(&self) -> Vec<(Sym, Value)> {
        let mut locals = self.error.locals(self.level).to_vec();
        if let Some((primitive, given)) = self.error.what_failed() {
            let named = |name: &[u8], value: &Value| Some((symbol::intern(name).ok()?, value.clone()));
            locals.extend(named(b".z.ex", primitive).into_iter().chain(named(b".z.ey", given)));
        }
        locals
    }

    /// `` ` `` goes up, `.` down, `&` says where, `.Q.bt[]` shows all, `'name` leaves the innermost text with another error,
    /// `\\` leaves them all. An error is found out when its texts have ended, so that `:value` has nothing to go on with.
    pub fn meant(&mut self, line: &[u8]) -> Meant {
        match line.trim_ascii() {
            b"\\" => Meant::Left,
            b"`" => {
                self.level = (self.level + 1).min(self.error.trace().len().saturating_sub(1));
                Meant::Shown(self.error.shown_at(self.level))
            }
            b"." => {
                self.level = self.level.saturating_sub(1);
                Meant::Shown(self.error.shown_at(self.level))
            }
            b"&" => Meant::Shown([b"'", &self.error.name[..], b"\n", &self.error.shown_at(self.level)].concat()),
            b".Q.bt[]" | b".Q.bt`" => Meant::Shown(self.error.backtrace(self.level)),
            [b':', ..] => Meant::Shown(b"'nyi (what failed is over: it cannot go on with another value)\n".to_vec()),
            [b'\'', name @ ..] if name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'`') && !name.is_empty() => {
                let name = name.strip_prefix(b"`").unwrap_or(name);
                self.error = self.error.clone().instead(name);
                self.level = 0;
                match self.error.trace() {
                    [_, _, ..] => Meant::Shown(self.error.shown()),
                    _ => Meant::Left,
                }
            }
            _ => Meant::Expression,
        }
    }
}
