//! What an application says of itself by its nodes: the locals that the symbols of a functional query name, and operators with one operand.

use crate::runtime::context::Context;
use crate::runtime::frame::Frame;
use crate::syntax::ast::{Kind, Node};
use crate::syntax::{lambda, prims};
use crate::verbs::function::valence;
use columns::table::function::Function;
use columns::table::{Sym, Value};

/// The locals that a functional query sees, which is called as `?[t;c;b;a]` or `![t;c;b;a]`: as in kdb+ they come after its columns and
/// before the globals. Empty for every other call.
pub(super) fn among(context: &Context, f: &Node, arguments: usize, frame: &Frame) -> Vec<(Sym, Value)> {
    let is_query = arguments > 3
        && matches!(&f.kind, Kind::Const(called) if prims::is_glyph(called, "?") || prims::is_glyph(called, "!"));
    if !is_query {
        return Vec::new();
    }
    if !frame.among.is_empty() {
        return frame.among.clone();
    }
    match &context.running {
        Some(Value::Func(running))
            if let Function::Lambda(lambda) = &**running
                && let Ok(code) = lambda::code(lambda)
                && code.locals.len() == frame.locals.len() =>
        {
            let values = code.locals.iter().zip(&frame.locals);
            values.filter_map(|(name, value)| Some((*name, value.clone()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether an application is an operator with its left operand alone, `1+`: a projection of one argument, where `+[1;]` has two.
pub(super) fn is_left_operand(f: &Node, arguments: &[Option<Node>], called: &Value) -> bool {
    let [Some(x), None] = arguments else { return false };
    let is_binary = matches!(called, Value::Func(f) if matches!(**f, Function::Primitive(_)));
    is_binary && valence(called) == 2 && x.at < f.at
}
