//! Parser: right to left, no precedence, juxtaposition is application.

mod blanks;
pub(crate) mod k;
mod term;

use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::syntax::ast::{Assign, Code, Kind, Node};
use crate::syntax::lex::{Language, Placed, Token, parse_error, tokens};
use crate::syntax::{prims, resolve};
use columns::sys::stack;
use columns::table::function::Iterator;
use columns::table::{Sym, Value};

/// Tokens that end an expression in a qSQL phrase, in addition to closing brackets.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stops {
    pub comma: bool,
    /// `by` and `from`.
    pub from: bool,
    /// `where`; before `from` it is a function.
    pub filters: bool,
}

pub(crate) struct Parser<'a> {
    text: &'a [u8],
    tokens: Vec<Placed>,
    at: usize,
    namespace: Sym,
    pub(crate) stops: Stops,
    /// Number of nested expressions being parsed.
    depth: u16,
    is_k: bool,
    /// What the text begins with, and that of each lambda in it.
    mark: &'static [u8],
}

/// Maximum nesting of syntax. Bounds the recursion of walking, copying and dropping nodes.
const MAX_LEVELS: u16 = 1000;

fn too_deep() -> QError {
    crate::runtime::refused::count_too_deep();
    QError::with("limit", format!("expressions may nest at most {MAX_LEVELS} levels deep"))
}

/// Returns the node if its nesting and the parse time are within their limits.
fn bounded(node: Node) -> Result<Node, QError> {
    crate::runtime::limits::pace()?;
    if node.height <= MAX_LEVELS { Ok(node) } else { Err(too_deep().place(node.at)) }
}

/// A term, and whether it can stand between two operands.
struct Term {
    node: Node,
    infix: bool,
    /// In brackets: a pattern if it is the target of an assignment.
    bracketed: bool,
}

impl Term {
    fn new(node: Node, infix: bool) -> Term {
        Term { node, infix, bracketed: false }
    }
}

/// A parsed text.
pub struct ParsedText {
    pub code: Code,
    /// The last statement is an assignment or ends in a semicolon, so the console prints nothing.
    pub silent: bool,
}

/// Parses statements; names are resolved in `namespace` (null for the root).
pub fn program(text: &[u8], namespace: Sym) -> Result<ParsedText, QError> {
    program_among(text, namespace, Vec::new())
}

/// As [`program`], with some names as locals.
pub fn program_among(text: &[u8], namespace: Sym, locals: Vec<Sym>) -> Result<ParsedText, QError> {
    program_with(text, namespace, namespace, locals)
}

/// As [`program`], but lambdas in the text belong to the namespace `lambdas`.
pub fn program_in(text: &[u8], namespace: Sym, lambdas: Sym) -> Result<ParsedText, QError> {
    program_with(text, namespace, lambdas, Vec::new())
}

fn program_with(text: &[u8], namespace: Sym, lambdas: Sym, locals: Vec<Sym>) -> Result<ParsedText, QError> {
    let mut parser = Parser::new(text, lambdas)?;
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
    let code = resolve::program(&mut body, namespace, locals)?;
    Ok(ParsedText { code, silent })
}

