//! `elastick log`: tools for the logs of elastick and kdb+ tickerplants.

mod cat;
mod change;
mod proof;
mod report;

use super::args::{command_with, settings_of};
use super::error::CliError;
use super::logging;
use crate::config::{Limits, Program, Settings, options};
use clap::{Arg, ArgMatches, Command};
use std::path::PathBuf;

/// An action on logs.
struct Action {
    name: &'static str,
    about: &'static str,
    /// Options besides [`COMMON`].
    options: &'static [&'static str],
    run: fn(&Job) -> Result<(), CliError>,
}

const ACTIONS: &[Action] = &[
    Action {
        name: "info",
        about: "Summarise a log: updates, rows and bytes of each table, first and last, side file, torn tail",
        options: &["json"],
        run: report::info,
    },
    Action {
        name: "verify",
        about: "Read a whole log, check its blocks against their checksums and report each damaged range; exits 1 if there is one",
        options: &["json"],
        run: report::verify,
    },
    Action {
        name: "cat",
        about: "Print updates as q shows them, one per line",
        options: &["from", "to", "tables", "items", "json"],
        run: cat::cat,
    },
    Action {
        name: "proof",
        about: "Print updates, rows and hash of each table in a range of updates, to compare with a node's .rdb.windows",
        options: &["from", "to", "tables", "json"],
        run: proof::proof,
    },
    Action {
        name: "slice",
        about: "Write a range of updates, of some tables or all, to a new log",
        options: &["from", "to", "tables", "out"],
        run: change::slice,
    },
    Action {
        name: "repair",
        about: "Cut off a torn tail; of a log damaged in the middle, write the readable part to another file. \
                Blocks whose checksums differ are kept and marked, or dropped",
        options: &["out", "in-place", "changed-blocks", "json"],
        run: change::repair,
    },
    Action {
        name: "index",
        about: "Rebuild the side file of a log; blocks that do not match the old one stay marked as damaged",
        options: &["json"],
        run: change::index,
    },
];

/// Options of all actions.
const COMMON: &[&str] = &["config", "limit-message", "limit-depth", "limit-log-read-chunk"];

const EXAMPLES: &str = "Examples:
  elastick log info sym2026.11.21
  elastick log verify --json sym2026.11.*[0-9]
  elastick log cat --from 1000 --to 1010 --tables trade sym2026.11.21
  elastick log proof --from 0 --to 5000 sym2026.11.21
  elastick log slice --from 0 --to 5000 --out morning sym2026.11.21
  elastick log repair --in-place sym2026.11.21";

pub fn command() -> Command {
    let actions = ACTIONS.iter().map(|action| {
        let takes = |name: &str| COMMON.contains(&name) || action.options.contains(&name);
        let files = Arg::new("files")
            .value_name("LOG")
            .help("Log to work on")
            .required(true)
            .num_args(1..)
            .value_parser(clap::value_parser!(PathBuf));
        command_with(Program::Log, action.name, &takes).about(action.about).arg(files)
    });
    Command::new(Program::Log.name())
        .about("Tools for tickerplant logs of elastick and kdb+")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(actions)
        .after_help(EXAMPLES)
}

/// Logs and settings of an action.
struct Job {
    files: Vec<PathBuf>,
    settings: Settings,
    limits: proto::Limits,
    chunk_bytes: usize,
}

impl Job {
    fn json(&self) -> Result<bool, CliError> {
        Ok(self.settings.is_on(&options::JSON)?)
    }

    /// Returns the range of updates requested.
    fn window(&self) -> Result<std::ops::Range<u64>, CliError> {
        let (from, to) = (self.settings.get(&options::FROM)?, self.settings.find(&options::TO)?);
        let to = to.unwrap_or(u64::MAX);
        if from > to {
            return Err(CliError::Usage(format!("--from {from} is after --to {to}")));
        }
        Ok(from..to)
    }

    /// Returns the tables requested; empty means all.
    fn tables(&self) -> Result<Vec<Vec<u8>>, CliError> {
        Ok(self.settings.get(&options::TABLES)?.into_iter().map(String::into_bytes).collect())
    }

    /// Warns of damaged blocks that an action reads without a check.
    fn warn_of_damage(&self, path: &std::path::Path, window: std::ops::Range<u64>) -> Result<(), CliError> {
        for damage in crate::log::damaged_in(path, window).map_err(CliError::failed)? {
            eprintln!("{}: DAMAGED: {damage}", path.display());
        }
        Ok(())
    }

    /// Returns the log of an action that takes exactly one.
    fn one_file(&self) -> Result<&PathBuf, CliError> {
        match self.files.as_slice() {
            [file] => Ok(file),
            _ => Err(CliError::Usage("give one log".to_string())),
        }
    }
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let unknown = || CliError::Usage("which action?".to_string());
    let (name, own) = matches.subcommand().ok_or_else(unknown)?;
    let action = ACTIONS.iter().find(|action| action.name == name).ok_or_else(unknown)?;
    let settings = settings_of(Program::Log, own)?;
    logging::start(&settings)?;
    let limits = Limits::resolve(&settings)?;
    let job = Job {
        files: own.get_many::<PathBuf>("files").into_iter().flatten().cloned().collect(),
        limits: limits.codec(),
        chunk_bytes: usize::try_from(limits.log_read_chunk_bytes).unwrap_or(usize::MAX),
        settings,
    };
    (action.run)(&job)
}
