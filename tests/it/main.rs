//! Real processes of the binary, on ports that the system chooses, in directories that are removed.

mod demo_fleet;
mod harness;
