//! Primitives called by their index in the table.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::footprint;
use crate::runtime::limits::{made, settled};
use crate::syntax::prims::{self, Primitive};
use crate::verbs::above::{Evaluate, Run};
use crate::verbs::given::{self, Given};
use columns::table::Value;

/// Whether a primitive accepts enumerated values; others receive plain symbols or longs.
pub(crate) fn keeps_domain(primitive: &Primitive) -> bool {
    matches!(
        primitive.name,
        "first"
            | "last"
            | "reverse"
            | "#"
            | "_"
            | "@"
            | "."
            | "enlist"
            | ",:"
            | ","
            | "flip"
            | "distinct"
            | "union"
            | "next"
            | "prev"
            | "xprev"
            | "rotate"
            | "sublist"
            | "cut"
            | "~"
            | "type"
            | "key"
            | "value"
            | "get"
            | "attr"
            | "$"
            | "!"
            | "set"
            | "insert"
            | "upsert"
            | "show"
            | "group"
            | "null"
            | "count"
            | ":"
            | "each"
            | "over"
            | "scan"
            | "prior"
            | "peach"
            | "fills"
            | "raze"
            | "except"
            | "inter"
            | "asc"
            | "desc"
            | ".Q.s"
            | ".Q.S"
            | ".Q.s1"
            | ".Q.ty"
            | "eval"
    )
}

/// Calls a primitive with one argument.
pub(crate) fn run1(context: &mut Context, index: u16, x: Value) -> Result<Value, QError> {
    match (prims::get(index), Context::function(index)) {
        (Some(Primitive { name, .. }), Some(Run::Unary(run))) if !x.is_enumerated() => {
            footprint::ask(name, &[&x])?;
            let given = [Given::of(&x)];
            made(settled(run(context, x)).map_err(|e| given::explain(e, name, &given))?)
        }
        _ => context.apply(&prims::of_index(index), vec![x]),
    }
}

/// Calls a primitive with two arguments.
pub(crate) fn run2(context: &mut Context, index: u16, x: Value, y: Value) -> Result<Value, QError> {
    let primitive = prims::get(index);
    let (x, y) = match primitive {
        Some(p) if (x.is_enumerated() || y.is_enumerated()) && !keeps_domain(p) => (x.plain(), y.plain()),
        _ => (x, y),
    };
    match (primitive, Context::function(index)) {
        (Some(Primitive { name, .. }), Some(Run::Binary(run))) => {
            footprint::ask(name, &[&x, &y])?;
            let given = [Given::of(&x), Given::of(&y)];
            made(settled(run(context, x, y)).map_err(|e| given::explain(e, name, &given))?)
        }
        _ => context.apply(&prims::of_index(index), vec![x, y]),
    }
}
