//! `elastick demo`: the paper's day on this machine, with real processes, proved at its end.

mod arguments;
mod cluster;
mod day;
mod history;
mod processes;
mod proof;
mod queue_table;
mod report;
mod sleep;
mod standby;
mod users;

use super::{CliError, command_for, logging, settings_of};
use crate::config::units::Scale;
use crate::config::{Durability, Listen, Program, Settings, options};
use clap::{ArgMatches, Command};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options of the demo.
struct DemoOptions {
    minutes: f64,
    rate: f64,
    rows: u64,
    universe: u64,
    skew: f64,
    quotes: u64,
    seed: u64,
    node_memory_bytes: u64,
    scale: Scale,
    roll_percent: f64,
    max_nodes: u64,
    lead_time: Duration,
    durability: Durability,
    listen: Listen,
    dir: Option<PathBuf>,
    svg: Option<PathBuf>,
    json: bool,
    /// Kill the active tickerplant in the day.
    kill_tick: bool,
    /// Let the cluster go to zero after the feed has ended, and wake it.
    sleep: bool,
}

pub fn command() -> Command {
    command_for(Program::Demo)
        .about("Run a whole day on this machine: tickerplant, elastic RDB, feed, end of day; then check that every update was held exactly once")
        .after_help(
            "While it runs, any kdb+ client on this machine can publish, subscribe and query at the tickerplant's port \
             as guest:guest, and query at the ports of the nodes in .u.asg.tab. Exits 0 if every update was held exactly once and the group \
             is back at its minimum.",
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Demo, matches)?;
    logging::start(&settings)?;
    let options = resolve(&settings)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second signal ends the demo at once; the kernel then kills its processes.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop)).map_err(CliError::failed)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(CliError::failed)?;
    }
    day::run(&options, &stop)
}

fn resolve(settings: &Settings) -> Result<DemoOptions, CliError> {
    let options = DemoOptions {
        minutes: settings.get(&options::DEMO_MINUTES)?,
        rate: settings.get(&options::DEMO_RATE)?,
        rows: settings.get(&options::ROWS)?,
        universe: settings.get(&options::UNIVERSE)?,
        skew: settings.get(&options::SKEW)?,
        quotes: settings.get(&options::QUOTES)?,
        seed: settings.get(&options::SEED)?,
        node_memory_bytes: settings.get(&options::NODE_MEMORY)?,
        scale: settings.get(&options::DEMO_SCALE)?,
        roll_percent: settings.get(&options::DEMO_ROLL)?,
        max_nodes: settings.get(&options::DEMO_MAX_NODES)?.max(1),
        lead_time: settings.get(&options::LEAD_TIME)?,
        durability: settings.get(&options::DEMO_DURABILITY)?,
        listen: settings.get(&options::DEMO_PORT)?,
        dir: settings.find(&options::DEMO_DIR)?,
        svg: settings.find(&options::SVG)?,
        json: settings.is_on(&options::JSON)?,
        kill_tick: settings.is_on(&options::KILL_TICK)?,
        sleep: settings.is_on(&options::DEMO_SLEEP)?,
    };
    if options.sleep && options.kill_tick {
        return Err(CliError::Usage("--sleep and --kill-tick are for two runs: give one of them".to_string()));
    }
    match options.scale {
        Scale::At(percent) if percent > options.roll_percent => Err(CliError::Usage(format!(
            "the scale threshold of {percent} % is above the roll threshold of {} %",
            options.roll_percent
        ))),
        _ => Ok(options),
    }
}
