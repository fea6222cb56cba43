//! Instructions of the register VM.

use crate::runtime::op::Op;
use crate::runtime::scalar::Scalar;
use columns::kernel::zip::Comparison;
use columns::table::{Sym, Value};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

/// Unary primitives with an instruction of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Monad {
    Neg,
    Abs,
    Not,
    Sqrt,
    Count,
    Any,
}

/// One instruction. `to`, `x` and `y` are registers relative to the frame; `target` is an index into the code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Constant {
        to: u8,
        index: u16,
    },
    /// A global that is not a function, read when the run begins: no instruction assigns a global.
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
    /// A register plus a float constant.
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
    /// A constant minus a register.
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
    /// Any other binary atomic function.
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
    /// Any other binary primitive.
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
    /// Backward jump; checks time and memory limits.
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
    /// Converts the count of a `do`, an integer atom, to a long.
    Times {
        x: u8,
    },
    /// Decrements the count; at zero jumps to the target.
    Countdown {
        x: u8,
        target: u16,
    },
    /// Calls a unit; its arguments are in the registers from `base` on.
    Call {
        to: u8,
        base: u8,
        unit: u16,
    },
    /// Fused: call with `x-y` as the only argument.
    CallLess {
        to: u8,
        base: u8,
        x: u8,
        unit: u8,
        y: i8,
    },
    /// Fused: returns `x+y`.
    ReturnSum {
        x: u8,
        y: u8,
    },
    ReturnConstant {
        index: u16,
    },
    /// Fused: compares with a constant and, if the condition holds, returns a register.
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
    /// The VM cannot go on: the evaluator repeats the whole run.
    Leave,
}

/// The callee of a call site.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// `.z.s`.
    Own,
    Global(Sym),
    /// A lambda written at the call site.
    Lambda(Arc<Unit>),
}

/// A call site: callee and number of arguments.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub callee: Callee,
    pub arguments: usize,
}

/// A lambda's code before linking. `Call` indexes `sites`, `Constant` and `Global` their lists.
#[derive(Debug)]
pub(crate) struct Unit {
    pub steps: Vec<Step>,
    /// Position in the text of each instruction.
    pub at: Vec<u32>,
    pub constants: Vec<Value>,
    pub globals: Vec<Sym>,
    pub sites: Vec<Site>,
    pub parameters: u8,
    /// Number of parameters and other locals.
    pub locals: u8,
    pub source: Arc<[u8]>,
    /// Start of the lambda's text; positions are relative to the same origin.
    pub start: u32,
}

/// A conditional return at the start of a function: a condition on a parameter, and the result if it holds. Lets a call
/// return without a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub parameter: u8,
    pub comparison: Comparison,
    pub bound: i64,
    pub result: Early,
    /// The instruction to continue with if the condition does not hold.
    pub otherwise: u16,
}

/// Result of a [`Guard`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Early {
    Parameter(u8),
    Constant(u16),
    /// A parameter plus a number.
    Sum(u8, i64),
}

/// A unit linked into a program: indices refer to the program's lists.
#[derive(Debug)]
pub(crate) struct Linked {
    pub unit: Arc<Unit>,
    /// Copied from the unit.
    pub parameters: u8,
    pub locals: u8,
    pub steps: Vec<Step>,
    pub guard: Option<Guard>,
    /// For stack traces: the name that each instruction calls.
    pub names: Vec<(u32, Sym)>,
}

/// A lambda linked with all its callees.
#[derive(Debug)]
pub(crate) struct LinkedProgram {
    /// The lambda itself first.
    pub units: Vec<Linked>,
    pub constants: Vec<Scalar>,
    /// Constants too large for a register; they are the run's first objects.
    pub objects: Vec<Value>,
    /// Globals that are read.
    pub globals: Vec<Sym>,
    /// Whether it loops or calls. If not, the VM is no faster on arguments larger than atoms.
    pub busy: bool,
    /// Globals that are called; the program is valid only while each holds the given unit.
    pub called: Vec<(Sym, u16)>,
}

impl Step {
    /// The same instruction with another target.
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

/// VM code of a lambda, filled in on first use.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub unit: OnceLock<Option<Arc<Unit>>>,
    pub program: Mutex<Option<Arc<LinkedProgram>>>,
    pub failures: AtomicU32,
    pub runs: AtomicU32,
    pub left: AtomicU32,
}
