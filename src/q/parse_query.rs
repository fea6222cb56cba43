//! The qSQL templates.

use super::ast::{Kind, Node, Query, Verb};
use super::error::QError;
use super::lex::Token;
use super::parse::{Parser, Stops, symbol};

/// The template that a word starts.
pub(super) fn verb(name: &[u8]) -> Option<Verb> {
    Some(match name {
        b"select" => Verb::Select,
        b"exec" => Verb::Exec,
        b"update" => Verb::Update,
        b"delete" => Verb::Delete,
        _ => return None,
    })
}

impl Parser<'_> {
    /// A template from its first word.
    pub(super) fn query(&mut self, verb: Verb) -> Result<Node, QError> {
        let at = self.position();
        let outer = self.stops;
        self.advance();
        let (mut limit, mut order) = (None, None);
        if matches!(self.peek(), Token::Open(b'[')) {
            self.advance();
            (limit, order) = self.bracketed(Self::limits)?;
        }
        let distinct = self.is_word(b"distinct");
        if distinct {
            self.advance();
        }
        self.stops = Stops { comma: true, words: true };
        let columns = if self.is_word(b"from") || self.is_word(b"by") { Vec::new() } else { self.phrase()? };
        let by = if self.is_word(b"by") {
            self.advance();
            Some(self.phrase()?)
        } else {
            None
        };
        if !self.is_word(b"from") {
            return Err(self.unexpected());
        }
        self.advance();
        self.stops = Stops { comma: outer.comma, words: true };
        let from = self.expression()?;
        let mut filters = Vec::new();
        if self.is_word(b"where") {
            self.advance();
            self.stops = Stops { comma: true, words: outer.words };
            filters = self.phrase()?.into_iter().map(|(_, node)| node).collect();
        }
        self.stops = outer;
        let query = Query { verb, distinct, limit, order, columns, by, from, filters };
        Ok(Node::new(at, Kind::Query(Box::new(query))))
    }

    /// Expressions with commas between them.
    fn phrase(&mut self) -> Result<Vec<(Option<crate::table::Sym>, Node)>, QError> {
        let mut out = vec![self.field()?];
        while self.is_glyph(",") {
            self.advance();
            out.push(self.field()?);
        }
        Ok(out)
    }

    /// `n]`, `n;>col]`, `>col]` after the opening bracket.
    #[allow(clippy::type_complexity)]
    fn limits(&mut self) -> Result<(Option<Node>, Option<(bool, crate::table::Sym)>), QError> {
        let (mut limit, mut order) = (None, None);
        loop {
            match self.peek() {
                Token::Glyph(glyph @ ("<" | ">")) => {
                    let descending = *glyph == ">";
                    self.advance();
                    let Token::Name(name) = self.peek() else { return Err(self.unexpected()) };
                    order = Some((descending, symbol(name)?));
                    self.advance();
                }
                _ => limit = Some(self.expression()?),
            }
            match self.peek() {
                Token::Semicolon => self.advance(),
                Token::Close(b']') => {
                    self.advance();
                    return Ok((limit, order));
                }
                _ => return Err(self.unexpected()),
            }
        }
    }
}
