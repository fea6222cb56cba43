//! The locals that the symbols of a functional query name.

use crate::runtime::context::Context;
use crate::runtime::frame::Frame;
use crate::syntax::ast::{Kind, Node};
use crate::syntax::{lambda, prims};
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
