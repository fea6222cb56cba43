//! q files on the command line of a server.

use super::CliError;
use crate::access::member::ClusterSecret;
use crate::access::{self, Access};
use crate::audit::{Audit, AuditOptions};
use crate::config::{Limits, Settings, options};
use crate::q::startup::StartupError;
use clap::{Arg, ArgMatches};
use std::io::Write;
use std::path::PathBuf;

/// Help text of start-up files, with an example.
pub const HELP: &str = "Start-up files are q, evaluated with the owner's rights before clients are served; an \
                        error in one stops the start. They define functions and variables for clients, and may set \
                        the timer (\\t 1000) and handlers, which clients cannot set: .z.pg .z.ps .z.bm .z.pw .z.ac \
                        .z.po .z.pc .z.ph .z.pp .z.pm .z.ws .z.wo .z.wc .z.ts .z.exit, and .u.end for the end of \
                        the day. Messages of clients run with the clients' rights (--remote-may, --allow, -b), \
                        also inside a handler or function of the file.";

/// Returns the `\` commands for options of the language: evaluated before the files, which may override them.
///
/// # Errors
/// Those of an invalid setting.
pub fn commands(settings: &Settings) -> Result<Vec<String>, CliError> {
    let all = [
        ('z', &options::DATE_ORDER),
        ('W', &options::WEEK_START),
        ('P', &options::PRECISION),
        ('c', &options::CONSOLE_SIZE),
        ('C', &options::HTTP_SIZE),
    ];
    let mut commands = Vec::new();
    if let Some(every) = settings.find(&options::HANDLER_TIMER)? {
        commands.push(format!("\\t {}", every.as_millis()));
    }
    for (letter, option) in all {
        if let Some(value) = settings.find(option)? {
            commands.push(format!("\\{letter} {value}"));
        }
    }
    Ok(commands)
}

/// The files as positional arguments from `index` on.
pub fn argument(index: usize) -> Arg {
    Arg::new("files")
        .index(index)
        .num_args(0..)
        .value_name("FILE.q")
        .help("q files to evaluate at start-up, in this order")
}

/// Returns the files given.
pub fn files(matches: &ArgMatches) -> impl Iterator<Item = PathBuf> {
    matches.get_many::<String>("files").into_iter().flatten().map(PathBuf::from)
}

/// Returns how logins are checked: by the users file of `-u` or `-U`, or not at all. `has_handler` says that `.z.pw` checks them.
///
/// # Errors
/// The users file cannot be read or parsed.
pub fn access(settings: &Settings, has_handler: bool) -> Result<Box<dyn Access>, CliError> {
    let operators = settings.get(&options::OPERATORS)?.into_iter().map(String::into_bytes).collect();
    access::open(users_file(settings)?.as_deref(), operators, has_handler).map_err(CliError::failed)
}

/// Returns the users file, if there is one.
///
/// # Errors
/// Those of an invalid setting.
pub fn users_file(settings: &Settings) -> Result<Option<PathBuf>, CliError> {
    let of_access = settings.find(&options::ACCESS)?.filter(|text| text != "1").map(PathBuf::from);
    Ok(settings.find(&options::USERS)?.or(of_access))
}

/// Opens the audit log, if there is to be one.
///
/// # Errors
/// The file cannot be opened.
pub fn audit(settings: &Settings, process: String, limits: &Limits) -> Result<Audit, CliError> {
    match audit_options(settings)? {
        Some(options) => Audit::start(&options, process, limits).map_err(CliError::failed),
        None => Ok(Audit::default()),
    }
}

/// Returns the options of the audit log.
///
/// # Errors
/// An option that needs `--audit`.
pub fn audit_options(settings: &Settings) -> Result<Option<AuditOptions>, CliError> {
    let is_required = settings.is_on(&options::AUDIT_REQUIRED)?;
    let Some(path) = settings.find(&options::AUDIT)? else {
        return match is_required {
            true => Err(CliError::Usage("--audit-required needs --audit FILE".to_string())),
            false => Ok(None),
        };
    };
    Ok(Some(AuditOptions {
        path,
        queries: settings.get(&options::AUDIT_QUERIES)?,
        max_bytes: settings.get(&options::AUDIT_MAX_SIZE)?,
        keep: usize::try_from(settings.get(&options::AUDIT_KEEP)?).unwrap_or(usize::MAX),
        is_required,
    }))
}

/// Reads the cluster's secret, if there is one.
///
/// # Errors
/// The file cannot be used.
pub fn secret(settings: &Settings) -> Result<Option<ClusterSecret>, CliError> {
    let path = settings.find(&options::CLUSTER_SECRET)?;
    path.map(|path| ClusterSecret::read(&path).map_err(CliError::failed)).transpose()
}

/// Prints the output of a file.
pub fn print(text: &[u8]) {
    let mut out = std::io::stdout();
    // A closed standard output must not stop the server.
    let _ = out.write_all(text).and_then(|()| out.flush());
}

/// Returns the result of the files; a call of `exit` in a file ends the process.
///
/// # Errors
/// Those of the first file that fails.
pub fn loaded<T>(result: Result<T, StartupError>) -> Result<T, CliError> {
    match result {
        Err(StartupError::Exit(code)) => {
            crate::net::outgoing::drain();
            std::process::exit(code)
        }
        other => other.map_err(CliError::failed),
    }
}
