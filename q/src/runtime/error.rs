//! Errors as q signals them.

use crate::runtime::locked;
use columns::sys::os_error;
use columns::table::function::Function;
use columns::table::symbol::TooManySymbols;
use columns::table::{Sym, Value};
use proto::Explained;
use std::borrow::Cow;
use std::sync::Arc;

/// Error of an expression: kdb+'s short name (`type`, `length`, the name of an undefined variable) and a detail for people.
#[derive(Clone, Debug)]
pub struct QError {
    /// Sent as the error response, without the quote. Bytes, as in q's strings.
    pub name: Cow<'static, [u8]>,
    /// What was wrong and where, for logs and the console; empty if the name says it all.
    pub detail: String,
    /// Boxed: every step returns a `Result`, and errors are rare.
    way: Option<Box<Way>>,
}

/// Stack trace of an error. Of it only [`QError::wire_text`] leaves the process.
#[derive(Clone, Debug, Default)]
struct Way {
    /// Innermost first.
    places: Vec<Place>,
    /// Position in the running text, until that text is known.
    at: Option<u32>,
    /// The scope of each of `places`, for a debugger.
    scopes: Vec<Scope>,
    /// The failed primitive and its arguments, if the host debugs.
    failed: Option<(Value, Value)>,
    /// The place is that of a variable, whose evaluation gave the error.
    is_unknown: bool,
    /// The error was signalled with the backtrace of another: the console shows every level.
    is_signalled_again: bool,
    suspension: Suspension,
}

/// What a debugger has made of an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Suspension {
    /// No debugger has seen it.
    #[default]
    New,
    /// It has been passed over: it continues as any error.
    Passed,
    /// It has been shown, and ends the evaluation.
    Shown,
    /// It ends the level of the call stack with this number, from 1, without a trace of it, and is new to the levels below.
    Ends(usize),
}

/// Names and values of a lambda's locals.
pub type Locals = Vec<(Sym, Value)>;

/// What a text at a level of the call stack refers to.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub locals: Locals,
    pub namespace: Sym,
    /// The lambda itself; `None` for a text that is none.
    pub function: Option<Value>,
}

/// One level of a stack trace: a text and the position in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the global that holds the function; empty for the text that the client sent.
    pub name: Vec<u8>,
    pub text: Vec<u8>,
    /// Byte position in the text.
    pub at: u32,
    /// Script line on which the text starts.
    pub origin: Option<Origin>,
}

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Full path.
    pub file: Arc<[u8]>,
    /// From 1.
    pub line: u32,
    /// Bytes before a definition in its line; 0 for a whole line.
    pub column: u32,
}

/// Longest text of a client whose errors are sent with their place: searching it takes time.
const MAX_PLACED_BYTES: usize = 4096;

/// Errors are equal if the client sees no difference; stack traces do not count.
impl PartialEq for QError {
    fn eq(&self, other: &QError) -> bool {
        self.name == other.name && self.detail == other.detail
    }
}

impl Eq for QError {}

impl From<TooManySymbols> for QError {
    fn from(full: TooManySymbols) -> QError {
        QError::with("limit", full.to_string())
    }
}

/// The name of an unknown variable as the text has it, without its namespace: for `foo` under `\d .my` the error is `'foo`, not `'.my.foo`.
fn as_written(full: &[u8], place: &Place) -> Option<Vec<u8>> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let word = place.text.get(place.at as usize..)?.split(|byte| !is_of_name(byte)).next()?;
    let space = full.strip_suffix(word)?.strip_suffix(b".")?;
    (space.first() == Some(&b'.') && word.first().is_some_and(u8::is_ascii_alphabetic)).then(|| word.to_vec())
}

impl QError {
    /// Maximum number of levels in a stack trace.
    pub(crate) const MAX_TRACE: usize = 64;

    /// An error with one of kdb+'s names and no detail.
    pub const fn named(name: &'static str) -> QError {
        QError { name: Cow::Borrowed(name.as_bytes()), detail: String::new(), way: None }
    }

    /// An error with one of kdb+'s names and a detail for people.
    pub fn with(name: &'static str, detail: impl Into<String>) -> QError {
        QError { detail: detail.into(), ..QError::named(name) }
    }

    /// An error whose name is made at run time: an undefined variable, a signalled string.
    pub fn signal(name: impl Into<Vec<u8>>) -> QError {
        QError { name: Cow::Owned(name.into()), detail: String::new(), way: None }
    }

    /// What the operating system refused, as kdb+ words it: `'x.q. OS reports: No such file or directory`.
    pub fn reported(what: impl std::fmt::Display, error: &std::io::Error) -> QError {
        QError::signal(format!("{what}. OS reports: {}", os_error::words(error)))
    }

