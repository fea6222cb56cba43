//! `elastick config`: checks configuration files, and shows effective values.

use super::{CliError, command_for, settings_of, startup};
use crate::config::file::{self, ConfigFile};
use crate::config::sample::{sample, value};
use crate::config::settings::Source;
use crate::config::{Addresses, OptionSpec, Program, options};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const CHECK: &str = "check";
const SHOW: &str = "show";
const DEFAULTS: &str = "defaults";

pub fn command() -> Command {
    let path = clap::value_parser!(PathBuf);
    let check = Command::new(CHECK)
        .about("Check configuration files: syntax, keys, sections and values, and whether this user can read the files of users, secrets, \
                certificates and logins that they name, not what these contain; names each wrong line, and exits 1 if there is one")
        .arg(Arg::new("files").value_name("FILE").required(true).num_args(1..).value_parser(path.clone()));
    let show = Command::new(SHOW)
        .about("Show every option of a program with its effective value, and where it was set")
        .args_conflicts_with_subcommands(true)
        .arg_required_else_help(true)
        .arg(
            Arg::new(DEFAULTS)
                .long(DEFAULTS)
                .action(ArgAction::SetTrue)
                .help("Print a configuration file with every key of every program as a comment, its meaning and its default"),
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(path)
                .requires(DEFAULTS)
                .help("Set the keys of this file in what --defaults prints"),
        )
        .subcommands(Program::ALL.map(program_command))
        .after_help(
            "The words after the program are those of its own command line. Variables are those of this shell: a service may have others \
             (systemctl show -p Environment UNIT). Passwords in addresses are not shown.",
        );
    Command::new(Program::Config.name())
        .about("Check configuration files, and show the effective value of each option")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([check, show])
        .after_help(
            "Examples:\n  elastick config check /etc/elastick/elastick.toml\n  elastick config show tick --config /etc/elastick/elastick.toml -p \
             5010\n  elastick config show --defaults > elastick.toml",
        )
}

/// The command line of a program, without what only its start needs.
fn program_command(program: Program) -> Command {
    let command = command_for(program).about(format!("Options of elastick {}", program.name()));
    match program {
        Program::Tick => command.arg(startup::argument(3)),
        Program::Rdb => command.arg(startup::argument(2)),
        Program::Fleet => {
            command.arg(Arg::new("command").last(true).num_args(0..).value_parser(clap::value_parser!(OsString)))
        }
        _ => command,
    }
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    match matches.subcommand() {
        Some((CHECK, own)) => check(own),
        Some((SHOW, own)) => match own.subcommand() {
            Some((name, of_program)) => match Program::ALL.into_iter().find(|program| program.name() == name) {
                Some(program) => show(program, of_program),
                None => Err(CliError::Usage(format!("{name} is no program"))),
            },
            None => defaults(own.get_one::<PathBuf>("config").map(PathBuf::as_path)),
        },
        _ => Err(CliError::Usage("which action?".to_string())),
    }
}

fn read(path: &Path) -> Result<ConfigFile, CliError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| CliError::Failed(format!("{}: cannot read it: {error}", path.display())))?;
    Ok(file::check(&text))
}

fn check(matches: &ArgMatches) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    let mut wrong = 0_usize;
    for path in matches.get_many::<PathBuf>("files").into_iter().flatten() {
        let found = read(path)?;
        let named = named(&found);
        wrong = wrong.saturating_add(found.problems.len()).saturating_add(named.unreadable.len());
        for problem in found.problems.iter().map(ToString::to_string).chain(named.unreadable.iter().cloned()) {
            writeln!(out, "{}: {problem}", path.display())?;
        }
        for note in notes(&found) {
            writeln!(out, "{}: {note}", path.display())?;
        }
        if found.problems.is_empty() && named.unreadable.is_empty() {
            let keys = found.entries.len();
            write!(out, "{}: valid, {keys} key{} set", path.display(), if keys == 1 { "" } else { "s" })?;
            if !named.readable.is_empty() {
                write!(out, "; contents not checked of the file of {}", named.readable.join(", "))?;
            }
            writeln!(out)?;
        }
    }
    match wrong {
        0 => Ok(()),
        1 => Err(CliError::Failed("one problem".to_string())),
        _ => Err(CliError::Failed(format!("{wrong} problems"))),
    }
}

/// Options that name a file which a program reads at its start.
const FILES: [&str; 9] = [
    options::USERS.spec.name,
    options::ACCESS.spec.name,
    options::CLUSTER_SECRET.spec.name,
    options::LOGIN_FILE.spec.name,
    options::ALLOW.spec.name,
    options::CALENDAR.spec.name,
    options::TLS_CERT.spec.name,
    options::TLS_KEY.spec.name,
    options::TLS_CA.spec.name,
];

/// The files that a configuration file names.
#[derive(Default)]
struct Named {
    /// Keys whose file can be read.
    readable: Vec<&'static str>,
    /// A line for each file that cannot be read.
    unreadable: Vec<String>,
}

/// Whether a file can be read. A pipe is not opened: that waits for its writer, and what is read from it is gone.
fn readable(path: &str) -> io::Result<()> {
    let kind = std::fs::metadata(path)?;
    if kind.is_file() || kind.is_dir() {
        // A directory can be opened, but not read.
        std::fs::File::open(path).and_then(|mut file| io::Read::read(&mut file, &mut [0]))?;
    }
    Ok(())
}

