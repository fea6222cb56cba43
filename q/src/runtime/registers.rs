//! Registers of the VM, kept between runs.

use crate::runtime::scalar::Scalar;
use columns::table::Value;

/// Registers that one function's steps can address.
pub(crate) const WINDOW: usize = 256;

/// Return address of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub unit: u16,
    pub pc: u32,
    pub to: u8,
    /// Distance between the callee's registers and the caller's.
    pub shift: u8,
}

/// Registers, call stack and the values that registers refer to.
#[derive(Debug)]
pub(crate) struct Registers {
    pub stack: Vec<Scalar>,
    pub frames: Vec<Frame>,
    /// The program's constants first, then globals, then arguments.
    pub objects: Vec<Value>,
    /// For each object the register that holds its only reference, counted from 1 over all frames; 0 if there may be
    /// others.
    pub owners: Vec<u32>,
    pub globals: Vec<Scalar>,
    pub result: Scalar,
}

impl Default for Registers {
    fn default() -> Registers {
        Registers {
            stack: vec![Scalar::Unset; WINDOW],
            frames: Vec::new(),
            objects: Vec::new(),
            owners: Vec::new(),
            globals: Vec::new(),
            result: Scalar::Unset,
        }
    }
}
