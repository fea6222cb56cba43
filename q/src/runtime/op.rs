//! Binary functions that apply item by item.

use columns::kernel::zip::{Arithmetic, Comparison};

/// Binary atomic functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Arithmetic(Arithmetic),
    Compare(Comparison),
    Divide,
    /// Integer division, rounded down.
    Div,
    Mod,
    /// `x^y`: fills the nulls of `y` with `x`.
    Fill,
    Power,
    Log,
    /// `x xbar y`.
    Bar,
}
