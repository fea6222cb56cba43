//! The operating system: address ranges that columns grow in, files, locks, memory figures. With `kernel`, the only
//! place where `unsafe` may stand.

pub mod allocated;
pub mod budget;
pub mod child;
pub mod clock;
pub mod fs;
pub mod held;
pub mod interrupt;
pub mod memory;
pub mod mount;
pub mod process;
pub mod region;
pub mod shared;
pub mod stack;
