//! Subcommands. Each has `command()`, built from the option table, and `run()`; a new one needs one line here.

pub mod args;
mod audit;
mod config;
pub mod demo;
pub mod error;
mod failover;
pub mod feed;
pub mod fleet;
mod gc;
mod json;
mod lease;
mod lease_store;
mod log;
pub mod logging;
mod owner_store;
mod passwd;
mod plan;
#[cfg(feature = "points")]
mod points;
pub mod progress;
mod q;
pub mod rdb;
mod startup;
mod suggest;
mod tick;
mod tls;

pub use args::{command_for, settings_of};
pub use error::{CliError, USAGE};

use crate::config::Program;
use crate::config::units::system_zone;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Command};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// A subcommand.
struct Subcommand {
    program: Program,
    command: fn() -> Command,
    run: fn(&ArgMatches) -> Result<(), CliError>,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { program: Program::Audit, command: audit::command, run: audit::run },
    Subcommand { program: Program::Config, command: config::command, run: config::run },
    Subcommand { program: Program::Demo, command: demo::command, run: demo::run },
    Subcommand { program: Program::Failover, command: failover::command, run: failover::run },
    Subcommand { program: Program::Feed, command: feed::command, run: feed::run },
    Subcommand { program: Program::Fleet, command: fleet::command, run: fleet::run },
    Subcommand { program: Program::Gc, command: gc::command, run: gc::run },
    Subcommand { program: Program::Lease, command: lease::command, run: lease::run },
    Subcommand { program: Program::Log, command: log::command, run: log::run },
    Subcommand { program: Program::Passwd, command: passwd::command, run: passwd::run },
    Subcommand { program: Program::Plan, command: plan::command, run: plan::run },
    Subcommand { program: Program::Q, command: q::command, run: q::run },
    Subcommand { program: Program::Rdb, command: rdb::command, run: rdb::run },
    Subcommand { program: Program::Tick, command: tick::command, run: tick::run },
];

/// Subcommands of earlier versions that other programs have now.
const MOVED: &[(&str, &str)] = &[("model", "elastick-sim model"), ("sim", "elastick-sim days")];

fn command() -> Command {
    let command = Command::new("elastick")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A kdb+-compatible tickerplant whose real-time database is an elastic queue of small servers")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help("Every option can also be set by an ELASTICK_* variable or in a TOML file (--config): elastick config.\nTIME is written like 5ms, 2s, \
             10m, 1h or 1d, SIZE like 64KiB, 512MB or 2GiB, PERCENT like 85%.")
        .subcommands(SUBCOMMANDS.iter().map(|subcommand| (subcommand.command)().name(subcommand.program.name())));
    #[cfg(feature = "points")]
    let command = command.subcommand(points::command());
    command
}

/// The words of a command line, where a program that is called `q` by a link is `elastick q`: start scripts of kdb+ name their interpreter by one
/// word, which they look up on `PATH`.
fn as_named(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.first().is_some_and(|program| Path::new(program).file_stem() == Some(OsStr::new("q"))) {
        words.splice(..1, ["elastick".into(), "q".into()]);
    }
    words
}

/// Parses the command line, runs the subcommand, and prints its error to standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    crate::sys::stack::fit_first_thread();
    crate::net::signals::take_size_limit_as_error();
    let words = as_named(arguments.into_iter().collect());
    let command = command();
    let matches = match command.clone().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(mut error) => {
            suggest::improve(&mut error, &command, &words);
            if let Some((before, now)) = moved(&error) {
                eprintln!(
                    "elastick {before}: moved to a program of its own, `{now}`: sim/README.md in the source of elastick"
                );
                return ExitCode::from(USAGE);
            }
            let usage = error.use_stderr();
            // If the output is closed, there is no other place for the message.
            let _ = error.print();
            return if usage { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let Some((name, own)) = matches.subcommand() else { return ExitCode::from(USAGE) };
    #[cfg(feature = "points")]
    if name == points::NAME {
        return points::run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let Some(subcommand) = SUBCOMMANDS.iter().find(|subcommand| subcommand.program.name() == name) else {
        return ExitCode::from(USAGE);
    };
    let result = local_time(subcommand.program).and_then(|()| (subcommand.run)(own));
    crate::net::outgoing::drain();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_closed_pipe() {
                eprintln!("elastick {name}: {error}");
            }
            error.exit_code()
        }
    }
}

/// The subcommand in an error of the command line, and its present name, if it has moved.
fn moved(error: &clap::Error) -> Option<(&'static str, &'static str)> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    MOVED.iter().copied().find(|(before, _)| before == name)
}

/// Checks the local time zone before a program that uses it starts.
fn local_time(program: Program) -> Result<(), CliError> {
    match program {
        Program::Demo | Program::Feed | Program::Q | Program::Rdb | Program::Tick => {
            system_zone().map(drop).map_err(CliError::Usage)
        }
        Program::Audit
        | Program::Config
        | Program::Failover
        | Program::Fleet
        | Program::Gc
        | Program::Plan
        | Program::Lease
        | Program::Log
        | Program::Passwd => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
