use std::process::ExitCode;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::new().filter_or("ELASTICK_LOG", "info")).init();
    elastick::cli::main(std::env::args_os())
}
