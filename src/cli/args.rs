//! Builds command lines from the option table, and settings from parsed arguments.

use super::error::CliError;
use crate::config::options::{self, OptionSpec};
use crate::config::{Program, Settings};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Returns a subcommand with every option of the program; the caller adds its description and arguments.
pub fn command_for(program: Program) -> Command {
    command_with(program, program.name(), &|_| true)
}

/// Returns a command with the program's options that `takes` accepts.
pub fn command_with(program: Program, name: &'static str, takes: &dyn Fn(&str) -> bool) -> Command {
    let mut command = Command::new(name);
    for (order, spec) in options::of(program).filter(|spec| takes(spec.name)).enumerate() {
        command = command.arg(argument(spec).display_order(order));
    }
    command
}

fn argument(spec: &'static OptionSpec) -> Arg {
    let mut notes = Vec::new();
    if let Some(default) = spec.default.filter(|default| !default.is_empty()) {
        notes.push(format!("default {default}"));
    }
    notes.push(spec.variable());
    notes.extend(spec.variables.iter().map(|name| name.to_string()));
    let help = format!("{} [{}]", spec.help, notes.join(", "));
    let arg = Arg::new(spec.name).help(help);
    if spec.position > 0 {
        return arg.index(usize::from(spec.position)).value_name(spec.value);
    }
    let arg = arg.long(spec.name).aliases(spec.aliases).action(ArgAction::Set);
    let arg = match spec.letter {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    if spec.value.is_empty() {
        arg.num_args(0..=1).require_equals(true).default_missing_value("true")
    } else if spec.value.contains(' ') && !spec.value.contains('[') {
        // kdb+'s `-c 25 80`.
        arg.num_args(1..=2).value_names(spec.value.split(' '))
    } else {
        arg.value_name(spec.value).allow_negative_numbers(true)
    }
}

/// Returns the effective settings of a program: command line, then environment, then file, then defaults.
pub fn settings_of(program: Program, matches: &ArgMatches) -> Result<Settings, CliError> {
    let flag = |name: &str| {
        let words = matches.try_get_many::<String>(name).ok().flatten()?;
        Some(words.map(String::as_str).collect::<Vec<_>>().join(" "))
    };
    let variable = |name: &str| std::env::var(name).ok();
    Ok(Settings::resolve(program, &flag, &variable, &|path| std::fs::read_to_string(path))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(program: Program, arguments: &[&str]) -> Settings {
        let matches = command_for(program).try_get_matches_from(arguments).unwrap();
        let flag = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned();
        Settings::resolve(program, &flag, &|_| None, &|_| Ok(String::new())).unwrap()
    }

    #[test]
    fn kdb_letters_and_positional_arguments_mean_what_they_mean_there() {
        let line =
            ["tick", "sym", "/data", "-p", "5010", "-t", "100", "-u", "1", "-U", "pw", "-T", "3", "-w", "9", "-b"];
        let tick = settings(Program::Tick, &line);
        assert_eq!(tick.get(&options::SRC).as_deref(), Ok("sym"));
        assert_eq!(tick.get(&options::DIR).unwrap().to_str(), Some("/data"));
        assert_eq!(tick.get(&options::PORT).unwrap().first, 5010);
        assert_eq!(tick.get(&options::TIMER).unwrap().as_millis(), 100);
        assert_eq!(tick.get(&options::QUERY_TIME).unwrap().as_secs(), 3);
        assert_eq!(tick.get(&options::WORKSPACE), Ok(9 << 20));
        assert_eq!(tick.is_on(&options::BLOCK_WRITES), Ok(true));
    }

    #[test]
    fn an_address_may_stand_alone() {
        let rdb = settings(Program::Rdb, &["rdb", "tp1:5010:ann:secret", "-p", "0"]);
        let addresses = rdb.get(&options::TICKERPLANT).unwrap();
        let address = addresses.iter().next().unwrap();
        assert_eq!((address.host.as_str(), address.port, address.user.as_str()), ("tp1", 5010, "ann"));
    }

    #[test]
    fn options_left_out_have_their_defaults() {
        let tick = settings(Program::Tick, &["tick"]);
        assert_eq!(tick.find(&options::DIR), Ok(None));
        assert_eq!(tick.is_on(&options::BLOCK_WRITES), Ok(false));
        assert_eq!(tick.get(&options::PORT).unwrap().first, 5010);
    }
}
