//! `elastick-sim model`: checks every order of events up to a bound.

use super::{VIOLATIONS, count, counted, print_found, progress};
use clap::{Arg, ArgMatches, Command, value_parser};
use elastick::cli::CliError;
use elastick_sim::model::{Bounds, Failure, check};
use std::io::Write;
use std::time::Duration;

pub fn command() -> Command {
    Command::new("model")
        .about("Model checker: runs the production code through every order of events up to a bound")
        .arg(count("nodes", "2", "Number of nodes of the first queue"))
        .arg(count("others", "0", "Number of nodes of a second queue; at most three in all"))
        .arg(count("updates", "2", "Number of published updates"))
        .arg(count("crashes", "1", "Number of processes killed, nodes or the tickerplant"))
        .arg(count("cuts", "0", "Number of connections that break while both ends are alive"))
        .arg(count("rolls", "1", "Number of times a node is full"))
        .arg(count("day-ends", "0", "Number of ends of day"))
        .arg(count("fills", "0", "Number of times other processes fill a node's memory"))
        .arg(count("twins", "0", "Number of processes that start with the first node's name"))
        .arg(count("too-long", "0", "Number of published updates that are too long for the first node"))
        .arg(count("idles", "0", "Number of times a cluster is idle for long enough to sleep"))
        .arg(count("wakes", "0", "Number of calls of .u.asg.wake[]; with any, no update wakes a queue"))
        .arg(count("written", "0", "Number of calls of .u.asg.written"))
        .arg(count(
            "reports",
            "0",
            "Number of status reports of nodes, of which the end of a live node after a day depends",
        ))
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("Stop after this time and report the states found by then"),
        )
        .after_help(VIOLATIONS)
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let count = |name| counted(matches, name);
    let bounds = Bounds {
        nodes: [count("nodes"), count("others")],
        updates: count("updates"),
        crashes: count("crashes"),
        cuts: count("cuts"),
        rolls: count("rolls"),
        day_ends: count("day-ends"),
        fills: count("fills"),
        twins: count("twins"),
        too_long: count("too-long"),
        idles: count("idles"),
        wakes: count("wakes"),
        written: count("written"),
        reports: count("reports"),
    };
    let time = matches.get_one::<u64>("seconds").copied().map(Duration::from_secs);
    elastick::metrics::bugs::make_fatal();
    let progress = progress();
    match check(bounds, time, |states, seen| progress(format_args!("{states} states, {seen} of them expanded"))) {
        Ok(outcome) => Ok(write!(std::io::stdout(), "{outcome}")?),
        Err(Failure::Bounds(what)) => Err(CliError::Usage(what)),
        Err(Failure::Found(found)) => print_found(&found),
    }
}
