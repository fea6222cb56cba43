//! `elastick fleet`: a scaling group of processes on this machine.

pub mod choose;
pub mod publish;
mod status;

use super::args::command_with;
use super::{CliError, logging, settings_of};
use crate::config::{Limits, Program, options};
use crate::fleet::group::Rules;
use crate::fleet::supervisor::{self, SupervisorOptions};
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

const COMMAND: &str = "command";

pub fn command() -> Command {
    command_with(Program::Fleet, Program::Fleet.name(), &|name| name != options::FLEET.spec.name)
        .about(
            "Run a group of processes on this machine: start, replace and terminate them as an Auto Scaling group does",
        )
        .after_help(
            "Example: elastick fleet --min 1 --max 10 -- elastick rdb :5010 -p 0\n\nA process finds its fleet \
             through ELASTICK_FLEET, ELASTICK_INSTANCE and ELASTICK_GROUP. Any kdb+ client can query the printed \
             port: (`.fleet.describe;`rdb), (`.fleet.desired;`rdb;3).\n\nelastick fleet status shows a group, here \
             or on AWS.",
        )
        .subcommand(status::command())
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .arg(
            Arg::new(COMMAND)
                .last(true)
                .required(true)
                .num_args(1..)
                .value_parser(clap::value_parser!(OsString))
                .value_name("COMMAND")
                .help("Program of each instance, and its arguments"),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    if let Some((status::NAME, own)) = matches.subcommand() {
        return status::run(own);
    }
    let settings = settings_of(Program::Fleet, matches)?;
    logging::start(&settings)?;
    let count = |option| -> Result<u32, CliError> {
        let count: u64 = settings.get(option)?;
        u32::try_from(count).map_err(|_| CliError::Usage(format!("{count} instances are too many")))
    };
    let (min, max) = (count(&options::MIN_NODES)?, count(&options::MAX_NODES)?);
    if min > max {
        return Err(CliError::Usage(format!("the minimum of {min} is above the maximum of {max}")));
    }
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let group = settings.get(&options::GROUP)?;
    let ready = supervisor::prepare(SupervisorOptions {
        group: group.clone(),
        rules: Rules {
            min,
            max,
            launch_delay_ns: nanoseconds(settings.get(&options::LAUNCH_DELAY)?),
            grace_ns: nanoseconds(settings.get(&options::GRACE)?),
            notice_ns: nanoseconds(settings.get(&options::NOTICE)?),
        },
        listen: settings.get(&options::FLEET_PORT)?,
        command: matches.get_many::<OsString>(COMMAND).into_iter().flatten().cloned().collect(),
        logs: settings.find(&options::OUTPUT)?,
        limits: Limits::resolve(&settings)?,
    })
    .map_err(CliError::failed)?;
    let mut out = std::io::stdout();
    writeln!(out, "group {group}: {min} to {max} instances, answers at port {}", ready.port())?;
    out.flush()?;
    ready.run().map_err(CliError::failed)
}
