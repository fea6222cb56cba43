//! `elastick-sim days`: simulated days.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use elastick::cli::{CliError, logging};
use elastick::config::logging::LogFormat;
use elastick_sim::mutants::Defect;
use elastick_sim::{Cluster, Faults, Options, Progress, run as run_seeds};
use std::io::{IsTerminal, Write};
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Days of a run with all faults after which every state transition must have occurred.
const DAYS_THAT_MEET_ALL: u64 = 500;

pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64)).default_value(default).help(help)
    };
    // A run of 0 days would look like a successful one.
    let count = |name, help| number(name, "1", help).value_parser(value_parser!(u64).range(1..));
    let of_name = |name: &str| {
        let found = Defect::ALL.into_iter().find(|defect| format!("{defect:?}") == name);
        found.ok_or_else(|| format!("unknown mutant; there are {:?}", Defect::ALL))
    };
    Command::new("days")
        .about("Simulate days: the production code on virtual time, with faults and an auditor")
        .arg(number("seed", "1", "First seed; the same seed always gives the same run"))
        .arg(count("seeds", "Number of consecutive seeds"))
        .arg(count("days", "Days per seed"))
        .arg(count("threads", "Seeds run in parallel"))
        .arg(
            count("tickerplants", "Tickerplants that share the log directory and, if there are several, a lease")
                .value_parser(value_parser!(u64).range(1..=3)),
        )
        .arg(
            Arg::new("sleep")
                .long("sleep")
                .action(ArgAction::SetTrue)
                .help("The cluster sleeps at night and when it is idle, and another process writes the day down"),
        )
        .arg(
            Arg::new("faults")
                .long("faults")
                .value_parser(["none", "fleet", "some", "hell"])
                .default_value("some")
                .help("Level of faults"),
        )
        .arg(Arg::new("trace").long("trace").action(ArgAction::SetTrue).help("Print every event on standard error"))
        .arg(
            Arg::new("defect")
                .long("defect")
                .value_name("NAME")
                .value_parser(of_name)
                .help("Plant a defect, by its name, which a rule then finds"),
        )
        .after_help(
            "A failure prints its seed and the command that reproduces it. Every tenth seed is run twice and compared.",
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
    let faults = matches.get_one::<String>("faults").and_then(|name| Faults::from_name(name)).unwrap_or(Faults::Some);
    let options = Options {
        seed: number("seed"),
        seeds: number("seeds"),
        days: number("days"),
        faults,
        cluster: Cluster {
            tickerplants: usize::try_from(number("tickerplants")).unwrap_or(1),
            sleeps: matches.get_flag("sleep"),
        },
        trace: matches.get_flag("trace"),
        threads: usize::try_from(number("threads")).unwrap_or(1),
        defect: matches.get_one("defect").copied(),
    };
    elastick::metrics::bugs::make_fatal();
    // Log lines of the code under test are printed only with its trace.
    if options.trace {
        logging::start_with(Targets::new().with_default(LevelFilter::INFO), LogFormat::Text);
    }
    let is_terminal = std::io::stderr().is_terminal();
    let began = std::time::Instant::now();
    let (report, failures) = run_seeds(&options, |progress: Progress<'_>| {
        let (done, of, days) = (progress.done, progress.of, progress.report.days);
        if let Some(failure) = progress.failure {
            eprintln!("{failure}");
        }
        if is_terminal || done % 100 == 0 {
            let end = if is_terminal { '\r' } else { '\n' };
            let rate = days as f64 / began.elapsed().as_secs_f64();
            eprint!("{done} of {of} seeds, {days} days, {rate:.1} a second{end}");
        }
    });
    let mut out = std::io::stdout();
    write!(out, "{report}")?;
    out.flush()?;
    for failure in &failures {
        writeln!(out, "{failure}")?;
    }
    let long = faults == Faults::Hell && report.days >= DAYS_THAT_MEET_ALL;
    let never = if long { report.never_met() } else { Vec::new() };
    match (failures.is_empty(), never.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(CliError::Failed(format!("{} runs failed", failures.len()))),
        (true, false) => Err(CliError::Failed(format!("transitions not covered: {}", never.join(", ")))),
    }
}
