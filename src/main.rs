use std::process::ExitCode;

fn main() -> ExitCode {
    elastick::cli::main(std::env::args_os())
}
