//! Globals that code refers to.

use crate::syntax::ast::{Code, Kind, Node};
use crate::syntax::lambda;
use crate::syntax::resolve::{walk, walk_outside};
use columns::table::{Sym, Value};

/// As [`globals`], without those in the phrases of qSQL templates.
pub(crate) fn globals_outside(node: &Node, names: &mut Vec<Sym>) {
    walk_outside(node, &mut |n| match &n.kind {
        Kind::Global(name) if !names.contains(name) => names.push(*name),
        Kind::Const(Value::Func(f)) => {
            if let columns::table::Function::Lambda(l) = &**f
                && let Ok(inner) = lambda::code(l)
            {
                inner.body.iter().for_each(|node| globals_outside(node, names));
            }
        }
        _ => {}
    });
}

/// Collects the globals that code refers to, including those of the lambdas in it.
pub fn globals(code: &Code, names: &mut Vec<Sym>) {
    for node in &code.body {
        walk(node, &mut |n| match &n.kind {
            Kind::Global(name) if !names.contains(name) => names.push(*name),
            Kind::Const(Value::Func(f)) => {
                if let columns::table::Function::Lambda(l) = &**f
                    && let Ok(inner) = lambda::code(l)
                {
                    globals(inner, names);
                }
            }
            _ => {}
        });
    }
}
