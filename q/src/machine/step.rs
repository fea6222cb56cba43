//! The code of the machine.

use super::scalar::Scalar;
use crate::arith::Op;
use columns::kernel::zip::Comparison;
use columns::table::{Sym, Value};
use std::sync::Arc;

/// Registers that the steps of one function can name.
pub(super) const WINDOW: usize = 256;

/// Primitives of one argument that have a short way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Monad {
    Neg,
    Abs,
    Not,
    Sqrt,
    Count,
    Any,
}

/// One step. `to`, `x` and `y` are registers, counted from the frame's first; a target is a place in the code.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Constant {
        to: u8,
        index: u16,
    },
    /// A global that is not a function, as it was when the run began: nothing in a run assigns one.
    Global {
        to: u8,
        index: u16,
    },
    Copy {
        to: u8,
        x: u8,
    },
    Add {
        to: u8,
        x: u8,
        y: u8,
    },
    Subtract {
        to: u8,
        x: u8,
        y: u8,
    },
    Multiply {
        to: u8,
        x: u8,
        y: u8,
    },
    AddLong {
        to: u8,
        x: u8,
        y: i32,
    },
    MultiplyLong {
        to: u8,
        x: u8,
        y: i32,
    },
    SubtractLong {
        to: u8,
        x: u8,
        y: i32,
    },
    /// A register and a float constant.
    AddConstant {
        to: u8,
        x: u8,
        index: u16,
    },
    MultiplyConstant {
        to: u8,
        x: u8,
        index: u16,
    },
    SubtractConstant {
        to: u8,
        x: u8,
        index: u16,
    },
    /// A constant less a register.
    SubtractFrom {
        to: u8,
        x: u8,
        index: u16,
    },
    Div {
        to: u8,
        x: u8,
        y: u8,
    },
    Mod {
        to: u8,
        x: u8,
        y: u8,
    },
    Divide {
        to: u8,
        x: u8,
        y: u8,
    },
    DivLong {
        to: u8,
        x: u8,
        y: i32,
    },
    ModLong {
        to: u8,
        x: u8,
        y: i32,
    },
    /// Any other function of two arguments that works item by item.
    Binary {
        to: u8,
        x: u8,
        y: u8,
        op: Op,
    },
    BinaryLong {
        to: u8,
        x: u8,
        y: i16,
        op: Op,
    },
    /// Any other primitive of two arguments.
    Other {
        to: u8,
        x: u8,
        y: u8,
        primitive: u16,
    },
    Unary {
        to: u8,
        x: u8,
        monad: Monad,
        primitive: u16,
    },
    /// `x[y]:value`, or `x[y]op:value`.
    Amend {
        x: u8,
        y: u8,
        value: u8,
        op: Option<Op>,
    },
    /// `x,:y`.
    Append {
        x: u8,
        y: u8,
    },
    /// An item of an object.
    Item {
        to: u8,
        x: u8,
        y: u8,
    },
    Jump {
        target: u16,
    },
    /// A jump back: where time and memory are looked after.
    Again {
        target: u16,
    },
    Unless {
        x: u8,
        target: u16,
    },
    UnlessEqual {
        x: u8,
        y: u8,
        target: u16,
    },
    UnlessUnequal {
        x: u8,
        y: u8,
        target: u16,
    },
    UnlessLess {
        x: u8,
        y: u8,
        target: u16,
    },
    UnlessAtMost {
        x: u8,
        y: u8,
        target: u16,
    },
    UnlessEqualLong {
        x: u8,
        target: u16,
        y: i32,
    },
    UnlessUnequalLong {
        x: u8,
        target: u16,
        y: i32,
    },
    UnlessLessLong {
        x: u8,
        target: u16,
        y: i32,
    },
    UnlessMoreLong {
        x: u8,
        target: u16,
        y: i32,
    },
    UnlessAtMostLong {
        x: u8,
        target: u16,
        y: i32,
    },
    UnlessAtLeastLong {
        x: u8,
        target: u16,
        y: i32,
    },
    /// How often a `do` runs: an integer atom becomes a long.
    Times {
        x: u8,
    },
    /// One less to go, or on to the target.
    Countdown {
        x: u8,
        target: u16,
    },
    /// Calls a unit whose arguments stand in registers from `base` on.
    Call {
        to: u8,
        base: u8,
        unit: u16,
    },
    /// `x-y` as the one argument of a call, in one step.
    CallLess {
        to: u8,
        base: u8,
        x: u8,
        unit: u8,
        y: i8,
    },
    /// `x+y` as the result.
    ReturnSum {
        x: u8,
        y: u8,
    },
    ReturnConstant {
        index: u16,
    },
    /// A condition on a constant whose fulfilment has a register as the result.
    ReturnIfLess {
        x: u8,
        result: u8,
        target: u16,
        y: i16,
    },
    ReturnIfAtMost {
        x: u8,
        result: u8,
        target: u16,
        y: i16,
    },
    ReturnIfEqual {
        x: u8,
        result: u8,
        target: u16,
        y: i16,
    },
    /// An item of a global.
    GlobalItem {
        to: u8,
        index: u16,
        y: u8,
    },
    Return {
        x: u8,
    },
    /// What follows is not for the machine: the whole run is left to the evaluator.
    Leave,
}

