//! Properties of functions, found without applying them.

use crate::syntax::ast::{Kind, Node};
use crate::syntax::lambda;
use crate::syntax::prims::{self, Arity};
use columns::table::function::{Function, Iterator};
use columns::table::{Value, Vector};
use proto::types;

/// Projects `function` on these arguments; `None` is an elided one.
pub(crate) fn project(function: Value, arguments: Vec<Option<Value>>) -> Value {
    Value::func(Function::Projection { function, arguments })
}

/// An elided argument as a value, as `parse` and `value` of a projection give it. It is shown as the generic null; passed among several
/// arguments, or in a list, it leaves its place open: `(0;x)` is then a projection.
pub(crate) fn elided() -> Value {
    Value::func(Function::Coded(types::UNARY, types::UNARY_HOLE))
}

/// Whether this is [`elided`].
pub(crate) fn is_elided(x: &Value) -> bool {
    matches!(x, Value::Func(function) if matches!(**function, Function::Coded(types::UNARY, types::UNARY_HOLE)))
}

/// Whether a function accepts several numbers of arguments.
pub(crate) fn is_variadic(f: &Value) -> bool {
    match f {
        Value::Func(function) => match &**function {
            Function::Primitive(index) => prims::get(*index).is_some_and(|p| matches!(p.arity, Arity::Many(..))),
            Function::Derived { .. } => true,
            Function::Composition(parts) if !columns::sys::stack::is_deep() => parts.last().is_some_and(is_variadic),
            _ => false,
        },
        _ => false,
    }
}

/// The primitive that a function is, or that a lambda like `{x+y}` is equivalent to.
pub(crate) fn as_primitive(f: &Value) -> Option<u16> {
    let Value::Func(function) = f else { return None };
    match &**function {
        Function::Primitive(index) => Some(*index),
        Function::Lambda(l) => {
            let code = lambda::code(l).ok()?;
            let ([_, _], [Node { kind: Kind::Apply(f, arguments), .. }]) = (&code.parameters[..], &code.body[..])
            else {
                return None;
            };
            let local = |node: &Option<Node>, slot: u16| matches!(node, Some(Node { kind: Kind::Local(own), .. }) if *own == slot);
            match (&f.kind, &arguments[..]) {
                (Kind::Const(f), [x, y]) if local(x, 0) && local(y, 1) => as_primitive(f),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Number of arguments that a function expects; 1 if it nests too deep to be applied.
pub(crate) fn valence(f: &Value) -> usize {
    let Value::Func(function) = f else { return 1 };
    if columns::sys::stack::is_deep() {
        return 1;
    }
    match &**function {
        Function::Lambda(l) => lambda::code(l).map_or(1, |c| c.parameters.len()),
        Function::Primitive(index) => match prims::get(*index).map(|p| p.arity) {
            Some(Arity::Unary) => 1,
            Some(Arity::Many(least, _)) => usize::from(least.max(1)),
            _ => 2,
        },
        Function::Coded(kind, _) => usize::from(*kind == types::BINARY) + 1,
        Function::Native(_) | Function::View(_) | Function::OnDisk { .. } => 1,
        Function::Projection { function, arguments } => {
            let holes = arguments.iter().filter(|a| a.is_none()).count();
            holes + valence(function).saturating_sub(arguments.len())
        }
        Function::Composition(parts) => parts.last().map_or(1, valence),
        Function::Derived { iterator, function } => match iterator {
            Iterator::Each => valence(function),
            // `","/:`: joins or splits its one argument.
            Iterator::EachLeft | Iterator::EachRight => 1 + usize::from(matches!(function, Value::Func(_))),
            Iterator::EachPrior => 1,
            Iterator::Over | Iterator::Scan => {
                let inner = valence(function);
                if inner > 2 { inner } else { 1 }
            }
        },
    }
}

/// `type` of the keywords that kdb+ makes of other functions than elastick does.
fn keyword_type(word: &str) -> Option<i8> {
    Some(match word {
        "iasc" | "idesc" => types::LAMBDA,
        "hclose" | "hdel" | "hopen" | "inv" | "ltime" => types::UNARY,
        "lsq" | "mmu" => types::BINARY,
        "attr" | "eval" | "hcount" | "reval" | "upsert" => types::PROJECTION,
        "all" | "any" | "ceiling" | "differ" | "hsym" | "system" | "union" => types::COMPOSITION,
        "load" | "rload" | "rsave" | "save" => Iterator::Each.type_number(),
        "dsave" => Iterator::EachRight.type_number(),
        _ => return None,
    })
}

/// The operator of a keyword that kdb+ defines as an operator with an iterator: `+` for `sums`, which is `+\`.
pub(crate) fn iterated(word: &str) -> Option<&'static str> {
    Some(match word {
        "sums" => "+",
        "prds" => "*",
        "maxs" => "|",
        "mins" => "&",
        "raze" => ",",
        "deltas" => "-",
        "ratios" => "%",
        _ => return None,
    })
}

/// q's `type` of a value; each kind of function has its own number.
pub(crate) fn type_of(value: &Value) -> i8 {
    match value {
        Value::Func(function) => match &**function {
            Function::Lambda(_) | Function::View(_) => types::LAMBDA,
            Function::Primitive(index) => prims::get(*index).map_or(types::UNARY, |p| match p.name {
                "<>" | "<=" | ">=" => types::COMPOSITION,
                word => keyword_type(word).unwrap_or(p.code.0),
            }),
            Function::Coded(kind, _) => *kind,
            Function::Native(_) => types::LAMBDA,
            Function::Projection { .. } => types::PROJECTION,
            Function::Composition(_) => types::COMPOSITION,
            Function::Derived { iterator, .. } => iterator.type_number(),
            Function::OnDisk { .. } => types::TABLE,
        },
        Value::Vector(Vector { .. }) => value.type_number(),
        other => other.type_number(),
    }
}
