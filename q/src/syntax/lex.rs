//! Lexer. Decides by context whether a minus is a sign and whether a slash starts a comment.

use crate::runtime::error::QError;
use crate::runtime::time::is_digit;
use crate::runtime::{limits, locked};
use crate::syntax::{literal, prims};
use columns::sys::budget::BLOCK;
use columns::table::function::Iterator;
use columns::table::symbol::intern_name as intern;
use columns::table::{Sym, Value};

/// A token.
#[derive(Clone, Debug)]
pub enum Token {
    /// A literal; adjacent numbers or symbols make one vector.
    Literal(Value),
    Name(&'static [u8]),
    /// An operator, perhaps with a colon appended (`+:`).
    Glyph(&'static str),
    Iterator(Iterator),
    Open(u8),
    Close(u8),
    Semicolon,
    End,
}

/// A token and its position.
#[derive(Clone, Debug)]
pub struct Placed {
    pub token: Token,
    pub start: usize,
    pub end: usize,
    /// Preceded by white space.
    pub spaced: bool,
}

/// Operators. The lexer takes the first match, so it never finds an operator listed after one of its own prefixes.
const GLYPHS: [&str; 43] = [
    "<=", ">=", "<>", "::", "+:", "-:", "*:", "%:", "&:", "|:", "^:", "=:", "<:", ">:", "$:", ",:", "#:", "_:", "~:",
    "!:", "?:", "@:", ".:", ":", "+", "-", "*", "%", "&", "|", "^", "=", "<", ">", "$", ",", "#", "_", "~", "!", "?",
    "@", ".",
];

/// Marks text in k; a lambda in k carries it as well.
pub(crate) const PREFIX: &[u8] = b"k)";

/// The language of a text; text in k begins with [`PREFIX`], and text in q that is not shown with [`locked::MARK`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Q,
    K,
    Locked,
}

impl Language {
    pub(crate) fn of(text: &[u8]) -> Language {
        match text {
            _ if text.starts_with(PREFIX) => Language::K,
            _ if locked::is_locked(text) => Language::Locked,
            _ => Language::Q,
        }
    }

    /// What a text in this language begins with.
    pub(crate) fn mark(self) -> &'static [u8] {
        match self {
            Language::Q => b"",
            Language::K => PREFIX,
            Language::Locked => locked::MARK,
        }
    }
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the text begins, past the mark of its language.
    first: usize,
    language: Language,
    /// Whether a number that is none is an error.
    checks_numbers: bool,
    out: Vec<Placed>,
    /// For each open bracket, whether it opens the parameters of a lambda or the keys of a table.
    heads: Vec<bool>,
    /// Where the last such list ended: no left operand of a minus.
    head_end: usize,
    /// Whether a line has ended within brackets since the last token: in k that separates, as a semicolon does.
    line_ended: bool,
}

/// Returns the tokens of `text`, ending with [`Token::End`].
///
/// # Errors
/// `parse` with its position; `limit` if there is no room for a new symbol; `stop` and `wsfull` at the limits.
pub fn tokens(text: &[u8], language: Language) -> Result<Vec<Placed>, QError> {
    read(text, language, true)
}

/// As [`tokens`] of q, for their places only: what begins as a number need not be one.
///
/// # Errors
/// Those of [`tokens`].
pub fn pieces(text: &[u8]) -> Result<Vec<Placed>, QError> {
    let language = Language::of(text);
    read(text, if language == Language::K { Language::Q } else { language }, false)
}

fn read(text: &[u8], language: Language, checks_numbers: bool) -> Result<Vec<Placed>, QError> {
    let first = language.mark().len();
    let (out, heads) = (Vec::new(), Vec::new());
    let mut lexer =
        Lexer { text, at: first, first, language, checks_numbers, out, heads, head_end: 0, line_ended: false };
    while lexer.step()? {
        limits::pace()?;
    }
    let end = text.len();
    lexer.out.push(Placed { token: Token::End, start: end, end, spaced: true });
    Ok(lexer.out)
}

/// The longest number that names its error.
const MAX_NAMED_BYTES: usize = 64;

/// A syntax error at a byte position.
pub fn parse_error(what: &str, at: usize) -> QError {
    QError::with("parse", what).place(u32::try_from(at).unwrap_or(u32::MAX))
}

