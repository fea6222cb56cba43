//! Terms: literals, names, brackets, lambdas and table literals, with the square brackets that follow them.

use super::{Parser, Term, bounded, is_open_ended, k};
use crate::runtime::error::QError;
use crate::runtime::values::symbol;
use crate::syntax::ast::{Assign, Code, Kind, Node, highest};
use crate::syntax::compiled::Compiled;
use crate::syntax::lex::{Token, parse_error};
use crate::syntax::{parse_query, prims, resolve};
use columns::table::function::{Function, Lambda};
use columns::table::{Sym, Value};
use std::borrow::Cow;
use std::sync::Arc;

impl<'a> Parser<'a> {
    pub(super) fn term(&mut self) -> Result<Term, QError> {
        let at = self.position();
        let mut term = self.primary()?;
        loop {
            match self.peek() {
                Token::Iterator(i) if self.touches() => {
                    let i = *i;
                    self.advance();
                    term = Term::new(bounded(Node::new(at, Kind::Derive(i, Box::new(term.node))))?, true);
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
                    term = Term::new(bounded(Node::new(at, node))?, false);
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
                // In k a verb never is a left operand: `+:{x}'y` flips.
                let infix = self.is_k || !unary;
                Ok(Term::new(Node::new(at, Kind::Const(primitive)), infix && glyph != "::"))
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
                // A list with elided items is a projection of `enlist`.
                if items.iter().any(Option::is_none) {
                    let enlist = Node::new(at, Kind::Const(prims::glyph("enlist")));
                    return closed(Kind::Apply(Box::new(enlist), items));
                }
                let items: Vec<Node> = items.into_iter().flatten().collect();
                match <[Node; 1]>::try_from(items) {
                    // Brackets end a composition: a function before them is applied to it, not composed with it.
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
                let height = highest(&code.body).saturating_add(1);
                let lambda = Lambda {
                    source: (*source).into(),
                    namespace: self.namespace,
                    code: Arc::new(Compiled::ready(code)),
                };
                let node = Node { height, ..Node::new(at, Kind::Const(Value::func(Function::Lambda(lambda)))) };
                Ok(Term::new(bounded(node)?, false))
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
        if let Some(verb) = parse_query::verb(name) {
            return self.query(verb).map(|node| Term::new(node, false));
        }
        self.advance();
        // A name of the library may be assigned, so it is looked up when it runs.
        match k::word(name, self.is_k).filter(|_| !name.starts_with(b".")) {
            Some(primitive) => {
                let infix = prims::is_infix(&primitive);
                Ok(Term::new(Node::new(at, Kind::Const(primitive)), infix))
            }
            None => Ok(Term::new(Node::new(at, Kind::Name(symbol(name)?)), k::is_infix_word(name, self.is_k))),
        }
    }

    /// Parameter names up to the closing bracket. A pattern parameter gets a name that source text cannot spell, and a
    /// statement in `patterns` that destructures it.
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

    /// `name::expressions` defines a view if it is the whole text. If a blank precedes the name, it assigns a global, as it does within a function.
    pub(super) fn view(&mut self) -> Result<Option<Node>, QError> {
        let (Token::Name(name), Token::Glyph("::")) = (self.peek(), self.peek_after()) else {
            return Ok(None);
        };
        if self.position() > self.mark.len() {
            return Ok(None);
        }
        let is_word = *name == resolve::WORD;
        let (name, at, before) = (symbol(name)?, self.position(), self.at);
        self.advance();
        self.advance();
        // `x ::` applies x to `::`, as within an expression.
        if self.at_end() {
            self.at = before;
            return Ok(None);
        }
        if is_word {
            return Err(QError::named("assign").place(u32::try_from(at).unwrap_or(u32::MAX)));
        }
        let start = self.position();
        let body = self.statements()?;
        if !matches!(self.peek(), Token::End) {
            return Err(self.unexpected());
        }
        // An expression without dependencies is an ordinary global.
        if let [Node { kind: Kind::Const(_), .. }] = &body[..] {
            return Ok(body.into_iter().next().map(|value| {
                let target = Node::new(at, Kind::Name(name));
                let assign = Assign { target, global: true, indices: Vec::new(), through: None, value, pattern: false };
                Node::new(at, Kind::Assign(Box::new(assign)))
            }));
        }
        let last = self.tokens.iter().rev().nth(1).map_or(start, |t| t.end);
        let text = self.text.get(start..last).unwrap_or_default();
        Ok(Some(Node::new(at, Kind::View(name, [self.mark, text].concat().into()))))
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

    /// `a:x;b:y` including the closing bracket.
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
    pub(crate) fn field(&mut self) -> Result<(Option<Sym>, Node), QError> {
        let name = match (self.peek(), self.peek_after()) {
            (Token::Name(name), Token::Glyph(":")) => Some(symbol(name)?),
            _ => None,
        };
        if name.is_some() {
            self.advance();
            self.advance();
        }
        if name.is_some() && self.at_end() {
            // A missing value is an empty node.
            return Ok((name, Node::new(self.position(), Kind::Seq(Vec::new()))));
        }
        Ok((name, self.expression()?))
    }

    /// Parses a lambda from its opening brace; returns its code and its text.
    pub(super) fn lambda(&mut self) -> Result<(Code, Cow<'a, [u8]>), QError> {
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
            let marked = start.saturating_sub(p.mark.len());
            code.start = u32::try_from(marked).unwrap_or(u32::MAX);
            let text = p.text.get(start..end).unwrap_or_default();
            Ok((code, if p.mark.is_empty() { Cow::Borrowed(text) } else { Cow::Owned([p.mark, text].concat()) }))
        })
    }
}
