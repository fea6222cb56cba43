//! Command line of the simulator and the model checker.

mod copies;
mod days;
mod lease;
mod model;

use clap::{Arg, ArgMatches, Command, value_parser};
use elastick::cli::{CliError, USAGE};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// End of the help text of both model checkers.
const VIOLATIONS: &str = "For each violation, a shortest sequence of events that leads to it is printed.";

fn command() -> Command {
    Command::new("elastick-sim")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs the production code of elastick in a simulated environment, and checks what it does")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([days::command(), model::command(), lease::command(), copies::command()])
}

fn run(matches: &ArgMatches) -> Result<(), CliError> {
    match matches.subcommand() {
        Some(("days", own)) => days::run(own),
        Some(("model", own)) => model::run(own),
        Some(("lease", own)) => lease::run(own),
        Some(("copies", own)) => copies::run(own),
        _ => Err(CliError::Usage("days, model, lease or copies is expected".to_string())),
    }
}

/// An option of a model checker: how often something may happen.
fn count(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u8)).default_value(default).help(help)
}

/// Value of an option made by [`count`].
fn counted(matches: &ArgMatches, name: &str) -> u8 {
    matches.get_one::<u8>(name).copied().unwrap_or(0)
}

/// Shows the progress of a search on a terminal.
fn progress() -> impl Fn(std::fmt::Arguments<'_>) {
    let is_terminal = std::io::stderr().is_terminal();
    move |text| {
        if is_terminal {
            eprint!("{text}\r");
        }
    }
}

/// Prints what a model checker has found.
fn print_found(found: &impl Display) -> Result<(), CliError> {
    writeln!(std::io::stdout(), "{found}")?;
    Err(CliError::Failed("an invariant is violated".to_string()))
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
