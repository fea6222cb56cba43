//! Tokens to syntax: right to left, no precedence, juxtaposition is application.

use super::ast::{Assign, Code, Kind, Node};
use super::error::QError;
use super::lambda::Compiled;
use super::lex::{Placed, Token, parse_error, tokens};
use super::prims;
use super::resolve;
use crate::sys::stack;
use crate::table::function::{Function, Iterator, Lambda};
use crate::table::symbol::intern;
use crate::table::{Sym, Value};
use std::sync::Arc;

/// Where an expression inside a qSQL phrase ends besides its brackets.
#[derive(Clone, Copy, Default)]
pub(super) struct Stops {
    pub comma: bool,
    /// At `by` and `from`.
    pub from: bool,
    /// At `where`, which is a function before `from`.
    pub filters: bool,
}

pub(super) struct Parser<'a> {
    text: &'a [u8],
    tokens: Vec<Placed>,
    at: usize,
    namespace: Sym,
    pub(super) stops: Stops,
}

/// A term, and whether it can stand between two operands.
struct Term {
    node: Node,
    infix: bool,
    /// It stands in brackets: as the target of an assignment it is a pattern.
    bracketed: bool,
}

impl Term {
    fn new(node: Node, infix: bool) -> Term {
        Term { node, infix, bracketed: false }
    }
}

/// A parsed text.
pub struct Program {
    pub code: Code,
    /// The last statement is an assignment, or ends in a semicolon: the console shows nothing.
    pub silent: bool,
}

/// Parses statements as they are typed, with names resolved in `namespace` (null for the root).
pub fn program(text: &[u8], namespace: Sym) -> Result<Program, QError> {
    let mut parser = Parser::new(text, namespace)?;
    let mut body = match parser.view()? {
        Some(view) => vec![view],
        None => parser.statements()?,
    };
    if !matches!(parser.peek(), Token::End) {
        return Err(parser.unexpected());
    }
    let silent = match body.last().map(|n| &n.kind) {
        Some(Kind::Assign(_) | Kind::View(..)) => true,
        Some(Kind::Const(Value::Null)) => text.trim_ascii_end().last() != Some(&b':'),
        Some(Kind::If(_) | Kind::While(_) | Kind::Do(_)) => true,
        _ => false,
    };
    let code = resolve::program(&mut body, namespace)?;
    Ok(Program { code, silent })
}

/// The code of a lambda's text.
pub fn lambda_code(source: &[u8], namespace: Sym) -> Result<Code, QError> {
    let mut parser = Parser::new(source, namespace)?;
    let (code, _) = parser.lambda()?;
    if !matches!(parser.peek(), Token::End) {
        return Err(parser.unexpected());
    }
    Ok(code)
}

