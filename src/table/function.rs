//! Functions as data: what can be held in a variable, applied and sent.

use super::value::Value;
use crate::kernel::sym::Sym;
use std::any::Any;
use std::sync::Arc;

/// A function value.
#[derive(Clone, Debug)]
pub enum Function {
    Lambda(Lambda),
    /// An index into q's table of primitives.
    Primitive(u16),
    /// A function of the process that evaluates (`.u.sub`, …), by name.
    Native(Sym),
    /// A function with some arguments given; `None` is a hole.
    Projection {
        function: Value,
        arguments: Vec<Option<Value>>,
    },
    /// Functions applied from the last to the first.
    Composition(Vec<Value>),
    /// An iterator on a function.
    Derived {
        iterator: Iterator,
        function: Value,
    },
}

/// A lambda: its text travels, its compiled form does not.
#[derive(Clone, Debug)]
pub struct Lambda {
    /// Text with its braces.
    pub source: Arc<[u8]>,
    /// Namespace in which its globals are looked up.
    pub namespace: Sym,
    pub parameters: u8,
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