    /// `'name` for a column that a table does not have, as in kdb+. An empty name would be no help, so it gives `type`.
    pub fn no_column(name: impl Into<Vec<u8>>) -> QError {
        let name = name.into();
        if name.is_empty() {
            QError::with("type", "every column of a table must have a name")
        } else {
            QError::signal(name)
        }
    }

    /// The error with the levels of a backtrace, below those that it has yet to leave.
    pub(crate) fn with_backtrace(mut self, places: Vec<Place>) -> QError {
        let way = self.way.get_or_insert_default();
        way.is_signalled_again = true;
        way.places = places;
        self
    }

    /// Adds the position of the variable that gave the error. If it is not there, its full name is the error's name.
    pub(crate) fn of_variable(self, at: u32) -> QError {
        let is_own = !self.has_place();
        let mut error = self.place(at);
        error.way.get_or_insert_default().is_unknown |= is_own;
        error
    }

    /// Adds the position in the running text, unless an inner one is known.
    pub(crate) fn place(mut self, at: u32) -> QError {
        self.way.get_or_insert_default().at.get_or_insert(at);
        self
    }

    /// The same error with another reason.
    pub fn because(self, detail: impl Into<String>) -> QError {
        QError { detail: detail.into(), ..self }
    }

    /// Whether the text in which the error occurred is known, or the position in it.
    pub(crate) fn has_place(&self) -> bool {
        self.way.as_ref().is_some_and(|way| way.at.is_some() || !way.places.is_empty())
    }

    /// Adds the failed primitive and its arguments, unless an inner one is known.
    pub(crate) fn failed(mut self, primitive: u16, given: &[Value]) -> QError {
        let way = self.way.get_or_insert_default();
        if way.failed.is_none() && way.places.is_empty() {
            way.failed = Some((Value::func(Function::Primitive(primitive)), Value::list(given.to_vec())));
        }
        self
    }

    /// The failed primitive and its arguments: `.z.ex` and `.z.ey`.
    pub fn what_failed(&self) -> Option<&(Value, Value)> {
        self.way.as_ref()?.failed.as_ref()
    }

    /// Whether a debugger at this depth of the call stack has yet to see the error.
    pub(crate) fn is_new_at(&self, depth: usize) -> bool {
        match self.way.as_ref().map_or(Suspension::New, |way| way.suspension) {
            Suspension::New => true,
            Suspension::Passed | Suspension::Shown => false,
            Suspension::Ends(level) => depth < level,
        }
    }

    fn after(mut self, suspension: Suspension) -> QError {
        self.way.get_or_insert_default().suspension = suspension;
        self
    }

    /// The error as one that no debugger stops.
    pub(crate) fn passed(self) -> QError {
        self.after(Suspension::Passed)
    }

    /// The error as one that a debugger has shown.
    pub(crate) fn ended(self) -> QError {
        self.after(Suspension::Shown)
    }

    /// The error of `'name` at the debugger: it ends the function at this depth of the call stack (1 is the outermost function), whose caller then
    /// fails with it.
    pub(crate) fn from_debugger(name: Vec<u8>, level: usize) -> QError {
        QError::signal(name).after(Suspension::Ends(level))
    }

    /// Whether a debugger has shown the error.
    pub fn is_shown(&self) -> bool {
        self.way.as_ref().is_some_and(|way| way.suspension == Suspension::Shown)
    }

    /// The error with the levels around it: its trace as it will be once it has left them.
    pub(crate) fn within(mut self, around: Vec<(Place, Scope)>) -> QError {
        let way = self.way.get_or_insert_default();
        way.at = None;
        way.scopes.resize(way.places.len(), Scope::default());
        for (place, scope) in around {
            way.places.push(place);
            way.scopes.push(scope);
        }
        way.places.truncate(QError::MAX_TRACE);
        way.scopes.truncate(QError::MAX_TRACE);
        self
    }

    /// The position in the running text, if it is known.
    pub(crate) fn position(&self) -> Option<u32> {
        self.way.as_ref()?.at
    }

    /// Adds a level to the stack trace: the error leaves this text.
    pub(crate) fn leave(mut self, name: &[u8], text: &[u8], start: u32) -> QError {
        if let Some(way) = &mut self.way
            && matches!(way.suspension, Suspension::Ends(_))
            && way.places.is_empty()
        {
            // The level that the debugger ends has no trace; the one around it has its own.
            (way.suspension, way.at) = (Suspension::New, None);
            return self;
        }
        if let Some(way) = &mut self.way
            && let Some(at) = way.at.take()
            && way.places.len() < QError::MAX_TRACE
        {
            let mut place =
                Place { name: name.to_vec(), text: text.to_vec(), at: at.saturating_sub(start), origin: None };
            if place.at == 0 && name.is_empty() && text.starts_with(b"'") {
                // For a line that begins with a signal, as `'`oops` does, kdb+ puts the caret behind the quote.
                place.at = 1;
            }
            let short = if std::mem::take(&mut way.is_unknown) { as_written(&self.name, &place) } else { None };
            way.places.push(place.shown());
            if let Some(short) = short {
                self.name = Cow::Owned(short);
            }
        }
        self
    }