pub(super) fn symbol(text: &[u8]) -> Result<Sym, QError> {
    intern(text).map_err(|_| QError::named("limit"))
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8], namespace: Sym) -> Result<Parser<'a>, QError> {
        Ok(Parser { text, tokens: tokens(text)?, at: 0, namespace, stops: Stops::default() })
    }

    fn placed(&self, ahead: usize) -> Option<&Placed> {
        self.tokens.get(self.at + ahead).or(self.tokens.last())
    }

    pub(super) fn peek(&self) -> &Token {
        self.placed(0).map_or(&Token::End, |p| &p.token)
    }

    pub(super) fn peek_after(&self) -> &Token {
        self.placed(1).map_or(&Token::End, |p| &p.token)
    }

    /// Byte position of the next token.
    pub(super) fn position(&self) -> usize {
        self.placed(0).map_or(0, |p| p.start)
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Whether the next token touches the one before it.
    fn touches(&self) -> bool {
        self.placed(0).is_some_and(|p| !p.spaced)
    }

    fn is_open(&self, bracket: u8) -> bool {
        matches!(self.peek(), Token::Open(b) if *b == bracket)
    }

    fn is_close(&self, bracket: u8) -> bool {
        matches!(self.peek(), Token::Close(b) if *b == bracket)
    }

    pub(super) fn is_glyph(&self, glyph: &str) -> bool {
        matches!(self.peek(), Token::Glyph(g) if *g == glyph)
    }

    pub(super) fn is_word(&self, word: &[u8]) -> bool {
        matches!(self.peek(), Token::Name(n) if *n == word)
    }

    pub(super) fn unexpected(&self) -> QError {
        if let Token::Close(bracket) = self.peek() {
            return QError::signal(vec![*bracket]).place(u32::try_from(self.position()).unwrap_or(u32::MAX));
        }
        let what = match self.peek() {
            Token::End => "end of text".to_owned(),
            _ => {
                let place = self.placed(0).map_or(0..0, |p| p.start..p.end);
                format!("unexpected {}", String::from_utf8_lossy(self.text.get(place).unwrap_or_default()))
            }
        };
        parse_error(&what, self.position())
    }

    fn expect_close(&mut self, bracket: u8) -> Result<(), QError> {
        if !self.is_close(bracket) {
            return Err(self.unexpected());
        }
        self.advance();
        Ok(())
    }

    pub(super) fn at_end(&self) -> bool {
        match self.peek() {
            Token::End | Token::Semicolon | Token::Close(_) => true,
            Token::Glyph(",") => self.stops.comma,
            Token::Name(b"by" | b"from") => self.stops.from,
            Token::Name(b"where") => self.stops.filters,
            _ => false,
        }
    }

    /// Statements up to a closing bracket or the end; an empty one is the generic null.
    fn statements(&mut self) -> Result<Vec<Node>, QError> {
        let mut out = Vec::new();
        loop {
            let at = self.position();
            let node = if self.at_end() { Node::new(at, Kind::Const(Value::Null)) } else { self.expression()? };
            out.push(node);
            if !matches!(self.peek(), Token::Semicolon) {
                return Ok(out);
            }
            self.advance();
        }
    }

    /// Runs `inner` as if nothing stood around it.
    pub(super) fn bracketed<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, QError>) -> Result<T, QError> {
        let stops = std::mem::take(&mut self.stops);
        let result = inner(self);
        self.stops = stops;
        result
    }

    /// `[a;;b]` after its opening bracket.
    fn arguments(&mut self) -> Result<Vec<Option<Node>>, QError> {
        self.bracketed(|p| {
            let mut out = Vec::new();
            loop {
                out.push(if p.at_end() { None } else { Some(p.expression()?) });
                if matches!(p.peek(), Token::Semicolon) {
                    p.advance();
                } else {
                    p.expect_close(b']')?;
                    return Ok(out);
                }
            }
        })
    }

    pub(super) fn expression(&mut self) -> Result<Node, QError> {
        if stack::is_deep() {
            return Err(QError::with("limit", "expression nested too deeply"));
        }
        let at = self.position();
        match self.peek() {
            Token::Glyph(":") if !matches!(self.peek_after(), Token::Open(b'[') | Token::Iterator(_)) => {
                self.advance();
                if self.at_end() {
                    return Ok(Node::new(at, Kind::Const(prims::glyph(":"))));
                }
                return Ok(Node::new(at, Kind::Return(Box::new(self.expression()?))));
            }
            Token::Iterator(Iterator::Each) if !matches!(self.peek_after(), Token::Open(b'[')) => {
                self.advance();
                if self.at_end() {
                    return Ok(Node::new(at, Kind::Const(prims::glyph("'"))));
                }
                return Ok(Node::new(at, Kind::Signal(Box::new(self.expression()?))));
            }
            _ => {}
        }
        let left = self.term()?;
        if self.at_end() {
            return Ok(left.node);
        }
        if let Some(assignment) = self.assignment(&left)? {
            return Ok(assignment);
        }
        let iterator_word = matches!(self.peek(), Token::Name(b"each" | b"peach" | b"over" | b"scan" | b"prior"));
        if (!left.infix || iterator_word) && self.infix_follows() {
            let verb = self.term()?;
            if self.at_end() {
                let call = Kind::Apply(Box::new(verb.node), vec![Some(left.node), None]);
                return Ok(Node::new(at, call));
            }
            let right_is_closed = !matches!(self.peek(), Token::Glyph(_));
            let right = self.expression()?;
            if is_open_ended(&right) || matches!(&right.kind, Kind::Const(f) if prims::is_infix(f) && !right_is_closed)
            {
                let projection = Node::new(at, Kind::Apply(Box::new(verb.node), vec![Some(left.node), None]));
                return Ok(Node::new(at, Kind::Compose(Box::new(projection), Box::new(right))));
            }
            return Ok(Node::new(at, Kind::Apply(Box::new(verb.node), vec![Some(left.node), Some(right)])));
        }
        let right = self.expression()?;
        if is_open_ended(&right) {
            return Ok(Node::new(at, Kind::Compose(Box::new(left.node), Box::new(right))));
        }
        // An operator without a left operand has a meaning in brackets only.
        if let Kind::Const(f) = &left.node.kind
            && prims::is_operator(f)
            && prims::is_infix(f)
        {
            let name = prims::name_of(f).unwrap_or_default();
            if !left.bracketed {
                return Err(QError::signal(name).place(left.node.at));
            }
            if let Some(unary) = prims::find_glyph(&format!("{name}:")).filter(|_| name.len() == 1 && name != ":") {
                return Ok(Node::new(at, Kind::Apply(Box::new(Node::new(at, Kind::Const(unary))), vec![Some(right)])));
            }
        }
        Ok(Node::new(at, Kind::Apply(Box::new(left.node), vec![Some(right)])))
    }

    /// Whether the next token is an operator between operands, and not one applied by brackets.
    fn infix_follows(&self) -> bool {
        match self.peek() {
            // `@'[…]` and the like are applied by their brackets too.
            Token::Glyph(_) if self.placed(1).is_some_and(|p| !p.spaced && matches!(p.token, Token::Iterator(_))) => {
                self.derived_follows()
            }
            Token::Glyph(_) => {
                let bracket = self.placed(1).is_some_and(|p| !p.spaced && matches!(p.token, Token::Open(b'[')));
                !bracket || self.derived_follows()
            }
            Token::Name(name) if prims::keyword(name).is_some_and(|k| prims::is_infix(&k)) => {
                let bracket = self.placed(1).is_some_and(|p| !p.spaced && matches!(p.token, Token::Open(b'[')));
                !bracket || self.derived_follows()
            }
            _ => {
                // A term with iterators behind it is an infix function whatever it is: look past one name or lambda.
                self.derived_follows()
            }
        }
    }

    /// Whether a lambda, a bracketed function, a name or an operator, with brackets behind it or not, comes next, and an
    /// iterator touches it.
    fn derived_follows(&self) -> bool {
        if matches!(self.peek(), Token::Literal(_)) {
            return false;
        }
        let Some(mut ahead) = self.behind(0) else { return false };
        while self.tokens.get(self.at + ahead).is_some_and(|p| !p.spaced && matches!(p.token, Token::Open(b'['))) {
            match self.behind(ahead) {
                Some(next) => ahead = next,
                None => return false,
            }
        }
        self.tokens.get(self.at + ahead).is_some_and(|p| !p.spaced && matches!(p.token, Token::Iterator(_)))
            && self.infix_after_iterators(ahead)
    }

    /// How far ahead the token, or the bracket with all that is in it, that stands `ahead` is over.
    fn behind(&self, ahead: usize) -> Option<usize> {
        let mut depth = 0usize;
        let mut ahead = ahead;
        loop {
            match self.tokens.get(self.at + ahead)?.token {
                Token::Open(_) => depth += 1,
                Token::Close(_) => depth = depth.saturating_sub(1),
                Token::End => return None,
                _ => {}
            }
            ahead += 1;
            if depth == 0 {
                return Some(ahead);
            }
        }
    }

    /// `f/[…]` is applied by its brackets; `f/` without them is infix.
    fn infix_after_iterators(&self, mut ahead: usize) -> bool {
        while let Some(p) = self.tokens.get(self.at + ahead) {
            match p.token {
                Token::Iterator(_) if !p.spaced => ahead += 1,
                Token::Open(b'[') => return p.spaced,
                _ => return true,
            }
        }
        true
    }

    fn assignment(&mut self, left: &Term) -> Result<Option<Node>, QError> {
        let Token::Glyph(glyph) = self.peek() else { return Ok(None) };
        let glyph = *glyph;
        if !glyph.ends_with(':') || matches!(glyph, "0:" | "1:" | "2:") {
            return Ok(None);
        }
        let (left, bracketed) = (&left.node, left.bracketed);
        let pattern = glyph == ":" && (bracketed || matches!(left.kind, Kind::List(_) | Kind::Table { .. }));
        let (target, indices) = match &left.kind {
            _ if pattern => (left.clone(), Vec::new()),
            Kind::Name(_) => (left.clone(), Vec::new()),
            Kind::Apply(f, indices) if matches!(f.kind, Kind::Name(_)) => ((**f).clone(), indices.clone()),
            // q's own words are not to be assigned to.
            Kind::Const(f) if glyph == ":" && !bracketed && prims::index_of(f).is_some() && !prims::is_operator(f) => {
                return Err(QError::named("assign").place(left.at));
            }
            _ => return Ok(None),
        };
        let at = self.position();
        let before = self.at;
        self.advance();
        if self.at_end() {
            // `f::` with nothing behind it is `f` waiting for its argument.
            if glyph == "::" && indices.is_empty() {
                self.at = before;
                return Ok(None);
            }
            return Err(self.unexpected());
        }
        let through = match glyph {
            ":" | "::" => None,
            op => Some(prims::glyph(op.get(..op.len() - 1).unwrap_or_default())),
        };
        let value = self.expression()?;
        let assign = Assign { target, global: glyph == "::", indices, through, value, pattern };
        Ok(Some(Node::new(at, Kind::Assign(Box::new(assign)))))
    }

    fn term(&mut self) -> Result<Term, QError> {
        let at = self.position();
        let mut term = self.primary()?;
        loop {
            match self.peek() {
                Token::Iterator(i) if self.touches() => {
                    let i = *i;
                    self.advance();
                    term = Term::new(Node::new(at, Kind::Derive(i, Box::new(term.node))), true);
                }
                Token::Open(b'[') => {
                    self.advance();
                    let arguments = self.arguments()?;
                    let node = match &term.node.kind {
                        Kind::Const(f) if prims::is_glyph(f, "$") && arguments.len() > 2 => {
                            let parts = arguments.into_iter().map(|a| a.unwrap_or(Node::constant(Value::Null)));
                            Kind::Cond(parts.collect())
                        }
                        Kind::Const(f) if prims::is_glyph(f, ":") && arguments.len() > 2 => {
                            let parts = arguments.into_iter().map(|a| a.unwrap_or(Node::constant(Value::Null)));
                            Kind::Match(parts.collect())
                        }
                        _ => Kind::Apply(Box::new(term.node), arguments),
                    };
                    term = Term::new(Node::new(at, node), false);
                }
                _ => return Ok(term),
            }
        }
    }

    fn primary(&mut self) -> Result<Term, QError> {
        let at = self.position();
        let noun = |kind| Ok(Term::new(Node::new(at, kind), false));
        let closed = |kind| Ok(Term { node: Node::new(at, kind), infix: false, bracketed: true });
        match self.peek().clone() {
            Token::Literal(value) => {
                self.advance();
                noun(Kind::Const(value))
            }
            Token::Name(name) => self.name(name),
            Token::Glyph(glyph) => {
                self.advance();
                let primitive = if glyph == "::" { Some(Value::Null) } else { prims::find_glyph(glyph) };
                let primitive = primitive.ok_or_else(|| parse_error("unknown operator", at))?;
                let unary = glyph.len() > 1 && glyph.ends_with(':') && !matches!(glyph, "::" | "0:" | "1:" | "2:");
                Ok(Term::new(Node::new(at, Kind::Const(primitive)), !unary && glyph != "::"))
            }
            Token::Iterator(i) => {
                self.advance();
                noun(Kind::Const(prims::glyph(i.glyph())))
            }
            Token::Open(b'(') => {
                self.advance();
                if self.is_open(b'[') {
                    self.advance();
                    return self.table(at).map(|node| Term { node, infix: false, bracketed: true });
                }
                let items = self.bracketed(|p| {
                    let mut out = Vec::new();
                    if p.is_close(b')') {
                        p.advance();
                        return Ok(out);
                    }
                    loop {
                        out.push(if p.at_end() { None } else { Some(p.expression()?) });
                        if matches!(p.peek(), Token::Semicolon) {
                            p.advance();
                        } else {
                            p.expect_close(b')')?;
                            return Ok(out);
                        }
                    }
                })?;
                // A list with holes waits for the items that are missing.
                if items.iter().any(Option::is_none) {
                    let enlist = Node::new(at, Kind::Const(prims::glyph("enlist")));
                    return closed(Kind::Apply(Box::new(enlist), items));
                }
                let items: Vec<Node> = items.into_iter().flatten().collect();
                match <[Node; 1]>::try_from(items) {
                    // Brackets close a composition: what stands before it is applied to it.
                    Ok([node]) if is_open_ended(&node) && matches!(self.peek(), Token::Glyph(":")) => {
                        Ok(Term { node, infix: false, bracketed: true })
                    }
                    Ok([node]) if is_open_ended(&node) => noun(Kind::Seq(vec![node])),
                    Ok([node]) => Ok(Term { node, infix: false, bracketed: true }),
                    Err(items) if items.is_empty() => noun(Kind::Const(Value::empty())),
                    Err(items) => noun(Kind::List(items)),
                }
            }
            Token::Open(b'{') => {
                let (code, source) = self.lambda()?;
                let lambda =
                    Lambda { source: source.into(), namespace: self.namespace, code: Arc::new(Compiled::ready(code)) };
                noun(Kind::Const(Value::func(Function::Lambda(lambda))))
            }
            Token::Open(_) => {
                self.advance();
                let body = self.bracketed(|p| {
                    let body = p.statements()?;
                    p.expect_close(b']')?;
                    Ok(body)
                })?;
                noun(Kind::Seq(body))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn name(&mut self, name: &'static [u8]) -> Result<Term, QError> {
        let at = self.position();
        let control: Option<fn(Vec<Node>) -> Kind> = match name {
            b"if" => Some(Kind::If),
            b"while" => Some(Kind::While),
            b"do" => Some(Kind::Do),
            _ => None,
        };
        if let Some(make) = control
            && matches!(self.peek_after(), Token::Open(b'['))
        {
            self.advance();
            self.advance();
            let parts = self.bracketed(|p| {
                let parts = p.statements()?;
                p.expect_close(b']')?;
                Ok(parts)
            })?;
            return Ok(Term::new(Node::new(at, make(parts)), false));
        }
        if let Some(verb) = super::parse_query::verb(name) {
            return self.query(verb).map(|node| Term::new(node, false));
        }
        self.advance();
        match prims::keyword(name) {
            Some(primitive) => {
                let infix = prims::is_infix(&primitive);
                Ok(Term::new(Node::new(at, Kind::Const(primitive)), infix))
            }
            None => Ok(Term::new(Node::new(at, Kind::Name(symbol(name)?)), false)),
        }
    }

    /// Names of parameters up to the closing bracket. One that is given as a pattern gets a name that cannot be written,
    /// and a statement that takes it apart.
    fn parameters(&mut self, patterns: &mut Vec<Node>) -> Result<Vec<Sym>, QError> {
        let mut names = Vec::new();
        if self.is_close(b']') {
            self.advance();
            return Ok(names);
        }
        loop {
            let at = self.position();
            let plain = match (self.peek(), self.peek_after()) {
                (Token::Name(name), Token::Semicolon | Token::Close(b']')) => Some(symbol(name)?),
                _ => None,
            };
            match plain {
                Some(name) => {
                    names.push(name);
                    self.advance();
                }
                None => {
                    let hidden = symbol(format!("{} of the arguments", names.len()).as_bytes())?;
                    names.push(hidden);
                    if !self.at_end() {
                        let target = self.expression()?;
                        let value = Node::new(at, Kind::Name(hidden));
                        let assign =
                            Assign { target, global: false, indices: Vec::new(), through: None, value, pattern: true };
                        patterns.push(Node::new(at, Kind::Assign(Box::new(assign))));
                    }
                }
            }
            match self.peek() {
                Token::Semicolon => self.advance(),
                Token::Close(b']') => {
                    self.advance();
                    return Ok(names);
                }
                _ => return Err(self.unexpected()),
            }
        }
    }

    /// `name::expressions` as the whole text: what the name stands for from now on.
    fn view(&mut self) -> Result<Option<Node>, QError> {
        let (Token::Name(name), Token::Glyph("::")) = (self.peek(), self.peek_after()) else { return Ok(None) };
        let (name, at) = (symbol(name)?, self.position());
        self.advance();
        self.advance();
        if self.at_end() {
            return Err(self.unexpected());
        }
        let start = self.position();
        let body = self.statements()?;
        if !matches!(self.peek(), Token::End) {
            return Err(self.unexpected());
        }
        // What depends on nothing is its value.
        if let [Node { kind: Kind::Const(_), .. }] = &body[..] {
            return Ok(body.into_iter().next().map(|value| {
                let target = Node::new(at, Kind::Name(name));
                let assign = Assign { target, global: true, indices: Vec::new(), through: None, value, pattern: false };
                Node::new(at, Kind::Assign(Box::new(assign)))
            }));
        }
        let last = self.tokens.iter().rev().nth(1).map_or(start, |t| t.end);
        let text = self.text.get(start..last).unwrap_or_default();
        Ok(Some(Node::new(at, Kind::View(name, text.into()))))
    }

    /// `([keys]columns)` after `([`.
    fn table(&mut self, at: usize) -> Result<Node, QError> {
        self.bracketed(|p| {
            let keys = p.fields(b']')?;
            if p.is_close(b')') {
                p.advance();
                return Ok(Node::new(at, Kind::Table { keys, columns: Vec::new(), keyed_only: true }));
            }
            let columns = p.fields(b')')?;
            Ok(Node::new(at, Kind::Table { keys, columns, keyed_only: false }))
        })
    }

    /// `a:x;b:y` up to and with a closing bracket.
    fn fields(&mut self, close: u8) -> Result<Vec<(Option<Sym>, Node)>, QError> {
        let mut out = Vec::new();
        loop {
            while matches!(self.peek(), Token::Semicolon) {
                self.advance();
            }
            if self.is_close(close) {
                self.advance();
                return Ok(out);
            }
            out.push(self.field()?);
            if !matches!(self.peek(), Token::Semicolon) && !self.is_close(close) {
                return Err(self.unexpected());
            }
        }
    }

    /// `name:expression` or an expression.
    pub(super) fn field(&mut self) -> Result<(Option<Sym>, Node), QError> {
        let name = match (self.peek(), self.peek_after()) {
            (Token::Name(name), Token::Glyph(":")) => Some(symbol(name)?),
            _ => None,
        };
        if name.is_some() {
            self.advance();
            self.advance();
        }
        if name.is_some() && self.at_end() {
            // Nothing where a value could stand: a hole.
            return Ok((name, Node::new(self.position(), Kind::Seq(Vec::new()))));
        }
        Ok((name, self.expression()?))
    }

    /// A lambda from its opening brace: its code and its text.
    fn lambda(&mut self) -> Result<(Code, &'a [u8]), QError> {
        let start = self.position();
        if !self.is_open(b'{') {
            return Err(self.unexpected());
        }
        self.advance();
        self.bracketed(|p| {
            let mut parameters = None;
            let mut patterns = Vec::new();
            if p.is_open(b'[') {
                p.advance();
                parameters = Some(p.bracketed(|p| p.parameters(&mut patterns))?);
            }
            let mut body = patterns;
            body.append(&mut p.statements()?);
            let end = p.placed(0).map_or(start, |t| t.end);
            p.expect_close(b'}')?;
            let mut code = resolve::lambda(parameters, &mut body, p.namespace)?;
            code.start = u32::try_from(start).unwrap_or(u32::MAX);
            Ok((code, p.text.get(start..end).unwrap_or_default()))
        })
    }
}

/// `x+` without a right operand: applied behind a function it makes a composition.
fn is_open_ended(node: &Node) -> bool {
    match &node.kind {
        Kind::Apply(f, arguments) => {
            matches!(arguments[..], [Some(_), None]) && matches!(f.kind, Kind::Const(_) | Kind::Derive(..))
        }
        Kind::Compose(..) => true,
        _ => false,
    }
}