/// Parses the text of a lambda.
pub fn lambda_code(source: &[u8], namespace: Sym) -> Result<Code, QError> {
    let mut parser = Parser::new(source, namespace)?;
    let (code, _) = parser.lambda()?;
    if !matches!(parser.peek(), Token::End) {
        return Err(parser.unexpected());
    }
    Ok(code)
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8], namespace: Sym) -> Result<Parser<'a>, QError> {
        let language = Language::of(text);
        let is_k = language == Language::K;
        let mut tokens = tokens(text, language)?;
        blanks::join_iterators(&mut tokens, is_k);
        Ok(Parser { text, tokens, at: 0, namespace, stops: Stops::default(), depth: 0, is_k, mark: language.mark() })
    }

    fn placed(&self, ahead: usize) -> Option<&Placed> {
        self.tokens.get(self.at + ahead).or(self.tokens.last())
    }

    pub(crate) fn peek(&self) -> &Token {
        self.placed(0).map_or(&Token::End, |p| &p.token)
    }

    pub(crate) fn peek_after(&self) -> &Token {
        self.placed(1).map_or(&Token::End, |p| &p.token)
    }

    /// Byte position of the next token.
    pub(crate) fn position(&self) -> usize {
        self.placed(0).map_or(0, |p| p.start)
    }

    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// Whether no white space separates the next token from the one before it.
    fn touches(&self) -> bool {
        self.placed(0).is_some_and(|p| !p.spaced)
    }

    fn is_open(&self, bracket: u8) -> bool {
        matches!(self.peek(), Token::Open(b) if *b == bracket)
    }

    fn is_close(&self, bracket: u8) -> bool {
        matches!(self.peek(), Token::Close(b) if *b == bracket)
    }

    pub(crate) fn is_glyph(&self, glyph: &str) -> bool {
        matches!(self.peek(), Token::Glyph(g) if *g == glyph)
    }

    pub(crate) fn is_word(&self, word: &[u8]) -> bool {
        matches!(self.peek(), Token::Name(n) if *n == word)
    }

    /// Whether text cannot assign a name: a variable of q's own, or a keyword that a script has assigned in `.q`.
    fn is_fixed(&self, name: Sym) -> bool {
        let name = columns::table::symbol::text(name);
        name == resolve::WORD || !self.is_k && !name.starts_with(b".") && prims::keyword(name).is_some()
    }

    /// The syntax error for the next token.
    pub(crate) fn unexpected(&self) -> QError {
        if let Token::Close(bracket) = self.peek() {
            return QError::signal(vec![*bracket]).place(u32::try_from(self.position()).unwrap_or(u32::MAX));
        }
        if let (Token::End, Some((bracket, at))) = (self.peek(), self.left_open()) {
            return QError::signal(vec![bracket]).place(u32::try_from(at).unwrap_or(u32::MAX));
        }
        let what = match self.peek() {
            Token::End => "end of input".to_owned(),
            _ => {
                let place = self.placed(0).map_or(0..0, |p| p.start..p.end);
                format!("unexpected {}", String::from_utf8_lossy(self.text.get(place).unwrap_or_default()))
            }
        };
        parse_error(&what, self.position())
    }

    /// The innermost unclosed bracket before the current token, and its position.
    pub(crate) fn left_open(&self) -> Option<(u8, usize)> {
        let mut open = Vec::new();
        for placed in self.tokens.iter().take(self.at) {
            match placed.token {
                Token::Open(bracket) => open.push((bracket, placed.start)),
                Token::Close(_) => drop(open.pop()),
                _ => {}
            }
        }
        open.pop()
    }

    fn expect_close(&mut self, bracket: u8) -> Result<(), QError> {
        if !self.is_close(bracket) {
            return Err(self.unexpected());
        }
        self.advance();
        Ok(())
    }

    /// Whether the next token ends an expression.
    pub(crate) fn at_end(&self) -> bool {
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

    /// Runs `inner` without the stop tokens of the surrounding qSQL phrase.
    pub(crate) fn bracketed<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, QError>) -> Result<T, QError> {
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

    pub(crate) fn expression(&mut self) -> Result<Node, QError> {
        if stack::is_deep() || self.depth >= MAX_LEVELS {
            return Err(too_deep().place(u32::try_from(self.position()).unwrap_or(u32::MAX)));
        }
        limits::pace()?;
        self.depth += 1;
        let node = self.one_expression();
        self.depth -= 1;
        bounded(node?)
    }

    /// `:x` and `'x`, which return and signal.
    fn prefixed(&mut self) -> Result<Option<Node>, QError> {
        let at = self.position();
        let is_return = match self.peek() {
            Token::Glyph(":") => !matches!(self.peek_after(), Token::Open(b'[') | Token::Iterator(_)),
            _ => false,
        };
        let is_signal =
            matches!(self.peek(), Token::Iterator(Iterator::Each)) && !matches!(self.peek_after(), Token::Open(b'['));
        if !is_return && !is_signal {
            return Ok(None);
        }
        // Behind an iterator, as in `x,/::y`, the colon gives its operand: nothing is returned from a function.
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        let is_behind = before.is_some_and(|before| matches!(before.token, Token::Iterator(_)));
        self.advance();
        if self.at_end() {
            return Ok(Some(Node::new(at, Kind::Const(prims::glyph(if is_return { ":" } else { "'" })))));
        }
        let value = self.expression()?;
        Ok(Some(match is_return {
            true if is_behind => value,
            true => Node::new(at, Kind::Return(Box::new(value))),
            false => Node::new(at, Kind::Signal(Box::new(value))),
        }))
    }

    fn one_expression(&mut self) -> Result<Node, QError> {
        let at = self.position();
        if let Some(node) = self.prefixed()? {
            return Ok(node);
        }
        let left = self.term()?;
        if self.at_end() {
            return Ok(bracket_assignment(left.node));
        }
        if let Some(assignment) = self.assignment(&left)? {
            return Ok(assignment);
        }
        if let Some(prefix) = self.k_prefix(&left)? {
            return Ok(prefix);
        }
        let iterator_word =
            !self.is_k && matches!(self.peek(), Token::Name(b"each" | b"peach" | b"over" | b"scan" | b"prior"));
        if (!left.infix || iterator_word) && self.infix_follows() {
            let verb = self.term()?;
            if self.at_end() {
                let is_noun = !matches!(left.node.kind, Kind::Const(Value::Func(_)));
                let mut arguments = vec![Some(left.node), None];
                // `10,:` at the end of an expression: a projection of a unary operator has its argument, and is applied.
                if is_noun && matches!(&verb.node.kind, Kind::Const(f) if prims::binary_form(f).is_some()) {
                    arguments.truncate(1);
                }
                return Ok(Node::new(at, Kind::Apply(Box::new(verb.node), arguments)));
            }
            let right_is_closed = match self.peek() {
                Token::Glyph(_) => false,
                // `` `a xdesc upsert `` composes as `` `a xdesc , `` does.
                Token::Name(name) => !k::is_infix_word(name, self.is_k),
                _ => true,
            };
            let right = self.expression()?;
            // `x~::` compares with the generic null, as KX's style guide writes it.
            let compares = matches!(&verb.node.kind, Kind::Const(f) if prims::is_glyph(f, "~"))
                && matches!(right.kind, Kind::Const(Value::Null));
            let composes = self.ends_open(&right)
                || self.is_k_verb(&right)
                || self.is_derived_verb(&right)
                || matches!(&right.kind, Kind::Const(f) if prims::is_infix(f) && !right_is_closed);
            if composes && !compares {
                let projection = Node::new(at, Kind::Apply(Box::new(verb.node), vec![Some(left.node), None]));
                return Ok(Node::new(at, Kind::Compose(Box::new(projection), Box::new(right))));
            }
            return Ok(Node::new(at, Kind::Apply(Box::new(verb.node), vec![Some(left.node), Some(right)])));
        }
        let right = self.expression()?;
        if self.ends_open(&right) || left.infix && self.is_k_verb(&right) {
            return Ok(Node::new(at, Kind::Compose(Box::new(left.node), Box::new(right))));
        }
        // A function under an iterator is infix: without a left operand it is valid in brackets only.
        if let Kind::Derive(iterator, _) = &left.node.kind
            && !left.bracketed
            && !self.is_k
        {
            return Err(QError::signal(iterator.glyph()).place(left.node.at));
        }
        // An operator without a left operand is valid in brackets only.
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

    /// Whether the next token is an infix operator rather than one applied by brackets.
    fn infix_follows(&self) -> bool {
        match self.peek() {
            // `@'[…]` and `union/[…]` are applied by brackets as well.
            Token::Glyph(_) | Token::Name(_)
                if self.placed(1).is_some_and(|p| !p.spaced && matches!(p.token, Token::Iterator(_))) =>
            {
                self.derived_follows()
            }
            Token::Glyph(_) => {
                let bracket = self.placed(1).is_some_and(|p| matches!(p.token, Token::Open(b'[')));
                !bracket || self.derived_follows()
            }
            Token::Name(name) if k::is_infix_word(name, self.is_k) => {
                let bracket = self.placed(1).is_some_and(|p| matches!(p.token, Token::Open(b'[')));
                !bracket || self.derived_follows()
            }
            _ => {
                // Any term followed by an iterator is an infix function: look past one name or lambda.
                self.derived_follows()
            }
        }
    }

    /// Whether the next term ends in an iterator, whatever arguments in brackets and iterators precede that: `f/`, `f[1;;]'`, `,'[;1]\`. It then takes a left
    /// operand; with brackets at its end, as in `f/[x;y]`, it has its operands.
    fn derived_follows(&self) -> bool {
        if matches!(self.peek(), Token::Literal(literal) if literal.as_symbols().is_none() && !matches!(literal, Value::Sym(_)))
        {
            return false;
        }
        let Some(mut ahead) = self.behind(0) else { return false };
        let mut is_derived = false;
        while let Some(next) = self.tokens.get(self.at + ahead).filter(|next| !next.spaced) {
            match next.token {
                Token::Iterator(_) => (ahead, is_derived) = (ahead + 1, true),
                Token::Open(b'[') => match self.behind(ahead) {
                    Some(behind) => (ahead, is_derived) = (behind, false),
                    None => return false,
                },
                _ => break,
            }
        }
        is_derived
    }

    /// Offset just past the token at `ahead`, or past the whole bracket that it opens.
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

    /// Whether the operand read last waits for a right operand, as `x+` does. `+[x;]` and `(x;)` are values, as all that brackets end.
    fn ends_open(&self, node: &Node) -> bool {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        !last.is_some_and(|t| matches!(t.token, Token::Close(_))) && is_open_ended(node)
    }

    /// Whether the expression read last is `::` or a function under an iterator, neither in brackets. An operator and its left operand
    /// compose with them: `first@inter/`, `3#::`.
    fn is_derived_verb(&self, right: &Node) -> bool {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|p| &p.token);
        match &right.kind {
            Kind::Derive(..) => matches!(last, Some(Token::Iterator(_))),
            Kind::Const(Value::Null) => matches!(last, Some(Token::Glyph("::"))),
            _ => false,
        }
    }

    /// Whether a `:` follows without a space, and something that it applies to.
    fn is_adjacent_colon(&self) -> bool {
        let is_colon = self.placed(0).is_some_and(|next| !next.spaced && matches!(next.token, Token::Glyph(":")));
        is_colon && !matches!(self.peek_after(), Token::End | Token::Close(_) | Token::Semicolon)
    }

    /// Whether `'`, `/:` or `\:` follows the next token without a blank: `x:\:y` iterates `:`. `f:'[g;h]` assigns a composition.
    fn iterates_next(&self) -> bool {
        let composes = self.placed(2).is_some_and(|p| matches!(p.token, Token::Open(b'[')));
        self.placed(1).is_some_and(|p| match p.token {
            Token::Iterator(Iterator::EachLeft | Iterator::EachRight) => !p.spaced,
            Token::Iterator(Iterator::Each) => !p.spaced && !composes,
            _ => false,
        })
    }

    fn assignment(&mut self, left: &Term) -> Result<Option<Node>, QError> {
        let Token::Glyph(glyph) = self.peek() else { return Ok(None) };
        let glyph = *glyph;
        let is_file = glyph.starts_with(|c: char| c.is_ascii_digit());
        if !glyph.ends_with(':') || is_file || glyph == ":" && self.iterates_next() {
            return Ok(None);
        }
        let (left, bracketed) = (&left.node, left.bracketed);
        let pattern = glyph == ":" && (bracketed || matches!(left.kind, Kind::List(_) | Kind::Table { .. }));
        let (target, indices) = match &left.kind {
            _ if pattern => (left.clone(), Vec::new()),
            Kind::Name(name) if self.is_fixed(*name) => return Err(QError::named("assign").place(left.at)),
            Kind::Name(_) => (left.clone(), Vec::new()),
            Kind::Apply(f, indices) if matches!(f.kind, Kind::Name(_)) => ((**f).clone(), indices.clone()),
            // Keywords cannot be assigned to.
            Kind::Const(f) if glyph == ":" && !bracketed && prims::index_of(f).is_some() && !prims::is_operator(f) => {
                return Err(QError::named("assign").place(left.at));
            }
            // What `x[i]` gives is a value, not a place: `x[i;j]:y` changes x, `x[i][j]:y` cannot.
            Kind::Apply(..) if !bracketed && is_chain(left) => return Err(QError::named("assign").place(left.at)),
            // Only part of a named value can be assigned: `(1;2)[0]:3` is an error.
            Kind::Apply(f, _) if glyph == ":" && !bracketed && is_list(f) => {
                return Err(QError::named("assign").place(left.at));
            }
            _ => return Ok(None),
        };
        let at = self.position();
        let before = self.at;
        self.advance();
        if self.at_end() {
            // `f::` at the end is a projection of `::` that waits for its argument, not an assignment.
            if glyph == "::" {
                self.at = before;
                return Ok(None);
            }
            // As `a,:` is `,:` of a, `(a:)` is `:` of a: its value.
            if glyph == ":" && !pattern && matches!(self.peek(), Token::Close(_) | Token::Semicolon) {
                return Ok(Some(left.clone()));
            }
            return match prims::find_glyph(glyph).filter(|f| prims::binary_form(f).is_some()) {
                // As for a literal: nothing is assigned.
                Some(unary) => {
                    let applied = Kind::Apply(Box::new(Node::new(at, Kind::Const(unary))), vec![Some(left.clone())]);
                    Ok(Some(Node::new(at, applied)))
                }
                None => Err(self.unexpected()),
            };
        }
        let through = match glyph {
            ":" | "::" => None,
            op => Some(prims::glyph(op.get(..op.len() - 1).unwrap_or_default())),
        };
        // `n+::1`: as `n+:1`, but of the global also where a lambda would make a local.
        let is_global_amend = through.is_some() && self.is_adjacent_colon();
        if is_global_amend {
            self.advance();
        }
        let value = self.expression()?;
        let assign = Assign { target, global: glyph == "::" || is_global_amend, indices, through, value, pattern };
        Ok(Some(Node::new(at, Kind::Assign(Box::new(assign)))))
    }
}