    /// Locals and namespace of a level of the call stack, 0 the innermost. `None` for an error that has not suspended its evaluation.
    pub fn scope(&self, level: usize) -> Option<&Scope> {
        self.way.as_ref()?.scopes.get(level)
    }

    /// As [`QError::scope`], to change the locals with which the evaluation continues.
    pub fn scope_mut(&mut self, level: usize) -> Option<&mut Scope> {
        self.way.as_mut()?.scopes.get_mut(level)
    }

    /// The text at a level, 0 the innermost, with its depth and a caret.
    pub fn shown_at(&self, level: usize) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(place) = self.trace().get(level) {
            place.write(self.trace().len().saturating_sub(level + 1), &mut out);
        }
        out
    }

    /// The stack trace with one level marked: `.Q.bt`.
    pub fn backtrace(&self, level: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (i, place) in self.trace().iter().enumerate() {
            let depth = self.trace().len().saturating_sub(i + 1);
            let mark = if i == level { ">>" } else { "  " };
            place.write_after(&format!("{mark}[{depth}]  "), &mut out);
        }
        out
    }

    /// The levels of the stack trace, innermost first.
    pub fn trace(&self) -> &[Place] {
        self.way.as_ref().map_or(&[], |way| &way.places)
    }

    /// Adds to each level the script line where its function was defined.
    pub(crate) fn locate(mut self, origin: impl Fn(&[u8]) -> Option<Origin>) -> QError {
        if let Some(way) = &mut self.way {
            for place in way.places.iter_mut().filter(|p| p.origin.is_none() && !p.name.is_empty()) {
                place.origin = origin(&place.name);
            }
        }
        self
    }

    /// Adds the script line to the outermost level so far.
    pub(crate) fn locate_last(mut self, origin: &Origin) -> QError {
        if let Some(place) = self.way.as_mut().and_then(|way| way.places.last_mut()) {
            place.origin.get_or_insert_with(|| origin.clone());
        }
        self
    }

    /// Adds a level that has no source text, only a name.
    pub(crate) fn leave_native(mut self, name: &str) -> QError {
        if let Some(way) = &mut self.way
            && !way.places.is_empty()
            && way.places.len() < QError::MAX_TRACE
        {
            way.places.push(Place { name: Vec::new(), text: name.into(), at: Place::NOWHERE, origin: None });
        }
        self
    }

    /// Adds a level for the command that ran a script.
    pub(crate) fn leave_command(mut self, command: Vec<u8>) -> QError {
        if let Some(way) = &mut self.way
            && way.places.len() < QError::MAX_TRACE
        {
            way.places.push(Place { name: Vec::new(), text: command, at: 0, origin: None });
        }
        self.place(0)
    }

    /// Returns the text of an error response: the name alone, as programs expect it, or for a client that requested reasons also the detail
    /// and the place, if the message was text (`asked`).
    pub fn wire_text(&self, explains: bool, asked: Option<&[u8]>) -> Cow<'_, [u8]> {
        if !explains {
            return Cow::Borrowed(&self.name);
        }
        let place = asked.map_or_else(Vec::new, |text| self.place_for(text));
        Cow::Owned(Explained { name: &self.name, reason: self.detail.as_bytes(), place: &place }.encode())
    }

    /// Returns the innermost text with a caret that the client who sent `text` may see: its own, a lambda in it, or a function that it calls by
    /// name, which the client may read anyway. Functions around it (`.z.pg`), text that a function has made, and paths of scripts stay here.
    fn place_for(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let trace = self.trace();
        let own = trace.iter().rposition(|place| place.name.is_empty() && place.text == text);
        let Some(own) = own.filter(|_| text.len() <= MAX_PLACED_BYTES) else { return out };
        let is_handled = own + 1 < trace.len();
        let is_part = |part: &[u8]| !part.is_empty() && text.windows(part.len()).any(|sent| sent == part);
        let may_see = |(_, place): &(usize, &Place)| is_part(&place.text) || !(is_handled || place.name.is_empty());
        if let Some((level, place)) = trace.iter().enumerate().find(may_see) {
            Place { origin: None, ..place.clone() }.write(own.saturating_sub(level), &mut out);
        }
        out
    }

    /// The error that another process has sent.
    pub fn received(text: &[u8]) -> QError {
        let Explained { name, reason, .. } = Explained::parse(text);
        QError { detail: String::from_utf8_lossy(reason).into_owned(), ..QError::signal(name) }
    }

    /// Returns the error as the console shows it: its name, and the innermost text with a caret below the failed operation.
    pub fn shown(&self) -> Vec<u8> {
        let mut place = Vec::new();
        let trace = self.trace();
        let levels = if self.way.as_ref().is_some_and(|way| way.is_signalled_again) { trace.len() } else { 1 };
        for (i, level) in trace.iter().enumerate().take(levels) {
            level.write(trace.len().saturating_sub(i + 1), &mut place);
        }
        shown(Explained { name: &self.name, reason: self.detail.as_bytes(), place: &place })
    }
}