/// Opens the files that a configuration file names. Their contents are not checked.
fn named(found: &ConfigFile) -> Named {
    let mut named = Named::default();
    for entry in &found.entries {
        let specs = entry.programs().map(|(_, spec)| spec.name);
        let Some(name) = specs.into_iter().find(|name| FILES.contains(name)) else { continue };
        // An empty one is none, and `access` is 1 without a file.
        if entry.text.is_empty() || (name == options::ACCESS.spec.name && entry.text == "1") {
            continue;
        }
        match readable(&entry.text) {
            Ok(()) => named.readable.push(name),
            Err(error) => named
                .unreadable
                .push(format!("line {}: {}: cannot read {}: {error}", entry.line, entry.key, entry.text)),
        }
    }
    named.readable.sort_unstable();
    named.readable.dedup();
    named
}

/// Says which keys at the top set different options of several programs, such as the port of each.
fn notes(found: &ConfigFile) -> Vec<String> {
    let mut notes = Vec::new();
    for entry in found.entries.iter().filter(|entry| entry.section.is_none()) {
        let set: Vec<(Program, &OptionSpec)> = entry.programs().collect();
        let differs = set.iter().any(|(_, spec)| set.iter().any(|(_, other)| other.help != spec.help));
        if differs {
            let names: Vec<&str> = set.iter().map(|(program, _)| program.name()).collect();
            let (key, line) = (&entry.key, entry.line);
            notes.push(format!("note: line {line}: {key} sets an option of its own of each of {}", names.join(", ")));
        }
    }
    notes
}

fn show(program: Program, matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(program, matches)?;
    let mut out = io::stdout().lock();
    writeln!(out, "[{}]", program.name())?;
    for (spec, set) in settings.all().filter(|(spec, _)| !spec.foreign) {
        match set {
            // A file cannot name another one, and what is printed is a file.
            Some((text, source)) if spec.name == options::CONFIG.spec.name => {
                writeln!(out, "# config is {text} ({source})")?
            }
            Some(("", Source::Default)) => writeln!(out, "# {} is not set", spec.name)?,
            Some((text, source)) => {
                writeln!(out, "{:<50} # {source}", format!("{} = {}", spec.name, value(spec, &shown(spec, text))))?
            }
            None => writeln!(out, "# {} is not set", spec.name)?,
        }
    }
    Ok(())
}

/// Hides the passwords of addresses.
fn shown(spec: &OptionSpec, text: &str) -> String {
    let is_address =
        [options::TICKERPLANT.spec.name, options::SERVER.spec.name, options::FLEET.spec.name].contains(&spec.name);
    match text.parse::<Addresses>() {
        Ok(addresses) if is_address && addresses.iter().any(|address| !address.password.is_empty()) => {
            let shown = addresses.iter().map(|address| match address.password.is_empty() {
                true => address.to_string(),
                false => format!("{address}:{}:***", address.user),
            });
            shown.collect::<Vec<_>>().join(",")
        }
        _ => text.to_string(),
    }
}

fn defaults(path: Option<&Path>) -> Result<(), CliError> {
    let entries = match path {
        Some(path) => {
            let found = read(path)?;
            if let Some(problem) = found.problems.first() {
                return Err(CliError::Failed(format!("{}: {problem}", path.display())));
            }
            found.entries
        }
        None => Vec::new(),
    };
    io::stdout().lock().write_all(sample(&entries).as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let spec = &options::TICKERPLANT.spec;
        assert_eq!(shown(spec, "tp1:5010:ann:secret"), "tp1:5010:ann:***");
        assert_eq!(shown(spec, "tp1:5010"), "tp1:5010");
        assert_eq!(shown(spec, "tp1:5010,tp2:5010:ann:secret"), "tp1:5010,tp2:5010:ann:***");
        assert_eq!(shown(&options::FLEET.spec, "tp1:5009:ann:secret"), "tp1:5009:ann:***");
    }

    #[test]
    fn files_that_are_named_are_opened() {
        let text = "users = \"/etc/passwd\"\ncluster-secret-file = \"/no-such/secret\"\naccess = 1\nallow = \"/etc\"\naudit = \"/no-such/audit\"\n";
        let found = file::check(text);
        assert_eq!(found.problems, []);
        let Named { readable, unreadable } = named(&found);
        assert_eq!(readable, ["users"]);
        assert!(
            unreadable[0].starts_with("line 2: cluster-secret-file: cannot read /no-such/secret: "),
            "{unreadable:?}"
        );
        assert!(unreadable[1].starts_with("line 4: allow: cannot read /etc: "), "{unreadable:?}");
        assert_eq!(unreadable.len(), 2);
    }

    #[test]
    fn a_pipe_that_is_named_is_not_waited_for() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert!(readable(&path).is_ok());
    }

    #[test]
    fn every_option_that_names_a_file_is_opened_or_no_file_of_a_start() {
        // Written, or of one run.
        let others = ["config", "audit", "out", "replay", "svg"];
        for spec in options::all().filter(|spec| spec.value == "FILE") {
            assert_ne!(FILES.contains(&spec.name), others.contains(&spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn a_port_for_all_programs_is_noted() {
        let found = file::check("port = 5010\nlimit-outbox = \"1MiB\"\nfleet = \"local\"\n");
        assert_eq!(found.problems, []);
        let notes = notes(&found);
        assert!(notes[0].contains("line 1: port") && notes[0].contains("tick, rdb, fleet, demo"), "{notes:?}");
    }
}
