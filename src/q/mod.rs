//! The q language: lexer, parser, evaluator, primitives, qSQL, console formatting. Knows nothing of tickerplants: what a
//! process offers to its queries comes in through [`host::Host`].

pub mod error;
pub mod host;