/// `:[name;y]` and `:[name i;y]` assign, as `name:y` and `name[i]:y` do; `::[name;y]` assigns a global; it does not define a view.
fn bracket_assignment(node: Node) -> Node {
    let Kind::Apply(f, arguments) = &node.kind else { return node };
    let [Some(place), Some(value)] = &arguments[..] else { return node };
    let global = matches!(f.kind, Kind::Const(Value::Null));
    if !global && !matches!(&f.kind, Kind::Const(f) if prims::is_glyph(f, ":")) {
        return node;
    }
    let (target, indices) = match &place.kind {
        Kind::Name(_) => (place.clone(), Vec::new()),
        Kind::Apply(name, indices) if matches!(name.kind, Kind::Name(_)) => ((**name).clone(), indices.clone()),
        _ => return node,
    };
    let assign = Assign { target, global, indices, through: None, value: value.clone(), pattern: false };
    Node::new(node.at as usize, Kind::Assign(Box::new(assign)))
}

/// Whether a node is a list in parentheses or of literals.
fn is_list(node: &Node) -> bool {
    matches!(node.kind, Kind::List(_) | Kind::Const(Value::Vector(_)))
}

/// Whether a node is a name indexed more than once: `x[i][j]`.
fn is_chain(node: &Node) -> bool {
    match &node.kind {
        Kind::Apply(f, _) => matches!(&f.kind, Kind::Apply(g, _) if matches!(g.kind, Kind::Name(_))) || is_chain(f),
        _ => false,
    }
}

/// `x+` without a right operand: applied after a function it makes a composition.
fn is_open_ended(node: &Node) -> bool {
    match &node.kind {
        Kind::Apply(f, arguments) => {
            matches!(arguments[..], [Some(_), None]) && matches!(f.kind, Kind::Const(_) | Kind::Derive(..))
        }
        Kind::Compose(..) => true,
        _ => false,
    }
}
