//! `elastick log`: tools for the logs of elastick and kdb+ tickerplants.

mod cat;
mod change;
mod directory;
mod proof;
mod prune;
mod report;

use super::args::{command_with, settings_of};
use super::error::CliError;
use super::logging;
use crate::config::{Limits, LogPosition, Program, Settings, options};
use crate::env::Env;
use crate::log::LogReader;
use crate::log::moment;
use clap::{Arg, ArgMatches, Command};
use std::path::{Path, PathBuf};

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
        about: "Summarise a log: updates, rows and bytes of each table, first and last, side file, torn tail; of a directory, list its \
                days, their sizes, whether each is whole, and with --keep-days until when it is kept",
        options: &["keep-days", "json"],
        run: report::info,
    },
    Action {
        name: "verify",
        about: "Read a whole log, or every log of a directory, check its blocks against their checksums and report each damaged range; exits 1 \
                if there is one",
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
        about: "Write a range of updates, of some tables or all, to a new log; exits 1 if it reaches an unfinished record at the end of the log",
        options: &["from", "to", "tables", "out", "allow-torn"],
        run: change::slice,
    },
    Action {
        name: "join",
        about: "Write the updates of several logs, one log after the other, to a new log: the way back from a day that \
                was ended too early (src/tick/README.md). Exits 1 if a log ends in an unfinished record, which is left out. A log \
                and a copy of it are rejected",
        options: &["out", "allow-torn"],
        run: change::join,
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
    Action {
        name: PRUNE,
        about: "Delete the days of a directory that are more than --keep-days old, each with the files beside its log. The newest days, and \
                days that are not known to be whole, are kept; `elastick tick --keep-days` does it whenever a day begins",
        options: &["keep-days", "dry-run", "force"],
        run: prune::prune,
    },
];

/// The action that takes directories only.
const PRUNE: &str = "prune";
/// The actions that take directories as well.
const OF_DIRECTORIES: [&str; 2] = ["info", "verify"];

/// Options of all actions.
const COMMON: &[&str] = &["config", "limit-message", "limit-depth", "limit-log-read-chunk"];

const EXAMPLES: &str = "Examples:
  elastick log info sym2026.11.21
  elastick log verify --json sym2026.11.*[0-9]
  elastick log verify /data/tplog
  elastick log cat --from 1000 --to 1010 --tables trade sym2026.11.21
  elastick log cat --from 02:00 --to 02:05 sym2026.11.21
  elastick log proof --from 0 --to 5000 sym2026.11.21
  elastick log slice --from 0 --to 5000 --out morning sym2026.11.21
  elastick log join --out joined sym2026.11.21 sym2026.11.22
  elastick log repair --in-place sym2026.11.21
  elastick log info --keep-days 7 /data/tplog
  elastick log prune --keep-days 7 --dry-run /data/tplog";

pub fn command() -> Command {
    let actions = ACTIONS.iter().map(|action| {
        let takes = |name: &str| COMMON.contains(&name) || action.options.contains(&name);
        let (name, help) = match action.name {
            PRUNE => ("DIR", "Directory of logs"),
            name if OF_DIRECTORIES.contains(&name) => ("LOG|DIR", "Log to work on, or directory of logs"),
            _ => ("LOG", "Log to work on"),
        };
        let files = Arg::new("files")
            .value_name(name)
            .help(help)
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

/// `1 day`, `2 days`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

impl Job {
    fn json(&self) -> Result<bool, CliError> {
        Ok(self.settings.is_on(&options::JSON)?)
    }

    fn reader(&self, path: &Path) -> Result<LogReader, CliError> {
        if path.is_dir() {
            let path = path.display();
            return Err(CliError::Usage(format!(
                "{path} is a directory: name a day's log in it (elastick log info {path} lists them)"
            )));
        }
        LogReader::open(&Env::system(), path, self.limits, self.chunk_bytes).map_err(CliError::failed)
    }

    /// Returns the range of updates of a log that is requested, by indices or times. The reader's position changes.
    fn window(&self, reader: &mut LogReader) -> Result<std::ops::Range<u64>, CliError> {
        let (from, to) = (self.settings.get(&options::FROM)?, self.settings.find(&options::TO)?);
        if let (LogPosition::Index(from), Some(LogPosition::Index(to))) = (from, to)
            && from > to
        {
            return Err(CliError::Usage(format!("--from {from} is after --to {to}")));
        }
        moment::window_of(reader, from, to, self.chunk_bytes).map_err(CliError::failed)
    }

    /// Returns the tables requested; empty means all.
    fn tables(&self) -> Result<Vec<Vec<u8>>, CliError> {
        Ok(self.settings.get(&options::TABLES)?.into_iter().map(String::into_bytes).collect())
    }

    /// Warns of damaged blocks that an action reads without a check.
    fn warn_of_damage(&self, path: &Path, window: std::ops::Range<u64>) -> Result<(), CliError> {
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
