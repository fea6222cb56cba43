//! Command line of the simulator and the model checker.

mod days;
mod model;

use clap::{ArgMatches, Command};
use elastick::cli::{CliError, USAGE};
use std::ffi::OsString;
use std::process::ExitCode;

fn command() -> Command {
    Command::new("elastick-sim")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs the production code of elastick in a simulated environment, and checks what it does")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([days::command(), model::command()])
}

fn run(matches: &ArgMatches) -> Result<(), CliError> {
    match matches.subcommand() {
        Some(("days", own)) => days::run(own),
        Some(("model", own)) => model::run(own),
        _ => Err(CliError::Usage("days or model is expected".to_string())),
    }
}

/// Parses the command line, runs the subcommand, and prints its error to standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    elastick::sys::stack::fit_first_thread();
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            let usage = error.use_stderr();
            // If the output is closed, there is no other place for the message.
            let _ = error.print();
            return if usage { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_closed_pipe() {
                eprintln!("elastick-sim: {error}");
            }
            error.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
