//! Functions as values, which can be assigned, applied and serialised.

use super::value::Value;
use crate::kernel::sym::Sym;
use crate::sys::shared::{Nests, Shared, depth_around};
use proto::types;
use std::any::Any;
use std::sync::Arc;

/// A function value.
#[derive(Clone, Debug)]
pub enum Function {
    Lambda(Lambda),
    /// A view: an expression that is evaluated when its name is read.
    View(Lambda),
    /// Index into q's table of primitives.
    Primitive(u16),
    /// A kdb+ primitive that q does not implement: wire type (101 to 103) and code.
    Coded(i8, u8),
    /// A function of the evaluating process (`.u.sub`, …), by name.
    Native(Sym),
    /// A function with some of its arguments; `None` is an elided one.
    Projection {
        function: Value,
        arguments: Vec<Option<Value>>,
    },
    /// Functions applied from last to first.
    Composition(Vec<Value>),
    /// A table on disk: its columns, and the name of the partitioned table or the path of the splayed one.
    OnDisk {
        columns: Vec<Sym>,
        place: Sym,
    },
    /// A function modified by an iterator.
    Derived {
        iterator: Iterator,
        function: Value,
    },
}

/// A query may nest functions to any depth; [`Shared`] drops them without recursion.
impl Drop for Function {
    fn drop(&mut self) {
        let held: Vec<Value> = match self {
            Function::Projection { function, arguments } => {
                let function = std::mem::replace(function, Value::Null);
                arguments.drain(..).flatten().chain([function]).collect()
            }
            Function::Composition(parts) => std::mem::take(parts),
            Function::Derived { function, .. } => vec![std::mem::replace(function, Value::Null)],
            _ => return,
        };
        drop(Shared::from(held));
    }
}

impl Nests for Function {
    const MAY_NEST: bool = true;

    fn depth(&self) -> u16 {
        match self {
            Function::Projection { function, arguments } => depth_around(arguments.iter().flatten().chain([function])),
            Function::Composition(parts) => depth_around(parts),
            Function::Derived { function, .. } => depth_around([function]),
            // As serialised, a lambda holds its text.
            Function::Lambda(_) => 1,
            _ => 0,
        }
    }
}

/// A lambda. Its text is serialised, its compiled form is not.
#[derive(Clone, Debug)]
pub struct Lambda {
    /// Source text with its braces.
    pub source: Arc<[u8]>,
    /// Namespace of its globals: null for the root, else with its dot.
    pub namespace: Sym,
    /// Output of q's compiler.
    pub code: Arc<dyn Any + Send + Sync>,
}

/// The six iterators; wire types 106 to 111.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iterator {
    Each,
    Over,
    Scan,
    EachPrior,
    EachRight,
    EachLeft,
}

impl Iterator {
    pub const ALL: [Iterator; 6] =
        [Iterator::Each, Iterator::Over, Iterator::Scan, Iterator::EachPrior, Iterator::EachRight, Iterator::EachLeft];

    /// Returns the iterator's q notation.
    pub fn glyph(self) -> &'static str {
        match self {
            Iterator::Each => "'",
            Iterator::Over => "/",
            Iterator::Scan => "\\",
            Iterator::EachPrior => "':",
            Iterator::EachRight => "/:",
            Iterator::EachLeft => "\\:",
        }
    }

    /// Type number of functions derived by this iterator.
    pub fn type_number(self) -> i8 {
        types::EACH + self as i8
    }
}
