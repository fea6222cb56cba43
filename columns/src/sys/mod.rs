//! Operating system interface: address ranges for columns, clocks, child processes, stacks, memory figures. `unsafe` is
//! allowed only here and in `kernel`.

pub mod allocated;
pub mod budget;
pub mod child;
pub mod clock;
pub mod fs;
pub mod held;
pub mod interrupt;
pub mod memory;
pub mod mount;
pub mod os_error;
mod owned;
pub mod process;
pub mod region;
pub mod shared;
pub mod snapshot;
pub mod stack;
