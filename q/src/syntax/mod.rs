//! Text to syntax tree: tokens, literals, parser, name resolution; the table of primitives.

pub(crate) mod ast;
pub(crate) mod called;
pub(crate) mod compiled;
pub(crate) mod foreign;
pub(crate) mod globals;
pub(crate) mod lambda;
pub(crate) mod lex;
pub(crate) mod literal;
pub(crate) mod parse;
pub(crate) mod parse_query;
pub(crate) mod prims;
pub(crate) mod resolve;
pub(crate) mod script;
pub(crate) mod steps;
pub(crate) mod words;