/// Returns an error as the console shows it.
pub fn shown(error: Explained) -> Vec<u8> {
    let reason: &[&[u8]] = if error.reason.is_empty() { &[] } else { &[b" (", error.reason, b")"] };
    [&[b"'", error.name], reason, &[b"\n", error.place]].concat().concat()
}

impl Place {
    /// Without the text of locked code.
    pub(crate) fn shown(self) -> Place {
        match locked::is_locked(&self.text) {
            true => Place { text: locked::shown(&self.text).to_vec(), at: 0, ..self },
            false => self,
        }
    }

    /// Position in a level that is no code.
    pub(crate) const NOWHERE: u32 = u32::MAX;

    /// Writes `  [depth]  file:line: name:text` and the caret below it.
    pub(crate) fn write(&self, depth: usize, out: &mut Vec<u8>) {
        self.write_after(&format!("  [{depth}]  "), out);
    }

    /// As [`Place::write`], with another start of the line than the depth.
    pub(crate) fn write_after(&self, start: &str, out: &mut Vec<u8>) {
        let mut head = start.as_bytes().to_vec();
        if self.at == Place::NOWHERE {
            out.extend_from_slice(&head);
            out.extend_from_slice(&self.text);
            out.push(b'\n');
            return;
        }
        let at = (self.at as usize).min(self.text.len());
        if let Some(origin) = &self.origin {
            let above = self.text.get(..at).map_or(0, |t| t.iter().filter(|c| **c == b'\n').count());
            let line = u64::from(origin.line).saturating_add(above as u64);
            head.extend_from_slice(&origin.file);
            head.extend_from_slice(format!(":{line}: ").as_bytes());
        }
        if !self.name.is_empty() {
            head.extend_from_slice(&self.name);
            head.push(b':');
        }
        write_lines(&head, &self.text, at, out);
    }
}

/// Writes the line of `text` with the position `at`, a caret under it, and as kdb+ does the lines before and after it. The first line of the text
/// follows `head`, as in `/my/a.q:3: f:{[x]`; lines further down stand below it.
fn write_lines(head: &[u8], text: &[u8], at: usize, out: &mut Vec<u8>) {
    let columns = |line: &[u8]| line.iter().filter(|c| **c & 0xc0 != 0x80).count();
    let before = text.get(..at).unwrap_or(text);
    let marked = before.iter().filter(|c| **c == b'\n').count();
    let start = before.rsplit(|c| *c == b'\n').next().unwrap_or_default();
    let indent = columns(start) + if marked == 0 { columns(head) } else { 0 };
    let first = marked.saturating_sub(1);
    out.extend_from_slice(head);
    if first > 0 {
        out.push(b'\n');
    }
    for (number, line) in text.split(|c| *c == b'\n').enumerate().skip(first).take_while(|(n, _)| *n <= marked + 1) {
        out.extend_from_slice(line);
        out.push(b'\n');
        if number == marked {
            out.extend(std::iter::repeat_n(b' ', indent));
            out.extend_from_slice(b"^\n");
        }
    }
}

impl std::fmt::Display for QError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}", String::from_utf8_lossy(&self.name))?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl std::error::Error for QError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The level of a function of four lines, the first of which is line 7 of its script, at this text.
    fn shown(at_text: &str) -> String {
        let text = "{[x]\n  bb:2;\n  c:3;\n  d:4}";
        let at = text.find(at_text).map_or(0, |at| at as u32);
        let origin = Some(Origin { file: b"/s.q".as_slice().into(), line: 7, column: 0 });
        let mut out = Vec::new();
        Place { name: b"f".to_vec(), text: text.as_bytes().to_vec(), at, origin }.write(0, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_level_shows_the_lines_before_and_after() {
        assert_eq!(shown("[x]"), "  [0]  /s.q:7: f:{[x]\n                  ^\n  bb:2;\n");
        assert_eq!(shown(":2"), "  [0]  /s.q:8: f:{[x]\n  bb:2;\n    ^\n  c:3;\n");
        assert_eq!(shown(":3"), "  [0]  /s.q:9: f:\n  bb:2;\n  c:3;\n   ^\n  d:4}\n");
        assert_eq!(shown(":4"), "  [0]  /s.q:10: f:\n  c:3;\n  d:4}\n   ^\n");
    }
}
