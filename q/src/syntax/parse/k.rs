//! The k language: text after `k)` and `.k` files. One grammar serves both languages; here is what k reads differently. A verb without a
//! left operand is its unary form (`#x` counts, `#'x` counts each), and an expression that ends in a verb is a composition (`*|:`).
//! Of the keywords only those of `.Q.res` are words of k; the others are names like any, which k text may assign.

use super::{Parser, Term, is_open_ended};
use crate::runtime::error::QError;
use crate::syntax::ast::{Kind, Node};
use crate::syntax::lex::Token;
use crate::syntax::{prims, words};
use columns::table::Value;
use columns::table::function::Iterator;

/// The unary form of an operator, `None` for a function that is no operator or has none.
fn unary(f: &Value) -> Option<Value> {
    let name =
        prims::name_of(f).filter(|_| (prims::is_operator(f) || prims::is_glyph(f, ".")) && prims::is_infix(f))?;
    match name {
        "0:" => prims::keyword(b"read0"),
        "1:" => prims::keyword(b"read1"),
        ":" | "2:" => None,
        one => prims::find_glyph(&format!("{one}:")),
    }
}

/// Keywords that k has as well: `.Q.res` without those of control and of qSQL, which the parser recognises itself.
const K_WORDS: [&[u8]; 35] = [
    b"abs", b"acos", b"asin", b"atan", b"avg", b"bin", b"binr", b"cor", b"cos", b"cov", b"dev", b"div", b"enlist",
    b"exit", b"exp", b"getenv", b"in", b"insert", b"last", b"like", b"log", b"max", b"min", b"prd", b"setenv", b"sin",
    b"sqrt", b"ss", b"sum", b"tan", b"var", b"wavg", b"within", b"wsum", b"xexp",
];

/// The function that a keyword names in the language of the text. `None` if a script has replaced it (`.q.show:{…}`): it is then looked up as any
/// name. `max` and the other words of k cannot be replaced.
pub(super) fn word(name: &[u8], is_k: bool) -> Option<Value> {
    prims::keyword(name).filter(|_| K_WORDS.contains(&name) || !is_k && !words::is_one(name))
}

/// Whether a name is a keyword, or a script's own word, that stands between its operands.
pub(super) fn is_infix_word(name: &[u8], is_k: bool) -> bool {
    word(name, is_k).map_or_else(|| !is_k && words::is_infix(name), |word| prims::is_infix(&word))
}

impl Parser<'_> {
    /// What k makes of a verb that begins an expression; the parser stands behind the verb, not at the end.
    pub(super) fn k_prefix(&mut self, left: &Term) -> Result<Option<Node>, QError> {
        if !self.is_k || left.bracketed {
            return Ok(None);
        }
        let at = left.node.at as usize;
        let verb = match &left.node.kind {
            Kind::Const(f) => unary(f).map(Kind::Const),
            Kind::Derive(Iterator::Each, f) => match &f.kind {
                Kind::Const(f) => {
                    unary(f).map(|f| Kind::Derive(Iterator::Each, Box::new(Node::new(at, Kind::Const(f)))))
                }
                _ => None,
            },
            _ => None,
        };
        let Some(verb) = verb else { return Ok(None) };
        let verb = Box::new(Node::new(at, verb));
        let right = self.expression()?;
        Ok(Some(Node::new(
            at,
            match is_open_ended(&right) || self.is_k_verb(&right) {
                true => Kind::Compose(verb, Box::new(right)),
                false => Kind::Apply(verb, vec![Some(right)]),
            },
        )))
    }

    /// Whether the expression that ends here is a verb, an operator or a function under an iterator, and no value in brackets: in k what
    /// stands before it is composed with it, in q if it is an operator's unary form (`2#,:`).
    pub(super) fn is_k_verb(&self, right: &Node) -> bool {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|p| &p.token);
        let ends_in_verb = match last {
            Some(Token::Glyph(glyph)) => self.is_k || glyph.len() == 2 && glyph.ends_with(':'),
            Some(Token::Iterator(_)) => self.is_k,
            _ => false,
        };
        ends_in_verb && matches!(right.kind, Kind::Const(_) | Kind::Derive(..))
    }
}