/// What a call site calls.
#[derive(Clone, Debug)]
pub(super) enum Callee {
    /// `.z.s`.
    Own,
    Global(Sym),
    /// A lambda that stands there.
    Lambda(Arc<Unit>),
}

/// A call site: what, with how many arguments.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub callee: Callee,
    pub arguments: usize,
}

/// A lambda's code before its globals are known. `Call` counts in `sites`, `Constant` and `Global` in their lists.
#[derive(Debug)]
pub(super) struct Unit {
    pub steps: Vec<Step>,
    /// The position in the text for each step.
    pub at: Vec<u32>,
    pub constants: Vec<Value>,
    pub globals: Vec<Sym>,
    pub sites: Vec<Site>,
    pub parameters: u8,
    /// Parameters and other locals.
    pub locals: u8,
    pub source: Arc<[u8]>,
    /// Where the text starts in what positions count in.
    pub start: u32,
}

/// What a function does first where that is to end at once: a condition on a parameter, and the result where it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    pub parameter: u8,
    pub comparison: Comparison,
    pub bound: i64,
    pub result: Early,
    /// Where the function goes on if the condition does not hold.
    pub otherwise: u16,
}

/// The result of a function that ends at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Early {
    Parameter(u8),
    Constant(u16),
    /// A parameter and a number added.
    Sum(u8, i64),
}

/// A unit in its program: indices count in the program's lists.
#[derive(Debug)]
pub(super) struct Linked {
    pub unit: Arc<Unit>,
    /// As the unit has them.
    pub parameters: u8,
    pub locals: u8,
    pub steps: Vec<Step>,
    pub guard: Option<Guard>,
    /// For traces: by which name each step calls.
    pub names: Vec<(u32, Sym)>,
}

/// A lambda and all that it calls.
#[derive(Debug)]
pub(super) struct Program {
    /// The lambda itself first.
    pub units: Vec<Linked>,
    pub constants: Vec<Scalar>,
    /// Constants that do not fit a register; they are a run's first objects.
    pub objects: Vec<Value>,
    /// Globals that are read.
    pub globals: Vec<Sym>,
    /// Whether it loops or calls: only then are runs on larger things than atoms worth their while.
    pub busy: bool,
    /// Globals that are called, and the unit that each has to be.
    pub called: Vec<(Sym, u16)>,
}

impl Step {
    /// The same step with another target.
    pub fn to(self, place: u16) -> Step {
        use Step::*;
        match self {
            Jump { .. } => Jump { target: place },
            Again { .. } => Again { target: place },
            Unless { x, .. } => Unless { x, target: place },
            UnlessEqual { x, y, .. } => UnlessEqual { x, y, target: place },
            UnlessUnequal { x, y, .. } => UnlessUnequal { x, y, target: place },
            UnlessLess { x, y, .. } => UnlessLess { x, y, target: place },
            UnlessAtMost { x, y, .. } => UnlessAtMost { x, y, target: place },
            UnlessEqualLong { x, y, .. } => UnlessEqualLong { x, target: place, y },
            UnlessUnequalLong { x, y, .. } => UnlessUnequalLong { x, target: place, y },
            UnlessLessLong { x, y, .. } => UnlessLessLong { x, target: place, y },
            UnlessMoreLong { x, y, .. } => UnlessMoreLong { x, target: place, y },
            UnlessAtMostLong { x, y, .. } => UnlessAtMostLong { x, target: place, y },
            UnlessAtLeastLong { x, y, .. } => UnlessAtLeastLong { x, target: place, y },
            Countdown { x, .. } => Countdown { x, target: place },
            other => other,
        }
    }
}
