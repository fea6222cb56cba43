//! Functions as data: what can be held in a variable, applied and sent.

use super::value::Value;
use crate::kernel::sym::Sym;
use crate::sys::shared::{Nests, Shared, depth_around};
use std::any::Any;
use std::sync::Arc;

/// A function value.
#[derive(Clone, Debug)]
pub enum Function {
    Lambda(Lambda),
    /// An expression that is evaluated when its name is asked for.
    View(Lambda),
    /// An index into q's table of primitives.
    Primitive(u16),
    /// A primitive of kdb+ that travels by its type (101 to 103) and code and that q's table has no function for.
    Coded(u8, u8),
    /// A function of the process that evaluates (`.u.sub`, …), by name.
    Native(Sym),
    /// A function with some arguments given; `None` is a hole.
    Projection {
        function: Value,
        arguments: Vec<Option<Value>>,
    },
    /// Functions applied from the last to the first.
    Composition(Vec<Value>),
    /// A table that lies on disk: its columns, and the name of the partitioned table or the path of the splayed one.
    OnDisk {
        columns: Vec<Sym>,
        place: Sym,
    },
    /// An iterator on a function.
    Derived {
        iterator: Iterator,
        function: Value,
    },
}

/// Functions hold functions as deeply as a query nests them; [`Shared`] knows how to let go of that without recursion.
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
            _ => 0,
        }
    }
}

/// A lambda: its text travels, its compiled form does not.
#[derive(Clone, Debug)]
pub struct Lambda {
    /// Text with its braces.
    pub source: Arc<[u8]>,
    /// Namespace in which its globals are looked up: null for the root, else with its dot.
    pub namespace: Sym,
    /// What q's compiler made of the text.
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

    /// As it is written.
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

    /// Its type number as a derived function.
    pub fn type_number(self) -> u8 {
        106 + self as u8
    }
}