/// The error of numbers that are none or that do not fit one list. As in kdb+, its name is the number, if one of them is none.
fn not_a_number(parts: &[&[u8]], at: usize) -> QError {
    let at_fault = parts.iter().find(|part| literal::numbers(&[part]).is_none());
    let text = String::from_utf8_lossy(&parts.join(&b' ')).into_owned();
    match at_fault.filter(|part| part.len() <= MAX_NAMED_BYTES) {
        Some(part) => QError::signal(*part).because("not a number").place(u32::try_from(at).unwrap_or(u32::MAX)),
        None => parse_error(&format!("not a number: {text}"), at),
    }
}

/// Whether nothing but blanks and a comment stands before the end of the expression.
fn ends_expression(text: &[u8]) -> bool {
    let blanks = text.iter().take_while(|c| matches!(c, b' ' | b'\t' | b'\r')).count();
    match text.get(blanks) {
        None | Some(b')' | b']' | b'}' | b';' | b'\n') => true,
        Some(b'/') => blanks > 0,
        Some(_) => false,
    }
}

fn is_name_start(c: u8) -> bool {
    c.is_ascii_alphabetic() || c >= 0x80
}

fn is_name(c: u8) -> bool {
    is_name_start(c) || is_digit(c) || c == b'_' || c == b'.'
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn spaced(&self) -> bool {
        self.at <= self.first || self.text.get(self.at - 1).is_some_and(|c| c.is_ascii_whitespace() || *c == 0xa0)
    }

    /// Whether a minus here is the sign of a number: a number follows, and no possible left operand touches it.
    fn minus_is_sign(&self) -> bool {
        let number_follows = is_digit(self.peek(1)) || (self.peek(1) == b'.' && is_digit(self.peek(2)));
        let before = if self.at <= self.first { b' ' } else { self.text.get(self.at - 1).copied().unwrap_or(b' ') };
        // `1_-2_x`, `f .-2#x`: this underscore or dot is an operator, not part of a name.
        let after_verb = matches!(before, b'_' | b'.')
            && self.out.last().is_some_and(|p| matches!(p.token, Token::Glyph("_" | ".")));
        let is_operand = matches!(before, b')' | b']' | b'}' | b'"' | b'`') && self.head_end != self.at;
        number_follows && (after_verb || !is_name(before)) && !is_operand
    }

    /// Whether an underscore after a name that starts there is the verb: in k it is after one letter (`x_y`).
    fn is_drop(&self, start: usize) -> bool {
        self.language == Language::K && self.at == start + 1
    }

    /// Whether a dot here is the operator: before a keyword after a value in parentheses. `(+).reverse` applies the value and names nothing;
    /// `("off";"on").log.enabled` and ``(f).proc`file`` apply it to a name.
    fn follows_value(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.text.get(at));
        let word = self.text.get(self.at + 1..).unwrap_or_default();
        let word = word.split(|c| !is_name(*c)).next().unwrap_or_default();
        self.at > self.first && before == Some(&b')') && prims::keyword(word).is_some()
    }

    fn number_starts(&self) -> bool {
        let c = self.peek(0);
        is_digit(c) || (c == b'.' && is_digit(self.peek(1))) || (c == b'-' && self.minus_is_sign())
    }

    fn push(&mut self, token: Token, start: usize, spaced: bool) {
        let separates = std::mem::take(&mut self.line_ended)
            && !matches!(token, Token::Close(_) | Token::Semicolon)
            && !matches!(self.out.last().map(|p| &p.token), Some(Token::Open(_) | Token::Semicolon));
        if separates {
            self.out.push(Placed { token: Token::Semicolon, start, end: start, spaced: true });
        }
        self.out.push(Placed { token, start, end: self.at, spaced });
    }

    fn blank(&mut self, c: u8) {
        self.line_ended |= c == b'\n' && self.separates_lines();
        self.at += 1;
    }

    /// Whether the end of a line separates here.
    fn separates_lines(&self) -> bool {
        self.language == Language::K && !self.heads.is_empty()
    }

    /// Reads one token; false at the end.
    fn step(&mut self) -> Result<bool, QError> {
        let spaced = self.spaced();
        let start = self.at;
        let c = self.peek(0);
        if self.at >= self.text.len() {
            return Ok(false);
        }
        match c {
            c if c.is_ascii_whitespace() => self.blank(c),
            // A no-break space, common in text copied from a web page.
            0xc2 if self.peek(1) == 0xa0 => self.at += 2,
            b'/' if spaced => {
                while self.at < self.text.len() && self.peek(0) != b'\n' {
                    self.at += 1;
                }
            }
            0 => return Err(QError::named("char").place(u32::try_from(start).unwrap_or(u32::MAX))),
            b'"' => self.string(spaced)?,
            b'`' => self.symbols(spaced)?,
            b'(' | b'[' | b'{' => {
                let after = self.out.last().map(|p| &p.token);
                self.heads.push(c == b'[' && matches!(after, Some(Token::Open(b'{' | b'('))));
                self.at += 1;
                self.push(Token::Open(c), start, spaced);
            }
            b')' | b']' | b'}' => {
                self.at += 1;
                if self.heads.pop() == Some(true) {
                    self.head_end = self.at;
                }
                self.push(Token::Close(c), start, spaced);
            }
            b';' => {
                self.at += 1;
                self.push(Token::Semicolon, start, spaced);
            }
            b'0'..=b'2' if self.is_file_operator() => {
                let glyph = self.file_operator();
                self.at += glyph.len();
                self.push(Token::Glyph(glyph), start, spaced);
            }
            _ if self.number_starts() => self.numbers(spaced)?,
            c if is_name_start(c) || (c == b'.' && is_name_start(self.peek(1)) && !self.follows_value()) => {
                self.at += 1;
                while is_name(self.peek(0))
                    && !(self.peek(0) == 0xc2 && self.peek(1) == 0xa0)
                    && !(self.peek(0) == b'_' && self.is_drop(start))
                {
                    self.at += 1;
                }
                let symbol = intern(self.text.get(start..self.at).unwrap_or_default()).map_err(QError::from)?;
                self.push(Token::Name(columns::table::symbol::text(symbol)), start, spaced);
            }
            b'\'' | b'/' | b'\\' => {
                let colon = self.peek(1) == b':';
                let iterator = match (c, colon) {
                    (b'\'', false) => Iterator::Each,
                    (b'\'', true) => Iterator::EachPrior,
                    (b'/', false) => Iterator::Over,
                    (b'/', true) => Iterator::EachRight,
                    (_, false) => Iterator::Scan,
                    (_, true) => Iterator::EachLeft,
                };
                self.at += 1 + usize::from(colon);
                // `f \ x`: a space before a backslash means nothing, unless the backslash begins an expression.
                let begins = !matches!(
                    self.out.last().map(|p| &p.token),
                    Some(Token::Literal(_) | Token::Name(_) | Token::Glyph(_) | Token::Iterator(_) | Token::Close(_))
                );
                self.push(Token::Iterator(iterator), start, spaced && (c != b'\\' || begins));
            }
            _ => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let known = |g: &&&str| self.language != Language::K || !matches!(**g, "<=" | ">=" | "<>");
                let glyph = GLYPHS.iter().filter(known).find(|g| rest.starts_with(g.as_bytes()));
                let glyph = glyph.ok_or_else(|| parse_error("unexpected character", start))?;
                // `3#::` at the end of an expression is `#` before `::`.
                let glyph = match rest {
                    [_, b':', b':', after @ ..] if *glyph != "::" && ends_expression(after) => {
                        GLYPHS.iter().find(|g| g.as_bytes() == rest.get(..1).unwrap_or_default()).unwrap_or(glyph)
                    }
                    _ => glyph,
                };
                self.at += glyph.len();
                self.push(Token::Glyph(glyph), start, spaced);
            }
        }
        Ok(true)
    }

    fn string(&mut self, spaced: bool) -> Result<(), QError> {
        let start = self.at;
        let mut out = Vec::new();
        self.at += 1;
        loop {
            if self.at >= self.text.len() {
                return Err(QError::named("\"").place(u32::try_from(start).unwrap_or(u32::MAX)));
            }
            let c = self.peek(0);
            self.at += 1;
            match c {
                b'"' => break,
                b'\\' => {
                    let escape = self.peek(0);
                    self.at += 1;
                    out.push(match escape {
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'0'..=b'3' if is_digit(self.peek(0)) && is_digit(self.peek(1)) => {
                            let digit = |d: u8| d.wrapping_sub(b'0') & 7;
                            let code = digit(escape) << 6 | digit(self.peek(0)) << 3 | digit(self.peek(1));
                            self.at += 2;
                            code
                        }
                        other => other,
                    });
                }
                c => out.push(c),
            }
            if out.len() % BLOCK == BLOCK - 1 {
                limits::check()?;
            }
        }
        let value = if let [c] = out[..] { Value::Char(c) } else { Value::chars(out) };
        self.push(Token::Literal(value), start, spaced);
        Ok(())
    }

    fn symbols(&mut self, spaced: bool) -> Result<(), QError> {
        let start = self.at;
        let mut out: Vec<Sym> = Vec::new();
        while self.peek(0) == b'`' {
            self.at += 1;
            let from = self.at;
            let mut path = false;
            // `` `a`_b `` is two symbols. In `` `_d `` the underscore is the operator: it drops the null key.
            let is_null = out.is_empty() && self.peek(0) == b'_';
            while !is_null && (is_name(self.peek(0)) || self.peek(0) == b':' || (path && self.peek(0) == b'/')) {
                path |= self.peek(0) == b':';
                self.at += 1;
            }
            out.push(intern(self.text.get(from..self.at).unwrap_or_default()).map_err(QError::from)?);
        }
        let value = if let [one] = out[..] { Value::Sym(one) } else { Value::symbols(out) };
        self.push(Token::Literal(value), start, spaced);
        Ok(())
    }

    /// `0:`, `1:` and `2:`, also before bytes, nulls and longer numbers: no time of day has an hour `0x` or a minute of `0N` or 100.
    /// A single digit after a left operand is one to the right of the operator as well: `("S";",")0:1_x` drops the first line.
    fn is_file_operator(&self) -> bool {
        let bytes = self.peek(2) == b'0' && self.peek(3) == b'x';
        let null = self.peek(2) == b'0' && matches!(self.peek(3), b'n' | b'N' | b'w' | b'W');
        let digits = (2..5).take_while(|i| is_digit(self.peek(*i))).count();
        let single = digits == 1 && !matches!(self.peek(3), b':' | b'.') && self.follows_operand();
        let minutes = matches!(digits, 1 | 2) && !null && !single;
        matches!(self.peek(0), b'0'..=b'2') && self.peek(1) == b':' && (bytes || !minutes)
    }

    /// The operator that [`Self::is_file_operator`] found; `0::`, `1::` and `2::` are unary.
    fn file_operator(&self) -> &'static str {
        match (self.peek(0), self.peek(2)) {
            (b'0', b':') => "0::",
            (b'1', b':') => "1::",
            (b'2', b':') => "2::",
            (b'0', _) => "0:",
            (b'1', _) => "1:",
            _ => "2:",
        }
    }

    /// Whether the token before is the end of an operand.
    fn follows_operand(&self) -> bool {
        match self.out.last().map(|p| &p.token) {
            Some(Token::Literal(_) | Token::Close(_)) => true,
            Some(Token::Name(name)) => prims::keyword(name).is_none(),
            _ => false,
        }
    }

    /// The end of the number that starts at the current position.
    fn number_end(&self) -> usize {
        let at = |i: usize| self.text.get(i).copied().unwrap_or(0);
        let mut end = self.at + 1;
        loop {
            let c = at(end);
            let exponent = matches!(c, b'-' | b'+')
                && at(end - 1) == b'e'
                && is_digit(at(end + 1))
                && !self.text.get(self.at..end).unwrap_or_default().starts_with(b"0x");
            if is_digit(c) || c.is_ascii_alphabetic() || c == b'.' || exponent || (c == b':' && is_digit(at(end + 1))) {
                end += 1;
            } else {
                return end;
            }
        }
    }

    fn numbers(&mut self, spaced: bool) -> Result<(), QError> {
        let start = self.at;
        let mut parts = Vec::new();
        let text = self.text;
        let mut bytes = false;
        loop {
            let end = self.number_end();
            let part = text.get(self.at..end).unwrap_or_default();
            bytes |= part.starts_with(b"0x");
            limits::pace()?;
            parts.push(part);
            self.at = end;
            let mut next = end;
            loop {
                match text.get(next..).unwrap_or_default() {
                    [b'\n', ..] if self.separates_lines() => break,
                    // A literal may continue on the next line of a script's expression.
                    [b' ' | b'\t' | b'\n' | b'\r', ..] => next += 1,
                    [0xc2, 0xa0, ..] => next += 2,
                    _ => break,
                }
            }
            let here = std::mem::replace(&mut self.at, next);
            let operator = self.is_file_operator();
            let bytes = bytes || self.peek(0) == b'0' && self.peek(1) == b'x';
            if next == end || !self.number_starts() || operator || bytes {
                self.at = here;
                break;
            }
        }
        let value = match literal::numbers(&parts) {
            Some(value) => value,
            None if self.checks_numbers => return Err(not_a_number(&parts, start)),
            None => Value::Null,
        };
        self.push(Token::Literal(value), start, spaced);
        Ok(())
    }
}
