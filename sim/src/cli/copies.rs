//! `elastick-sim copies`: random orders of events of tickerplants with a copy of the log each, and one lease.

use super::{print_found, progress};
use clap::{Arg, ArgMatches, Command, value_parser};
use elastick::cli::CliError;
use elastick_sim::copies::run as run_seeds;
use std::io::Write;

pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").default_value(default).value_parser(value_parser!(u64)).help(help)
    };
    Command::new("copies")
        .about("Three tickerplants with a copy of the log each, and one lease that names the complete ones: random orders of events")
        .arg(number("seed", "1", "First seed"))
        .arg(number("seeds", "10000", "Number of seeds; each has 1500 events, and as many as it takes to recover"))
        .after_help("A run that breaks a rule is printed with its seed and its last events.")
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let number = |name| matches.get_one::<u64>(name).copied().unwrap_or(1);
    let progress = progress();
    match run_seeds(number("seed"), number("seeds"), None, |runs| progress(format_args!("{runs} seeds"))) {
        Ok(tally) => Ok(write!(std::io::stdout(), "{tally}")?),
        Err(broken) => print_found(&broken),
    }
}
