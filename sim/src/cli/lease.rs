//! `elastick-sim lease`: checks every order of events of processes that share a lease, up to a bound.

use super::{VIOLATIONS, count, counted, print_found, progress};
use clap::{ArgMatches, Command};
use elastick::cli::CliError;
use elastick_sim::lease::{Bounds, check};
use std::io::Write;

pub fn command() -> Command {
    Command::new("lease")
        .about("Model checker of the lease: runs the production code of two or three processes and one store through every order of events")
        .arg(count("processes", "2", "Number of processes"))
        .arg(count("time", "14", "Units of time; a lease has 3"))
        .arg(count("lost", "1", "Number of calls that fail or whose answer is lost"))
        .arg(count("late", "0", "Number of writes that fail and are applied later"))
        .arg(count("pauses", "1", "Number of processes that stop and go on later"))
        .arg(count("kills", "0", "Number of processes that are killed"))
        .arg(count("requests", "0", "Number of requests to step down"))
        .arg(count("drift", "0", "Number of times that a clock falls behind"))
        .after_help(VIOLATIONS)
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let count = |name| counted(matches, name);
    let bounds = Bounds {
        processes: count("processes"),
        time: count("time"),
        lost: count("lost"),
        late: count("late"),
        pauses: count("pauses"),
        kills: count("kills"),
        requests: count("requests"),
        drift: count("drift"),
    };
    let progress = progress();
    match check(bounds, None, |states| progress(format_args!("{states} states"))) {
        Ok(outcome) => Ok(write!(std::io::stdout(), "{outcome}")?),
        Err(found) => print_found(&found),
    }
}
