#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

use std::process::ExitCode;

fn main() -> ExitCode {
    elastick::cli::main(std::env::args_os())
}
