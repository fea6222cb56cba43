//! `elastick-sim model`: checks every order of events up to a bound.

use clap::{Arg, ArgMatches, Command, value_parser};
use elastick::cli::CliError;
use elastick_sim::model::{Bounds, Failure, check};
use std::io::{IsTerminal, Write};
use std::time::Duration;

pub fn command() -> Command {
    let count = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u8)).default_value(default).help(help)
    };
    Command::new("model")
        .about("Every order of events up to a bound: the production code, told everything that can happen")
        .arg(count("nodes", "2", "Nodes of the first queue"))
        .arg(count("others", "0", "Nodes of a second queue; three in all at most"))
        .arg(count("updates", "2", "Updates that are published"))
        .arg(count("crashes", "1", "Processes that are killed, nodes or the tickerplant"))
        .arg(count("cuts", "0", "Connections that break with both ends alive"))
        .arg(count("rolls", "1", "Nodes that are full"))
        .arg(count("day-ends", "0", "Ends of a day"))
        .arg(count("fills", "0", "Nodes whose memory others fill"))
        .arg(count("twins", "0", "Processes that come under the first node's name"))
        .arg(count("too-long", "0", "Updates, of those published, that are too long for the first node"))
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .help("Ends after so long, with what was met by then"),
        )
        .after_help("What is found wrong is shown by a shortest way to it.")
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let count = |name: &str| matches.get_one::<u8>(name).copied().unwrap_or(0);
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
    };
    let time = matches.get_one::<u64>("seconds").copied().map(Duration::from_secs);
    elastick::metrics::bugs::make_fatal();
    let is_terminal = std::io::stderr().is_terminal();
    let outcome = check(bounds, time, |states, seen| {
        if is_terminal {
            eprint!("{states} states, {seen} of them seen through\r");
        }
    });
    let mut out = std::io::stdout();
    match outcome {
        Ok(outcome) => {
            write!(out, "{outcome}")?;
            Ok(())
        }
        Err(Failure::Bounds(what)) => Err(CliError::Usage(what)),
        Err(Failure::Found(found)) => {
            writeln!(out, "{found}")?;
            Err(CliError::Failed("a rule is broken".to_string()))
        }
    }
}
